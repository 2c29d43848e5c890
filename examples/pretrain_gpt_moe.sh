#!/bin/bash
# Trains a small GPT with experts beside its dense twin on the quick start's text, and compares their losses on text that was
# not trained on: about five minutes a seed.
#
#   examples/pretrain_gpt_moe.sh
#
# In both feed-forward halves a token takes the same operations: of EXPERTS experts, which are half as wide as the twin's
# MLP, it chooses two, and the twin is wider by what the router takes. All else is the same: order of the data, batches,
# learning rates, iterations. SEEDS are tried one after another, each with initial weights and an order of its own.
#
# The text is ./quickstart/corpus.txt, or where that is not there what the program `bible` prints (Debian: bible-kjv);
# CORPUS names another, with documents between empty lines. Everything lands in ./moe-example (DIR). ITERS is how long each
# trains. Flags after the script's name are added to pretrain-gpt's of both; the last of two equal ones counts.
#
# It fails when a seed's loss with experts is not lower than its twin's.
set -euo pipefail
TRIAX=${TRIAX:-triax}
DIR=${DIR:-moe-example}
CORPUS=${CORPUS:-quickstart/corpus.txt}
SEEDS=${SEEDS:-1 2 3}
ITERS=${ITERS:-3000}
EXPERTS=${EXPERTS:-8}
VOCAB_SIZE=${VOCAB_SIZE:-2048}
HIDDEN=64

mkdir -p "$DIR"
if [ ! -s "$CORPUS" ]; then
    command -v bible >/dev/null || { echo "there is no $CORPUS: run ./quickstart.sh, or apt-get install bible-kjv" >&2; exit 1; }
    CORPUS=$DIR/corpus.txt
    bible -f gen1:1-rev22:21 |
        awk '{ split($1, label, ":"); if (NR > 1 && label[1] != chapter) print ""; chapter = label[1]; $1 = ""; print substr($0, 2) }' \
            >"$CORPUS"
fi
"$TRIAX" train-tokenizer --input "$CORPUS" --text-split blank-line --vocab-size "$VOCAB_SIZE" --output-dir "$DIR"
TOKENIZER="--vocab-file $DIR/vocab.json --merge-file $DIR/merges.txt"
"$TRIAX" preprocess-data --input "$CORPUS" --text-split blank-line $TOKENIZER --append-eod --output-prefix "$DIR/text"
DATA="--data-path $DIR/text_text_document --split 90,10,0"

# An expert's two matrices have a quarter of the twin's numbers each; the router's EXPERTS rows are those of EXPERTS / 2 more
# neurons, each of which has a row in one matrix and a column in the other.
DENSE="--ffn-hidden-size $((4 * HIDDEN + EXPERTS / 2))"
MOE="--num-experts $EXPERTS --moe-router-topk 2 --moe-ffn-hidden-size $((2 * HIDDEN)) --moe-aux-loss-coeff 0.01"

# loss NAME SEED FLAGS...: trains, and says the loss of the validation text
loss() {
    local model=$DIR/$1-$2 seed=$2
    shift 2
    rm -rf "$model"
    "$TRIAX" pretrain-gpt \
        --num-layers 2 --hidden-size $HIDDEN --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 \
        --micro-batch-size 8 --global-batch-size 8 --train-iters "$ITERS" --seed "$seed" \
        --lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine --lr-warmup-fraction 0.05 \
        --adam-beta2 0.95 --weight-decay 0.1 --clip-grad 1.0 --hidden-dropout 0 --attention-dropout 0 \
        $DATA $TOKENIZER --log-interval 500 --eval-iters 0 --save "$model" --save-interval "$ITERS" "$@" >&2
    "$TRIAX" evaluate --load "$model" $DATA --eval-split valid --micro-batch-size 8 --json 2>/dev/null |
        sed 's/.*"loss":\([0-9.]*\).*/\1/'
}

printf '%6s %10s %12s %12s\n' seed dense experts difference >"$DIR/losses.txt"
for seed in $SEEDS; do
    dense=$(loss dense "$seed" $DENSE "$@")
    moe=$(loss moe "$seed" $MOE "$@")
    awk -v s="$seed" -v d="$dense" -v m="$moe" 'BEGIN { printf "%6s %10.4f %12.4f %12.4f\n", s, d, m, m - d }' >>"$DIR/losses.txt"
done
printf '\nloss of the validation text, nats a token:\n'
cat "$DIR/losses.txt"
awk 'NR > 1 && !($4 < 0) { bad = 1 } END { exit bad }' "$DIR/losses.txt" || { echo "experts are not better with every seed" >&2; exit 1; }
