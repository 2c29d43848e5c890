#!/bin/bash
# run_all.sh - every check and figure of docs/performance.md's GPU table, on a machine with a GPU: under ten minutes, from
# a built tree (with its tests and `bench`), without a network.
#
#   bench/gpu/run_all.sh BUILD_FOLDER [OUT_FOLDER]
#
#   BUILD_FOLDER   of the preset cuda or hip: cmake --build --preset cuda && cmake --build --preset cuda --target bench
#   OUT_FOLDER     gets the logs and table.md (default: BUILD_FOLDER/gpu)
#
#   TX_GPU_MODULE     the module, if it is not BUILD_FOLDER's libtriax_cuda.so or libtriax_hip.so. With the emulated one
#                     everything is run with tiny shapes to try this script, and there are no figures
#   TX_PEER_PYTHON    a Python with PyTorch (default python3)
#   LLMC              a built train_gpt2cu of llm.c
#   TX_RUN_ALL_SCALE  factor of all time limits (default 1; "3/4" is one), for an emulated, shared or rented machine
#
# What is not there is said in the table. Every part has a limit of its own, and what has no time left is not begun. One
# that fails does not stop the others: the exit status tells.
set -uo pipefail
build=$(cd "${1:?BUILD_FOLDER}" && pwd) || exit 2
out=${2:-$build/gpu}
mkdir -p "$out"
out=$(cd "$out" && pwd) || exit 2
cd "$(dirname "$0")/../.." || exit 2
scale=${TX_RUN_ALL_SCALE:-1} # behind a product, so that a fraction is one of it
end=$((585 * $scale)) # of everything, in seconds from here
checks_end=$((($(nproc) < 8 ? 330 : 175) * $scale))
before=$checks_end # what begins now has to end before that
python=${TX_PEER_PYTHON:-python3}
PATH=$PATH:/usr/local/cuda/bin
export TX_DATA=$PWD/tests/data TRIAX=$build/triax
module=${TX_GPU_MODULE:-}
for name in cuda hip; do
    [ -n "$module" ] || { [ -e "$build/libtriax_$name.so" ] && module=$build/libtriax_$name.so; }
done
[ -n "$module" ] || { echo "$build has neither libtriax_cuda.so nor libtriax_hip.so, and TX_GPU_MODULE names no other" >&2; exit 2; }
export TX_GPU_MODULE=$module
for name in triax test_ops_gpu test_golden_models test_golden_bert test_gpu_layouts test_comm_device train op_bench gpu_all_reduce; do
    [ -x "$build/$name" ] || { echo "$build/$name is not there: build all, and the target bench" >&2; exit 2; }
done
emulated=
[[ $module == *emulated* ]] && emulated=1
table=$out/table.md
SECONDS=0
rm -rf "$out"/*.log "$out"/*.row "$out/failed" "$out/work"
mkdir -p "$out/work"
trap 'kill $(jobs -p) 2>/dev/null' EXIT

say() { printf '%s\n' "$1" | tee -a "$table"; }
row() { say "| $1 | $2 |"; }
fail() { : >"$out/failed"; }

# in_time SECONDS COMMAND...: 124 or 137 where it does not end by then, 125 where no time is left
in_time() {
    local limit=$(($1 * $scale)) left=$((before - SECONDS))
    shift
    [ "$left" -ge 3 ] || { echo "no time left"; return 125; }
    timeout --kill-after=5 $((limit < left ? limit : left)) "$@"
}

# the first line that says what is wrong, or else the last
reason() {
    local line
    line=$(grep -aE 'FAILED|ERROR:|^triax|differ|has [-0-9.e]+, |emulated GPU:|not supported|memory' "$1" | head -1)
    [ -n "$line" ] || line=$(tail -n 1 "$1")
    tr -d '|' <<<"$line" | cut -c1-140
}

# ---- what there is ----

doctor=passed
in_time 60 "$TRIAX" doctor --device cpu --log-level info >"$out/doctor.log" 2>&1 || doctor="**failed** (doctor.log): $(reason "$out/doctor.log")"
gpus=$(sed -n '/^GPUs/,/^self-test/p' "$out/doctor.log" | grep -v self-test)
gpu=$(grep -m1 -E '^ +0 +' <<<"$gpus")
n_gpus=$(grep -cE '^ +[0-9]+ +.* GiB' <<<"$gpus")
cudnn=$(grep -cE '^ +cuDNN +[0-9]+\.[0-9]' <<<"$gpus")
[ -n "$gpu" ] || { echo "there is no GPU to use: ${gpus}" >&2; exit 2; }

# dense bf16, TFLOP/s, by the vendors' data sheets; of AMD's MI250 a device is one of two dies
case $gpu in
*"H100 NVL"*) peak=835 ;;
*"H100 PCIe"*) peak=756 ;;
*H100* | *H200*) peak=989 ;;
*A100*) peak=312 ;;
*MI250*) peak=191 ;;
*MI300A*) peak=981 ;;
*MI300*) peak=1307 ;;
*) peak= ;;
esac

: >"$table"
say "$({
    echo "$(date -u +%Y-%m-%d), triax $(git describe --always --dirty 2>/dev/null || echo "of no commit"), $(nproc) cores"
    sed 1d <<<"$gpus"
    command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=driver_version,clocks.max.sm,power.limit --format=csv,noheader
    "$python" -c 'import torch; print("PyTorch", torch.__version__)' 2>/dev/null
    echo "peak: ${peak:-not known for this GPU}${peak:+ TFLOP/s, dense bf16}"
} | sed -E 's/^ */    /')"

