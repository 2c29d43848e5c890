#!/bin/bash
# labels: cli golden
# merge-datasets, inspect and inspect-samples as a user types them, and what they refuse.
. "$(dirname "$0")/lib.sh"
tok=(--vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
whole=$data/dataset/tiny_text_document

# two halves of the corpus merge into what Megatron made of the whole
mkdir halves
head -n 130 "$data/tiny/tiny-corpus.jsonl" >1.jsonl
tail -n +131 "$data/tiny/tiny-corpus.jsonl" >2.jsonl
for i in 1 2; do ok preprocess-data --input $i.jsonl --output-prefix halves/$i "${tok[@]}" --append-eod; done
ok merge-datasets --input halves --output-prefix all
cmp all.bin "$whole.bin" && cmp all.idx "$whole.idx" || die "the merged dataset is another one"
ok merge-datasets --datasets halves/2_text_document halves/1_text_document --output-prefix turned
cmp -s turned.bin all.bin && die "--datasets does not keep its order"
refused "give one of the two" merge-datasets --datasets all --input halves --output-prefix x
refused "--output-prefix" merge-datasets --input halves
refused "not a directory" merge-datasets --input nothere --output-prefix x
refused "one of the datasets" merge-datasets --input halves --output-prefix halves/1_text_document
touch halves/README
refused "halves/README" merge-datasets --input halves --output-prefix x
rm halves/README halves/2_text_document.idx
refused "2_text_document.idx is missing" merge-datasets --input halves --output-prefix x
printf '{"text": "1 2 3"}\n' >null.jsonl
ok preprocess-data --input null.jsonl --output-prefix null --tokenizer-type NullTokenizer --vocab-size 70000
refused "all.idx holds uint16 and null_text_document.idx int32" merge-datasets --datasets all null_text_document --output-prefix x
[ -z "$(ls | grep '^x' || true)" ] || die "a refused merge left $(ls)"

# a dataset
ok inspect all "${tok[@]}" --documents 1
for line in 'documents: 260' 'items: 260' 'tokens: 372644' 'type: uint16' 'ids: 0 to 511'; do
    grep -qx "$line" out || die "no \"$line\" in $(cut -c1-100 out)"
done
grep -q '^tokens in a document: smallest 114, median 1620, largest 4686$' out || die "lengths"
[ "$(awk '$1 ~ /^[0-9]+-[0-9]+$/ { n += $2 } END { print n }' out)" -eq 260 ] || die "the histogram misses documents"
grep -q '^document 0, 1811 tokens, .*: "And it came to pass' out || die "no text"
[ "$(grep -c '^document [0-9]' out)" -eq 1 ] || die "not one document"
cp out by_name
ok inspect --input all.idx "${tok[@]}" --documents=1
cmp out by_name || die "--input PREFIX.idx shows something else"
ok inspect all
grep -q '^document [0-9]' out && die "text without a tokenizer"
printf '{"text": "1 40000"}\n' >ids.jsonl
ok preprocess-data --input ids.jsonl --output-prefix ids --tokenizer-type NullTokenizer --vocab-size 50000
refused "1 of 2 token ids" inspect ids_text_document "${tok[@]}"
refused "the first of them 40000 at position 1 of document 0" inspect ids_text_document "${tok[@]}"
head -c 100 all.idx >cut.idx; cp all.bin cut.bin
refused "cut.idx" inspect cut
rm cut.bin
refused "cut.bin" inspect cut
refused "nothere" inspect nothere
refused "inspect needs a path" inspect
refused "is not a flag" inspect all all
mkdir hollow
refused "hollow is empty" inspect hollow
"$TRIAX" inspect all >/dev/full 2>err && die "a full disk is not told"
grep -q 'standard output' err || die "$(cat err)"

# samples: those that training dumps
train=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 6 --train-iters 5000 --lr 1e-3 --data-path all --split 8,1,1 --seed 77
    --eval-iters 2 --eval-interval 2500 --eod-mask-loss "${tok[@]}")
ok pretrain-gpt "${train[@]}" --dump-step 1 dump --exit-interval 1 --save run --save-interval 1
tail -c $((6 * 17 * 4)) dump/loss.safetensors | od -An -v -t d4 -w68 | sed -E 's/^ +//; s/ +/,/g' >dumped
ok inspect-samples "${train[@]}" --num-samples 6
sed -E 's/.*"tokens":\[([0-9,]+)\].*/\1/' out | diff - dumped || die "training sees other samples"
grep -q '^{"sample":0,"pieces":\[{"document":[0-9]*,"offset":[0-9]*,"tokens":17}\],"tokens":\[.*"text":".*"}$' out ||
    die "$(cat out)"

