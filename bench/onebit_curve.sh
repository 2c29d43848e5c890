#!/bin/bash
# Loss of 1-bit Adam beside Adam's after as many steps: a small GPT on 2 ranks, three seeds.
#   bench/onebit_curve.sh TRIAX DATA_PREFIX [STEPS [FREEZE]]        DATA_PREFIX: of ids below 50257
# SEEDS in the environment: others than "1 2 3".
set -euo pipefail
triax=$1 data=$2 steps=${3:-300} freeze=${4:-80}
run() { # SEED FLAGS...: the validation loss in the end
    "$triax" torchrun --nproc-per-node 2 pretrain-gpt --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 \
        --max-position-embeddings 64 --micro-batch-size 4 --global-batch-size 8 --train-iters "$steps" --lr 1e-3 --min-lr 1e-4 \
        --lr-decay-style cosine --lr-warmup-iters $((steps / 10)) --adam-beta2 0.95 --clip-grad 1 --tokenizer-type NullTokenizer \
        --vocab-size 50257 --data-path "$data" --split 80,10,10 --log-interval 50 --eval-interval "$steps" --eval-iters 10 --threads 1 \
        --seed "$@" 2>&1 | grep 'validation set' | tail -1 | sed -E 's/.*loss value: ([^ ]+).*/\1/'
}
for seed in ${SEEDS:-1 2 3}; do
    adam=$(run "$seed") onebit=$(run "$seed" --optimizer onebitadam --onebit-freeze-step "$freeze")
    echo "seed $seed: adam $adam, onebitadam $onebit, $(awk -v a="$adam" -v b="$onebit" 'BEGIN { printf "%+.2f %%", 100 * (b - a) / a }')"
done
