#!/bin/bash
# labels: cli parallel
# Runs on a GPU, which where there is none is emulated (src/backend/gpu/emulate.h): its memory is closed to the host, its
# streams do nothing before they are waited for. Training, resuming, offload, evaluation and generation come to what they
# do on the CPU; and what is said where there is no GPU. TX_GPU_MODULE_32 may be a real GPU's module (bench/gpu/run_all.sh).
. "$(dirname "$0")/lib.sh"

# no driver, no module, a module that is none
[ "${TX_GPU_MODULE_32:?}" != none ] || { echo "skipped: no emulated GPU was built"; exit 77; }
(export TX_GPU_MODULE=/nonexistent.so; refused "/nonexistent.so cannot be loaded" doctor --device gpu) || exit 1
kind=' x .* GiB' # as the log names a GPU
if [[ $TX_GPU_MODULE_32 == *emulated* ]]; then
    kind="emulated GPU"
    (unset TX_GPU_MODULE; refused "there is no" doctor --device gpu) || exit 1
    (export TX_GPU_MODULE=$TX_GPU_MODULE_32 TX_GPU_EMULATED_COUNT=0
        refused "there is no GPU to use" doctor --device gpu) || exit 1
fi
export TX_GPU_MODULE=$TX_GPU_MODULE_32

for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
run=(pretrain-gpt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 4 --lr 2e-3 --lr-decay-iters 8 --train-iters 4 --clip-grad 1.0
    --tokenizer-type NullTokenizer --vocab-size 511 --data-path text --split 8,2,0 --log-interval 1 --eval-iters 1
    --eval-interval 4 --threads 1)

# near FILE FILE BOUND: losses and norms of the logs differ by no more
numbers() { sed -nE 's/.*lm loss: ([0-9.E+-]+) .*grad norm: ([0-9.]+).*/\1 \2/p;s/.*lm loss value: ([0-9.E+-]+) .*/\1 0/p' "$1"; }
near() {
    numbers "$1" >a; numbers "$2" >b
    [ -s a ] || die "$1: no losses"
    paste a b | awk -v d="$3" '{ for (k = 1; k < 3; k++) { e = $k - $(k + 2); if (e < 0) e = -e; if (e > d) bad = 1 } }
        END { exit bad || NF != 4 }' || { paste a b >&2; die "$1 and $2 differ by more than $3"; }
}

trains() { # NAME BOUND FLAG...: cpu and gpu
    local name=$1 bound=$2 device
    shift 2
    for device in cpu gpu; do
        ok "${run[@]}" "$@" --device $device
        cat out err >$name.$device
    done
    grep -q "backend: .*$kind" $name.gpu || { cat $name.gpu >&2; die "$name: not on the GPU"; }
    near $name.cpu $name.gpu "$bound"
}

trains fp32 2e-4
trains bf16 2e-2 --bf16
trains fp16 2e-2 --fp16 --initial-loss-scale 4096
trains llama 2e-4 --swiglu --normalization rmsnorm --use-rotary-position-embeddings --untie-embeddings-and-output-weights \
    --num-key-value-heads 2
trains dropped 2e-4 --hidden-dropout 0.1 --attention-dropout 0.1 --recompute-granularity full --recompute-method uniform
trains documents 2e-4 --reset-attention-mask --reset-position-ids --eod-mask-loss
trains kept 2e-4 --recompute-granularity full --recompute-method uniform --checkpoint-in-cpu
trains experts 2e-4 --num-experts 4 --topk 2 --moe-loss-coeff 0.01 --recompute-granularity full --recompute-method uniform
trains mixtral 2e-2 --bf16 --num-experts 4 --moe-router-topk 2 --moe-aux-loss-coeff 0.01 --moe-z-loss-coeff 0.001 --swiglu \
    --moe-shared-expert-intermediate-size 24 --eval-iters 9
trains biased 2e-4 --num-experts 4 --moe-router-topk 2 --moe-router-score-function sigmoid --moe-router-enable-expert-bias \
    --moe-router-load-balancing-type none --moe-router-bias-update-rate 0.01
trains residual 2e-4 --num-experts 4 --topk 1 --mlp-type residual --zero-stage 3
mkdir files
export TX_AIO_IN_MEMORY=1
trains zero1 2e-4 --zero-stage 1 --offload-optimizer cpu
trains zero3 2e-4 --zero-stage 3 --offload-optimizer cpu --offload-param cpu
trains halves 2e-2 --bf16 --grad-dtype bf16 --zero-stage 1 --offload-optimizer cpu
trains nvme 2e-2 --bf16 --zero-stage 3 --offload-optimizer nvme --offload-optimizer-nvme-path files --offload-param nvme \
    --offload-param-nvme-path files
trains some 2e-4 --zero-stage 2 --offload-optimizer cpu --offload-optimizer-ratio 0.4
trains some-norms 2e-4 --optimizer lamb --zero-stage 1 --offload-optimizer cpu --offload-optimizer-ratio 0.4
trains matrices 2e-4 --optimizer muon --muon-fp32-matmul-prec high --zero-stage 1 --offload-optimizer cpu
trains some-matrices 2e-2 --optimizer muon --bf16 --zero-stage 3 --offload-param cpu --offload-optimizer nvme \
    --offload-optimizer-nvme-path files --offload-optimizer-ratio 0.6
trains params 2e-4 --zero-stage 3 --offload-param cpu
trains params-some 2e-2 --bf16 --optimizer lamb --zero-stage 3 --offload-param nvme --offload-param-nvme-path files \
    --offload-optimizer cpu --offload-optimizer-ratio 0.5