# PyTorch's compiler works while the checks run, so that its later starts find what it made.
torch=
if [ "$emulated" ]; then
    "$python" -c 'import torch' 2>/dev/null && torch=cpu
elif "$python" -c 'import torch; assert torch.cuda.is_available()' 2>>"$out/torch.log"; then
    torch=cuda
fi
export TORCHINDUCTOR_CACHE_DIR=$out/work/inductor

memory=$(grep -oE '[0-9.]+ GiB' <<<"$gpu" | cut -d. -f1)
# NAME LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH STEPS GOAL (tokens/s on an H200)
models=("GPT-2 124M:12 768 12 50304 1024 32:40:500000" "GPT-2 350M:24 1024 16 50304 1024 24:20:200000"
    "GPT-2 1.5B:48 1600 25 50304 1024 16:10:52000")
if [ "$emulated" ]; then
    models=("tiny:2 64 2 512 64 2:1:0")
elif [ "${memory% *}" -lt 100 ]; then
    models=("GPT-2 124M:12 768 12 50304 1024 16:40:500000" "GPT-2 350M:24 1024 16 50304 1024 12:20:200000"
        "GPT-2 1.5B:48 1600 25 50304 1024 4:10:52000")
fi

# ---- right ----

# check ID NAME SECONDS COMMAND...: passes, fails or is not there. Several at a time where there are cores for them: a GPU
# has little to do for any of them, and no thread may spin.
ids=()
check() {
    ids+=("$1")
    run_check "$@" >"$out/$1.row" &
    pids+=($!)
    [ "$(nproc)" -ge 8 ] || wait $!
}
run_check() {
    local id=$1 name=$2 limit=$3 log=$out/$1.log code=0 start=$SECONDS result
    shift 3
    OMP_WAIT_POLICY=passive in_time "$limit" "$@" >"$log" 2>&1 || code=$?
    if [ $code -eq 0 ]; then
        result="passed, $((SECONDS - start)) s"
    elif [ $code -eq 77 ] || [ $code -eq 125 ]; then
        result="not run: $(tail -n 1 "$log")"
    elif [[ $id == *check_* ]] && grep -q 'Device not supported' "$log"; then
        result="not run: compute-sanitizer does not support this device"
    elif [ $code -ne 124 ] && [ $code -ne 137 ]; then
        result="**failed** ($id.log): $(reason "$log")" && fail
    elif [[ $id == *check_* ]] && ! grep -qE '^=+ (Invalid|Error|Race|Uninit|Program hit|Barrier)' "$log"; then
        result="nothing found in $((SECONDS - start)) s, in which it did not end"
    else
        result="**did not end within $((SECONDS - start)) s** ($id.log)" && fail
    fi
    echo "| $name | $result |"
}
skip() {
    ids+=("$1")
    echo "| $2 | not run: $3 |" >"$out/$1.row"
}

