#!/bin/bash
# labels: cli
# plan --machine: how long an iteration takes on a machine, what it is made of, and what is said where something is odd.
. "$(dirname "$0")/lib.sh"

said() { grep -qF -- "$1" "${2:-out}" || { cat out err >&2; die "does not say \"$1\""; }; }
not_said() { ! grep -qF -- "$1" "${2:-out}" || { cat out err >&2; die "says \"$1\""; }; }
# is EXPRESSION: awk finds it true
is() { awk "BEGIN { exit !($1) }" || die "not true: $1"; }
# same A B: two expressions agree to six digits
same() { is "($1) > 0.999999 * ($2) && ($1) < 1.000001 * ($2)"; }
# time_of NAME FLAGS...: a number of the object "time" of a plan
time_of() {
    local name=$1
    shift
    ok plan "$@" --json
    json_values out >values
    value "$name"
}
# value NAME: the same, of ./values
value() { awk -v name="1.time.$1" '$1 == name { print $2; found = 1 } END { exit !found }' values || die "no $1"; }

gpt=(--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --fp16)
batch=(--micro-batch-size 2 --global-batch-size 128)
run=("${gpt[@]}" "${batch[@]}" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --world-size 32)

# ---- for people: one block more, and everything else as without it
ok plan "${run[@]}" --train-samples 12800000
grep -v "^it fits\|^it does not fit" out >without
not_said "time on"
ok plan "${run[@]}" --train-samples 12800000 --machine a100-80g
[ ! -s err ] || [ "$(grep -vc '^using world size\|^setting training' err)" -eq 0 ] || die "a warning: $(cat err)"
sed '/^time on /,$d; /^    of it on GPU /d' out | diff without - || die "the rest of the plan differs"
said "time on a100-80g, 32 ranks on 4 nodes of 8:"
grep -qE '^    iteration +[0-9.]+ (ms|s ) +\(half of the runs: [0-9.]+ \.\. [0-9.]+\)$' out || die "no interval: $(cat out)"
for part in "matrix products" attention "other ops" "waiting for other stages \(bubble\)" optimizer; do
    grep -qE "^        $part +[0-9.]+ (ms|s ) +[0-9.]+ %$" out || die "no $part: $(cat out)"
done
grep -qE '^        messages, tensor-parallel +' out || die "no messages: $(cat out)"
not_said "copies to and from the host"
grep -qE '^    tokens/s: [0-9,]+, [0-9,]+ a rank$' out || die "no tokens: $(cat out)"
grep -qE "^    TFLOP/s a rank: [0-9.]+ by Megatron's formula; [0-9.]+ the model's, [0-9.]+ % of the peak$" out || die "no speed: $(cat out)"
grep -qE '^    the run: [0-9.]+ (days|hours) \([0-9.]+ \.\. [0-9.]+\), [0-9,]+ GPU-hours$' out || die "no run: $(cat out)"
grep -qE "^it fits: a rank takes [0-9.]+ GiB, and of a100-80g's 80.0 GiB a run can have 76.8 GiB: [0-9]+ MiB are left$" out ||
    die "another limit: $(cat out)"
ok plan "${run[@]}" --machine a100-80g
not_said "the run:"
ok plan "${run[@]}" --machine a100-80g --recompute-activations
grep -qE "by Megatron's formula" out || die "no formula"
ok plan "${run[@]}" --machine a100-80g --recompute-granularity full --recompute-method uniform
grep -qE '% of the peak; [0-9.]+ with what is computed again$' out || die "no hardware FLOPs: $(cat out)"

# ---- for programs: the parts are the whole, the rates follow from it
ok plan "${run[@]}" --json
not_said '"time"'
iteration=$(time_of iteration_s "${run[@]}" --train-samples 12800000 --machine a100-80g)
[ "$(wc -l <out)" -eq 1 ] || die "not one line of JSON"
parts=0
for part in products_s attention_s memory_bound_s exposed_comm_s copies_s bubble_s optimizer_s other_s; do
    parts="$parts + $(value $part)"
    is "$(value $part) >= 0"
