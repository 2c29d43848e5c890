#!/bin/bash
# Trains a GPT of 345M parameters on two nodes, four ranks on each. One line to type on each node, nothing else:
#
#   node0$ NODE_RANK=0 MASTER_ADDR=node0 examples/pretrain_gpt_two_nodes.sh
#   node1$ NODE_RANK=1 MASTER_ADDR=node0 examples/pretrain_gpt_two_nodes.sh
#
# Flags after the script's name are added; the last of two equal ones counts: NPROC=1 examples/... --num-layers 2 --lr 1e-3
set -euo pipefail
TRIAX=${TRIAX:-triax}

NNODES=${NNODES:-2}
NODE_RANK=${NODE_RANK:?which node is this, 0 or 1}
MASTER_ADDR=${MASTER_ADDR:?the name of node 0}
MASTER_PORT=${MASTER_PORT:-6000}
NPROC=${NPROC:-4}

CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt_345m}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
DATA_PATH=${DATA_PATH:-my-gpt2_text_document}

DISTRIBUTED_ARGS="
    --nproc_per_node $NPROC
    --nnodes $NNODES
    --node_rank $NODE_RANK
    --master_addr $MASTER_ADDR
    --master_port $MASTER_PORT
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

exec "$TRIAX" torchrun $DISTRIBUTED_ARGS pretrain_gpt.py \
    $GPT_ARGS \
    $DATA_ARGS \
    $OUTPUT_ARGS \
    --save "$CHECKPOINT_PATH" \
    --load "$CHECKPOINT_PATH" \
    "$@"
