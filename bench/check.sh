#!/bin/bash
# check.sh - whether the programs of bench/ can still be built and started: each once, of the smallest sizes, for a look at
# whether it says what it is for. Nothing is measured here.
#   bench/check.sh [BUILD, build/release]
#
# Of a .c or .sh file there is a function try_NAME below that starts it; one without is a failure. Each has to exit with 0 and
# to print what `says` looks for. Python programs need other software: they are parsed, which takes python3 alone. Scripts for
# GPUs are parsed too.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
root=$PWD
build=$(realpath "${1:-build/release}")
[ -e "$build/CMakeCache.txt" ] || { echo "bench/check.sh: $build is not a build folder: cmake --preset release" >&2; exit 2; }
cmake --build "$build" -j "$(nproc)" --target bench triax -- --no-print-directory >/dev/null || exit 1
triax=$build/triax
data=$root/tests/data
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work" || exit 2
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none

number='[0-9]+(\.[0-9]+)?'
tiny=(2 32 2 64 16 2) # LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH
text=$data/tiny/tiny-corpus.jsonl
gpt2=("$data/token/gpt2-vocab.json" "$data/token/gpt2-merges.txt")

# says PATTERN COMMAND...: it exits with 0, and a line of its output matches all of PATTERN
says() {
    local pattern=$1 code=0
    shift
    "$@" >out 2>err || code=$?
    [ $code -eq 0 ] && grep -qE -- "$pattern" out && return
    tail -n 20 out err >&2
    echo "  exit $code; no line has $pattern" >&2
    return 1
}
# Exit code 77: why not.
missing() { echo "$1"; return 77; }
mpi() {
    command -v mpirun >/dev/null || missing "there is no mpirun" || return
    cmake --build "$build" --target triax_mpi -- --no-print-directory >/dev/null 2>&1 || missing "built without MPI"
}
# ids of a text as a run reads them: ./text_text_document
ids() {
    [ -e text_text_document.bin ] || "$triax" preprocess-data --input "$text" --output-prefix text --vocab-file "${gpt2[0]}" \
        --merge-file "${gpt2[1]}" --append-eod >log 2>&1 || { cat log >&2; return 1; }
}

