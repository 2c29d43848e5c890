#!/bin/bash
# labels: cli
# triax evaluate as a user types it: tasks, formats of checkpoints, ranks, upstream's spelling, bad input; and --eval-tasks
# beside a run that does not notice.
. "$(dirname "$0")/lib.sh"
model=(--load "$data/golden/generation/model" --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")

head -c 2500 "$data/tiny/tiny-corpus.jsonl" | sed -n '1{s/.*"text": "//; s/\\n/ \n /g; s/,/ ,/g; s/".*//; p}' >wiki.txt
printf '%s\n' '{"text": "First Citizen: I have so, To, I have so"}' '{"text": "And so, I have so,\nTo, I amance, I amance"}' >lambada.jsonl
printf '%s\n' '{"context": "First Citizen:", "choices": ["I have so,", "zqx"], "answer": 0}' \
    '{"context": "And", "choices": ["so, I have", "x y z", "to"], "answer": 2}' >choices.jsonl
[ "$(wc -w <wiki.txt)" -gt 50 ] || die "no text"

# results FILE: the lines that say them
results() { grep -h 'validation results on' "$1"; }

# each task; results stand on standard output, all else on standard error
ok evaluate "${model[@]}" --valid-data wiki.txt --task WIKITEXT103 --overlapping-eval 16
[ "$(wc -l <out)" -eq 3 ] || die "more than the box of a result on standard output"
grep -qE '^ validation results on WIKITEXT103 \| avg loss: [0-9.]+E[+-]00 \| ppl: .* \| adjusted ppl: .* \| token ratio: [0-9.]+ \|$' out ||
    die "WIKITEXT103's line"
grep -q 'number of original tokens: ' err || die "WIKITEXT103's counts"
cp out wiki.words
ok evaluate "${model[@]}" --valid-data lambada.jsonl --task LAMBADA --strict-lambada
grep -qx ' validation results on LAMBADA | number correct: .* | total examples: 2.0000E+00 | avg accuracy: .*' out || die "LAMBADA's line"
ok evaluate "${model[@]}" --valid-data choices.jsonl --task multiple-choice
grep -q ' validation results on multiple-choice | .* | by characters: ' out || die "multiple choice's line"
ok evaluate "${model[@]}" --valid-data wiki.txt lambada.jsonl
[ "$(results out | grep -c ' on text | avg loss: .* | bits per byte: ')" -eq 2 ] || die "not two texts"

# JSON, tokens, compressed text
ok evaluate "${model[@]}" --valid-data wiki.txt lambada.jsonl --json
[ "$(grep -c '^{"task":"text","file":".*","loss":[0-9.]*,"ppl":[0-9.]*,"bits_per_byte":[0-9.]*,"targets":[0-9]*}$' out)" -eq 2 ] || die "not JSON"
head -n 1 out >plain.json
gzip -k wiki.txt
ok evaluate "${model[@]}" --valid-data wiki.txt.gz --json
sed 's/wiki.txt.gz/wiki.txt/' out | cmp - plain.json || die "compressed text is another"
ok evaluate "${model[@]}" --valid-data wiki.txt --per-token --json
n=$(sed -n 's/.*"targets":\([0-9]*\)}$/\1/p' plain.json)
[ "$(grep -c '^{"document":0,"id":[0-9]*,"text":' out)" -eq $((n + 1)) ] || die "not a line for each token"
tail -n 1 out | cmp - plain.json || die "with --per-token another result"
head -n 1 out | grep -q '"logprob":null,"rank":null}$' || die "the first token has a score"
ok evaluate "${model[@]}" --valid-data wiki.txt --per-token
[ "$(grep -vc '^{' out)" -eq 0 ] || die "words between the tokens"
results err >/dev/null || die "no result in the log"

# a piece of SentencePiece keeps its blank
echo "hello of pieces" >blank.txt
ok evaluate --load "$data/golden/generation/model" --tokenizer-type SentencePieceTokenizer --tokenizer-model "$data/token/sp-word.model" \
    --valid-data blank.txt --per-token --json
grep -q '"id":5,"text":" of","' out || die "a piece without its blank"

# upstream's script and flags
ok tasks/main.py "${model[@]}" --task WIKITEXT103 --valid-data wiki.txt --overlapping-eval 16 --num-layers 4 --hidden-size 128 \
    --num-attention-heads 4 --max-position-embeddings 128 --seq-length 128 --micro-batch-size 8 --log-interval 10 --no-load-optim \
    --no-load-rng --checkpoint-activations
cmp out wiki.words || die "tasks/main.py is something else"
refused "num-layers" Megatron/tasks/main.py "${model[@]}" --task LAMBADA --valid-data lambada.jsonl --num-layers 2

# any format of a checkpoint
ok evaluate "${model[@]}" --valid-data lambada.jsonl --task LAMBADA --json
cp out golden.json
for to in native megatron deepspeed; do
    ok convert --to $to "$data/golden/generation/model" $to --no-proof
    ok evaluate "${model[@]}" --load $to --valid-data lambada.jsonl --task LAMBADA --json
    cmp out golden.json || die "$to: other scores"
done

# bad input
refused "evaluate needs --data-path or --valid-data" evaluate "${model[@]}"
refused "--task needs --valid-data FILE" evaluate "${model[@]}" --task LAMBADA
refused "--task" evaluate "${model[@]}" --task lambda --valid-data lambada.jsonl
refused "give one of the two" evaluate "${model[@]}" --valid-data wiki.txt --data-path x
refused "--strict-lambada is for --task LAMBADA" evaluate "${model[@]}" --valid-data wiki.txt --strict-lambada
refused "--per-token is for" evaluate "${model[@]}" --valid-data lambada.jsonl --task LAMBADA --per-token
refused "--overlapping-eval is for" evaluate "${model[@]}" --valid-data lambada.jsonl --task LAMBADA --overlapping-eval 8
refused "--overlapping-eval 200 is more than --seq-length 128" evaluate "${model[@]}" --valid-data wiki.txt --overlapping-eval 200
refused "--seq-length 129 is more than --max-position-embeddings 128" evaluate "${model[@]}" --valid-data wiki.txt --seq-length 129
refused "nowhere.txt" evaluate "${model[@]}" --valid-data wiki.txt nowhere.txt
grep -q 'validation results' out && die "a result before the last file was looked at"
echo '{"text": "a b", }' >>lambada.jsonl
refused "lambada.jsonl: line 3, column" evaluate "${model[@]}" --valid-data lambada.jsonl --task LAMBADA
sed -i 's/"answer": 2/"answer": 3/' choices.jsonl
refused 'choices.jsonl: line 2: "answer" is 3, the choices are 0 to 2' evaluate "${model[@]}" --valid-data choices.jsonl --task multiple-choice
: >empty
refused "empty: " evaluate "${model[@]}" --valid-data empty
sed -i '3d' lambada.jsonl
sed -i 's/"answer": 3/"answer": 2/' choices.jsonl

# beside a run: it has the bits of one without, and the last scores are the checkpoint's
train=(pretrain-gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32
    --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 "${model[@]:2}" --data-path "$data/dataset/tiny_text_document" --split 8,1,1
    --train-iters 6 --log-interval 3 --eval-interval 3 --eval-iters 1 --save-interval 6 --hidden-dropout 0.1)
tasks=(--eval-tasks LAMBADA=lambada.jsonl multiple-choice=choices.jsonl WIKITEXT103=wiki.txt --strict-lambada --overlapping-eval 8)
ok "${train[@]}" --save without
ok "${train[@]}" --save with "${tasks[@]}" --tensorboard-dir board
diff -r without/iter_0000006 with/iter_0000006 || die "--eval-tasks changes the run"
[ "$(results out | wc -l)" -eq 9 ] || die "not three tasks at three evaluations"
results out | tail -n 3 >last
[ "$(grep -c '"task":true' with/metrics.jsonl)" -eq 9 ] || die "metrics without tasks"
grep -q '"name":"LAMBADA lambada.jsonl","iteration":6,.*"accuracy":' with/metrics.jsonl || die "LAMBADA is not in the metrics"
grep -qa 'WIKITEXT103 wiki.txt adjusted_ppl' board/* || die "WIKITEXT103 is not in TensorBoard's file"
ok report with --output page.html
for task in "LAMBADA --strict-lambada --valid-data lambada.jsonl" "multiple-choice --valid-data choices.jsonl" \
    "WIKITEXT103 --overlapping-eval 8 --valid-data wiki.txt"; do
    ok evaluate --load with --task $task
    results out
done >again
cmp last again || die "the checkpoint's scores are others than the run's"
refused "is not TASK=FILE" "${train[@]}" --eval-tasks lambada.jsonl
refused "is not TASK=FILE" "${train[@]}" --eval-tasks LAMBADA=
refused "nowhere" "${train[@]}" --eval-tasks text=nowhere
refused "--zero-stage 3" "${train[@]}" "${tasks[@]}" --zero-stage 3
refused "--strict-lambada is for --eval-tasks LAMBADA" "${train[@]}" --eval-tasks text=wiki.txt --strict-lambada
