#!/bin/bash
# labels: cli resume
# The main job as a user types it, on tiny data: tokenizer, data, training, a kill, resuming, evaluation, samples.
. "$(dirname "$0")/lib.sh"

# text with some structure, 60 documents
for i in $(seq 60); do
    printf 'Chapter %d. The king said unto the people number %d: let there be %d loaves of bread.\nAnd there were %d loaves.\n\n' \
        "$i" $((i * 7 % 13)) $((i * 5 % 11)) $((i * 5 % 11))
done >corpus.txt

ok train-tokenizer --input corpus.txt --text-split blank-line --vocab-size 300 --output-dir .
ok preprocess-data --input corpus.txt --text-split blank-line --output-prefix c --vocab-file vocab.json \
    --merge-file merges.txt --append-eod --workers 2
[ -s c_text_document.bin ] && [ -s c_text_document.idx ] || die "no dataset"

train=(pretrain-gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 32
    --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --lr-decay-style linear --lr-warmup-fraction 0.1
    --vocab-file vocab.json --merge-file merges.txt --data-path c_text_document --split 8,1,1 --train-iters 10
    --log-interval 1 --eval-interval 5 --eval-iters 2 --save-interval 5)

ok "${train[@]}" --save straight
cp out straight.log
[ "$(losses straight.log | wc -l)" -eq 10 ] || die "not ten log lines"
[ "$(grep -c 'validation loss at' straight.log)" -eq 4 ] || die "not four evaluations"
grep -q 'learning rate: 1.000E-03' straight.log || die "the warm-up ends at iteration 1"

# the same run killed after its first checkpoint, started again by the very same command
ok "${train[@]}" --save killed --load killed --exit-interval 5
grep -q 'starting from fresh weights' out || die "a fresh start is not told"
mkdir killed/.tmp-iter_0000099-999999
ok "${train[@]}" --save killed --load killed
grep -q 'at iteration 5' out || die "resuming is not told"
losses out >resumed.losses
losses straight.log | tail -5 | diff - resumed.losses || die "other losses after resuming"
diff -r straight/iter_0000010 killed/iter_0000010 || die "a resumed run has another checkpoint"
cmp straight/latest killed/latest
[ ! -e killed/.tmp-iter_0000099-999999 ] || die "a dead run's temporary is still there"

# a real kill, at any time
"$TRIAX" "${train[@]}" --save shot --load shot --train-iters 100000 >shot.log 2>&1 &
pid=$!
for _ in $(seq 200); do [ -e shot/latest ] && break; sleep 0.05; done
kill -9 $pid; wait $pid 2>/dev/null || true
at=$(sed 's/iter_0*//' shot/latest)
ok "${train[@]}" --save shot --load shot --train-iters $((at + 5)) --override-opt_param-scheduler
grep -q "at iteration $at\$" out || die "did not go on at iteration $at"

# SIGTERM saves and ends
: >term.log # read below, maybe before the run opens it
"$TRIAX" "${train[@]}" --save term --train-iters 100000 --save-interval 100000 >term.log 2>&1 &
pid=$!
for _ in $(seq 200); do grep -q '^ iteration' term.log && break; sleep 0.05; done
kill -TERM $pid; wait $pid || die "SIGTERM: exit $?"
[ -s term/latest ] || die "SIGTERM did not save"

ok evaluate --load straight --data-path c_text_document
grep -q 'lm loss value: .* lm loss PPL: ' out || die "no perplexity"
ok generate --load straight --prompt "The king" "And" --num-samples 2 --out-seq-length 8 --top-k 5 --top-p 0.9
cp out first
[ "$(grep -c -- '^----$' out)" -eq 3 ] || die "not four samples"
ok generate --load straight --prompt "The king" "And" --num-samples 2 --out-seq-length 8 --top-k 5 --top-p 0.9
cmp out first || die "the same seed gave other samples"
refused "positions" generate --load straight --prompt "The king" --out-seq-length 100

# a Hugging Face folder is recognised by its files; --dump-step makes one
ok "${train[@]}" --load "$data/golden/gpt2" --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt" \
    --num-layers 2 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 64 \
    --data-path "$data/dataset/tiny_text_document" --dump-step 2 dump
for f in config.json model.safetensors grads.safetensors loss.safetensors; do [ -s dump/$f ] || die "no dump/$f"; done
ok generate --load dump --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt" --prompt x --greedy

# ids out and back
printf 'The king\nsaid unto\n' >two
"$TRIAX" tokenize --vocab-file vocab.json --merge-file merges.txt <two >ids
"$TRIAX" detokenize --vocab-file vocab.json --merge-file merges.txt <ids | cmp - two || die "tokens do not lead back"

ok doctor
grep -q 'all is well' out
for command in train-tokenizer preprocess-data tokenize detokenize pretrain-gpt evaluate generate doctor; do
    ok $command --help
done
echo "all passed"
