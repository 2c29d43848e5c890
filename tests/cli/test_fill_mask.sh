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
python3 - "$n" <<'PY' || { cat out; die "JSON"; }
import json, math, sys
lines = [json.loads(l) for l in open("out")]
(mask,) = lines[0]["masks"]
top = mask["top"]
assert len(lines) == 1 and lines[0]["prompt_index"] == 0 and "in_order" not in lines[0], lines[0]
assert len(top) == int(sys.argv[1]) + 2, len(top)  # [BOS] and [EOS]
assert abs(sum(t["probability"] for t in top) - 1) < 1e-6
assert all(abs(math.exp(t["logprob"]) - t["probability"]) < 1e-7 for t in top)
assert [t["logprob"] for t in top] == sorted((t["logprob"] for t in top), reverse=True)
assert [w["word"] for w in mask["words"]] == ["carlos", "madrid"]
for w in mask["words"]:
    assert [t for t in top if t["id"] == w["id"]] == [w]
assert top[0]["word"] == "carlos" and lines[0]["text"] == "the king of spain is carlos."
PY

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
python3 - <<'PY' || { cat out; die "a dataset's JSON"; }
import json, math
(r,) = [json.loads(l) for l in open("out")]
assert r["task"] == "dataset" and r["iteration"] == 600 and r["split"] == "all"
assert abs(r["ppl"] - math.exp(r["loss"])) < 1e-6 * r["ppl"]
assert r["accuracy"] > 0.6 and r["loss"] < 1.5 and r["targets"] > r["samples"] > 100
assert 0 <= r["sop_accuracy"] <= 1 and r["sop_loss"] > 0
PY
cp out all.json
ok evaluate --load bert --data-path kings_text_sentence --split 8,1,1 --json --micro-batch-size 3
python3 -c '
import json
a, b = (json.load(open(f)) for f in ("all.json", "out"))
assert a.keys() == b.keys()
for k in a: assert a[k] == b[k] or abs(a[k] - b[k]) < 1e-5 * abs(a[k]), (k, a[k], b[k])' || die "the micro-batch changes figures"

# running text, each token masked in turn
head -n 6 kings.txt | paste -sd ' ' >true.txt
sed 's/king/town/g' true.txt >false.txt # kings are towns
ok evaluate --load bert --valid-data true.txt false.txt --json
python3 - <<'PY' || { cat out; die "running text"; }
import json
good, bad = [json.loads(l) for l in open("out")]
assert good["task"] == "text" and good["targets"] == bad["targets"] == 6 * 7, good
assert bad["loss"] > good["loss"] + 0.1 and good["accuracy"] > bad["accuracy"]
PY
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
