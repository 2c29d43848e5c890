#!/bin/bash
# labels: extended parallel root
# Training over several hosts gives the losses of one rank: by torchrun on each host, by deepspeed with a hostfile, and
# under Slurm by srun --mpi=pmix and by sbatch with the example for many nodes, its sizes reduced.
. "$(dirname "$0")/lib.sh"
unset TX_LAUNCH_PROGRAM
data=${TX_DATA:?}/dataset/tiny_text_document
flags="--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --micro-batch-size 1 --global-batch-size 8 --train-samples 32 --lr 1e-3 --min-lr 1e-4 --lr-decay-style linear
    --tokenizer-type NullTokenizer --vocab-size 50257 --data-path $data --split 80,10,10 --log-interval 1 --eval-iters 1
    --eval-interval 100 --hidden-dropout 0.1 --attention-dropout 0.1 --threads 1 --step-timeout 20"

# What the run tells of its steps, the last digits of the loss cut off: ranks sum in another order.
steps() { grep -oE ' iteration +[0-9]+/.*lm loss: [0-9.]+E[-+][0-9]+|lm loss value: [0-9.]+E[-+][0-9]+' "$1" |
    sed -E 's/elapsed[^|]*\|//; s/[0-9](E[-+][0-9]+)/\1/'; }
same() { [ "$(steps "$1" | wc -l)" -ge 4 ] && [ "$(steps "$1")" = "$(steps one)" ] || { cat "$1"; steps one; die "$2 trains another model"; }; }

"$TRIAX" pretrain-gpt $flags >one 2>&1 || { cat one; die "one rank"; }

hosts_up 4
job 2 --nproc_per_node 2 pretrain_gpt.py $flags --tensor-model-parallel-size 2 --sequence-parallel --save ck --save-interval 2
wait
[ "$(codes 0 1)" = "0 0 " ] || { cat out*; die "torchrun on two hosts: $(codes 0 1)"; }
same out0 "torchrun on two hosts"
has '4 ranks on 2 hosts' out0
"$TRIAX" inspect ck --verify >inspect 2>&1 || { cat inspect; die "the checkpoint of two hosts"; }

printf 'node%d slots=2\n' 0 1 2 3 >hostfile
on 0 "$TRIAX" deepspeed --hostfile hostfile --launcher_args "--mca plm_rsh_agent $here/agent.sh" pretrain_gpt.py $flags \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 >deepspeed 2>&1 || { cat deepspeed; die "deepspeed"; }
same deepspeed "deepspeed on four hosts"
has '8 ranks on 4 hosts' deepspeed

under_slurm() {
    . "$here/slurm.sh"
    slurm_up 4
    start srun on 0 srun --mpi=pmix -N4 --ntasks-per-node=1 "$TRIAX" pretrain-gpt $flags --pipeline-model-parallel-size 4
    [ "$(cat srun.code)" = 0 ] || { cat srun.out; die "srun --mpi=pmix"; }
    same srun.out "srun --mpi=pmix"
    on 0 srun -N2 --ntasks-per-node=1 "$TRIAX" pretrain-gpt $flags >lone 2>&1 && die "srun without --mpi=pmix trains two models"
    has 'give srun --mpi=pmix' lone
    for form in 2 1; do
        for try in 1 2 3 4 5; do
            NPROC=2 TP=2 PP=2 DATA_PATH=$data CHECKPOINT_PATH=$work/ck13 timeout 60 bash "$here/on_host.sh" node0 \
                sbatch -W --nodes=2 --ntasks-per-node=$form --output="slurm$form" "$here/../../examples/slurm_13b.sh" $flags \
                --lr-decay-samples 32 --lr-warmup-samples 0 --global-batch-size 8 --rampup-batch-size 8 8 1 --train-samples 32 \
                --save-interval 4 >out 2>&1
            crashed "slurm$form" || break
        done
        grep -qE 'iteration +4/ +4 .*lm loss' "slurm$form" || { cat out "slurm$form" | tail -40; die "slurm_13b.sh, $form tasks a node"; }
        rm -rf "$work/ck13"
    done
}
if ( . "$here/slurm.sh" ) >/dev/null 2>&1; then under_slurm; else echo "no Slurm here: that part is left out"; fi

# A host that cannot be reached any more is named, and the job ends on the others: after 10 s by the step's limit, or, where
# the launcher's link is first, after 14 s and the 13 s that MPI's daemons have until they are killed.
job 3 --nproc_per_node 1 pretrain_gpt.py ${flags/--train-samples 32/--train-samples 800000} --micro-batch-size 1 --global-batch-size 6 \
    --step-timeout 10
for i in $(seq 600); do grep -qE 'iteration +5/' out0 && break; sleep 0.1; done
ip -n "${tag}2" link set eth0 down
began=$SECONDS
wait
[ $((SECONDS - began)) -le 35 ] || die "a link that is down ended the job only after $((SECONDS - began)) s"
has 'node2 does not answer any more|rank 2 is on host node2' out0 # by the launcher, or by the ranks' own limit
[ -z "$(left_over)" ] || die "left: $(left_over)"

echo "passed in $SECONDS s"
