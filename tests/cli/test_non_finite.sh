#!/bin/bash
# labels: cli fault
# Numbers that go bad: the first value is named with its documents, steps are skipped and counted, the run stops, saves
# nothing over a good checkpoint and leaves a file that replay runs again.
. "$(dirname "$0")/lib.sh"

train=(pretrain-gpt --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --lr-decay-style constant --train-iters 10 --log-interval 1
    --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt"
    --data-path "$data/dataset/tiny_text_document" --split 8,1,1 --eval-interval 100 --eval-iters 1)

# stops COMMAND...: ends with exit 1 and one line
stops() { refused "iterations in a row were skipped" "$@"; }
has() { grep -qF -- "$2" "$1" || { cat out err >&2; die "$1 does not say \"$2\""; }; }
hash_of() { (cd "$1" && find . -type f ! -name metrics.jsonl ! -name 'replay-*' -print0 | sort -z | xargs -0 sha256sum); }

# plant TENSOR ELEMENT BYTES: 4 bytes over an element of hf/model.safetensors, whose header says where it is
plant() {
    local n at
    n=$(od -An -tu8 -N8 hf/model.safetensors | tr -d ' ')
    at=$(dd if=hf/model.safetensors bs=1 skip=8 count="$n" 2>/dev/null |
        sed -nE 's/.*"'"$1"'":\{[^}]*"data_offsets":\[([0-9]+).*/\1/p')
    [ -n "$at" ] || die "no tensor $1"
    printf "$3" | dd of=hf/model.safetensors bs=1 seek=$((8 + n + at + 4 * $2)) conv=notrunc 2>/dev/null
}

# a weight that is NaN: 2 iterations of it are named, counted, and the run stops
ok "${train[@]}" --dump-step 1 hf --train-iters 1
cp -r hf whole
plant transformer.h.1.mlp.c_fc.weight 70 '\0\0\300\177' # row 4, column 6 of [16, 64]; here it is stored the other way
stops "${train[@]}" --load hf --max-consecutive-skips 2
has said "--max-consecutive-skips 2: "
has said "triax replay ./replay-iteration-2.json"
has said "parameter encoder.layers.1.mlp.dense_h_to_4h.weight holds NaN at row 6, column 1; micro-batch 1 of 2: the first value that is not finite is NaN in the output of encoder.layers.1.mlp.dense_h_to_4h (forward, gemm): sample 0, position 0, element 6"
[ "$(grep -c 'first value that is not finite' <(grep ^warning err))" -eq 2 ] || die "not one warning an iteration"
grep -qE "^warning: iteration 1: .*; its samples are of documents? [0-9, -]+ of $data/dataset/tiny_text_document" err || die "no documents"
[ "$(grep -c 'number of skipped iterations:   1 | number of nan iterations:   1 |' out)" -eq 2 ] || die "not counted"
cp replay-iteration-2.json first.json
ok replay replay-iteration-2.json
has out "found again: the same"
ls >before
ok replay --replay-file first.json --backend cpu --log-level info
ls | diff before - || die "replay writes files"

# the documents are those that inspect-samples shows for samples 0 and 1, which are micro-batch 1 of iteration 1
stops "${train[@]}" --load hf --max-consecutive-skips 1
shown=$(sed -nE 's/^warning: iteration 1: .*documents? ([0-9, -]+) of .*/\1/p' err)
ok inspect-samples --data-path "$data/dataset/tiny_text_document" --split 8,1,1 --seq-length 16 --micro-batch-size 2 \
    --global-batch-size 4 --train-iters 10 --eval-interval 100 --eval-iters 1 --num-samples 2 \
    --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt"
expect=$(grep -oE '"document":[0-9]+' out | cut -d: -f2 | sort -nu | paste -sd, | sed 's/,/, /g')
[ "$shown" = "$expect" ] || die "documents $shown, inspect-samples says $expect"

