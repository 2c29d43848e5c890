#!/bin/bash
# labels: peer
# Universal checkpoints in both directions: a run goes on in DeepSpeed's engine from a folder of triax, through DeepSpeed's own
# ds_to_universal back to triax, and DeepSpeed's load_universal_checkpoint loads what triax wrote. The losses are those of
# the run that was not interrupted.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../cli/lib.sh"
if [ -z "${TX_PEER_PYTHON:-}" ] || ! "$TX_PEER_PYTHON" -c 'import torch, deepspeed' 2>/dev/null; then
    echo "SKIPPED: no comparison with DeepSpeed's engine; set TX_PEER_PYTHON to a Python that has torch and deepspeed"
    exit 77
fi
export DS_ACCELERATOR=cpu MASTER_PORT=${MASTER_PORT:-29617}

awk 'BEGIN { printf "{\"text\": \""; for (k = 0; k < 4096; k++) printf "%d ", k % 16; print "\"}" }' >turns.jsonl
ok preprocess-data --input turns.jsonl --output-prefix turns --tokenizer-type NullTokenizer --vocab-size 63
run() {
    ok pretrain-gpt --tokenizer-type NullTokenizer --vocab-size 63 --make-vocab-size-divisible-by 64 --data-path turns_text_document \
        --split 1,0,0 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
        --micro-batch-size 4 --global-batch-size 4 --lr 1e-3 --lr-decay-style constant --seed 3 --eval-iters 0 \
        --no-bias-gelu-fusion --attention-dropout 0 --hidden-dropout 0 --log-interval 1 --threads 1 --train-iters 9 "$@"
    losses out >mine
}

# engine WANT FROM TO STAGE RANKS STEPS WORDS...: its losses are those of WANT, from where it begins
engine() {
    local want=$1
    shift
    "$TX_PEER_PYTHON" "$here/universal_engine.py" "$@" >said 2>err || { tail -5 err >&2; die "DeepSpeed: $*"; }
    grep -E '^[0-9]+ [0-9.]+$' said >theirs
    near "$want" theirs "DeepSpeed $*"
}

# near WANT HAVE TEXT: three losses
near() {
    awk -v b=3e-6 'NR == FNR { loss[$1] = $2; next } { n++; d = loss[$1] - $2; if (d < 0) d = -d; if (!($1 in loss) || d > b) exit 1 }
        END { if (n != 3) exit 1 }' "$1" "$2" || { cat "$1" "$2" >&2; die "$3: other losses"; }
    echo "$3: the losses of the run that was not interrupted"
}

# back NAME: a universal folder universal-NAME of what the engine saved in back-NAME, by DeepSpeed's own converter
back() {
    "$TX_PEER_PYTHON" -m deepspeed.checkpoint.ds_to_universal --input_folder back-$1/global_step6 \
        --output_folder universal-$1/global_step6_universal --num_extract_workers 1 --num_merge_workers 1 >said 2>&1 ||
        { tail -5 said >&2; die "ds_to_universal of $1"; }
}

run --save run --save-interval 3
mv mine whole1
cp whole1 whole2
run --save run3 --save-interval 3 --weight-decay 0 # with ZeRO-3 Megatron's decays nothing
mv mine whole3
for z in 1 2 3; do
    from=run/iter_0000003 wd=0.01
    [ $z = 3 ] && from=run3/iter_0000003 wd=0
    ok convert --to deepspeed --target-zero-stage $z --target-dp 2 --no-proof $from there$z
    engine whole$z there$z back-$z $z 2 3
    back $z
    run --load universal-$z --weight-decay $wd
    near whole$z mine "triax from ds_to_universal's, ZeRO-$z"
    ok convert --to universal --target-zero-stage $z --no-proof $from ours$z
    for ranks in 1 2; do engine whole$z ours$z off $z $ranks 3 universal; done
done
# two stages of DeepSpeed's pipeline engine
ok convert --to universal --target-pp 2 --no-proof run/iter_0000003 stages
engine whole1 stages back-stages 1 2 3 universal pipeline
back stages
run --load universal-stages
near whole1 mine "triax from ds_to_universal's, pipeline"

for o in sgd lion; do
    run --save $o --save-interval 3 --optimizer $o
    mv mine whole
    ok convert --to universal --no-proof $o/iter_0000003 of-$o
    engine whole of-$o off 1 2 3 universal $o
done
