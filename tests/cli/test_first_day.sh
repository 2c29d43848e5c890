#!/bin/bash
# labels: cli
# What goes wrong on a first day: a mistyped command or flag, a file of the wrong kind, a forgotten unit.
. "$(dirname "$0")/lib.sh"
vocab=$data/tiny/tiny-vocab.json merges=$data/tiny/tiny-merges.txt dataset=$data/dataset/tiny_text_document

# a mistyped command: the nearest one in the first line, and no list
mistyped() { # TYPED MEANT
    local code=0
    "$TRIAX" "$1" >out 2>err || code=$?
    [ $code -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 2 ] || { cat out err >&2; die "triax $1: exit $code"; }
    [ "$(head -1 err)" = "triax: there is no command \"${3-$1}\"${2:+; did you mean $2?}" ] || { cat err >&2; die "triax $1"; }
    grep -qxF 'triax --help lists the commands' err || die "triax $1: it is not said where the list is"
}
mistyped pretrian-gpt pretrain-gpt
mistyped genrate generate
mistyped pretrain_gpt pretrain-gpt
mistyped pretrian_gpt.py pretrain-gpt pretrian-gpt
mistyped pretrain 'pretrain-gpt or pretrain-bert'
mistyped eval evaluate
mistyped xyzzy ''
refused "needs --micro-batch-size" pretrain_gpt.py
code=0; "$TRIAX" torchrun --nproc_per_node 2 pretrian_gpt.py >out 2>err || code=$?
[ $code -eq 2 ] && grep -q '"pretrian_gpt.py" is no command of triax; did you mean pretrain-gpt?' err || { cat err >&2; die "torchrun pretrian_gpt.py"; }

# --help: what is required comes first, a word narrows it
first_flags() { sed -nE '/^Required$/,/^$/s/^  --([a-z_-]+) .*/\1/p' out | sort | tr '\n' ' '; }
ok pretrain-gpt --help
[ "$(grep -E '^[A-Z][^.]*$' out | head -1)" = Required ] || die "what is required is not first"
[ "$(first_flags)" = "data-path hidden-size lr max-position-embeddings merge-file micro-batch-size num-attention-heads num-layers seq-length train-iters vocab-file " ] ||
    die "pretrain-gpt requires $(first_flags)"
[ "$(grep -c '^  --lr X' out)" -eq 1 ] || die "--lr is listed twice"
ok generate --help
[ "$(first_flags)" = "load " ] || die "generate requires $(first_flags)"
grep -q 'triax generate --help WORD' out || die "--help does not say that a word narrows it"
ok convert --help
[ "$(first_flags)" = "to " ] || die "convert requires $(first_flags)"
ok doctor --help
! grep -q '^Required' out || die "doctor requires nothing"
ok pretrain-gpt --help lr_warmup
grep -q '^  --lr-warmup-iters' out && ! grep -q '^  --num-layers' out || { cat out; die "--help lr_warmup"; }
ok pretrain-gpt --lr 1 --help Activation_Recomputation
grep -q '^  --recompute-method' out && ! grep -q '^  --lr ' out || { cat out; die "--help with a group's words"; }
ok help pretrain_gpt.py lr-warmup
grep -q '^  --lr-warmup-iters' out || die "help COMMAND WORD"
ok help prompt-jsonl
grep -qx '  triax generate --help prompt-jsonl' out && ! grep -q 'pretrain' out || { cat out; die "help WORD"; }
refused 'no flag of generate has "xyzzy" in its name, group or text' generate --help xyzzy
ok torchrun --help rdzv
grep -q -- '--rdzv' out && ! grep -q -- '--nproc' out || { cat out; die "torchrun --help WORD"; }

# a dataset by less than its name, or by more
train=(pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 2
    --lr 1e-3 --train-iters 2 --split 8,1,1 --eval-iters 1 --vocab-file "$vocab" --merge-file "$merges")