pids=()
if [ "$torch" = cuda ]; then
    for model in "${models[@]}"; do
        IFS=: read -r _ shape _ <<<"$model"
        [ $SECONDS -lt $((checks_end - 5)) ] || break
        # shellcheck disable=SC2086
        timeout $((checks_end - SECONDS)) "$python" bench/gpu/torch_step.py $shape <<<1
    done >>"$out/torch.log" 2>&1 &
    pids+=($!)
fi

check ops "every op against \`ref\`: fp32, bf16, fp16; the same bits twice" 150 env TX_TEST_GPU_MODULE="$module" "$build/test_ops_gpu"
check golden "golden cases of GPT and Llama" 150 env TX_TEST_DEVICE=gpu "$build/test_golden_models"
check golden_bert "golden cases of BERT" 100 env TX_TEST_DEVICE=gpu "$build/test_golden_bert"
check runs "runs come to what they do on the CPU: types, ZeRO, offload, resume, generation" 150 \
    env TX_GPU_MODULE_32="$module" bash "$PWD/tests/cli/test_gpu.sh"
check layouts "several ranks on one GPU, as threads: TP 2, PP 2, DP 2, ZeRO 1 to 3 come to what one does" 150 \
    env TX_TEST_GPU_MODULE="$module" "$build/test_gpu_layouts"
check ranks "the same as processes, and a checkpoint of one layout in another" 150 \
    env TX_GPU_MODULE_32="$module" bash "$PWD/tests/cli/test_gpu_ranks.sh"
if [ "$emulated" ] || [ "$n_gpus" -ge 4 ]; then
    check comm "ranks with a GPU each: NCCL or RCCL, and the host, among ops" 100 env TX_TEST_GPU_MODULE="$module" "$build/test_comm_device"
else
    skip comm "ranks with a GPU each: NCCL or RCCL, and the host, among ops" "it needs four GPUs, here are $n_gpus"
fi

# sanitized ID NAME TOOL COMMAND...
sanitized() {
    local id=$1 name="compute-sanitizer, $3: $2" tool=$3
    shift 3
    if [ "$emulated" ]; then
        skip "$id" "$name" "the GPU is emulated (the tests' ASan does it there)"
    elif ! command -v compute-sanitizer >/dev/null; then
        skip "$id" "$name" "compute-sanitizer is not installed"
    else
        check "$id" "$name" 160 compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 "$@"
    fi
}
op=(env "TX_TEST_GPU_MODULE=$module")
step=(bash -c "printf '1\n1\n0\n' | '$build/train' 2 128 2 512 128 2 --bf16 --device gpu")
sanitized memcheck_step "training steps" memcheck "${step[@]}"
sanitized initcheck_step "training steps" initcheck "${step[@]}"
sanitized racecheck_attention "our attention" racecheck "${op[@]}" TX_TEST_CASES=attention TX_GPU_CUDNN=0 "$build/test_ops_gpu"
sanitized racecheck_norm "norms" racecheck "${op[@]}" TX_TEST_CASES=layernorm "$build/test_ops_gpu"
sanitized racecheck_loss "losses" racecheck "${op[@]}" TX_TEST_CASES=cross_entropy "$build/test_ops_gpu"
sanitized memcheck_ops "every op" memcheck "${op[@]}" "$build/test_ops_gpu"

