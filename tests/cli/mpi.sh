# mpi.sh - sourced after lib.sh by tests that start ranks as processes: as root, more ranks than cores, nothing bound.
command -v mpirun >/dev/null || { echo "skipped: there is no mpirun (Debian: openmpi-bin)"; exit 77; }
mpirun --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE' || { echo "skipped: mpirun is not Open MPI's"; exit 77; }
build=$(dirname "$TRIAX")
[ -e "$build/libtriax_mpi.so" ] || { echo "skipped: built without MPI (Debian: libopenmpi-dev)"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
export ASAN_OPTIONS=detect_leaks=0 # Open MPI's own

# ranks N COMMAND...: as N ranks, bounded in time; output in ./out and ./err. Returns its exit code.
ranks() {
    local n=$1
    shift
    timeout -k 5 120 mpirun -n "$n" "$@" >out 2>err </dev/null
}

# all_ranks N COMMAND...: must succeed.
all_ranks() {
    ranks "$@" || { local code=$?; cat out err >&2; die "mpirun -n $* (exit $code)"; }
}

# ranks_fail TEXT N COMMAND...: must end with a failure, and say TEXT in exactly one line of the program's.
ranks_fail() {
    local text=$1
    shift
    ranks "$@" && die "mpirun -n $*: succeeds"
    grep -qF -- "$text" err || { cat err >&2; die "mpirun -n $*: does not say \"$text\""; }
    [ "$(grep -c '^comm_ranks: ' err)" -eq 1 ] || { cat err >&2; die "mpirun -n $*: not one message"; }
}
