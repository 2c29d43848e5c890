#!/bin/bash
# labels: cli golden parallel resume
# Sampling by difficulty: the files of analyze-data are DeepSpeed's, by one rank and by three; runs that draw from them have the same
# batches with two ranks and after a checkpoint; what is refused.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
gpt=(--data-path "$data/dataset/tiny_text_document" --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt"
    --split 949,50,1 --seq-length 512 --make-vocab-size-divisible-by 8)
bert=(--analyzing-data-type BERT --data-path "$data/dataset/tinybert_text_document" --vocab-file "$data/tiny/tiny-bert-vocab.txt"
    --split 949,50,1 --seq-length 64 --make-vocab-size-divisible-by 8)
common="total_vocab_freq vocab_rarity"

same_as_deepspeed() {
    (cd "$1" && sha256sum --quiet -c "$data/golden/metrics/SHA256SUMS") || die "$1: files that are not DeepSpeed's"
    [ "$(find "$1" -type f | wc -l)" -eq "$(wc -l <"$data/golden/metrics/SHA256SUMS")" ] || die "$1 has other files: $(find "$1")"
}
ok analyze-data "${gpt[@]}" --analyzing-metric $common --save one/gpt
grep -q '^Metric vocab_rarity 50th percentile: ' out || die "no percentiles"
ok analyze-data "${bert[@]}" --analyzing-metric $common seqlen seqlen_vocab_rarity --save one/bert
same_as_deepspeed one
ok torchrun --nproc_per_node 3 analyze-data "${gpt[@]}" --analyzing-metric $common --save three/gpt
ok torchrun --nproc_per_node 3 analyze-data "${bert[@]}" --analyzing-metric total_vocab_freq --save three/bert
ok torchrun --nproc_per_node 2 analyze-data "${bert[@]}" --analyzing-metric vocab_rarity seqlen seqlen_vocab_rarity --save three/bert
same_as_deepspeed three

refused "analyze-data needs --analyzing-metric" analyze-data "${gpt[@]}" --save x
refused "analyze-data needs --save" analyze-data "${gpt[@]}" --analyzing-metric vocab_rarity
refused "there are total_vocab_freq, vocab_rarity, seqlen" analyze-data "${gpt[@]}" --save x --analyzing-metric rarity
refused "GPT data has fixed seqlen" analyze-data "${gpt[@]}" --save x --analyzing-metric seqlen
refused "first need to analyze the total vocab freq" analyze-data "${gpt[@]}" --save x --analyzing-metric vocab_rarity
refused "is of a vocabulary of 513, and this one has 577" analyze-data "${gpt[@]}" --make-vocab-size-divisible-by 64 --pad-vocab-size-to 576 \
    --save one/gpt --analyzing-metric vocab_rarity

# ---- training
metrics() { # NAME SUFFIX TYPE MIN MAX
    echo "{\"vocab_rarity\":{\"index_to_sample_path\":\"$work/$1/vocab_rarity/vocab_rarity_index_to_sample$2\",\"index_to_metric_path\":\"$work/$1/vocab_rarity/vocab_rarity_index_to_metric\",\"difficulty_type\":\"$3\",\"clustering_type\":\"schedule_based\",\"min_difficulty\":$4,\"max_difficulty\":$5,\"schedule_type\":\"fixed_linear\",\"schedule_config\":{\"total_curriculum_step\":6,\"difficulty_step\":1}}}"
}
ok analyze-data "${gpt[@]}" --seq-length 16 --analyzing-metric $common --save short
run=(pretrain-gpt "${gpt[@]}" --seq-length 16 --max-position-embeddings 16 --num-layers 2 --hidden-size 32 --num-attention-heads 4
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-2 --log-interval 1 --eval-iters 0 --threads 1 --log-level trace
    --data-efficiency-curriculum-learning)
