"""Writes result.json beside this file: 200 steps of Hugging Face's Adafactor on the Llama of ../llama, in fp64.

    python make.py

transformers.optimization.Adafactor with a learning rate that is given. Query, key and value matrices are one tensor to
triax, and so are the two first ones of an MLP: the class gets them side by side as one parameter each. Step k uses batch
(k-1) mod 5 of ../llama/train_batches.json; the norm of all gradients is clipped to 1, weight decay is of matrices.

A case is the flags of triax that say the same, the losses and, of each parameter in the end, its norm and every so many
numbers of it. The model has no biases: the gradient of those of keys is 0, and an update by roots of squares makes what
rounding leaves of it as large as any other.
"""
import json
import math
import pathlib

import torch
import transformers
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.optimization import Adafactor

HERE = pathlib.Path(__file__).parent
LLAMA = HERE.parent / "llama"
STEPS, DECAY, SAMPLES = 200, 0.1, 48
FUSED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


class Fused:
    """Matrices of one layer as one parameter, row behind row."""

    def __init__(self, weights):
        self.weights = weights
        self.own = torch.nn.Parameter(torch.cat([w.data for w in weights]))

    def take_grad(self):
        self.own.grad = torch.cat([w.grad for w in self.weights])

    def give(self):
        for w, x in zip(self.weights, self.own.data.split([len(w) for w in self.weights])):
            w.data.copy_(x)


def lr_at(step, peak):
    return peak * min(1, step / 10) * (1 + math.cos(math.pi * step / (STEPS + 1))) / 2


def train(peak, options):
    model = LlamaForCausalLM(LlamaConfig.from_pretrained(LLAMA, attn_implementation="eager"))
    model.load_state_dict(load_file(LLAMA / "model.safetensors"))
    model = model.double().train()
    named = dict(model.named_parameters())
    fused, inside = [], set()
    for name in named:
        for group in FUSED:
            if f".{group[0]}." in name:
                names = [name.replace(group[0], g) for g in group]
                inside.update(names)
                fused.append(Fused([named[n] for n in names]))
    params = [p for k, p in named.items() if k not in inside] + [x.own for x in fused]
    opt = Adafactor([dict(params=[p for p in params if p.ndim == 2], weight_decay=DECAY),
                     dict(params=[p for p in params if p.ndim == 1], weight_decay=0)],
                    lr=peak, relative_step=False, **options)
    batches = json.loads((LLAMA / "train_batches.json").read_text())
    losses = []
    for step in range(1, STEPS + 1):
        ids = torch.tensor(batches[(step - 1) % 5]["input_ids"])
        logits = model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for x in fused:
            x.take_grad()
        for group in opt.param_groups:
            group["lr"] = lr_at(step, peak)
        opt.step()
        for x in fused:
            x.give()
        losses.append(loss.item())
    return losses, {k: sample(v.detach().flatten()) for k, v in named.items()}


def sample(x):
    every = max(1, x.numel() // SAMPLES)
    return dict(norm=x.norm().item(), n=x.numel(), every=every, x=x[::every].tolist())


CASES = [
    ("", 5e-3, dict()),
    ("--adafactor-decay-rate -0.5 --adafactor-clip-threshold 0.5 --adafactor-eps1 1e-12 --adafactor-eps2 1e-1", 1e-2,
     dict(decay_rate=-0.5, clip_threshold=0.5, eps=(1e-12, 1e-1))),
    ("--adafactor-no-scale-parameter", 3e-4, dict(scale_parameter=False)),
]

torch.manual_seed(0)
out = dict(torch=torch.__version__, transformers=transformers.__version__, weight_decay=DECAY, cases=[])
for flags, peak, options in CASES:
    losses, params = train(peak, options)
    print(flags, losses[0], losses[-1])
    out["cases"].append(dict(flags=flags, lr=[lr_at(k, peak) for k in range(1, STEPS + 1)], losses=losses, params=params))
(HERE / "result.json").write_text(json.dumps(out, indent=0) + "\n")
