#!/bin/bash
# labels: cli parallel resume fault
# The signals of test_signals.sh to two ranks, under triax torchrun, triax deepspeed and mpirun; and to ranks of a command that has
# nothing to save.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
. "$here/mpi.sh"
. "$here/signals.sh"

said() { grep -qxF -- "$1" err || { tail out >&2; cat err >&2; die "does not say \"$1\""; }; }
told() { said "warning: SIG$1: the ranks are told to stop; what still runs after 120 s (--grace) is ended, and a second signal ends all at once"; }
saved_last() {
    at=$(last_iteration)
    [ "$(cat "$1/latest")" = "$(printf 'iter_%07d' "$at")" ] || die "$1 did not save iteration $at"
}
# What of a job is left, whose command line names its folder; the kernel may take a moment to end what was killed.
none_left() {
    local i
    for i in $(seq 200); do
        grep -laF "$work/$1" /proc/[0-9]*/cmdline >left 2>/dev/null || true # 2 also where another process has just ended
        [ -s left ] || return 0
        sleep 0.05
    done
    die "left over: $(cat left)"
}

# the first signal, to the launcher
for how in "torchrun --nproc_per_node 2" "torchrun --nproc_per_node 1" "deepspeed --num_gpus 2"; do
    for signal in INT TERM USR1; do
        folder=$work/${how%% *}${how##* }$signal
        starts "$TRIAX" $how pretrain_gpt.py "${run[@]:1}" --save "$folder"
        comes out '^ iteration'
        kill -$signal $pid
        ends 0
        [ $signal = USR1 ] || told $signal
        said "warning: SIGUSR1: the run saves and ends after this iteration"
        [ "$(grep -c . err)" -eq $((1 + ($(kill -l $signal) != 10))) ] || { cat err >&2; die "$how says more"; }
        saved_last "$folder"
    done
done

# which goes on as if nothing had been
ok deepspeed --num_gpus 2 pretrain_gpt.py "${run[@]:1}" --save "$folder" --load "$folder" --exit-interval $((at + 2))
ok deepspeed --num_gpus 2 pretrain_gpt.py "${run[@]:1}" --save straight --save-interval $at --exit-interval $((at + 2))
for i in $at $((at + 2)); do
    diff -r {straight,"$folder"}/iter_"$(printf %07d "$i")" || die "a run that a signal has cut has another checkpoint of iteration $i"
done

# mpirun hands on SIGUSR1; one of its ranks is enough
starts mpirun -n 2 "$TRIAX" "${run[@]}" --save "$work/handed"
comes out '^ iteration'
kill -USR1 $pid
ends 0
said "warning: SIGUSR1: the run saves and ends after this iteration"
saved_last handed
for signal in INT TERM; do
    starts mpirun -n 2 "$TRIAX" "${run[@]}" --save "$work/one$signal"
    comes out '^ iteration'
    for rank in $(grep -laF "$work/one$signal" /proc/[0-9]*/cmdline 2>/dev/null); do
        rank=${rank#/proc/}
        rank=${rank%/cmdline}
        ! grep -qzx OMPI_COMM_WORLD_RANK=1 "/proc/$rank/environ" 2>/dev/null || kill -$signal "$rank"
    done
    ends 0
    grep -qF "[exiting program after receiving SIG$signal.] datetime: " out || die "SIG$signal to a rank is not told"
    saved_last one$signal
done

# an evaluation that takes minutes ends on all of them, whichever the signal has reached first
starts "$TRIAX" torchrun --nproc_per_node 2 pretrain_gpt.py "${run[@]:1}" --train-iters 4 --eval-interval 2 --eval-iters 100000 \
    --save "$work/evals"
comes out '^ iteration +2/'
kill -TERM $pid
ends 0
grep -qF "a signal has come: no evaluation at iteration 2" out || die "an evaluation goes on"
saved_last evals

# a second one, in an iteration that takes minutes: nothing is left, and the checkpoint before stays as it was
ok "${run[@]}" --train-iters 2 --save long
cp -r long before
for how in "torchrun --nproc_per_node 2" "torchrun --nproc_per_node 1" "deepspeed --num_gpus 2"; do
    starts "$TRIAX" $how pretrain_gpt.py "${run[@]:1}" --save "$work/long" --load long --global-batch-size 200000 --train-iters 4 \
        --override-opt_param-scheduler
    comes out '^training'
    kill -INT $pid
    comes err 'SIGUSR1: the run saves and ends after this iteration'
    kill -TERM $pid
    ends 130
    none_left long
    told INT
    diff -r -x metrics.jsonl before long || die "$how: a second signal changes what was saved"
done

# before the first step: one rank or two end at once, and mpirun's own words are not shown
mkfifo pipe
for n in 1 2; do
    starts "$TRIAX" torchrun --nproc_per_node $n pretrain_gpt.py "${run[@]:1}" --save "$work/setup" --vocab-file pipe
    comes out '^> building'
    kill -INT $pid
    ends 130
    none_left setup
    told INT
    ! grep -q mpirun err || { cat err >&2; die "what mpirun says of its ranks is shown"; }
done

# those that have nothing to save
for how in "torchrun --nproc_per_node 2" "torchrun --nproc_per_node 1"; do
    starts "$TRIAX" $how generate --load "$data/golden/generation/model" --vocab-file "$data/tiny/tiny-vocab.json" \
        --merge-file "$data/tiny/tiny-merges.txt" --tensor-model-parallel-size ${how##* } --genfile "$work/texts" --num-samples 100000
    comes err '^> building'
    kill -INT $pid
    ends 130
    none_left texts
    said "warning: SIGINT: generate has nothing to save; its ranks end at once"
    ! grep -qE 'mpirun|signal 15|^error' err || { cat err >&2; die "generate: more than that is said"; }
done
echo "all passed"
