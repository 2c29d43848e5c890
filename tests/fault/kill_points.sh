#!/bin/bash
# kill_points.sh [RANKS ...] - a run of 1, 4 and 8 ranks is killed at every system call of a save, writes also when half of
# them is done: of its first save, of a later one, of one that replaces a checkpoint, the one that `latest` names or another,
# and that where names cannot be exchanged.
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- 1 4 8

# begin_case RANKS CASE: ./run as it is before the save; what may be there besides in `other`, at_call's flags in `always`
begin_case() {
    other= always=()
    case $2 in
    replace)
        begin "$1" next run
        other=$work/other/$1
        cp -r "$other/$(step 3)" run
        ;;
    set-aside)
        begin "$1" again run
        always=(--always renameat2 EINVAL)
        ;;
    *) begin "$1" "$2" run ;;
    esac
}

# point RANKS CASE ACTION N
point() {
    begin_case "$1" "$2"
    breaking ${always[@]+"${always[@]}"} --at "$4" "$3" -- "$1" "$PWD/run"
    [ $? -eq 137 ] || die_of_log "was not killed"
    as_straight "$1" run "$other"
    goes_on "$1" "$PWD/run" "$(acknowledged log "$before")"
}

for ranks in "$@"; do
    straight "$ranks"
    mkdir -p "other/$ranks"
    run "$ranks" "$work/other/$ranks" --seed 7 || die "a run of another seed"
    for case in first next replace again set-aside; do
        begin_case "$ranks" $case
        breaking ${always[@]+"${always[@]}"} --list list -- "$ranks" "$work/run" || die_of_log "a run that is only watched"
        first_save list | awk -v ranks="$ranks" -v case=$case '
            $2 ~ /write/ { print ranks, case, "torn", $1 }
            { print ranks, case, "kill", $1 }' >todo
        rm list
        points "kill -9, $ranks ranks, $case" <todo
    done
done
exit $failed
