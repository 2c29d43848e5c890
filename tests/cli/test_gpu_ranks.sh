#!/bin/bash
# labels: extended cli parallel
# Several ranks on GPUs, which where there are none are emulated: tensor, pipeline and data parallelism and ZeRO come to
# what one rank does on one GPU; what they say of where they compute.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
export TX_GPU_MODULE=${TX_GPU_MODULE_32:?}
[ "$TX_GPU_MODULE" != none ] || { echo "skipped: no emulated GPU was built"; exit 77; }

for end in bin idx; do cp "$data/dataset/tiny_text_document.$end" text.$end; done
train=(pretrain-gpt --device gpu --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16
    --max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 4 --lr 2e-3 --lr-decay-style cosine
    --lr-warmup-iters 2 --lr-decay-iters 6 --train-iters 6 --clip-grad 1.0 --weight-decay 0.1 --hidden-dropout 0.1
    --attention-dropout 0.1 --tokenizer-type NullTokenizer --vocab-size 511 --make-vocab-size-divisible-by 384
    --data-path text --split 8,1,1 --log-interval 1 --eval-interval 3 --eval-iters 1 --threads 1)

# numbers FILE: what a run's log says of it, a line each: iteration loss norm, or "valid" loss
numbers() {
    sed -nE -e 's/^ iteration +([0-9]+)\/.*lm loss: (\S+) .*grad norm: (\S+) .*/\1 \2 \3/p' \
        -e 's/.*lm loss value: (\S+) .*/valid \1 0/p' "$1"
}

# same_run WHAT A B BOUND: losses within BOUND of each other, as a part of them; norms but for ten times that
same_run() {
    [ -s "$3" ] && [ "$(wc -l <"$2")" -eq "$(wc -l <"$3")" ] || die "$1: not as many lines of numbers"
    paste -d' ' "$2" "$3" | awk -v bound="$4" '
        function off(a, b) { return a == b ? 0 : a < b ? b / a - 1 : a / b - 1 }
        { if ($1 != $4 || !(off($2, $5) <= bound) || !(off($3, $6) <= 10 * bound + 1e-3)) bad = 1 }
        END { exit bad }' || { paste "$2" "$3" >&2; die "$1: other numbers"; }
}

ok "${train[@]}" --save one --save-interval 3
numbers out >straight
grep -q "computes on GPU 0, .*emulated\|computes on GPU 0, " out || { cat out; die "does not say on which GPU"; }
ok "${train[@]}" --bf16
numbers out >straight_bf16
ok "${train[@]}" --optimizer lamb --lr 2e-2
numbers out >straight_lamb

# layout N FLAGS...: must be the run of one rank
layout() {
    local n=$1
    shift
    all_ranks "$n" "$TRIAX" "${train[@]}" "$@"
    numbers out >these
    case " $* " in
    *" --bf16 "*) same_run "$n ranks $*" straight_bf16 these 2e-3 ;;
    *" lamb "*) same_run "$n ranks $*" straight_lamb these 1e-5 ;;
    *) same_run "$n ranks $*" straight these 1e-5 ;;
    esac
}
tp=--tensor-model-parallel-size
pp=--pipeline-model-parallel-size
layout 2 $tp 2
[ "$(grep -cE 'rank +[01]: .*\| GPU 0, .*, shared by 2 ranks' out)" -eq 2 ] || { cat out; die "the table does not show the GPU"; }
grep -q "the tensor-parallel group's tensors go by way of the host's memory" out || { cat out; die "does not say how tensors go"; }
layout 2 $pp 2
layout 2
layout 2 --zero-stage 1
layout 2 --zero-stage 2
layout 2 --zero-stage 3
layout 4 $tp 2 $pp 2 --sequence-parallel --recompute-granularity full --recompute-method uniform
layout 4 $tp 2 --zero-stage 3 --bf16
layout 2 --zero-stage 2 --bf16 --offload-optimizer cpu
lamb=(--optimizer lamb --lr 2e-2) # norms of tensors that several ranks have parts of
layout 2 "${lamb[@]}" $tp 2
layout 2 "${lamb[@]}" --zero-stage 1 --offload-optimizer cpu
layout 4 "${lamb[@]}" $tp 2 --zero-stage 3

# saved by one layout, gone on with by another
all_ranks 2 "$TRIAX" "${train[@]}" --zero-stage 3 --exit-interval 3 --save saved --save-interval 3
all_ranks 2 "$TRIAX" "${train[@]}" $tp 2 --load saved
numbers out >these
tail -n +5 straight >rest
same_run "a checkpoint of ZeRO 3 as TP 2" rest these 1e-5

