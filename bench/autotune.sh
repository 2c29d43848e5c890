#!/bin/bash
# autotune.sh - how near to the fastest layout triax deepspeed --autotuning gets: it tunes a small model on 2 and on 4 ranks of
# this machine, then measures every layout there is, and tells how much longer the tuner's choice takes than the best of all.
#   bench/autotune.sh TRIAX [DIR, a new one] [LAYERSxHIDDENxHEADSxSEQUENCExBATCH, 4x256x4x128x8] [RANKS ..., 2 4]
# libtriax_mpi.so lies beside TRIAX. DIR keeps machine.json and what was measured: a second call goes on from there.
#
#   TRIALS   8: layouts that the tuner may measure
#   GRID     100000: layouts that are measured at most to know the best
#   STEPS    10: the last iteration of a trial; those from the third on are measured
#   THREADS  of a rank, 1
#
# "choice" is what the tuner has chosen, "best" the fastest of all. Of a layout the least of what both calls have measured counts: each
# has looked at its best ones three times.
set -euo pipefail
triax=$(realpath "${1:?which triax}") dir=${2:-$(mktemp -d)} shape=${3:-4x256x4x128x8}
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- 2 4
IFS=x read -r layers hidden heads seq batch <<<"$shape"
[ "${batch:-}" ] || { echo "LAYERSxHIDDENxHEADSxSEQUENCExBATCH, not $shape" >&2; exit 2; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
mkdir -p "$dir"
cd "$dir"

run=(pretrain-gpt --num-layers "$layers" --hidden-size "$hidden" --num-attention-heads "$heads" --seq-length "$seq"
    --max-position-embeddings "$seq" --micro-batch-size 1 --global-batch-size "$batch" --train-iters 1000 --lr 1e-4
    --mock-data --vocab-size 8191 --threads "${THREADS:-1}")
[ -e machine.json ] || "$triax" doctor --machine-file machine.json >doctor.log

# tune RANKS NAME SETTINGS: the folder is RANKS-NAME
tune() {
    mkdir -p "$1-$2/autotuning_results"
    cp machine.json "$1-$2/autotuning_results"
    printf '{"autotuning": {"end_profile_step": %s, %s}}\n' "${STEPS:-10}" "$3" >"$1-$2/ds.json"
    (cd "$1-$2" && "$triax" deepspeed --num_gpus "$1" --autotuning tune "${run[@]}" --deepspeed_config ds.json >log 2>err) ||
        { cat "$1-$2/log" "$1-$2/err" >&2; exit 1; }
}
# the rows of a table that were measured: name and milliseconds
rows() { sed -nE 's/^\| (z[^ ]*) +\|[^|]*\| +([0-9.]+) \|.*/\1 \2/p' "$1/autotuning_results/summary.txt"; }
both() { { rows "$1-tuned" && rows "$1-grid"; } | sort -n -k 2; }

for ranks in "$@"; do
    tune "$ranks" tuned "\"tuner_num_trials\": ${TRIALS:-8}"
    tune "$ranks" grid "\"tuner_type\": \"gridsearch\", \"tuner_num_trials\": ${GRID:-100000}, \"tuner_early_stopping\": 100000"
    choice=$(rows "$ranks-tuned" | head -n 1 | cut -d ' ' -f 1)
    read -r best least < <(both "$ranks" | head -n 1)
    took=$(both "$ranks" | awk -v name="$choice" '$1 == name { print $2; exit }')
    awk -v ranks="$ranks" -v choice="$choice" -v took="$took" -v best="$best" -v least="$least" -v n="$(rows "$ranks-tuned" | wc -l)" \
        -v all="$(rows "$ranks-grid" | wc -l)" 'BEGIN {
        printf "%d ranks: choice %s %.1f ms after %d trials; best %s %.1f ms of %d layouts; %+.1f %%\n", ranks, choice, took, n, best, least,
            all, 100 * (took / least - 1) }'
done
echo "tables: $PWD/*/autotuning_results/summary.txt"
