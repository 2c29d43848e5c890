#!/bin/bash
# labels: peer
# Folders that triax writes for Megatron and DeepSpeed, read by torch.load, DeepSpeed's zero_to_fp32 and ds_to_universal:
# weights and moments are those of the checkpoint that was converted, bit for bit.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import torch, deepspeed' 2>/dev/null; then
    echo "SKIPPED: no comparison with DeepSpeed's tools; set TX_PEER_PYTHON to a Python that has torch and deepspeed"
    exit 77
fi

# train NAME FLAGS...: a native checkpoint of three iterations, whose vocabulary has rows that pad
train() {
    local name=$1
    shift
    train_any "$name" pretrain-gpt --data-path "$data/dataset/tiny_text_document" --vocab-file "$data/tiny/tiny-vocab.json" \
        --merge-file "$data/tiny/tiny-merges.txt" "$@"
}
train_any() {
    local name=$1 command=$2
    shift 2
    ok $command --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
        --micro-batch-size 2 --global-batch-size 2 --train-iters 3 --lr 1e-3 --lr-decay-style cosine --seed 3 \
        --split 90,5,5 --eval-iters 0 --make-vocab-size-divisible-by 96 \
        --save "$name" --save-interval 3 --log-interval 1 "$@"
}

# check SOURCE KIND TO FLAGS...
check() {
    local source=$1 kind=$2 to=$3
    shift 3
    rm -rf made
    ok convert --from native --to "$to" "$source" made --no-proof "$@"
    "$TX_PEER_PYTHON" "$here/check_upstream.py" "$source"/iter_0000003/shard_00000.safetensors made "$kind" >said 2>&1 ||
        { tail -20 said >&2; die "$source to $to $*: $kind"; }
    echo "$source to $to $*: $(tail -1 said)"
}

train gpt
train llama --normalization rmsnorm --use-rotary-position-embeddings --swiglu --disable-bias-linear \
    --untie-embeddings-and-output-weights --num-key-value-heads 2 --ffn-hidden-size 48

for model in gpt llama; do
    for stage in 1 2 3; do
        check $model zero deepspeed --target-zero-stage $stage --target-dp 3
    done
    check $model universal deepspeed --target-zero-stage 1 --target-dp 2 --target-pipeline-engine --dtype bf16
    check $model universal deepspeed --target-zero-stage 1 --target-dp 3 --target-tp 2
    check $model universal deepspeed --target-zero-stage 2 --target-dp 2 --dtype fp16
    check $model universal deepspeed --target-zero-stage 1 --target-dp 2 --target-tp 2 --target-pp 2 --dtype bf16
    check $model pt deepspeed --target-zero-stage 0 --dtype fp16
    check $model pt deepspeed --target-zero-stage 3 --target-dp 2 --target-tp 2 --dtype bf16
    check $model pt megatron --target-tp 2 --target-pp 2 --dtype fp16
    check $model pt megatron --for-release
    check $model written universal
done

# DeepSpeed trains a BERT without its pipeline engine
train_any bert pretrain-bert --data-path "$data/dataset/tinybert_text_document" --vocab-file "$data/tiny/tiny-bert-vocab.txt"
for stage in 1 2 3; do
    check bert zero deepspeed --target-zero-stage $stage --target-dp 3
done
check bert universal deepspeed --target-zero-stage 1 --target-dp 3 --target-tp 2
check bert universal deepspeed --target-zero-stage 2 --target-dp 2 --dtype fp16
check bert pt deepspeed --target-zero-stage 0 --target-tp 2 --dtype fp16
check bert pt megatron --target-tp 2 --target-pp 2 --dtype fp16
check bert written universal
