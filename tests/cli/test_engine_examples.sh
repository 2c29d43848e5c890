#!/bin/bash
# labels: extended cli
# examples/engine, built outside the tree against an installation: the engine comes to the plain loop's losses on 1, 2 and
# 4 ranks with every ZeRO stage and precision; a run that is killed and resumed comes to the same bits.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$TRIAX") source=$(cd "$(dirname "$0")/../.." && pwd)
if nm -D "$build/libtriax.so" | grep ' U __asan' >/dev/null; then # not -q: nm must not die of a closed pipe
    echo "skipped: a client of a sanitized library would have to be sanitized too"
    exit 77
fi
cmake --install "$build" --prefix "$work/usr" >/dev/null
lib=$(dirname "$(find "$work/usr" -name libtriax.so)")
cp -r "$source/examples/engine" by_cmake
cmake -S by_cmake -B programs -DCMAKE_PREFIX_PATH="$work/usr" >out 2>&1 || { cat out >&2; die "cmake of examples/engine"; }
cmake --build programs >out 2>&1 || { cat out >&2; die "examples/engine does not build by cmake"; }
if command -v pkg-config >/dev/null; then
    cp -r "$source/examples/engine" by_make
    PKG_CONFIG_PATH=$lib/pkgconfig make -C by_make CFLAGS="-O2 -Werror -pedantic" >out 2>&1 || { cat out >&2; die "make of examples/engine"; }
else
    echo "left out: there is no pkg-config for examples/engine/Makefile"
fi
models=(classifier char_lm) steps=8

# near BOUND FILE: every step's loss is that of ./plain, within BOUND of it
near() {
    awk -v bound="$1" '$1 != "step" { next }
        NR == FNR { want[$2] = $4; steps++; next }
        { d = $4 - want[$2]; n++; if (!(d <= bound * want[$2] && d >= -bound * want[$2])) bad = bad " " $2 }
        END { if (bad || n != steps || n < 8) { print n " of " steps " steps, too far away:" bad; exit 1 } }' plain "$2"
}

# What one step of bf16 (8 bits) or fp16 (11 bits) rounds to, and a little for what steps add up to.
types=("" "--bf16" "--fp16 --initial-loss-scale 1024") bounds=(2e-6 4e-3 5e-4)
engine=(--steps $steps --threads 1)
for model in "${models[@]}"; do
    programs/${model}_plain --steps $steps >plain
    for i in 0 1 2; do
        read -ra type <<<"${types[i]}"
        programs/${model}_engine "${engine[@]}" "${type[@]}" >out 2>err || { cat err >&2; die "$model ${types[i]}"; }
        near "${bounds[i]}" out || { paste plain out >&2; die "$model ${types[i]}: not the plain loop's losses"; }
    done
done
programs/char_lm_engine "${engine[@]}" --checkpoint-activations >out
near 2e-6 out || die "char_lm --checkpoint-activations: not the plain loop's losses"
programs/classifier_engine --threads 1 >out
awk '/^accuracy/ { n++; good = $2 > 0.85 } END { exit !(good && n == 1) }' out || { tail -3 out >&2; die "the classifier did not learn"; }
programs/classifier_engine --lr -1 >out 2>err && die "a negative learning rate is taken"
grep 'classifier_engine: .*--lr' err >/dev/null || { cat err >&2; die "a negative learning rate is not named"; }

# killed_and_resumed WHAT KILL COMMAND...: KILL PID ends the run that was started in PID; step, loss and client state of the
# resumed run are those of one that was not ended
killed_and_resumed() {
    local what=$1 kill=$2 pid code=0 saved all i
    shift 2
    rm -rf kept
    : >out # without what the run before said
    "$@" --steps 1000000 --every 3 --folder kept >out 2>err </dev/null &
    pid=$!
    for i in $(seq 600); do
        [ -e kept/latest ] && [ "$(grep -c '^step' out)" -ge 7 ] && break
        sleep 0.1
    done
    [ -e kept/latest ] || { cat err >&2; die "$what: no checkpoint"; }
    $kill $pid
    wait $pid || code=$?
    [ $code -ne 0 ] || die "$what: was not killed"
    "$@" --steps 0 --folder kept >out 2>err || { cat err >&2; die "$what: loading"; }
    saved=$(ls -d kept/iter_* | sort | tail -1)
    saved=$((10#${saved##*_}))
    [ "$saved" -ge 6 ] || die "$what: iteration $saved was saved last"
    all=$((saved + 4))
    "$@" --steps $all >whole 2>err || { cat err >&2; die "$what: without an end"; }
    "$@" --steps $all --folder kept >resumed 2>err || { cat err >&2; die "$what: resuming"; }
    [ "$(grep -c '^step' resumed)" -le 7 ] || die "$what: was not resumed but begun again"
    diff <(grep '^step' whole | tail -3) <(grep '^step' resumed | tail -3) || die "$what: not the same when resumed"
}
kill_program() { kill -9 "$1"; }
for model in "${models[@]}"; do
    killed_and_resumed "$model" kill_program programs/${model}_engine --threads 1
done
"$TRIAX" inspect kept >out || die "triax inspect of a client's checkpoint"
grep 'client_model *"char-lm"' out >/dev/null || { cat out >&2; die "triax inspect does not name the client's model"; }
"$TRIAX" convert --to huggingface kept hf >out 2>err && die "a client's model was converted"
grep 'is of the model char-lm, which only the program that trains it knows' err >/dev/null || { cat err >&2; die "convert says something else"; }
programs/char_lm_engine --help >out
grep -e '--zero-stage' out >/dev/null || die "--help lacks the engine's options"

. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/mpi.sh"
for model in "${models[@]}"; do
    programs/${model}_plain --steps $steps >plain
    for i in 0 1 2; do
        read -ra type <<<"${types[i]}"
        for how in "2 1" "2 2" "4 0" "4 3"; do
            read -r n stage <<<"$how"
            all_ranks $n programs/${model}_engine "${engine[@]}" "${type[@]}" --zero-stage $stage
            near "${bounds[i]}" out || { paste plain out >&2; die "$model on $n ranks, stage $stage ${types[i]}"; }
        done
    done
done
all_ranks 4 programs/char_lm_engine "${engine[@]}" --pipeline-model-parallel-size 2 --zero-stage 1 --checkpoint-activations
near 2e-6 out || { paste plain out >&2; die "char_lm in a pipeline"; }
kill_rank() { # PID of timeout: a rank of its mpirun
    local mpirun rank last=""
    mpirun=$(cat /proc/"$1"/task/*/children)
    for rank in $(cat /proc/"${mpirun% }"/task/*/children); do
        [ "$(cat "/proc/$rank/comm")" = char_lm_engine ] && last=$rank
    done
    kill -9 "$last"
}
killed_and_resumed "char_lm on 2 ranks" kill_rank timeout -k 5 120 mpirun -n 2 programs/char_lm_engine --threads 1 --zero-stage 3
echo "all passed"
