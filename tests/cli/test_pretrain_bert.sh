#!/bin/bash
# labels: cli resume
# A small BERT from text to loss, as a user types it: data, training, going on, evaluation, plan, report, replay.
. "$(dirname "$0")/lib.sh"

vocab=$data/tiny/tiny-bert-vocab.txt
ok preprocess-data --input "$data/tiny/tiny-bert-sentences.jsonl" --output-prefix d --split-sentences \
    --tokenizer-type BertWordPieceLowerCase --vocab-file "$vocab" --dataset-impl mmap
set -- d_*.idx
prefix=${1%.idx}
shape=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64)
flags=("${shape[@]}" --micro-batch-size 4 --global-batch-size 8 --train-iters 8 --lr 1e-2 --lr-decay-style linear
    --min-lr 1e-5 --lr-warmup-fraction .01 --weight-decay 1e-2 --clip-grad 1.0 --vocab-file "$vocab" --data-path "$prefix"
    --split 949,50,1 --data-impl mmap --log-interval 1 --eval-iters 2 --eval-interval 4 --save-interval 4)
train=(pretrain-bert "${flags[@]}")
has() { grep -qE -- "$2" "$1" || { cat out err >&2; die "no \"$2\" in $1"; }; }
both() { sed -nE 's/^ iteration +([0-9]+)\/.*(lm loss: [^|]*\| sop loss: [^|]*)\|.*/\1 \2/p' "$1"; }

# ---- what it says
number='[0-9]\.[0-9]{6}E[+-][0-9]{2}'
ok "${train[@]}" --save whole --tensorboard-dir tb --timing-log-level 1 --log-dialect megatron
has out '^building BERT model \.\.\.$'
has out '^> building train, validation, and test datasets for BERT \.\.\.$'
has out '^> finished creating BERT datasets \.\.\.$'
has out '^    train:      64$'
has out '^    validation: 48$'
has out '^  model_type \.+ BERT$'
has out '^  tokenizer_type \.+ BertWordPieceLowerCase$'
has out "^ iteration        1/       8 .* \| lm loss: $number \| sop loss: $number \| loss scale: 1\.0 \| grad norm: "
has out "^ validation loss at iteration 4 \| lm loss value: $number \| lm loss PPL: $number \| sop loss value: $number \| sop loss PPL: $number \| $"
has out '^ validation loss at iteration 8 on 16-sample draw from validation set \| '
! grep -q 'GPT' out err || die "something is of a GPT"
both out >want
[ "$(wc -l <want)" -eq 8 ] || die "not eight lines"
awk 'NR == 1 { first = $4 } END { exit !($4 < first) }' want || die "nothing was learned: $(cat want)"
has whole/metrics.jsonl '"kind":"step".*"loss":[0-9.]+,.*"sop_loss":[0-9.]+,"time_ms"'
has whole/metrics.jsonl '"kind":"evaluation".*"ppl":[0-9.]+,"sop_loss":[0-9.]+\}'
strings -n 4 tb/* >tags || true
has tags 'sop loss validation vs samples'
cmp "$vocab" "whole/$(cat whole/latest)/vocab.txt" || die "the vocabulary is not kept"

# ---- going on: the same losses and bits; another share of masks is a warning, another model an error
ok "${train[@]}" --save cut --exit-interval 4
both out >got
ok "${train[@]}" --save cut --load cut
both out >>got
cmp got want || die "other losses after going on"
cmp whole/iter_0000008/shard_00000.safetensors cut/iter_0000008/shard_00000.safetensors || die "other weights"
ok "${train[@]}" --load whole --mask-prob 0.2
has err '^warning: .*--mask-prob is 0.2, in the checkpoint it is 0.15'
refused "--post-layernorm is True, in the checkpoint it is False" "${train[@]}" --load whole --post-layernorm
refused "pretrain-gpt trains a GPT, and this is --model-type BERT: use triax pretrain-bert" \
    pretrain-gpt "${flags[@]}" --model-type BERT
refused "use triax pretrain-bert" pretrain-gpt "${flags[@]}" --load whole --tokenizer-type BertWordPieceLowerCase

# ---- other samples: masks, n-grams, one segment; each is another run, that inspect-samples shows
show=("${flags[@]:0:34}" --num-samples 64 --model-type BERT)
ok inspect-samples "${show[@]}"
mv out usual
for other in "--bert-mask-type t5" "--bert-max-ngrams 1" "--mask-prob 0.3" "--short-seq-prob 0.5" "--bert-no-binary-head"; do
    # shellcheck disable=SC2086 # a flag and its value
    ok inspect-samples "${show[@]}" $other
    ! cmp -s out usual || die "$other changes nothing"
    # shellcheck disable=SC2086
    ok "${train[@]}" --train-iters 2 $other
    sed -nE 's/.*(lm loss: [^|]*)\|.*/\1/p' out | head -1 >first
    head -1 want | grep -qF "$(cat first)" && die "$other trains as before"
