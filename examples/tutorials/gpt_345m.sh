#!/bin/bash
# A GPT of 345M parameters on one node, as the tutorial has it: first without DeepSpeed on 1 rank, then on 4 tensor-parallel
# ranks, then ZeRO 3 by a JSON with the optimizer's state in the host's memory.
#
#   examples/tutorials/gpt_345m.sh one|tensor|zero3 [FLAGS...]
#
# FLAGS are added after its own; the last of two equal ones counts.
set -euo pipefail
TRIAX=${TRIAX:-triax}
kind=${1:-zero3}
[ $# -eq 0 ] || shift

CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt2_$kind}
VOCAB_FILE=${VOCAB_FILE:-data/gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-data/gpt2-merges.txt}
DATA_PATH=${DATA_PATH:-data/meg-gpt2_text_document}

flags=(
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024
    --train-iters 5000 --lr 0.00015 --min-lr 1.0e-5 --lr-decay-style cosine --lr-decay-iters 320000 --lr-warmup-fraction .01
    --weight-decay 1e-2 --clip-grad 1.0 --fp16 --checkpoint-activations
    --vocab-file "$VOCAB_FILE" --merge-file "$MERGE_FILE" --data-path "$DATA_PATH" --data-impl mmap --split 949,50,1
    --distributed-backend nccl
    --log-interval 10 --save-interval 500 --eval-interval 100 --eval-iters 10
    --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH"
)
torch_ranks() {
    echo "--nproc_per_node $1 --nnodes 1 --node_rank 0 --master_addr localhost --master_port ${MASTER_PORT:-6000}"
}

case $kind in
one)
    "$TRIAX" torch.distributed.launch $(torch_ranks 1) pretrain_gpt.py --tensor-model-parallel-size 1 \
        --pipeline-model-parallel-size 1 --micro-batch-size 4 --global-batch-size 8 "${flags[@]}" "$@"
    ;;
tensor)
    "$TRIAX" torch.distributed.launch $(torch_ranks 4) pretrain_gpt.py --tensor-model-parallel-size 4 \
        --pipeline-model-parallel-size 1 --micro-batch-size 4 --global-batch-size 8 "${flags[@]}" "$@"
    ;;
zero3)
    config=${DS_CONFIG:-deepspeed_config.json}
    cat >"$config" <<'JSON'
{
  "fp16": { "enabled": true },
  "zero_optimization": {
    "stage": 3,
    "allgather_partitions": true,
    "allgather_bucket_size": 2e8,
    "overlap_comm": true,
    "reduce_scatter": true,
    "reduce_bucket_size": 2e8,
    "contiguous_gradients": true,
    "cpu_offload": true
  }
}
JSON
    "$TRIAX" deepspeed --num_gpus "${N_RANKS:-4}" pretrain_gpt.py --tensor-model-parallel-size "${TP:-4}" \
        --pipeline-model-parallel-size 1 --micro-batch-size 1 --global-batch-size 4 "${flags[@]}" \
        --deepspeed_config "$config" "$@"
    ;;
*)
    echo "gpt_345m.sh: $kind is not one of one, tensor, zero3" >&2
    exit 2
    ;;
esac
