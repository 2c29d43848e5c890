#!/bin/bash
# labels: cli parallel
# OMPI_MCA_ variables that published scripts set, on a host without such a network: a run goes on without it and says so, or
# ends with a sentence that names the variable and the cure.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
unset OMPI_MCA_pml OMPI_MCA_btl OMPI_MCA_osc OMPI_MCA_mtl OMPI_MCA_coll
run=(pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1
    --global-batch-size 2 --lr 1e-3 --train-iters 2 --tokenizer-type NullTokenizer --vocab-size 50257 --data-path
    "$data/dataset/tiny_text_document" --split 8,1,1 --eval-iters 0 --log-interval 1 --threads 1)
has_network() { [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; }

# goes_on LAUNCHER... -- [TEXT]: both ranks train, and that is said once (by nobody, without TEXT)
goes_on() {
    local how=()
    while [ "$1" != -- ]; do how+=("$1"); shift; done
    timeout -k 5 120 "${how[@]}" "${run[@]}" >out 2>err </dev/null || { cat out err >&2; die "${how[*]}, $(env | grep OMPI_MCA_): exit $?"; }
    [ "$(losses out | wc -l)" -eq 2 ] || { cat out err >&2; die "${how[*]}: not two iterations"; }
    has_network && return
    [ "$(grep -c 'this host has no such network' err)" -eq $(($# - 1)) ] || { cat err >&2; die "${how[*]}, $(env | grep OMPI_MCA_): said wrongly"; }
    [ $# -eq 1 ] || grep -qF -- "$2: this host has no such network, and Open MPI sends by shared memory and TCP; unset" err || { cat err >&2; die "not \"$2\""; }
}
by_hand=(mpirun -n 2 "$TRIAX") torchrun=("$TRIAX" torchrun --nproc_per_node 2)
goes_on "${torchrun[@]}" --
export OMPI_MCA_btl=^openib OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx # as guides for AMD's GPUs have them
goes_on "${torchrun[@]}" -- "warning: OMPI_MCA_pml=ucx"
# with all that such a guide sets, and its launcher as it is typed there
(
    export HIP_VISIBLE_DEVICES=0,1,2,3 CUDA_VISIBLE_DEVICES=0,1,2,3 NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=^lo HSA_ENABLE_SDMA=0
    goes_on "$TRIAX" python -m torch.distributed.launch --nproc_per_node 2 --nnodes 1 --node_rank 0 --master_addr localhost \
        --master_port 6000 -- "warning: OMPI_MCA_pml=ucx"
)
goes_on "${by_hand[@]}" -- "warning: OMPI_MCA_pml=ucx"
unset OMPI_MCA_btl OMPI_MCA_osc
OMPI_MCA_pml=cm goes_on "${by_hand[@]}" -- "warning: OMPI_MCA_pml=cm"
OMPI_MCA_pml=ob1 goes_on "${by_hand[@]}" --
unset OMPI_MCA_pml
for list in openib openib,self self,openib; do
    OMPI_MCA_btl=$list goes_on "${by_hand[@]}" -- "warning: OMPI_MCA_btl=$list"
done
OMPI_MCA_btl=self,vader,openib goes_on "${by_hand[@]}" --

# ends TEXT LAUNCHER...: with that sentence
ends() {
    local text=$1
    shift
    ! timeout -k 5 120 "$@" "${run[@]}" >out 2>err </dev/null || die "$*: succeeds with a transport that there is not"
    grep -qF -- "$text" err || { cat err >&2; die "$*: does not say \"$text\""; }
}
for launcher in by_hand torchrun; do
    declare -n how=$launcher
    for set in pml=nonsense btl=nonsense,self coll=hcoll osc=nonsense; do
        name=${set#*=} name=${name%,self}
        export "OMPI_MCA_$set"
        ends "OMPI_MCA_$set: this host's Open MPI has no \"$name\" (ompi_info lists what it has); unset the variable" "${how[@]}"
        [ "$(grep -c "MPI does not start" err)" -eq 1 ] || { cat err >&2; die "OMPI_MCA_$set: not one sentence"; }
        ! grep -q 'component was not found' err || { cat err >&2; die "OMPI_MCA_$set: ends in Open MPI's words"; }
        unset "OMPI_MCA_${set%=*}"
    done
done
# here the words are Open MPI's own, by which the launcher knows; a busy host may lose them on their way through mpirun
(OMPI_MCA_btl=self ends "error: Open MPI has not started; OMPI_MCA_btl=self may ask for what a host has not: unset it" "${torchrun[@]}") ||
    grep -q 'show_help' err || exit 1
echo "all passed"
