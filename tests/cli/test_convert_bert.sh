#!/bin/bash
# labels: cli golden
# A BERT of Megatron's goes on here with its own losses, from its folder and from what convert made of it; Hugging Face's
# there and back; what cannot be, and why.
. "$(dirname "$0")/lib.sh"
real=$data/upstream/bert_classic_tp1
same_run="--data-path $data/dataset/tinybert_text_document --vocab-file $data/tiny/tiny-bert-vocab.txt --split 949,50,1
    --seq-length 64 --micro-batch-size 2 --global-batch-size 8 --train-iters 20 --exit-interval 8 --lr 1e-3 --min-lr 1e-5
    --lr-decay-style linear --lr-warmup-fraction 0.1 --weight-decay 0.01 --hidden-dropout 0 --attention-dropout 0
    --log-interval 1 --eval-iters 0 --threads 1"
weights=iter_0000004/shard_00000.safetensors

# theirs KEY: the program's own losses of iterations 5 to 8
theirs() {
    sed -n '/"bert_classic_tp1"/,/^ }/p' "$data/upstream/losses.json" | sed -n "/\"$1\": {/,/}/s/^ *\"[5-8]\": \([0-9.e-]*\).*/\1/p"
}
theirs train >lm
theirs 'train sop' >sop
paste lm sop >want
[ "$(wc -w <want)" -eq 8 ] || die "losses.json has no bert_classic_tp1"

# goes_on FOLDER FLAGS...: both losses
goes_on() {
    local folder=$1
    shift
    ok pretrain-bert --load "$folder" $same_run "$@"
    sed -nE 's/^ iteration +[5-8]\/.*lm loss: ([0-9.E+-]+) \| sop loss: ([0-9.E+-]+).*/\1 \2/p' out >mine
    paste mine want | awk '{ for (k = 1; k < 3; k++) { d = $k - $(k + 2); if (d < 0) d = -d; if (d > 2e-5) exit 1 } }
        END { if (NR != 4) exit 1 }' || { paste mine want >&2; die "from $folder $*: other losses"; }
}
proved() {
    grep -q 'proof: 91 tokens through both models: .* likeliest token the same at 91 of 91' out || { cat out >&2; die "no proof of logits"; }
    grep -q "proof: 4 samples through both models: .* the binary head's logits" out || die "no proof of the binary head"
}

ok inspect "$real" --verify
grep -q '^ *model_type *"BERT"$' out || die "inspect does not say what model it is"
grep -q '^verified: 538374 of 538374 numbers were read, all of which are finite$' out || die "inspect does not verify"

# through every format that has it
goes_on "$real"
ok convert --to native "$real" native
proved
goes_on native
ok convert --to megatron --target-tp 2 --target-pp 2 native megatron
proved
goes_on megatron
ok convert --to deepspeed --target-tp 2 --target-dp 2 --target-zero-stage 2 megatron deepspeed
goes_on deepspeed
ok convert --to deepspeed --target-dp 3 --target-zero-stage 3 deepspeed deepspeed3
goes_on deepspeed3
ok convert --to universal deepspeed3 universal
goes_on universal
ok convert --to native universal again
cmp native/$weights again/$weights || die "weights and moments are others after five conversions"

# Hugging Face's two, and the one without the binary head
ok convert --to huggingface native pre
proved
grep -q '"MegatronBertForPreTraining"' pre/config.json || die "a pre-LayerNorm BERT is another class"
ok convert --to native pre pre-native
ok convert --to huggingface pre-native pre-again
cmp pre/model.safetensors pre-again/model.safetensors || die "MegatronBertForPreTraining comes back otherwise"
cp -r "$data/golden/bert" golden
cp "$data/tiny/tiny-bert-vocab.txt" golden/vocab.txt
ok convert --to native golden post
proved
ok convert --to huggingface post post-again
proved
grep -q '"BertForPreTraining"' post-again/config.json || die "a post-LayerNorm BERT is another class"
ok convert --to huggingface golden direct
cmp direct/model.safetensors post-again/model.safetensors || die "BertForPreTraining comes back otherwise"
cmp direct/vocab.txt golden/vocab.txt || die "its vocabulary did not come along"
refused "--post-layernorm" convert --to megatron post x
refused "pipeline engine does not have" convert --to deepspeed --target-pp 2 native x

# Megatron's default has two forms of GELU, Hugging Face's one hidden_act: large weights show it
small="--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64
    --micro-batch-size 2 --global-batch-size 4 --train-iters 1 --lr 1e-3 --eval-iters 0 --split 949,50,1
    --data-path $data/dataset/tinybert_text_document --vocab-file $data/tiny/tiny-bert-vocab.txt --save-interval 1"
ok pretrain-bert $small --init-method-std 1 --save fused
refused "its masked-LM head the erf form, and Hugging Face has one hidden_act for both" convert --to huggingface fused nearly
grep -q 'proof: .* largest difference of logits' out || die "the difference is not shown"
ok convert --no-proof --to huggingface fused accepted
grep -q '"hidden_act": "gelu_new"' accepted/config.json || die "another hidden_act"
grep -q 'its logits differ a little' err || die "nothing is said with --no-proof"
ok convert --to megatron fused fused-megatron
ok convert --to native fused-megatron fused-again
ok pretrain-bert $small --init-method-std 1 --no-bias-gelu-fusion --bert-no-binary-head --save single
ok convert --to huggingface single masked
grep -q '"MegatronBertForMaskedLM"' masked/config.json || die "without the binary head it is another class"
ok convert --to native masked masked-native
grep -q 'position_embeddings.weight *the first token type added -> copied' out || die "the segments go in silence"

# who goes on with text cannot be a BERT
refused "fill-mask" generate --load native --tokenizer-type BertWordPieceLowerCase --vocab-file "$data/tiny/tiny-bert-vocab.txt" --prompt the
[ ! -e x ] || [ -z "$(ls -A x)" ] || die "a refused conversion left something"
