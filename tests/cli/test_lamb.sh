#!/bin/bash
# labels: cli parallel
# --optimizer lamb as a user meets it: resumed runs have the bits of one that was not stopped, whatever is offloaded;
# checkpoints name its states and those of another optimizer are refused; an emulated GPU trains what the CPU trains, the
# update on it or on the host; a plan counts its two buffers; flags that say nothing are refused.
. "$(dirname "$0")/lib.sh"

for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
run=(pretrain-gpt --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 2 --global-batch-size 4 --lr 2e-2 --lr-decay-iters 8 --train-iters 4 --clip-grad 1.0
    --tokenizer-type NullTokenizer --vocab-size 511 --data-path text --split 8,2,0 --log-interval 1 --eval-iters 1
    --eval-interval 4 --threads 1 --optimizer lamb)
export TX_AIO_IN_MEMORY=1
mkdir files
to_disk=(--zero-stage 3 --offload-optimizer nvme --offload-optimizer-nvme-path files --offload-param nvme --offload-param-nvme-path files
    --zero-sub-group-size 4096)

# numbers FILE: losses and gradient norms
numbers() { sed -nE 's/.*lm loss: ([0-9.E+-]+) .*grad norm: ([0-9.]+).*/\1 \2/p' "$1"; }

# stopped and gone on with
goes_on() { # NAME FLAG...
    local name=$1
    shift
    ok "${run[@]}" "$@" --save "$name.straight" --save-interval 4
    numbers out >"$name.numbers"
    ok "${run[@]}" "$@" --exit-interval 2 --save "$name.stopped" --save-interval 2
    ok "${run[@]}" "$@" --load "$name.stopped" --save "$name.stopped" --save-interval 4
    for f in "$name.straight"/*4/*; do cmp "$f" "$name.stopped/${f#*/}" || die "$name: a resumed run has other bits"; done
}
goes_on whole
goes_on cpu --zero-stage 2 --offload-optimizer cpu
goes_on nvme "${to_disk[@]}"
goes_on halves --bf16
goes_on halves_nvme --bf16 "${to_disk[@]}"
for other in cpu nvme; do cmp whole.numbers $other.numbers || die "$other has other losses or norms"; done
cmp halves.numbers halves_nvme.numbers || die "bf16 has other losses or norms from a disk"

# what a checkpoint holds; and whose
ok inspect whole.straight
grep -q "optimizer state: .* numbers" out || { cat out >&2; die "no state"; }
grep -aoq '"exp_avg_sq.encoder' whole.straight/iter_0000004/*.safetensors || die "a state without its name"
ok "${run[@]}" --optimizer sgd --train-iters 2 --save sgd --save-interval 2
refused "holds the state of another optimizer (there is no exp_avg)" "${run[@]}" --load sgd
refused "holds the state of another optimizer (lamb, not adam)" "${run[@]}" --optimizer adam --load whole.straight
ok "${run[@]}" --optimizer adam --train-iters 2 --save adam --save-interval 2
refused "holds the state of another optimizer (adam, not lamb)" "${run[@]}" --load adam
ok "${run[@]}" --load adam --no-load-optim
refused "holds the state of another optimizer (there is no momentum_buffer)" "${run[@]}" --optimizer sgd --load whole.straight

# DeepSpeed's folders have its state, Megatron's not
goes_on deepspeed --save-format deepspeed
refused "holds the state of another optimizer (lamb, not adam)" "${run[@]}" --optimizer adam --load deepspeed.straight
ok convert --to native deepspeed.straight copy
ok convert --to deepspeed copy back
for from in deepspeed.straight copy back; do
    ok "${run[@]}" --load $from --train-iters 6 --override-opt_param-scheduler
    numbers out >>from.said
done
[ "$(wc -l <from.said)" -eq 6 ] && [ "$(sort -u from.said | wc -l)" -eq 2 ] || { cat from.said >&2; die "convert: another state"; }
refused "save native" "${run[@]}" --save-format megatron --save there

# two buffers beside the weights, as Adam's
ok plan "${run[@]:1}"
sed -E 's/lamb/adam/g' out >lamb.plan
ok plan "${run[@]:1}" --optimizer adam
grep -E "optimizer" out >adam.said
grep -E "optimizer" lamb.plan | cmp - adam.said || die "LAMB's plan counts other states than Adam's"

# flags
refused "--lamb-max-coeff is for --optimizer lamb, not adam" "${run[@]}" --optimizer adam --lamb-max-coeff 1
refused "--lamb-min-coeff 2 is more than --lamb-max-coeff 1" "${run[@]}" --lamb-max-coeff 1 --lamb-min-coeff 2

# on a GPU
[ "${TX_GPU_MODULE_32:?}" != none ] || { echo "skipped: no emulated GPU was built"; exit 77; }
export TX_GPU_MODULE=$TX_GPU_MODULE_32
trains() { # NAME BOUND FLAG...: cpu and gpu
    local name=$1 bound=$2 device
    shift 2
    for device in cpu gpu; do
        ok "${run[@]}" "$@" --device $device
        numbers out >"$name.$device"
        [ -s "$name.$device" ] || die "$name: no losses"
    done
    paste "$name.cpu" "$name.gpu" | awk -v d="$bound" '{ for (k = 1; k < 3; k++) { e = $k - $(k + 2); if (e > d || -e > d) bad = 1 } }
        END { exit bad || NF != 4 }' || { paste "$name.cpu" "$name.gpu" >&2; die "$name differs by more than $bound"; }
}
trains fp32 2e-4
trains bf16 2e-2 --bf16
trains fp16 2e-2 --fp16 --initial-loss-scale 4096 --lamb-bias-correction moments --lamb-eps-inside-sqrt
trains zero1 2e-4 --zero-stage 1 --offload-optimizer cpu
trains zero3 2e-4 --zero-stage 3 --offload-optimizer cpu --offload-param cpu
trains disk 2e-2 --bf16 "${to_disk[@]}"
cmp zero1.cpu whole.numbers || die "offloaded on a host alone it has other numbers"
ok "${run[@]}" --device gpu --fp16 --initial-loss-scale 1e12 --train-iters 3
grep -q "a gradient overflowed at loss scale" out err || die "no step was skipped"
echo "all passed"
