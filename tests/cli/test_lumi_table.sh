#!/bin/bash
# labels: cli
# A published table of GPT runs on LUMI (github.com/henkdr/Megatron-Deepspeed-LUMI, examples_deepspeed/rebase/notes.md), as
# plan predicts it: every measured row within 15 %, and the two that were never measured. Assumed is what the published
# script says: micro-batches of 2, batches of 1024 (125M: 256), every layer recomputed, GPT-2's vocabulary, fp16. Its
# table has TP 1 for 125M, but its TFLOP/s are those of 16 GCDs, which TP 2 makes of PP 2 x DP 4, as the script has it.
. "$(dirname "$0")/lib.sh"

small=(--num-layers 12 --hidden-size 768 --num-attention-heads 12 --global-batch-size 256)
large=(--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --global-batch-size 1024)
all=(--seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 --micro-batch-size 2 --fp16 --checkpoint-activations
    --flops-formula megatron-2021 --machine mi250x-gcd)

# row NAME GCDS PP TP ZERO SAMPLES: a line of the table; SAMPLES a second as published, or "?"
row() {
    local -n model=$1
    ok plan "${model[@]}" "${all[@]}" --world-size "$2" --pipeline-model-parallel-size "$3" --tensor-model-parallel-size "$4" \
        --zero-stage "$5" --json
    json_values out | awk -v name="$1" -v gcds="$2" -v pp="$3" -v tp="$4" -v zero="$5" -v published="$6" '
        { value[$1] = $2 }
        END {
            batch = value["1.global_batch_size"]
            s = value["1.time.iteration_s"]
            told = sprintf("%-5s %3d GCDs  PP %d TP %d DP %2d ZeRO-%d  %7.3f samples/s (%.3f to %.3f), %5.2f TFLOP/s a GCD",
                name == "small" ? "125M" : "13B", gcds, pp, tp, gcds / pp / tp, zero, batch / s,
                batch / value["1.time.high_s"], batch / value["1.time.low_s"], value["1.time.tflops_per_gpu"])
            if (published == "?") print told "; never measured"
            else {
                off = published * s / batch - 1
                printf "%s; measured %.3f, %+.1f %%\n", told, published, 100 * off
                if (!(off < 0.15 && off > -0.15)) exit 1
            }
            exit !(s > 0 && value["1.time.low_s"] < s && s < value["1.time.high_s"])
        }' >>table || failed=1
}

failed=0
row small 16 2 2 1 76.843
row large 8 1 1 1 2.686
row large 16 1 1 1 4.711
row large 16 1 1 2 5.166
row large 16 8 2 1 4.498
row large 16 2 4 1 "?"
row large 16 4 2 1 "?"
cat table
[ $failed -eq 0 ] || die "a row is off by more than 15 %, or outside its own interval"
