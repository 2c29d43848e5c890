#!/bin/bash
# labels: parallel
# The module for MPI builds with MPICH, too, and two ranks run over it (not more: its waits do not yield).
. "$(dirname "$0")/lib.sh"
for tool in mpicc.mpich mpiexec.hydra; do
    command -v $tool >/dev/null || { echo "skipped: there is no $tool (Debian: libmpich-dev mpich)"; exit 77; }
done
root=$(cd "$(dirname "$0")/../.." && pwd) build=$(dirname "$TRIAX")
mpicc.mpich -std=c11 -Wall -Wextra -Werror -fPIC -shared -I "$root/src" "$root/src/comm/mpi_plugin/mpi_plugin.c" \
    -o libtriax_mpich.so || die "the module does not build with MPICH"
export TX_MPI_PLUGIN=$work/libtriax_mpich.so ASAN_OPTIONS=detect_leaks=0
for where in "" hosts; do
    timeout -k 5 120 mpiexec.hydra -n 2 "$build/comm_ranks" all $where || die "two ranks over MPICH $where (exit $?)"
done
