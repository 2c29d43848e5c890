#!/bin/bash
# Validation losses of a GPT of 10 million parameters, plain and with curriculum learning and random-LTD, which take 3/4 of its
# tokens, counted by layer (docs/howto/curriculum.md, random-ltd.md): three seeds, one rank, and the time each run took.
#   bench/efficiency_curves.sh TRIAX DATA_PREFIX VOCABULARY [STEPS]        DATA_PREFIX: of ids below VOCABULARY, 8192 or so
# SEEDS in the environment: others than "1 2 3"; MODEL: other flags of size; FLAGS: more flags, as --device gpu;
# CURRICULUM, LTD: other flags of theirs.
set -euo pipefail
triax=$1 data=$2 vocabulary=$3 steps=${4:-400}
model=${MODEL:---num-layers 6 --hidden-size 320 --num-attention-heads 5 --seq-length 256 --max-position-embeddings 256}
tokens=$((steps * 16 * 256))
curriculum=${CURRICULUM:---curriculum-schedule fixed_linear --curriculum-min-difficulty 128 --curriculum-max-difficulty 256
    --curriculum-total-step $((steps / 2)) --curriculum-difficulty-step 32}
ltd=${LTD:---random-ltd --random-ltd-min-value 64 --random-ltd-max-value 256 --random-ltd-require-steps $steps
    --random-ltd-seq-per-step 32}
run() { # SEED TOKENS FLAGS...: the validation loss in the end, iterations, and seconds of all of them
    "$triax" pretrain-gpt $model --micro-batch-size 16 --global-batch-size 16 --train-tokens "$2" --train-iters $((steps * 2)) \
        --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-decay-tokens "$2" --lr-warmup-tokens $(($2 / 10)) --adam-beta2 0.99 \
        --clip-grad 1 --bf16 --tokenizer-type NullTokenizer --vocab-size "$vocabulary" --data-path "$data" --split 90,5,5 \
        --hidden-dropout 0 --attention-dropout 0 --log-interval 1 --eval-interval $((steps * 2)) --eval-iters 20 --seed "$1" \
        ${FLAGS:-} "${@:3}" 2>&1 | tee "${LOG:-/dev/null}" | awk '
        / iteration +[0-9]+\// { n++; sub(/.*iteration \(ms\): */, ""); ms += $1 }
        /validation set.*loss value:/ { sub(/.*loss value: */, ""); loss = $1 }
        END { printf "%.4f %d %.1f\n", loss, n, ms / 1e3 }'
}
for seed in ${SEEDS:-1 2 3}; do
    read -r a n s <<<"$(run "$seed" "$tokens")"
    read -r b m t <<<"$(run "$seed" $((tokens * 3 / 4)) $curriculum $ltd)"
    awk -v seed="$seed" -v a="$a" -v n="$n" -v s="$s" -v b="$b" -v m="$m" -v t="$t" 'BEGIN {
        printf "seed %s: plain %.4f in %d steps, %.1f s; with 3/4 of the tokens %.4f in %d steps, %.1f s: %+.2f %%, %.2f of the time\n",
               seed, a, n, s, b, m, t, 100 * (b - a) / a, t / s }'
done