[ ${#pids[@]} -eq 0 ] || wait "${pids[@]}"
say ""
say "| check | result |"
say "|---|---|"
row "doctor: trains on the GPU as \`ref\` does, resumes with the same bits" "$doctor"
[ "$doctor" = passed ] || fail
for id in "${ids[@]}"; do say "$(cat "$out/$id.row")"; done
echo "($SECONDS s)"

# ---- fast: from here on nothing else is on the GPU ----

before=$end

# of the numbers in the words of $1; nothing of none
median() {
    tr -s ' ' '\n' <<<"$1" | grep . | sort -g | awk '{ a[NR] = $1 } END { if (NR) print NR % 2 ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2 }'
}

# figure FORMAT NUMBER...: of an emulated GPU only that there are such numbers
figure() {
    local format=$1 number
    shift
    for number in "${@:-none}"; do
        [[ $number =~ ^[0-9.e+-]+$ ]] || { echo "**failed**"; fail; return; }
    done
    # shellcheck disable=SC2059
    if [ "$emulated" ]; then echo "ran"; else printf "$format" "$@"; fi
}

# ms SHAPE STEPS [ENV COMMAND...]: milliseconds of a step, of a run of its own. Nothing: it failed, and train.log says how
ms() {
    local shape=$1 n=$2
    shift 2
    # shellcheck disable=SC2086
    printf '1\n2\n%s\n0\n' "$n" | in_time 45 "$@" "$build/train" $shape --bf16 --device gpu 2>>"$out/train.log" | sed -n 4p
}

# The peer of a model stays, and gives its memory back between its turns.
peer_pid=
peer_open() {
    local line left=$((end - SECONDS)) limit=$((170 * $scale))
    [ "$torch" ] || return 1
    # shellcheck disable=SC2086
    coproc PEER { exec timeout $((limit < left ? limit : left)) "$python" bench/gpu/torch_step.py $1 --device $torch 2>>"$out/torch.log"; }
    # shellcheck disable=SC2153
    peer_pid=${PEER_PID:-}
    [ -n "${PEER[1]:-}" ] && exec 3>&"${PEER[1]}" 4<&"${PEER[0]}" || return 1
    read -r -t $((60 * $scale)) -u 4 line && [[ $line == torch* ]] && peer_ms 1 $((100 * $scale)) >/dev/null
}
# STEPS SECONDS
peer_ms() {
    local line
    (trap '' PIPE && echo "$1" >&3) 2>/dev/null
    read -r -t "$2" -u 4 line && echo "$line"
}
peer_close() {
    exec 3>&- 4<&-
    kill "$peer_pid" 2>/dev/null
    wait "$peer_pid" 2>/dev/null
}

# llm.c reads tokens from a file: random ones, behind its header
if [ -n "${LLMC:-}" ]; then
    LLMC=$(realpath "$LLMC")
    python3 -c 'import array, random, sys
n = 1 << 20
array.array("i", [20240520, 1, n] + [0] * 253).tofile(sys.stdout.buffer)
array.array("H", [random.randrange(50257) for _ in range(n)]).tofile(sys.stdout.buffer)' >"$out/work/tokens.bin"
fi
# LAYERS BATCH: milliseconds of a step, the median of its last eight
llmc_ms() {
    median "$( (cd "$out/work" && in_time 45 "$LLMC" -i tokens.bin -j tokens.bin -e "d$1" -b "$2" -t 1024 -d $(($2 * 1024)) -x 12 \
        -v 100000 -m 1 -s 0 -h 0 -r 0 -z 0) 2>&1 | tee -a "$out/llmc.log" |
        grep -aE '^step ' | grep -oE '[0-9.]+ ms' | cut -d' ' -f1 | tail -n 8 | tr '\n' ' ')"
}

# tokens_per_second MILLISECONDS SHAPE, and share of the peak by llm.c's count, 6 N + 6 L h s, and by Megatron's
rates() {
    local l h v s b
    read -r l h _ v s b <<<"$2"
    awk -v ms="$1" -v l="$l" -v h="$h" -v v="$v" -v s="$s" -v b="$b" -v peak="${peak:-0}" 'BEGIN {
        t = b * s / ms * 1e3
        n = (v + s + 2) * h + l * (12 * h * h + 13 * h)
        print t / 1e3, peak ? t * 1e-10 * (6 * n + 6 * l * h * s) / peak : 0,
            peak ? t * 1e-10 * 72 * l * h * h * (1 + s / (6 * h) + v / (12 * l * h)) / peak : 0 }'
}
cell() { # MILLISECONDS SHAPE WHY_NONE
    local t llmc megatron
    [ "$1" ] || { echo "$3"; return; }
    read -r t llmc megatron < <(rates "$1" "$2")
    if [ "$peak" ]; then figure "%.1f k, %.1f %%, %.1f %%" "$t" "$llmc" "$megatron"; else figure "%.1f k" "$t"; fi
}

