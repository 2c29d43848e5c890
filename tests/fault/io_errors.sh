#!/bin/bash
# io_errors.sh [RANKS ...] - at every system call of a save of 1 and 4 ranks: EIO, ENOSPC (also from that call on without an
# end), EINTR, and writes that write half. An error that passes costs a checkpoint at most: the run goes on, and its next save
# succeeds. With one that stays the run ends and says which file it is about; the checkpoints before stay as they are, and after
# the next save nothing is left behind. EINTR and short writes are no errors: the run goes on. One rank also, as root, on disks
# that are really full: of space, and of files.
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- 1 4

# ended CODE RANKS DIR ACTION SAVES: what a run that met an error came to. SAVES: no, or the case of an
# error that passed: another save came after it
ended() {
    local code=$1 saves=$5
    shift
    if [ "$code" -ne 0 ]; then
        case $3 in EINTR | short) die_of_log "$3 ends the run" ;; esac
        [ "$saves" = no ] || die_of_log "one error ends the run"
        [ "$code" -eq 1 ] || die_of_log "exit $code, not 0 or 1"
        grep -E '^(triax pretrain-gpt|error): ' log | grep -qF -- "${2%/*}" || die_of_log "no message that names a file"
    else
        [ "$saves" = no ] || complete "$1" "$2"
        [ "$(cat "$2/latest")" = "$(step $last)" ] || die "the run does not end at iteration $last"
    fi
    as_straight "$1" "$2"
    goes_on "$1" "$2" "$(acknowledged log "$before")"
}

# point RANKS CASE ACTION N [TIMES], or: full SIZE FILES
point() {
    if [ "$1" = full ]; then
        full "$2" "$3"
        return
    fi
    local code=0 saves=no
    begin "$1" "$2" "$PWD/run"
    breaking ${5:+--for "$5"} --at "$4" "$3" -- "$1" "$PWD/run" || code=$?
    [ "${5:-}" ] || saves=$2
    ended "$code" "$1" "$PWD/run" "$3" $saves
}

# A disk of so many KB, so many files: what does not fit ends the run, and then there is room.
full() {
    local disk=$work/full.${PWD##*/} code=0
    mkdir -p "$disk"
    mount -t tmpfs -o "size=$1k,nr_inodes=$2" tmpfs "$disk" || die "no tmpfs"
    (
        begin 1 next "$disk/run"
        run 1 "$disk/run" || code=$?
        mount -o "remount,size=16m,nr_inodes=1000" "$disk"
        [ $code -ne 0 ] || echo fits >>"$work/fits"
        ended "$code" 1 "$disk/run" ENOSPC no
    )
    code=$?
    umount "$disk"
    return $code
}
undo=('for disk in "$work"/full.*; do mountpoint -q "$disk" && { umount "$disk" || umount -l "$disk"; }; done')

for ranks in "$@"; do
    straight "$ranks"
    for case in next again; do
        begin "$ranks" $case "$work/run"
        breaking --list list -- "$ranks" "$work/run" || die_of_log "a run that is only watched"
        first_save list | awk -v ranks="$ranks" -v case=$case '
            { print ranks, case, "EIO", $1; print ranks, case, "ENOSPC", $1; print ranks, case, "EINTR", $1
              print ranks, case, "EIO", $1, 0; print ranks, case, "ENOSPC", $1, 0 }
            $2 ~ /write/ { print ranks, case, "short", $1; print ranks, case, "short", $1, 0 }' >todo
        rm list
        points "errors, $ranks ranks, $case" <todo
    done
done

[ -e straight/1 ] || exit $failed # full disks are one rank's
mkdir -p full.test
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=1m tmpfs full.test 2>mount; then
    umount full.test
    {
        for size in $(seq 460 40 1600); do echo "full $size 1000"; done
        for files in $(seq 9 24); do echo "full 16000 $files"; done
    } | points "full disks"
    touch "$work/fits"
    echo "  on $(wc -l <"$work/fits") of them the run had room"
else
    echo "skipped: full disks (a tmpfs of its own needs root)"
fi
exit $failed
