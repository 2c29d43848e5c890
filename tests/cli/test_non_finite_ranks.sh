#!/bin/bash
# labels: cli parallel fault
# A run on two ranks whose numbers go bad names the parameter and leaves no replay file; from its last checkpoint one rank
# comes to the same iteration, and finds where it began (docs/howto/bad-numbers.md).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"

train=(pretrain-gpt --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 4 --train-iters 20 --optimizer sgd --clip-grad 0 --lr 1e6 --lr-decay-style constant
    --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt"
    --data-path "$data/dataset/tiny_text_document" --max-consecutive-skips 2 --save-interval 1 --threads 1)

for layout in "--zero-stage 1" "--tensor-model-parallel-size 2" "--pipeline-model-parallel-size 2"; do
    rm -rf ck one
    ranks 2 "$TRIAX" "${train[@]}" --save ck $layout && die "$layout: succeeds"
    grep -q '^warning: iteration [0-9]* skipped: the gradient of .* is not finite' err || { cat err >&2; die "$layout: names no parameter"; }
    grep -q 'the first value that is not finite' err && die "$layout: has searched"
    [ -z "$(compgen -G 'ck/replay-*')$(compgen -G 'replay-*')" ] || die "$layout: a replay file"
    bad=$(sed -n 's/^warning: iteration \([0-9]*\) skipped.*/\1/p' err | head -1)
    "$TRIAX" "${train[@]}" --load ck --save one >out 2>err && die "$layout: one rank succeeds"
    grep -q "^warning: iteration $bad: .*the first value that is not finite is " err || { cat err >&2; die "$layout: one rank does not find it"; }
    ok replay one/replay-iteration-*.json
    grep -q 'found again: the same' out || die "$layout: not found again"
done
