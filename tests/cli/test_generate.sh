#!/bin/bash
# labels: cli golden
# triax generate as a user types it: every form of prompts and of output, formats of checkpoints, ends of texts, files of
# upstream's script, a terminal, and what is refused.
. "$(dirname "$0")/lib.sh"

tok=(--vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
model=(--load "$data/golden/generation/model" "${tok[@]}")

# is TEXT: what the last command has printed
is() { [ "$(cat out)" = "$1" ] || { diff out - <<<"$1" >&2 || true; die "other output"; }; }

# From the stored continuations of the model: "KEY N" of line N, a string or a list of numbers
stored() { sed -n "$2p" "$data/golden/generation/greedy.jsonl" | sed -E "s/.*\"$1\": (\"([^\"\\]|\\\\.)*\"|\[[^]]*\]).*/\1/"; }

# ---- Hugging Face's names, and how its examples show several samples
hf=(--do_sample --max_new_tokens 8 --top_k 50 --top_p 0.95 --seed 1)
ok generate "${model[@]}" --prompt 'First Citizen:' "${hf[@]}" --num_return_sequences 3 --stop $'\n'
[ "$(sed -nE 's/^([0-9]+): First Citizen:.*/\1/p' out | xargs)" = "0 1 2" ] && [ "$(wc -l <out)" -eq 3 ] || { cat out >&2; die "no numbered samples"; }
sed 's/^[0-9]: //' out >numbered
ok generate "${model[@]}" --prompt 'First Citizen:' "${hf[@]}" --num-samples 3 --stop $'\n'
grep -v '^----$' out | cmp - numbered || die "other samples under another name"
ok generate "${model[@]}" --prompt a b --do-sample --num-return-sequences 2 --max-new-tokens 1 --stop $'\n'
[ "$(sed -E 's/^([01]: .).*/\1/' out | xargs)" = "0: a 1: a ---- 0: b 1: b" ] || { cat out >&2; die "two prompts"; }
ok generate "${model[@]}" --prompt a --num_beams 2 --early_stopping --pad_token_id 0 --max_new_tokens 2
refused "--do-sample draws tokens, --greedy does not" generate "${model[@]}" --prompt a --do_sample --greedy
refused "leave --do-sample out" generate "${model[@]}" --prompt a --do_sample --num_beams 2
refused "--num-return-sequences is --num-samples" generate "${model[@]}" --prompt a --num_return_sequences 2 --num-samples 2
refused "give --max-new-tokens instead" generate "${model[@]}" --prompt a --max_length 20
refused "nothing is downloaded; if it is a model of Hugging Face's, put config.json, model.safetensors (or pytorch_model.bin) and its tokenizer (tokenizer.json, or vocab.json and merges.txt) from https://huggingface.co/user/gpt3-125M/tree/main into a folder" \
    generate --load user/gpt3-125M --prompt a
mkdir -p HF
cp -r "$data/golden/generation/model" HF/global_step8000
ok generate --load "$PWD/HF/global_step8000/" "${tok[@]}" --prompt a --max-new-tokens 2
refused "HF: has no file \`latest\`; name the folder in it that is meant, such as HF/global_step8000" generate --load HF "${tok[@]}" --prompt a

# ---- prompts: each form gives the stored continuation
n=$(stored new_ids 1 | tr -cd , | wc -c)
greedy=(generate "${model[@]}" --greedy --max-new-tokens $((n + 1)))
stored new_ids 1 >expected
[ "$(wc -c <expected)" -gt 60 ] || die "the stored file is not read"
ok "${greedy[@]}" --prompt 'First Citizen:' --output-tokens
cmp out expected || die "--prompt"
echo 'First Citizen:' >lines
ok "${greedy[@]}" --prompt-file lines --output-tokens
cmp out expected || die "--prompt-file"
printf 'First Citizen:\r\n' | "$TRIAX" "${greedy[@]}" --prompt-file - --output-tokens 2>err | cmp - expected || die "--prompt-file -, CRLF"
"$TRIAX" "${greedy[@]}" --output-tokens <lines 2>err | cmp - expected || die "standard input"
for line in '"First Citizen:"' '{"text": "First Citizen:"}' '{"prompt": "First\u0020Citizen:", "x": 1}'; do
    printf '%s\n\n' "$line" >some.jsonl
    ok "${greedy[@]}" --prompt-jsonl some.jsonl --output-tokens
    cmp out expected || die "--prompt-jsonl $line"
done
stored prompt_ids 1 >ids.jsonl
echo "{\"tokens\": $(stored prompt_ids 2)}" >>ids.jsonl
stored new_ids 2 >>expected
ok "${greedy[@]}" --prompt-tokens ids.jsonl --output-tokens
cmp out expected || die "--prompt-tokens"

# a model without a tokenizer: ids in, ids out, no id ends a text
ok generate --load "$data/golden/generation/model" --greedy --max-new-tokens $((n + 1)) --prompt-tokens ids.jsonl --output-tokens
cmp out expected || die "without a tokenizer"
refused "has no vocab.json with merges.txt and no tokenizer.json" generate --load "$data/golden/generation/model" --prompt-tokens ids.jsonl
refused "has no tokenizer.json" generate --load "$data/golden/generation/model" --prompt-tokens ids.jsonl --output-tokens \
    --tokenizer-type HFTokenizer
ok generate --load "$data/golden/generation/model" --tokenizer-type NullTokenizer --vocab-size 511 --greedy \
    --max-new-tokens $((n + 1)) --prompt-tokens ids.jsonl --output-tokens --samples-at-once 1
cmp out expected || die "--prompt-tokens without a vocabulary, one at a time"

# pieces of SentencePiece keep the blanks between them
echo '[5, 9, 5]' >pieces.jsonl
ok generate --load "$data/golden/generation/model" --tokenizer-type SentencePieceTokenizer --tokenizer-model "$data/token/sp-word.model" \
    --prompt-tokens pieces.jsonl --max-new-tokens 2
grep -q '^of that of' out || die "ids of pieces are another text"

# ---- text, several prompts and samples
ok generate "${model[@]}" --greedy --max-new-tokens 20 --prompt 'First Citizen:' 'KING'
is $'First Citizen:\nAnd so, I have so,\nTo, I amance,\n----\nKING RING RIO:\nInow, I have so,'
for cold in 0 0.0 1e-9; do
    ok generate "${model[@]}" --temperature $cold --top_k 5 --max-new-tokens 20 --prompt 'First Citizen:' 'KING'
    is $'First Citizen:\nAnd so, I have so,\nTo, I amance,\n----\nKING RING RIO:\nInow, I have so,'
done
refused "--temperature -1 is too small; allowed: 0 to 100" generate "${model[@]}" --temperature -1 --prompt x
sampled=(generate "${model[@]}" --prompt 'First Citizen:' 'KING RICHARD III:' --num-samples 5 --max-new-tokens 16 --temperature 0.8
    --top_k 50 --top_p 0.95 --repetition-penalty 1.1)
ok "${sampled[@]}"
[ "$(grep -c -- '^----$' out)" -eq 9 ] || die "not ten samples"
cp out first
ok "${sampled[@]}" --samples-at-once 3
cmp out first || die "the same seed in smaller batches gave other samples"
ok "${sampled[@]}" --seed 99
! cmp -s out first || die "another seed gave the same samples"
ok generate "${model[@]}" --prompt '' --max-new-tokens 4 --json
grep -q '^{"prompt":"","prompt_index":0,"sample_index":0,"text":".*","tokens":\[.*\],"finish_reason":"' out || die "an empty prompt"
ok generate "${model[@]}" --prompt 'The king' --greedy # as far as the model has positions, or 64
[ "$(wc -c <out)" -gt 64 ] || die "short text"

# ---- what is told of tokens
ok generate "${model[@]}" --prompt 'First Citizen:' --greedy --max-new-tokens 2 --logprobs --top-logprobs 2 --top_k 1
[ "$(sed -n 3p out)" = '  -0.2177     198  "\n"' ] || die "--logprobs: $(sed -n 3p out)"
[ "$(grep -cxE '    (raw|repetition penalty|temperature|top-k|top-p)' out)" -eq 10 ] || die "not five filters of two tokens"
ok generate "${model[@]}" --prompt 'First Citizen:' --max-new-tokens 1 --logprobs --top-logprobs 2 --temperature 2 --top_k 2 --json
grep -qE '"logprobs":\[-[0-9.]+\],"top_logprobs":\[\{"raw":\[\[198,-0\.21765[0-9]*\],\[220,-4\.2733[0-9]*\]\],' out || die "JSON: $(cat out)"
grep -qE '"top-k":\[\[198,-0\.1236[0-9]*\],\[220,-2\.1515[0-9]*\]\]' out || die "temperature and top-k of JSON: $(cat out)"
ok generate "${model[@]}" --prompt 'First Citizen:' --max-new-tokens 3 --json --output-tokens --greedy
is '{"prompt_index":0,"sample_index":0,"tokens":[198,363,263],"finish_reason":"length"}'
ok generate "${model[@]}" --prompt 'First Citizen:' --stop-id 198 --json --output-tokens --greedy --logprobs --top-logprobs 2
is '{"prompt_index":0,"sample_index":0,"tokens":[],"finish_reason":"stop","logprobs":[],"top_logprobs":[]}'

# ---- ends: "\nAnd so, I have so,\nTo, I amance, ..."
greedy=(generate "${model[@]}" --prompt 'First Citizen:' --greedy --max-new-tokens 30)
ok "${greedy[@]}" --stop 'have' 'To,'
is $'First Citizen:\nAnd so, I '
ok "${greedy[@]}" --stop 'so,'$'\n''T' --json
grep -q '"text":"\\nAnd so, I have ",.*"finish_reason":"stop"' out || die "a stop text over several tokens: $(cat out)"
ok "${greedy[@]}" --stop-id 11 500 --output-tokens
is '[198, 363, 263, 78]'
ok "${greedy[@]}" --stop-id 11 --min-new-tokens 6 --output-tokens
[ "$(tr -cd , <out | wc -c)" -ge 5 ] || die "--min-new-tokens: $(cat out)"
ok "${greedy[@]}" --stop-on-eol
is 'First Citizen:'
[ "$(wc -l <out)" -eq 2 ] || die "--stop-on-eol"
ok "${greedy[@]}" --prevent-newline-after-colon --output-tokens
! grep -q '^\[198' out || die "--prevent-newline-after-colon"
ok "${greedy[@]}" --stop-on-double-eol
cp out long
ok "${greedy[@]}"
cmp out long || die "--stop-on-double-eol stops where there is no empty line"

# ---- beam search
ok generate "${model[@]}" --prompt 'First Citizen:' --beam-width 3 --max-new-tokens 10 --json
[ "$(wc -l <out)" -eq 3 ] || die "not three texts"
sed -E 's/.*"score":(-[0-9.]+)}/\1/' out | sort -gr | cmp - <(sed -E 's/.*"score":(-[0-9.]+)}/\1/' out) || die "not best first"
cp out scored
ok generate "${model[@]}" --prompt 'First Citizen:' --beam-width 1 --max-new-tokens 10 --output-tokens
cp out one
ok generate "${model[@]}" --prompt 'First Citizen:' --greedy --max-new-tokens 10 --output-tokens
cmp <(head -n 1 one) out || die "a beam of one is not greedy"
ok generate "${model[@]}" --prompt 'First Citizen:' --beam-width 3 --max-new-tokens 20 --stop-id 11 --length-penalty 2 --json
grep -q '"finish_reason":"stop"' out || die "no hypothesis stops"

# ---- checkpoints of other formats
ok generate "${model[@]}" --prompt 'First Citizen:' --greedy --max-new-tokens 30 --output-tokens
cp out expected
for to in native megatron deepspeed; do
    ok convert --to $to "$data/golden/generation/model" in-$to "${tok[@]}"
    ok generate --load in-$to "${tok[@]}" --prompt 'First Citizen:' --greedy --max-new-tokens 30 --output-tokens
    cmp out expected || die "a checkpoint of $to"
done
for type in bf16 fp16; do
    ok generate "${model[@]}" --$type --prompt 'First Citizen:' --greedy --max-new-tokens 5 --output-tokens
    grep -q '^\[198, 363, 263' out || die "--$type: $(cat out)"
done

# ---- the script's files and flags
script=(generate_samples_gpt.py "${model[@]}" --num-layers 4 --hidden-size 128 --num-attention-heads 4
    --max-position-embeddings 128 --seq-length 128 --micro-batch-size 2 --tensor-model-parallel-size 1
    --tokenizer-type GPT2BPETokenizer --recompute)
ok "${script[@]}" --num-samples 5 --genfile free.jsonl --out-seq-length 20 --temperature 1.0 --top_p 0.9
[ "$(grep -cE '^\{"text":".*","length":[0-9]+,"finished":(true|false)\}$' free.jsonl)" -eq 5 ] || die "--genfile: $(cat free.jsonl)"
[ "$(grep -c '"length":20,"finished":false' free.jsonl)" -ge 3 ] || die "lengths: $(cat free.jsonl)"
printf 'First Citizen:\nthe stop is a line, too\nlast' >in.txt
ok "${script[@]}" --sample-input-file in.txt --out-seq-length 8 --greedy
[ "$(grep -c '^Context:' in.txt.out)" -eq 3 ] || die "not three contexts"
ok generate "${model[@]}" --prompt last --max-new-tokens 8 --greedy
printf '\nContext:last\n\nMegatron-LM:%s\n' "$(sed '1s/^last//' out)" >expected
cmp <(tail -n "$(wc -l <expected)" in.txt.out) expected || die "the last line: $(cat in.txt.out)"
[[ "$(sed -n 2,5p in.txt.out)" = $'Context:First Citizen:\n\n\nMegatron-LM:'* ]] || die "the raw line: $(cat in.txt.out)"
{ for i in $(seq 40); do printf 'long '; done; printf '\nshort\n'; } >in.txt
ok "${script[@]}" --sample-input-file in.txt --sample-output-file given --out-seq-length 100 --greedy
[ "$(grep -c '^Context:' given)" -eq 1 ] || die "a long context was not left out"
grep -q 'warning: in.txt:1: left out: the context has .* more than half of the sequence length 128' err || die "not told: $(cat err)"
ok "${script[@]}" --genfile unused --out-seq-length 5 --greedy <lines # upstream's default: nothing is sampled into it
grep -q -- '--genfile unused is not written: --num-samples is 0' err || die "--genfile is left without a word"
[ ! -e unused ] || die "--genfile with 0 samples"
grep -q '^First Citizen:' out || die "prompts on standard input"

# ---- a terminal: asked for prompts, one after the other
if script --version 2>/dev/null | grep -q util-linux; then
    printf 'First Citizen:\n\nKING\nstop\n' | script -qec "'$TRIAX' generate ${model[*]} --greedy --max-new-tokens 12" typed >terminal 2>&1 ||
        { cat terminal >&2; die "a terminal"; }
    grep -q 'And so, I have so,' terminal || { cat terminal >&2; die "the first answer"; }
    grep -q 'RING RIO:' terminal || { cat terminal >&2; die "the second answer"; }
    [ "$(grep -o 'prompt (stop to exit) >>>' terminal | wc -l)" -ge 4 ] || { cat terminal >&2; die "not asked four times"; }
fi

# ---- refused
refused "there is no prompt" generate "${model[@]}" </dev/null
refused "nowhere.txt" generate "${model[@]}" --prompt-file nowhere.txt
refused "give one of the two" generate "${model[@]}" --prompt x --prompt-file lines
refused "positions" generate "${model[@]}" --prompt x --max-new-tokens 128
refused "positions" generate "${model[@]}" --prompt "$(for i in $(seq 60); do printf 'KING RICHARD '; done)"
printf '"good"\n{"x": 1}\n' >bad.jsonl
refused 'bad.jsonl:2: neither a string nor an object' generate "${model[@]}" --prompt-jsonl bad.jsonl
printf '{"text": "a", "prompt": "b"}\n' >bad.jsonl
refused 'bad.jsonl:1: both' generate "${model[@]}" --prompt-jsonl bad.jsonl
printf '"good"\n{"text": \n' >bad.jsonl
refused 'bad.jsonl:2: no JSON' generate "${model[@]}" --prompt-jsonl bad.jsonl
for line in '[1, 512]' '[1, -1]' '["a"]' '[1.5]'; do
    echo "$line" >bad.jsonl
    refused 'bad.jsonl:1: item ' generate "${model[@]}" --prompt-tokens bad.jsonl
done
for line in '[]' '5' '{"text": [1]}'; do
    echo "$line" >bad.jsonl
    refused 'bad.jsonl:1: neither a list of token ids' generate "${model[@]}" --prompt-tokens bad.jsonl
done
refused "--stop-id 512" generate "${model[@]}" --prompt x --stop-id 512
