#!/bin/bash
# labels: cli
# A tokenizer that is not the model's is refused wherever a model is loaded: by its size, and by its hash.
. "$(dirname "$0")/lib.sh"

tiny=(--vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
ok preprocess-data --input "$data/tiny/tiny-corpus.jsonl" --output-prefix ts "${tiny[@]}" --append-eod
train=(pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --lr 1e-3 --data-path ts_text_document --split 8,1,1 --eval-iters 1 --log-interval 1 --train-iters 2
    --save-interval 2)
ok "${train[@]}" "${tiny[@]}" --save run

sed -E 's/.*"text": "([^"]*)".*/\1/; s/\\n/\n/g' "$data/tiny/tiny-corpus.jsonl" >part.txt
ok train-tokenizer --input part.txt --text-split blank-line --vocab-size 300 --output-dir small
ok train-tokenizer --input part.txt --text-split blank-line --vocab-size 512 --output-dir same
ok train-tokenizer --input part.txt --text-split blank-line --vocab-size 600 --output-dir large
[ "$(grep -c . same/merges.txt)" -eq "$(grep -c . "$data/tiny/tiny-merges.txt")" ] || die "not of the same size"
small=(--vocab-file small/vocab.json --merge-file small/merges.txt)
same=(--vocab-file same/vocab.json --merge-file same/merges.txt)
large=(--vocab-file large/vocab.json --merge-file large/merges.txt)
smaller="the model has 512 tokens, the tokenizer 300: name the tokenizer it was trained with"
another="the model was trained with another tokenizer than this one: leave --vocab-file and --merge-file out"
head -c 3000 part.txt >text.txt

jobs=("generate --load run --prompt First --max-new-tokens 2"
    "evaluate --load run --task WIKITEXT103 --valid-data text.txt"
    "evaluate --load run --data-path ts_text_document --eval-iters 1"
    "serve --load run --port 0")
for job in "${jobs[@]}"; do
    refused "$smaller" $job "${small[@]}"
    refused "$another" $job "${same[@]}"
    refused "fewer than the tokenizer's 600" $job "${large[@]}"
    refused "fewer than the tokenizer's 600" $job "${large[@]}" --force-vocabulary
    [[ $job = serve* ]] || ok $job "${small[@]}" --force-vocabulary
    [[ $job = serve* ]] || ok $job "${same[@]}" --force-vocabulary
    [[ $job = serve* ]] || ok $job "${tiny[@]}"
    [[ $job = serve* ]] || ok $job
done
refused "$smaller" "${train[@]}" --load run --train-iters 4 "${small[@]}"
refused "$another" "${train[@]}" --load run --train-iters 4 "${same[@]}"

# ---- the same vocabulary in other files is the same: spelled otherwise, and as a tokenizer.json
sed 's/": \([0-9]\)/":\n\1/g' "$data/tiny/tiny-vocab.json" >spelled.json
! cmp -s spelled.json "$data/tiny/tiny-vocab.json" || die "spelled alike"
ok generate --load run --prompt First --max-new-tokens 2 --vocab-file spelled.json --merge-file "$data/tiny/tiny-merges.txt"
ok pretrain-gpt "${train[@]:1}" --data-path ts_text_document --vocab-file same/vocab.json --merge-file same/merges.txt --save run2
ok generate --load run2 --prompt First --max-new-tokens 2 --tokenizer-type HFTokenizer --tokenizer-model same/tokenizer.json
refused "leave --tokenizer-model out" generate --load run --prompt First --tokenizer-type HFTokenizer --tokenizer-model same/tokenizer.json

# ---- the checkpoint's own files: damaged ones are named, and others may be given
cp -r run bad
printf 'x' | dd of=bad/iter_0000002/merges.txt bs=1 seek=40 conv=notrunc 2>/dev/null
refused "bad/iter_0000002/merges.txt: does not match its checksum" generate --load bad --prompt First --max-new-tokens 2
ok generate --load bad --prompt First --max-new-tokens 2 "${tiny[@]}"
rm bad/iter_0000002/merges.txt
refused "bad/iter_0000002/merges.txt" generate --load bad --prompt First --max-new-tokens 2

# ---- conversions take it along, and a Hugging Face folder's own is its model's
ok convert --to huggingface run hf
cmp hf/vocab.json "$data/tiny/tiny-vocab.json" || die "no tokenizer in hf"
ok generate --load hf --prompt First --max-new-tokens 2
refused "$another" generate --load hf --prompt First --max-new-tokens 2 "${same[@]}"
ok convert --to native hf back
ok generate --load back --prompt First --max-new-tokens 2
refused "$another" generate --load back --prompt First --max-new-tokens 2 "${same[@]}"
refused "$smaller" generate --load back --prompt First --max-new-tokens 2 "${small[@]}"

# ---- a BERT
ok train-tokenizer --tokenizer-type BertWordPieceLowerCase --input part.txt --text-split blank-line --vocab-size 300 --output-dir words
ok train-tokenizer --tokenizer-type BertWordPieceLowerCase --input text.txt --text-split blank-line --vocab-size 260 --output-dir few
ok preprocess-data --input part.txt --text-split blank-line --output-prefix b --split-sentences \
    --tokenizer-type BertWordPieceLowerCase --vocab-file words/vocab.txt
ok pretrain-bert --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32 \
    --micro-batch-size 2 --lr 1e-3 --data-path b_text_sentence --split 1,0,0 --eval-iters 0 --train-iters 2 --save-interval 2 \
    --vocab-file words/vocab.txt --save bert
ok fill-mask --load bert --prompt 'the [MASK] of'
refused "name the tokenizer it was trained with" fill-mask --load bert --prompt 'the [MASK] of' --vocab-file few/vocab.txt
ok fill-mask --load bert --prompt 'the [MASK] of' --vocab-file few/vocab.txt --force-vocabulary
refused "leave --vocab-file out" fill-mask --load bert --prompt 'the [MASK] of' --vocab-file words/vocab.txt \
    --tokenizer-type BertWordPieceCase