# a weight that is infinite, and the tokens of its samples are enough: the data is gone, and so are the tokenizer's files
rm -r hf
cp -r whole hf
plant transformer.h.0.attn.c_proj.bias 3 '\0\0\200\377'
cp "$data/dataset/"tiny_text_document.{bin,idx} "$data/tiny/tiny-vocab.json" "$data/tiny/tiny-merges.txt" .
stops "${train[@]}" --load hf --max-consecutive-skips 3 --data-path tiny_text_document --vocab-file tiny-vocab.json \
    --merge-file tiny-merges.txt --save ck --save-interval 1
has said "parameter encoder.layers.0.self_attention.dense.bias holds -inf at element 3; "
has said "encoder.layers.0.self_attention.dense (forward, gemm): sample 0, position 0, element 3"
[ "$(ls ck | paste -sd' ')" = "metrics.jsonl replay-iteration-3.json" ] || die "ck holds $(ls ck)"
rm tiny_text_document.* tiny-*
ok replay ck/replay-iteration-3.json

# another state finds something else, or nothing
cp whole/model.safetensors hf/model.safetensors
refused "not the same was found: every value was finite" replay ck/replay-iteration-3.json
plant transformer.h.0.attn.c_proj.bias 4 '\0\0\200\377'
refused "not the same was found: parameter encoder.layers.0.self_attention.dense.bias holds -inf at element 4" replay ck/replay-iteration-3.json

# a learning rate that blows it up, in a run with good checkpoints: they stay as they are, bit for bit
ok "${train[@]}" --save run --save-interval 2 --train-iters 4 --optimizer sgd --clip-grad 0
hash_of run >before
blow=("${train[@]}" --optimizer sgd --clip-grad 0 --lr 1e6 --override-opt_param-scheduler --load run --max-consecutive-skips 3)
stops "${blow[@]}" --save run --save-interval 100
hash_of run | diff before - || die "a checkpoint has changed"
n=$(sed -nE 's/.*replay-iteration-([0-9]+)\.json.*/\1/p' said)
[ "$n" -ge 8 ] || die "it stopped at $n, at once"
ok replay "run/replay-iteration-$n.json"
has out "> running iterations 5 to $((n - 3)) again, up to the skipped ones ..."
has out "found again: the same"
hash_of run | diff before - || die "replay has changed a checkpoint"

# what the run saved on its way is where replay starts; while steps are skipped nothing is saved
cp -r run run2
stops "${blow[@]}" --load run2 --save run2 --save-interval 1
n2=$(sed -nE 's/.*replay-iteration-([0-9]+)\.json.*/\1/p' said)
[ "$n2" -eq "$n" ] || die "saving changed the run: $n2"
has run2/latest "iter_000000$((n - 3))"
ok replay "run2/replay-iteration-$n.json"
has out "loading checkpoint from $work/run2/iter_000000$((n - 3))"
grep -q 'running iterations' out && die "nothing was to run again"

# a validation loss that is not finite is only told
rm -r hf
cp -r whole hf
plant transformer.wpe.weight 0 '\0\0\300\177'
ok "${train[@]}" --load hf --skip-train
grep -qE "validation loss at iteration 0 on 4-sample draw from validation set \| lm loss value: -?NAN" out || die "no loss that is NaN"

# files that are none
refused "replay needs a file" replay
refused "none.json" replay none.json
echo '{"format": "triax replay 1", "iteration": 0}' >bad.json
refused 'bad.json: no replay file of triax: "iteration"' replay bad.json
sed 's/"--num-layers=2"/"--num-layers=x"/' first.json >bad.json
refused "bad.json: its flags: --num-layers" replay bad.json
sed 's/"--num-layers=2"/"--dump-step", "1", "d", &/' first.json >bad.json
refused "bad.json: its flags: --dump-step writes" replay bad.json
sed 's/"--seq-length=16"/"--seq-length=8"/' first.json >bad.json
refused "bad.json: 2 samples of 17 ids are no micro-batches of its flags' run" replay bad.json
refused "--max-consecutive-skips" "${train[@]}" --max-consecutive-skips 0
