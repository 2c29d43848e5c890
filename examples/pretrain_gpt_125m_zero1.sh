#!/bin/bash
# Trains a GPT of 125M parameters as 8 ranks of one host: tensor parallel 2, pipeline parallel 2, and 2 data-parallel ranks
# that divide the optimizer's state: ZeRO stage 1. DeepSpeed's JSON is written by the script.
#
#   examples/pretrain_gpt_125m_zero1.sh
#
# Flags after the script's name are added; the last of two equal ones counts, so it can be tried small:
#   examples/pretrain_gpt_125m_zero1.sh --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 \
#       --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 4 --train-iters 10 --log-interval 1
# and with fewer ranks: N_RANKS=2 TP=1 PP=1 ...
set -euo pipefail
TRIAX=${TRIAX:-triax}

N_RANKS=${N_RANKS:-8}
TP=${TP:-2}
PP=${PP:-2}
ZERO_STAGE=${ZERO_STAGE:-1}

CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt_125m_zero1}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
DATA_PATH=${DATA_PATH:-my-gpt2_text_document}
DS_CONFIG=${DS_CONFIG:-${CHECKPOINT_PATH}_ds_config.json}

# Batch sizes are not in the file: they are those of the flags. Upstream's scripts, which write them into both, work, too.
mkdir -p "$(dirname "$DS_CONFIG")"
cat >"$DS_CONFIG" <<JSON
{
  "steps_per_print": 10,
  "zero_optimization": {
    "stage": $ZERO_STAGE
  },
  "gradient_clipping": 1.0,
  "prescale_gradients": false,
  "bf16": {
    "enabled": true
  },
  "wall_clock_breakdown": false
}
JSON

PARALLEL_ARGS="
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size $PP
"

GPT_ARGS="
    --num-layers 12
    --hidden-size 768
    --num-attention-heads 12
    --seq-length 1024
    --max-position-embeddings 1024
    --micro-batch-size 4
    --global-batch-size 32
    --lr 6.0e-4
    --min-lr 6.0e-5
    --train-iters 100000
    --lr-decay-style cosine
    --lr-warmup-fraction .01
    --adam-beta2 0.95
    --weight-decay 0.1
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
    --log-interval 10
    --save-interval 10000
    --eval-interval 1000
    --eval-iters 10
"

DEEPSPEED_ARGS="
    --deepspeed
    --deepspeed_config $DS_CONFIG
    --zero-stage $ZERO_STAGE
"

exec "$TRIAX" deepspeed --num_gpus "$N_RANKS" pretrain_gpt.py \
    $PARALLEL_ARGS \
    $GPT_ARGS \
    $DATA_ARGS \
    $OUTPUT_ARGS \
    $DEEPSPEED_ARGS \
    --save "$CHECKPOINT_PATH" \
    --load "$CHECKPOINT_PATH" \
    "$@"
