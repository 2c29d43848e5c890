#!/bin/bash
# labels: cli
# The scripts of 2020, pretrain_gpt2.py with DeepSpeed's engine of that time: their flags as they stand in
# pretrain_gpt2.sh, pretrain_gpt2_model_parallel.sh, ds_pretrain_gpt2.sh and ds_zero2_pretrain_gpt2_model_parallel.sh
# (microsoft/DeepSpeedExamples b989b41b, Megatron-LM/scripts), with smaller sizes behind; and the text that they train on.
. "$(dirname "$0")/lib.sh"

# the last of a repeated flag counts
small=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --batch-size 2 --seq-length 32 --max-position-embeddings 32
    --train-iters 4 --eval-iters 1 --eval-interval 4 --save-interval 4 --log-interval 1 --lr-decay-iters 4
    --vocab-file "$data/token/gpt2-vocab.json" --merge-file "$data/token/gpt2-merges.txt"
    --split 2,1,1 --loss-scale 1024 --threads 1 --device cpu)

# says TEXT...: ./out has each on a line, once
says() {
    local text
    for text in "$@"; do
        [ "$(grep -cF -- "$text" out)" -eq 1 ] || { cat out err >&2; die "not said once: $text"; }
    done
}

trained() { # of 4 iterations all, with a loss
    [ "$(losses out | wc -l)" -eq 4 ] && [ "$(losses out | grep -c ' [0-9]')" -eq 4 ] || { cat out err >&2; die "not 4 iterations"; }
}

corpus() { # lines of JSON, each a document of webtext's form
    for i in $(seq "$1"); do
        printf '{"url": "http://x/%d", "text": "The king of the %dth land said unto his servants, %d times: go ye and find water."}\n' \
            "$i" "$i" "$((i * i))"
    done
}

# ---- a name that is not a file
gpt2=(--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --batch-size 8 --seq-length 1024
    --max-position-embeddings 1024 --train-iters 320000 --save checkpoints/gpt2_345m --load checkpoints/gpt2_345m
    --resume-dataloader --train-data wikipedia --lazy-loader --tokenizer-type GPT2BPETokenizer --cache-dir cache
    --split 949,50,1 --distributed-backend nccl --lr 0.00015 --lr-decay-style cosine --weight-decay 1e-2 --clip-grad 1.0
    --warmup .01 --checkpoint-activations --fp16)
refused "--train-data wikipedia: there is no such file, nor data/wikipedia/wikidump_lines.json; give JSON lines with a \"text\" each, as --train-data CORPUS.jsonl" \
    pretrain_gpt2.py "${gpt2[@]}" "${small[@]}"
refused "GPT2BPETokenizer needs --vocab-file" pretrain_gpt2.py "${gpt2[@]}" --save-interval 9

# ---- where those scripts had it
mkdir -p data/wikipedia
corpus 200 >data/wikipedia/wikidump_lines.json
ok pretrain_gpt2.py "${gpt2[@]}" "${small[@]}"
trained
says "--train-data wikipedia: data/wikipedia/wikidump_lines.json, where scripts of 2020 have it" \
    "which is made of it now" "--batch-size 2: --micro-batch-size, of each" "--warmup .01: --lr-warmup-fraction, and" \
    "--resume-dataloader: accepted, without" "--lazy-loader: accepted, without" "--cache-dir cache: accepted, without"
[ -e checkpoints/gpt2_345m/latest ] || die "no checkpoint"

# ---- again: it goes on from its checkpoint, on the dataset that is there
made=$(ls data/wikipedia/*.bin)
inode=$(stat -c %i "$made")
ok pretrain_gpt2.py "${gpt2[@]}" "${small[@]}" --train-iters 6 --override-lr-scheduler --lr-decay-iters 6
says "which was made of it before"
[ "$(losses out | wc -l)" -eq 2 ] || die "it did not go on"
[ "$(stat -c %i "$made")" = "$inode" ] || die "the dataset was made again"

# ---- a text that has changed is another dataset
corpus 300 >data/wikipedia/wikidump_lines.json
ok pretrain_gpt2.py "${gpt2[@]}" "${small[@]}" --save other --load other
says "which is made of it now"
[ "$(ls data/wikipedia/*.bin | wc -l)" -eq 2 ] || die "not two datasets"

# ---- files by their names, and parts of their own; a dataset is no text
corpus 100 >a.jsonl
corpus 60 >b.json
flags=("${gpt2[@]}" "${small[@]}" --save apart --load apart)
ok pretrain_gpt2.py "${flags[@]}" --train-data a.jsonl b.json
says "--train-data a.jsonl: --data-path a.jsonl.triax-"
mine=("${flags[@]/--split/}")
for i in "${!flags[@]}"; do [ "${flags[$i]}" != --split ] || unset "mine[$i]" "mine[$((i + 1))]"; done
ok pretrain_gpt2.py "${mine[@]}" --save parts --load parts --train-data a.jsonl --valid-data b.json --test-data b.json
says "--valid-data b.json: --data-path b.json.triax-"
ok inspect-samples "${flags[@]}" --train-data a.jsonl --num-samples 1
refused "that is a dataset, not text: give it as --data-path" pretrain_gpt2.py "${flags[@]}" --train-data "${made%.bin}"
ok pretrain_gpt2.py "${flags[@]}" --save key --load key --train-data a.jsonl --text-key url
refused "--train-data with --text-key nokey: a.jsonl: line 1: has no member" pretrain_gpt2.py "${flags[@]}" --train-data a.jsonl --text-key nokey

# ---- DeepSpeed's: the file's batch sizes beside the flag's, its loss scale and stage
cat >ds_zero2_config.json <<'EOF'
{
  "train_batch_size": 16,
  "gradient_accumulation_steps": 1,
  "steps_per_print": 1,
  "zero_optimization": { "stage": 2 },
  "zero_allow_untested_optimizer": true,
  "gradient_clipping": 1.0,
  "fp16": { "enabled": true, "loss_scale": 0, "loss_scale_window": 1000, "hysteresis": 2, "min_loss_scale": 1 },
  "activation_checkpointing": { "partition_activations": true, "contiguous_memory_optimization": false },
  "wall_clock_breakdown": false
}
EOF
mkdir -p data/webtext
corpus 200 >data/webtext/data.json
zero2=(--model-parallel-size 4 --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --batch-size 8
    --seq-length 1024 --max-position-embeddings 1024 --train-iters 100000 --resume-dataloader --train-data webtext
    --lazy-loader --tokenizer-type GPT2BPETokenizer --split 949,50,1 --distributed-backend nccl --lr 0.00015
    --no-load-optim --lr-decay-style cosine --weight-decay 1e-2 --clip-grad 1.0 --warmup .01 --checkpoint-activations
    --deepspeed-activation-checkpointing --fp16 --deepspeed --deepspeed_config ds_zero2_config.json)
ok pretrain_gpt2.py "${zero2[@]}" "${small[@]}" --model-parallel-size 1 --initial-loss-scale 65536 --save-interval 9
trained
says "train_batch_size 16: --batch-size is given and counts" "--model-parallel-size 1: --tensor-model-parallel-size, which"
grep -q 'global batch size: *2 ' out || die "the step is not of --batch-size"
ok pretrain_gpt2.py "${zero2[@]/deepspeed/deepscale}" "${small[@]}" --model-parallel-size 1 --save-interval 9
trained
ok deepspeed --dry-run --num_nodes 1 --num_gpus 2 pretrain_gpt2.py "${zero2[@]}"
grep -q ' pretrain-gpt --model-parallel-size 4 ' out || die "deepspeed pretrain_gpt2.py"
