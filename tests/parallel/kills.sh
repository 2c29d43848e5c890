#!/bin/bash
# kills.sh TRIAX [TIMES, 20] - a run of four ranks that saves often and goes on from what it saved; each time one of them is
# killed: the job ends within 10 s, no process is left, and the last checkpoint is whole. Not part of CTest, which kills once.
set -uo pipefail
triax=$(realpath "$1") times=${2:-20}
data=$(cd "$(dirname "$0")/../data" && pwd)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
die() { echo "FAILED: $*" >&2; tail -5 log >&2; exit 1; }
ranks() { pgrep -f -- "^$triax pretrain-gpt .*--save $work/save"; }
for i in $(seq "$times"); do
    timeout 60 mpirun -n 4 "$triax" pretrain-gpt --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 \
        --max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 16 --train-iters 100000 --lr 1e-3 \
        --tokenizer-type NullTokenizer --vocab-size 50257 --data-path "$data/dataset/tiny_text_document" --split 90,5,5 \
        --eval-iters 0 --threads 1 --tensor-model-parallel-size 2 --save-interval 2 --save "$work/save" --load "$work/save" >log 2>&1 &
    job=$!
    sleep "$((2 + RANDOM % 2)).$((RANDOM % 10))"
    victim=$(ranks | shuf -n 1)
    [ -n "$victim" ] || die "nobody to kill"
    began=$(date +%s%N)
    kill -9 "$victim"
    wait $job
    ms=$((($(date +%s%N) - began) / 1000000))
    sleep 0.3
    [ $ms -lt 10000 ] || die "the job ended after $ms ms"
    [ -z "$(ranks)" ] || die "left: $(ranks)"
    last=none
    if [ -e save/latest ]; then
        last=$(cat save/latest)
        "$triax" inspect save --verify >inspect 2>&1 || { cat inspect; die "the last checkpoint is damaged"; }
    fi
    echo "$i: ended after $ms ms, nothing left, last checkpoint $last"
done
[ -e save/latest ] || die "nothing was saved in all that time"
