#!/bin/bash
# labels: cli
# What a run takes is told before it takes it, and a run that does not fit ends before it begins.
. "$(dirname "$0")/lib.sh"

files=(--vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
shape=(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128)
batch=(--micro-batch-size 8 --global-batch-size 16)
run=(pretrain-gpt "${shape[@]}" "${batch[@]}" "${files[@]}" --data-path "$data/dataset/tiny_text_document" --lr 1e-3
    --train-iters 2 --eval-iters 1 --log-interval 1 --save ck --save-interval 10)

said() { grep -qF -- "$1" "${2:-out}" || { cat out err >&2; die "does not say \"$1\""; }; }
# total FILE: MB of the memory table in it
total() { awk '/^    total  / { print $2 }' "$1"; }

# the plan of a run's own flags is what the run says and takes
ok plan "${run[@]:1}"
cp out planned
said "vocabulary: 512 tokens (the tokenizer's)"
said "parameters: 241,024"
said "iteration: 16 samples in micro-batches of 8, 2,048 tokens; "
said "run: 4,096 tokens; "
said "it fits: it takes "
[ ! -e ck ] || die "a plan wrote --save"
ok "${run[@]}" --metrics-file m.jsonl
[ "$(total planned)" = "$(total out)" ] || die "planned $(total planned) MB, the run says $(total out)"
said "predicted $(total planned), used $(total planned) |"
diff <(sed -n '/^memory (MB)/,/^    total/p' planned) <(sed -n 's/^ > memory/memory/; /^memory (MB), p/,/^    total/p' out) ||
    die "another table"
ok plan --load ck --seq-length 128 "${batch[@]}"
said "vocabulary: 512 tokens (the checkpoint's)"
[ "$(total planned)" = "$(total out)" ] || die "another plan with --load"
rm -r ck

# no data, no length, no learning rate; which vocabulary
ok plan "${shape[@]}" --micro-batch-size 1
said "vocabulary: 50257 tokens, padded to 50304 (GPT-2's, as no tokenizer and no --vocab-size is given)"
ok plan "${shape[@]}" --micro-batch-size 1 --vocab-size 1000
said "vocabulary: 1000 tokens, padded to 1024 (--vocab-size)"
[ ! -s err ] || die "a warning: $(cat err)"
ok plan "${shape[@]}" --micro-batch-size 1 --vocab-size 1000 --tokenizer-type NullTokenizer
said "vocabulary: 1001 tokens, padded to 1024 (NullTokenizer's: --vocab-size and one for the end of a document)"
refused "plan needs --micro-batch-size" plan "${shape[@]}"
refused "is not divisible by micro batch size (8)" plan "${shape[@]}" --micro-batch-size 8 --global-batch-size 12

# a layout that does not go is told what goes as a whole, and nothing that only follows from it
big=(plan --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 2048 --max-position-embeddings 2048
    --micro-batch-size 4 --global-batch-size 512 --world-size 64)
refused "by --tensor-model-parallel-size 16; try --tensor-model-parallel-size 4 or 8, or --tensor-model-parallel-size 20 --world-size 80" \
    "${big[@]}" --tensor-model-parallel-size 16
for tp in 4 8; do ok "${big[@]}" --tensor-model-parallel-size $tp; done
ok "${big[@]}" --tensor-model-parallel-size 20 --world-size 80
refused "try --pipeline-model-parallel-size 2 or 4, or --world-size 48 or 96" "${big[@]}" --pipeline-model-parallel-size 3
[ "$(grep -c . err)" -eq 1 ] || die "a second complaint: $(cat err)"

# pipelines
ok plan "${shape[@]}" --micro-batch-size 2 --global-batch-size 8 --pipeline-model-parallel-size 2 --schedule-picture
said "schedule: 1F1B, 2 stages, 4 micro-batches; the bubble is 25.0 % of the ideal time (F forward, B backward, twice"
said "    stage 0   F0 F1 .. .. B0--- F2 B1--- F3 B2--- .. B3---"
said "    stage 1      F0 B0--- F1 B1--- F2 B2--- F3 B3---"
ok plan "${shape[@]}" --micro-batch-size 1 --global-batch-size 64 --pipeline-model-parallel-size 2 \
    --num-layers-per-virtual-pipeline-stage 1 --recompute-granularity full --recompute-method uniform --schedule-picture
said "schedule: interleaved 1F1B, 2 stages with 2 runs of layers each, 64 micro-batches; the bubble is 0.8 %"
said "B63.0------------"
said "columns, the middle, are left out)"
[ "$(grep stage out | awk 'length > 204' | wc -l)" -eq 0 ] || die "too wide"

ok plan "${shape[@]}" --micro-batch-size 2 --global-batch-size 8 --pipeline-model-parallel-size 2 --enable-zbh1-pipeline --schedule-picture
said "schedule: ZB-H1, 2 stages, 4 micro-batches; the bubble is 8.3 % of the ideal time (F forward, B gradient of the input,"
said "    stage 0   F0 F1 .. B0 W0 F2 B1 W1 F3 B2 W2 B3 W3"
said "    stage 1      F0 B0 F1 B1 W0 F2 B2 W1 F3 B3 W2 W3"

# as a file, with or without a picture for people
ok plan "${shape[@]}" --micro-batch-size 2 --global-batch-size 8 --pipeline-model-parallel-size 2 --schedule-svg drawn.svg
said "schedule: drawn in drawn.svg"
for part in '<svg ' '<title id="title">4 layers, hidden size 64' '>stage 1</text>' '>F3</text>' '>B3</text>' '>units</text>' '</svg>'; do
    grep -qF "$part" drawn.svg || die "no $part in the picture"
done
ok plan "${shape[@]}" --micro-batch-size 2 --global-batch-size 8 --schedule-svg drawn.svg --json
[ "$(wc -l <out)" -eq 1 ] || die "more than JSON: $(cat out)"
grep -qF '1F1B, 1 stage, 4 micro-batches' drawn.svg || die "the picture is still the old one"
refused "--schedule-svg none/drawn.svg: " plan "${shape[@]}" "${batch[@]}" --schedule-svg none/drawn.svg
refused "--schedule-svg .: " plan "${shape[@]}" "${batch[@]}" --schedule-svg .

# many ranks: what each holds and sends; 4 micro-batches of 2 x 128 x 64 floats are 0.25 MB from stage to stage
ok plan "${shape[@]}" --vocab-size 512 --micro-batch-size 2 --global-batch-size 24 --pipeline-model-parallel-size 2 \
    --tensor-model-parallel-size 2 --world-size 12
said "ranks: 12 = 2 tensor-parallel x 2 pipeline stages x 3 data-parallel"
said "of a rank in stage 0, which takes most:"
grep -qE '^    stage 0 +2 layers +[0-9.]+$' out || die "no line for stage 0: $(cat out)"
[ "$(awk '$1 == "stage" && $2 == 0 { print $5 }' out)" = "$(total out)" ] || die "stage 0 is not what the table is about"
grep -qE '^    2 pipeline +send +4 +0\.250 +0\.250$' out || die "other messages between stages: $(cat out)"
grep -qE '^    3 data-parallel +all-reduce ' out || die "no messages between copies: $(cat out)"
grep -qE '^    2 first and last stage +all-reduce +1 ' out || die "no messages about the tied embedding: $(cat out)"
grep -qE '^      2 b s h a layer, forward +16 +1\.000$' out || die "no formula: $(cat out)"
said "    calls and bytes are equal to the formulas'"
ok plan "${shape[@]}" --vocab-size 512 --micro-batch-size 2 --global-batch-size 24 --pipeline-model-parallel-size 2 \
    --tensor-model-parallel-size 2 --world-size 12 --json
said '"layout":{"ranks":12,"tensor":2,"pipeline":2,"data":3,"context":1,"sequence_parallel":false,"zero_stage":0},"stages":[{"stage":0,"layers":2,'
said '{"group":"pipeline","size":2,"op":"send","calls":4,"bytes":262144}'
ok plan "${shape[@]}" --micro-batch-size 1 --num-layers 40 --pipeline-model-parallel-size 20 --world-size 5000
said "    and 16 stages between them, none of which takes more"

# ZeRO: what is divided, rows of what is gathered and on its way, the paper's formula, what a pipeline costs with it
zero=(plan "${shape[@]}" --vocab-size 512 --micro-batch-size 2 --global-batch-size 32 --world-size 8
    --zero-param-persistence-threshold 100)
ok "${zero[@]}"
! grep -q "ZeRO\|gathered\|persistent\|grad buckets" out || die "ZeRO is not used: $(cat out)"
ok "${zero[@]}" --zero-stage 1 --bf16
said "ZeRO 1: the optimizer's state is divided among 8 data-parallel ranks"
grep -qE '^    model states by the ZeRO formula: 6 Psi \+ 12 Psi / 8 = [0-9.]+ MB, Psi = 241024; planned [0-9.]+ MB \(\+[0-2]\.[0-9] %\)$' out ||
    die "no formula: $(cat out)"
# of matrices Muon keeps no second moment: 241024 parameters, of which 4 layers of 12 x 64 x 64 are matrices
ok "${zero[@]}" --zero-stage 1 --bf16 --optimizer muon
grep -qE '^    model states by the ZeRO formula: 6 Psi \+ 8 Psi / 8 \+ 4 x 44416 / 8 = [0-9.]+ MB, Psi = 241024; planned [0-9.]+ MB \(\+[0-3]\.[0-9] %\)$' out ||
    die "Muon's second moment: $(cat out)"
ok "${zero[@]}" --zero-stage 2 --pipeline-model-parallel-size 2
said "ZeRO 2: the optimizer's state and gradients are divided among 4 data-parallel ranks"
grep -qE '^    DeepSpeed refuses ZeRO 2 with a pipeline; here each of 4 micro-batches reduces gradients: \(4 \+ 1\) Psi, [0-9.]+ MB ' out ||
    die "no words about the pipeline: $(cat out)"
grep -qE '^    grad buckets +[0-9.]+$' out || die "no gradients on their way: $(cat out)"
said "    calls and bytes are equal to the formulas'"
ok "${zero[@]}" --zero-stage 3
! grep -q "DeepSpeed refuses" out || die "there is no pipeline"
for row in persistent gathered "grad buckets"; do
    grep -qE "^    $row +[0-9.]+$" out || die "no $row in the table of memory: $(cat out)"
done
said "      a layer, forward and backward "
said "    calls and bytes are equal to the formulas'"
ok "${zero[@]}" --zero-stage 3 --json
said '"sequence_parallel":false,"zero_stage":3}'
grep -qE '"persistent":[1-9][0-9]*,"gathered":[1-9][0-9]*,"gradients":[1-9][0-9]*,"gradient_buckets":[1-9]' out || die "no rows in JSON"
said '"model_states_by_formula":482048.0'
# room for no more than a change needs, because the workspace differs between processors: then it is among those named
bytes_of() { "$TRIAX" plan "$@" --json 2>/dev/null | sed -E 's/.*"memory":\{[^}]*"total":([0-9]+).*/\1/'; }
refused "changes that make it fit" "${zero[@]}" --memory-limit "$(bytes_of "${zero[@]:1}" --micro-batch-size 1 --zero-stage 1)"
grep -qE '^  --micro-batch-size 1 --zero-stage 1 +[0-9.]+ MiB, no extra compute$' err || die "no stage of ZeRO: $(cat err)"
grep -qE '^  --.* +[0-9.]+ MiB, no extra compute, [0-9.]+ times the messages$' err || die "no messages: $(cat err)"

# what the run has against a change is named; each line holds, and so do more ranks; "nothing fits" is said of all
big+=(--bf16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 1)
refused "60.1 GiB of memory, but --memory-limit 58G is 58.0 GiB: 21" "${big[@]}" --world-size 4 \
    --recompute-activations --memory-limit 58G
said " MiB are missing; changes that make it fit" err # how many depends on the processor: its kernels' workspace
said "--recompute-num-layers 1 without --recompute-activations    56." err
grep -qE '^  on 8 ranks: --zero-stage 1 +[0-9.]+ GiB, no extra compute$' err || die "no more ranks: $(cat err)"
grep '^  --\|^  on ' err | while read -r line; do
    flags=$(sed -E 's/^on [0-9]+ ranks: //; s/ without .*//; s/  +[0-9.]+ GiB, .*//; s/DIR/d/' <<<"$line")
    ranks=$(sed -nE 's/^on ([0-9]+) ranks: .*/\1/p' <<<"$line")
    run=("${big[@]}" --world-size "${ranks:-4}" --memory-limit 58G)
    [[ "$line" == *" without "* ]] || run+=(--recompute-activations)
    # shellcheck disable=SC2086 # several flags
    ok "${run[@]}" $flags
done
refused "take a smaller model; up to eight times the ranks are not enough" "${zero[@]}" --memory-limit 100K

ok plan "${shape[@]}" --micro-batch-size 1
! grep -q "ranks\|messages" out || die "one rank sends messages"

# JSON has the same figures
ok plan "${run[@]:1}" --json
[ "$(wc -l <out)" -eq 1 ] || die "not one line of JSON"
bytes=$(sed -E 's/.*"memory":\{[^}]*"total":([0-9]+).*/\1/' out)
[ "$(awk -v b="$bytes" 'BEGIN { printf "%.1f", b / 1048576 }')" = "$(total planned)" ] || die "other memory in JSON"
said '"parameters":{"total":241024,"padding":0,'
said '"fits":true,"changes":[]'

# --memory-limit: one message, three changes, cheapest first; each keeps its word; nothing was written
limit=$(bytes_of "${run[@]:1}" --micro-batch-size 4)
refused "but --memory-limit $limit is" "${run[@]}" --memory-limit "$limit"
said "triax pretrain-gpt: the run would take $(total planned) MiB of memory" err
said "; changes that make it fit, cheapest first:" err
[ ! -e ck ] || die "a run that did not begin made --save"
! grep -qF "building train, validation" out || die "it went on to the data"
grep '^  --' err >changes
[ "$(wc -l <changes)" -eq 3 ] || die "not three changes"
head -1 changes | grep -qE '^  --micro-batch-size 4 +[0-9.]+ MiB, no extra compute$' || die "first: $(head -1 changes)"
while read -r line; do
    flags=$(sed -E 's/  +[0-9.]+ [KMG]iB, .*//' <<<"$line")
    mb=$(sed -E 's/.*  +([0-9.]+) MiB, .*/\1/' <<<"$line")
    # shellcheck disable=SC2086 # several flags
    ok plan "${run[@]:1}" $flags --memory-limit "$limit"
    [ "$(total out)" = "$mb" ] || die "\"$flags\" takes $(total out), not $mb"
done <changes
ok "${run[@]}" --micro-batch-size 4 --memory-limit "$limit"
rm -rf ck
ok "${run[@]}" --memory-limit off
refused "the least it can be made to take is" "${run[@]}" --memory-limit 100K
# a share of what there is; a size as it was written and in the units of the sentence
refused "the least it can be made to take is" "${run[@]}" --memory-limit 0.00001%
grep -qE 'but --memory-limit 0\.00001%, where (this machine has|its control group allows|ulimit -v allows) [0-9.]+ [GT]iB, is [0-9.]+ (bytes|[KMG]iB)' err ||
    die "no share: $(cat err)"
ok "${run[@]}" --memory-limit 90% --save share
ok plan "${run[@]:1}" --memory-limit 0.9
grep -qE '^it fits: it takes [0-9.]+ MiB, and --memory-limit 0\.9, where .*, is [0-9.]+ [GT]iB: [0-9]+ MiB are left$' out || die "no share: $(cat out)"
ok plan "${run[@]:1}" --memory-limit 80GB
said "MiB, and --memory-limit 80GB is 74.5 GiB"
refused "--memory-limit 8Q is not a size" "${run[@]}" --memory-limit 8Q

# a plan that was asked ends with 1 after its report; one that was not asked says it and ends well
refused "changes that make it fit, cheapest first:" plan "${run[@]:1}" --memory-limit "$limit"
said "parameters: 241,024"
refused "changes that make it fit" plan "${run[@]:1}" --memory-limit "$limit" --json
said '"fits":false,"changes":[{"flags":"--micro-batch-size 4","memory":{'

# GPT-3 on a small machine (an address space of 4 GiB; a sanitizer's own needs more)
gpt3=(plan --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048
    --micro-batch-size 1 --global-batch-size 1536)
if (ulimit -v 4194304 && "$TRIAX" --version) >/dev/null 2>&1; then
    (ulimit -v 4194304 && ok "${gpt3[@]}") || die "GPT-3 cannot be planned in 4 GiB"
    said "it does not fit here: it takes 2.7 TiB, and ulimit -v allows 4.0 GiB"
else
    ok "${gpt3[@]}"
fi
said "parameters: 174,604,259,328"
grep -qE "total +28[0-9]{5}\.[0-9]  \(2\.7 TiB\)" out || die "another total: $(cat out)"