# generation and evaluation
model=(--load "$data/golden/generation/model" --vocab-file "$data/tiny/tiny-vocab.json" --merge-file "$data/tiny/tiny-merges.txt")
generate=(generate "${model[@]}" --prompt 'First Citizen:' --greedy --max-new-tokens 8 --output-tokens --device gpu)
ok "${generate[@]}"
cp out alone
all_ranks 2 "$TRIAX" "${generate[@]}" $tp 2
cmp out alone || die "other tokens are generated"

# a library with several ways to multiply: all ranks take the same, and a run that goes on takes those of the one before,
# whatever it would choose by itself
products() {
    [ "${TX_GPU_MODULE_LT:-none}" != none ] || return 0
    export TX_GPU_MODULE=$TX_GPU_MODULE_LT TX_BLASLT_LIBRARY=${TX_BLASLT_STAND_IN:?} BLASLT_STAND_IN_SLEEP_US=2000 TX_GPU_GEMM_TIMING=1
    local run=("$TRIAX" "${train[@]}" --eval-iters 0 --train-iters 4)
    all_ranks 2 "${run[@]}" --save whole --save-interval 4
    grep -q '^gemm ' whole/gpu_products.txt || die "the run's folder has no list of products"
    [ "$(grep -o 'gemm [0-9]' whole/iter_0000004/manifest.json | wc -l)" -eq "$(wc -l <whole/gpu_products.txt)" ] ||
        die "there were products that the dry run had not shown"
    mkdir parts
    cp whole/gpu_products.txt parts # else it would choose for itself, too
    all_ranks 2 "${run[@]}" --save parts --save-interval 2 --exit-interval 2
    rm parts/gpu_products.txt
    export TX_GPU_GEMM_TIMING=0
    all_ranks 2 "${run[@]}" --load parts --save parts --save-interval 4
    grep -q '[0-9] matrix products are made as parts/iter_0000002 says' out || { cat out; die "goes on with other products"; }
    for f in whole/iter_0000004/*; do
        cmp "$f" "parts/iter_0000004/${f##*/}" || die "a run that goes on has other bits: ${f##*/}"
    done
    all_ranks 2 "${run[@]}" --save first --save-interval 4 # by the library's first guesses
    cmp -s whole/iter_0000004/shard_00000.safetensors first/iter_0000004/shard_00000.safetensors && die "the way to multiply shows in no bit"
    rm -r whole/iter_0000004 whole/latest* # what is left is no checkpoint, and in no run's way
    all_ranks 2 "${run[@]}" --load whole --save whole --save-interval 4
    cmp whole/iter_0000004/shard_00000.safetensors parts/iter_0000004/shard_00000.safetensors || die "the folder's products are not used"
    echo x >>whole/gpu_products.txt
    ranks 2 "${run[@]}" --save whole --save-interval 4 && die "a damaged list of products is taken"
    grep -q "gpu_products.txt: the list of matrix products: line [0-9]* is not one of ours" err || { cat err; die "does not name the file"; }
}
(products) || exit 1

# what follows needs GPUs that come and go
[[ $TX_GPU_MODULE_32 == *emulated* ]] || { echo "all passed; ranks with a GPU each and without one: only emulated"; exit 0; }

# each with a GPU of its own
export TX_GPU_EMULATED_COUNT=2 TX_GPU_COMM=staged
layout 2
grep -qE 'rank +1: .*\| GPU 1, ' out || { cat out; die "two ranks do not take two GPUs"; }
grep -q ' TX_GPU_COMM=staged' out || { cat out; die "the environment is not shown"; }

unset TX_GPU_EMULATED_COUNT TX_GPU_COMM

# a rank without a GPU: all on the CPU, or an error that names it
cat >some.sh <<'END'
#!/bin/bash
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export TX_GPU_EMULATED_COUNT=0
exec "$@"
END
chmod +x some.sh
ranks 2 ./some.sh "$TRIAX" "${train[@]}" && die "succeeds though rank 1 has no GPU"
grep -q "there is no GPU to use" err || { cat err; die "does not say that there is no GPU"; }
all_ranks 2 ./some.sh "$TRIAX" "${train[@]}" --device auto
grep -q "rank 1 on host .* has no GPU to use, 1 of 2 ranks have one: all compute on the CPU" out err || die "auto with a rank without a GPU"
echo "all passed"
