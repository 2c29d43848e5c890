#!/bin/bash
# labels: cli resume
# What training reads: blends, data apart, cyclic order; killed and resumed with the same bits; mistakes in one line.
. "$(dirname "$0")/lib.sh"
vocab=$data/tiny/tiny-vocab.json merges=$data/tiny/tiny-merges.txt a=$data/dataset/tiny_text_document
tok=(--vocab-file "$vocab" --merge-file "$merges")
for i in $(seq 30); do echo "A second dataset, line $i of thirty: $((i * 7 % 13)) loaves."; done >b.txt
ok preprocess-data --input b.txt --text-split line --output-prefix b "${tok[@]}" --append-eod
b=b_text_document

run=(pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --train-iters 8 "${tok[@]}" --log-interval 1 --eval-interval 4
    --eval-iters 1 --save-interval 2)

# resumes NAME FLAGS...: a run that ends after 4 iterations and goes on has the bits of one that does not
resumes() {
    local name=$1
    shift
    ok "${run[@]}" "$@" --save "$name"
    cp out "$name.log"
    ok "${run[@]}" "$@" --save "$name.killed" --load "$name.killed" --exit-interval 4
    ok "${run[@]}" "$@" --save "$name.killed" --load "$name.killed"
    diff -r "$name/iter_0000008" "$name.killed/iter_0000008" || die "$name: a resumed run has another checkpoint"
    losses "$name.log" | tail -4 >straight.losses
    losses out | diff straight.losses - || die "$name: other losses after resuming"
}

resumes blend --data-path 0.3 "$a" 0.7 $b --split 8,1,1
grep -q '^ > sample ratios:' blend.log || die "the blend's ratios are not told"
grep -q '^> size of blendable dataset: 33 samples' blend.log || die "the blend's size is not told"
resumes cyclic --data-path 0.3 "$a" 0.7 $b --split 8,1,1 --dataloader-type cyclic --reset-position-ids --reset-attention-mask --eod-mask-loss
resumes whole --train-data-path $b --valid-data-path 1 "$a" 2 $b --dataloader-type cyclic --no-data-sharding
[ "$(grep -c 'validation loss at' whole.log)" -eq 3 ] || die "validation data apart is not evaluated"
! diff -q <(losses blend.log) <(losses cyclic.log) >/dev/null || die "cyclic has the order of single"

# a real kill
"$TRIAX" "${run[@]}" --data-path 0.3 "$a" 0.7 $b --split 8,1,1 --save shot --train-iters 100000 --lr-decay-iters 8 >/dev/null 2>&1 &
pid=$!
for _ in $(seq 200); do [ -e shot/latest ] && break; sleep 0.05; done
kill -9 $pid; wait $pid 2>/dev/null || true
at=$(sed 's/iter_0*//' shot/latest)
ok "${run[@]}" --data-path 0.3 "$a" 0.7 $b --split 8,1,1 --save shot --load shot --train-iters $((at + 3)) --lr-decay-iters 8
grep -q "at iteration $at\$" out || die "did not go on at iteration $at"

# the order is the checkpoint's
ok "${run[@]}" --data-path "$a" --split 8,1,1 --data-order bigscience --save order
ok "${run[@]}" --data-path "$a" --split 8,1,1 --load order --train-iters 10 --override-lr-scheduler
grep -qE '^ *data_order \.+ bigscience$' out || die "the order of the checkpoint is not kept"

# evaluation of a blend
ok evaluate --load blend --data-path 1 "$a" 1 $b --eval-iters 3
grep -q '12 samples of a blend (all) | lm loss value' out || die "no loss of a blend"