# part of the state is offloaded: of the moved gradients that part alone
down() { sed -nE 's/^iteration 2: offload: ([0-9]+) bytes .*to the device ([0-9]+), from it ([0-9]+)$/\1 \2 \3/p' out; }
ok "${run[@]}" --device gpu --bf16 --zero-stage 1 --offload-optimizer cpu --log-level debug
read -r all_host all_up all_down <<<"$(down)"
ok "${run[@]}" --device gpu --bf16 --zero-stage 1 --offload-optimizer cpu --offload-optimizer-ratio 0.4 --log-level debug
read -r host up down <<<"$(down)"
for pair in "$host $all_host" "$up $all_up" "$down $all_down"; do
    read -r part all <<<"$pair"
    [ "${part:-0}" -gt $((all * 39 / 100)) ] && [ "$part" -lt $((all * 50 / 100)) ] || die "of $all bytes $part are offloaded or moved, not 40 %"
done

# more than the GPU has: refused before anything is taken, with what makes it fit; what is offloaded is not on the GPU
large=("${run[@]}" --device gpu --num-layers 8 --hidden-size 256)
small() { (export TX_GPU_EMULATED_BYTES=$1; refused "of the GPU's memory, but the GPU's free memory is " "${large[@]}"); }
if [ "$kind" = "emulated GPU" ]; then
    small 100000000
    grep -q -- "--zero-stage 1 --offload-optimizer cpu" err || { cat err >&2; die "no advice for a small GPU"; }
    large+=(--hidden-size 512)
    small 20000000
    grep -q "the least it can be made to take is" err || { cat err >&2; die "no bound for a GPU that is too small"; }
fi
ok "${run[@]}" --device gpu --zero-stage 1 --offload-optimizer cpu
grep -qE "of it on GPU +[0-9]+\.[0-9]" out || { cat out >&2; die "the plan does not show what is on the GPU"; }

# saved, gone on with: the bits of a run that was not stopped; and a checkpoint of the one goes on as the other
# the share of peak: an unknown GPU says what to give, and the user's figure counts
ok "${run[@]}" --device gpu --train-iters 2
if [ "$kind" = "emulated GPU" ]; then
    grep -q '^ > the peak of fp32 products on emulated GPU.* is not known here: --peak-tflops X shows the share of it$' out || die "no word of the peak"
    ! grep -q 'peak share' out || die "a share of no peak"
fi
ok "${run[@]}" --device gpu --train-iters 2 --peak-tflops 0.5
grep -Eq '\| peak share: [0-9.]+% \|$' out || die "no share of --peak-tflops on a GPU"
ok "${run[@]}" --device gpu --train-iters 4 --save straight --save-interval 4 --log-params-norm
ok "${run[@]}" --device gpu --train-iters 4 --exit-interval 2 --save stopped --save-interval 2 --async-save
ok "${run[@]}" --device gpu --train-iters 4 --load stopped --save stopped --save-interval 4
# but for the library's description of its algorithms, of which two bytes are by chance (seen with cuBLASLt 13.1), and so for
# the manifest's own hash
for end in straight stopped; do
    cp -r $end/iter_0000004 $end.bits
    sed -E -i 's/("gpu_products":)"[^"]*"/\1""/;s/("hash":)"[^"]*"\}$/\1""}/' $end.bits/manifest.json
done
for f in straight.bits/*; do cmp "$f" "stopped.bits/${f##*/}" || die "a resumed run has other bits"; done
ok "${run[@]}" --device cpu --train-iters 6 --load straight

# beside it: adapters, a student, tokens and layers that are passed by
trains adapters 2e-4 --load straight --finetune --lora-rank 4 --lora-dropout 0.1 --lora-targets query_key_value dense_4h_to_h
trains taught 2e-4 --kd --load-teacher straight --num-layers-teacher 2 --hidden-size-teacher 32 --num-attention-heads-teacher 4
trains tokens 2e-4 --num-layers 3 --random-ltd --random-ltd-min-value 8 --random-ltd-max-value 16 --random-ltd-require-steps 100 \
    --random-ltd-seq-per-step 8
trains layers 2e-4 --num-layers 3 --progressive-layer-drop --pld-theta 0.2 --pld-gamma 0.5

# a step that overflows changes nothing: skipped on both alike
ok "${run[@]}" --device gpu --fp16 --initial-loss-scale 1e12 --train-iters 3
grep -q "a gradient overflowed at loss scale" out err || die "no step was skipped"

# other ways to use a model
model=(--load "$data/golden/generation/model" --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
printf '%s\n' '{"text": "First Citizen: I have so, To, I have so"}' >lambada.jsonl
ok "${run[@]}" --num-experts 4 --moe-router-topk 2 --swiglu --train-iters 4 --save experts --save-interval 4 --device gpu
for device in cpu gpu; do
    ok generate --load experts --prompt '12 7 9' --greedy --max-new-tokens 8 --output-tokens --device $device
    cp out experts.$device
    ok evaluate "${model[@]}" --valid-data lambada.jsonl --task LAMBADA --device $device
    grep -oE 'accuracy: [0-9.E+-]+' out >said.$device || die "no accuracy"
    ok generate "${model[@]}" --prompt 'First Citizen:' --greedy --max-new-tokens 8 --output-tokens --device $device
    cp out generated.$device
done
TX_GPU_GRAPHS=0 ok generate "${model[@]}" --prompt 'First Citizen:' --greedy --max-new-tokens 8 --output-tokens --device gpu
cmp out generated.gpu || die "other tokens are generated without graphs"
cmp said.cpu said.gpu || die "another accuracy"
cmp experts.cpu experts.gpu || die "other tokens are generated by experts"
cmp generated.cpu generated.gpu || die "other tokens are generated"
echo "all passed"
