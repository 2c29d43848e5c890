#!/bin/bash
# A GPT of 13 billion parameters on 16 nodes of 8 ranks: tensor parallel 4, pipeline parallel 4, data parallel 8.
#
#   sbatch examples/slurm_13b.sh                           one task a rank, started by srun
#   sbatch --ntasks-per-node=1 examples/slurm_13b.sh       one task a node, which starts torchrun there
#
# Slurm's USR1 five minutes before the time is over makes the ranks save and exit; the job then goes back into the queue, as
# it does when a node is lost. Flags after the script's name are added; the last of two equal ones counts, so it can be tried
# small:  sbatch --nodes=2 --ntasks-per-node=2 examples/slurm_13b.sh --num-layers 2 --hidden-size 64 ...
#
# MPI is srun's --mpi for one task a rank: pmix for Open MPI, pmi2 for MPICH, cray_shasta for Cray's. CONTAINER goes before the
# program: CONTAINER="singularity exec -B /scratch triax.sif" sbatch ...
#SBATCH --job-name=gpt-13b
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=8
#SBATCH --time=24:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out
set -uo pipefail
TRIAX=${TRIAX:-triax}
MPI=${MPI:-pmix}
CONTAINER=${CONTAINER:-}

TP=${TP:-4}
PP=${PP:-4}
NPROC=${NPROC:-8} # ranks on a node, with one task a node
CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/gpt_13b}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
DATA_PATH=${DATA_PATH:-my-gpt2_text_document}

PARALLEL_ARGS="
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size $PP
    --sequence-parallel
"

GPT_ARGS="
    --num-layers 40
    --hidden-size 5120
    --num-attention-heads 40
    --seq-length 2048
    --max-position-embeddings 2048
    --micro-batch-size 1
    --global-batch-size 1024
    --rampup-batch-size 32 32 4882812
    --train-samples 146484375
    --lr 1.0e-4
    --min-lr 1.0e-5
    --lr-decay-style cosine
    --lr-decay-samples 126953125
    --lr-warmup-samples 183105
    --weight-decay 0.1
    --adam-beta1 0.9
    --adam-beta2 0.95
    --clip-grad 1.0
    --init-method-std 0.008
    --bf16
    --recompute-activations
"

DATA_ARGS="
    --data-path $DATA_PATH
    --vocab-file $VOCAB_FILE
    --merge-file $MERGE_FILE
    --split 969,30,1
"

OUTPUT_ARGS="
    --log-interval 10
    --save-interval 500
    --eval-interval 500
    --eval-iters 10
    --save $CHECKPOINT_PATH
    --load $CHECKPOINT_PATH
"

if [ "${SLURM_NTASKS_PER_NODE:-1}" -gt 1 ]; then
    srun --mpi="$MPI" --kill-on-bad-exit=1 --wait=60 \
        $CONTAINER "$TRIAX" pretrain-gpt $PARALLEL_ARGS $GPT_ARGS $DATA_ARGS $OUTPUT_ARGS "$@"
else
    MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
    MASTER_PORT=${MASTER_PORT:-$((10000 + SLURM_JOB_ID % 20000))}
    srun --ntasks-per-node=1 --kill-on-bad-exit=1 --wait=60 \
        $CONTAINER "$TRIAX" torchrun --nnodes "$SLURM_JOB_NUM_NODES" --nproc_per_node "$NPROC" --rdzv_id "$SLURM_JOB_ID" \
        --rdzv_backend c10d --rdzv_endpoint "$MASTER_ADDR:$MASTER_PORT" pretrain_gpt.py \
        $PARALLEL_ARGS $GPT_ARGS $DATA_ARGS $OUTPUT_ARGS "$@"
fi
