#!/bin/bash
# labels: cli
# Hugging Face's tokenizer.json as a user names it, and the files that a checkpoint keeps.
. "$(dirname "$0")/lib.sh"
small=$data/token/small-tokenizer.json
mkdir folder && cp "$small" folder/tokenizer.json
printf '{"eos_token": "[PAD]"}' >folder/tokenizer_config.json
hf=(--tokenizer-type HFTokenizer --tokenizer-model folder)

echo '{"text": "the [PAD] x"}' >lines
ok tokenize "${hf[@]}" <lines
cp out ids
ok tokenize --tokenizer-type PretrainedFromHF --tokenizer-name-or-path "$small" <lines
cmp -s out ids || die "the file has other ids than its folder"
ok detokenize "${hf[@]}" <ids
refused 'triax downloads nothing' tokenize --tokenizer-type HFTokenizer --tokenizer-model org/model
refused 'the folder has no tokenizer.json' tokenize --tokenizer-type HFTokenizer --tokenizer-model "$work"
refused 'a tokenizer.json is read by --tokenizer-type HFTokenizer' tokenize --vocab-file "$small"
refused '--tokenizer-model needs --tokenizer-type HFTokenizer' tokenize --tokenizer-model "$small"

for i in $(seq 200); do echo '{"text": "the cat is on the mat, helloWorld 12345 the end"}'; done >text.jsonl
model=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --train-iters 2 --lr 1e-3 --save-interval 2 --eval-iters 1)
train() { # NAME TOKENIZER...
    local name=$1
    shift
    ok preprocess-data "$@" --input text.jsonl --output-prefix "$name" --append-eod
    ok pretrain-gpt "${model[@]}" "$@" --data-path "${name}_text_document" --save "$name"
    ok inspect "${name}_text_document" "$@"
    ok generate --load "$name" --prompt 'the' --out-seq-length 4 --greedy
    ok evaluate --load "$name" --data-path "${name}_text_document" --eod-mask-loss
}
train json "${hf[@]}"
cmp -s json/iter_*/tokenizer.json "$small" && cmp -s json/iter_*/tokenizer_config.json folder/tokenizer_config.json || die "no copy of tokenizer.json"
train bert --tokenizer-type BertWordPieceLowerCase --vocab-file "$data/token/bert-base-uncased-vocab.txt"
cmp -s bert/iter_*/vocab.txt "$data/token/bert-base-uncased-vocab.txt" || die "no copy of vocab.txt"
