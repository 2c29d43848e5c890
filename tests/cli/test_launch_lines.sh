#!/bin/bash
# labels: cli
# What triax deepspeed would start on other hosts and under Slurm, as --dry_run shows it; whom it refuses; and the shell by
# which mpirun reaches a host. No host is needed: tests/dist starts such jobs.
. "$(dirname "$0")/lib.sh"
export HOME=$work
unset OMPI_MCA_plm_rsh_agent DS_ENV_FILE NCCL_DEBUG CRAY_MPICH_DIR "${!SLURM_@}"
printf 'far-a slots=2\nfar-b slots=2\n' >hosts
run=(deepspeed --dry_run --hostfile hosts)

# shown TEXT...: ./out holds each
shown() {
    local text
    for text in "$@"; do grep -qF -- "$text" out || { cat out err >&2; die "not shown: $text"; }; done
}

# by mpirun and ssh
ok "${run[@]}" pretrain_gpt.py --x 1
shown "ranks 0-1        host far-a" "ranks 2-3        host far-b" "-np 4 --hostfile HOSTS " " pretrain-gpt --x 1" \
    " launch-agent --via 60 6 ssh -x -o BatchMode=yes -o ConnectTimeout=60'"
ok "${run[@]}" --ssh_port 2222 pretrain_gpt.py
shown " 8 ssh -x -o BatchMode=yes -o ConnectTimeout=60 -p 2222'"
ok "${run[@]}" --include far-b:0 pretrain_gpt.py
shown "rank 0           host far-b" "-np 1 " " launch-agent --slots far-b:0/2 "
ok "${run[@]}" --include far-b:1@far-a:0,1 pretrain_gpt.py
shown "ranks 0-1        host far-a" "rank 2           host far-b" " launch-agent --slots far-a:0,1/2@far-b:1/2 "
ok "${run[@]}" --exclude far-b pretrain_gpt.py
shown "ranks 0-1        host far-a" "-np 2 "
OMPI_MCA_plm_rsh_agent="ssh -q" ok "${run[@]}" --ssh_port 2222 pretrain_gpt.py
shown " launch-agent --via 60 2 ssh -q'"
ok "${run[@]}" --launcher_args "--mca plm_rsh_agent rsh --tag-output" pretrain_gpt.py
shown " launch-agent --via 60 1 rsh'" " --tag-output "
! grep -q -- "--mca plm_rsh_agent" out || die "mpirun is given the shell of its own as well"

# variables that go to other hosts: libraries', and those of the file
printf '# for all ranks\nA=1\nB=c d\n' >variables
mkdir folder
cp variables folder/.deepspeed_env
for file in variables folder "$work/variables"; do
    NCCL_DEBUG=1 DS_ENV_FILE=$file ok "${run[@]}" pretrain_gpt.py
    shown "env A=1 'B=c d' " " -x NCCL_DEBUG " " -x A -x B "
done
cp variables .deepspeed_env # in the home folder
ok "${run[@]}" pretrain_gpt.py
shown "env A=1 'B=c d' " " -x A -x B "
mkdir here # both files count, and where they differ the one of this folder; deepscale's file has a name of its own
printf 'B=here\nNCCL_DEBUG=2\n' >here/.deepspeed_env
printf 'C=3\n' >here/.deepscale_env
cd here
ok "${run[@]}" --hostfile ../hosts pretrain_gpt.py
shown "env A=1 B=here NCCL_DEBUG=2 C=3 " " -x A -x B -x NCCL_DEBUG -x C "
NCCL_DEBUG=1 ok "${run[@]}" --hostfile ../hosts pretrain_gpt.py
[ "$(grep -o -- '-x NCCL_DEBUG ' out | wc -l)" -eq 1 ] || { cat out; die "a variable of both is named twice"; }
cd ..

# what is handed on by itself: of triax, processors, GPUs, networks, and the folders of programs and libraries
names="OMP_SCHEDULE KMP_BLOCKTIME TRIAX_LAUNCH_KEY_FILE CUDA_CACHE_PATH HSA_ENABLE_SDMA HIP_LAUNCH_BLOCKING ROCR_VISIBLE_DEVICES ROCM_PATH
    AMD_LOG_LEVEL GPU_MAX_HW_QUEUES NCCL_SOCKET_IFNAME RCCL_MSCCL_ENABLE MIOPEN_USER_DB_PATH UCX_TLS FI_PROVIDER FI_CXI_ATS MPICH_GPU_SUPPORT_ENABLED
    PATH LD_LIBRARY_PATH"
for name in $names; do
    (export $name="${!name:-1}"; ok "${run[@]}" pretrain_gpt.py)
    shown " -x $name "
