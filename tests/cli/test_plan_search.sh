#!/bin/bash
# labels: cli extended
# plan --search and --gpus-for: the fastest layouts on a machine, with flags that a plan takes and that give the same time.
. "$(dirname "$0")/lib.sh"

said() { grep -qF -- "$1" "${2:-out}" || { cat out err >&2; die "does not say \"$1\""; }; }
# json COMMAND...: its values in ./values
json() {
    ok "$@" --json
    [ "$(wc -l <out)" -eq 1 ] || die "not one line of JSON"
    json_values out >values
}
# value NAME [FILE]: one of them, without quotes
value() {
    awk -v name="1.$1" '$1 == name { $1 = ""; gsub(/^ "?|"$/, ""); print; found = 1 } END { exit !found }' "${2:-values}" || die "no $1"
}
# is EXPRESSION: awk finds it true
is() { awk "BEGIN { exit !($1) }" || die "not true: $1"; }

run=(--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024 --bf16
    --global-batch-size 64)
search=("${run[@]}" --world-size 8 --machine h100 --search)

# ---- ten layouts, the fastest first; each takes in a plan of its own the time and the memory that the search says
json plan "${search[@]}"
mv values found
is "$(value planned found) < $(value layouts found)"
last=0
for i in $(seq 0 9); do
    now=$(value "search.$i.iteration_s" found)
    is "$now >= $last"
    last=$now
done
for i in 0 4 9; do
    read -ra flags <<<"$(value "search.$i.flags" found)"
    json plan "${run[@]}" --world-size 8 --machine h100 "${flags[@]}"
    is "$(value time.iteration_s) == $(value "search.$i.iteration_s" found)"
    is "$(value time.tflops_per_gpu) == $(value "search.$i.tflops_per_gpu" found)"
    is "$(value memory.gpu) == $(value "search.$i.memory_bytes" found)"
    [ "$(value fits)" = true ] || die "layout $i does not fit"
done

# ---- for people; flags of a layout that the run has are free, and all flags of the first are a run's
ok plan "${search[@]}" --tensor-model-parallel-size 4 --recompute-activations --train-iters 1000
said "the fastest layouts on h100, 8 ranks on 1 node of 8:"
said "flags of a layout that were given do not count"
grep -qE '^     1 +[0-9.]+ (ms|s ) +[0-9,]+ +[0-9.]+ +[0-9.]+ [GM]iB  TP [0-9]+' out || die "no first: $(cat out)"
grep -qE '^    1 is [0-9.e-]+ % faster than 2: [0-9.]+ m?s less |^    1 and 2 take the same time$' out || die "no reason: $(cat out)"
grep -qE "^    with 1 the run's 65,536,000 tokens take [0-9.e-]+ days \([0-9.e-]+ \.\. [0-9.e-]+\) and [0-9,]+ GPU-hours$" out ||
    die "no run: $(cat out)"
[ "$(grep -cE '^    ( [2-9]|10)  --tensor-model-parallel-size ' out)" -eq 9 ] || die "no flags of nine: $(cat out)"
read -ra flags <<<"$(sed -n "s/^flags of 1, all of the run's: //p" out)"
json plan "${flags[@]}" --machine h100
is "$(value time.iteration_s) == $(value search.0.iteration_s found)"

# ---- of DeepSpeed's file the batch is the run's; its micro-batch and stage belong to a layout
echo '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3, "zero_optimization": {"stage": 3}}' >ds.json
json plan "${search[@]/--global-batch-size/--eval-interval}" --deepspeed_config ds.json
for i in 0 9; do [ "$(value "search.$i.flags")" = "$(value "search.$i.flags" found)" ] || die "another layout with a file of DeepSpeed's"; done

# ---- as few ranks as end the run in time; on a node less it takes longer
nodes=("${run[@]}" --machine a100-40g --gpus-per-node 4 --train-iters 1000000)
json plan "${nodes[@]}" --gpus-for 0.5
ranks=$(value world_size)
is "$(value search.0.run_days) <= 0.5"
is "$ranks > 4 && $ranks % 4 == 0"
json plan "${nodes[@]}" --search --world-size $((ranks - 4))
is "$(value search.0.run_days) > 0.5"
ok plan "${nodes[@]}" --gpus-for 0.5
said "the fewest ranks of a100-40g that end the run in 0.5 days: $ranks"
! grep searching err || die "progress where there is no terminal"

# ---- one line where there is none
refused "97 ranks have no layout: tensor parallelism divides 12 heads, there are at most 12 pipeline stages, and the data-parallel size divides --global-batch-size 64; 96 and 108 ranks have one" \
    plan "${run[@]}" --world-size 97 --machine h100 --search
refused "on 2 ranks no layout fits: of a100-40g's 40.0 GiB a run can have 38.4 GiB, and the least that a rank takes are" \
    plan "${run[@]}" --num-layers 24 --hidden-size 12288 --num-attention-heads 96 --world-size 2 --machine a100-40g --search
grep -qE '; on [0-9]+ ranks some fit$' err || die "no number of ranks: $(cat err)"
refused "no number of h100 is enough; the fastest found are" plan "${run[@]}" --machine h100 --gpus-for 0.001 --train-iters 1000000
refused "--search needs --machine" plan "${run[@]}" --world-size 8 --search
refused "--search needs --world-size" plan "${run[@]}" --machine h100 --search
refused "--search needs --global-batch-size" plan "${run[@]:0:11}" --world-size 8 --machine h100 --search
refused "--gpus-for needs the length of the run" plan "${run[@]}" --machine h100 --gpus-for 3
refused "--search and --gpus-for: give one of the two" plan "${run[@]}" --machine h100 --gpus-for 3 --search --train-iters 9
refused "--schedule-picture with --search: a picture is of one layout" plan "${search[@]}" --schedule-picture