done
same "$parts" "$iteration"
groups=$(awk '$1 ~ /^1\.time\.exposed_by_group_s\./ { print $NF }' values | paste -sd+)
same "$groups" "$(value exposed_comm_s)"
is "$(value low_s) < $iteration && $iteration < $(value high_s)"
same "$(value tokens_per_s) * $iteration" "128 * 2048"
same "$(value tokens_per_s)" "32 * $(value tokens_per_s_per_gpu)"
same "$(value run_days) * 86400" "100000 * $iteration"
same "$(value gpu_hours)" "$(value run_days) * 24 * 32"
is "$(value low_days) < $(value run_days) && $(value run_days) < $(value high_days)"
is "$(value nodes) == 4 && $(value ranks_per_node) == 8"
[ "$(value machine)" = '"a100-80g"' ] || die "another machine: $(value machine)"
is "$(value peak_share) > 0 && $(value peak_share) < 1"
# 24 f B s l h^2 (1 + s/6h + V/16lh) of arXiv:2104.04473, f = 3 without recomputation, V = 50257 padded to 50432
same "$(value tflops_per_gpu) * 1e12 * 32 * $iteration" "72 * 128 * 2048 * 24 * 2048^2 * (1 + 1 / 6 + 50432 / (16 * 24 * 2048))"
again=$(time_of iteration_s "${run[@]}" --machine a100-80g --recompute-granularity full --recompute-method uniform)
is "$again > 1.15 * $iteration && $again < 1.45 * $iteration"
is "$(value hardware_tflops_per_gpu) > 1.2 * $(value model_tflops_per_gpu)"
[ "$(value run_days)" = null ] && [ "$(value gpu_hours)" = null ] || die "a run without a length"

# ---- what is larger takes longer, what is faster does not
for machine in v100-32g a100-80g mi250x-gcd; do
    flags=("${run[@]}" --machine $machine)
    one=$(time_of iteration_s "${flags[@]}")
    is "$(time_of iteration_s "${flags[@]}" --num-layers 48) > 1.5 * $one"
    is "$(time_of iteration_s "${flags[@]}" --global-batch-size 256) > 1.3 * $one"
    last=0
    for bandwidth in 1000 200 25 1; do
        now=$(time_of iteration_s "${flags[@]}" --node-bandwidth $bandwidth)
        is "$now >= $last"
        last=$now
    done
    is "$last > $one"
    for node in 32 4; do
        time_of iteration_s "${flags[@]}" --gpus-per-node $node --node-bandwidth 25 >/dev/null
        is "$(value nodes) == 32 / $node"
        is "$(value ranks_per_node) == $node"
    done
    # at a fixed batch every further rank adds less
    last=1e99
    for ranks in 4 16 64 128; do
        now=$(time_of tokens_per_s_per_gpu "${flags[@]}" --world-size $ranks --micro-batch-size 1)
        is "$now <= $last * 1.005"
        last=$now
    done
done
is "$(time_of iteration_s "${run[@]}" --machine h100) < $(time_of iteration_s "${run[@]}" --machine a100-80g)"
is "$(time_of iteration_s "${run[@]}" --machine a100-80g) < $(time_of iteration_s "${run[@]}" --machine v100-32g)"

# ---- a BERT, a pipeline with runs of layers, ZeRO, all of which are planned the same way
time_of iteration_s --model-type BERT --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 \
    --max-position-embeddings 512 --micro-batch-size 4 --global-batch-size 256 --fp16 --world-size 8 --machine a100-40g >one
is "$(cat one) > 0.05 && $(cat one) < 5"
flat=$(time_of bubble_s "${run[@]}" --machine a100-80g)
is "$(time_of bubble_s "${run[@]}" --machine a100-80g --num-layers-per-virtual-pipeline-stage 3) < $flat"
zero=("${gpt[@]}" "${batch[@]}" --world-size 16 --machine a100-80g --zero-stage)
is "$(time_of iteration_s "${zero[@]}" 3) >= $(time_of iteration_s "${zero[@]}" 1)"

echo '{"train_batch_size": 128, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3},
    "data_types": {"grad_accum_dtype": "fp32"}}' >ds.json
same "$(time_of iteration_s "${gpt[@]}" --deepspeed_config ds.json --world-size 16 --machine a100-80g)" "$(time_of iteration_s "${zero[@]}" 3)"

# ---- a place that is odd is named
ok plan "${run[@]}" --machine a100-80g --gpus-per-node 4 --tensor-model-parallel-size 8 --world-size 24 --global-batch-size 96 \
    --pipeline-model-parallel-size 1
said "tensor parallelism of 8 crosses nodes of 4 ranks: its messages go through the network; a --tensor-model-parallel-size of at most 4"
not_said "the last of"
ok plan "${run[@]}" --machine a100-80g --gpus-per-node 6 --world-size 16 --tensor-model-parallel-size 4
said "tensor parallelism of 4 does not divide nodes of 6 ranks"
said "the last of 3 nodes has 4 of 6 ranks; --world-size 18 fills all of them"
ok plan "${run[@]}" --machine a100-80g --gpus-per-node 6 --world-size 16 --tensor-model-parallel-size 4 --json
said '"notes":["tensor parallelism of 4 does not'
ok plan "${gpt[@]}" "${batch[@]}" --machine a100-80g
said "time on a100-80g, 1 rank on 1 node of 8:"
ok plan "${gpt[@]:0:10}" --bf16 "${batch[@]}" --machine v100-32g
said "warning: v100-32g has no products of bf16 that are faster than those of fp32: --fp16 is faster there" err
ok plan "${gpt[@]:0:10}" --bf16 "${batch[@]}" --machine a100-80g
not_said "warning" err

