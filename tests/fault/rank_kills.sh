#!/bin/bash
# rank_kills.sh [POINTS, 60] - ranks are processes that mpirun has started; one of 4, or of 8, is killed at a system call of a
# save, and the others go on until they are ended. The calls are spread over the save, so that each rank has its turn.
. "$(dirname "$0")/lib.sh"
. "$source_dir/../cli/mpi.sh"

# The runs of this script are mpirun's; those that nothing happens to are threads', as everywhere.
run_of() { # RANKS DIR FLAGS...
    local n=$1 dir=$2
    shift 2
    # shellcheck disable=SC2046
    command=(mpirun -n "$n" "$triax" pretrain-gpt "${flags[@]}" $(layout "$n") --train-iters "$last"
        --metrics-file "$PWD/metrics.jsonl" --save "$dir" --load "$dir" "$@")
}

# point RANKS N
point() {
    begin "$1" next "$PWD/run"
    breaking --at "$2" kill-one -- "$1" "$PWD/run" && die "a rank was killed, and the job succeeds"
    grep -q 'signal 9' log || die_of_log "no rank was killed"
    as_straight "$1" "$PWD/run"
    goes_on "$1" "$PWD/run" "$(acknowledged log "$before")"
}

for ranks in 4 8; do
    straight $ranks
    begin $ranks next "$work/run"
    breaking --list list -- $ranks "$work/run" || die_of_log "a run that is only watched"
    first_save list >calls
    awk -v words=$ranks -v n="$(wc -l <calls)" -v wanted=$((${1:-60} / 2)) \
        'int(NR * wanted / n) != int((NR - 1) * wanted / n) { print words, $1 }' calls |
        points "one rank of $ranks killed, mpirun"
    rm list
done
exit $failed
