#!/bin/bash
# labels: cli
# The launchers by every name that scripts call them by: modules, with python before them or without, and deepscale.
. "$(dirname "$0")/lib.sh"
export HOME=$work
unset OMPI_MCA_plm_rsh_agent DS_ENV_FILE TX_LAUNCH_PROGRAM "${!SLURM_@}"

# same WORDS... -- AS...: both would start the same command
same() {
    local words=()
    while [ "$1" != -- ]; do words+=("$1"); shift; done
    shift
    ok "$@"
    grep -v 'accepted, without effect' out >meant
    ok "${words[@]}"
    grep -v 'accepted, without effect' out | cmp -s meant - || { cat meant out >&2; die "triax ${words[*]} is not triax $*"; }
}

two=(--dry-run --nproc_per_node 2 --nnodes 1 --node_rank 0 --master_addr localhost --master_port 6000)
script=(pretrain_gpt.py --num-layers 24 -m --lr 1)
run=(torchrun "${two[@]}" "${script[@]}")
for module in torch.distributed.launch torch.distributed.run; do
    same $module "${two[@]}" "${script[@]}" -- "${run[@]}"
    for python in python python3 /opt/conda/bin/python3.10 "python -u" "python3 -W ignore -um" "python -X dev -OO -s"; do
        [ "${python%m}" = "$python" ] && python+=" -m"
        same $python $module "${two[@]}" "${script[@]}" -- "${run[@]}"
    done
    same python -m$module "${two[@]}" "${script[@]}" -- "${run[@]}"
done

# every flag that torch.distributed.launch documents, with dashes and with underscores
flags=(--nnodes=1 --node_rank=0 --nproc_per_node=2 --master_addr=127.0.0.1 --master_port=29500 --use_env --module --no_python --logdir logs)
same python -m torch.distributed.launch --dry_run "${flags[@]}" "${script[@]}" -- torchrun --dry-run --nproc-per-node 2 "${script[@]}"
flags=("${flags[@]//_/-}")
same python -m torch.distributed.launch --dry-run "${flags[@]}" "${script[@]}" -- torchrun --dry-run --nproc-per-node 2 "${script[@]}"
same torch.distributed.launch --dry-run --nproc_per_node=2 -m megatron.pretrain_gpt -- torchrun --dry-run --nproc-per-node 2 pretrain_gpt.py
refused "--nnodes 2 needs --master_addr HOST" python -m torch.distributed.launch --nnodes 2 pretrain_gpt.py

for name in deepscale "python -m deepspeed.launcher.runner" "python3 -m deepscale.launcher.runner"; do
    same $name --dry-run --num_gpus 2 "${script[@]}" -- deepspeed --dry-run --num_gpus 2 "${script[@]}"
done

# a script, and a module that is one
refused "needs --micro-batch-size" python -u pretrain_gpt.py
refused "needs --micro-batch-size" python3 x/pretrain_gpt.py
refused "needs " python tools/preprocess_data.py --workers 1
refused "needs " python -m tools.preprocess_data --workers 1
ok python pretrain_gpt.py --help
grep -q '^  --num-layers' out || die "python pretrain_gpt.py --help"
for name in "python -m torch.distributed.launch --help" "help torch.distributed.run" "python -m torch.distributed.run -h"; do
    ok $name
    grep -q '^  --nproc_per_node' out || die "triax $name"
done
ok deepscale --help
grep -q '^  --hostfile' out || die "deepscale --help"

# what cannot be: one sentence each
wrong() { # TEXT WORDS...
    local text=$1 code=0
    shift
    "$TRIAX" "$@" >out 2>err || code=$?
    [ $code -eq 2 ] && [ ! -s out ] && grep -qF -- "$text" err || { cat out err >&2; die "triax $*: exit $code"; }
}
wrong 'there is no Python here; behind python stands a script or -m MODULE' python
wrong '"-c": there is no Python here' python -c "print(1)"
wrong '"--version": there is no Python here' python3 --version
wrong '"-m": there is no Python here' python -m
wrong 'give --profile among the run'"'"'s own flags' python -m torch.utils.bottleneck pretrain_gpt.py
wrong 'there is no command "torch.distributed.launcher"' python -m torch.distributed.launcher pretrain_gpt.py
wrong 'there is no command "pythonic"' pythonic
echo "all passed"
