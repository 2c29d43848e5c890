#!/bin/bash
# labels: cli
# triax fill-mask and triax evaluate of a BERT as a user types it: words that it has learned, segments, JSON, sources of
# texts, formats of checkpoints, bad input.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tiny_bert.sh"
train_bert bert --train-iters 600

# ---- fill-mask

ok fill-mask "The king of Spain is [MASK]." "the [MASK] of norway is oslo." "the town of india is [MASK]." --load bert --top 3
grep -qx 'the king of spain is carlos\.' out || { cat out; die "the king of Spain"; }
grep -qx 'the town of norway is oslo\.' out || { cat out; die "what is Oslo"; }
grep -qx 'the town of india is delhi\.' out || { cat out; die "the town of India"; }
[ "$(grep -c '^$' out)" -eq 2 ] || die "no line between texts"
[ "$(grep -cE '^([12] )? +[01]\.[0-9]{6}  [a-z.]+$' out)" -eq 9 ] || { cat out; die "not three words for each mask"; }

# probabilities add up; given words have theirs, also among others
ok fill-mask "the king of spain is [MASK]." --load bert --json --top 1000 --words carlos madrid
n=$(wc -l <vocab.txt)
json_values out | awk -v n=$((n + 2)) '
    function is(name, text) { if (v[name] != text) bad(name) }
    function bad(name) { print name ": " v[name]; failed = 1 }
    function near(a, b, bound) { return a - b < bound && b - a < bound }
    { name = $1; sub(/^[^ ]* /, ""); v[name] = $0 }
    END {
        mask = "1.masks.0."
        is("1.prompt_index", "0"); is("1.text", "\"the king of spain is carlos.\""); is(mask "top.0.word", "\"carlos\"")
        is(mask "words.0.word", "\"carlos\""); is(mask "words.1.word", "\"madrid\"")
        if (("2" in v) || ("1.masks.1" in v) || ("1.in_order" in v) || ((mask "words.2") in v)) bad("more than was asked for")
        for (i = 0; (t = mask "top." i) in v; i++) {
            sum += v[t ".probability"]
            if (!near(exp(v[t ".logprob"]), v[t ".probability"], 1e-7)) bad(t ".logprob")
            if (i && v[t ".logprob"] + 0 > last) bad(t ".logprob")
            last = v[t ".logprob"] + 0
            for (w = 0; w < 2; w++)
                if (v[t ".id"] == v[mask "words." w ".id"]) {
                    found++
                    is(mask "words." w ".word", v[t ".word"]); is(mask "words." w ".probability", v[t ".probability"])
                    is(mask "words." w ".logprob", v[t ".logprob"])
                }
        }
        if (i != n) bad("not " n " words but " i) # of the vocabulary, [BOS] and [EOS]
        if (!near(sum, 1, 1e-6)) bad("the sum " sum)
        if (found != 2) bad("given words " found)
        exit failed
    }' >&2 || { cat out; die "JSON"; }

# two segments: types and the head on sentences; [CLS] and a last [SEP] may be typed
ok fill-mask "the king of spain is [MASK]. [SEP] the town of spain is madrid." --load bert --json
grep -qE '"in_order":0\.[0-9]+\}$' out || { cat out; die "no probability of the order"; }
sed 's/"prompt":"[^"]*",//' out >plain
ok fill-mask "[CLS]the king of spain is [MASK].[SEP]the town of spain is madrid.[SEP]" --load bert --json
sed 's/"prompt":"[^"]*",//' out | cmp - plain || die "[CLS] and [SEP] change the text"
ok fill-mask "the king of spain is [MASK]. [SEP] the town of spain is madrid." --load bert
grep -qE '^segments in this order: 0\.[0-9]{6}$' out || { cat out; die "no line for the order"; }

# where texts come from: the same answers; 40 of them, so in several lots
for i in $(seq 40); do printf 'the town of %s is [MASK].\n' "$(sed -n "$((i % 6 + 1))p" <<<$'france\nspain\negypt\npersia\nnorway\nindia')"; done >texts
ok fill-mask --load bert --prompt-file texts --json
cp out file.json
[ "$(wc -l <file.json)" -eq 40 ] || die "not a line for each text"
ok fill-mask --load bert --json <texts
cmp out file.json || die "standard input"
sed 's/.*/{"prompt": "&"}/' texts >texts.jsonl
ok fill-mask --load bert --prompt-jsonl texts.jsonl --json
cmp out file.json || die "--prompt-jsonl"
for i in 1 17 40; do # beside others as alone, but for the last digits
    ok fill-mask "$(sed -n "${i}p" texts)" --load bert --json
    for f in out <(sed -n "${i}p" file.json); do grep -o '"text":.*' $f; done | uniq | wc -l | grep -qx 1 || die "text $i beside others"
done

