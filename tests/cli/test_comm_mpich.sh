#!/bin/bash
# labels: parallel
# Two ranks over MPICH (not more: its waits do not yield): the module for it is there where MPICH is, and is taken where MPICH's
# launcher has started the ranks, beside Open MPI's.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$TRIAX")
command -v mpiexec.hydra >/dev/null || { echo "skipped: there is no mpiexec.hydra (Debian: mpich)"; exit 77; }
[ -e "$build/libtriax_mpich.so" ] || { echo "skipped: built without MPICH (Debian: libmpich-dev)"; exit 77; }
unset TX_MPI_PLUGIN TX_MPI_LIBRARY "${!PMI_@}" "${!PMIX_@}" "${!OMPI_@}" "${!SLURM_@}"
export ASAN_OPTIONS=detect_leaks=0
two=(timeout -k 5 120 mpiexec.hydra -n 2)
for where in "" hosts; do
    "${two[@]}" "$build/comm_ranks" all $where >out 2>&1 || { cat out; die "two ranks over MPICH $where (exit $?)"; }
done
run=(pretrain-gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1
    --global-batch-size 2 --lr 1e-3 --train-iters 2 --tokenizer-type NullTokenizer --vocab-size 50257 --data-path
    "$data/dataset/tiny_text_document" --split 8,1,1 --eval-iters 0 --log-interval 1 --threads 1)
ok "${run[@]}"
losses out | cut -c1-8 >one
"${two[@]}" "$TRIAX" "${run[@]}" >out 2>err || { cat out err >&2; die "training over MPICH"; }
[ "$(losses out | cut -c1-8)" = "$(cat one)" ] || { cat one out; die "two ranks over MPICH train another model"; }
TX_MPI_PLUGIN=mpich "${two[@]}" "$build/comm_ranks" seats >out 2>&1 || { cat out; die "TX_MPI_PLUGIN=mpich"; }
[ "$(sort out | tr '\n' ';')" = "rank 0: host 0, 0 of 2;rank 1: host 0, 1 of 2;" ] || { cat out; die "seats"; }

# what cannot be
fails() { # TEXT VARIABLE...
    local text=$1
    shift
    ! env "$@" "${two[@]}" "$build/comm_ranks" seats >out 2>err || die "$*: succeeds"
    grep -qF -- "$text" err || { cat err >&2; die "$*: does not say \"$text\""; }
}
fails "TX_MPI_LIBRARY: /nowhere/libmpi.so: cannot open" TX_MPI_LIBRARY=/nowhere/libmpi.so
if [ -e "$build/libtriax_mpi.so" ]; then
    fails "MPICH's by its mpiexec or srun --mpi=pmi2; the module for either is libtriax_openmpi.so or libtriax_mpich.so" TX_MPI_PLUGIN=openmpi
fi
# beside another triax: no module for MPICH
mkdir elsewhere
ln "$build/comm_ranks" elsewhere/ranks 2>/dev/null || cp "$build/comm_ranks" elsewhere/ranks
code=0
PMI_RANK=0 PMI_SIZE=2 TX_MPI_PLUGIN=mpich elsewhere/ranks seats >out 2>err || code=$?
[ $code -ne 0 ] && grep -qF "there is no libtriax_mpich.so beside the program" err || { cat err >&2; die "a build without MPICH"; }
echo "all passed"
