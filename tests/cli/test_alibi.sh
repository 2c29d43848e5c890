#!/bin/bash
# labels: cli parallel resume
# A GPT with ALiBi on made-up data, as a user types it: --position-embedding-type alibi and --mock-data, on one rank and on
# more, resumed, scored and continued beyond what it was trained on, converted; and what is refused.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"

# 6 heads are no power of two
train=(pretrain-gpt --num-layers 2 --hidden-size 24 --num-attention-heads 6 --seq-length 16 --position-embedding-type alibi
    --micro-batch-size 2 --global-batch-size 8 --lr 2e-3 --lr-decay-style constant --train-iters 6 --hidden-dropout 0.1
    --mock-data --vocab-size 383 --log-interval 1 --eval-iters 1 --eval-interval 100 --threads 1)
numbers() { sed -nE 's/^ iteration +([0-9]+)\/.*lm loss: (\S+) .*grad norm: (\S+) .*/\1 \2 \3/p' out; }
ok "${train[@]}" --save run --save-interval 3
numbers >straight
[ "$(wc -l <straight)" -eq 6 ] || die "$(wc -l <straight) iterations"
grep -q 'number of documents: 100000' out || die "not Megatron Core's documents"

# resumed without a word of the vocabulary or the model
ok pretrain-gpt --load run --load-tag iter_0000003 --mock-data --seq-length 16 --micro-batch-size 2 --global-batch-size 8 --lr 2e-3 \
    --lr-decay-style constant --train-iters 6 --hidden-dropout 0.1 --log-interval 1 --eval-iters 1 --eval-interval 100 --threads 1
numbers >resumed
tail -3 straight | cmp - resumed || die "another run when it is resumed"

# the ranks of a job: each has its own heads' slopes
for layout in "2 --tensor-model-parallel-size 2 --sequence-parallel" "2 --pipeline-model-parallel-size 2"; do
    read -ra flags <<<"$layout"
    all_ranks "${flags[0]}" "$TRIAX" "${train[@]}" "${flags[@]:1}"
    numbers >these
    paste -d' ' straight these | awk '
        function off(a, b) { return a < b ? b / a - 1 : a / b - 1 }
        $1 != $4 || off($2, $5) > 1e-5 || off($3, $6) > 2e-3 { bad = 1 }
        END { exit bad || NR != 6 }' || { paste straight these >&2; die "$layout: other numbers"; }
done

# other samples by another seed, of the same documents
ok inspect-samples --mock-data --vocab-size 383 --seq-length 12 --micro-batch-size 2 --train-iters 2 --num-samples 1
mv out one
ok inspect-samples --mock-data --vocab-size 383 --seq-length 12 --micro-batch-size 2 --train-iters 2 --num-samples 1 --seed 7
! cmp -s one out || die "the same sample by another seed"

# beyond the positions of training
for i in $(seq 1 200); do echo -n "$i "; done >count.txt
ok evaluate --load run --valid-data count.txt --seq-length 100 --json
grep -q '"loss"' out || { cat out; die "no loss of a text that is longer than training's"; }
mv out native.json
ok generate --load run --prompt "1 2 3" --out-seq-length 60 --greedy
[ "$(wc -w <out)" -gt 50 ] || { cat out; die "not 60 tokens behind 16 positions"; }
ok pretrain-gpt --load run --mock-data --seq-length 40 --micro-batch-size 2 --lr 2e-3 --train-iters 8 --override-opt_param-scheduler \
    --eval-iters 0
# BigScience's form; 384 tokens have no padding, which is part of the softmax there
ok convert --to megatron --target-pp 2 run megatron
ok evaluate --load megatron --valid-data count.txt --seq-length 100 --json --tokenizer-type NullTokenizer --vocab-size 383
json_near 1e-5 1e-3 out native.json || die "the converted model scores otherwise"
ok inspect megatron
grep -q 'position_embedding_type *"alibi"' out || { cat out; die "inspect does not say how positions are known"; }
refused "of the nearest, bloom, --embed-layernorm is off, there on" convert --to huggingface run hf
# a folder that PyTorch wrote, with that program's enum in it
cp -r "$data/golden/alibi" theirs
for i in $(seq 1 62); do echo -n "$i "; done >small.txt
ok evaluate --load theirs --valid-data small.txt --seq-length 40 --tokenizer-type NullTokenizer --vocab-size 63
grep -q 'avg loss' out || { cat out; die "a checkpoint of BigScience's cannot be scored"; }

refused "is --position-embedding-type rope, but alibi is given" "${train[@]}" --use-rotary-position-embeddings
refused "--position-embedding-type is learned_absolute, in the checkpoint it is alibi" pretrain-gpt --load run --mock-data \
    --seq-length 16 --micro-batch-size 2 --lr 1 --train-iters 8 --position-embedding-type absolute --max-position-embeddings 16
refused "takes the place of a dataset" "${train[@]}" --data-path text
refused "seq-length 16 is more than --max-position-embeddings 8" "${train[@]}" --max-position-embeddings 8
