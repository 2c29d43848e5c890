#!/bin/bash
# quickstart.sh - from a fresh Debian to a GPT that writes sentences: packages, build, text, tokenizer, data, training,
# evaluation, samples. Every step is a command you could type; finished steps are not repeated.
#   ./quickstart.sh          everything lands in ./quickstart; delete that folder to start over
#   MINUTES=10 ./quickstart.sh   trains longer (default 2); starts over when changed. 0: 40 iterations, whether all of it works
set -euo pipefail
cd "$(dirname "$0")"
. tools/packages.sh
minutes=${MINUTES:-2}
dir=quickstart
triax=build/release/triax
model=$dir/model-${minutes}min
case $minutes in *[!0-9]* | 0?* | "") echo "quickstart.sh: MINUTES=$minutes is not a whole number" >&2; exit 2 ;; esac
iterations=$((minutes ? minutes * 400 : 40))

echo "== 1. packages"
need_packages $BUILD_PACKAGES bible-kjv

echo "== 2. build"
[ -f build/release/CMakeCache.txt ] || run cmake --preset release -DTX_TESTS=OFF >/dev/null
run cmake --build --preset release --target triax -j "$(nproc)" -- --no-print-directory | tail -n 1

echo "== 3. text: the King James Bible, 4 MB of English prose in the public domain, a document a chapter"
mkdir -p $dir
if [ ! -s $dir/corpus.txt ]; then
    printf '\n$ bible -f gen1:1-rev22:21 | (verse labels off, an empty line between chapters) > %s\n' $dir/corpus.txt
    bible -f gen1:1-rev22:21 |
        awk '{ split($1, label, ":"); if (NR > 1 && label[1] != chapter) print ""; chapter = label[1]; $1 = ""; print substr($0, 2) }' \
            >$dir/corpus.txt.part
    mv $dir/corpus.txt.part $dir/corpus.txt
fi
ls -l $dir/corpus.txt

echo "== 4. tokenizer"
if [ ! -s $dir/merges.txt ]; then
    run $triax train-tokenizer --input $dir/corpus.txt --text-split blank-line --vocab-size 4096 --output-dir $dir
fi

echo "== 5. data"
if [ ! -s $dir/bible_text_document.idx ]; then
    run $triax preprocess-data --input $dir/corpus.txt --text-split blank-line --output-prefix $dir/bible \
        --vocab-file $dir/vocab.json --merge-file $dir/merges.txt --append-eod --workers 2
fi

echo "== 6. training: $iterations iterations, about $minutes min on 2 cores of a new processor; then validation and test loss"
run $triax pretrain-gpt --num-layers 4 --hidden-size 256 --num-attention-heads 4 \
    --seq-length 128 --max-position-embeddings 128 --micro-batch-size 16 --global-batch-size 16 \
    --train-iters $iterations --lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine --lr-warmup-fraction 0.05 \
    --weight-decay 0.1 --clip-grad 1.0 --adam-beta2 0.95 --hidden-dropout 0 --attention-dropout 0 --seed 1234 \
    --vocab-file $dir/vocab.json --merge-file $dir/merges.txt --data-path $dir/bible_text_document --split 90,5,5 \
    --log-interval 50 --eval-interval 400 --eval-iters 20 --save-interval 400 --save $model --load $model

echo "== 7. three continuations of a prompt"
run $triax generate --load $model --prompt "And the king said unto" --num-samples 3 --out-seq-length 60 \
    --top-k 50 --top-p 0.95 --seed 1234
