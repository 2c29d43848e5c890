"""Writes files beside this one: steps of DeepSpeed's classes on the GPT-2 of ../gpt2, on 2 and on 4 ranks; of OnebitAdam
result.json, of ZeroOneAdam zeroone.json, of OnebitLamb lamb.json.

    python make.py DEEPSPEED result.json|zeroone.json|lamb.json ...

DEEPSPEED is the folder deepspeed of DeepSpeed 0.18.4's sources: later versions do not have the classes. Its files
runtime/fp16/onebit/adam.py, zoadam.py or lamb.py and runtime/comm/compressed.py are run as they are, the last one over gloo; of the op
that packs signs on a GPU, numpy's packbits takes the place (Packer), and gloo is given sizes as it wants them (Dist). The
engine's part is written out here: where the class wants sums, gradients are averaged over the ranks, and clipped; where it
does not, each rank clips its own.

Parameters are in fp32 and in Megatron's layout (matrices of linear layers transposed, query, key and value of a head side
by side), which decides what a server's part is, as the order does: matrices, which decay, before vectors; gradients are computed in fp64. A step's batch is ../gpt2/train_batches.json's
(step - 1) mod 5, of whose rows each rank has its share.
"""
import importlib.util
import json
import os
import pathlib
import sys
import types

import numpy
import torch
import torch.distributed
import torch.multiprocessing
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = pathlib.Path(__file__).parent
GPT2 = HERE.parent / "gpt2"
LR, DECAY, EPS, BETAS, HEADS, SAMPLES = 5e-4, 0.1, 1e-4, (0.9, 0.95), 4, 48


class Dist:
    """deepspeed.comm, whose all_gather gloo gives a size as it wants it: not a number but a list of one."""

    def __init__(self, dist):
        self.dist = dist

    def __getattr__(self, name):
        return getattr(self.dist, name)

    def all_gather(self, parts, own, group):
        self.dist.all_gather(parts, own.reshape(parts[0].shape), group=group)


class Packer:
    """deepspeed.ops.op_builder.PackbitsBuilder, on a CPU."""

    def load(self):
        return self

    def packbits(self, x, n, rank):
        return torch.from_numpy(numpy.packbits(x.numpy() >= 0))

    def unpackbits(self, x, n, rank):
        return torch.from_numpy(numpy.unpackbits(x.numpy())).float() * 2 - 1


def load(folder, name, file):
    spec = importlib.util.spec_from_file_location(name, pathlib.Path(folder) / file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def class_of(folder, file, name):
    import deepspeed.ops.op_builder as builders
    builders.PackbitsBuilder = Packer
    module = load(folder, "deepspeed.runtime.comm.compressed", "runtime/comm/compressed.py")
    module.dist = Dist(module.dist)
    return getattr(load(folder, "onebit_adam", "runtime/fp16/onebit/" + file), name)


def to_megatron(name, x):
    if "c_attn" in name:
        x = x.T if x.ndim == 2 else x[:, None]
        x = x.reshape(3, HEADS, -1, x.shape[-1]).transpose(0, 1).reshape(x.shape)
        return x if "weight" in name else x[:, 0]
    return x.T if ".h." in name and x.ndim == 2 else x


def from_megatron(name, x):
    if "c_attn" in name:
        x = x if x.ndim == 2 else x[:, None]
        x = x.reshape(HEADS, 3, -1, x.shape[-1]).transpose(0, 1).reshape(x.shape)
        return x.T if "weight" in name else x[:, 0]
    return x.T if ".h." in name and x.ndim == 2 else x


def rank_of(rank, ranks, folder, case, out):
    file, name, steps, clip, kwargs = case
    lr = kwargs.pop("lr", LR)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531", RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK="0", DS_ACCELERATOR="cpu")
    torch.set_num_threads(1)
    import deepspeed
    deepspeed.init_distributed("gloo")
    model = GPT2LMHeadModel(GPT2Config.from_pretrained(GPT2, attn_implementation="eager"))
    model.load_state_dict(load_file(GPT2 / "model.safetensors"), strict=False)
    model = model.double().train()
    named = dict(model.named_parameters())
    own = {k: torch.nn.Parameter(to_megatron(k, p.data).float().contiguous()) for k, p in named.items()}
    engine = types.SimpleNamespace(mpu=None, local_rank=0, enable_backward_allreduce=True)
    groups = [dict(params=[p for p in own.values() if p.ndim == 2], weight_decay=DECAY),
              dict(params=[p for p in own.values() if p.ndim != 2], weight_decay=0)]
    opt = class_of(folder, file, name)(groups, deepspeed=engine, lr=lr, betas=BETAS, eps=EPS, comm_backend_name="compressed",
                                       **kwargs)
    batches, losses = json.loads((GPT2 / "train_batches.json").read_text()), []
    for step in range(steps):
        rows = batches[step % 5]["input_ids"]
        n = len(rows) // ranks
        ids = torch.tensor(rows[rank * n:(rank + 1) * n])
        for k, p in named.items():
            p.data.copy_(from_megatron(k, own[k].data))
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        for k, p in named.items():
            if engine.enable_backward_allreduce:
                torch.distributed.all_reduce(p.grad)
                p.grad /= ranks
            own[k].grad = to_megatron(k, p.grad).float().contiguous()
        if clip:
            torch.nn.utils.clip_grad_norm_(own.values(), clip)
        opt.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item() / ranks)
    if rank == 0:
        out["losses"] = losses
        out["params"] = {k: sample(from_megatron(k, p.data).double().flatten()) for k, p in own.items() if k != "lm_head.weight"}
    torch.distributed.destroy_process_group()


