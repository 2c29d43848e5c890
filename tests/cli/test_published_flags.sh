#!/bin/bash
# labels: cli
# The flags of published scripts, as they stand there, with smaller sizes behind: Megatron-DeepSpeed's of a 125M GPT
# (examples_deepspeed/rebase/ds_pretrain_gpt_125M_flashattn.sh at f4157bea), and a guide's of a GPT and a BERT. Where
# ../shared holds the texts, every flag that they type is asked for.
. "$(dirname "$0")/lib.sh"
vocab=(--vocab-file "$data/token/gpt2-vocab.json" --merge-file "$data/token/gpt2-merges.txt")
small=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --micro-batch-size 2 --global-batch-size 4 --seq-length 32
    --max-position-embeddings 32 --log-interval 1 --eval-iters 1 --eval-interval 2 --save-interval 2 --threads 1 --device cpu)
trained() { # N: so many iterations, each with a loss
    [ "$(losses out | grep -c ' [0-9]')" -eq "$1" ] || { cat out err >&2; die "not $1 iterations"; }
}

for i in $(seq 300); do
    printf '{"text": "The king of the %dth land said unto his servants: go ye, all %d of you. Find water. They went."}\n' "$i" "$((i * i))"
done >corpus.jsonl
ok tools/preprocess_data.py --input corpus.jsonl --output-prefix my-gpt2 --vocab-file "$data/token/gpt2-vocab.json" --dataset-impl mmap \
    --tokenizer-type GPT2BPETokenizer --merge-file "$data/token/gpt2-merges.txt" --append-eod --workers 8
ok tools/preprocess_data.py --input corpus.jsonl --output-prefix meg-gpt2 --vocab "$data/token/gpt2-vocab.json" --dataset-impl mmap \
    --tokenizer-type GPT2BPETokenizer --merge-file "$data/token/gpt2-merges.txt" --append-eod --workers 8

# 125M: tokens, samples and iterations of its own lengths; DeepSpeed's file made of its template
cat >ds_config_gbs4_mbs2_log10_zero0.json <<'EOF'
{
  "train_batch_size": 4,
  "train_micro_batch_size_per_gpu": 2,
  "steps_per_print": 1,

  "zero_optimization": {
    "stage": 1
  },

  "gradient_clipping": 1.0,
  "prescale_gradients": false,

  "fp16": {
    "enabled": true,
    "loss_scale": 0,
    "loss_scale_window": 500,
    "hysteresis": 2,
    "min_loss_scale": 1,
    "initial_scale_power": 11
  },

  "wall_clock_breakdown" : false
}
EOF
ok examples_deepspeed/rebase/../../pretrain_gpt.py --override-opt_param-scheduler --adam-beta1 0.9 --adam-beta2 0.95 \
    --tensor-model-parallel-size 1 --init-method-std 0.02 --lr-decay-tokens 300000000000 --lr-warmup-tokens 3000000000 \
    --micro-batch-size 2 --exit-duration-in-mins 30000000 --global-batch-size 256 --num-layers 12 --hidden-size 768 \
    --num-attention-heads 12 --seq-length 2048 --max-position-embeddings 2048 --train-tokens 300000000000 \
    --train-samples 292968750 --lr 6.0e-4 --min-lr 1.0e-6 --lr-decay-style cosine --split 949,50,1 --log-interval 10 \
    --eval-interval 100 --eval-iters 10 --save-interval 1000 --weight-decay 0.1 --clip-grad 1.0 --hysteresis 2 --num-workers 0 \
    --fp16 --seed 1234 --load checkpoint --save checkpoint --no-async-tensor-model-parallel-allreduce --use-flash-attn \
    --tensorboard-queue-size 1 --log-timers-to-tensorboard --log-batch-size-to-tensorboard \
    --log-validation-ppl-to-tensorboard --tensorboard-dir tensorboard --checkpoint-activations \
    --log-optimizer-states-to-tensorboard "${vocab[@]}" --data-path my-gpt2_text_document --data-impl mmap --deepspeed \
    --deepspeed_config ds_config_gbs4_mbs2_log10_zero0.json --zero-stage 1 --pipeline-model-parallel-size 1 \
    --no-pipeline-parallel --deepspeed-activation-checkpointing --no-gradient-accumulation-fusion \
    "${small[@]}" --train-samples 16 --train-tokens 1000 --lr-decay-tokens 512 --lr-warmup-tokens 64 --split 2,1,1
