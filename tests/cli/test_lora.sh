#!/bin/bash
# labels: cli
# Adapters beside a model: from PEFT's files and back, merged, trained on, and what is refused.
. "$(dirname "$0")/lib.sh"
golden="$data/golden"
numbers="--tokenizer-type NullTokenizer --vocab-size 511"
train="--seq-length 16 --micro-batch-size 2 --global-batch-size 2 --lr 1e-3 --mock-data --eval-iters 0 $numbers"

# PEFT's files, through ours, are the same bytes; and merged the model gives the same logits (the proof of convert)
for model in gpt2 llama; do
    ok convert --to native --lora-base "$golden/$model" --tokenizer-type NullTokenizer "$golden/lora/$model" $model
    grep -q 'likeliest token the same at 32 of 32' <(cat out err) || die "no proof"
    ok convert --to peft --lora-base "$golden/$model" $model $model-peft
    cmp $model-peft/adapter_model.safetensors "$golden/lora/$model/adapter_model.safetensors" || die "$model: other bytes"
    ok convert --merge-lora --to huggingface $model $model-merged
    ok convert --merge-lora --to huggingface --lora-base "$golden/$model" "$golden/lora/$model" $model-merged-2
    cmp $model-merged/model.safetensors $model-merged-2/model.safetensors || die "$model: merged otherwise"
done

# without --lora-base the folder that the adapter names
ok convert --merge-lora --to megatron gpt2-peft gpt2-megatron

# a run begins beside a model, goes on with the same bits, and leaves it as it is
ok pretrain-gpt $train --load "$golden/gpt2" --lora-rank 4 --lora-targets c_attn c_proj --train-iters 4 --save run --save-interval 2
losses <(cat out err) >straight
if grep -q 'grad norm: 0.000' <(cat out err); then die "nothing is trained"; fi
ok pretrain-gpt $train --load run --load-tag iter_0000002 --train-iters 4
losses <(cat out err) >resumed
cmp resumed <(tail -n 2 straight) || die "a run that went on has other losses"
ok convert --to peft run adapter
grep -q '"r": 4' adapter/adapter_config.json || die "another rank"
ok pretrain-gpt $train --load adapter --lora-base "$golden/gpt2" --finetune --train-iters 1
echo '[1, 2]' >prompt
ok generate --load run --prompt-tokens prompt --greedy --max-new-tokens 6 --output-tokens $numbers
cp out of-run
ok generate --load adapter --lora-base "$golden/gpt2" --prompt-tokens prompt --greedy --max-new-tokens 6 --output-tokens $numbers
cmp out of-run || die "the adapter continues otherwise than the run's checkpoint"

refused 'give the folder of the model' convert --to native adapter never
refused 'the adapter is of another model' convert --to native --lora-base "$golden/llama" adapter never
refused 'add --merge-lora' convert --to huggingface run never
refused 'has no adapters' convert --merge-lora --to huggingface "$golden/gpt2" never
refused 'holds no adapters' convert --to peft "$golden/gpt2" never
refused 'allowed are query_key_value' pretrain-gpt $train --load "$golden/gpt2" --lora-rank 4 --lora-targets head --train-iters 1
refused '--lora-alpha needs --lora-rank' pretrain-gpt $train --num-layers 1 --hidden-size 8 --num-attention-heads 1 \
    --max-position-embeddings 16 --lora-alpha 4 --train-iters 1
refused '--save-format megatron has no place for adapters' pretrain-gpt $train --load "$golden/gpt2" --lora-rank 4 --train-iters 1 \
    --save never --save-format megatron
mkdir other
sed 's/"use_dora": false/"use_dora": true/' "$golden/lora/gpt2/adapter_config.json" >other/adapter_config.json
cp "$golden/lora/gpt2/adapter_model.safetensors" other
refused 'an adapter with use_dora is not built' convert --to native --lora-base "$golden/gpt2" other never
[ ! -e never ] || die "something was written"
