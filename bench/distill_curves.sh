#!/bin/bash
# Validation losses of a student with a teacher and without: a GPT of 6 layers is trained, then one of 4 layers by itself and with
# --kd from the first, three seeds, as many steps with the same samples.
#   bench/distill_curves.sh TRIAX DATA_PREFIX VOCABULARY [STEPS]        DATA_PREFIX: of ids below VOCABULARY, 8192 or so
# SEEDS in the environment: others than "1 2 3"; TEACHER, STUDENT: other flags of size; TEACHER_STEPS; KD: other flags of --kd;
# TEACHER_DIR: a teacher that is there already.
set -euo pipefail
triax=$1 data=$2 vocabulary=$3 steps=${4:-300}
teacher=${TEACHER:---num-layers 6 --hidden-size 192 --num-attention-heads 6}
student=${STUDENT:---num-layers 4 --hidden-size 96 --num-attention-heads 3}
folder=${TEACHER_DIR:-}
[ "$folder" ] || { folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT; }
run() { # STEPS FLAGS...: the validation loss in the end
    "$triax" pretrain-gpt --seq-length 64 --max-position-embeddings 64 --micro-batch-size 16 --global-batch-size 16 --train-iters "$1" \
        --lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine --lr-warmup-iters $(($1 / 10)) --adam-beta2 0.99 --clip-grad 1 \
        --tokenizer-type NullTokenizer --vocab-size "$vocabulary" --data-path "$data" --split 90,5,5 --log-interval 50 \
        --hidden-dropout 0 --attention-dropout 0 --eval-interval "$1" --eval-iters 40 "${@:2}" 2>&1 |
        sed -nE 's/.*validation set.*loss value: ([^ ]+).*/\1/p' | tail -1
}
[ "${TEACHER_DIR:-}" ] || echo "teacher: $(run "${TEACHER_STEPS:-$((2 * steps))}" $teacher --seed 7 --save "$folder" --save-interval 1000000)"
for seed in ${SEEDS:-1 2 3}; do
    alone=$(run "$steps" $student --seed "$seed")
    taught=$(run "$steps" $student --seed "$seed" --kd --load-teacher "$folder" ${KD:-})
    awk -v s="$seed" -v a="$alone" -v b="$taught" -v n="$steps" 'BEGIN {
        printf "seed %s: alone %.4f, with the teacher %.4f after %d steps, %+.4f\n", s, a, b, n, b - a }'
done
