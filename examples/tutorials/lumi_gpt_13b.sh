#!/bin/bash
#SBATCH --job-name=gpt-13b
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=56
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
# A GPT of 13B parameters under Slurm on nodes of 8 devices each that do not let one ssh: one task a node, which starts that
# node's ranks. docs/howto/start-a-job.md tells of such sites.
#
#   sbatch examples/tutorials/lumi_gpt_13b.sh [FLAGS...]       TP=8 PP=2 sbatch --nodes=4 ...
#
# FLAGS are added after its own; the last of two equal ones counts. Without Slurm it is one node.
set -euo pipefail
TRIAX=${TRIAX:-triax}

nodes=${SLURM_NNODES:-1}
per_node=${NPROC:-8}
if [ -n "${SLURM_JOB_NODELIST:-}" ]; then
    MASTER_ADDR=${MASTER_ADDR:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)}
    start=(srun --kill-on-bad-exit=1)
else
    MASTER_ADDR=${MASTER_ADDR:-localhost}
    start=()
fi
export MASTER_ADDR MASTER_PORT=${MASTER_PORT:-6000}

tp=${TP:-2} pp=${PP:-2} zero_stage=${ZERO_STAGE:-1}
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt_13b}
mkdir -p "$CHECKPOINT_PATH"
config=${DS_CONFIG:-$CHECKPOINT_PATH/ds_config.json}
cat >"$config" <<JSON
{
  "train_micro_batch_size_per_gpu": ${MICRO_BATCH_SIZE:-4},
  "steps_per_print": 10,
  "zero_optimization": { "stage": $zero_stage },
  "gradient_clipping": 1.0,
  "fp16": { "enabled": true, "loss_scale": 0, "loss_scale_window": 500, "hysteresis": 2, "min_loss_scale": 1, "initial_scale_power": 11 }
}
JSON

# The node's rank is known on the node only: $SLURM_NODEID there.
exec "${start[@]}" bash -c 'exec "$0" torch.distributed.run --nnodes "$1" --nproc_per_node "$2" --node_rank "${SLURM_NODEID:-0}" \
    --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" pretrain_gpt.py "${@:3}"' "$TRIAX" "$nodes" "$per_node" \
    --tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" \
    --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 2048 --max-position-embeddings 2048 \
    --micro-batch-size "${MICRO_BATCH_SIZE:-4}" --global-batch-size "${GLOBAL_BATCH_SIZE:-1024}" \
    --train-samples 292968750 --train-tokens 300000000000 \
    --lr 1.0e-4 --min-lr 1.0e-6 --lr-decay-style cosine --lr-warmup-tokens 3000000000 --lr-decay-tokens 300000000000 \
    --adam-beta1 0.9 --adam-beta2 0.95 --weight-decay 0.1 --clip-grad 1.0 --init-method-std 0.008 --fp16 --hysteresis 2 \
    --vocab-file "${VOCAB_FILE:-gpt2-vocab.json}" --merge-file "${MERGE_FILE:-gpt2-merges.txt}" \
    --data-path "${DATA_PATH:-my-gpt2_text_document}" --data-impl mmap --split 949,50,1 \
    --log-interval 10 --eval-interval 100 --eval-iters 10 --save-interval 100 \
    --checkpoint-activations --deepspeed-activation-checkpointing \
    --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" \
    --deepspeed --deepspeed_config "$config" --zero-stage "$zero_stage" "$@"
