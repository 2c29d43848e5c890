#!/bin/bash
# Validation losses of 1-bit Adam and of Muon beside Adam's: a GPT of 10 million parameters on 2 ranks, three seeds. 1-bit Adam
# takes as many steps, and is frozen after 3/10 of them; Muon takes 3/4 of them.
#   bench/optimizer_curves.sh TRIAX DATA_PREFIX VOCABULARY [STEPS]        DATA_PREFIX: of ids below VOCABULARY, 8192 or so
# SEEDS in the environment: others than "1 2 3"; MODEL: other flags of size.
set -euo pipefail
triax=$1 data=$2 vocabulary=$3 steps=${4:-400}
model=${MODEL:---num-layers 6 --hidden-size 320 --num-attention-heads 5 --seq-length 128 --max-position-embeddings 128}
run() { # SEED STEPS FLAGS...: the validation loss in the end
    "$triax" torchrun --nproc-per-node 2 pretrain-gpt $model --micro-batch-size 8 --global-batch-size 16 --train-iters "$2" --lr 1e-3 \
        --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-iters $(($2 / 10)) --adam-beta2 0.99 --clip-grad 1 --bf16 \
        --tokenizer-type NullTokenizer --vocab-size "$vocabulary" --data-path "$data" --split 90,5,5 --log-interval 50 \
        --hidden-dropout 0 --attention-dropout 0 --eval-interval "$2" --eval-iters 20 --threads 1 --seed "$1" "${@:3}" 2>&1 |
        sed -nE 's/.*validation set.*loss value: ([^ ]+).*/\1/p' | tail -1
}
for seed in ${SEEDS:-1 2 3}; do
    adam=$(run "$seed" "$steps")
    onebit=$(run "$seed" "$steps" --optimizer onebitadam --onebit-freeze-step $((steps * 3 / 10)))
    muon=$(run "$seed" $((steps * 3 / 4)) --optimizer muon)
    awk -v s="$seed" -v a="$adam" -v b="$onebit" -v m="$muon" -v n="$steps" 'BEGIN {
        printf "seed %s: adam %.4f, onebitadam %.4f, %+.2f %%, muon %.4f with 3/4 of %d steps, %+.2f %%\n", s, a, b,
               100 * (b - a) / a, m, n, 100 * (m - a) / a }'
done
