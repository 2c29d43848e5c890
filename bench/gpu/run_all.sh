#!/bin/bash
# run_all.sh - every check and figure of docs/performance.md's GPU table, on a machine with a GPU: under ten minutes, from
# a built tree, without a network.
#
#   bench/gpu/run_all.sh BUILD_FOLDER [OUT_FOLDER]
#
#   BUILD_FOLDER   of the preset cuda or hip, with its tests and bench programs
#   OUT_FOLDER     gets the logs and table.md (default: BUILD_FOLDER/gpu)
#
# TX_PEER_PYTHON names a Python with PyTorch (default python3); LLMC a built train_gpt2cu of llm.c. What is not there is
# said in the table. Every part has a time limit; one that fails does not stop the others, and the exit status tells.
set -uo pipefail
build=$(cd "${1:?BUILD_FOLDER}" && pwd)
out=${2:-$build/gpu}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/../.."
python=${TX_PEER_PYTHON:-python3}
export TX_DATA=$PWD/tests/data TRIAX=$build/triax
module=
for name in cuda hip emulated32; do # the last: to try this script where there is no GPU
    [ -n "$module" ] || { [ -e "$build/libtriax_$name.so" ] && module=$build/libtriax_$name.so; }
done
export TX_GPU_MODULE=${TX_GPU_MODULE:-$module}
table=$out/table.md
failed=0

row() { printf '| %s | %s |\n' "$1" "$2" | tee -a "$table"; }

# check NAME SECONDS COMMAND...: passes, fails or is not there
check() {
    local name=$1 limit=$2 log code=0 start=$SECONDS
    shift 2
    log=$out/$(tr -c 'a-z0-9\n' _ <<<"$name").log
    timeout "$limit" "$@" >"$log" 2>&1 || code=$?
    case $code in
    0) row "$name" "passed, $((SECONDS - start)) s" ;;
    77) row "$name" "not run: $(tail -1 "$log")" ;;
    124 | 137) row "$name" "**did not end within $limit s**" && failed=1 ;;
    *) row "$name" "**failed** ($(basename "$log")): $(grep -E 'ERROR|FAILED|^triax|emulated GPU' "$log" | head -1 | cut -c1-120)" && failed=1 ;;
    esac
}

: >"$table"
{
    echo "$(date -u +%Y-%m-%d), $(git rev-parse --short HEAD 2>/dev/null || echo "no commit")"
    "$TRIAX" doctor --log-level info 2>&1 | sed -n '/^GPUs/,/^self-test/p' | grep -v self-test
    command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader
} | sed 's/^/    /' | tee -a "$table"
printf '\n| check | result |\n|---|---|\n' | tee -a "$table"

# ---- right ----
check "every op against ref: fp32, bf16, fp16" 150 env TX_TEST_GPU_MODULE="$TX_GPU_MODULE" "$build/test_ops_gpu"
check "runs come to what they do on the CPU: types, ZeRO, offload, resume, generation" 150 \
    env TX_GPU_MODULE_32="$TX_GPU_MODULE" bash "$PWD/tests/cli/test_gpu.sh"
check "doctor" 60 "$TRIAX" doctor
check "golden cases" 60 env TX_TEST_DEVICE=gpu "$build/test_golden_models"
if command -v compute-sanitizer >/dev/null; then
    check "compute-sanitizer: attention, norms, losses" 120 env TX_TEST_GPU_MODULE="$TX_GPU_MODULE" TX_TEST_CASES=attention \
        compute-sanitizer --target-processes all --error-exitcode 9 "$build/test_ops_gpu"
else
    row "compute-sanitizer" "not run: it is not installed"
fi

# ---- fast ----
printf '\n| bf16, T = 1024, tokens/s (share of 989 TFLOP/s) | triax | PyTorch, compiled | llm.c |\n|---|---|---|---|\n' | tee -a "$table"

# median of the numbers that a program prints for steps of 1, 1, 3, 3, 3; a line of something else comes first
steps() {
    printf '%s\n' 1 1 3 3 3 0 | timeout 60 "$@" 2>>"$out/steps.log" | sed 1d | tail -3 | sort -g | sed -n 2p
}

# rate MILLISECONDS TOKENS FLOPS_PER_TOKEN
rate() {
    [ -n "$1" ] || { echo "not run"; return; }
    awk -v ms="$1" -v n="$2" -v f="$3" 'BEGIN { t = n / ms * 1e3; printf "%.0f k (%.1f %%)", t / 1e3, 100 * t * f / 989e12 }'
}

# speed NAME LAYERS HIDDEN HEADS BATCH GFLOP_PER_TOKEN: 6N + 6LCT, as llm.c counts
speed() {
    local name=$1 l=$2 h=$3 heads=$4 b=$5 flops=$6 ours torch=
    ours=$(steps "$build/train" "$l" "$h" "$heads" 50304 1024 "$b" --bf16 --device gpu)
    "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null &&
        torch=$(steps "$python" bench/gpu/torch_step.py "$l" "$h" "$heads" 50304 1024 "$b")
    printf '| %s, micro-batch %s | %s | %s | %s |\n' "$name" "$b" "$(rate "$ours" $((b * 1024)) "$flops")" \
        "$(rate "$torch" $((b * 1024)) "$flops")" "${LLMC:+see llmc.log}${LLMC:-not at hand}" | tee -a "$table"
}
if [[ $TX_GPU_MODULE == *emulated* ]]; then
    echo "| no figures: the GPU is emulated | | | |" | tee -a "$table"
else
    speed "GPT-2 124M" 12 768 12 32 0.804e9
    speed "GPT-2 350M" 24 1024 16 24 2.28e9
    speed "GPT-2 1.5B" 48 1600 25 16 9.82e9
fi
[ -n "${LLMC:-}" ] && timeout 60 "$LLMC" -b 32 -t 1024 -x 10 >"$out/llmc.log" 2>&1
echo
echo "the table is in $table"
exit $failed
