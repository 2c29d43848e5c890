#!/bin/bash
# labels: extended parallel root
# MPICH under a real Slurm, of one node: srun --mpi=pmi2 by hand and by triax deepspeed train as one rank does; Open MPI under
# srun --mpi=pmix beside it takes its own module; one task a node starts torchrun by its old name, as sites without ssh do.
. "$(dirname "$0")/lib.sh"
[ -e "$(dirname "$TRIAX")/libtriax_mpich.so" ] || skip "built without MPICH (libmpich-dev)"
. "$here/slurm.sh"
unset TX_LAUNCH_PROGRAM TX_MPI_PLUGIN
data=${TX_DATA:?}/dataset/tiny_text_document
flags="--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1
    --global-batch-size 2 --lr 1e-3 --train-iters 3 --tokenizer-type NullTokenizer --vocab-size 50257 --data-path $data --split 8,1,1
    --eval-iters 0 --log-interval 1 --threads 1 --step-timeout 60"
steps() { grep -oE 'iteration +[0-9]+/.*lm loss: [0-9.]+E' "$1" | sed -E 's/[|].*[|] lm/lm/; s/[0-9]{2}E$//'; }
same() { # NAME: its exit code is 0, it has two ranks, and its losses are those of one
    [ "$(cat "$1.code")" = 0 ] && grep -q '2 ranks on 1 host' "$1.out" || { cat "$1.out"; die "$1: exit $(cat "$1.code")"; }
    [ "$(steps "$1.out" | wc -l)" -eq 3 ] && [ "$(steps "$1.out")" = "$(steps one)" ] || { cat "$1.out" one; die "$1 trains another model"; }
}
"$TRIAX" pretrain-gpt $flags >one 2>&1 || { cat one; die "one rank"; }

hosts_up 1
slurm_up 1
start pmi2 on 0 srun --mpi=pmi2 -N1 --ntasks=2 "$TRIAX" pretrain-gpt $flags
same pmi2
TX_MPI_PLUGIN=openmpi on 0 srun --mpi=pmi2 -N1 --ntasks=2 "$TRIAX" pretrain-gpt $flags >wrong 2>&1 && die "Open MPI finds MPICH's ranks"
has "MPI does not start: srun's --mpi=pmi2 is for MPICH, and this module is for Open MPI: give srun --mpi=pmix" wrong
start pmix on 0 srun --mpi=pmix -N1 --ntasks=2 "$TRIAX" pretrain-gpt $flags
same pmix
on 0 srun -N1 --ntasks=2 "$TRIAX" pretrain-gpt $flags >lone 2>&1 && die "srun without --mpi trains two models"
has 'give srun --mpi=pmix \(MPICH: --mpi=pmi2\)' lone

cat >job.sh <<J
#!/bin/bash
#SBATCH --nodes=1 --ntasks-per-node=2
. "$here/again.sh"
start deepspeed "$TRIAX" deepspeed --launcher_args=--mpi=pmi2 pretrain_gpt.py $(echo $flags)
SLURM_MPI_TYPE=pmi2 start chosen "$TRIAX" deepspeed pretrain_gpt.py $(echo $flags)
start launch srun --ntasks=1 "$TRIAX" python -u -m torch.distributed.run --nproc_per_node 2 --nnodes 1 --rdzv_id=\$SLURM_JOB_ID \\
    --rdzv_endpoint=node0:29512 --rdzv_backend c10d pretrain_gpt.py $(echo $flags)
J
timeout 120 bash "$here/on_host.sh" node0 sbatch -W --output=job.out job.sh >out 2>&1 || { cat out job.out ./*.out; die "sbatch"; }
for name in deepspeed chosen launch; do same $name; done

# the example for many nodes, its sizes reduced, with MPICH and something before the program
for try in 1 2 3 4 5; do
    rm -rf ck
    TP=2 PP=1 MPI=pmi2 CONTAINER="env IN_CONTAINER=yes" DATA_PATH=$data CHECKPOINT_PATH=$work/ck timeout 90 bash "$here/on_host.sh" node0 \
        sbatch -W --nodes=1 --ntasks-per-node=2 --output=example "$here/../../examples/slurm_13b.sh" ${flags/--train-iters 3/--train-samples 6} \
        --num-attention-heads 4 --global-batch-size 2 --lr-decay-samples 6 --lr-warmup-samples 0 --rampup-batch-size 2 2 1 --save-interval 3 >out 2>&1
    crashed example || break
done
grep -qE 'iteration +3/ +3 .*lm loss' example || { cat out example; die "slurm_13b.sh with MPI=pmi2"; }
echo "passed in $SECONDS s"