trained 4

# a guide's GPT, which has no --save-interval, and its BERT
guide=(--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --micro-batch-size 4 --global-batch-size 16
    --data-impl mmap --split 949,50,1 --distributed-backend nccl --weight-decay 1e-2 --clip-grad 1.0 --fp16
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
one=(--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 --train-iters 2 --split 2,1,1 --loss-scale 1024)
ok pretrain_gpt.py "${guide[@]}" --seq-length 1024 --max-position-embeddings 1024 --train-iters 500000 --lr-decay-iters 320000 \
    --save guide --load guide --data-path my-gpt2_text_document "${vocab[@]}" --lr 0.00015 --lr-decay-style cosine \
    --min-lr 1.0e-5 "${small[@]}" "${one[@]}" --lr-decay-iters 2
trained 2
bert=$data/token/bert-base-uncased-vocab.txt
ok tools/preprocess_data.py --input corpus.jsonl --output-prefix my-bert --vocab-file "$bert" --tokenizer-type BertWordPieceLowerCase \
    --split-sentences --workers 2
ok pretrain_bert.py "${guide[@]}" --seq-length 512 --max-position-embeddings 512 --train-iters 2000000 --save guide-bert \
    --load guide-bert --data-path my-bert_text_sentence --vocab-file "$bert" --lr 0.0001 --lr-decay-style linear \
    --min-lr 1.0e-5 "${small[@]}" "${one[@]}"
trained 2

# ---- what scripts for Megatron Core carry today, for a Llama
core=(--use-mcore-models --transformer-impl transformer_engine --attention-backend flash --ckpt-format torch_dist
    --group-query-attention --num-query-groups 2 --position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0
    --attention-dropout 0.0 --hidden-dropout 0.0 --swiglu --init-method-std 0.0134 --normalization RMSNorm --disable-bias-linear
    --untie-embeddings-and-output-weights --no-masked-softmax-fusion --no-rope-fusion --cross-entropy-loss-fusion
    --cross-entropy-fusion-impl te --manual-gc --manual-gc-interval 100 --empty-unused-memory-level 1 --overlap-grad-reduce
    --overlap-param-gather --use-distributed-optimizer --distributed-timeout-minutes 60 --distributed-backend nccl
    --no-create-attention-mask-in-dataloader --num-workers 1 --data-cache-path cache --lr 0.00015 --min-lr 0.00001
    --lr-decay-style cosine --clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --bf16 --log-throughput
    --dist-ckpt-strictness log_all --ckpt-fully-parallel-load --eod-mask-loss --use-precision-aware-optimizer
    --exp-avg-dtype fp32 --no-save-optim --log-memory-to-tensorboard --tensorboard-dir core-board)
ok pretrain_gpt.py "${core[@]}" --data-path my-gpt2_text_document "${vocab[@]}" "${small[@]}" --ffn-hidden-size 96 --save core \
    --train-iters 2 --split 2,1,1
trained 2
for line in "--attention-backend flash: accepted, without effect here: attention here never" "--normalization RMSNorm: rmsnorm" \
    "--ckpt-format torch_dist: accepted, without effect here: checkpoints are triax's"; do
    grep -qF -- "$line" out || { cat out >&2; die "not said: $line"; }
done
refused "--multi-latent-attention is not built yet: attention has no latent projections; leave the flag out" pretrain_gpt.py "${core[@]}" \
    --data-path my-gpt2_text_document "${vocab[@]}" "${small[@]}" --train-iters 2 --multi-latent-attention

# ---- the texts, where they are
texts=$(dirname "$0")/../../../shared/reference/tutorials
ls "$texts"/00[0-4]_*.txt >/dev/null 2>&1 || { echo "skipped in part: ../shared/reference/tutorials is not here"; exit 0; }
other=" recursive init upgrade gpus ulimit network privileged ipc name nodes " # of git, pip, docker and Slurm
options=$(tr _ - <"$(dirname "$0")/../../docs/options.md")
for flag in $(cat "$texts"/00[0-4]_*.txt | grep -oE '(^|[[:space:]`"])--[a-zA-Z][A-Za-z0-9_-]*' | sed -E 's/.*--//' | tr _ - | sort -u); do
    [[ $other = *" $flag "* ]] || [[ $options = *"\`--$flag\`"* ]] || die "--$flag, which a text types, is a flag of no command"
done
