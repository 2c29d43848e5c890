#!/bin/bash
# Trains a small BERT on the quick start's text, about three minutes on 2 cores, and looks at what it has learned: a
# vocabulary, sentences, training, the loss beside what counting words gives, and words for [MASK].
#
#   examples/pretrain_bert.sh
#
# The text is ./quickstart/corpus.txt, or where that is not there what the program `bible` prints (Debian: bible-kjv);
# CORPUS names another, with documents between empty lines. Everything lands in ./bert-example (DIR). ITERS is how long it
# trains. Flags after the script's name are added to pretrain-bert's; the last of two equal ones counts.
#
# It fails when the loss on text that was not trained on is not MARGIN nats below the entropy of the training text's
# tokens, which is the least loss that is possible without looking at a token's neighbours.
set -euo pipefail
TRIAX=${TRIAX:-triax}
DIR=${DIR:-bert-example}
CORPUS=${CORPUS:-quickstart/corpus.txt}
ITERS=${ITERS:-4000}
MARGIN=${MARGIN:-0.8}
VOCAB_SIZE=${VOCAB_SIZE:-4096}
SENTENCES=${SENTENCES:-}

mkdir -p "$DIR"
if [ ! -s "$CORPUS" ]; then
    command -v bible >/dev/null || { echo "there is no $CORPUS: run ./quickstart.sh, or apt-get install bible-kjv" >&2; exit 1; }
    CORPUS=$DIR/corpus.txt
    bible -f gen1:1-rev22:21 |
        awk '{ split($1, label, ":"); if (NR > 1 && label[1] != chapter) print ""; chapter = label[1]; $1 = ""; print substr($0, 2) }' \
            >"$CORPUS"
fi

TOKENIZER="--tokenizer-type BertWordPieceLowerCase"
"$TRIAX" train-tokenizer --input "$CORPUS" --text-split blank-line $TOKENIZER --vocab-size "$VOCAB_SIZE" --output-dir "$DIR"
TOKENIZER="$TOKENIZER --vocab-file $DIR/vocab.txt"
"$TRIAX" preprocess-data --input "$CORPUS" --text-split blank-line --split-sentences $TOKENIZER --output-prefix "$DIR/text"

# Entropy, in nats, of the tokens of the training documents, which are the first 90 of 100.
documents=$(awk -v RS= 'END { print NR }' "$CORPUS")
entropy=$(awk -v RS= -v n="$documents" 'NR <= int(0.9 * n + 0.5)' "$CORPUS" | "$TRIAX" tokenize $TOKENIZER 2>/dev/null | tr -d '[],' |
    awk '{ for (i = 1; i <= NF; i++) { count[$i]++; n++ } } END { for (id in count) h -= count[id] / n * log(count[id] / n); print h }')

DATA="--data-path $DIR/text_text_sentence --split 90,10,0"
# Attention that begins a little uneven (--init-method-std), short samples and single masked words (--bert-max-ngrams 1) let
# a small model find out soon that a word's neighbours tell of it; at the default of 0.02 it counts words for longer.
"$TRIAX" pretrain-bert \
    --num-layers 2 --hidden-size 128 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
    --micro-batch-size 32 --global-batch-size 32 --train-iters "$ITERS" --init-method-std 0.08 \
    --lr 2e-3 --lr-decay-style linear --lr-warmup-fraction 0.05 --adam-beta2 0.98 --weight-decay 0.01 --clip-grad 1.0 \
    --hidden-dropout 0 --attention-dropout 0 --bert-max-ngrams 1 \
    $DATA --vocab-file "$DIR/vocab.txt" --log-interval 100 --eval-interval 1000 --eval-iters 20 \
    --save "$DIR/model" --save-interval 1000 "$@"

result=$("$TRIAX" evaluate --load "$DIR/model" $DATA --eval-split valid --micro-batch-size 32 --json 2>/dev/null)
loss=$(sed 's/.*"loss":\([0-9.]*\).*/\1/' <<<"$result")
echo "$result"
awk -v loss="$loss" -v entropy="$entropy" -v margin="$MARGIN" 'BEGIN {
    printf "\nmasked-LM loss on text not trained on: %.3f nats\nunigram entropy of the training text:  %.3f nats\n", loss, entropy
    printf "below it by %.3f, and %.2f is asked for\n\n", entropy - loss, margin
    exit !(entropy - loss >= margin) }' || { echo "the model has learned too little" >&2; exit 1; }

if [ -z "$SENTENCES" ]; then
    SENTENCES=$DIR/sentences.txt
    cat >"$SENTENCES" <<'TEXT'
And the LORD [MASK] unto Moses, Speak unto the children of [MASK].
And it [MASK] to pass in those days.
In the beginning God created the heaven and the [MASK].
And he went up to the [MASK] of the Lord.
TEXT
fi
"$TRIAX" fill-mask --load "$DIR/model" --prompt-file "$SENTENCES" 2>/dev/null