# speed NAME SHAPE STEPS GOAL: A B A B
speed() {
    local name=$1 shape=$2 n=$3 goal=$4 ours='' theirs='' llmcs='' none="not at hand" no_llmc why a b c l batch peer=''
    read -r l _ _ _ _ batch <<<"$shape"
    if [ $((end - SECONDS)) -lt 30 ]; then
        say "| $name | not run: no time left | | | |"
        return
    fi
    if peer_open "$shape"; then peer=1; elif [ "$torch" ]; then none="did not run: $(tail -n 1 "$out/torch.log" | tr -d '|' | cut -c1-100)"; fi
    for _ in 1 2; do
        ours+=" $(ms "$shape" "$n")"
        [ -z "$peer" ] || theirs+=" $(peer_ms "$n" $((60 * $scale)))"
        [ -z "${LLMC:-}" ] || [ "$emulated" ] || llmcs+=" $(llmc_ms "$l" "$batch")"
    done
    [ -z "$torch" ] || peer_close
    a=$(median "$ours") b=$(median "$theirs") c=$(median "$llmcs") no_llmc="not at hand"
    [ -z "${LLMC:-}" ] || no_llmc="did not run (llmc.log)"
    why="${a:+no figure: emulated}"
    if [ -z "$a" ]; then
        fail
    elif [ -z "$emulated" ]; then
        why=
        if [[ $gpu == *H200* ]]; then
            why=$(awk -v t="$(rates "$a" "$shape")" -v goal="$goal" 'BEGIN {
                split(t, x, " "); printf "%d k: %s", goal / 1e3, (x[1] * 1e3 >= goal) ? "met" : "**missed**" }')
        fi
        [ -z "$b" ] || why+=$(awk -v a="$a" -v b="$b" -v s="${why:+; }" 'BEGIN { printf "%s%.2f times PyTorch", s, b / a }')
    fi
    say "| $name, micro-batch $batch | $(cell "$a" "$shape" "**failed**: $(tail -n 1 "$out/train.log" | tr -d '|' | cut -c1-120)") | $(cell "$b" "$shape" "$none") | $(cell "$c" "$shape" "$no_llmc") | $why |"
    ms_of["$name"]=$a
}
declare -A ms_of=()

# ops ID GROUP TOKENS [ENV COMMAND...]: op_bench's lines, in ID.log
ops() {
    local log=$out/$1.log group=$2 tokens=$3 few=
    shift 3
    [ -z "$emulated" ] || few="--runs 1"
    # shellcheck disable=SC2086
    in_time 40 "$@" "$build/op_bench" 1 "$tokens" bf16 "$group" --device gpu $few >"$log" 2>&1
}
# rate_of ID NAME: the rate of an op's line, 1e9 a second
rate_of() { awk -v name="$2" 'index($0, name " ") == 1 { print $(NF - 1); exit }' "$out/$1.log"; }
tera() { awk -v x="${1:-none}" 'BEGIN { if (x != "none") print x / 1e3 }'; }

tokens=32768 product_tokens=32768
[ -z "$emulated" ] || { tokens=128 product_tokens=16; }

# attention_rates ID PATTERN: of the first lines of the log whose name has it, forward and backward
attention_rates() {
    local way
    for way in fwd bwd; do grep -m1 -E "^attention_$way .*$2" "$out/$1.log" | awk '{ print $(NF - 1) / 1e3 }'; done
}
# attention ID NAME [ENV COMMAND...]
attention() {
    local id=$1 name=$2 rates
    shift 2
    ops "$id" attention "$tokens" "$@"
    mapfile -t rates < <(attention_rates "$id" ' s=')
    row "attention, $name" "$(figure "%.0f TFLOP/s forward, %.0f backward" "${rates[@]:0:2}")"
}

