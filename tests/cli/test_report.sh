#!/bin/bash
# labels: cli resume
# What people see of a run: log lines in both dialects, timers, memory, the metrics file, event files, the report's page.
. "$(dirname "$0")/lib.sh"

train=(pretrain-gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 32
    --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --lr-decay-style linear --train-iters 10 --log-interval 2
    --eval-interval 4 --eval-iters 2 --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt"
    --data-path "$data/dataset/tiny_text_document" --split 8,1,1 --save-interval 4)

# ---- the log
number='[0-9.E+-]+'
ok "${train[@]}" --save run
grep -Eq "^ iteration        2/      10 \| consumed samples:            8 \| elapsed time per iteration \(ms\): $number \
\| learning rate: $number \| global batch size:     4 \| lm loss: $number \| loss scale: 1.0 \| grad norm: $number \
\| number of skipped iterations:   0 \| number of nan iterations:   0 \| samples per second: $number \
\| tokens per second: $number \| TFLOPs: $number \| peak share: [0-9.]+% \|$" out || { cat out; die "Megatron-LM's line"; }
grep -Eq "^ > measured peak of fp32 multiply-adds on [0-9]+ threads: $number GFLOP/s$" out || die "no peak"
for part in parameters gradients optimizer activations workspace total; do
    grep -Eq "^    $part +[0-9.]+$" out || die "no $part in the table of memory"
done
grep -Eq "memory after the first step \(MB\): predicted $number, used $number " out || die "no memory used"
grep -q '^    model-and-optimizer-setup \.*: (' out || die "no timer of the setup"
grep -q '^    save-checkpoint \.*: (' out || die "no timer of saving"
! grep -q '^    forward-backward' out || die "timers that nobody asked for"
! grep -q '^    evaluate' out || die "timers that nobody asked for"

ok "${train[@]}" --log-dialect megatron-deepspeed --timing-log-level 2 --timing-log-option max --log-params-norm \
    --log-num-zeros-in-grad --tensorboard-dir tb/deep --log-timers-to-tensorboard
grep -Eq "^ iteration        4/      10 \| consumed samples:           16 \| consumed tokens:          256 \
\| elapsed time per iteration \(ms\): $number \| learning rate: $number \| global batch size:     4 \| lm loss: $number \
\| grad norm: $number \| num zeros: [0-9]+\.0 \| params norm: $number \| actual seqlen:    16 \
\| number of skipped iterations:   0 \| number of nan iterations:   0 \| samples per second: $number \
\| tokens per gpu per second \(tgs\): $number \| TFLOPs: $number \| peak share: [0-9.]+% \|$" out || { cat out; die "Megatron-DeepSpeed's line"; }
for timer in forward-backward forward-compute backward-compute batch-generator optimizer-clip-main-grad \
    optimizer-count-zeros optimizer-inner-step optimizer; do
    [ "$(grep -Ec "^    $timer \.+: [0-9.]+$" out)" -eq 5 ] || die "no timer $timer in every interval"
done
! grep -q optimizer-unscale out || die "a check beside the norm that finds the same"
ok "${train[@]}" --timing-log-level 2 --clip-grad 0 --train-iters 2
grep -q '^    optimizer-unscale-and-check-inf \.*: (' out || die "no timer of the check"
! grep -Eq 'optimizer-(clip|count)' out || die "timers of what was not done"
ls tb/deep/events.out.tfevents.* >/dev/null || die "no event file"
[ ! -e metrics.jsonl ] || die "a metrics file that nobody asked for"
ok "${train[@]}" --timing-log-level 1 --timing-log-option all --train-iters 2
grep -q '^times across ranks (ms):$' out && grep -q '^     rank  0: ' out || die "timers of all ranks"
! grep -q forward-compute out || die "a timer of level 2 at level 1"

