#!/bin/bash
# labels: cli fault
# --async-save, --keep-last, signals, and what --load takes: the newest good one, a tag, a shape that differs.
. "$(dirname "$0")/lib.sh"

for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
run=(pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --tokenizer-type NullTokenizer --vocab-size 511 --data-path text
    --split 1,0,0 --log-interval 1 --eval-iters 0 --threads 1)
said() { grep -qF -- "$1" out err || { cat out err >&2; die "does not say \"$1\""; }; }
folders() { [ "$(cd "$1" && echo iter_*)" = "$2" ] || die "$1 holds $(ls "$1")"; }

# beside the steps or not: the same bytes; --keep-last leaves the newest
ok "${run[@]}" --train-iters 9 --save stops --save-interval 2
ok "${run[@]}" --train-iters 9 --save goes --save-interval 2 --async-save --keep-last 2
said "    saved copy "
said "beside the steps"
folders goes "iter_0000008 iter_0000009"
for i in 8 9; do diff -r stops/iter_000000$i goes/iter_000000$i || die "another checkpoint $i"; done
ok plan "${run[@]:1}" --train-iters 9 --async-save --json
grep -q '"saved_copy": *[1-9]' out || die "no copy in the plan"
refused "--async-save needs --save" "${run[@]}" --train-iters 9 --async-save
refused "of it the copy for --async-save" "${run[@]}" --train-iters 9 --async-save --save x --save-interval 2 --memory-limit 100K

# a run at its end saves nothing again, and what goes on from it does
stamps() { stat -c '%n %i %Y' "$1"/*/* "$1"/latest; }
stamps goes >before
ok "${run[@]}" --train-iters 9 --save goes --save-interval 2 --load goes
said "goes/iter_0000009 is at iteration 9, and --train-iters is 9: nothing is left to train; raise --train-iters to go on"
stamps goes | diff before - || die "the last checkpoint was saved again"
cp -r goes more
ok "${run[@]}" --train-iters 10 --save more --save-interval 2 --load more --override-opt_param-scheduler
folders more "iter_0000008 iter_0000009 iter_0000010"

# a disk that is too small is named before the first step
if mkdir small && mount -t tmpfs -o size=1500k none small 2>/dev/null; then
    trap 'umount -l "$work/small" 2>/dev/null || true; rm -rf "$work"' EXIT
    "$TRIAX" "${run[@]}" --train-iters 9 --save small/run --save-interval 1 --max-failed-saves 9 >out 2>&1 || true
    sed '/before the start of training step/q' out | grep -q '^warning: --save small/run: a checkpoint takes 0.1 MB, 9 more than now will lie there (all of them stay), 1\.[0-9] MB, and 1\.[0-9] MB are free: ' ||
        { cat out >&2; die "not said before the first step"; }
    rm -r small/run
    ok "${run[@]}" --train-iters 9 --save small/run --save-interval 1 --keep-last 1
    ! grep -q 'a checkpoint takes' err || die "two checkpoints have room"
    umount small
fi

# a save that fails is a warning, as many in a row as allowed
mkdir -p fails/latest
none="no save of this run has succeeded yet"
refused "--max-failed-saves 1: 2 saves in a row failed, the last one that of iteration 4; $none: fails/" \
    "${run[@]}" --train-iters 9 --save fails --save-interval 2 --max-failed-saves 1
said "iteration 2 was never saved, 1 attempt failed; the run goes on, and $none"
[ "$(losses out | tail -1 | cut -d' ' -f1)" = 4 ] || die "it did not end at iteration 4"
rm -rf fails/iter_*
refused "iteration 2 is not saved, 4 attempts failed; $none: fails/" \
    "${run[@]}" --train-iters 2 --save fails --save-interval 2
rmdir fails/latest

# a line of the log whose interval was cut, in the log and in the metrics file
log_of() {
    losses out >"$1"
    sed -nE 's/.*"kind":"step".*("iteration":[0-9]+).*("loss":[^,]*).*("skipped":[0-9]+,"nan":[0-9]+).*/\1 \2 \3/p' "$1.jsonl" >>"$1"
}
cut=("${run[@]}" --log-interval 4 --train-iters 8 --save-interval 100 --metrics-file)
ok "${cut[@]}" whole.jsonl --save cut_whole
log_of whole
ok "${cut[@]}" first.jsonl --save cut --exit-interval 6
ok "${cut[@]}" second.jsonl --save cut --load cut
log_of second
[ "$(wc -l <whole)" -eq 4 ] || die "not two lines in the log and in the file: $(cat whole)"
diff <(sed -n '2p;4p' whole) second || die "a resumed run logs another line"
diff -r cut_whole/iter_0000008 cut/iter_0000008 || die "another checkpoint"

# a metrics file that there is no room for: one warning until a shorter line has room again, whole lines, and the run goes on
blocks=$(($(head -1 whole.jsonl | wc -c) / 1024 + 2))
(trap '' XFSZ; ulimit -f $blocks; "$TRIAX" "${run[@]}" --train-iters 40 --metrics-file short.jsonl 2>&1) | cat >out
[ "${PIPESTATUS[0]}" -eq 0 ] || die "a metrics file without room ends the run"
warned=$(grep -c 'short.jsonl: cannot write: .*; the metrics file misses iteration [0-9]* and those that follow' out)
again=$(grep -c 'the metrics file can be written again; it misses what came from iteration [0-9]* on' out) || true
[ "$warned" -ge 1 ] && { [ "$again" -eq "$warned" ] || [ "$again" -eq $((warned - 1)) ]; } ||
    { cat out >&2; die "not one warning of the metrics file"; }
