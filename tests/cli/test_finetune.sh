#!/bin/bash
# labels: cli
# Fine-tuning as one types it: conversations become rows, answers are what is learnt, a run resumes bit for bit in the middle of an epoch,
# the best checkpoint stays, and what is wrong with a line or a flag is said in one line.
. "$(dirname "$0")/lib.sh"

talks 1 24 >chats.jsonl
talks 25 30 >more.jsonl
mkdir model
ln -s "$data/golden/generation/model/"* model
model=(--load model --finetune)
words=(--vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
rows=(--finetune-data chats.jsonl --chat-template alpaca --seq-length 128)
how=("${words[@]}" "${rows[@]}" --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --lr-decay-iters 9 --log-interval 1)

# ---- what is learnt

ok inspect-samples "${how[@]}" --finetune-epochs 1 --num-samples 8
grep -o '"text":"### Instruction:\\nWhat is 1 and 1?\\n\\n### Response:\\nIt is 2.<|endoftext|>\\n\\n","answers":"It is 2.<|endoftext|>"' out >found ||
    die "no answer is \"It is 2.\""
grep -o '"text":"Count to 3. 1 2 3<|endoftext|>","answers":" 1 2 3<|endoftext|>"' out >found || die "no answer is \" 1 2 3\""
[ "$(grep -o '"text":' out | wc -l)" -eq 24 ] || die "the first epoch has not every conversation once"

# ---- a run, in two parts and as one; 8 rows are 2 iterations an epoch

train=(pretrain-gpt "${how[@]}" --finetune-valid-data more.jsonl --eval-interval 2 --save-interval 3 --save-best --keep-last 1)
ok "${train[@]}" "${model[@]}" --train-iters 9 --save whole
losses out >whole.losses
grep -F ' > 24 conversations, ' out err >found && die "the rows were made again"
[ "$(wc -l <whole.losses)" -eq 9 ] || die "not 9 iterations"
[ "$(sed -n '$s/^9 //p' whole.losses | cut -c1)" != 5 ] || die "nothing was learnt: $(tail -n 1 whole.losses)"
ok "${train[@]}" "${model[@]}" --train-iters 9 --exit-interval 3 --save parts
grep -c 'lowest validation loss so far' out >n && [ "$(cat n)" -eq 1 ] || die "not one best of three iterations"
[ -d parts/best/iter_0000002 ] || die "the best is not of iteration 2"
ok "${train[@]}" --load parts --train-iters 9 --save parts
losses out >parts.losses
tail -n 6 whole.losses | cmp - parts.losses || die "the run went on with other losses"
cmp whole/iter_0000009/shard_00000.safetensors parts/iter_0000009/shard_00000.safetensors || die "and with other weights"
cmp whole/best/best.json parts/best/best.json || die "and has another best checkpoint"
[ "$(ls -d whole/iter_* | wc -l)" -eq 1 ] || die "--keep-last 1 keeps others"
[ "$(ls -d whole/best/iter_* | wc -l)" -eq 1 ] || die "there is more than one best"
ok inspect whole/best

# other ranks and unpacked rows; the length of a run by epochs
ok "${train[@]}" "${model[@]}" --finetune-epochs 2 --save-interval 100 --save other
grep -F -- '--finetune-epochs 2: 16 samples, --train-iters 4' out >found || die "2 epochs of 8 rows are not 4 iterations"
grep -F 'on 3-sample draw from validation set' out >found || die "not all of the validation data is evaluated"
ok pretrain-gpt "${how[@]}" "${model[@]}" --no-finetune-packing --finetune-epochs 1
grep -F '24 conversations in 24 rows' out >found || die "rows have more than one conversation"
ok inspect-samples "${how[@]}" --chat-template chatml --seq-length 160 --finetune-epochs 1
grep -F 'the tokenizer has no token "<|im_end|>"' err >found || die "nothing is said of what ends an answer"
ok plan "${how[@]}" --num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 128 --finetune-epochs 2

# ---- what is wrong

try=(pretrain-gpt "${model[@]}" "${words[@]}" --micro-batch-size 1 --lr 1 --train-iters 1 --seq-length 128)
bad() { printf '%s\n' "$1" >bad.jsonl; }
printf '{"prompt": "a", "completion": "b"}\n{"prompt": "a"\n' >bad.jsonl
refused "bad.jsonl: line 2, column" "${try[@]}" --finetune-data bad.jsonl
bad '{"prompt": "a", "completion": ""}'
refused "bad.jsonl: line 1: the completion is empty" "${try[@]}" --finetune-data bad.jsonl
bad '{"messages": [{"role": "tool", "content": "a"}]}'
refused 'bad.jsonl: line 1: message 1 has the role "tool"' "${try[@]}" --finetune-data bad.jsonl --chat-template chatml
refused '"messages" need a chat template: give --chat-template one of chatml' "${try[@]}" --finetune-data bad.jsonl
refused "--chat-template jinja: there is no such file, nor a template of that name" "${try[@]}" --finetune-data bad.jsonl --chat-template jinja
echo '{"user": {}, "assistant": {}, "tool": {}}' >roles.json
refused 'roles.json: the file has "tool", which a template here has not' "${try[@]}" --finetune-data bad.jsonl --chat-template roles.json
bad "{\"prompt\": \"a\", \"completion\": \"$(seq -s ' ' 200)\"}"
refused "bad.jsonl: line 1: the conversation has" "${try[@]}" --finetune-data bad.jsonl
ok "${try[@]}" --finetune-data bad.jsonl --finetune-truncate
bad "{\"prompt\": \"$(seq -s ' ' 200)\", \"completion\": \"b\"}"
refused "bad.jsonl: line 1: --finetune-truncate leaves 128 tokens, none of them of an answer" "${try[@]}" --finetune-data bad.jsonl --finetune-truncate
refused "--loss-on-targets-only needs --finetune-data" "${try[@]}" --data-path "$data/dataset/tiny_text_document" --loss-on-targets-only
refused "--finetune-data nowhere: there is no such file" "${try[@]}" --finetune-data nowhere
refused "--finetune-data is the data, and another flag names some" "${try[@]}" --finetune-data chats.jsonl --data-path x
echo "conversations are learnt from"
