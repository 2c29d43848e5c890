#!/bin/bash
# labels: cli resume
# How long a run is and what ends it: samples, tokens, a ramp-up of the batch size, the exits, and what is said then.
. "$(dirname "$0")/lib.sh"

train=(pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --lr 1e-3 --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt"
    --data-path "$data/dataset/tiny_text_document" --split 8,1,1 --log-interval 1 --eval-interval 100 --eval-iters 1
    --save-interval 1000)
iters=("${train[@]}" --global-batch-size 4 --train-iters 100)

said() { grep -qF -- "$1" out || { cat out >&2; die "does not say \"$1\""; }; }
not_said() { ! grep -qF -- "$1" out || { cat out >&2; die "says \"$1\""; }; }
ends_at() { [ "$(losses out | tail -1 | cut -d' ' -f1)" = "$1" ] || { cat out >&2; die "does not end at iteration $1"; }; }

# an exit saves, says why, and leaves the closing evaluation out
ok "${iters[@]}" --exit-interval 7 --save every
ends_at 7
said "[exiting program at iteration 7] datetime: "
not_said "after training is done"
not_said "validation loss"
[ -d every/iter_0000007 ] || die "--exit-interval did not save"
[ "$(grep -n 'successfully saved' out | cut -d: -f1)" -lt "$(grep -n 'exiting program' out | cut -d: -f1)" ] || die "told before it was saved"

ok "${iters[@]}" --kill-switch-file stop --train-iters 3
ends_at 3
: >stop
ok "${iters[@]}" --kill-switch-path stop --save never
said "[Detected kill switch at stop. Exiting] datetime: "
[ ! -e never ] && [ -z "$(losses out)" ] || die "it began with the kill switch there"
rm stop
# without what the run before said
: >out
"$TRIAX" "${iters[@]}" --train-iters 1000000 --kill-switch-file stop --save killed >out 2>err &
pid=$!
for _ in $(seq 400); do grep -q '^ iteration' out && break; sleep 0.05; done
: >stop
wait $pid || die "kill switch: exit $?"
said "Detected kill switch at stop, iteration="
[ -s killed/latest ] || die "the kill switch did not save"


: >out # the job's own redirection may come later than the first look
: >out
"$TRIAX" "${iters[@]}" --train-iters 1000000 --save term >out 2>err &
pid=$!
for _ in $(seq 400); do grep -q '^ iteration' out && break; sleep 0.05; done
kill -TERM $pid
wait $pid || die "SIGTERM: exit $?"
said "[exiting program after receiving SIGTERM.] datetime: "
[ -s term/latest ] || die "SIGTERM did not save"

# tokens: 4 samples of 16 tokens are consumed by an iteration
ok "${iters[@]}" --train-tokens 257
ends_at 5
said "validation loss at iteration 5 on 4-sample draw from validation set"
said "validation loss at iteration 5 on 4-sample draw from test set"

# without --save-interval, as published commands are: said at the start, and saved at the end and on exits alone
short=("${train[@]::${#train[@]}-2}" --global-batch-size 4 --train-iters 4)
ok "${short[@]}" --save plain --tensorboard-dir board --log-dir logs
said "--save plain: without --save-interval the run saves at its end and on exits"
said " > log: standard output and logs/rank_NNNNN.log | checkpoints: plain at the end and on exits | metrics: plain/metrics.jsonl | TensorBoard: board/events.out"
[ "$(ls -d plain/iter_* | xargs)" = plain/iter_0000004 ] || die "without --save-interval: not the last iteration alone"
ok "${short[@]}" --save plain-exits --exit-interval 3 --async-save --metrics-file m.jsonl
said " | checkpoints: plain-exits at the end and on exits | metrics: m.jsonl | TensorBoard: none (no --tensorboard-dir)"
[ "$(ls -d plain-exits/iter_* | xargs)" = plain-exits/iter_0000003 ] || die "without --save-interval: --exit-interval does not save"
ok "${short[@]}" --save plain-exits --load plain-exits
[ -d plain-exits/iter_0000004 ] || die "without --save-interval: a resumed run does not save"
: >out
"$TRIAX" "${short[@]}" --train-iters 1000000 --save plain-term >out 2>err &
pid=$!
for _ in $(seq 400); do grep -q '^ iteration' out && break; sleep 0.05; done
kill -TERM $pid
wait $pid || die "SIGTERM: exit $?"
[ -s plain-term/latest ] || die "without --save-interval: SIGTERM does not save"
ok "${short[@]}"
said " > log: standard output | checkpoints: none (no --save) | metrics: none (no --save or --metrics-file) | TensorBoard: none"
ok "${iters[@]}" --train-iters 2 --save often
said " | checkpoints: often every 1000 iterations and at the end | "
not_said "without --save-interval"

# only evaluation
ok "${iters[@]}" --load every --skip-train
said "skipping training (--skip-train is on) ..."
said "validation loss at iteration 7 on"
[ -z "$(losses out)" ] || die "--skip-train trains"
refused "--eval-only is --skip-train here" "${iters[@]}" --eval-only true

# a ramp-up: batches of 2, 2, 4, 4, 6, 8, 8 ...; 60 samples are 9 iterations; cut in the middle it is the same run
ramp=("${train[@]}" --global-batch-size 8 --rampup-batch-size 2 2 16 --train-samples 60 --lr-warmup-samples 10)
ok "${ramp[@]}" --save straight --log-num-zeros-in-grad
said "will use batch size rampup starting from global batch size 2 to global batch size 8 with batch size increments 2 over 16 samples."
said "setting training iterations to "
sed -nE 's/.*consumed samples: +([0-9]+) .*global batch size: +([0-9]+) .*/\1 \2/p' out >sizes
printf '%s\n' "2 2" "4 2" "6 2" "10 4" "14 4" "20 6" "28 8" "36 8" "44 8" "52 8" "60 8" | diff - sizes || die "other batch sizes"
grep -qE 'grad norm: [0-9.]+ \| num zeros: [0-9]+\.0 \|' out || die "no count of zeros"
ok "${ramp[@]}" --save cut --load cut --exit-interval 5
ok "${ramp[@]}" --save cut --load cut
diff -r straight/iter_0000011 cut/iter_0000011 || die "a resumed ramp-up has another checkpoint"
said "validation loss at iteration 11 on 8-sample draw"

# the schedule of a run that goes on: the same, or a choice
refused "class input value 0.002 and checkpoint value 0.001 for learning rate do not match" "${ramp[@]}" --load cut --lr 2e-3
ok "${ramp[@]}" --load cut --lr 2e-3 --override-opt_param-scheduler --train-samples 68
said " > overriding learning rate value to 0.002"
ok "${ramp[@]}" --load cut --lr 2e-3 --use-checkpoint-opt_param-scheduler --train-samples 68
said " > using checkpoint value 0.001 for learning rate"
