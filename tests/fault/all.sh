#!/bin/bash
# all.sh BUILD [PART ...] - every way to break a save that tests/fault has, and a table of what came of it; CTest has a sample of
# each (label fault). All parts take some twenty minutes on two cores; with names only those are run, and the table has also
# what BUILD/fault remembers of the others. JOBS, EVERY and EXTRA_FLAGS as in lib.sh: EVERY=1 takes really every point.
set -uo pipefail
export BUILD=${1:?usage: all.sh BUILD [PART ...]}
BUILD=$(cd "$BUILD" && pwd) || exit 1
shift
here=$(cd "$(dirname "$0")" && pwd)
memory=$BUILD/fault
mkdir -p "$memory"
every=${EVERY:-}

parts=(kill-1 kill-4 kill-8 random ranks power-ext4 power-xfs errors-1 errors-4 flips)
# part NAME: runs it
part() {
    case $1 in
    kill-[14]) EVERY=${every:-1} bash "$here/kill_points.sh" "${1#kill-}" ;;
    kill-8) EVERY=${every:-3} bash "$here/kill_points.sh" 8 ;;
    random) EVERY=1 bash "$here/random_kills.sh" 210 ;;
    ranks) EVERY=1 TRIAX=$BUILD/triax TX_DATA=$here/../data bash "$here/rank_kills.sh" 60 ;;
    power-*)
        EVERY=${every:-2} bash "$here/power_loss.sh" "${1#power-}" 1 &&
            EVERY=${every:-6} bash "$here/power_loss.sh" "${1#power-}" 4 8
        ;;
    errors-1) EVERY=${every:-2} bash "$here/io_errors.sh" 1 ;;
    errors-4) EVERY=${every:-6} bash "$here/io_errors.sh" 4 ;;
    flips) TX_FLIPS=12000 OMP_NUM_THREADS=1 "$BUILD/test_flipped_bits" ;;
    *) echo "there is no part $1: ${parts[*]}"; return 2 ;;
    esac
}

what_of() {
    case $1 in
    kill-*) echo "kill -9 at system calls of a save, ${1#kill-} ranks" ;;
    random) echo "kill -9 at random instants, 1, 4, 8 ranks" ;;
    ranks) echo "kill -9 of one process of 4, of 8 (mpirun)" ;;
    power-*) echo "power loss, ${1#power-}, 1, 4, 8 ranks" ;;
    errors-*) echo "EIO ENOSPC EINTR short full, ${1#errors-} ranks" ;;
    flips) echo "flipped bits" ;;
    esac
}

# row NAME: of the table
row() {
    [ -e "$memory/$1" ] || { printf '%-50s %8s %8s %7s  %s\n' "$(what_of "$1")" - - - "not run"; return; }
    sed -nE 's/.*: ([0-9]+) points, ([0-9]+) failed(, ([0-9]+) s)?.*/\1 \2 \4/p' "$memory/$1" |
        awk -v what="$(what_of "$1")" -v end="$(tail -1 "$memory/$1")" '
            { n += $1; bad += $2; s += $3 }
            END { printf "%-50s %8d %8d %7d  %s\n", what, n, bad, s, end }'
}

code=0
[ $# -gt 0 ] || set -- "${parts[@]}"
for name in "$@"; do
    echo "== $name"
    part "$name" >"$memory/$name.running" 2>&1
    case $? in
    0) end=passed ;;
    77) end="$(tail -1 "$memory/$name.running")" ;;
    *) end=FAILED code=1 ;;
    esac
    cat "$memory/$name.running"
    echo "$end" >>"$memory/$name.running"
    mv "$memory/$name.running" "$memory/$name"
done
echo
printf '%-50s %8s %8s %7s\n' "" points failed seconds
for name in "${parts[@]}"; do row "$name"; done
exit $code
