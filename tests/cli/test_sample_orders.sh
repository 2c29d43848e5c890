#!/bin/bash
# labels: extended cli golden resume
# The order of samples by flags: Megatron's index files, exact epochs, weighted splits, and keyed order with a blend that
# changes in mid-run.
. "$(dirname "$0")/lib.sh"
whole=$data/dataset/tiny_text_document
index=(--train-doc-idx-path "$data/dataset/microsoft_doc_idx.npy" --train-sample-idx-path "$data/dataset/microsoft_sample_idx.npy"
    --train-shuffle-idx-path "$data/dataset/microsoft_shuffle_idx.npy")

# Megatron's own files give what is computed
show=(--seq-length 64 --micro-batch-size 16 --train-samples 64 --eval-iters 3 --seed 1234 --split 949,50,1 --num-samples 6000)
ok inspect-samples "${show[@]}" --data-path "$whole"
mv out computed
[ "$(wc -l <computed)" -eq 5544 ] || die "$(wc -l <computed) samples"
ok inspect-samples "${show[@]}" --data-path "$whole" "${index[@]}"
cmp out computed || die "the files say something else"
ok inspect-samples "${show[@]}" --data-path "$whole" "${index[@]}" --train-desc-path x.dsc --data-cache-path y --return-data-index --sample-rate 1.0
cmp out computed
# ... and are what is read: with two samples in each other's place
{ head -c 128 "$data/dataset/microsoft_shuffle_idx.npy"
  head -c 136 "$data/dataset/microsoft_shuffle_idx.npy" | tail -c 8 | { head -c 4 >first; cat; cat first; }
  tail -c +137 "$data/dataset/microsoft_shuffle_idx.npy"; } >turned.npy
ok inspect-samples "${show[@]}" --data-path "$whole" "${index[@]:0:4}" --train-shuffle-idx-path turned.npy
{ sed -n 2p computed; sed -n 1p computed; sed -n '3,$p' computed; } | sed -E 's/^\{"sample":[0-9]+/{/' >want
sed -E 's/^\{"sample":[0-9]+/{/' out | cmp - want || die "the order of the file is not taken"
refused "give all three" inspect-samples "${show[@]}" --data-path "$whole" "${index[@]:0:4}"
refused "the index of one dataset" inspect-samples "${show[@]}" --data-path 1 "$whole" 1 "$whole" "${index[@]}"
refused "made for another dataset or" inspect-samples "${show[@]}" --seq-length 32 --data-path "$whole" "${index[@]}"
refused "made for another dataset or" inspect-samples "${show[@]}" --split 9,1,0 --data-path "$whole" "${index[@]}"
refused "has 5544 samples, the run needs 6400" inspect-samples "${show[@]}" --train-samples 6400 --data-path "$whole" "${index[@]}"
sed "s/'<u4'/'<f8'/" "$data/dataset/microsoft_shuffle_idx.npy" >float.npy
refused "holds numbers of type '<f8'" inspect-samples "${show[@]}" --data-path "$whole" "${index[@]:0:4}" --train-shuffle-idx-path float.npy

# exact epochs: as many as are needed change nothing, others are refused
ok inspect-samples "${show[@]}" --data-path "$whole" --train-data-exact-num-epochs 1
cmp out computed
refused "--train-data-exact-num-epochs 3" inspect-samples "${show[@]}" --data-path "$whole" --train-data-exact-num-epochs 3
refused "has no index" inspect-samples "${show[@]}" --data-path "$whole" --data-order keyed --train-data-exact-num-epochs 1

# a folder before the prefixes
ok inspect-samples "${show[@]}" --data-path tiny_text_document --aml-data-download-path "$data/dataset"
cmp out computed

# weighted splits: a range is what --split gives to training
ok inspect-samples "${show[@]}" --split 95,5,0 --data-path "$whole"
mv out by_split
short=("${show[@]:0:10}" --num-samples 6000)
ok inspect-samples "${short[@]}" --train-weighted-split-paths "T: 0.5 0:0.95 $whole"
ungrouped() { sed 's/"group":"T",//' out; }
ungrouped | cmp - by_split || die "a range is not a split"
printf '"T: 0.5 0:0.95 %s"\n' "$whole" >groups
ok inspect-samples "${short[@]}" --train-weighted-split-paths-path groups
ungrouped | cmp - by_split
refused "mutually exclusive" inspect-samples "${show[@]}" --data-path "$whole" --train-weighted-split-paths "T: 1 0:1 $whole"
refused "is no range" inspect-samples "${short[@]}" --train-weighted-split-paths "T: 1 0:2 $whole"
refused "training has one group" inspect-samples "${short[@]}" --train-weighted-split-paths "T: 1 0:1 a" "U: 1 0:1 b"
refused "give one of the two" inspect-samples "${short[@]}" --train-weighted-split-paths "T: 1 0:1 a" --train-weighted-split-paths-path groups
refused "stands before the prefixes of --data-path" inspect-samples "${short[@]}" --train-weighted-split-paths-path groups \
    --aml-data-download-path x
