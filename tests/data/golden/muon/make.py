"""Writes result.json beside this file: 200 steps of PyTorch's own Muon on the GPT-2 of ../gpt2, in fp64.

    python make.py

torch.optim.Muon updates the matrices of layers (query, key and value each by itself; Conv1D's are transposed, as it
counts rows and columns of a linear layer) and torch.optim.AdamW the rest. Muon's products are in bf16 by its code: its
module is given a torch whose bfloat16 is float64. Step k uses batch (k-1) mod 5 of ../gpt2/train_batches.json; the norm
of all gradients is clipped to 1, weight decay is of matrices and embeddings.

A case is the flags of triax that say the same, the losses and, of each parameter in the end, its norm and every so many
numbers of it.
"""
import json
import math
import pathlib

import torch
import torch.optim._muon as module
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = pathlib.Path(__file__).parent
GPT2 = HERE.parent / "gpt2"
STEPS, LR, DECAY, SAMPLES = 200, 2e-3, 0.1, 48


class InFp64:
    """The module torch, in which bfloat16 is float64."""

    bfloat16 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


module.torch = InFp64()


class Piece:
    """Rows of a linear layer's matrix as a parameter of its own, and where they are in a Conv1D's."""

    def __init__(self, weight, first, n):
        self.weight, self.rows = weight, slice(first, first + n)
        self.own = torch.nn.Parameter(weight.data[:, self.rows].T.contiguous())

    def take_grad(self):
        self.own.grad = self.weight.grad[:, self.rows].T.contiguous()

    def give(self):
        self.weight.data[:, self.rows] = self.own.data.T


def pieces_of(name, weight, split):
    n = weight.shape[1]
    parts = 3 if split and "c_attn" in name else 1
    return [Piece(weight, i * n // parts, n // parts) for i in range(parts)]


def lr_at(step):
    return LR * min(1, step / 10) * (1 + math.cos(math.pi * step / (STEPS + 1))) / 2


def train(muon, split):
    model = GPT2LMHeadModel(GPT2Config.from_pretrained(GPT2, attn_implementation="eager"))
    missing = model.load_state_dict(load_file(GPT2 / "model.safetensors"), strict=False)
    assert not missing.unexpected_keys and missing.missing_keys in ([], ["lm_head.weight"]), missing
    model = model.double().train()
    named = dict(model.named_parameters())
    matrix = {k: p for k, p in named.items() if ".h." in k and p.ndim == 2}
    pieces = [x for k, p in matrix.items() for x in pieces_of(k, p, split)]
    rest = [p for k, p in named.items() if k not in matrix]
    adam = torch.optim.AdamW(
        [dict(params=[p for p in rest if p.ndim == 2], weight_decay=DECAY),
         dict(params=[p for p in rest if p.ndim != 2], weight_decay=0)],
        betas=(0.9, 0.999), eps=1e-8)
    opt = torch.optim.Muon([x.own for x in pieces], weight_decay=DECAY, eps=1e-15, **muon)
    batches = json.loads((GPT2 / "train_batches.json").read_text())
    losses = []
    for step in range(1, STEPS + 1):
        ids = torch.tensor(batches[(step - 1) % 5]["input_ids"])
        logits = model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for x in pieces:
            x.take_grad()
        for group in adam.param_groups + opt.param_groups:
            group["lr"] = lr_at(step)
        adam.step()
        opt.step()
        for x in pieces:
            x.give()
        losses.append(loss.item())
    state = {k: v for k, v in named.items() if k != "lm_head.weight"}
    return losses, {k: sample(v.detach().flatten()) for k, v in state.items()}


def sample(x):
    every = max(1, x.numel() // SAMPLES)
    return dict(norm=x.norm().item(), n=x.numel(), every=every, x=x[::every].tolist())


HIGH = "--muon-fp32-matmul-prec high --muon-coefficient-type simple "
CASES = [
    (HIGH + "--muon-nesterov --muon-momentum 0.95 --muon-scale-mode shape_scaling", dict(nesterov=True, momentum=0.95), True),
    (HIGH + "--muon-no-split-qkv --muon-extra-scale-factor 0.2", dict(nesterov=False, momentum=0.9, adjust_lr_fn="match_rms_adamw"), False),
    (HIGH + "--muon-num-ns-steps 3 --muon-scale-mode unit_rms_norm --muon-nesterov", dict(nesterov=True, momentum=0.9, adjust_lr_fn="spectral_unclamped", ns_steps=3), True),
]

torch.manual_seed(0)
out = dict(torch=torch.__version__, weight_decay=DECAY, lr=[lr_at(k) for k in range(1, STEPS + 1)], cases=[])
for flags, muon, split in CASES:
    losses, params = train(muon, split)
    print(flags, losses[0], losses[-1])
    out["cases"].append(dict(flags=flags, losses=losses, params=params))
(HERE / "result.json").write_text(json.dumps(out, indent=0) + "\n")
