#!/bin/bash
# Trains a GPT of 345M parameters as 8 ranks of one host: tensor parallel 2, pipeline parallel 2, data parallel 2.
#
#   examples/pretrain_gpt_tp2_pp2.sh
#
# Flags after the script's name are added; the last of two equal ones counts, so it can be tried small:
#   examples/pretrain_gpt_tp2_pp2.sh --num-layers 4 --hidden-size 64 --num-attention-heads 4 --train-iters 10
set -euo pipefail
TRIAX=${TRIAX:-triax}

N_RANKS=${N_RANKS:-8}
TP=${TP:-2}
PP=${PP:-2}

CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt_345m}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
DATA_PATH=${DATA_PATH:-my-gpt2_text_document}

PARALLEL_ARGS="
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size $PP
    --sequence-parallel
"

GPT_ARGS="
    --num-layers 24
    --hidden-size 1024
    --num-attention-heads 16
    --seq-length 1024
    --max-position-embeddings 1024
    --micro-batch-size 4
    --global-batch-size 64
    --lr 0.00015
    --train-iters 500000
    --lr-decay-iters 320000
    --lr-decay-style cosine
    --min-lr 1.0e-5
    --weight-decay 1e-2
    --lr-warmup-fraction .01
    --clip-grad 1.0
    --bf16
"

DATA_ARGS="
    --data-path $DATA_PATH
    --vocab-file $VOCAB_FILE
    --merge-file $MERGE_FILE
    --split 949,50,1
"

OUTPUT_ARGS="
    --log-interval 100
    --save-interval 10000
    --eval-interval 1000
    --eval-iters 10
"

# The same without torchrun's words: mpirun -n $N_RANKS "$TRIAX" pretrain-gpt $PARALLEL_ARGS ...
exec "$TRIAX" torchrun --nproc_per_node "$N_RANKS" pretrain_gpt.py \
    $PARALLEL_ARGS \
    $GPT_ARGS \
    $DATA_ARGS \
    $OUTPUT_ARGS \
    --save "$CHECKPOINT_PATH" \
    --load "$CHECKPOINT_PATH" \
    "$@"
