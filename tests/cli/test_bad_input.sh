#!/bin/bash
# labels: cli fault
# What goes wrong ends in one line that names it, a non-zero exit, and nothing on disk harmed.
. "$(dirname "$0")/lib.sh"
vocab=$data/tiny/tiny-vocab.json merges=$data/tiny/tiny-merges.txt dataset=$data/dataset/tiny_text_document
tok=(--vocab-file "$vocab" --merge-file "$merges")

# corpora
refused "nothere.txt" train-tokenizer --input nothere.txt --vocab-size 300 --output-dir t
: >empty.txt
refused "empty.txt" train-tokenizer --input empty.txt --vocab-size 300 --output-dir t
printf '{"text": "one"}\n{"text": "two"}\n{"text": three}\n' >bad.jsonl
refused "bad.jsonl" preprocess-data --input bad.jsonl --output-prefix p "${tok[@]}"
grep -qE 'bad.jsonl:3|line 3' said || die "the line number is missing: $(cat said)"
printf '{"text": "one"}\n{"txt": "two"}\n' >key.jsonl
refused "text" preprocess-data --input key.jsonl --output-prefix p "${tok[@]}"
grep -qE 'key.jsonl:2|line 2' said || die "the line number is missing: $(cat said)"
mkdir dir
refused "dir" preprocess-data --input dir --output-prefix p "${tok[@]}"
[ -z "$(ls -A | grep '^p' || true)" ] || die "something was left: $(ls)"
[ ! -e t ] || [ -z "$(ls -A t)" ] || die "half a tokenizer was left"

# vocabularies
head -c 2000 "$vocab" >cut.json
refused "cut.json" tokenize --vocab-file cut.json --merge-file "$merges" </dev/null
{ cat "$merges"; echo "zz zzz"; } >odd.txt
refused "odd.txt" tokenize --vocab-file "$vocab" --merge-file odd.txt </dev/null
refused "none.json" preprocess-data --input bad.jsonl --output-prefix p --vocab-file none.json --merge-file "$merges"

# datasets
train=(pretrain-gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 32
    --micro-batch-size 2 --lr 1e-3 --train-iters 4 --split 8,1,1 --eval-iters 1 "${tok[@]}")
refused "missing_document" "${train[@]}" --data-path missing_document
cp "$dataset.bin" d.bin; head -c 100 "$dataset.idx" >d.idx
refused "d.idx" "${train[@]}" --data-path d
cp "$dataset.idx" d.idx; head -c 5000 "$dataset.bin" >d.bin
refused "d.bin" "${train[@]}" --data-path d
head -c 200 /dev/zero >d.idx
refused "d.idx" "${train[@]}" --data-path d

# options
refused "heads" "${train[@]}" --data-path "$dataset" --num-attention-heads 3
refused "--hiden-size" "${train[@]}" --data-path "$dataset" --hiden-size 3
grep -q -- "--hidden-size" said || die "no suggestion: $(cat said)"
refused "--fp16 and --bf16: give one of the two" "${train[@]}" --data-path "$dataset" --fp16 --bf16
refused "--recompute-method uniform or block" "${train[@]}" --data-path "$dataset" --recompute-granularity full
refused "--tensor-model-parallel-size" "${train[@]}" --data-path "$dataset" --tensor-model-parallel-size 2
refused "--lr" "${train[@]}" --data-path "$dataset" --lr abc

# checkpoints
ok "${train[@]}" --data-path "$dataset" --save ck --save-interval 2
sums() { find "$1" -type f -not -name metrics.jsonl -exec sha256sum {} + | sort; } # each run adds to that file
sums ck >before
refused "--hidden-size is 64, in the checkpoint it is 32" "${train[@]}" --data-path "$dataset" --load ck --hidden-size 64
refused "nowhere" "${train[@]}" --data-path "$dataset" --load nowhere
refused "nowhere" "${train[@]}" --data-path "$dataset" --load nowhere --save ck --save-interval 2
refused "nowhere" generate --load nowhere --prompt x
refused "nowhere" evaluate --load nowhere --data-path "$dataset"
cp -r ck flipped
printf 'X' | dd of=flipped/iter_0000004/shard_00000.safetensors bs=1 seek=5000 conv=notrunc status=none
refused "shard_00000.safetensors" "${train[@]}" --data-path "$dataset" --load flipped
truncate -s -10 flipped/iter_0000004/manifest.json
refused "manifest.json" "${train[@]}" --data-path "$dataset" --load flipped

# a full disk while saving: a real one where we may mount, else a limit on file sizes
if mkdir small && mount -t tmpfs -o size=$(($(du -sk ck | cut -f1) + 300))k none small 2>/dev/null; then
    trap 'umount -l "$work/small" 2>/dev/null || true; rm -rf "$work"' EXIT
    cp -r ck/. small/
    sums small >before.small
    refused "make room" "${train[@]}" --data-path "$dataset" --load small --save small --save-interval 2 --train-iters 6 --override-lr-scheduler \
        --num-layers 2
    sums small | diff before.small - || die "a full disk harmed a checkpoint"
    umount small
fi
( ulimit -f 64; trap '' XFSZ; refused "iter_0000006" "${train[@]}" --data-path "$dataset" --load ck --save ck --save-interval 2 --train-iters 6 --override-lr-scheduler )
sums ck | diff before - || die "a failed save harmed a checkpoint"
[ -z "$(find ck -name '.tmp*')" ] || die "a failed save left a temporary"

# a machine file that could not be written is told before anything is measured
refused "its folder is missing" doctor --machine-file nowhere/here.json
mkdir folder
refused "--machine-file folder: is a folder" doctor --machine-file folder

# commands
code=0; "$TRIAX" nonsense >/dev/null 2>err || code=$?
[ $code -eq 2 ] && grep -q 'no command "nonsense"' err || die "an unknown command"
echo "all passed"