figures_of_ops() {
    local of n rates
    say ""
    say "| figure, bf16 | result |"
    say "|---|---|"
    ops op_gemm gemm "$product_tokens"
    of=$(awk '/GFLOP/ && !/k=1024 n=1024/ && !skip { ms += $(NF - 3); done += $(NF - 3) * $(NF - 1) } /k=1024 n=1024/ { skip = 1 }
        END { if (ms) print done / ms / 1e3 }' "$out/op_gemm.log")
    row "products of GPT-2 124M's layers, $product_tokens tokens, forward, dX, dW" \
        "$(figure "%.0f TFLOP/s" "$of")$([ -z "$peak" ] || [ -z "$of" ] || awk -v x="$of" -v p="$peak" 'BEGIN { printf ", %.0f %% of the peak", 100 * x / p }')"
    if [ "$cudnn" -gt 0 ]; then
        attention op_attention_cudnn "cuDNN, backward deterministic (the default)"
        attention op_attention_free "cuDNN, backward not deterministic" env TX_GPU_CUDNN_NONDETERMINISTIC=1
    else
        row "attention, cuDNN, backward deterministic (the default) and not" "not run: there is no cuDNN here"
    fi
    attention op_attention_own "our own kernels" env TX_GPU_CUDNN=0
    mapfile -t rates < <(attention_rates op_attention_own dropout)
    row "attention with dropout (always our own kernels)" "$(figure "%.0f TFLOP/s forward, %.0f backward" "${rates[@]:0:2}")"
    ops op_update update "$tokens"
    n=0
    for of in copy adam sumsq; do
        row "memory, $of" "$(figure "%.2f TB/s" "$(tera "$(rate_of op_update $of)")")"
    done
    ops op_rows rows "$tokens"
    for of in layernorm_fwd layernorm_bwd activation_fwd activation_bwd dropout_add_fwd; do
        row "memory, $of" "$(figure "%.2f TB/s" "$(tera "$(rate_of op_rows $of)")")"
    done
    if [ -z "$emulated" ]; then
        ops op_head head "$tokens"
        row "head and loss, $tokens tokens" "$(figure "%.0f TFLOP/s" "$(tera "$(rate_of op_head head_loss)")")"
    fi
}

all_reduce() { # NAME [ENV COMMAND...]
    local name=$1 log=$out/all_reduce.log n=$n_gpus
    shift
    [ -z "$emulated" ] || n=2
    if [ "$n" -lt 2 ]; then
        row "all-reduce between GPUs, $name" "not run: here is one GPU"
        return
    fi
    TX_GPU_EMULATED_COUNT=2 in_time 30 "$@" "$build/gpu_all_reduce" "$n" $((emulated ? 1 : 256)) $((emulated ? 1 : 9)) >"$log" 2>&1
    row "all-reduce of 256 MiB between $n GPUs, $name" "$(figure "%.0f GB/s a link" "$(awk '/^all_reduce/ { print $(NF - 1) }' "$log")")"
    cat "$log" >>"$out/all_reduces.log"
}

of_models() { # FIRST LAST: those of the models
    local i name shape n goal
    say ""
    say "| bf16, tokens/s, share of ${peak:-?} TFLOP/s by llm.c's count and by Megatron's | triax | PyTorch, compiled, SDPA | llm.c | |"
    say "|---|---|---|---|---|"
    for ((i = $1; i <= $2 && i < ${#models[@]}; i++)); do
        IFS=: read -r name shape n goal <<<"${models[i]}"
        speed "$name" "$shape" "$n" "$goal"
    done
}

of_models 0 0
figures_of_ops
longer() { # SEQUENCE BATCH
    local shape of
    shape="12 768 12 50304 $1 $2"
    of=$(ms "$shape" 2)
    row "GPT-2 124M at T = $1, micro-batch $2" "$(cell "$of" "$shape" "**failed** (train.log)")"
}

all_reduce "NCCL or RCCL"
all_reduce "by way of the host" env TX_GPU_COMM=staged
IFS=: read -r name shape n _ <<<"${models[0]}"
if [ "$cudnn" -gt 0 ] || [ "$emulated" ]; then
    other=$(ms "$shape" "$n" env TX_GPU_CUDNN_NONDETERMINISTIC=1)
    row "$name, backward of attention not deterministic; deterministic" "$(cell "$other" "$shape" "**failed** (train.log)"); $(cell "${ms_of[$name]}" "$shape" "**failed**")"
fi
timed=$(ms "$shape" "$n" env TX_GPU_GEMM_TIMING=1)
row "$name, products timed; the library's first choice" "$(cell "$timed" "$shape" "**failed** (train.log)"); $(cell "${ms_of[$name]}" "$shape" "**failed**")"
[ ${#models[@]} -eq 1 ] || of_models 1 $((${#models[@]} - 1))
if [ -z "$emulated" ]; then
    say ""
    say "| long sequences, bf16 | tokens/s, share of ${peak:-?} TFLOP/s by llm.c's count and by Megatron's |"
    say "|---|---|"
    longer 8192 4
    longer 32768 1
    longer 131072 1
fi

say ""
say "$SECONDS s in all; logs in $out"
rm -rf "$out/work"
echo "the table is in $table"
[ ! -e "$out/failed" ]
