#!/bin/bash
# Trains a GPT of 345M parameters as 8 ranks of one host, which divide parameters, gradients and the optimizer's state among
# them: ZeRO stage 3, as ds_config_345m_zero3.json beside this script says. Batch sizes are "auto" there: the flags' here.
#
#   examples/pretrain_gpt_345m_zero3.sh
#
# Flags after the script's name are added; the last of two equal ones counts, so it can be tried small:
#   N_RANKS=2 examples/pretrain_gpt_345m_zero3.sh --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 \
#       --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 4 --train-iters 10 --log-interval 1
set -euo pipefail
TRIAX=${TRIAX:-triax}

N_RANKS=${N_RANKS:-8}

CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt_345m_zero3}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
DATA_PATH=${DATA_PATH:-my-gpt2_text_document}
DS_CONFIG=${DS_CONFIG:-$(dirname "$0")/ds_config_345m_zero3.json}

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

# --no-pipeline-parallel: what DeepSpeed needs for stage 3; triax takes stage 3 with pipelines, too.
DEEPSPEED_ARGS="
    --deepspeed
    --deepspeed_config $DS_CONFIG
    --zero-stage 3
    --no-pipeline-parallel
    --checkpoint-activations
    --deepspeed-activation-checkpointing
"

exec "$TRIAX" deepspeed --num_gpus "$N_RANKS" pretrain_gpt.py \
    $GPT_ARGS \
    $DATA_ARGS \
    $OUTPUT_ARGS \
    $DEEPSPEED_ARGS \
    --save "$CHECKPOINT_PATH" \
    --load "$CHECKPOINT_PATH" \
    "$@"