mkdir sets
for end in bin idx; do cp "$dataset.$end" "sets/ts_text_document.$end"; done
meant() { # TYPED MEANT
    refused "Dataset does not exist: $1 (no file " "${train[@]}" --data-path "$1"
    [ "$(sed -nE 's/.*\); (did you mean (.*)\?|the path should.*)$/\2/p' said)" = "$2" ] || die "--data-path $1: $(cat said)"
}
meant sets/ts sets/ts_text_document
meant sets/ts_text_document.bin sets/ts_text_document
meant sets/ts_text_document.idx sets/ts_text_document
meant sets/ts_text_documnt sets/ts_text_document
meant sets/ts_tex sets/ts_text_document
meant "$work/sets/ts" "$work/sets/ts_text_document"
meant sets sets/ts_text_document
meant sets/ sets/ts_text_document
meant sets/other ''
meant nowhere/ts ''
cp "$dataset.bin" sets/ts_text_sentence.bin # half of one
meant sets/ts sets/ts_text_document
cp "$dataset.idx" sets/ts_text_sentence.idx
meant sets/ts 'sets/ts_text_document or sets/ts_text_sentence'
(cd sets && meant ts 'ts_text_document or ts_text_sentence')
refused "did you mean sets/ts_text_document" inspect-samples --data-path sets/ts --seq-length 16 --train-iters 2 --micro-batch-size 2

# the list of arguments: what somebody chose, then how many are as they are by default
arguments() { sed -nE '/^-+ arguments -+$/,/^-+ end of arguments -+$/p' out; }
ok "${train[@]}" --data-path "$dataset" --seed 1234
arguments | grep -qE '^  seed \.+ 1234$' || die "a flag that was given is not listed"
arguments | grep -qE '^  ffn_hidden_size \.+ 64$' || die "what follows from a flag is not listed"
! arguments | grep -q 'adam_beta1' || die "defaults are listed"
arguments | grep -qE '^  \([0-9]+ more at their defaults; --log-level debug shows them\)$' || die "nothing is said of the others"
[ "$(arguments | wc -l)" -lt 30 ] || die "$(arguments | wc -l) lines of arguments"
ok "${train[@]}" --data-path "$dataset" --log-level debug
[ "$(arguments | grep -nE '^  (seed|adam_beta1) ' | wc -l)" -eq 2 ] || die "--log-level debug does not list all"
[ "$(arguments | grep -E '^  (adam_beta1|lr) ' | head -1)" = "$(arguments | grep '^  lr ')" ] || die "defaults come first"
ok "${train[@]}" --data-path "$dataset" --log-dialect megatron-deepspeed
arguments | sed '1d;$d' | cut -d. -f1 >names
LC_ALL=C sort names | cmp -s - names && grep -q adam_beta1 names && [ "$(wc -l <names)" -gt 150 ] || die "--log-dialect has not upstream's list"

# the files of another tokenizer
bert=$data/tiny/tiny-bert-vocab.txt json=$data/token/small-tokenizer.json
wrong() { # FILE IS NOT FLAGS...
    local file=$1 is=$2 no=$3
    shift 3
    refused "$file: is $is" tokenize "$@"
    grep -qF "not $no" said || die "tokenize $*: $(cat said)"
}
wrong "$bert" "a vocab.txt of WordPiece" "a vocab.json" --vocab-file "$bert" --merge-file "$merges"
grep -q -- '--tokenizer-type BertWordPieceLowerCase or BertWordPieceCase reads it' said || die "it is not said what reads it: $(cat said)"
wrong "$vocab" "a vocab.json of byte-level BPE" "a vocab.txt" --vocab-file "$vocab" --tokenizer-type BertWordPieceLowerCase
wrong "$json" "a tokenizer.json" "a vocab.txt" --vocab-file "$json" --tokenizer-type BertWordPieceCase
wrong "$json" "a tokenizer.json" "a vocab.json" --vocab-file "$json" --merge-file "$merges"
wrong "$merges" "a merges.txt" "a vocab.json" --vocab-file "$merges" --merge-file "$vocab"
wrong "$vocab" "a vocab.json" "a merges.txt" --vocab-file "$vocab" --merge-file "$vocab"
wrong "$vocab" "a vocab.json" "a tokenizer.json" --tokenizer-type HFTokenizer --tokenizer-model "$vocab"
head -c 2000 "$vocab" >cut.json # of the right kind
refused "cut.json:1:" tokenize --vocab-file cut.json --merge-file "$merges"
echo '{"a": 1}' >other.json # of none
refused "other.json: has no [PAD]" tokenize --vocab-file other.json --tokenizer-type BertWordPieceLowerCase

