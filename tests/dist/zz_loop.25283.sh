#!/bin/bash
# labels: parallel fault
# A Slurm of four nodes: srun --mpi=pmix by hand and by triax deepspeed, torchrun once per node, and a lost node.
. "$(dirname "$0")/lib.sh"
. "$here/slurm.sh"
hosts_up 4
slurm_up 4

ulimit -c unlimited
for k in $(seq 150); do
on 0 srun --mpi=pmix -N4 --ntasks-per-node=2 "$RANK_HELLO" pretrain-gpt --x >out 2>&1 || { cat out; echo "BAD $k"; for f in core*; do [ -f $f ] && { gdb -batch -ex "bt 14" /tmp/b-main/rank_hello $f 2>/dev/null | grep "^#"; rm -f $f; }; done; }
[ "$(grep -c '^rank . of 8 on node[0-3] .* sum 28 ' out)" -eq 8 ] || { cat out; echo "BAD not eight ranks $k"; }
done