done
! grep -q 'sop loss' out || die "a loss of a head that is not there"
ok inspect-samples "${show[@]}" --bert-mask-type t5 --num-samples 1
mask=$(grep -n '^\[MASK\]$' "$vocab" | cut -d: -f1)
positions=$(sed -E 's/.*"masked":\[([^]]*)\].*/\1/' out | grep -o '"position":[0-9]*' | cut -d: -f2)
for p in $positions; do
    [ "$(sed -E 's/.*"tokens":\[([^]]*)\].*/\1/' out | cut -d, -f$((p + 1)))" -eq $((mask - 1)) ] || die "no [MASK] at $p"
done

# ---- evaluation, plan, report
ok evaluate --load whole --data-path "$prefix" --split 949,50,1 --eval-split valid
has out "\| lm loss value: $number \| lm loss PPL: $number \| .*sop loss value: $number \| "
ok evaluate --load whole --data-path "$prefix" --split 949,50,1 --eval-split valid --json
has out '"loss":[0-9.]+,"ppl":[0-9.]+,.*"sop_loss":[0-9.]+'
ok plan --model-type BERT "${flags[@]}"
has out '^model: BERT, 2 layers, hidden size 32, '
has out '^    heads +3,180$' # pooler and dense layer 32 x 32 + 32, a bias of 1002, binary head 2 x 32 + 2
has out '^    and 726 that pad the vocabulary: zero, not trained$'
planned=$(awk '/^    total  / { print $2 }' out)
ok "${train[@]}" --train-iters 1
has out "predicted $planned, used $planned \|"
has out '^ > 726 of them pad the vocabulary: they are zero and not trained$'
ok plan --model-type BERT "${shape[@]}" --micro-batch-size 1
has out "^vocabulary: 30524 tokens, padded to 30592 \(BERT's, as no tokenizer and no --vocab-size is given\)$"
ok report whole cut
has report.html '"sop_loss":\['

# ---- numbers that go bad, and once more
code=0
"$TRIAX" "${train[@]}" --optimizer sgd --lr 1e6 --lr-warmup-fraction 0 --clip-grad 0 --train-iters 20 \
    --lr-decay-iters 100 --max-consecutive-skips 2 >out 2>err || code=$?
[ $code -eq 1 ] || die "it did not stop: exit $code"
has err 'first value that is not finite is .*; its samples are of documents [0-9, -]+ of '"$prefix"'$'
file=$(ls replay-iteration-*.json)
ok replay "$file"
has out '^found again: the same$'
sed -E 's/^(    \[[0-9]+,)[0-9]+/\199999/' "$file" >bad.json
refused "token id 99999" replay bad.json

# ---- going on from a Hugging Face BERT, which has no rows for the tokenizer's own [BOS] and [EOS]
head -512 "$vocab" >small.txt
ok preprocess-data --input "$data/tiny/tiny-bert-sentences.jsonl" --output-prefix small --split-sentences \
    --tokenizer-type BertWordPieceLowerCase --vocab-file small.txt
set -- small_*.idx
on=(pretrain-bert --seq-length 48 --micro-batch-size 4 --train-iters 3 --lr 1e-4 --lr-decay-style constant --eval-iters 0
    --log-interval 1 --vocab-file small.txt --data-path "${1%.idx}")
ok "${on[@]}" --load "$data/golden/bert" --save from-hf --save-interval 2 --exit-interval 2
has out 'successfully loaded weights'
ok "${on[@]}" --load from-hf
has out '^ iteration +3/'
ok convert --from native --to huggingface from-hf back
has back/config.json '"vocab_size": 512'

# ---- upstream's name of it
for start in "" "torchrun --nproc_per_node 1" "deepspeed --num_gpus 1"; do
    command -v mpirun >/dev/null || [ -z "$start" ] || continue
    # shellcheck disable=SC2086 # several words
    ok $start path/pretrain_bert.py "${flags[@]}" --train-iters 1
    head -1 want | grep -qF "$(both out | cut -d' ' -f2- | head -1)" || die "$start: another run"
done
ok pretrain-bert --help
has out '^  --bert-mask-type '
has out '^  --post-layernorm '
echo "all passed"

# ---- a split that comes out empty, though the run is to be evaluated on it
ok "${train[@]}" --train-iters 2 --split 99999,1,0
has err '--split 99999,1,0 gives the valid split none of the [0-9]+ documents of d_.*: there will be no evaluation on it; write --split '
has err '--eval-iters 2: there will be no evaluation on the test split, for --split gives it no share: write --split 8,1,1'