# a missing comma is said to be missing, where it is to be
printf '{\n  # of a step\n  "train_batch_size": 2,\n  "zero_optimization": {"stage": 0}   /* none */\n  "fp16": {"enabled": false}\n}\n' >ds.json
refused '--deepspeed_config ds.json: line 4, column 36: a comma is missing before "fp16"' "${train[@]}" --data-path "$dataset" --deepspeed_config ds.json
sed 's/, "#": 2/ "#": 2/' "$vocab" >comma.json
refused 'comma.json:1:17: not JSON: a comma is missing before "#"' tokenize --vocab-file comma.json --merge-file "$merges"
sed 's/,"padding"/ "padding"/' "$json" >comma.json
refused 'comma.json:1:35: not JSON: a comma is missing before "padding"' tokenize --tokenizer-type HFTokenizer --tokenizer-model comma.json
echo '{"text": "a" "b": 1}' >comma.jsonl
refused 'comma.jsonl: line 1, column 13: a comma is missing before "b"' preprocess-data --input comma.jsonl --output-prefix p --vocab-file "$vocab" --merge-file "$merges"
mkdir hf
echo '{"model_type": "gpt2" "vocab_size": 512}' >hf/config.json
: >hf/model.safetensors
refused 'config.json: not valid JSON: a comma is missing before "vocab_size" (line 1, column 22)' inspect hf

# a flag with one dash, also among values; a value behind a flag that has none
refused "-lr: a flag begins with two dashes: --lr" "${train[@]}" --data-path "$dataset" -lr 1e-3
refused '--bf16 takes no value, but "true" stands behind it' "${train[@]}" --data-path "$dataset" --bf16 true

# a flag of other commands: of those that are typed
refused ", serve, run-text-generation-server, not of convert" convert --to megatron a b --load c

# files and folders that are not there, or are something else
refused "--output-prefix nowhere/p: the folder nowhere/ is not a directory or does not exist" preprocess-data --input "$merges" --output-prefix nowhere/p \
    --vocab-file "$vocab" --merge-file "$merges"
: >file
echo "Once upon a time" >prose.txt
refused "triax pretrain-gpt: --save file: file: is a file, where a folder is to be" "${train[@]}" --data-path "$dataset" --save file --save-interval 1
: >empty.json
refused '--deepspeed_config prose.txt: line 1, column 1: JSON begins with { or [, this does not' "${train[@]}" --data-path "$dataset" --deepspeed_config prose.txt
refused "empty.json: line 1, column 1: it is empty" "${train[@]}" --data-path "$dataset" --deepspeed_config empty.json
refused "did you mean sets/ts_text_document or sets/ts_text_sentence?" inspect sets/ts
refused "did you mean sets/ts_text_document or sets/ts_text_sentence?" inspect sets
ok "${train[@]}" --data-path "$dataset" --save run --save-interval 2
"$TRIAX" evaluate --load run --valid-data nowhere.txt >out 2>err && die "evaluates a file that is not there"
grep -qx 'triax evaluate: nowhere.txt: no such file' err || { cat err >&2; die "evaluate --valid-data nowhere.txt"; }
for flag in --prompt-file --prompt-jsonl --prompt-tokens; do
    refused "file: holds no prompt" generate --load run $flag file
done

echo "all passed"