drawn() { grep -o 'data: micro-batch of .*' out; }
for type in value percentile; do
    case $type in
    value) of=$(metrics short "" value 60 200) ;;
    percentile) of=$(metrics short _percentile_merged percentile 5 100) ;;
    esac
    ok "${run[@]}" --curriculum-metrics "$of" --data-cluster-path "$work/clusters" --train-iters 6
    drawn >all
    losses out >all_losses
    [ "$(wc -l <all)" -eq 24 ] || die "not 4 micro-batches in each of 6 iterations"
    grep -q 'curriculum seqlen:    16 |' out || die "no curriculum seqlen in the log"
    [ -z "$(ls clusters)" ] || die "files are left in --data-cluster-path: $(ls clusters)"
    ok torchrun --nproc_per_node 2 "${run[@]}" --curriculum-metrics "$of" --train-iters 6
    drawn >half
    [ "$(wc -l <half)" -eq 12 ] || die "rank 0 of 2 has not 2 micro-batches in each iteration"
    grep -vxF -f all half >others && die "two ranks draw others: $(head -n 3 others)"
    ok torchrun --nproc_per_node 2 "${run[@]}" --curriculum-metrics "$of" --train-iters 6 --pipeline-model-parallel-size 2
    drawn | cmp - all || die "the stages of a pipeline draw others"
    ok "${run[@]}" --curriculum-metrics "$of" --train-iters 6 --exit-interval 3 --save part
    ok "${run[@]}" --curriculum-metrics "$of" --train-iters 6 --load part
    drawn >rest
    tail -n 12 all | cmp - rest || die "a resumed run draws others"
    tail -n 3 all_losses >want
    losses out | cmp - want || die "a resumed run has other losses"
    rm -rf part
done
refused "is of 22177 samples, and" "${run[@]}" --curriculum-metrics "$(metrics short "" value 60 200)" --train-iters 6 --split 90,9,1
refused "takes \"difficulty_type\": \"percentile\"" "${run[@]}" --train-iters 6 --seq-length 512 \
    --max-position-embeddings 512 --curriculum-metrics "$(metrics one/gpt _percentile_merged value 60 200)"
refused "nothere/vocab_rarity/vocab_rarity_index_to_sample.idx: no such file" "${run[@]}" --train-iters 6 \
    --curriculum-metrics "$(metrics nothere "" value 60 200)"
refused "no sample is easy enough for iteration 1" "${run[@]}" --train-iters 6 --curriculum-metrics "$(metrics short "" value 1 200)"

# a BERT's samples, the shortest tenth first: value 64 is all of them
lengths='{"seqlen":{"index_to_sample_path":"one/bert/seqlen/seqlen_index_to_sample","index_to_metric_path":"one/bert/seqlen/seqlen_index_to_metric","difficulty_type":"value","clustering_type":"schedule_based","min_difficulty":24,"max_difficulty":64,"schedule_type":"fixed_root","schedule_config":{"total_curriculum_step":4,"difficulty_step":8,"root_degree":2}}}'
ok pretrain-bert "${bert[@]:2}" --max-position-embeddings 64 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --eval-iters 0 \
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-2 --log-interval 1 --threads 1 --train-iters 4 \
    --data-efficiency-curriculum-learning --curriculum-metrics "$lengths"
[ "$(losses out | wc -l)" -eq 4 ] || die "a BERT does not train"
refused "a BERT's samples are not cut" pretrain-bert "${bert[@]:2}" --max-position-embeddings 64 --num-layers 2 --hidden-size 32 \
    --num-attention-heads 4 --micro-batch-size 2 --lr 1e-2 --train-iters 4 --data-efficiency-curriculum-learning --curriculum-metrics "$lengths" \
    --curriculum-schedule fixed_linear --curriculum-min-difficulty 8 --curriculum-max-difficulty 16 --curriculum-total-step 4 \
    --curriculum-difficulty-step 8

# ---- lengths that grow, in the log as Megatron-DeepSpeed writes them
grows=(--curriculum-schedule fixed_linear --curriculum-min-difficulty 4 --curriculum-max-difficulty 16 --curriculum-total-step 4
    --curriculum-difficulty-step 4 --log-dialect megatron-deepspeed)
ok "${run[@]}" --curriculum-metrics {} "${grows[@]}" --train-iters 4
grep -q '^warning: .*--curriculum-difficulty-step 4: lengths that are no multiple of 8' err || die "no warning"
grep -oE 'curriculum seqlen: +[0-9]+ \| actual seqlen: +[0-9]+ \|' out >lengths || die "no lengths in the log"
printf 'curriculum seqlen: %5d | actual seqlen: %5d |\n' 4 4 8 8 12 12 16 16 >want
sed -i 's/^.*\(curriculum seqlen.*\)/\1/' lengths
cmp lengths want || { cat lengths >&2; die "other lengths"; }
echo "passed"
