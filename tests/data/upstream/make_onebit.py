"""Checkpoints of DeepSpeed's engine with a class of runtime/fp16/onebit (README.md), of one rank or of several.

python make_onebit.py FROM TO CLASS PARAMETERS [fp16] [loaded]
for r in 0 1; do RANK=$r WORLD_SIZE=2 python make_onebit.py ... & done

The model has the tensors of FROM, which triax saved with --save-format deepspeed without a pipeline, and each tensor a drawn gradient,
which is another one on each rank.
Without "loaded" the optimizer begins anew and makes 10 updates; with it the engine loads its state and makes 4. The folder TO is
what the engine saves then; TO/step.safetensors is what its first rank had in memory, and of a loaded state TO/loaded.safetensors. Its op
that packs signs is on GPUs only: numpy's packbits takes its place; and gloo is given sizes as it wants them."""
import json, os, sys
os.environ.update(DS_ACCELERATOR="cpu", MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29611"))
for key, alone in (("RANK", "0"), ("WORLD_SIZE", "1")):
    os.environ.setdefault(key, alone)
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
os.environ["LOCAL_RANK"] = str(RANK)
import deepspeed, numpy, torch
import deepspeed.comm.torch, deepspeed.runtime.comm.compressed
from pathlib import Path
from safetensors.torch import save_file


class Packer:
    def load(self):
        return self

    def packbits(self, x, n, rank):
        return torch.from_numpy(numpy.packbits(x.numpy() >= 0))

    def unpackbits(self, x, n, rank):
        return torch.from_numpy(numpy.unpackbits(x.numpy())).float() * 2 - 1


class Gloo:
    def __init__(self, dist):
        self.dist = dist

    def __getattr__(self, name):
        return getattr(self.dist, name)

    def all_gather(self, parts, own, group):
        self.dist.all_gather(parts, own.reshape(parts[0].shape), group=group)


deepspeed.runtime.comm.compressed.dist = Gloo(deepspeed.runtime.comm.compressed.dist)
deepspeed.runtime.comm.compressed.PackbitsBuilder = Packer
deepspeed.comm.torch.build_shm_op = lambda: None  # compiles otherwise
deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True


def leaves(d, path=()):
    for k, v in d.items():
        if isinstance(v, dict):
            yield from leaves(v, path + (k,))
        elif torch.is_tensor(v):
            yield path + (k,), v


class Net(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.paths = [path for path, _ in leaves(module)]
        self.p = torch.nn.ParameterList([torch.nn.Parameter(v.float().clone()) for _, v in leaves(module)])
        self.drawn = torch.Generator().manual_seed(1 + RANK)

    def forward(self):
        return sum((p.float() * torch.randn(p.shape, generator=self.drawn)).sum() for p in self.p)

    def load_state_dict(self, state, strict=True, **kwargs):
        for p, (_, v) in zip(self.p, leaves(state)):
            p.data.copy_(v)

    def state_dict(self, *args, **kwargs):
        root = {}
        for path, p in zip(self.paths, self.p):
            d = root
            for word in path[:-1]:
                d = d.setdefault(word, {})
            d[path[-1]] = p.data
        return root


def memory(optimizer, names, shapes):
    """Weights that are updated and state of each tensor, also where a group is one flat tensor; numbers as tensors of one."""
    inner, found = getattr(optimizer, "optimizer", optimizer), {}
    for group, of in zip(inner.param_groups, names):
        flat = len(group["params"]) == 1 and len(of) > 1
        at = 0
        for i, name in enumerate(of):
            p = group["params"][0 if flat else i]
            n = shapes[name].numel()
            cut = (lambda x: x.flatten()[at:at + n].view(shapes[name])) if flat else lambda x: x
            found[name] = cut(p.data).float().clone()
            for what, v in inner.state.get(p, {}).items():
                if not torch.is_tensor(v):
                    found[f"{what}.{name}"] = torch.tensor([float(v)])
                elif v.numel() == p.numel() and "error" not in what:
                    found[f"{what}.{name}"] = cut(v).float().clone()
            at += n
    keep = ("exp_avg", "exp_avg_sq", "exp_avg_sq_fresh", "lamb_coeff_freeze", "last_factor", "scaling_coeff")
    return {k: v.contiguous() for k, v in found.items() if k.split(".")[0] in keep + ("language_model",)}


def main(source, to, kind, parameters, *words):
    to = Path(to)
    tag = (Path(source) / "latest").read_text().strip()
    module = torch.load(f"{source}/{tag}/mp_rank_00_model_states.pt", weights_only=False)["module"]
    net = Net(module)
    own = dict(zip((".".join(path) for path in net.paths), net.p))
    names = [[k for k, p in own.items() if (p.ndim == 2) == matrices] for matrices in (True, False)]
    shapes = {k: p.shape for k, p in own.items()}
    groups = [dict(params=[own[k] for k in of], weight_decay=decay) for of, decay in zip(names, (0.01, 0.))]
    config = dict(train_batch_size=RANKS, gradient_clipping=1.0, optimizer=dict(
        type=kind, params=dict(lr=1e-3, comm_backend_name="compressed", **json.loads(parameters))))
    if "fp16" in words:
        config["fp16"] = dict(enabled=True, initial_scale_power=10)
    engine, optimizer, _, _ = deepspeed.initialize(model=net, model_parameters=groups, config=config)
    _, client = engine.load_checkpoint(source, load_optimizer_states="loaded" in words)
    to.mkdir(exist_ok=True)
    if "loaded" in words and not RANK:
        save_file(memory(optimizer, names, shapes), to / "loaded.safetensors")
    for _ in range(4 if "loaded" in words else 10):
        engine.backward(engine())
        engine.step()
    if not RANK:
        save_file(memory(optimizer, names, shapes), to / "step.safetensors")
    keep = {k: client[k] for k in ("args", "checkpoint_version", "tokens")}
    engine.save_checkpoint(to, tag=f"global_step{engine.global_steps}", client_state=dict(keep, iteration=engine.global_steps))


main(*sys.argv[1:])
