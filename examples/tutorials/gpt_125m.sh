#!/bin/bash
# A GPT of 125M parameters on 8 ranks, from text to samples, as the tutorial for 8 GPUs of one node has it: data, training
# with DeepSpeed's launcher (tensor 2, pipeline 2, data parallel 2, ZeRO 1, fp16), two checkpoints made into Hugging Face's,
# three samples of each.
#
#   TEXT=corpus.jsonl examples/tutorials/gpt_125m.sh [prepare|train|convert|sample|all] [FLAGS...]
#
# FLAGS are added after the training's own; the last of two equal ones counts. Small, on any laptop:
#   examples/tutorials/gpt_125m.sh all --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 \
#       --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 4 --train-samples 64 --save-interval 8
set -euo pipefail
TRIAX=${TRIAX:-triax}
step=${1:-all}
[ $# -eq 0 ] || shift

TEXT=${TEXT:-corpus.jsonl}
VOCAB_FILE=${VOCAB_FILE:-gpt2-vocab.json}
MERGE_FILE=${MERGE_FILE:-gpt2-merges.txt}
DATA=${DATA:-my-gpt2}
OUTPUT=${OUTPUT:-output}
PROMPT=${PROMPT:-I like to play golf. Today is a sunny day and I plan to}
# the iterations whose checkpoints are compared
EARLY=${EARLY:-2000}
LATE=${LATE:-8000}

tp=${TP:-2} pp=${PP:-2} ranks=${N_RANKS:-8} zero_stage=${ZERO_STAGE:-1}
global_batch_size=${GLOBAL_BATCH_SIZE:-256} micro_batch_size=${MICRO_BATCH_SIZE:-2}
job=gpt_0.125B_tok300B_lr6.0e-4_gbs${global_batch_size}_mbs${micro_batch_size}_g${ranks}_z${zero_stage}_mp${tp}_pp${pp}
checkpoints=$OUTPUT/checkpoint/$job

prepare() {
    "$TRIAX" tools/preprocess_data.py --input "$TEXT" --output-prefix "$DATA" --vocab-file "$VOCAB_FILE" \
        --merge-file "$MERGE_FILE" --dataset-impl mmap --tokenizer-type GPT2BPETokenizer --append-eod --workers 8
}

train() {
    mkdir -p "$checkpoints" "$OUTPUT/tensorboard"
    cat >"$OUTPUT/ds_config.json" <<JSON
{
  "train_batch_size": $global_batch_size,
  "train_micro_batch_size_per_gpu": $micro_batch_size,
  "steps_per_print": 10,
  "zero_optimization": { "stage": $zero_stage },
  "gradient_clipping": 1.0,
  "fp16": {
    "enabled": true,
    "loss_scale": 0,
    "loss_scale_window": 500,
    "hysteresis": 2,
    "min_loss_scale": 1,
    "initial_scale_power": 11
  },
  "wall_clock_breakdown": false
}
JSON
    "$TRIAX" deepspeed --num_gpus "$ranks" pretrain_gpt.py \
        --override-opt_param-scheduler \
        --adam-beta1 0.9 --adam-beta2 0.95 --weight-decay 0.1 --clip-grad 1.0 \
        --tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" \
        --init-method-std 0.02 \
        --lr 6.0e-4 --min-lr 1.0e-6 --lr-decay-style cosine \
        --lr-warmup-tokens 3000000000 --lr-decay-tokens 300000000000 \
        --micro-batch-size "$micro_batch_size" --global-batch-size "$global_batch_size" \
        --num-layers 12 --hidden-size 768 --num-attention-heads 12 \
        --seq-length 2048 --max-position-embeddings 2048 \
        --train-tokens 300000000000 --train-samples 292968750 --exit-duration-in-mins 30000000 \
        --split 949,50,1 --num-workers 0 \
        --log-interval 10 --eval-interval 100 --eval-iters 10 --save-interval 1000 \
        --hysteresis 2 --fp16 --seed 1234 \
        --no-async-tensor-model-parallel-allreduce --no-gradient-accumulation-fusion --use-flash-attn \
        --checkpoint-activations --deepspeed-activation-checkpointing \
        --tensorboard-queue-size 1 --log-timers-to-tensorboard --log-batch-size-to-tensorboard \
        --log-validation-ppl-to-tensorboard --log-optimizer-states-to-tensorboard --tensorboard-dir "$OUTPUT/tensorboard" \
        --vocab-file "$VOCAB_FILE" --merge-file "$MERGE_FILE" --data-path "${DATA}_text_document" --data-impl mmap \
        --deepspeed --deepspeed_config "$OUTPUT/ds_config.json" --zero-stage "$zero_stage" \
        --load "$checkpoints" --save "$checkpoints" "$@"
}

convert() {
    local iteration
    for iteration in "$EARLY" "$LATE"; do
        "$TRIAX" tools/convert_checkpoint/deepspeed_to_transformers.py \
            --input_folder "$checkpoints/global_step$iteration" --output_folder "$checkpoints/HF/global_step$iteration"
    done
}

sample() {
    local iteration
    for iteration in "$EARLY" "$LATE"; do
        echo "Output with checkpoint from $iteration iterations:"
        "$TRIAX" generate --load "$checkpoints/HF/global_step$iteration" --vocab-file "$VOCAB_FILE" --merge-file "$MERGE_FILE" \
            --prompt "$PROMPT" --max_new_tokens 40 --do_sample --top_k 50 --top_p 0.95 --num_return_sequences 3 --seed 1
    done
}

case $step in
prepare | convert | sample) $step ;;
train) train "$@" ;;
all)
    prepare
    train "$@"
    convert
    sample
    ;;
*)
    echo "gpt_125m.sh: $step is not one of prepare, train, convert, sample, all" >&2
    exit 2
    ;;
esac
