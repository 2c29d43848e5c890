#!/bin/bash
# power_loss.sh FILESYSTEM [RANKS ...] - the same as kill_points.sh, but that the file system, ext4 or xfs on a loop device,
# is shut down at the system call as if the power had gone, unmounted and mounted: what was not fsynced is lost. Twice, with
# and without the journal that was in memory: with it, names outlive the bytes of their files. In front of that a look at
# whether this is any proof: the same run whose calls of fsync do nothing must lose what it said it has saved. Needs root.
. "$(dirname "$0")/lib.sh"
filesystem=${1:?usage: power_loss.sh ext4|xfs [RANKS ...]}
shift
[ $# -gt 0 ] || set -- 1 4 8
[ "$(id -u)" -eq 0 ] || skip "mounting needs root"
PATH=$PATH:/usr/sbin:/sbin
command -v "mkfs.$filesystem" >/dev/null || skip "there is no mkfs.$filesystem (e2fsprogs, xfsprogs)"

# Each of those that work at the same time has a disk.
make_disk() { # FOLDER
    case $filesystem in
    ext4) truncate -s 64M "$1.image" && mkfs.ext4 -q -F "$1.image" ;;
    xfs) truncate -s 320M "$1.image" && mkfs.xfs -q "$1.image" ;;
    esac >mkfs 2>&1 || { tail -3 mkfs; return 1; }
    mkdir -p "$1" && mount_disk "$1"
}
mount_disk() { mount -t "$filesystem" -o loop "$1.image" "$1"; }
undo=('for disk in "$work"/disk.*; do mountpoint -q "$disk" && { umount "$disk" || umount -l "$disk"; }; done')
make_disk "$work/disk.0" || skip "no $filesystem on a loop device here"
for i in $(seq 1 $((JOBS - 1))); do make_disk "$work/disk.$i" || die "a second disk"; done

begin_on_disk() { # RANKS CASE DIR
    begin "$@"
    sync -f "$3"
}

# lose_power DIR FLAGS... -- RANKS
lose_power() {
    local disk=${1%/*} code=0
    breaking "${@:2:$#-2}" "${@: -1}" "$1" || code=$?
    umount "$disk" && mount_disk "$disk" || die "$disk does not mount again"
    [ $code -eq 137 ] && ! grep -q 'cannot shut' log || die_of_log "the power was not lost"
}

# point RANKS CASE MODE N
point() {
    local dir=$work/disk.${PWD##*/}/run ack
    begin_on_disk "$1" "$2" "$dir"
    lose_power "$dir" ${lies[@]+"${lies[@]}"} --at "$4" power "$3" -- "$1"
    ack=$(acknowledged log "$before")
    as_straight "$1" "$dir"
    goes_on "$1" "$dir" "$ack"
}

# With `latest` named twice: the calls behind the first save's last are those of a moment at which it is acknowledged.
calls() { # RANKS CASE FILE
    begin_on_disk "$1" "$2" "$work/disk.0/run"
    breaking --list list -- "$1" "$work/disk.0/run" || die_of_log "a run that is only watched"
    first_save list >"$3"
    [ "$(wc -l <list)" -eq "$(wc -l <"$3")" ] || sed -n "$(($(wc -l <"$3") + 1))p" list >>"$3"
    rm list
}

straight 1
calls 1 next todo
after=$(tail -1 todo)
after=${after%% *}
mkdir -p 0
caught=0
for mode in nolog log; do
    lies=(--always fsync 0 --always fdatasync 0)
    ( cd 0 && point 1 next $mode "$after" ) >said 2>&1 || true
    noticed=$(sed -n 's/^FAILED: //p' said)
    echo "power loss on $filesystem, $mode, a program that does not fsync: ${noticed:-is not noticed}"
    ! grep -qE 'was acknowledged|not the straight run' said || caught=$((caught + 1))
done
lies=()
[ $caught -eq 2 ] || die "a program that does not fsync loses nothing: this test proves nothing"

for ranks in "$@"; do
    [ "$ranks" -eq 1 ] || straight "$ranks"
    for case in next again; do
        calls "$ranks" $case todo
        for mode in nolog log; do
            awk -v words="$ranks $case $mode" '{ print words, $1 }' todo |
                points "power loss on $filesystem, $ranks ranks, $case, $mode"
        done
    done
done
exit $failed