# any format of a checkpoint; Megatron's does not say which rows of the vocabulary are padding, so they have a little
words() { sed -E 's/"(probability|logprob)":[^,}]*//g; s/"in_order":.*//' "$1"; }
for to in megatron deepspeed; do
    ok convert --to $to bert $to --no-proof
    ok fill-mask --load $to --prompt-file texts --json
    cmp <(words out) <(words file.json) || die "$to: other words"
done
ok fill-mask --load bert --bf16 "the king of spain is [MASK]."
grep -qx 'the king of spain is carlos\.' out || die "bf16"

# bad input
refused 'prompt 2: there is no [MASK] in it' fill-mask --load bert "[MASK]" "the king of spain"
refused 'the model has 24 positions: shorten it' fill-mask --load bert "[MASK] $(yes king | head -n 30 | tr '\n' ' ')"
refused 'more than two segments' fill-mask --load bert "[MASK] [SEP] a [SEP] b"
refused 'a segment has no word' fill-mask --load bert "[SEP] [MASK]"
refused '[CLS] is the first word' fill-mask --load bert "king [CLS] [MASK]"
refused 'is no token of the vocabulary by itself' fill-mask --load bert "[MASK]" --words "king of"
refused 'needs --load' fill-mask "[MASK]"
refused 'give one of them' fill-mask --load bert "[MASK]" --prompt-file texts
rm megatron/vocab.txt megatron/tokenizer.json 2>/dev/null || true
refused 'has no vocab.txt' fill-mask --load megatron "[MASK]"
gpt=(--load "$data/golden/generation/model" --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
refused 'use triax generate' fill-mask "${gpt[@]}" "[MASK]"
refused 'triax fill-mask' generate --load bert --prompt "the king"
refused 'triax fill-mask' serve --load bert --port 0
"$TRIAX" fill-mask --load bert </dev/null >out 2>err && die "no text is fine"
grep -q 'there is no prompt' err || die "no text"

# ---- evaluate

ok evaluate --load bert --data-path kings_text_sentence --split 8,1,1 --eval-split test
grep -qE '^ validation loss at iteration 600 on [0-9]+ samples of kings_text_sentence \(test\) \| lm loss value: [0-9.E+-]+ \| lm loss PPL: .* \| lm accuracy: .* \| sop loss value: .* \| sop accuracy: ' out ||
    { cat out; die "a dataset's line"; }
ok evaluate --load bert --data-path kings_text_sentence --split 8,1,1 --json --micro-batch-size 16
grep -qx '{"task":"dataset",.*"split":"all","iteration":600,.*}' out && [ "$(wc -l <out)" -eq 1 ] || { cat out; die "a dataset's JSON"; }
json_values out | awk '
    { v[substr($1, 3)] = $2 }
    END {
        error = v["ppl"] / exp(v["loss"]) - 1
        exit !(error < 1e-6 && error > -1e-6 && v["accuracy"] > 0.6 && v["loss"] < 1.5 && v["targets"] + 0 > v["samples"] + 0 &&
               v["samples"] > 100 && v["sop_accuracy"] >= 0 && v["sop_accuracy"] <= 1 && v["sop_loss"] > 0)
    }' || { cat out; die "a dataset's figures"; }
cp out all.json
ok evaluate --load bert --data-path kings_text_sentence --split 8,1,1 --json --micro-batch-size 3
json_near 1e-5 0 all.json out || die "the micro-batch changes figures"

# running text, each token masked in turn
head -n 6 kings.txt | paste -sd ' ' >true.txt
sed 's/king/town/g' true.txt >false.txt # kings are towns
ok evaluate --load bert --valid-data true.txt false.txt --json
json_values out | awk '
    { v[$1] = $2 }
    END {
        exit !(v["1.task"] == "\"text\"" && v["1.targets"] == 6 * 7 && v["2.targets"] == 6 * 7 && v["2.loss"] > v["1.loss"] + 0.1 &&
               v["1.accuracy"] > v["2.accuracy"])
    }' || { cat out; die "running text"; }
cp out text.json
ok evaluate --load bert --valid-data true.txt --per-token --json
[ "$(grep -c '^{"document":0,"id":[0-9]*,"text":"[a-z.]*","logprob":-[0-9.e-]*,"rank":[0-9]*}$' out)" -eq 42 ] || { cat out; die "tokens"; }
tail -n 1 out | cmp - <(head -n 1 text.json) || die "with --per-token another result"
ok evaluate --load bert --valid-data true.txt
grep -q '^ validation results on text | avg loss: .* | ppl: .* | bits per byte: .* | avg accuracy: .* |$' out || die "the text's line"

refused 'sees both sides: use --task text' evaluate --load bert --valid-data true.txt --task LAMBADA
refused 'sees both sides: use --task text' evaluate --load bert --valid-data true.txt --task multiple-choice
refused 'its windows do not overlap' evaluate --load bert --valid-data true.txt --overlapping-eval 4
echo "fill-mask and evaluate of a BERT passed"
