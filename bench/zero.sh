#!/bin/bash
# zero.sh - what ZeRO costs at two data-parallel ranks of one machine, and DeepSpeed on its CPUs beside it (peer): tokens/s.
#   bench/zero.sh TRIAX [124M|10M|LAYERSxHIDDENxHEADSxVOCABULARYxSEQUENCExBATCH] [fp32|bf16] [TURNS, 3] [FLAGS of pretrain-gpt ...]
# 124M: 4 x 1024 tokens a step, 10M: 64 x 256; BATCH is that of both ranks together. libtriax_mpi.so lies beside TRIAX.
#
# Every form is started anew when it is its turn: A B C, C B A, A B C, ... A turn has STEPS steps, of which the first is left
# out. Figures are medians over all turns; "others" is the largest share of the processors that other processes, or other
# machines on the same host, took during one of a form's turns: above 2 %, measure again. "loss" is that of the first and
# the last step; random tokens, small ones more often, so there is something to learn.
#
#   TX_PEER_PYTHON  a Python that has torch and deepspeed; without it triax is measured alone. DeepSpeed gets the same
#                   tokens, batch and threads, DS_ACCELERATOR=cpu, gloo and, if its build works, its own reduction in
#                   shared memory; deepspeed_rank.py says what else. Its first start builds that reduction.
#   FORMS           stages, with +cpu or +nvme for an offloaded optimizer, and parameters at stage 3; "0 1 2 3 1+cpu 3+cpu", and
#                   1+nvme and 3+nvme where NVME is set. 0 is what the others are compared to. DeepSpeed runs those without +
#   NVME            a folder on a local disk
#   STEPS           5
#   THREADS         of a rank, 1
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
triax=$(realpath "${1:?which triax}") size=${2:-124M} dtype=${3:-fp32} turns=${4:-3}
shift $(($# < 4 ? $# : 4))
case $size in
124M) shape=12x768x12x50304x1024x4 ;;
10M) shape=6x320x10x8192x256x64 ;;
*x*x*x*x*x*) shape=$size ;;
*) echo "124M, 10M or LAYERSxHIDDENxHEADSxVOCABULARYxSEQUENCExBATCH, not $size" >&2; exit 2 ;;
esac
case $dtype in
fp32) type= ;;
bf16) type=--bf16 ;;
*) echo "fp32 or bf16, not $dtype" >&2; exit 2 ;;
esac
steps=${STEPS:-5} threads=${THREADS:-1}
forms=${FORMS:-0 1 2 3 1+cpu 3+cpu${NVME:+ 1+nvme 3+nvme}}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_hwloc_base_binding_policy=none
IFS=x read -r layers hidden heads vocab seq batch <<<"$shape"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

peer=${TX_PEER_PYTHON:-}
if [ -z "$peer" ] || ! DS_ACCELERATOR=cpu "$peer" -c 'import deepspeed, numpy' >/dev/null 2>&1; then
    echo "SKIPPED: peer DeepSpeed; set TX_PEER_PYTHON to a Python that has torch and deepspeed"
    peer=
fi

# The tokenizer adds an end of document to the vocabulary, triax pads to a multiple of 128: so both have VOCABULARY rows.
awk -v v=$((vocab < 8000 ? vocab - 1 : 8000)) 'BEGIN { srand(1)
    for (d = 0; d < 100; d++) { printf "{\"text\": \"1"; for (i = 0; i < 2000; i++) printf " %d", rand() ^ 3 * v; print "\"}" } }' >ids.jsonl
"$triax" preprocess-data --input ids.jsonl --output-prefix ids --tokenizer-type NullTokenizer --vocab-size $((vocab - 1)) >log 2>&1 ||
    { cat log >&2; exit 1; }
run="pretrain-gpt --num-layers $layers --hidden-size $hidden --num-attention-heads $heads --seq-length $seq
    --max-position-embeddings $seq --vocab-size $((vocab - 1)) --micro-batch-size $((batch / 2)) --global-batch-size $batch
    --hidden-dropout 0 --attention-dropout 0 --tokenizer-type NullTokenizer --data-path ids_text_document --split 100,0,0
    --train-iters $steps --eval-iters 0 --lr 1e-3 --lr-decay-style constant --log-interval 1 --threads $threads $type"