# nobody knows what --backend ref could reach
ok "${train[@]}" --backend ref --train-iters 2 --metrics-file ref.jsonl
grep -Eq "TFLOPs: $number \|$" out && ! grep -q 'peak' out || { cat out; die "a share of no peak"; }
grep -q '"peak_share":null' ref.jsonl || die "a share of no peak in the metrics file"

# a peak that the user knows: the share is TFLOPs by it, also of what nobody can measure
ok "${train[@]}" --backend ref --train-iters 2 --peak-tflops 0.001 --metrics-file known.jsonl
grep -q "^ > peak of a rank's device by --peak-tflops: 0.001 TFLOP/s$" out || die "--peak-tflops is not told"
grep -Eq "TFLOPs: $number \| peak share: [0-9.]+% \|$" out || { cat out; die "no share of --peak-tflops"; }
share() { sed -nE 's/.*"tflops":([^,]*),.*"peak_share":([^,]*),.*/\1 \2/p' "$1" | awk -v by="$2" '{ r = $1 / by / $2 } END { exit !(r > 0.999 && r < 1.001) }'; }
share known.jsonl 0.001 || die "a share that is not of --peak-tflops: $(cat known.jsonl)"

# TFLOPs are the model's; what is computed again is told beside them. The older formula counts it in
hardware() { sed -nE 's/.*"tflops":([^,]*),"hardware_tflops":([^,]*),.*/\1 \2/p' "$1"; }
[[ "$(hardware run/metrics.jsonl | head -1)" == *" null" ]] || die "hardware TFLOPs without recomputation"
again=(--recompute-granularity full --recompute-method uniform)
ok "${train[@]}" "${again[@]}" --train-iters 2 --metrics-file again.jsonl
grep -Eq "TFLOPs: $number \| hardware TFLOPs: $number \| peak share: " out || { cat out; die "no hardware TFLOPs"; }
ok plan "${train[@]:1}" "${again[@]}" --json
cp out plan.json
model=$(sed -E 's/.*"flops_per_iteration":([0-9.e+]+).*/\1/' plan.json) all=$(sed -E 's/.*"hardware_flops_per_iteration":([0-9.e+]+).*/\1/' plan.json)
hardware again.jsonl | awk -v model="$model" -v all="$all" '{ r = $2 / $1 / (all / model) } END { exit !(all > model && r > 0.999 && r < 1.001) }' ||
    die "the log's hardware TFLOPs are not the plan's: $(hardware again.jsonl), $model, $all"
ok plan "${train[@]:1}"
cp out without
ok plan "${train[@]:1}" "${again[@]}"
flops() { sed -nE 's/^iteration: .* tokens; ([0-9.]+ .?FLOPs), .*/\1/p' "$1"; }
[ -n "$(flops out)" ] && [ "$(flops out)" = "$(flops without)" ] || die "recomputation is in the model's FLOPs"
grep -Eq '^iteration: .* a token; [0-9.]+ MFLOPs with what is computed again$' out || { cat out; die "no hardware FLOPs in the plan"; }
# 24 f B s l h^2 (1 + s/6h + V/16lh) with B 4, s 16, l 2, h 32, V 512: f 3, and 4 with recomputation
for f in 3 4; do
    flags=()
    [ $f = 3 ] || flags=("${again[@]}")
    ok plan "${train[@]:1}" "${flags[@]}" --flops-formula megatron-2021 --json
    awk -v got="$(sed -E 's/.*"flops_per_iteration":([0-9.e+]+).*/\1/' out)" -v f=$f 'BEGIN {
        want = 24 * f * 4 * 16 * 2 * 32 ^ 2 * (1 + 16 / (6 * 32) + 512 / (16 * 2 * 32)); d = got / want - 1; exit d * d > 1e-12 }' ||
        die "megatron-2021, f $f: $(cat out)"
done
ok "${train[@]}" "${again[@]}" --flops-formula megatron-2021 --train-iters 2
! grep -q "hardware TFLOPs" out || die "the older formula has recomputation in it"

