#!/bin/bash
# predict_grid.sh - predictions of `triax plan --machine` against the times of short runs on this CPU: models of 10M to 350M
# parameters, sequences of 128 to 1024 tokens, fp32 and bf16, recomputation, 1, 2 and 4 ranks as tensor, pipeline and data
# parallelism and ZeRO.
#   bench/predict_grid.sh DIR [BUILD, build/release]
#
# DIR/machine.json is made by `triax doctor --machine-file` unless it is there. Each point is a run of its own; they are in an
# order that is shuffled, always in the same way. DIR/measured.csv gets a line for each: the median of its iterations
# but the first. A grid that was interrupted goes on where it was. A run during which other processes, or other machines on the
# same host, took more of the processors than OTHERS percent is started once more, and if that is no better it is left out; the next
# call tries again. Then predict_grid (bench/predict_grid.c) prints the table, fits a few numbers on every second point, and judges
# them on the others. All points take some ten minutes on two cores, and up to 8 GiB of memory.
#
#   MACHINE  the machine in place of DIR/machine.json: a name that plan --machine takes, or a file
#   POINTS   a regular expression: only points whose line below it matches
#   OTHERS   2
#   SECONDS_EACH  of a run's iterations, about: 5
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:?a folder for the results}
build=$(realpath "${2:-$root/build/release}")
mkdir -p "$dir"
dir=$(realpath "$dir")
cmake --build "$build" -j "$(nproc)" --target triax predict_grid -- --no-print-directory >/dev/null
triax=$build/triax
machine=${MACHINE:-$dir/machine.json} measured=$dir/measured.csv
limit=${OTHERS:-2} seconds=${SECONDS_EACH:-5}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# MODEL SEQUENCE MICRO-BATCH GLOBAL-BATCH RANKS and what `flags_of` knows. PP2 V2: 2 layers at a time, interleaved.
points() {
    cat <<'END'
10m 128 1 1 1
10m 128 8 8 1 bf16
10m 256 4 8 1
10m 256 8 32 1 bf16 full
10m 512 2 4 1 bf16
10m 1024 1 2 1
10m 1024 4 4 1 bf16
51m 128 4 4 1
51m 256 2 2 1 bf16
51m 512 4 4 1 bf16
51m 512 2 4 1 selective
51m 1024 2 2 1
51m 1024 1 4 1 bf16 selective
124m 128 1 1 1
124m 128 8 8 1 bf16
124m 256 2 4 1
124m 512 1 1 1 bf16
124m 512 4 4 1 bf16 full
124m 1024 1 1 1
124m 1024 2 2 1 bf16
124m 1024 1 2 1 bf16 full
350m 128 1 1 1 bf16
350m 128 4 4 1
350m 256 2 2 1 bf16 full
350m 512 1 1 1
350m 1024 1 1 1 bf16
llama 128 4 4 1 bf16
llama 512 1 2 1
llama 1024 1 1 1 bf16 selective
bert 128 8 8 1
bert 512 1 2 1 bf16
10m 256 4 8 2
10m 512 2 8 2 bf16 z1
10m 128 8 8 2 tp2
10m 1024 1 2 2 bf16 tp2 sp
10m 256 2 8 2 pp2
51m 256 2 8 2 bf16 z2
51m 512 1 4 2 z3
51m 512 2 2 2 bf16 tp2
51m 256 2 8 2 pp2 v2
51m 1024 1 2 2 bf16 pp2
124m 128 4 8 2 bf16
124m 256 1 4 2 z1
124m 512 1 2 2 bf16 z3
124m 256 4 4 2 tp2
124m 512 1 4 2 bf16 tp2 sp full
124m 512 1 4 2 bf16 pp2 full
124m 128 2 8 2 pp2 v3
350m 128 2 2 2 bf16 tp2
350m 128 1 4 2 bf16 pp2
350m 128 1 2 2 bf16 z1
llama 256 2 4 2 bf16 tp2 sp
llama 512 1 4 2 z2
bert 256 2 8 2 bf16 pp2
10m 256 2 16 4
10m 256 2 8 4 tp2 z1
10m 512 1 4 4 bf16 tp2 pp2
51m 128 4 16 4 bf16 tp4
51m 256 2 16 4 bf16 pp4
51m 256 2 8 4 z3
124m 128 2 8 4 bf16 z1
124m 256 1 4 4 tp4 sp
124m 128 2 8 4 bf16 tp2 pp2
124m 128 1 8 4 bf16 pp2 z1
llama 128 2 8 4 bf16 tp2 z2
350m 128 1 4 4 bf16 tp2 pp2
END
}

# flags_of POINT: of pretrain-gpt, pretrain-bert and plan alike
flags_of() {
    local model=$1 seq=$2 micro=$3 global=$4 word
    local llama="--swiglu --normalization RMSNorm --use-rotary-position-embeddings --untie-embeddings-and-output-weights --disable-bias-linear"
    shift 5
    case $model in
    10m) echo --num-layers 6 --hidden-size 384 --num-attention-heads 6 --tokenizer-type NullTokenizer --vocab-size 8191 ;;
    51m) echo --num-layers 8 --hidden-size 512 --num-attention-heads 8 --tokenizer-type NullTokenizer --vocab-size 50257 ;;
    124m) echo --num-layers 12 --hidden-size 768 --num-attention-heads 12 --tokenizer-type NullTokenizer --vocab-size 50257 ;;
    350m) echo --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --tokenizer-type NullTokenizer --vocab-size 50257 ;;
    llama) echo --num-layers 12 --hidden-size 768 --num-attention-heads 12 --tokenizer-type NullTokenizer --vocab-size 31999 $llama ;;
    bert) echo --num-layers 12 --hidden-size 768 --num-attention-heads 12 ;;
    esac
    echo --seq-length "$seq" --max-position-embeddings "$seq" --micro-batch-size "$micro" --global-batch-size "$global"
    for word in "$@"; do
        case $word in
        bf16) echo --bf16 ;;
        full) echo --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 ;;
        selective) echo --recompute-activations ;;
        sp) echo --sequence-parallel ;;
        tp*) echo --tensor-model-parallel-size "${word#tp}" ;;
        pp*) echo --pipeline-model-parallel-size "${word#pp}" ;;
        v*) echo --num-layers-per-virtual-pipeline-stage "${word#v}" ;;
        z*) echo --zero-stage "${word#z}" ;;
        *) echo "predict_grid.sh: $word in a point" >&2; exit 1 ;;
        esac
    done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