# flags_of FORM
flags_of() {
    local stage=${1%+*} tier=${1#*+}
    echo "--zero-stage $stage"
    [ "$tier" != "$1" ] || return 0
    for what in optimizer $([ "$stage" != 3 ] || echo param); do
        echo "--offload-$what $tier"
        [ "$tier" != nvme ] || echo "--offload-$what-nvme-path $NVME"
    done
}

# Ticks of the processors, of all and of this shell's children that are through.
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9 }' /proc/stat; }
own() { awk '{ print $16 + $17 }' "/proc/$$/stat"; }

# turn NAME COMMAND...: one turn: the steps' times, the last turn's losses, the share of others. DeepSpeed crashes now and then,
# so what fails is started once more, and what fails twice is left out from then on.
declare -A failed=()
turn() {
    local b o start
    while :; do
        [ "${failed[$1]:-0}" -lt 2 ] || return 0
        b=$(busy) o=$(own) start=$EPOCHREALTIME
        if "${@:2}" >log 2>&1; then break; fi
        failed[$1]=$((${failed[$1]:-0} + 1))
        echo "$1 fails:" >&2
        tail -n 20 log >&2
    done
    failed[$1]=0
    echo $(($(busy) - b - $(own) + o)) "$start" "$EPOCHREALTIME" |
        awk -v t="$(getconf CLK_TCK)" -v p="$(nproc --all)" '{ s = 100 * $1 / t / ($3 - $2) / p; print (s > 0 ? s : 0) }' >>"$1.others"
    sed -nE -e 's/.*elapsed time per iteration \(ms\): ([0-9.]+).* lm loss: ([^ ]+).*/\1 \2/p' \
        -e '/^[0-9.]+ [0-9.]+$/p' log >now
    awk 'NR > 1 { print $1 }' now >>"$1.ms"
    awk 'NR == 1 { printf "%.2f to ", $2 } END { printf "%.2f\n", $2 }' now >"$1.loss"
}
measure() {
    if [ "${1%%-*}" = triax ]; then
        turn "$1" mpirun -n 2 "$triax" $run $(flags_of "${1#*-}") "${flags[@]}"
    else
        DS_ACCELERATOR=cpu OMP_NUM_THREADS=$threads PYTHONDONTWRITEBYTECODE=1 turn "$1" "$peer" -m torch.distributed.run \
            --standalone --nproc_per_node 2 "$here/deepspeed_rank.py" "$shape" "${1#*-}" "$dtype" "$steps" "$threads" ids_text_document.bin
    fi
}

flags=("$@")
names=() backwards=()
for form in $forms; do names+=("triax-$form"); done
for form in $forms; do [ -z "$peer" ] || [[ $form == *+* ]] || names+=("deepspeed-$form"); done
for name in "${names[@]}"; do backwards=("$name" "${backwards[@]}"); done
for ((i = 0; i < turns; i++)); do
    if ((i % 2)); then order=("${backwards[@]}"); else order=("${names[@]}"); fi
    for name in "${order[@]}"; do measure "$name"; done
done

# speed NAME: tokens a second; nothing where it did not run
speed() {
    [ ! -s "$1.ms" ] || sort -n "$1.ms" | awk -v n=$((batch * seq)) '{ a[NR] = $1 } END { printf "%.0f\n", 1000 * n / a[int((NR + 1) / 2)] }'
}
loss() { cat "$1.loss" 2>/dev/null || true; }
others() { [ ! -s "$1.others" ] || sort -n "$1.others" | awk 'END { printf "%.1f %%\n", $1 }'; }
percent() { [ -z "$1" ] || [ -z "$2" ] || awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f %%\n", 100 * a / b }'; }
times() { [ -z "$1" ] || [ -z "$2" ] || awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f\n", a / b }'; }
echo "$size $dtype: 2 data-parallel ranks of $threads thread(s), $((batch * seq)) tokens a step, $turns turns of $steps steps"
row='%-8s %9s %11s  %-14s %7s %10s  %-14s %7s %17s\n'
printf "$row" ZeRO tokens/s "of stage 0" loss others DeepSpeed loss others "triax / DeepSpeed"
base=$(speed triax-0)
for form in $forms; do
    a=$(speed "triax-$form") b=$(speed "deepspeed-$form")
    printf "$row" "$form" "${a:--}" "$(percent "$a" "$base")" "$(loss "triax-$form")" "$(others "triax-$form")" \
        "${b:--}" "$(loss "deepspeed-$form")" "$(others "deepspeed-$form")" "$(times "$a" "$b")"
done
