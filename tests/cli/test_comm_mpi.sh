#!/bin/bash
# labels: extended parallel fault
# Groups of ranks as processes: through shared memory, and as if each rank had a host of its own; how a job ends.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
job=$build/comm_ranks

for n in 2 4; do
    all_ranks $n "$job" all
    all_ranks $n "$job" all hosts
done
all_ranks 3 "$job" all
all_ranks 3 "$job" all hosts

all_ranks 3 "$job" seats
[ "$(tr '\n' ';' <out)" = "rank 0: host 0, 0 of 3;rank 1: host 0, 1 of 3;rank 2: host 0, 2 of 3;" ] || die "$(cat out)"
all_ranks 2 "$job" seats hosts
[ "$(tr '\n' ';' <out)" = "rank 0: host 0, 0 of 1;rank 1: host 1, 0 of 1;" ] || die "$(cat out)"
"$job" all || die "alone"

# An error, a rank that is stopped: one message, that rank's own or one that names it.
all_ranks 4 "$job" one-is-slow
for where in "" hosts; do
    ranks_fail "comm_ranks: rank 1: the disk is full" 4 "$job" one-fails $where
done
ranks_fail "comm_ranks: rank 0: rank 3 has not reached barrier #1 of the world group within 2 s; rank 3 was last seen reading data" \
    4 "$job" one-stops
ranks_fail "comm_ranks: rank 0: rank 3 has not reached barrier #1 of the world group within 2 s; rank 3 is on host" \
    4 "$job" one-stops hosts

# Rows that do not agree; a message that is too long is MPI's to tell.
for where in "" hosts; do
    ranks_fail "comm_ranks: rank 0: rank 1 sends 1900 rows in all-to-all #0 of the world group, rank 0 expects 1901" \
        2 "$job" sends-less $where
done
ranks_fail "comm_ranks: rank 0: rank 1 sends 1900 rows in all-to-all #0 of the world group, rank 0 expects 1899" \
    2 "$job" sends-more
ranks_fail "comm_ranks: rank 0: rank 1 sends what does not fit (MPI: MPI_ERR_TRUNCATE" 2 "$job" sends-more hosts

# A rank that is killed ends the job within 10 s, and nothing stays behind.
for where in "" hosts; do
    : >pids # read below, maybe before mpirun opens it
    timeout -k 5 120 mpirun -n 4 "$job" loop $where >pids 2>err </dev/null &
    mpirun=$!
    for _ in $(seq 600); do
        [ "$(wc -l <pids)" -eq 4 ] && break
        sleep 0.1
    done
    [ "$(wc -l <pids)" -eq 4 ] || { cat err >&2; die "loop: $(wc -l <pids) of 4 ranks started"; }
    sleep 0.3
    start=$SECONDS
    kill -9 "$(sed -n 3p pids)"
    wait $mpirun && die "loop: succeeds though a rank was killed"
    [ $((SECONDS - start)) -le 10 ] || die "loop: ended after $((SECONDS - start)) s"
    for pid in $(cat pids); do # one that mpirun has killed may need a moment to give its memory back
        for _ in $(seq 100); do
            state=$(sed -nE 's/^State:\s+(\S).*/\1/p' "/proc/$pid/status" 2>/dev/null || true)
            [ -z "$state" ] || [ "$state" = Z ] && continue 2
            sleep 0.1
        done
        die "loop: process $pid is left behind: $(tr '\0' ' ' <"/proc/$pid/cmdline"), state $state"
    done
done

# What cannot be: MPI that knows nothing of the launcher's other ranks, no module, a wrong one.
fails() {
    local text=$1
    shift
    if env "$@" >out 2>err; then die "$*: succeeds"; fi
    grep -qF -- "$text" err || { cat err >&2; die "$*: does not say \"$text\""; }
}
fails "counts 1: they would be 4 jobs" PMI_RANK=2 PMI_SIZE=4 "$job" seats
fails "cannot be loaded" PMI_RANK=2 PMI_SIZE=4 TX_MPI_PLUGIN=/nowhere/libtriax_mpi.so "$job" seats
