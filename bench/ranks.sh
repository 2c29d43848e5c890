#!/bin/bash
# ranks.sh - what ranks cost on one machine: one rank with two threads, two data-parallel and two tensor-parallel ranks with
# one thread each, the same global batch, in turns; medians of the iterations' times and their ratios.
# FORMS=ring ulysses gather, beside or in place of "data tensor sequence", are two ranks that divide each sample's positions.
#   bench/ranks.sh TRIAX [124M|10M|LAYERSxHIDDENxHEADSxVOCABULARYxSEQUENCExBATCH] [TURNS, 3] [FLAGS of pretrain-gpt ...]
# 124M: 4 x 1024 tokens an iteration, 10M: 64 x 256; BATCH is that of all ranks together. The first iteration of each turn is left out.
set -euo pipefail
triax=$(realpath "$1") size=${2:-124M} turns=${3:-3}
shift $(($# < 3 ? $# : 3))
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_hwloc_base_binding_policy=none
case $size in
124M) shape=12x768x12x50257x1024x4 iterations=4 ;;
10M) shape=6x320x10x8192x256x64 iterations=5 ;;
*x*x*x*x*x*) shape=$size iterations=4 ;;
*) echo "124M, 10M or LAYERSxHIDDENxHEADSxVOCABULARYxSEQUENCExBATCH, not $size" >&2; exit 2 ;;
esac
IFS=x read -r layers hidden heads vocab seq batch <<<"$shape"
run="pretrain-gpt --num-layers $layers --hidden-size $hidden --num-attention-heads $heads --seq-length $seq
    --max-position-embeddings $seq --vocab-size $vocab --micro-batch-size $(((batch + 1) / 2)) --global-batch-size $batch --tokenizer-type NullTokenizer --data-path ids_text_document --split 100,0,0
    --train-iters $iterations --eval-iters 0 --lr 1e-4 --log-interval 1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
awk -v v=$((vocab < 8000 ? vocab : 8000)) 'BEGIN { srand(1)
    for (d = 0; d < 100; d++) { printf "{\"text\": \"1"; for (i = 0; i < 2000; i++) printf " %d", rand() * v; print "\"}" } }' >ids.jsonl
"$triax" preprocess-data --input ids.jsonl --output-prefix ids --tokenizer-type NullTokenizer --vocab-size "$vocab" >log 2>&1 ||
    { cat log >&2; exit 1; }
# turn NAME COMMAND...: the times of a run's iterations but the first
turn() {
    "${@:2}" >log 2>&1 || { cat log >&2; exit 1; }
    grep -oE 'elapsed time per iteration \(ms\): [0-9.]+' log | awk 'NR > 1 {print $NF}' >>"$1"
}
declare -A flags=([data]="" [tensor]="--tensor-model-parallel-size 2" [sequence]="--tensor-model-parallel-size 2 --sequence-parallel"
    [ring]="--context-parallel-size 2" [ulysses]="--ds-sequence-parallel-size 2" [gather]="--context-parallel-size 2 --cp-comm-type allgather")
forms=${FORMS:-data tensor sequence}
for _ in $(seq "$turns"); do
    turn one "$triax" $run --threads 2 "$@"
    for form in $forms; do turn "$form" mpirun -n 2 "$triax" $run --threads 1 ${flags[$form]} "$@"; done
done
median() { sort -n "$1" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
base=$(median one)
for form in one $forms; do
    awk -v f=$form -v m="$(median $form)" -v b="$base" 'BEGIN { printf "%-10s %9.1f ms an iteration  %5.1f %% of the speed of one\n", f, m, 100 * b / m }'
done
