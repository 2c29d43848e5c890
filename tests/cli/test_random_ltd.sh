#!/bin/bash
# labels: cli resume
# --random-ltd and --progressive-layer-drop by flags and by DeepSpeed's JSON: the same run; what lines and checkpoints say of it.
. "$(dirname "$0")/lib.sh"
for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
train=(pretrain-gpt --num-layers 4 --hidden-size 16 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32 --micro-batch-size 4
    --global-batch-size 8 --train-iters 20 --lr 1e-3 --log-interval 5 --data-path text --tokenizer-type NullTokenizer --vocab-size 511
    --split 100,0,0 --eval-iters 0 --threads 1 --log-dialect megatron-deepspeed --use-rotary-position-embeddings)
schedule='"random_ltd_schedule": {"min_value": 8, "max_value": 32, "schedule_type": "fixed_linear",
    "schedule_config": {"require_steps": 16, "seq_per_step": 8}}'
ltd='{"data_efficiency": {"enabled": true, "data_routing": {"enabled": true, "random_ltd": {"enabled": true, "total_layer_num": 4,
    "random_ltd_layer_num": 2, "random_ltd_layer_id": [1, 2], "model_mask_name": "attention_mask", "model_type": "decoder",
    "hidden_state_order": "seq_batch_dim", '$schedule'}}}'
flags=(--random-ltd --random-ltd-min-value 8 --random-ltd-max-value 32 --random-ltd-require-steps 16 --random-ltd-seq-per-step 8)

# said TEXT: one line of ./out has it
said() { grep -qF -- "$1" out || { cat out >&2; die "no line says \"$1\""; }; }

# numbers of tokens, and of consumed ones, are those of a scheduler of DeepSpeed and of Megatron-DeepSpeed's count
ok "${train[@]}" "${flags[@]}" --save-format deepspeed --save ds --save-interval 10 --tensorboard-dir tb
losses out >by_flags
for i in '5/ 20 8' '10/ 20 16' '15/ 20 24' '20/ 20 32'; do
    read -r at end r <<<"$i"
    grep -E "iteration +$at +$end .*\| random ltd reserved length: +$r \|" out >line || { cat out >&2; die "iteration $at has not $r"; }
done
said '| consumed tokens:         4064 |'
grep -qF 'actual seqlen:    32 |' line || die "the last length is not the whole"
for word in seqlen/random_ltd_reserved_length seqlen/actual_seq_length; do
    grep -qa "$word" tb/events* || die "TensorBoard has no $word"
done
if [ -x "$(dirname "$TRIAX")/pt_tool" ]; then
    "$(dirname "$TRIAX")/pt_tool" show ds/global_step10/mp_rank_00_model_states.pt >shown
    # as its own class has it after 10 steps
    grep -qF "s'random_ltd':d{s'consumed_layer_tokens':i6912 s'current_steps':i9 s'current_value':i16 s'min_value':i8 s'max_value':i32 }" shown ||
        die "DeepSpeed's file has another state"
fi
echo "$ltd}" >ds.json
ok "${train[@]}" --deepspeed_config ds.json
losses out >by_file
cmp by_flags by_file || die "the file's run is another"

# it goes on from DeepSpeed's own format
cp -r ds cut && rm -r cut/global_step20 && echo global_step10 >cut/latest && echo 10 >cut/latest_checkpointed_iteration.txt
ok "${train[@]}" "${flags[@]}" --save-format deepspeed --save cut --load cut
losses out | cmp - <(tail -n 2 by_flags) || die "a run that goes on is another"

ok "${train[@]}" --progressive-layer-drop --pld-gamma 0.1
said '| progressive layer drop theta: 0.870409 |'
losses out >by_flags
echo '{"progressive_layer_drop": {"enabled": true, "theta": 0.5, "gamma": 0.1}}' >ds.json
ok "${train[@]}" --deepspeed_config ds.json
losses out | cmp - by_flags || die "the file's run of layers is another"

# tensor ranks that divide the sequence
rank_threads=$(dirname "$TRIAX")/rank_threads
if [ -x "$rank_threads" ]; then
    "$rank_threads" 2 --world-size 2 "${train[@]:1}" "${flags[@]}" --train-iters 3 --tensor-model-parallel-size 2 --sequence-parallel --profile 1 \
        --log-interval 1 >out 2>err || { cat out err >&2; die "2 ranks"; }
    said '> messages of iteration 3 are not compared with the formulas, in which every layer computes all tokens'
    said '| random ltd reserved length:     8 |'
fi

# without experts, and in layers that hand on what they get
refused '--random-ltd: layers with experts compute all tokens' "${train[@]}" "${flags[@]}" --num-experts 4
refused '--progressive-layer-drop: ranks that divide experts compute every layer together' "${train[@]}" --progressive-layer-drop --num-experts 4
ok plan --num-layers 4 --hidden-size 16 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32 --micro-batch-size 4 --train-iters 20 \
    "${flags[@]}"
said 'random-LTD: 2 layers compute 8 tokens of a sample to begin with, and up to 32;'
