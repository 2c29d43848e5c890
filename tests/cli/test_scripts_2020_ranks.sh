#!/bin/bash
# labels: cli parallel
# The scripts of 2020 on ranks: pretrain_gpt2_model_parallel.sh and ds_zero2_pretrain_gpt2_model_parallel.sh with smaller
# sizes behind. One rank makes the dataset of the text, the others take it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"

small=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --batch-size 2 --seq-length 32 --max-position-embeddings 32
    --train-iters 3 --eval-iters 1 --eval-interval 3 --log-interval 1 --lr-decay-iters 3
    --vocab-file "$data/token/gpt2-vocab.json" --merge-file "$data/token/gpt2-merges.txt" --split 2,1,1
    --threads 1 --device cpu)
mkdir -p data/webtext
for i in $(seq 200); do
    printf '{"text": "The king of the %dth land said unto his servants, %d times: go ye and find water."}\n' "$i" "$((i * i))"
done >data/webtext/data.json

both=(--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --batch-size 8 --seq-length 1024
    --max-position-embeddings 1024 --resume-dataloader --train-data webtext --lazy-loader
    --tokenizer-type GPT2BPETokenizer --split 949,50,1 --distributed-backend nccl --lr 0.00015 --no-load-optim
    --lr-decay-style cosine --weight-decay 1e-2 --clip-grad 1.0 --warmup .01 --checkpoint-activations --fp16 --deepspeed)
all_ranks 4 "$TRIAX" pretrain_gpt2.py --model-parallel-size 2 --train-iters 320000 --save checkpoints/gpt2_345m_mp2 \
    --load checkpoints/gpt2_345m_mp2 "${both[@]}" "${small[@]}" --loss-scale 1024 --save-interval 3
[ "$(losses out | wc -l)" -eq 3 ] || { cat out err >&2; die "not 3 iterations"; }
grep -q 'global batch size: *4 ' out || die "not 2 samples for each of 2 groups of ranks"
[ "$(ls data/webtext/*.bin | wc -l)" -eq 1 ] || die "not one dataset"
ls data/webtext/*.lock 2>/dev/null && die "the lock is left"
grep -q -- '--train-data data/webtext\|--train-data webtext' out || { cat out >&2; die "not said"; }

cat >ds_zero2_config.json <<'EOF'
{ "train_batch_size": 16, "gradient_accumulation_steps": 1, "steps_per_print": 1, "zero_optimization": { "stage": 2 },
  "zero_allow_untested_optimizer": true, "gradient_clipping": 1.0,
  "fp16": { "enabled": true, "loss_scale": 0, "loss_scale_window": 1000, "hysteresis": 2, "min_loss_scale": 1 },
  "activation_checkpointing": { "partition_activations": true, "contiguous_memory_optimization": false },
  "wall_clock_breakdown": false }
EOF
all_ranks 4 "$TRIAX" pretrain_gpt2.py --model-parallel-size 4 --train-iters 100000 "${both[@]}" \
    --deepspeed-activation-checkpointing --deepspeed_config ds_zero2_config.json "${small[@]}" --model-parallel-size 2
[ "$(losses out | wc -l)" -eq 3 ] || { cat out err >&2; die "not 3 iterations"; }
grep -qF 'train_batch_size 16: --batch-size is given and counts' out || { cat out >&2; die "not said of the batch"; }
grep -q 'global batch size: *4 ' out || die "not 2 samples for each of 2 groups of ranks"