# flags that do nothing without --tensorboard-dir say so
ok "${train[@]}" --train-iters 2 --log-timers-to-tensorboard
grep -q 'without --tensorboard-dir' err || die "silent about flags for TensorBoard"
refused "a/b" "${train[@]}" --metrics-file a/b
echo "my notes" >notes
refused "notes: is no metrics file" "${train[@]}" --metrics-file notes

# ---- the metrics file: a line for each of the log, and it goes on when the run does
kinds() { sed -nE 's/^\{"kind":"([a-z]+)".*/\1/p' "$1" | sort | uniq -c | tr -s ' \n' ' '; }
[ "$(kinds run/metrics.jsonl)" = " 4 evaluation 1 run 5 step " ] || die "$(kinds run/metrics.jsonl)"
grep -q '"hidden_size":"32"' run/metrics.jsonl || die "no options in the metrics file"
ok "${train[@]}" --metrics-file stopped.jsonl --save stopped --exit-interval 4
[ ! -e stopped/metrics.jsonl ] || die "two metrics files"
printf '{"kind":"step","iter' >>stopped.jsonl
ok report stopped.jsonl --output going.html
grep -q 'stopped.jsonl: 2 lines of the log, 1 evaluations' out || die "a run still going"
ok "${train[@]}" --metrics-file stopped.jsonl --save stopped --load stopped
[ "$(kinds stopped.jsonl)" = " 4 evaluation 2 run 5 step " ] || die "$(kinds stopped.jsonl)"
for f in run/metrics.jsonl stopped.jsonl; do # same losses as without the stop
    sed -nE 's/.*"iteration":([0-9]+).*"loss":([0-9.e-]+).*/\1 \2/p' $f | head -9 >$(basename $f).losses
done
cmp metrics.jsonl.losses stopped.jsonl.losses || die "other losses after resuming"

