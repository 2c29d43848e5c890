#!/usr/bin/env python3
"""200 steps of LAMB on the model of ../gpt2, by DeepSpeed's FusedLamb, in fp64: result.json.

The class is DeepSpeed's own. Its kernel runs on GPUs only, so what the class calls is written out here in PyTorch, as
csrc/lamb/fused_lamb_cuda_kernel.cu of 0.19.8 has it: moments without correction, the learning rate is corrected. The case
`moments` is what the source has since then: the moments themselves are divided. Of each final parameter the file has its
norm, and its product with a drawn direction, a hash of its name as in ../moe/make.py, which is 0 for the biases of keys:
their gradient is exactly 0, and what is divided by a root of it is noise.        make.py > result.json"""
import json
import math
import os
import sys

OUT, sys.stdout = sys.stdout, sys.stderr  # DeepSpeed's log is written there

import torch  # noqa: E402
from transformers import GPT2LMHeadModel  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "moe"))
from make import drawn  # noqa: E402

STEPS, WARMUP = 200, 20


class Kernel:
    """What FusedLambBuilder().load() gives, for one tensor."""

    def __init__(self, corrects_moments):
        self.corrects_moments = corrects_moments
        self.clamped = [0, 0, 0, 0]  # at most, at least, between, no norm

    def load(self):
        return self

    def lamb(self, p, out_p, m, v, g, lr, beta1, beta2, max_coeff, min_coeff, eps, scale, step, mode, corrects, decay):
        first, second, rate = 1.0, 1.0, lr
        if corrects:
            c1, c2 = 1 - beta1**step, 1 - beta2**step
            if self.corrects_moments:
                first, second = c1, c2
            else:
                rate = lr * math.sqrt(c2) / c1
        g = g / scale
        m.mul_(beta1).add_((1 - beta1) * g)
        v.mul_(beta2).add_((1 - beta2) * g * g)
        size = v / second
        root = torch.sqrt(size + eps) if mode == 0 else torch.sqrt(size) + eps
        update = m / first / root + decay * p
        of_p, of_u, coeff = p.norm(), update.norm(), torch.ones((), dtype=p.dtype)
        kind = 3
        if of_p != 0 and of_u != 0:
            ratio = of_p / of_u
            coeff = ratio.clamp(min_coeff, max_coeff)
            kind = 0 if ratio > max_coeff else 1 if ratio < min_coeff else 2
        self.clamped[kind] += 1
        p.sub_(rate * coeff * update)
        return coeff


def fused_lamb(groups, corrects_moments, **options):
    import deepspeed.ops.lamb.fused_lamb as of

    kernel = Kernel(corrects_moments)
    of.FusedLambBuilder = lambda: kernel
    return of.FusedLamb(groups, **options), kernel


def run(name, flags, corrects_moments=False, peak=0.01, **options):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = GPT2LMHeadModel.from_pretrained(os.path.join(HERE, "..", "gpt2"), dtype=torch.float64).train()
    named = dict(model.named_parameters())
    groups = [{"params": [p for p in named.values() if p.ndim >= 2], "weight_decay": 0.01},
              {"params": [p for p in named.values() if p.ndim < 2], "weight_decay": 0.0}]
    optimizer, kernel = fused_lamb(groups, corrects_moments, **options)
    batches = json.load(open(os.path.join(HERE, "..", "gpt2", "train_batches.json")))
    lr, losses = [], []
    for step in range(STEPS):
        ids = torch.tensor(batches[step % len(batches)]["input_ids"])
        logits = model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        lr.append(peak * min(1.0, (step + 1) / WARMUP))
        for group in optimizer.param_groups:
            group["lr"] = lr[-1]
        optimizer.step()
        losses.append(loss.item())
    final = {}
    for key, p in named.items():
        direction = torch.tensor(drawn(key, p.numel()), dtype=torch.float64)
        if key.endswith("c_attn.bias"):
            direction[p.numel() // 3: 2 * p.numel() // 3] = 0
        final[key] = {"norm": p.norm().item(), "product": (p.detach().reshape(-1) * direction).sum().item()}
    print(name, losses[0], losses[-1], "at most, at least, between, none:", kernel.clamped, file=sys.stderr)
    return {"name": name, "flags": flags, "lr": lr, "loss": losses, "final": final}


if __name__ == "__main__":
    cases = [run("rate", "--adam-eps 1e-6", eps=1e-6),
             run("none", "--adam-eps 1e-6 --adam-beta2 0.98 --lamb-bias-correction none --lamb-eps-inside-sqrt "
                         "--lamb-max-coeff 0.3 --lamb-min-coeff 0.08",
                 bias_correction=False, eps=1e-6, betas=(0.9, 0.98), eps_inside_sqrt=True, max_coeff=0.3, min_coeff=0.08),
             run("moments", "--adam-eps 1e-6 --lamb-bias-correction moments", corrects_moments=True, peak=0.004, eps=1e-6)]
    json.dump(cases, OUT, indent=1)
    print(file=OUT)
