"""DeepSpeed's own engine next to triax: folders whose optimizer is not AdamW, both ways.

A GPT without experts (compare_expert_files.py has the model) is trained for three steps by DeepSpeed's engine on 1 or 2 CPU ranks,
with optimizers of torch and of DeepSpeed, and saved by it.
  read     triax converts the folder: weights, masters and the optimizer's state are those of the engine, bit for bit.
  written  triax converts back, and a new engine of the same ranks and optimizer loads it with load_checkpoint: the same numbers; and
           it takes another step.
Usage: compare_optimizer_files.py TRIAX SCRATCH [CASE ...]
"""
import os
import socket
import sys

import compare_expert_files as files
import torch
import torch.nn.functional as F


def lion(groups):
    from deepspeed.ops.lion import DeepSpeedCPULion
    return DeepSpeedCPULion(groups, lr=1e-3, betas=(0.9, 0.99))


def cpu_adagrad(groups):
    from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad
    return DeepSpeedCPUAdagrad(groups, lr=1e-2)


def adagrad(groups):
    return torch.optim.Adagrad(groups, lr=1e-2)


def nesterov(groups):
    return torch.optim.SGD(groups, lr=1e-2, momentum=0.9, nesterov=True)


def adam(groups):
    return torch.optim.Adam(groups, lr=1e-2)


# name: optimizer, its --optimizer, its state as native checkpoints have it and as its class does, ranks, ZeRO's stage, precision.
# With ZeRO DeepSpeed cannot train two groups of torch's Adagrad.
CASES = {
    "lion": (lion, "lion", {"exp_avg": "exp_avg"}, 2, 1, "bf16"),
    "lion-plain": (lion, "lion", {"exp_avg": "exp_avg"}, 1, 0, "fp32"),
    "cpu-adagrad": (cpu_adagrad, "adagrad", {"sum": "exp_avg_sq"}, 2, 2, "fp32"),
    "adagrad-plain": (adagrad, "adagrad", {"sum": "sum"}, 1, 0, "fp32"),
    "nesterov": (nesterov, "sgd", {"momentum_buffer": "momentum_buffer"}, 2, 2, "fp32"),
    "nesterov-plain": (nesterov, "sgd", {"momentum_buffer": "momentum_buffer"}, 1, 0, "fp32"),
    "adam-l2": (adam, "adam", {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}, 2, 1, "bf16"),
}
for name, (_, _, _, world, stage, kind) in CASES.items():
    files.CASES[name] = ([1] * files.LAYERS, 1, False, world, 1, stage, kind)


def engine_of(case, seed):
    import deepspeed
    make, _, _, _, stage, kind = CASES[case]
    torch.manual_seed(seed)
    model = files.Gpt(case)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.2 + (p == 1))
    plain = [p for p in model.parameters() if p.dim() == 1]
    decays = [p for p in model.parameters() if p.dim() > 1]
    groups = [{"name": "wd_no_scale_lr", "params": decays, "wd_mult": 1.0, "lr_mult": 1.0, "weight_decay": 0.1},
              {"name": "no_wd_no_scale_lr", "params": plain, "wd_mult": 0.0, "lr_mult": 1.0, "weight_decay": 0.0}]
    config = {"train_batch_size": 4, "zero_optimization": {"stage": stage}, "bf16": {"enabled": kind == "bf16"},
              "zero_allow_untested_optimizer": True, "gradient_clipping": 1.0}
    return deepspeed.initialize(model=model, optimizer=make(groups), config=config)[0]


def numbers_of(engine, case):
    """{our name: [weight in fp32, state ...]}. Collective."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    keys, stage, out = CASES[case][2].values(), CASES[case][4], {}
    if stage:
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    for name, p in engine.module.named_parameters():
        if stage:
            all = [safe_get_full_fp32_param(p)] + [safe_get_full_optimizer_state(p, k) for k in keys]
        else:
            all = [p] + [engine.optimizer.state[p][k] for k in keys]
        out[files.ours(name, 0, 1)] = [t.detach().float().clone() for t in all]
    return out


def step(engine, number, seed):
    torch.manual_seed(100 * seed + number)
    tokens = torch.randint(0, files.VOCAB, (4 // torch.distributed.get_world_size(), files.S))
    logits, _ = engine(tokens)
    engine.backward(F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()))
    engine.step()


def rank(number, case, port, folder, load, result):
    import deepspeed
    os.environ.update(RANK=str(number), WORLD_SIZE=str(CASES[case][3]), LOCAL_RANK=str(number), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    engine = engine_of(case, 11 if load else 5)
    if load:
        path, _ = engine.load_checkpoint(folder)
        assert path, f"{folder}: load_checkpoint finds nothing"
    else:
        for seed in range(3):
            step(engine, number, seed)
    torch.save(numbers_of(engine, case), f"{result}-{number}.pt")
    if load:
        step(engine, number, 3)
    else:
        args = files.args_of(case)
        args.num_experts, args.optimizer = [1], CASES[case][1]
        engine.module.nested = True
        engine.save_checkpoint(folder, client_state={"args": args, "iteration": 3, "checkpoint_version": 3.0, "tokens": 192})
    deepspeed.comm.barrier()


def run_ranks(case, folder, load, result):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    torch.multiprocessing.spawn(rank, (case, port, folder, load, result), nprocs=CASES[case][3])
    return torch.load(f"{result}-0.pt")


def same(what, got, want):
    assert got.keys() == want.keys(), f"{what}: {sorted(got.keys() ^ want.keys())}"
    for name, all in want.items():
        for k, t in enumerate(all):
            assert torch.equal(got[name][k], t), f"{what}: number {k} of {name} differs"


def compare(case, scratch):
    _, _, keys, world, stage, kind = CASES[case]
    theirs, native, back = f"{scratch}/{case}", f"{scratch}/{case}-native", f"{scratch}/{case}-back"
    trained = run_ranks(case, theirs, False, f"{scratch}/{case}-trained")
    files.triax("convert", "--to", "native", "--no-proof", "--true-vocab-size", files.VOCAB, theirs, native)
    flat = files.safetensors(f"{native}/iter_0000003/shard_00000.safetensors")
    assert {n.partition(".")[0] for n in flat} == {"model", *keys}, f"{case}: another optimizer's state"
    read = {n.removeprefix("model."): [t] + [flat[f"{k}.{n.removeprefix('model.')}"] for k in keys]
            for n, t in flat.items() if n.startswith("model.")}
    same(f"{case}: read", read, trained)
    files.triax("convert", "--to", "deepspeed", "--no-proof", "--target-dp", world, "--target-zero-stage", stage, "--dtype", kind,
                native, back)
    same(f"{case}: written", run_ranks(case, back, True, f"{scratch}/{case}-loaded"), trained)
    print(f"ok    {case}: {len(trained)} parameters there and back", flush=True)


if __name__ == "__main__":
    for name in sys.argv[3:] or CASES:
        compare(name, sys.argv[2])