try_train() {
    says "^$number\$" "$build/train" "${tiny[@]}" --threads 1 <<<$'1\n2\n0' &&
        says "^$number\$" "$build/train" "${tiny[@]}" --bert --bf16 --threads 1 <<<$'1\n2\n0' && [ "$(wc -l <out)" -eq 3 ]
}
try_zero_bubble() { says "^1F1B over ZB-H1: $number" "$build/zero_bubble" 2 2 32 2 16 2 4 1; }
try_ceiling() { says "^step $number ms: $number % of the ceiling" "$build/ceiling" "${tiny[@]}" --threads 1; }
try_peak() { says "^fp32 product, n =  512 +$number GFLOP/s" "$build/peak" 1 512; }
try_op_bench() { says "^head_loss +$number ms +$number GFLOP/s" "$build/op_bench" 1 16 fp32 --runs 1; }
try_grouped_gemm() { says "^bf16 .* groups +$number GFLOP/s +$number %$" "$build/grouped_gemm" --tokens 1 --experts 2 --runs 1; }
try_generate() { says "^bf16 median  one stream +$number tokens/s" "$build/generate" 1 1 2x64x2x512; }
try_tokenize() { says "\"cold_s\": $number" "$build/tokenize" "${gpt2[@]}" "$text"; }
try_tokenize_any() {
    says "\"cold\": $number" "$build/tokenize_any" "$data/token/json_kinds/llama2.json" "$text" &&
        says "\"cold\": $number" "$build/tokenize_any" "$data/token/tiktoken/small.tiktoken" "$text" cl100k
}
try_sample_index() { says "^a blend of 2: $number s" "$build/sample_index" 1000 16 16 1 2; }
try_aio() { says "^read, triax +$number GB/s  ratio $number" "$build/aio" . 16 1; }
try_checkpoint() {
    says "^$number GB, medians: save $number s" "$build/checkpoint" . 1 "--num-layers 2 --hidden-size 16 --num-attention-heads 2
        --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1 --train-iters 1 --lr 1 --data-path x --vocab-file x
        --merge-file x"
}
try_all_reduce() { mpi && says " 1.000 MiB  triax +$number ms" mpirun -n 2 "$build/all_reduce" 1 1; }
try_gpu_all_reduce() {
    [ -e "$build/libtriax_emulated32.so" ] || missing "the emulated GPU's module is not built" || return
    TX_GPU_MODULE=$build/libtriax_emulated32.so TX_GPU_EMULATED_COUNT=2 says "^all_reduce of 1 MiB between 2 GPUs, .* $number GB/s" \
        "$build/gpu_all_reduce" 2 1 1
}
try_serve_load() {
    mkdir model
    cp "$data/golden/generation/model/"* model
    cp "$data/tiny/tiny-vocab.json" model/vocab.json
    cp "$data/tiny/tiny-merges.txt" model/merges.txt
    : >log # read below, maybe before the server opens it
    "$triax" serve --load model --port 0 --threads 1 >log 2>&1 &
    server=$!
    local port=
    until port=$(sed -nE 's,^Serving .* at http://.*:([0-9]+)/ .*,\1,p' log) && [ "$port" ]; do
        kill -0 $server 2>/dev/null || { cat log >&2; server=; return 1; }
        sleep 0.02
    done
    says "^[1-9][0-9]* requests, 0 errors, $number requests/s, $number tokens/s" "$build/serve_load" "$port" 2 1 4 stream
    local code=$?
    kill $server
    wait $server
    server=
    return $code
}
try_predict_grid() {
    MACHINE=h100 POINTS='^(10m 128 1 1 1|10m 256 2 8 2 pp2)$' OTHERS=100 SECONDS_EACH=1 \
        says "^10m 256 2 8 2 pp2 +$number +$number +[-+]$number % " "$root/bench/predict_grid.sh" grid "$build"
}
try_zero() { mpi && FORMS="0 1" STEPS=2 says "^1 +$number +$number % " "$root/bench/zero.sh" "$triax" 2x32x2x64x16x2 fp32 1; }
try_ranks() { mpi && says "^sequence +$number ms an iteration +$number % " "$root/bench/ranks.sh" "$triax" 2x32x2x64x16x2 1; }
try_scoreboard() {
    mkdir board
    TX_PEER_PYTHON= TINY=1 TURNS=1 OTHERS=1000 FOLDER=$work says "^train-10m-fp32 +$number ms a step; PyTorch missing; $number % of its products" \
        "$root/bench/scoreboard.sh" --build "$build" --out board/all encode decode train-10m-fp32 norm preprocess &&
        grep -qE "^\| norm-backward-bf16 \| $number \|" board/all.md && grep -qE "\"row\": \"preprocess-data\".*\"triax\": $number" board/all.json
}
try_slow_link() {
    local code=0
    mpi || return
    WAYS="dp zeropp" MODEL="--num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --vocab-size 64" \
        "$root/bench/slow_link.sh" "$triax" 1000 2 1 >out 2>err || code=$?
    [ $code -ne 77 ] || missing "$(sed -n 's/^skipped: //p' out)" || return
    [ $code -eq 0 ] && grep -qE "^zeropp +$number ms a step +$number tokens/s" out || { tail -n 20 out err >&2; return 1; }
}
try_autotune() {
    mkdir -p tuned
    cat >tuned/machine.json <<'END'
{ "name": "here", "memory": {"gib": 4, "gb_per_s": 20}, "ranks_per_node": 2,
  "matrix": {"fp32": {"peak_tflops": 0.05}, "bf16": {"peak_tflops": 0.05}, "fp16": {"peak_tflops": 0.05}},
  "node": {"pair_gb_per_s": 4, "all_gb_per_s": 4}, "network": {"node_gb_per_s": 1}, "host": {"cores": 2} }
END
    mpi && TRIALS=1 GRID=2 STEPS=3 says "^2 ranks: choice z.* $number ms after 1 trials; best z.* $number ms of 2 layouts; [-+]$number %" \
        "$root/bench/autotune.sh" "$triax" tuned 2x32x2x16x2 2
}
try_loss_curve() {
    ITERATIONS=2 SEEDS=1 says "^seed    1: .* last 2 $number, validation $number" "$root/bench/loss_curve.sh" "$triax" "$text" \
        "${gpt2[@]}" --num-layers 1 --hidden-size 16 --seq-length 16 --eval-iters 1
}
try_async_save() {
    mkdir -p save
    ids && says "^--async-save: $number steps alone, median $number ms" "$root/bench/async_save.sh" "$triax" "$work/text_text_document" \
        "${gpt2[@]}" "$work/save" 20 --num-layers 1 --hidden-size 16 --num-attention-heads 2
}
try_optimizer_curves() {
    mpi && ids && MODEL="--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16" SEEDS=1 \
        says "^seed 1: adam $number, onebitadam $number, [-+]$number %, muon $number with 3/4 of 4 steps, [-+]$number %" \
        "$root/bench/optimizer_curves.sh" "$triax" "$work/text_text_document" 50257 4
}
try_efficiency_curves() {
    ids && MODEL="--num-layers 3 --hidden-size 16 --num-attention-heads 2 --seq-length 256 --max-position-embeddings 256" SEEDS=1 \
        says "^seed 1: plain $number in 4 steps, $number s; with 3/4 of the tokens $number in $number steps, $number s: [-+]$number %, $number of the time" \
        "$root/bench/efficiency_curves.sh" "$triax" "$work/text_text_document" 50257 4
}
try_distill_curves() {
    ids && TEACHER="--num-layers 1 --hidden-size 16 --num-attention-heads 2" STUDENT="--num-layers 1 --hidden-size 8 --num-attention-heads 1" \
        SEEDS=1 says "^seed 1: alone $number, with the teacher $number after 10 steps, [-+]$number" \
        "$root/bench/distill_curves.sh" "$triax" "$work/text_text_document" 50257 10
}
try_run_all() { bash -n "$root/bench/gpu/run_all.sh"; }

failed=0 n=0 left_out=0
for file in "$root"/bench/*.c "$root"/bench/*.sh "$root"/bench/gpu/*.sh; do
    name=$(basename "${file%.*}") code=0
    [ "$name" != check ] || continue
    if ! declare -F "try_$name" >/dev/null; then
        echo "FAILED: $name: bench/check.sh has no try_$name" >&2
        failed=$((failed + 1))
        continue
    fi
    case $file in *.sh) bash -n "$file" ;; esac && "try_$name" >why || code=$?
    n=$((n + 1))
    case $code in
    0) ;;
    77) left_out=$((left_out + 1)) && echo "not started: $name: $(cat why)" ;;
    *) failed=$((failed + 1)) && echo "FAILED: $name" >&2 ;;
    esac
done
cd "$root" || exit 2
python=$(command -v python3)
if [ "$python" ]; then
    for file in bench/*.py bench/gpu/*.py; do
        n=$((n + 1))
        python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$file" || { failed=$((failed + 1)); echo "FAILED: $file" >&2; }
    done
else
    echo "not parsed: the Python programs of bench/: there is no python3"
fi
echo "bench: $n programs, $left_out not started, $failed failed, $SECONDS s"
[ $failed -eq 0 ]