vocab=$root/tests/data/token/bert-base-uncased-vocab.txt
# Documents of sentences that fill a BERT's samples.
bert_data() {
    [ ! -e ids_text_sentence.bin ] || return 0
    awk 'BEGIN { srand(1); n = split("the king of a land and his town by sea were there when people came to ask for bread", word)
        for (d = 0; d < 40; d++) {
            printf "{\"text\": ["
            for (s = 0; s < 200; s++) {
                printf "%s\"", s ? ", " : ""
                for (w = 0; w < 16; w++) printf "%s ", word[1 + int(n * rand())]
                printf ".\""
            }
            print "]}"
        } }' >ids.jsonl
    "$triax" preprocess-data --input ids.jsonl --output-prefix ids --tokenizer-type BertWordPieceLowerCase --vocab-file "$vocab" \
        --split-sentences >log 2>&1 || { cat log >&2; exit 1; }
}

# plan_of POINT: flags of plan
plan_of() { flags_of "$@" && echo --world-size "$5" $([ "$1" != bert ] || echo --model-type BERT); }

# flops POINT: of an iteration, in 1e9
flops() { "$triax" plan $(plan_of "$@") --json 2>plan.log | sed -nE 's/.*"flops_per_iteration":([0-9]+)[0-9]{9}\..*/\1/p'; }

# Ticks of the processors, of all and of this shell's children that are through.
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9 }' /proc/stat; }
own() { awk '{ print $16 + $17 }' "/proc/$$/stat"; }

# run POINT: one run; metrics.jsonl has its iterations, `others` the percentage of the processors that others had.
run() {
    local program=gpt data=--mock-data n b o start
    n=$(flops "$@")
    [ "$n" ] || { cat plan.log >&2; return 1; }
    n=$((seconds * 400 / (n + 1) + 1)) # at 0.4 TFLOP/s
    if [ $n -gt 8 ]; then n=8; elif [ $n -lt 4 ]; then n=4; fi
    if [ "$1" = bert ]; then
        bert_data
        program=bert data="--data-path ids_text_sentence --short-seq-prob 0 --tokenizer-type BertWordPieceLowerCase --vocab-file $vocab"
    fi
    rm -f metrics.jsonl
    b=$(busy) o=$(own) start=$EPOCHREALTIME
    "$triax" torchrun --nproc_per_node "$5" "pretrain_$program.py" $(flags_of "$@") $data --split 100,0,0 --train-iters "$n" --lr 1e-4 \
        --eval-iters 0 --log-interval 1 --peak-tflops 1 --metrics-file metrics.jsonl >log 2>&1 || { tail -n 20 log >&2; return 1; }
    others=$(echo $(($(busy) - b - $(own) + o)) "$start" "$EPOCHREALTIME" |
        awk -v t="$(getconf CLK_TCK)" -v p="$(nproc --all)" '{ s = 100 * $1 / t / ($3 - $2) / p; printf "%.1f", (s > 0 ? s : 0) }')
}

times() { sed -nE 's/^.*"kind":"step".*"elapsed_ms":([0-9.]+).*$/\1/p' metrics.jsonl | tail -n +2; }
median() { sort -n | awk '{ a[NR] = $1 } END { printf "%.2f\n", (a[int((NR + 1) / 2)] + a[int(NR / 2) + 1]) / 2 }'; }

# measure POINT: a line of measured.csv
measure() {
    local try
    for try in 1 2; do
        run "$@" || { echo "$*: fails" >&2; return 0; }
        if awk "BEGIN { exit !($others <= $limit) }"; then
            echo "$*,$(times | median),$(times | sort -n | head -n 1),$(times | wc -l),$others,$(plan_of "$@" | xargs)" >>"$measured"
            return 0
        fi
    done
    echo "$*: others had $others % of the processors, twice: left out" >&2
}

# shuffled: lines in an order that a generator of random numbers makes, which is the same on every machine
shuffled() {
    awk 'BEGIN { x = 42 } { x = x * 16807 % 2147483647; print x "\t" $0 }' | sort -n | cut -f 2
}

[ -e "$machine" ] || [ "${MACHINE:-}" ] || "$triax" doctor --machine-file "$machine"
[ -e "$measured" ] || echo "point,median_ms,least_ms,iterations,others_percent,flags" >"$measured"
mapfile -t todo < <(points | shuffled | grep -E -- "${POINTS:-.}")
for point in "${todo[@]}"; do
    grep -q "^$point," "$measured" || { echo "$((SECONDS)) s: $point" >&2; measure $point; }
done
"$build/predict_grid" "$machine" "$measured" "$dir/fitted.json"
