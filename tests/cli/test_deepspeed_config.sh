#!/bin/bash
# labels: cli parallel
# DeepSpeed's JSON as a user has it: what is wrong with one is told with its place, and the two examples that have one run,
# made small by flags behind them, with the losses of a run without ZeRO.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
examples=$(cd "$(dirname "$0")/../../examples" && pwd)

shape=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 32 --threads 1)

# ---- what is wrong; every command that takes the file
json() { printf '%s\n' "$1" >ds.json; }
wrong() {
    json "$1"
    for command in "plan" "inspect-samples --data-path none --train-iters 2" "pretrain-gpt --data-path none --train-iters 2 --lr 1"; do
        refused "$2" $command "${shape[@]}" --micro-batch-size 2 --vocab-file v --merge-file m --deepspeed_config ds.json
    done
}
wrong '{"zero_optimization": {"stage": 1}' "--deepspeed_config ds.json: line 2, column 1: '}' expected near end of file"
wrong '{"zero_optimization": {"stage": "1"}}' \
    'ds.json: line 1, column 24: zero_optimization.stage is "1", a string; it takes a number'
wrong '{"zero_optimization": {"stag": 1}}' 'line 1, column 24: unknown key "zero_optimization.stag"; did you mean "zero_optimization.stage"?'
wrong '{"train_batch_size": 6, "gradient_accumulation_steps": 2}' "is impossible; try train_batch_size 6 = 3 x 2 x 1 or 4 = 2 x 2 x 1"
wrong '{"train_micro_batch_size_per_gpu": 4}' "is 4, but --micro-batch-size 2 is given"
wrong '{"bf16": {"enabled": true}, "fp16": {"enabled": true}}' "--fp16 and --bf16: give one of the two"
wrong '{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}' "--offload-param nvme needs a folder"

json '{ "steps_per_print": 7, "wandb": { "enabled": false }, } # a comment'
ok plan "${shape[@]}" --micro-batch-size 2 --deepspeed_config ds.json
grep -qh -- "--deepspeed_config ds.json: switches --deepspeed on" out err || { cat out err; die "nothing is said of --deepspeed"; }
grep -qh "ds.json: line 1: wandb: accepted, without effect here" out err || { cat out err; die "nothing is said of wandb"; }

# ---- the examples
export TRIAX VOCAB_FILE=$data/tiny/tiny-vocab.json MERGE_FILE=$data/tiny/tiny-merges.txt
export DATA_PATH=$data/dataset/tiny_text_document
small=("${shape[@]}" --micro-batch-size 2 --global-batch-size 4 --train-iters 4 --log-interval 1 --eval-iters 0 --lr-warmup-fraction 0.25 --split 8,1,1)

# example NAME LAYOUT: its losses are those of the same run at stage 0, in the same layout
example() {
    local name=$1
    CHECKPOINT_PATH=ck timeout -k 5 120 bash "$examples/$name" "${small[@]}" >out 2>err || { cat out err; die "$name"; }
    grep -q "$2" out || { cat out; die "$name: another layout"; }
    losses out >losses
    [ "$(wc -l <losses)" -eq 4 ] || { cat out; die "$name: no losses"; }
    [ -d ck/iter_0000004 ] || die "$name: no checkpoint"
    rm -r ck
}
N_RANKS=2 example pretrain_gpt_345m_zero3.sh "2 ranks on 1 host, tensor x pipeline x data parallel 1 x 1 x 2"
all_ranks 2 "$TRIAX" pretrain-gpt "${small[@]}" --vocab-file "$VOCAB_FILE" --merge-file "$MERGE_FILE" --data-path "$DATA_PATH" \
    --lr 0.00015 --lr-decay-iters 320000 --lr-decay-style cosine --min-lr 1.0e-5 --bf16 --checkpoint-activations
losses out | cmp - losses || { losses out; cat losses; die "ZeRO-3 has other losses"; }

ZERO_STAGE=1 example pretrain_gpt_125m_zero1.sh "8 ranks on 1 host, tensor x pipeline x data parallel 2 x 2 x 2"
cp losses one
ZERO_STAGE=0 example pretrain_gpt_125m_zero1.sh "8 ranks on 1 host, tensor x pipeline x data parallel 2 x 2 x 2"
cmp one losses || { cat one losses; die "ZeRO-1 has other losses"; }
echo "DeepSpeed's JSON and the examples with it passed"
