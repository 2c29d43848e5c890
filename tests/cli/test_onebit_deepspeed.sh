#!/bin/bash
# labels: cli parallel resume convert
# The states of 1-bit Adam, 0/1 Adam and 1-bit LAMB in folders of DeepSpeed's: with one rank, which leaves nothing out, a run
# that goes on from one has the bits of the run that was never stopped, saved so or converted there and back.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
small_data 31

train() { # OUT RANKS FLAGS...
    local ranks=
    [ "$2" -eq 1 ] || ranks="torchrun --nproc-per-node $2"
    timeout 120 "$TRIAX" $ranks pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 \
        --seq-length 8 --max-position-embeddings 8 --tokenizer-type NullTokenizer --vocab-size 31 --data-path small_text_document \
        --micro-batch-size 2 --global-batch-size 4 --train-iters 12 --lr 1e-3 --log-interval 1 --eval-interval 100 --eval-iters 0 \
        --threads 1 "${@:3}" >"$1" 2>&1 || { cat "$1" >&2; die "training: ${*:2}"; }
}
sums() { (cd "$1/iter_0000012" && sha256sum ./*.safetensors); }

adam="--optimizer onebitadam --onebit-freeze-step 5"
zeroone="--optimizer zerooneadam --var-freeze-step 4 --var-update-scaler 2 --local-step-scaler 1 --local-step-clipper 4"
lamb="--optimizer onebitlamb --onebit-freeze-step"
i=0
for how in "$adam" "$adam --bf16 --no-pipeline-parallel" "$zeroone --fp16 --initial-loss-scale 1024 --no-pipeline-parallel" \
    "$zeroone" "$lamb 10" "$lamb 5 --fp16 --initial-loss-scale 1024 --no-pipeline-parallel"; do
    i=$((i + 1))
    train out 1 $how --save "n$i" --save-interval 8
    train out 1 $how --save "d$i" --save-interval 8 --save-format deepspeed --exit-interval 8
    train out 1 $how --load "d$i" --save "from_d$i" --save-interval 100
    [ "$(sums "from_d$i")" = "$(sums "n$i")" ] || die "a run that goes on from DeepSpeed's folder has other bits: $how"
    case "$how" in *pipeline*) continue ;; esac
    ok convert --to deepspeed --target-zero-stage 0 "n$i/iter_0000008" "c$i"
    ok convert --to native "c$i" "b$i"
    train out 1 $how --load "b$i" --save "from_b$i" --save-interval 100
    [ "$(sums "from_b$i")" = "$(sums "n$i")" ] || die "a run that goes on after two conversions has other bits: $how"
done
for how in "$adam" "$zeroone" "$lamb 5"; do
    rm -rf two
    train out 2 $how --save two --save-interval 7 --save-format deepspeed --exit-interval 7
    grep 'errors of compression of 2 data-parallel ranks are not saved' out >word || { cat out; die "no word on saving: $how"; }
    train out 2 $how --load two
    grep 'has no errors of compression of 2 data-parallel ranks' out >word || { cat out; die "no word on errors: $how"; }
    rm -rf kept without
    train out 2 $how --save kept --save-interval 7 --exit-interval 7
    ok convert --to deepspeed --target-zero-stage 0 kept/iter_0000007 without
    cat out err | grep 'its errors of compression are left out' >word || { cat out err; die "no word on converting: $how"; }
done
refused 'which DeepSpeed refuses with ZeRO' convert --to deepspeed --target-zero-stage 1 n1/iter_0000008 x
refused "pipeline engine would give each rank a part" convert --to deepspeed --target-zero-stage 0 --target-pipeline-engine --dtype bf16 \
    n2/iter_0000008 x
