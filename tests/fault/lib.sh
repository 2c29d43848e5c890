# lib.sh - sourced by the parts of tests/fault. A point is one way to break a run: it gets a copy of a folder of
# checkpoints, breaks the run that goes on from it, looks at what is left and goes on from that.
#
#   BUILD=folder    the build (or TRIAX=its program)        EVERY=k          only each k-th point; by default all
#   JOBS=n          points at a time; by default all cores  EXTRA_FLAGS=...  of pretrain-gpt, in all runs
#   FORMAT=deepspeed                                        --save-format; native by default
#
# A run is of a tiny model that saves every iteration; with one rank it is triax, with more their ranks are threads
# (rank_threads.c). straight/N is the run of N ranks that nothing happens to: whatever is a checkpoint at any time has to
# have the bytes that it has there.
set -uo pipefail
skip() { echo "skipped: $*"; exit 77; }
build=${BUILD:-$(dirname "${TRIAX:-none}")}
[ -x "$build/triax" ] || skip "TRIAX or BUILD does not name a build"
build=$(cd "$build" && pwd)
for program in at_call rank_threads; do [ -x "$build/$program" ] || skip "$program is not built"; done
at_call=$build/at_call triax=$build/triax
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
JOBS=${JOBS:-$(nproc)} EVERY=${EVERY:-1} EXTRA_FLAGS=${EXTRA_FLAGS:-}
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive LC_ALL=C ASAN_OPTIONS=detect_leaks=0
work=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/txfault-XXXXXX")
work=$(cd "$work" && pwd -P)
undo=() # commands that take back what outlives the script
finish() {
    local command
    # shellcheck disable=SC2046
    kill $(jobs -p) 2>/dev/null && wait
    for command in ${undo[@]+"${undo[@]}"}; do eval "$command"; done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
cd "$work"
cp "$source_dir/../data/dataset/tiny_text_document.bin" text.bin
cp "$source_dir/../data/dataset/tiny_text_document.idx" text.idx

"$at_call" --below . true || skip "at_call cannot work here (ptrace, seccomp)"

FORMAT=${FORMAT:-native}
step() { # N: the name of its checkpoint
    case $FORMAT in
    native) printf 'iter_%07d' "$1" ;;
    deepspeed) printf 'global_step%d' "$1" ;;
    esac
}

# ---- runs ----

last=4 # iteration that runs end with
flags=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1
    --global-batch-size 4 --lr 1e-3 --lr-decay-iters 100000 --tokenizer-type NullTokenizer --vocab-size 511
    --data-path "$work/text" --split 8,1,1 --log-interval 1 --eval-interval 1000000 --eval-iters 0 --threads 1
    --save-interval 1 --save-format $FORMAT $EXTRA_FLAGS)
layout() { # RANKS: its flags
    case $1 in
    1) ;;
    4) echo --tensor-model-parallel-size 2 --zero-stage 1 ;;
    8) echo --num-layers 2 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --zero-stage 1 ;;
    *) echo "no layout of $1 ranks" >&2 ;;
    esac
}
# run_of RANKS DIR FLAGS...: in the array `command`, the run that saves to DIR and goes on from there
run_of() {
    local n=$1 dir=$2
    shift 2
    if [ "$n" -eq 1 ]; then
        command=("$triax" pretrain-gpt)
    else
        command=("$build/rank_threads" "$n" --world-size "$n")
    fi
    # shellcheck disable=SC2046
    command+=("${flags[@]}" $(layout "$n") --train-iters "$last" --metrics-file "$PWD/metrics.jsonl"
        --save "$dir" --load "$dir" "$@")
}
# run RANKS DIR FLAGS...: its output is in ./log. breaking ACTION... -- RANKS DIR FLAGS...: the same under at_call,
# from the checkpoint that `begin` has named
run() {
    run_of "$@"
    timeout -k 5 300 "${command[@]}" >log 2>&1 </dev/null
}
breaking() {
    local action=()
    while [ "$1" != -- ]; do action+=("$1"); shift; done
    shift
    run_of "$@" ${tag[@]+"${tag[@]}"}
    timeout -k 5 60 "$at_call" --below "$2" "${action[@]}" "${command[@]}" >log 2>&1 </dev/null
}

# straight RANKS [FLAGS...]: makes straight/RANKS
straight() {
    mkdir -p "$work/straight/$1"
    run "$1" "$work/straight/$1" "${@:2}" || die_of_log "a run that nothing happens to"
}
# first_save LIST: of the calls of a run, those up to the second save's first
first_save() {
    awk '$2 == "mkdir" && $3 == "" && named { exit } { print } $2 == "rename" && $3 ~ "^/latest" { named = 1 }
        END { if (!named) { print "FAILED: at_call sees no save" >"/dev/stderr"; exit 1 } }' "$1"
}