[ "$(losses out | wc -l)" -eq 40 ] && [ -z "$(tail -c 1 short.jsonl)" ] && [ "$(wc -l <short.jsonl)" -lt 40 ] ||
    die "not the whole lines that there was room for"

# what the run was loaded from stays
ok "${run[@]}" --train-iters 13 --load stops --load-tag iter_0000004 --save stops --save-interval 3 \
    --keep-last 1 --override-opt_param-scheduler
said "removed checkpoint of iteration       2"
folders stops "iter_0000004 iter_0000013"

# signals: each is named, and saves within the step
for signal in TERM USR1; do
    : >out # nothing of the run before is to be taken for this one's
    : >out # without what the run before said
    "$TRIAX" "${run[@]}" --train-iters 1000000 --save sig$signal --save-interval 20 --async-save >out 2>err &
    pid=$!
    for _ in $(seq 400); do grep -q 'successfully saved' out && break; sleep 0.05; done
    kill -$signal $pid
    wait $pid || { cat err >&2; die "SIG$signal: exit $?"; }
    said "[exiting program after receiving SIG$signal.] datetime: "
    last=$(sed -nE 's/^ iteration +([0-9]+)\/.*/\1/p' out | tail -1)
    [ "$(cat sig$signal/latest)" = "$(printf 'iter_%07d' "$last")" ] || die "SIG$signal did not save iteration $last"
    [ -z "$(ls -A sig$signal | grep tmp || true)" ] || die "left: $(ls -A sig$signal)"
done

# the newest good one, whatever has happened to the others
cp -r goes bad
printf X | dd of=bad/iter_0000009/shard_00000.safetensors bs=1 seek=9000 conv=notrunc status=none
refused "iter_0000009/shard_00000.safetensors: block 0" "${run[@]}" --train-iters 10 --override-opt_param-scheduler --load bad
grep -q 'load another iteration; --load-latest-good would take bad/iter_0000008$' said || die "no way out is named: $(cat said)"
ok "${run[@]}" --train-iters 10 --override-opt_param-scheduler --load bad --load-latest-good
said "iter_0000009/shard_00000.safetensors: block 0 (bytes 0 to"
said "loading bad/iter_0000008 instead"
losses out | head -1 | grep -q '^9 ' || die "does not go on from 8"
ok "${run[@]}" --train-iters 10 --override-opt_param-scheduler --save bad --save-interval 100 --load latest-good
said "loading bad/iter_0000008 instead"
printf 'iter_' >bad/latest
refused "latest: must hold one line" "${run[@]}" --train-iters 11 --override-opt_param-scheduler --load bad
grep -q -- '; --load-latest-good would take bad/iter_0000010$' said || die "no way out is named: $(cat said)"
ok "${run[@]}" --train-iters 11 --override-opt_param-scheduler --load bad --load-latest-good
said "loading bad/iter_0000010 instead"
rm -r bad/iter_0000010
truncate -s -1 bad/iter_0000008/shard_00000.safetensors
echo >bad/iter_0000009/manifest.json
for flags in "" "--load-tag iter_0000009"; do
    refused "bad" "${run[@]}" --train-iters 11 --override-opt_param-scheduler --load bad $flags
    ! grep -q -- '--load-latest-good' said || die "what does not help is named: $(cat said)"
done
refused "latest: must hold one line" "${run[@]}" --train-iters 11 --override-opt_param-scheduler --load bad --load-latest-good
ok "${run[@]}" --train-iters 2 --save fresh --save-interval 2 --load latest-good
said "starting from fresh weights"
refused "--load latest-good is the newest good checkpoint of --save" "${run[@]}" --train-iters 2 --load latest-good
cp -r goes bad2
printf X | dd of=bad2/iter_0000009/manifest.json bs=1 seek=90 conv=notrunc status=none
few=(--tokenizer-type NullTokenizer --vocab-size 511)
refused "manifest.json: does not match" evaluate --load bad2 --data-path text --eval-iters 1 "${few[@]}"
ok evaluate --load bad2 --load-latest-good --data-path text --eval-iters 1 "${few[@]}"
said "loading bad2/iter_0000008 instead"
ok generate --load bad2 --load-latest-good --prompt "1 2" --out-seq-length 2 "${few[@]}"
said "loading bad2/iter_0000008 instead"

# a tag
ok evaluate --load bad2 --load-tag iter_0000008 --data-path text --eval-iters 1 "${few[@]}"
said "loading checkpoint from bad2/iter_0000008"
refused "bad2/iter_0000007 does not exist" evaluate --load bad2 --load-tag iter_0000007 --data-path text --eval-iters 1 "${few[@]}"
refused "is not the name of a folder" evaluate --load bad2 --load-tag ../goes --data-path text --eval-iters 1 "${few[@]}"
refused "give one of the two" evaluate --load goes --load-tag iter_0000008 --load-latest-good --data-path text --eval-iters 1 "${few[@]}"
refused "--load-tag needs --load" "${run[@]}" --train-iters 2 --load-tag iter_0000008

# options of the shape that differ are one table
"$TRIAX" "${run[@]}" --train-iters 10 --load goes --hidden-size 32 --num-layers 2 --ffn-hidden-size 96 >out 2>err && die "another shape is taken"
for row in 'flag +in the checkpoint +given' '--num-layers +1 +2' '--hidden-size +16 +32' '--ffn-hidden-size +64 +96'; do
    grep -qE "^  $row\$" err || { cat err >&2; die "no row \"$row\""; }
done
echo "all passed"