refused "need --train-weighted-split-paths" inspect-samples "${short[@]}" --valid-weighted-split-paths "V: 1 0:1 $whole"

# several groups are evaluated one by one, under their names
model=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --lr 1e-3
    --tokenizer-type NullTokenizer --vocab-size 511 --micro-batch-size 4 --global-batch-size 4 --seed 5 --log-interval 1)
ok pretrain-gpt "${model[@]}" --train-iters 2 --eval-iters 1 --eval-interval 1 \
    --train-weighted-split-paths "T: 0.7 0:0.5 $whole, 0.3 0.5:0.8 $whole" \
    --valid-weighted-split-paths "EARLY: 1 0.8:0.9 $whole" "LATE: 1 0.9:1 $whole" --test-weighted-split-paths "X: 1 0:1 $whole"
for name in EARLY LATE; do
    [ "$(grep -c " $name loss at iteration [12] | lm loss value" out err | awk -F: '{ n += $2 } END { print n }')" -eq 2 ] ||
        die "no $name: $(cat out err)"
done
grep -q " X loss at iteration 2 on 4-sample draw from test set" out err || die "no test: $(cat out err)"
ok inspect-samples "${model[@]:0:8}" --micro-batch-size 4 --train-iters 2 --eval-split valid --num-samples 1 \
    --train-weighted-split-paths "T: 1 0:0.5 $whole" --valid-weighted-split-paths "EARLY: 1 0.8:0.9 $whole" "LATE: 1 0.9:1 $whole"
grep -q '"group":"EARLY"' out && grep -q '"group":"LATE"' out && [ "$(wc -l <out)" -eq 2 ] || die "$(cat out)"

# keyed: all of an epoch once, another order by another seed
keyed=("${show[@]}" --data-path "$whole" --data-order keyed)
ok inspect-samples "${keyed[@]}"
mv out first
starts() { sed -E 's/^\{"sample":[0-9]+,"pieces":\[\{"document":([0-9]+),"offset":([0-9]+).*/\1 \2/' "$1"; }
[ "$(starts first | sort -u | wc -l)" -eq 5544 ] || die "not every sample once"
starts computed | sort >megatrons
ok inspect-samples "${keyed[@]}" --seed 1235
starts out | cmp -s - <(starts first) && die "the seed does not matter"
starts out | sort | cmp - <(starts first | sort) || die "seeds have other samples"
ok inspect-samples "${keyed[@]}" --stats
grep -q '"never":' out || die "$(cat out)"
refused "would repeat them" inspect-samples "${keyed[@]}" --seq-length 300000

# a run whose blend changes is the run that had it so; what it reads never comes twice
run=(pretrain-gpt "${model[@]}" --data-order keyed --split 1,0,0 --eval-iters 0 --train-iters 8 --save-interval 2)
head -n 100 "$data/tiny/tiny-corpus.jsonl" >1.jsonl
tail -n +101 "$data/tiny/tiny-corpus.jsonl" >2.jsonl
for i in 1 2; do
    ok preprocess-data --input $i.jsonl --output-prefix part$i --vocab-file "$data/tiny/tiny-vocab.json" \
        --merge-file "$data/tiny/tiny-merges.txt" --append-eod
done
a=part1_text_document b=part2_text_document
ok "${run[@]}" --data-path 0.5 $a 0.5 $b --save whole
cat out err >log; losses log | tail -n 4 >want
ok "${run[@]}" --data-path 0.5 $a 0.5 $b --save cut --exit-interval 4
ok "${run[@]}" --data-path 0.5 $a 0.5 $b --load cut --save cut
cat out err >log; losses log >got
cmp got want || die "going on reads other samples: $(cat got want)"
cmp whole/iter_0000008/shard_00000.safetensors cut/iter_0000008/shard_00000.safetensors || die "other weights"
ok "${run[@]}" --data-path 0.5 $a 0.5 $b --save changed --exit-interval 4
ok "${run[@]}" --data-path 0.25 $b 0.75 $a --load changed --save changed
cat out err >log
grep -q "the blend changes at sample 16 of the run:" log || die "$(cat log)"
grep -q "dataset 0, weight 0.25: from its sample 8 on" log || die "$(cat log)"
grep -q "dataset 1, weight 0.75: from its sample 8 on" log || die "$(cat log)"
grep -q '"blend_phase"' changed/iter_0000008/manifest.json || die "the phase is not kept"
losses log | cmp -s - want && die "the blend did not change"
# ... also when more is consumed than the run as it is told now would read
ok "${run[@]}" --data-path 0.5 $a 0.5 $b --load changed --train-iters 10 --override-lr-scheduler --micro-batch-size 1 --global-batch-size 1
grep -q "the blend changes at sample 32 of the run:" out err || die "$(cat out err)"
ok "${run[@]}" --data-path 0.5 $a 0.5 $b --load changed --train-iters 10 --override-lr-scheduler --data-order microsoft
grep -q "32 samples came in keyed order" out err || die "$(cat out err)"
refused "use --dataloader-type single" "${run[@]}" --data-path $a --dataloader-type cyclic
echo "all passed"