# loss mask and positions, where a document ends within a sample; without a tokenizer there is no text
ok inspect-samples "${train[@]}" --num-samples 400 --eval-split valid --reset-position-ids
awk -F'"tokens":\\[|\\],"loss_mask":\\[|\\],"position_ids":\\[|\\],"text"' '
    { n = split($(NF - 3), t, ","); split($(NF - 2), m, ","); split($(NF - 1), p, ","); at = 0
      for (i = 1; i < n; i++) { if (m[i] != (t[i] != 511) || p[i] != at++) bad++; if (t[i] == 511) { masked++; at = 0 } } }
    END { exit !(NR == 400 && masked > 0 && !bad) }' out || die "loss mask or positions are wrong"
few=(--seq-length 16 --micro-batch-size 2 --train-iters 4 --data-path all --split 8,1,1)
ok inspect-samples "${few[@]}"
[ "$(wc -l <out)" -eq 3 ] && ! grep -q '"text"' out || die "$(cat out)"
grep -q '"loss_mask":\[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\],"position_ids":\[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\]}' out || die "a loss mask without --eod-mask-loss"

# how often each document is read: 30,000 samples of 16 tokens of the 208 documents of training
ok inspect-samples "${train[@]}" --stats
grep -q '"split":"train","samples":30000,"tokens":480000,"documents":208,"empty":0,"never":0,' out || die "$(cat out)"
[ "$(grep -oE '"documents":[0-9]+}' out | tr -dc '0-9\n' | awk '{ n += $1 } END { print n }')" -eq 208 ] || die "$(cat out)"
ok inspect-samples "${few[@]}" --stats
grep -q '"never":20[0-9]' out || die "eight samples reach too many documents: $(cat out)"

refused "holds no sample" inspect-samples "${few[@]}" --split 1,0,0 --eval-split test
refused "--eod-mask-loss needs the tokenizer" inspect-samples "${few[@]}" --eod-mask-loss
refused "nothere" inspect-samples "${few[@]}" --data-path nothere
refused "--train-iters" inspect-samples --seq-length 16 --micro-batch-size 2 --data-path all
refused "--data-path" inspect-samples --seq-length 16 --micro-batch-size 2 --train-iters 4
refused "token id" inspect-samples "${few[@]}" --data-path ids_text_document --split 1 --seq-length 1 "${tok[@]}"

# a BERT's samples: the first of Megatron's own, and how often its documents are read
bert=(--model-type BERT --tokenizer-type BertWordPieceLowerCase --vocab-file "$data/tiny/tiny-bert-vocab.txt" --seq-length 64
    --data-path "$data/dataset/tinybert_text_document" --split 949,50,1 --global-batch-size 8 --train-iters 8 --eval-iters 0)
ok inspect-samples "${bert[@]}"
grep -q '^{"sample":0,"document":133,"first_sentence":5711,"sentences":3,"target_length":61,"is_random":1,"truncated":1,"padding":0,"tokens":\[2,4,4,4,4,4,124,142,' out ||
    die "$(cat out)"
head -n 1 out | grep -q '"types":\[0,0,.*1\],"masked":\[{"position":1,"label":197},{"position":2,"label":460},.*"text":"\[CLS\] ' || die "$(cat out)"
ok inspect-samples "${bert[@]}" --data-path 1 "$data/dataset/tinybert_text_document" 1 "$data/dataset/tinybert_text_document"
grep -q '^{"sample":1,"dataset":1,"document":133,' out || die "$(cat out)"
tiny=$data/dataset/tinybert_text_document
apart=("${bert[@]:0:8}" --global-batch-size 8 --train-iters 8 --eval-iters 1 --num-samples 20)
ok inspect-samples "${bert[@]}" --eval-iters 1 --num-samples 20
cp out by_split
ok inspect-samples "${apart[@]}" --train-weighted-split-paths "T: 1 0:0.949 $tiny"
sed 's/"group":"T",//' out | diff - by_split || die "a range of documents gives a BERT other samples than --split"
ok inspect-samples "${apart[@]}" --train-weighted-split-paths "T: 1 0:0.9 $tiny" --eval-split valid \
    --valid-weighted-split-paths "V: 0.5 0.9:0.95 $tiny, 0.5 0.95:1 $tiny" "W: 1 0:1 $tiny"
grep -q '^{"sample":1,"group":"V","dataset":1,"document":' out || die "$(cat out)"
grep -q '^{"sample":0,"group":"W","document":' out || die "$(cat out)"
ok inspect-samples "${apart[@]}" --train-data-path 1 "$tiny" 3 "$tiny" --valid-data-path "$tiny"
grep -q '^{"sample":0,"dataset":1,"document":' out || die "$(cat out)"
refused "leave --data-order keyed out" inspect-samples "${bert[@]}" --data-order keyed
refused "leave --train-doc-idx-path" inspect-samples "${bert[@]}" --train-data-exact-num-epochs 1
refused "are of a GPT" inspect-samples "${bert[@]}" --reset-attention-mask
ok inspect-samples "${bert[@]}" --bert-no-binary-head --mask-prob 0
grep -q '"is_random":0.*"masked":\[\]' out || die "$(cat out)"
ok inspect-samples "${bert[@]}" --stats --train-iters 100
grep -q '"split":"train","samples":800,' out || die "$(cat out)"
refused "--tokenizer-type" inspect-samples "${bert[@]}" --tokenizer-type NullTokenizer
refused "are of a GPT" inspect-samples "${bert[@]}" --eod-mask-loss
refused "--model-type BERT" inspect-samples "${few[@]}" --mask-prob 0.2
refused "--split-sentences" inspect-samples "${bert[@]}" --data-path all

