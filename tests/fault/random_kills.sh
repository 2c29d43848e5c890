#!/bin/bash
# random_kills.sh [KILLS, 210 [ITERATIONS, 100]] - runs of 1, 4 and 8 ranks that save every iteration are killed a random time
# after the training has begun, and go on, and are killed again; at the end they begin anew.
. "$(dirname "$0")/lib.sh"
kills=${1:-210}
last=${2:-100}

# point RANKS NUMBER
point() {
    local dir=$PWD/run-$1 ack=0 from newest path
    mkdir -p "$dir"
    [ ! -e "ack-$1" ] || ack=$(cat "ack-$1")
    if [ "$ack" -eq $last ]; then
        rm -r "$dir"
        mkdir "$dir"
        ack=0
    fi
    run_of "$1" "$dir"
    : >log
    "${command[@]}" >>log 2>&1 </dev/null &
    until grep -q 'before the start of training' log || ! kill -0 $! 2>/dev/null; do sleep 0.01; done
    sleep "0.$(printf %03d $((RANDOM % 400)))"
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    from=$(loaded log)
    [ "${from:-0}" -ge "$ack" ] || die_of_log "iteration $ack was acknowledged, ${from:-none} was loaded"
    as_straight "$1" "$dir"
    ack=$(acknowledged log "$ack")
    echo "$ack" >"ack-$1"
    [ "$ack" -eq 0 ] || newest=$(cat "$dir/latest") || die "there is no latest"
    [ "$ack" -eq 0 ] || [ "$((10#${newest#iter_}))" -ge "$ack" ] || die "iteration $ack was acknowledged, latest is $newest"
    for path in "$dir"/iter_*; do # room
        [ ! -e "$path" ] || [ "$((10#${path##*iter_}))" -ge $((ack - 1)) ] || rm -r "$path"
    done
    echo "$1 $ack" >>"$work/reached.$(basename "$PWD")"
}

for ranks in 1 4 8; do straight $ranks; done
for i in $(seq $((kills / 3))); do printf '%s\n' "1 $i" "4 $i" "8 $i"; done | points "kill -9, 1, 4 and 8 ranks, random instants"
last_of() { awk -v n="$1" '$1 == n && $2 > m { m = $2 } END { print m + 0 }' "$work"/reached.*; }
echo "  iterations reached: $(last_of 1), $(last_of 4), $(last_of 8)"
# and to the end
for dir in "$work"/[0-9]*/run-*; do
    ( cd "${dir%/*}" && run "${dir##*-}" "$dir" && as_straight "${dir##*-}" "$dir" ) ||
        { echo "FAILED: ${dir##*-} ranks do not end as a run that is not killed"; failed=1; }
done
exit $failed