done
for name in PATHS MY_PATH HSAX LD_LIBRARY_PATH_64; do
    (export $name=1; ok "${run[@]}" pretrain_gpt.py)
    ! grep -q -- " -x $name " out || die "$name is handed on"
done
printf 'A=1\nexport B=2\n' >.deepspeed_env
refused ".deepspeed_env:2: \"export B=2\" is not NAME=VALUE" deepspeed --dry_run pretrain_gpt.py
rm .deepspeed_env

# under Slurm
export SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2
SLURM_TASKS_PER_NODE='4(x2)' ok deepspeed --dry_run pretrain_gpt.py
shown "8 ranks on 2 nodes of Slurm's job 7, 4 on each" "srun --mpi=pmix" "--nodes=2 --ntasks=8 --ntasks-per-node=4 "
shown "srun --mpi=pmix --export=ALL "
for other in SLURM_MPI_TYPE=pmi2 CRAY_MPICH_DIR=/opt/cray/pe/mpich; do # ranks that find each other in another way
    (export $other SLURM_TASKS_PER_NODE=2; ok deepspeed --dry_run pretrain_gpt.py)
    ! grep -q -- --mpi out || { cat out; die "$other: srun is given --mpi all the same"; }
done
SLURM_TASKS_PER_NODE=2 ok deepspeed --dry_run --launcher_args=--mpi=pmi2 pretrain_gpt.py
shown " --mpi=pmi2 "
! grep -q pmix out || die "--launcher_args=--mpi=pmi2 comes beside --mpi=pmix"
SLURM_TASKS_PER_NODE='4(x2)' ok deepspeed --dry_run --account project_1 --comment "a word" pretrain_gpt.py
shown " --account=project_1 '--comment=a word' "
SLURM_NTASKS_PER_NODE=3 ok deepspeed --dry_run --num_nodes 1 pretrain_gpt.py
shown "--nodes=1 --ntasks=3 --ntasks-per-node=3 "
ok "${run[@]}" --launcher srun pretrain_gpt.py
shown "--nodes=2 --ntasks=4 --ntasks-per-node=2 --nodelist=far-a,far-b "
ok "${run[@]}" pretrain_gpt.py # a hostfile that is named is for mpirun
shown "-np 4 --hostfile HOSTS "
ok "${run[@]}" --launcher srun --include far-a:1@far-b:0 pretrain_gpt.py
shown "--ntasks=2 --ntasks-per-node=1 --nodelist=far-a,far-b " " launch-agent --slots far-a:1/2@far-b:0/2 "
refused "srun starts as many ranks on each host, but of far-a there are 2 slots and of far-b 1" "${run[@]}" --launcher srun \
    --exclude far-b:0 pretrain_gpt.py
refused "--exclude chooses from a hostfile; of Slurm's allocation" deepspeed --dry_run --exclude far-a pretrain_gpt.py
refused "--num_nodes 3: the allocation has 2" deepspeed --dry_run --num_nodes 3 pretrain_gpt.py
refused "Slurm does not say how many tasks a node is to have" deepspeed --dry_run pretrain_gpt.py
SLURM_TASKS_PER_NODE='4,2' refused "Slurm does not say how many tasks" deepspeed --dry_run pretrain_gpt.py
SLURM_STEP_NUM_TASKS=2 refused "srun has started triax deepspeed 2 times" deepspeed --launcher slurm pretrain_gpt.py
unset "${!SLURM_@}"

ok "${run[@]}" --account a pretrain_gpt.py
grep -q -- '--account is for srun' err || die "--account without srun is left in silence"

# refused
refused "this is no Slurm allocation" deepspeed --launcher slurm pretrain_gpt.py
refused "--launcher mvapich: ranks are started by Open MPI's mpirun" deepspeed --launcher mvapich pretrain_gpt.py
refused "--include and --exclude cannot both be given" deepspeed --include a --exclude b pretrain_gpt.py
refused "cannot be given with --include or --exclude" deepspeed --include a --num_gpus 1 pretrain_gpt.py
refused "--no_ssh: other hosts are reached by ssh" "${run[@]}" --no_ssh pretrain_gpt.py
refused "none: cannot open" deepspeed --hostfile none pretrain_gpt.py

# the shell to a host
code=0
"$TRIAX" launch-agent --via 60 3 sh -c 'exit 3' far x 2>err || code=$?
[ $code -eq 3 ] || die "a shell that ended with 3: exit $code"
grep -qF "host far: nothing could be started there: sh ended with code 3" err || die "$(cat err)"
refused "host far does not answer: sh has started nothing there within 1 s" launch-agent --via 1 3 sh -c 'sleep 600' far x
ok launch-agent --via 60 3 sh -c true far x
refused "launch-agent is called by mpirun, not by people" launch-agent --via 60
refused "launch-agent is called by mpirun, not by people" launch-agent --via 60 3 sh
echo "all passed"