one_rank='"layout":{"ranks":1,"tensor":1,"pipeline":1,"data":1,"context":1,"zero_stage":0}'
grep -q "^{\"kind\":\"run\".*$one_rank" run/metrics.jsonl || die "no layout in the metrics file"
[ "$(sed -nE 's/.*"name":"([a-z]+)","iteration":([0-9]+),.*"final":true.*/\1 \2/p' run/metrics.jsonl)" = "validation 10
test 10" ] || die "not the final evaluations"

# ---- the page
ok report run stopped.jsonl run/metrics.jsonl
[ -s report.html ] || die "no report.html"
! grep -qE '(https?:)?//[a-z]|src=|@import|url\(|<link' report.html || die "the page asks for something else"
grep -q 'prefers-color-scheme: dark' report.html || die "no dark theme"
[ "$(grep -o '"name":"run"' report.html | wc -l)" -eq 1 ] || die "not one run of that name"
grep -q '"hidden_size":"32"' report.html || die "no options in the page"
sed -E 's/"(time|before)":[0-9.]+/"\1":0/g' report.html >timeless
grep -qF '"starts":[{"iteration":0,"time":0,'"$one_rank"',"changed":{}},{"iteration":4,"time":0,"before":0,'"$one_rank"',"changed":{"exit_interval":["4","None"],"load":["None","stopped"]}}]' timeless ||
    die "no restart in the page"
[ "$(grep -o '"final":true' report.html | wc -l)" -eq 6 ] || die "not two final evaluations of each run"
for id in runs settings legend constant starts; do grep -q "id=\"$id\"" report.html || die "the page has no place for $id"; done
styles() { sed -nE "s/^const dashes = \[(.*)\], shapes = \[(.*)\];\$/\\$1/p" report.html | tr ',' '\n' | tr -d ' "'; }
[ "$(styles 1 | wc -l)" -ge 2 ] && [ -z "$(styles 1 | sort | uniq -d)$(styles 2 | sort | uniq -d)" ] || die "evaluations share a dash or a marker"
if command -v node >/dev/null; then # the page's script is one, and numbers as it shows them
    sed -n '/^"use strict";$/,/^<\/script>$/p' report.html | sed '$d' >page.js
    node --check page.js || die "the page's script is none"
    sed -n '/^const known/p; /^\/\* ---- numbers/,/^const count/p' page.js >show.js
    cat >>show.js <<'EOF'
function is(text, x, kind) {
  if (show(x, kind) === text) return;
  console.error(`${x} ${kind}: ${show(x, kind)}, not ${text}`);
  process.exitCode = 1;
}
for (const [text, x] of [["4.25", 4.24783], ["0", 0], ["1", 1], ["0.001", .001], ["6.25e-5", 6.25e-5], ["112k", 112345.678],
  ["1k", 999.9], ["-3.14", -3.14159], ["–", null]]) is(text, x);
for (const [text, x] of [["999 ms", .999], ["4.73 ms", .0047312], ["1 s", .9999], ["90 s", 90], ["2 min", 120], ["90 min", 5400],
  ["2.5 h", 9000]]) is(text, x, "seconds");
is("35.1 MiB", 36845000, "bytes");
is("41.6 %", .41567, "share");
EOF
    node show.js || die "numbers are shown in another way"
    sed -n '/^const \(last\|known\) =/p; /^function finderPoints/,/^}$/p; /^function localLine/,/^}$/p; /^function findRate/,/^}$/p' page.js >finder.js
    cat >>finder.js <<'EOF'
function check(good, text) {
  if (good) return;
  console.error(text);
  process.exitCode = 1;
}
/* a loss that falls fastest at 1e-3, is lowest at 1e-2 and then diverges; a line each iteration with the next one's rate */
const at = i => 1e-5 * 1.05 ** i, n = 200;
const loss = i => { const x = Math.log10(at(i)); return x < -2 ? 4 - 2 / (1 + Math.exp(-4 * (x + 3))) : 2.04 + 4 * (x + 2) ** 2; };
const numbers = [...Array(n).keys()], points = finderPoints(numbers.map(i => i + 1), numbers.map(i => at(i + 1)), numbers.map(loss), at(0));
check(points.length === n && points.every((p, i) => Math.abs(p[0] - Math.log10(at(i))) < 1e-12 && p[1] === loss(i)), "a loss is at another rate");
const found = findRate(points);
check(Math.abs(found.steepest[0] + 3) < .1, `steepest at ${found.steepest[0]}`);
check(Math.abs(found.minimum[0] + 2) < .2 && !found.open, `minimum at ${found.minimum[0]}`);
check(found.curve.every(c => c[1] > 1.9 && c[1] < 7), "the curve leaves the points");
check(findRate(points.slice(0, 120)).open, "the minimum of a test that ends too early");
check(findRate(points.slice(0, 5)) === null && findRate([]) === null, "too few lines");
check(findRate(points.map((p, i) => [p[0], i])).steepest === null, "a loss that only rises");
const wild = findRate(points.map((p, i) => [p[0], i > 150 ? 1e12 : p[1]]));
check(Math.abs(wild.steepest[0] + 3) < .1 && wild.minimum[0] < Math.log10(at(151)), "a loss that diverges at once");
const stairs = finderPoints([2, 4, 6, 8], [1e-3, 1e-3, 2e-3, 2e-3], [4, 2, 3, 1], 1e-3);
check(stairs.length === 3 && stairs[0][1] === 3, `stairs: ${JSON.stringify(stairs)}`);
EOF
    node finder.js || die "the learning-rate finder finds another rate"
fi
refused "report needs runs" report
refused "no-such-run" report no-such-run
mkdir empty
refused "empty: holds no metrics.jsonl" report empty
refused "notes:1: is not JSON" report run notes --output never.html
[ ! -e never.html ] || die "half a page"
echo "all passed"
