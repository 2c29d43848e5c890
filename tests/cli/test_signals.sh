#!/bin/bash
# labels: cli resume fault
# SIGINT, SIGTERM, SIGHUP and SIGUSR1 to a run alone: the first one saves and ends it, a second one ends it at once; before the first
# step, in an evaluation, with and without --save. test_signals_ranks.sh: under launchers.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
. "$here/signals.sh"

said() { grep -qF -- "$1" out err || { tail out err >&2; die "does not say \"$1\""; }; }
not_said() { ! grep -qF -- "$1" out err || { tail out err >&2; die "says \"$1\""; }; }

# the checkpoint is that of the last iteration, and the run goes on from it as if nothing had been
for signal in INT TERM HUP USR1; do
    starts "$TRIAX" "${run[@]}" --save $signal
    comes out '^ iteration'
    kill -$signal $pid
    ends 0
    again='; a second signal ends it at once'
    [ $signal != USR1 ] || again=
    [ "$(cat err)" = "warning: SIG$signal: the run saves and ends after this iteration$again" ] || { cat err >&2; die "other words"; }
    said "[exiting program after receiving SIG$signal.] datetime: "
    at=$(last_iteration)
    [ "$(cat $signal/latest)" = "$(printf 'iter_%07d' "$at")" ] || die "SIG$signal did not save iteration $at"
    ok "${run[@]}" --save $signal --load $signal --exit-interval $((at + 3))
    losses out | head -1 | grep -q "^$((at + 1)) " || die "does not go on behind iteration $at"
done
ok "${run[@]}" --save straight --save-interval $at --exit-interval $((at + 3))
for i in $at $((at + 3)); do
    diff -r {straight,USR1}/iter_"$(printf %07d "$i")" || die "a run that a signal has cut has another checkpoint of iteration $i"
done

# without --save it says so; flags of upstream's are taken
starts "$TRIAX" "${run[@]}" --exit-signal-handler
comes out '^ iteration'
kill -INT $pid
ends 0
said "warning: SIGINT: the run ends after this iteration and saves nothing, for there is no --save; a second signal ends it at once"
said "--exit-signal-handler: accepted, without effect here: SIGINT, SIGTERM, SIGHUP and SIGUSR1 "

# nobody reads its lines any more: a terminal's Ctrl-C has ended tee, and may be slower here
code=0
"$TRIAX" "${run[@]}" --save piped 2>err | sed '/^ iteration/q' >out || code=${PIPESTATUS[0]}
[ $code -eq 1 ] || die "no reader: exit code $code, not 1"
said "warning: SIGPIPE: the run saves and ends after this iteration"
said "triax pretrain-gpt: cannot write to standard output"
[ -s piped/latest ] || die "a run that nobody reads does not save"

# what is ignored stays so
starts bash -c 'trap "" INT; exec "$@"' ignoring "$TRIAX" "${run[@]}" --save ignoring
comes out '^ iteration'
kill -INT $pid
kill -TERM $pid
ends 0
said "[exiting program after receiving SIGTERM.] datetime: "

# an iteration that takes minutes: a second signal does not wait for it, and the checkpoint before stays as it was
ok "${run[@]}" --train-iters 2 --save long
long=("${run[@]}" --save long --load long --global-batch-size 200000 --train-iters 4 --override-opt_param-scheduler)
cp -r long before
for signal in INT TERM; do
    starts "$TRIAX" "${long[@]}"
    comes out '^training'
    kill -$signal $pid
    comes err "SIG$signal: the run saves and ends after this iteration; a second signal ends it at once"
    kill -$signal $pid
    ends $((128 + $(kill -l $signal)))
    diff -r -x metrics.jsonl before long || die "a second SIG$signal changes what was saved"
done
starts "$TRIAX" "${long[@]}" # SIGUSR1 comes from machines, more than once
comes out '^training'
for i in 1 2; do kill -USR1 $pid; done
comes err 'SIGUSR1: the run saves and ends after this iteration$'
kill -USR1 $pid
while kill -INT $pid 2>/dev/null; do sleep 0.05; done # within a second it is the same wish
ends 130

# an evaluation that takes minutes ends; those that come after a resumed run's are as if it had not been cut
evals=("${run[@]}" --train-iters 4 --eval-interval 2 --eval-iters 100000 --save evals)
starts "$TRIAX" "${evals[@]}"
comes out '^ iteration +2/'
kill -TERM $pid
ends 0
said "a signal has come: no evaluation at iteration 2"
not_said "validation loss"
[ "$(cat evals/latest)" = iter_0000002 ] || die "not saved behind an evaluation"
grep -q '"consumed_valid_samples": *400000' evals/iter_0000002/manifest.json || die "the evaluation that was cut is not counted"

# the closing evaluation, after everything is saved
starts "$TRIAX" "${evals[@]}" --eval-interval 100 --train-iters 3 --save closing
comes out 'successfully saved'
kill -INT $pid
ends 0
said "a signal has come: no evaluation at iteration 3 on "

# before the first step there is nothing to save, and the checkpoint that it goes on from stays
mkfifo pipe
starts "$TRIAX" "${run[@]}" --save long --load long --train-iters 4 --override-opt_param-scheduler --vocab-file pipe
comes out '^> building GPT2BPETokenizer tokenizer'
kill -INT $pid
ends 130
[ "$(cat err)" = "warning: SIGINT: no iteration is trained yet, so there is nothing to save; the run ends at once" ] || { cat err >&2; die "other words in the setup"; }
diff -r -x metrics.jsonl before long || die "a signal before the first step writes"
echo "all passed"
