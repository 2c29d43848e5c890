#!/bin/bash
# labels: cli extended
# plan --search for a model with 175 billion parameters on 1,024 ranks: ten layouts that fit, the first no slower than a
# well-known one.
. "$(dirname "$0")/lib.sh"

run=(--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048 --bf16
    --global-batch-size 1536 --machine a100-80g)
# value NAME: of ./out
value() { json_values out | awk -v name="1.$1" '$1 == name { print $2; found = 1 } END { exit !found }' || die "no $1"; }

start=$SECONDS
ok plan "${run[@]}" --world-size 1024 --search --json
echo "$(value layouts) layouts, $(value planned) planned, in $((SECONDS - start)) s"
best=$(value search.0.iteration_s) tenth=$(value search.9.iteration_s)
for i in $(seq 0 9); do
    [ "$(value "search.$i.memory_bytes")" -le $((96 * 80 * 1073741824 / 100)) ] || die "layout $i does not fit"
done
ok plan "${run[@]}" --world-size 1024 --json --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 \
    --num-layers-per-virtual-pipeline-stage 1 --sequence-parallel --recompute-activations --micro-batch-size 1 --zero-stage 1
[ "$(value fits)" = true ] || die "the known layout does not fit"
known=$(value time.iteration_s)
awk "BEGIN { exit !($best <= $tenth && $best <= $known) }" || die "best $best s, tenth $tenth s, the known layout $known s"