# checkpoints and Hugging Face folders
ok inspect run
grep -q '^shards: 1, [0-9]* bytes$' out && grep -q '^every file is there in its length, and the manifest agrees' out || die "$(cat out)"
for harm in 'truncate -s -1 shard_00000.safetensors' 'rm shard_00000.safetensors' 'truncate -s +1 shard_00000.safetensors' \
    'truncate -s -1 vocab.json' 'rm merges.txt'; do
    rm -rf harmed && cp -r run harmed
    (cd harmed/iter_* && $harm)
    refused "1 of its files is missing or cut off; load another iteration" inspect harmed
    grep -q "^  harmed/iter_0*1/${harm##* }: " out || die "$harm: which file is not told: $(cat out)"
done
ok inspect run --verify
for line in 'iteration +1' 'hidden_size +16' 'model.embedding.word_embeddings.weight +F32\[512,16\]' 'exp_avg.*' \
    'total parameters: [0-9]+' 'verified: all [0-9]+ bytes of 1 shards agree with their checksums' \
    'verified: 35280 of 35280 numbers were read, all of which are finite'; do
    grep -qE "$line" out || die "no \"$line\": $(cat out)"
done
ok inspect "$data/golden/gpt2" --verify
grep -q '^total parameters: 136960$' out || die "$(cat out)"
grep -q '^family: gpt2, a GPT with the options that follow$' out || die "$(cat out)"
grep -q 'transformer.wte.weight  *F32\[512,64\]' out || die "$(cat out)"
grep -q 'verified: 136960 of 136960 numbers' out || die "$(cat out)"
ok inspect "$data/families/gemma2"
grep -q '^family: gemma2, a GPT with the options that follow$' out || die "$(cat out)"
grep -qE '^ *norm_placement +"both"$' out || die "$(cat out)"
ok inspect "$data/golden/gpt2/model.safetensors"
mkdir hf
cp "$data/golden/gpt2/config.json" hf
cp "$data/golden/gpt2/model.safetensors" hf
printf '\0\0\200\177' | dd of=hf/model.safetensors bs=1 seek=$(($(stat -c %s hf/model.safetensors) - 4)) conv=notrunc status=none
ok inspect hf
sed 's/"model_type": "gpt2"/"model_type": "rwkv"/' "$data/golden/gpt2/config.json" >hf/config.json
ok inspect hf
grep -q '^family: none that can be loaded: config.json: model_type "rwkv" is not built yet' out || die "$(cat out)"
cp "$data/golden/gpt2/config.json" hf
refused "1 of 136960 numbers are not finite" inspect hf --verify

# damage: every block of every shard, with the tensors that lie there; a manifest's field by its name
wide=("${train[@]}" --hidden-size 512 --global-batch-size 2 --train-iters 1 --eval-iters 0 --save wide --save-interval 1)
ok pretrain-gpt "${wide[@]}"
shard=wide/iter_0000001/shard_00000.safetensors
cp $shard whole
[ "$(stat -c %s $shard)" -gt 3000000 ] || die "too small a shard"
for at in 200 1500000 2600000; do printf '\1' | dd of=$shard bs=1 seek=$at conv=notrunc status=none; done
ok inspect wide
refused "3 of " inspect wide --verify
refused "blocks are damaged or missing, in 1 of 1 shards, the first of them shard_00000.safetensors" inspect wide --verify
cp whole $shard
for at in 1500000 2600000; do printf '\1' | dd of=$shard bs=1 seek=$at conv=notrunc status=none; done
refused "2 of " inspect wide --verify
grep -q '^  shard_00000.safetensors: block 1 (bytes 1048576 to 2097151) is damaged: in model.embedding.word_embeddings.weight' out || die "$(cat out)"
grep -q '^  shard_00000.safetensors: block 2 (bytes 2097152 to 3145727) is damaged: in model\.' out || die "$(cat out)"
[ "$(grep -c 'is damaged' out)" -eq 2 ] || die "$(cat out)"
truncate -s 2000000 $shard
refused "are damaged or missing" inspect wide --verify
grep -q 'shard_00000.safetensors: 2000000 bytes long, the manifest says' out || die "$(cat out)"
rm $shard
refused "are damaged or missing" inspect wide --verify
printf 'X' | dd of=wide/iter_0000001/manifest.json bs=1 seek=500 conv=notrunc status=none
refused "manifest.json: does not match its hash" inspect wide
echo "all passed"