# ---- memory: the machine's, not this computer's. Not asked, it is told; asked, it fails with what would make it fit
big=("${gpt[@]}" "${batch[@]}" --micro-batch-size 32 --machine a100-40g)
ok plan "${big[@]}"
grep -qE "^it does not fit on a100-40g: it takes [0-9.]+ GiB, and of a100-40g's 40.0 GiB a run can have 38.4 GiB; --memory-limit auto shows what makes it fit, --search the fastest layout that fits$" out ||
    die "it is said to fit: $(cat out)"
ok plan "${big[@]}" --json
said '"fits":false,"changes":[]'
refused "of the GPU's memory, but of a100-40g's 40.0 GiB a run can have 38.4 GiB: " plan "${big[@]}" --memory-limit auto
grep -qE '^  --micro-batch-size [0-9]+ +[0-9.]+ GiB, no extra compute$' err || die "nothing makes it fit: $(cat err)"
said "time on a100-40g"
refused "but --memory-limit 9G is 9.0 GiB" plan "${run[@]}" --machine a100-80g --memory-limit 9G
ok plan "${run[@]}" --machine a100-80g --memory-limit 50%
said "and --memory-limit 50%, where of a100-80g's 80.0 GiB a run can have 76.8 GiB, is 38.4 GiB"
# what lies in the host's memory takes none of the GPU's
ok plan "${gpt[@]}" "${batch[@]}" --zero-stage 1 --offload-optimizer cpu --machine a100-80g
awk '/^    total / { all = $2 } /^    of it on GPU / { gpu = $5 } END { exit !(gpu < all) }' out || die "all of it is on the GPU: $(cat out)"

# ---- a trillion parameters on 3072 GPUs, in an address space of 2 GiB (a sanitizer's own needs more). arXiv:2104.04473,
# table 1: 163 TFLOP/s
trillion=(--num-layers 128 --hidden-size 25600 --num-attention-heads 160 --seq-length 2048 --max-position-embeddings 2048 --fp16
    --micro-batch-size 1 --global-batch-size 3072 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 64 --world-size 3072
    --recompute-granularity full --recompute-method uniform --machine a100-80g)
room=unlimited
if (ulimit -v 2097152 && "$TRIAX" --version) >/dev/null 2>&1; then room=2097152; fi
(ulimit -v $room && time_of tflops_per_gpu "${trillion[@]}") >told
is "$(cat told) > 0.85 * 163 && $(cat told) < 1.15 * 163"

# ---- a machine of one's own, which has no GPU: all memory counts, and nothing is said of a GPU's
cat >cpu.json <<'END'
{ "name": "cpu", "memory": { "gib": 12, "gb_per_s": 30 }, "ranks_per_node": 2,
  "matrix": { "fp32": { "peak_tflops": 0.1 }, "bf16": { "peak_tflops": 0.2 }, "fp16": { "peak_tflops": 0.1 } },
  "node": { "pair_gb_per_s": 5, "all_gb_per_s": 5 }, "network": { "node_gb_per_s": 1 }, "host": { "cores": 2 } }
END
tiny=(plan --num-layers 6 --hidden-size 384 --num-attention-heads 6 --seq-length 256 --max-position-embeddings 256 --micro-batch-size 4
    --global-batch-size 16 --world-size 2 --machine cpu.json)
ok "${tiny[@]}"
said "time on cpu, 2 ranks on 1 node of 2:"
not_said "GPU  "
refused "of memory, but --memory-limit 400M is 400.0 MiB" "${tiny[@]}" --memory-limit 400M

# ---- bad input: one line
refused 'did you mean "a100-80g"?' plan "${run[@]}" --machine a100-80
refused "mi250x-gcd" plan "${run[@]}" --machine no-such-machine
refused "--gpus-per-node" plan "${run[@]}" --machine a100-80g --gpus-per-node 0
refused "--node-bandwidth" plan "${run[@]}" --machine a100-80g --node-bandwidth -5
refused "--machine" plan "${run[@]}" --node-bandwidth 5
echo '{"name": "mine"}' >mine.json
refused 'mine.json: "memory.gib" is missing' plan "${run[@]}" --machine mine.json
# told NAME EDIT TEXT: a machine file that is edited so
told() {
    sed "$2" cpu.json >"$1.json"
    refused "$1.json: $3" "${tiny[@]}" --machine "$1.json"
}
told negative 's/"gib": 12/"gib": -12/' '"memory.gib" is -12; it takes a number from'
told unknown 's/"gib": 12/"gib": 12, "gb": 3/' 'unknown key "memory.gb"; did you mean "memory.gib"?'
told text 's/"gib": 12/"gib": "12"/' '"memory.gib" is '
told twice 's/"fp16"/"fp32"/' ''
told half 's/}.*//' ''
refused "is not divisible" plan "${run[@]}" --machine a100-80g --world-size 30