def sample(x):
    every = max(1, x.numel() // SAMPLES)
    return dict(norm=x.norm().item(), n=x.numel(), every=every, x=x[::every].tolist())


def onebit(ranks, freeze, clip):
    return ranks, ("adam.py", "OnebitAdam", 18, clip, dict(freeze_step=freeze)), \
        f"--optimizer onebitadam --onebit-freeze-step {freeze} --clip-grad {clip}"


def zeroone(ranks, steps, clip, **own):
    flags = " ".join(f"--{k.replace('_', '-')} {v}" for k, v in own.items())
    return ranks, ("zoadam.py", "ZeroOneAdam", steps, clip, own), f"--optimizer zerooneadam {flags} --clip-grad {clip}"


def lamb(ranks, freeze, clip, **own):
    names = dict(max_coeff="lamb_max_coeff", min_coeff="lamb_min_coeff")
    flags = "".join(f" --{names.get(k, 'onebit_' + k).replace('_', '-')} {v}" for k, v in own.items())
    return ranks, ("lamb.py", "OnebitLamb", 24, clip, dict(freeze_step=freeze, lr=1e-2, **own)), \
        f"--optimizer onebitlamb --onebit-freeze-step {freeze} --clip-grad {clip}{flags}", 1e-2


CASES = {
    "result.json": [onebit(2, 13, 0), onebit(4, 13, 0), onebit(4, 14, 0.3)],
    "zeroone.json": [
        zeroone(2, 30, 0, var_freeze_step=18, var_update_scaler=4, local_step_scaler=2, local_step_clipper=4),
        zeroone(4, 30, 0, var_freeze_step=18, var_update_scaler=4, local_step_scaler=2, local_step_clipper=4),
        zeroone(2, 20, 0.3, var_freeze_step=6, var_update_scaler=2, local_step_scaler=3, local_step_clipper=3),
    ],
    "lamb.json": [
        lamb(2, 16, 0), lamb(4, 16, 0),
        lamb(4, 17, 0.3, max_coeff=0.15, min_coeff=0.06, coeff_beta=0.8, factor_max=1.2, factor_min=0.7, factor_threshold=0.15),
    ],
}

if __name__ == "__main__":
    for file in sys.argv[2:]:
        cases = []
        for ranks, case, flags, *lr in CASES[file]:
            out = torch.multiprocessing.Manager().dict()
            torch.multiprocessing.spawn(rank_of, (ranks, sys.argv[1], case, out), ranks)
            print(ranks, flags, out["losses"][::5])
            cases.append(dict(ranks=ranks, flags=flags, lr=lr[0] if lr else LR, losses=out["losses"], params=out["params"]))
        (HERE / file).write_text(json.dumps(dict(torch=torch.__version__, cases=cases), indent=0) + "\n")
