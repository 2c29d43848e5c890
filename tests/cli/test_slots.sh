#!/bin/bash
# labels: cli parallel
# Slots that are chosen by number choose devices and cores: what each rank of triax deepspeed would take, told by a program in
# triax' place.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mpi.sh"
export HOME=$work TX_LAUNCH_PROGRAM=$work/probe
unset CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES TX_LAUNCH_GPUS DS_ENV_FILE "${!SLURM_@}"
cat >probe <<'P'
#!/bin/bash
echo "rank ${OMPI_COMM_WORLD_RANK:-0}: cuda ${CUDA_VISIBLE_DEVICES-none} hip ${HIP_VISIBLE_DEVICES-none} rocr ${ROCR_VISIBLE_DEVICES-none} cores $(
    awk '/^Cpus_allowed_list:/ { print $2 }' /proc/self/status)"
P
chmod +x probe
all=$(awk '/^Cpus_allowed_list:/ { print $2 }' /proc/self/status)

# takes "RANK: ..." FLAGS...: what the ranks print, sorted; "*" stands for cores that are not asked for
takes() {
    local expected=$1
    shift
    ok deepspeed "$@" pretrain_gpt.py
    grep '^rank [0-9]*:' out | sort -n -k 2 | tr '\n' ';' >took
    [[ $(cat took) == $expected ]] || { cat out err >&2; die "deepspeed $*: $(cat took), not $expected"; }
}

echo 'localhost slots=4' >hosts
takes "rank 0: cuda none hip none rocr none cores $all;*rank 3: cuda none hip none*" --hostfile hosts
takes "rank 0: cuda 1,3 hip 1,3 rocr none *rank 1: cuda 1,3 hip 1,3 *" --hostfile hosts --include localhost:1,3
takes "rank 0: cuda 0,2 hip 0,2 *rank 1: cuda 0,2 *" --hostfile hosts --exclude localhost:1@localhost:3
takes "rank 0: cuda 2 hip 2 *" --hostfile hosts --include localhost:2
takes "rank 0: cuda 0,1 hip 0,1 rocr none cores $all;rank 1: cuda 0,1 *" --hostfile hosts --num_gpus 2
ROCR_VISIBLE_DEVICES=4,5,6,7 takes "rank 0: cuda 3 hip 3 rocr 4,5,6,7 *" --hostfile hosts --include localhost:3
CUDA_VISIBLE_DEVICES= takes "rank 0: cuda  hip 3 *" --hostfile hosts --include localhost:3

# cores: as the table before the start says, the k-th of as many shares as the host has slots; other slots have other cores
ok deepspeed --dry-run --hostfile hosts --include localhost:0,3 pretrain_gpt.py
said=$(sed -nE 's/^ranks 0-1 +host [^ ]+ +slots 0,3 +cores ([0-9,-]+), ([0-9,-]+)$/\1 \2/p' out)
takes "rank 0: cuda 0,3 * cores ${said% *};rank 1: cuda 0,3 * cores ${said#* };" --hostfile hosts --include localhost:0,3
if [ "$(nproc)" -gt 1 ]; then
    [ "${said% *}" != "${said#* }" ] || die "the first and the last slot are on the same cores, $said"
    if [[ $all =~ ^0- ]]; then # on the cores of a whole machine without a hostfile a slot is a core
        takes "rank 0: cuda 1 hip 1 rocr none cores [1-9]*;" --include localhost:1
        takes "rank 0: cuda 0 hip 0 rocr none cores 0*;" --include localhost:0
    fi
fi

# what is set already names slots of this host, as --include would; flags that choose are the stronger
export TX_LAUNCH_GPUS=8
takes "rank 0: cuda 5,7 hip 5,7 rocr none *rank 1: cuda 5,7 *" --include localhost:5,7
for name in CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES; do
    export $name=5,7
    takes "rank 0: cuda 5,7 hip 5,7 rocr none *rank 1: cuda 5,7 *"
    takes "rank 0: cuda 0,1 hip 0,1 *" --num_gpus 2
    grep -qF "$name=5,7 is not looked at where slots are chosen by flags" err || { cat err >&2; die "$name is left in silence"; }
    grep -qF -- "--include localhost:5,7 chooses those" err || { cat err >&2; die "the cure is not said"; }
    export $name=6,8
    refused "$name=6,8: this host has 8 GPUs, 0 to 7" deepspeed pretrain_gpt.py
    export $name=GPU-aa,GPU-bb
    ok deepspeed pretrain_gpt.py
    [ "$(grep -c '^rank .* GPU-aa,GPU-bb ' out)" -eq 2 ] || { cat out; die "a list of UUIDs"; }
    unset $name
done
CUDA_VISIBLE_DEVICES=2 ok torchrun --dry-run --nproc_per_node gpu pretrain_gpt.py
! grep -q mpirun out || { cat out; die "torchrun --nproc_per_node gpu: not one rank for the one GPU that is shown"; }
ok torchrun --dry-run --nproc_per_node gpu pretrain_gpt.py
grep -q -- '-np 8 ' out || die "torchrun --nproc_per_node gpu: not a rank for each"

refused "--num_gpus 0 leaves no rank" deepspeed --num_gpus 0 pretrain_gpt.py
refused "--device cpu" deepspeed --num_gpus 0 pretrain_gpt.py
refused "--num_nodes 0 leaves no host" deepspeed --num_nodes 0 pretrain_gpt.py
refused 'called by triax deepspeed, not by people' launch-agent --slots localhost:1 probe
refused 'called by triax deepspeed, not by people' launch-agent --slots
refused 'cannot run nothing-here' launch-agent --slots localhost:0/1 nothing-here
echo "all passed"
