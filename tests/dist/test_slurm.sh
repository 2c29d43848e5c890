#!/bin/bash
# labels: extended parallel fault root
# A Slurm of four nodes: srun --mpi=pmix by hand and by triax deepspeed, torchrun once per node, and a lost node.
. "$(dirname "$0")/lib.sh"
. "$here/slurm.sh"
hosts_up 4
slurm_up 4

# one task per rank, without a launcher of ours
start tasks on 0 srun --mpi=pmix -N4 --ntasks-per-node=2 "$RANK_HELLO" pretrain-gpt --x
[ "$(cat tasks.code)" = 0 ] || { cat tasks.out; die "srun --mpi=pmix"; }
[ "$(grep -c '^rank . of 8 on node[0-3] .* sum 28 ' tasks.out)" -eq 8 ] || { cat tasks.out; die "not eight ranks"; }

# a batch script: deepspeed finds the allocation; then one torchrun per node, as published scripts start them
cat >job.sh <<J
#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=2
. "$here/again.sh"
start deepspeed "$TRIAX" deepspeed pretrain_gpt.py --d
head=\$(scontrol show hostnames "\$SLURM_JOB_NODELIST" | head -1)
start torchrun srun --ntasks=3 --ntasks-per-node=1 "$TRIAX" torchrun --nnodes 3 --nproc_per_node 2 --rdzv_backend c10d \
    --rdzv_id "\$SLURM_JOB_ID" --rdzv_endpoint "\$head:29503" pretrain_gpt.py --t
start numbered srun --mpi=pmix --ntasks=3 --ntasks-per-node=1 "$TRIAX" torchrun --nnodes 3 --nproc_per_node 2 --master_addr "\$head" \
    pretrain_gpt.py --u
for try in 1 2 3 4 5; do
    "$TRIAX" deepspeed pretrain_gpt.py --sleep 50 --saves saved >saves.out 2>&1 & pid=\$!
    for i in \$(seq 100); do [ "\$(grep -c '^rank . of 6' saves.out)" -eq 6 ] || crashed saves.out && break; sleep 0.1; done
    kill -TERM \$pid; wait \$pid; echo \$? >saves.code
    crashed saves.out || break
done
start fail "$TRIAX" deepspeed pretrain_gpt.py --fail 3 7 --sleep 50
J
timeout 90 bash "$here/on_host.sh" node0 sbatch -W --output=job.out job.sh >out 2>&1 || { cat out job.out *.out; die "sbatch"; }
for form in deepspeed torchrun numbered; do
    [ "$(cat $form.code)" = 0 ] && [ "$(grep -c '^rank . of 6 on node[0-3] .* sum 15 ' $form.out)" -eq 6 ] ||
        { cat job.out $form.out; die "$form in a batch script"; }
done
[ "$(cat saves.code)" = 0 ] && [ "$(cat saved)" = saved ] || { cat saves.out; die "SIGTERM to deepspeed: $(cat saves.code)"; }
[ "$(cat fail.code)" = 7 ] || { cat fail.out; die "deepspeed's exit code is $(cat fail.code), not the rank's 7"; }

[ "$(last fail.out)" = "rank 3 fails on purpose" ] || { cat fail.out; die "the rank's own message is not the last"; }

# the example in its two forms; srun cuts long lines into pieces that mix
example_ran() { # FILE RANKS LAST
    has "rank $3 of $2 on node1 " "$1"
    [ "$(grep -o -- '\[--x\]' "$1" | wc -l)" -eq "$2" ] || { cat "$1"; die "$1: flags are missing"; }
}
TRIAX=$RANK_HELLO timeout 20 bash "$here/on_host.sh" node0 sbatch -W --nodes=2 --ntasks-per-node=2 --output=ex1 "$here/../../examples/slurm_13b.sh" --x >out 2>&1
example_ran ex1 4 3
NPROC=3 timeout 20 bash "$here/on_host.sh" node0 sbatch -W --nodes=2 --ntasks-per-node=1 --output=ex2 "$here/../../examples/slurm_13b.sh" --x >out 2>&1
example_ran ex2 6 5

# a node is lost: Slurm puts the job back into the queue, and it runs on the others
cat >lost.sh <<J
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --requeue --exclude=node0
seconds=60
[ "\${SLURM_RESTART_COUNT:-0}" -gt 0 ] && seconds=0
"$TRIAX" deepspeed --num_gpus 1 pretrain_gpt.py --sleep \$seconds >lost.out.\${SLURM_RESTART_COUNT:-0} 2>&1; echo \$? >lost.code.\${SLURM_RESTART_COUNT:-0}
J
id=$(on 0 sbatch --parsable --output=lost.log lost.sh) || die "sbatch"
for i in $(seq 100); do grep -q '^rank 1 of 2' lost.out.0 2>/dev/null && break; sleep 0.1; done
has '^rank 1 of 2 on node2 ' lost.out.0
ip -n "${tag}2" link set eth0 down
for pid in $(ip netns pids "${tag}2"); do kill -9 "$pid"; done
for i in $(seq 250); do
    on 0 scontrol update JobId="$id" StartTime=now >/dev/null 2>&1 # else it is held for minutes
    [ -s lost.code.1 ] && break
    sleep 0.2
done
[ "$(cat lost.code.1 2>/dev/null)" = 0 ] || { cat lost.* slurm/ctld.log | tail -50; die "the job did not run again"; }
has '^rank 1 of 2 on node3 ' lost.out.1
echo "passed in $SECONDS s"