# documents kept apart change the loss, also in evaluation, and a checkpoint remembers
lm_loss() { sed -nE 's/.*lm loss value: ([0-9.E+-]+).*/\1/p' out; }
ok evaluate --load blend --data-path $b --micro-batch-size 2
together=$(lm_loss)
ok evaluate --load blend --data-path $b --micro-batch-size 2 --reset-attention-mask
apart=$(lm_loss)
[ -n "$apart" ] && [ "$apart" != "$together" ] || die "--reset-attention-mask changes nothing: $apart, $together"
ok evaluate --load cyclic --data-path $b --micro-batch-size 2
kept=$(lm_loss)
ok evaluate --load cyclic --data-path $b --micro-batch-size 2 --reset-attention-mask --reset-position-ids
[ -n "$kept" ] && [ "$kept" = "$(lm_loss)" ] || die "the checkpoint's documents are not kept apart: $kept, $(lm_loss)"
refused "--eval-iters" evaluate --load blend --data-path 1 "$a" 1 $b

# mistakes
refused "the weight -0.3 of $b is negative" "${run[@]}" --data-path 1 "$a" -0.3 $b
refused "the weights have the sum 0" "${run[@]}" --data-path 0 "$a" 0 $b
refused "3 values: one prefix, or pairs" "${run[@]}" --data-path 1 "$a" 2
refused "$b stands where a weight should" "${run[@]}" --data-path $b "$a"
refused "Dataset does not exist: nothere" "${run[@]}" --data-path 1 "$a" 2 nothere
refused "Dataset does not exist: nothere" "${run[@]}" --train-data-path $b --test-data-path nothere
refused "give one of the two" "${run[@]}" --data-path $b --valid-data-path $b
refused "needs --train-data-path" "${run[@]}" --valid-data-path $b
refused "has no document for the valid split" "${run[@]}" --data-path 1 "$a" 1 $b --split 990,10,0
refused "--data-order" "${run[@]}" --data-path $b --data-order other
echo "all passed"

# a file of plain text becomes one document, of which the remedy is told; meant ones and lines are not warned of
said() { grep -qF -- "$1" err || { cat err >&2; die "does not say \"$1\""; }; }
not_said() { ! grep -qF -- "$1" err || { cat err >&2; die "says \"$1\""; }; }
ok preprocess-data --input b.txt --output-prefix whole-file "${tok[@]}" --append-eod
said "b.txt: plain text of several lines is one document, the whole file, so --split cannot divide it; --text-split line or blank-line makes"
ok preprocess-data --input b.txt --output-prefix meant "${tok[@]}" --text-split file
not_said "is one document"
ok preprocess-data --input b.txt --output-prefix lines "${tok[@]}" --text-split line
not_said "is one document"
echo "one line" >one.txt
ok preprocess-data --input one.txt --output-prefix one-line "${tok[@]}"
not_said "is one document"
ok preprocess-data --input b.txt one.txt b.txt --output-prefix several "${tok[@]}"
said "b.txt and others: plain text"

# a split that comes out empty though it is to be evaluated on: which, and what to write
short=("${run[@]}" --train-iters 2)
ok "${short[@]}" --data-path whole-file_text_document --split 949,50,1
for split in valid test; do
    said "--split 949,50,1 gives the $split split none of the 1 document of whole-file_text_document: there will be no evaluation on it; write more documents (plain text: preprocess-data --text-split line or blank-line), name data apart (--train-data-path, --valid-data-path, --test-data-path), or leave it out (--eval-iters 0)"
done
ok "${short[@]}" --data-path $b --split 949,50,1
said "--split 949,50,1 gives the test split none of the 30 documents of $b: there will be no evaluation on it; write --split 90,5,5, name"
not_said "the valid split"
ok "${short[@]}" --data-path $b --split 90,5,5
not_said "no evaluation"
ok "${short[@]}" --data-path $b --split 949,50,1 --eval-iters 0
not_said "no evaluation"
ok "${short[@]}" --data-path 0.3 "$a" 0.7 $b --split 999,1,0
said "--split 999,1,0 gives the valid split none of the 30 documents of the smallest of the datasets: "
said "--eval-iters 1: there will be no evaluation on the test split, for --split gives it no share: write --split 8,1,1"
ok "${short[@]}" --train-data-path $b --valid-data-path $b
said "--eval-iters 1: there will be no evaluation on the test split, for it has no data: give --test-data-path"
not_said "the valid split"
