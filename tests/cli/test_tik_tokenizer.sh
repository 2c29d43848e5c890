#!/bin/bash
# labels: cli
# Vocabularies of tiktoken, and a tokenizer.json of characters, as a user names them: text to ids and back, a run, and its checkpoint, which
# needs no flags to generate.
. "$(dirname "$0")/lib.sh"
small=$data/token/tiktoken/small.tiktoken core=$data/token/tiktoken/small-core.json
tik=(--tokenizer-type TikTokenizer --tokenizer-model)

printf '%s\n' "It's the <|endoftext|> of" "  café 中文 12345" >lines
for pattern in v1 v2 r50k p50k cl100k o200k llama3 qwen2; do
    ok tokenize "${tik[@]}" "$small" --tiktoken-pattern $pattern <lines
    cp out ids
    ok detokenize "${tik[@]}" "$small" --tiktoken-pattern $pattern <ids
    cmp -s out lines || die "$pattern: other text"
done
ok tokenize "${tik[@]}" "$core" --tiktoken-num-special-tokens 10 --vocab-size 300 <<<'<SPECIAL_9>!'
[ "$(<out)" = '[9, 43]' ] || die "other ids than Megatron Core's: $(<out)"
ok tokenize "${tik[@]}" "$small" --tokenizer-special-tokens '<|a|>' '<|b|>' <<<'<|b|>'
[ "$(<out)" = '[421]' ] || die "special tokens do not follow the ranks: $(<out)"
refused 'are for --tokenizer-type TikTokenizer' tokenize --vocab-file a --merge-file b --tiktoken-pattern v1
refused 'one of v1, v2, r50k' tokenize "${tik[@]}" "$small" --tiktoken-pattern v3
refused '420 tokens, but --vocab-size 131072' tokenize "${tik[@]}" "$core" --vocab-size 131072

for i in $(seq 200); do echo '{"text": "the cat is on the mat, helloWorld 12345 the end"}'; done >text.jsonl
model=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --train-iters 2 --lr 1e-3 --save-interval 2 --eval-iters 1)
train() { # NAME TOKENIZER...
    local name=$1
    shift
    ok preprocess-data "$@" --input text.jsonl --output-prefix "$name" --append-eod
    ok pretrain-gpt "${model[@]}" "$@" --data-path "${name}_text_document" --save "$name"
    ok generate --load "$name" --prompt 'the' --out-seq-length 4 --greedy
}
train by-lines "${tik[@]}" "$small" --tiktoken-pattern o200k
cmp -s by-lines/iter_*/tiktoken.model "$small" || die "no copy of the vocabulary"
train core "${tik[@]}" "$core" --tiktoken-num-special-tokens 10
train llama --tokenizer-type HFTokenizer --tokenizer-model "$data/token/json_kinds/llama2.json"