# begin RANKS CASE DIR: DIR as it is before the save that is broken; `before`: the iteration that is acknowledged by then.
# first: nothing is there; next: two checkpoints are; again: a whole run is, and one that goes on from its second checkpoint
# saves the third, which `latest` names, once more
begin() {
    local from=$work/straight/$1
    tag=()
    rm -rf "$3"
    mkdir "$3"
    case $2 in
    first) before=0 ;;
    next)
        before=2
        cp -r "$from/$(step 1)" "$from/$(step 2)" "$3"
        step 2 >"$3/latest"
        [ $FORMAT != native ] || echo >>"$3/latest"
        ;;
    again)
        before=3
        cp -r "$from/." "$3"
        step 3 >"$3/latest"
        [ $FORMAT != native ] || echo >>"$3/latest"
        tag=(--load-tag "$(step 2)")
        ;;
    *) die "there is no case $2" ;;
    esac
}

# ---- what is left ----

die() { echo "FAILED: $*"; exit 1; }
die_of_log() { tail -5 log; die "$@"; }

# as_straight RANKS DIR [OTHER]: every checkpoint of DIR has the bytes of the straight run's, or of folder OTHER's of that name
as_straight() {
    local path name
    for path in "$2"/iter_* "$2"/global_step* "$2"/.old-*; do
        [ -e "$path" ] || continue
        name=${path##*/}
        if [ "$name" != "${name#.old-}" ]; then
            name=${name#.old-}
            [ ! -e "$2/$name" ] || continue # it has been replaced, and is being removed
        fi
        cmp_folders "$path" "$work/straight/$1/$name" || { [ "${3:-}" ] && cmp_folders "$path" "$3/$name"; } ||
            die "${path##*/} is not the straight run's: $(diff -rq "$path" "$work/straight/$1/$name" | head -3)"
    done
}
cmp_folders() { diff -rq "$1" "$2" >/dev/null 2>&1; }

# acknowledged LOG BEFORE: the newest iteration that a run said it has saved; BEFORE: before it began
acknowledged() {
    { echo "$2"; sed -nE 's/.*successfully saved checkpoint at iteration +([0-9]+) .*/\1/p' "$1"; } | sort -n | tail -1
}

loaded() { sed -nE 's/.*successfully loaded checkpoint from .* at iteration ([0-9]+).*/\1/p' "$1" | head -1; }

# goes_on RANKS DIR ACKNOWLEDGED: another run loads that iteration or a later one, ends as the straight run, and leaves
# nothing but checkpoints
goes_on() {
    local loaded
    run "$1" "$2" || die_of_log "the next run fails"
    loaded=$(loaded log)
    [ "${loaded:-0}" -ge "$3" ] || die "iteration $3 was acknowledged, ${loaded:-none} was loaded"
    complete "$1" "$2"
}
complete() { # RANKS DIR
    as_straight "$1" "$2"
    [ "$(cat "$2/latest")" = "$(step $last)" ] && [ -e "$2/$(step $last)" ] || die "the run does not end at iteration $last"
    [ "$(cat "$2/latest_checkpointed_iteration.txt")" = $last ] || die "latest_checkpointed_iteration.txt is not at $last"
    [ -z "$(ls -A "$2" | grep -vE '^(latest|latest_checkpointed_iteration.txt|iter_[0-9]{7}|global_step[0-9]+)$')" ] || die "left behind: $(ls -A "$2" | tr '\n' ' ')"
}

# ---- points ----

# points WHAT: does the lines of standard input, each the words of a call of point(), EVERY-th of them, JOBS at a time; what is
# wrong is told, and a line with the counts
points() {
    local what=$1 worker began=$SECONDS pids=()
    awk -v k="$EVERY" -v day="${TX_TEST_SEED:-0}" 'NR % k == day % k || NR == 1' >"$work/points"
    rm -f "$work"/done.* "$work"/wrong.*
    for worker in $(seq 0 $((JOBS - 1))); do
        mkdir -p "$work/$worker"
        ( cd "$work/$worker" && trap - EXIT INT TERM && worker_of "$worker" ) &
        pids+=($!)
    done
    wait "${pids[@]}"
    local n wrong
    n=$(cat "$work"/done.* 2>/dev/null | wc -l)
    wrong=$(cat "$work"/wrong.* 2>/dev/null | grep -c '^---')
    [ "$wrong" -eq 0 ] || cat "$work"/wrong.* | head -100
    echo "$what: $n points, $wrong failed, $((SECONDS - began)) s"
    if [ "$n" -eq 0 ] || [ "$n" -ne "$(wc -l <"$work/points")" ]; then
        echo "FAILED: $what: $(wc -l <"$work/points") points were to be done"
        failed=1
    fi
    [ "$wrong" -eq 0 ] || failed=1
}
failed=0
worker_of() {
    awk -v n="$JOBS" -v k="$1" 'NR % n == k' "$work/points" >mine
    local line
    ! declare -F prepare_worker >/dev/null || prepare_worker "$1" || return
    while read -r line <&3; do
        # shellcheck disable=SC2086
        if ! ( point $line ) >said 2>&1; then
            { echo "--- $line"; cat said; tail -3 log 2>/dev/null; } >>"$work/wrong.$1"
        fi
        echo "$line" >>"$work/done.$1"
    done 3<mine
}
