#!/bin/bash
# loss_curve.sh - what a small GPT learns in 300 iterations, for three seeds: where the training loss stands after a third of
# them and over the last 20, and the validation loss. A program whose arithmetic is right lands where others do; the numbers
# depend on the text.
#   bench/loss_curve.sh TRIAX TEXT.jsonl VOCAB.json MERGES.txt [FLAGS of pretrain-gpt, e.g. --bf16 ...]
#   ITERATIONS  300
#   SEEDS       "1234 1 2"
set -euo pipefail
triax=$1 text=$2 vocab=$3 merges=$4
shift 4
n=${ITERATIONS:-300}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files=(--vocab-file "$vocab" --merge-file "$merges")
"$triax" preprocess-data --input "$text" --output-prefix "$work/text" "${files[@]}" --append-eod >/dev/null
for seed in ${SEEDS:-1234 1 2}; do
    "$triax" pretrain-gpt --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 \
        --micro-batch-size 16 --train-iters "$n" --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-fraction 0.05 \
        --weight-decay 0.1 --hidden-dropout 0 --attention-dropout 0 --init-method-std 0.02 --split 90,10,0 --eval-interval "$n" \
        --eval-iters 10 --log-interval 1 --data-path "$work/text_text_document" "${files[@]}" --seed "$seed" "$@" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; exit 1; }
    awk -v seed="$seed" -v last="$n" '
        function number(key) { match($0, key ": [^ ]*"); return substr($0, RSTART + length(key) + 2, RLENGTH - length(key) - 2) + 0 }
        /^ iteration .*lm loss/ { i = $2 + 0; if (i == int(last / 3)) third = number("lm loss"); if (i > last - 20) { sum += number("lm loss"); n++ } }
        $0 ~ "validation loss at iteration " last " \\|" { valid = number("lm loss value") }
        END { printf "seed %4d: at iteration %d %.3f, last %d %.3f, validation %.3f\n", seed, last / 3, third, n, sum / n, valid }' "$work/log"
done
