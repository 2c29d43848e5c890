#!/bin/bash
# GPT-2 with the flags of Megatron-LM and its first DeepSpeed (DeepScale) engine of 2020: JSON lines as --train-data,
# --batch-size of a rank, --model-parallel-size, --warmup as a share.
#
#   TRAIN_DATA=webtext/train.json examples/tutorials/gpt2_2020.sh plain|model-parallel|zero2 [FLAGS...]
#
# FLAGS are added after its own; the last of two equal ones counts.
set -euo pipefail
TRIAX=${TRIAX:-triax}
kind=${1:-plain}
[ $# -eq 0 ] || shift

TRAIN_DATA=${TRAIN_DATA:-data/webtext.json}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt2_2020_$kind}

flags=(
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --batch-size 8 --seq-length 1024 --max-position-embeddings 1024
    --train-iters 320000 --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" --resume-dataloader
    --train-data "$TRAIN_DATA" --lazy-loader --tokenizer-type GPT2BPETokenizer
    --vocab-file "${VOCAB_FILE:-gpt2-vocab.json}" --merge-file "${MERGE_FILE:-gpt2-merges.txt}" --cache-dir cache
    --split 949,50,1 --distributed-backend nccl
    --lr 0.00015 --lr-decay-style cosine --weight-decay 1e-2 --clip-grad 1.0 --warmup .01
    --checkpoint-activations --fp16
)

case $kind in
plain) "$TRIAX" pretrain_gpt2.py "${flags[@]}" "$@" ;;
model-parallel)
    "$TRIAX" python -m torch.distributed.launch --nproc_per_node "${N_RANKS:-2}" --nnodes 1 --node_rank 0 \
        --master_addr localhost --master_port "${MASTER_PORT:-6000}" \
        pretrain_gpt2.py --model-parallel-size "${MP_SIZE:-2}" "${flags[@]}" "$@"
    ;;
zero2)
    config=${DS_CONFIG:-ds_zero2_config.json}
    cat >"$config" <<'JSON'
{
  "train_micro_batch_size_per_gpu": 8,
  "gradient_accumulation_steps": 1,
  "steps_per_print": 1,
  "zero_optimization": {
    "stage": 2,
    "allgather_partitions": true,
    "reduce_scatter": true,
    "allgather_bucket_size": 50000000,
    "reduce_bucket_size": 50000000,
    "overlap_comm": true
  },
  "optimizer": {
    "type": "Adam",
    "params": { "lr": 0.00015, "max_grad_norm": 1.0 }
  },
  "fp16": {
    "enabled": true,
    "loss_scale": 0,
    "loss_scale_window": 1000,
    "hysteresis": 2,
    "min_loss_scale": 1
  },
  "activation_checkpointing": { "partition_activations": true },
  "wall_clock_breakdown": true
}
JSON
    "$TRIAX" deepscale --num_gpus "${N_RANKS:-4}" pretrain_gpt2.py --model-parallel-size "${MP_SIZE:-2}" "${flags[@]}" \
        --deepscale --deepscale-activation-checkpointing --deepscale_config "$config" "$@"
    ;;
*)
    echo "gpt2_2020.sh: $kind is not one of plain, model-parallel, zero2" >&2
    exit 2
    ;;
esac
