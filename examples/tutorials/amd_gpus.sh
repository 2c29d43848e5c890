#!/bin/bash
# GPT and BERT of 24 layers on the 4 GPUs of one node, as the guide for AMD's GPUs has them: tensor 2, pipeline 2, fp16,
# torch's launcher, its environment, --save without --save-interval.
#
#   examples/tutorials/amd_gpus.sh gpt|bert [FLAGS...]
#
# FLAGS are added after its own; the last of two equal ones counts.
set -euo pipefail
TRIAX=${TRIAX:-triax}
model=${1:-gpt}
[ $# -eq 0 ] || shift

CHECKPOINT_PATH=${CHECKPOINT_PATH:-checkpoints/$model}
MERGE_FILE=${MERGE_FILE:-merges.txt}

# GPUs, RCCL and Open MPI, as far as the machine has them
export HIP_VISIBLE_DEVICES=${HIP_VISIBLE_DEVICES:-0,1,2,3} CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0,1,2,3}
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-^lo} HSA_ENABLE_SDMA=${HSA_ENABLE_SDMA:-0}
export OMPI_MCA_btl=${OMPI_MCA_btl:-^openib} OMPI_MCA_pml=${OMPI_MCA_pml:-ucx} OMPI_MCA_osc=${OMPI_MCA_osc:-ucx}

common=(
    --nproc_per_node "${N_RANKS:-4}" --nnodes 1 --node_rank 0 --master_addr localhost --master_port "${MASTER_PORT:-6000}"
    "pretrain_$model.py"
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --micro-batch-size 4 --global-batch-size 16
    --min-lr 1.0e-5 --weight-decay 1e-2 --clip-grad 1.0 --fp16
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --distributed-backend nccl
    --data-impl mmap --split 949,50,1 --save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH"
)

case $model in
gpt)
    "$TRIAX" torch.distributed.launch "${common[@]}" --seq-length 1024 --max-position-embeddings 1024 \
        --train-iters 500000 --lr 0.00015 --lr-decay-style cosine --lr-decay-iters 320000 \
        --vocab-file "${VOCAB_FILE:-vocab.json}" --merge-file "$MERGE_FILE" --data-path "${DATA_PATH:-my_dataset_text_document}" "$@"
    ;;
bert)
    "$TRIAX" torch.distributed.launch "${common[@]}" --seq-length 512 --max-position-embeddings 512 \
        --train-iters 2000000 --lr 0.0001 --lr-decay-style linear \
        --vocab-file "${VOCAB_FILE:-vocab.txt}" --data-path "${DATA_PATH:-my_dataset_text_sentence}" "$@"
    ;;
*)
    echo "amd_gpus.sh: $model is not one of gpt, bert" >&2
    exit 2
    ;;
esac
