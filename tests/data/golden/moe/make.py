#!/usr/bin/env python3
"""Losses and gradients of small GPTs with experts, in fp64 by PyTorch alone: result.json.

Weights, tokens and directions are a hash of names and numbers, which tests/model/test_golden_moe.c computes, too. Of each
gradient the file has its norm, and its product with a drawn direction.  make.py > result.json"""
import json
import math

import torch

S, B, H, HEADS, V, F, VOCAB = 9, 3, 16, 2, 32, 24, 30
MASK = 0xFFFFFFFF


def drawn(name, n):
    """n numbers in [-0.5, 0.5)."""
    seed = sum((i + 1) * ord(c) for i, c in enumerate(name)) * 7919
    out = []
    for i in range(n):
        u = (seed + i) * 2654435761 & MASK
        u ^= u >> 16
        u = u * 2246822519 & MASK
        u ^= u >> 13
        u = u * 3266489917 & MASK
        u ^= u >> 16
        out.append(u / 2**32 - 0.5)
    return out


class Weights:
    def __init__(self):
        self.of = {}

    def __call__(self, name, *shape, one=False, logical=None):
        if name not in self.of:
            x = torch.tensor(drawn(name, math.prod(shape)), dtype=torch.float64).reshape(shape)
            x = x * (0.2 if len(shape) == 1 else 0.8) + (1 if one else 0)
            if logical:
                x[logical:] = 0
            self.of[name] = x.requires_grad_()
        return self.of[name]


def norm(w, name, x):
    return torch.nn.functional.layer_norm(x, (H,), w(name + ".weight", H, one=True), w(name + ".bias", H), 1e-5)


def linear(w, name, x, n, bias=True):
    y = x @ w(name + ".weight", n, x.shape[-1]).T
    return y + w(name + ".bias", n) if bias else y


def attention(w, name, x):
    d = H // HEADS
    qkv = linear(w, name + "query_key_value", x, 3 * H).reshape(S, B, HEADS, 3, d)
    q, k, v = (qkv[..., i, :].permute(1, 2, 0, 3) for i in range(3))
    z = q @ k.transpose(2, 3) / math.sqrt(d) + torch.full((S, S), -torch.inf, dtype=torch.float64).triu(1)
    y = (torch.softmax(z, -1) @ v).permute(2, 0, 1, 3).reshape(S, B, H)
    return linear(w, name + "dense", y, H)


def mlp(w, name, x, m):
    f = m.get("ffn", F)
    u = linear(w, name + "dense_h_to_4h", x, 2 * f if m.get("swiglu") else f)
    if m.get("swiglu"):
        g = torch.nn.functional.silu(u[..., :f]) * u[..., f:]
    else:
        g = torch.nn.functional.gelu(u, approximate="tanh")
    return linear(w, name + "dense_4h_to_h", g, H)


def route(m, logits, bias):
    """Weights [T, E], 0 of what is not chosen; and what the losses of the layer are made of."""
    e, k = m["experts"], m["k"]
    t = logits.shape[0]
    scores = torch.sigmoid(logits) if m["score"] == "sigmoid" else torch.softmax(logits, -1)
    by = scores.detach() + (bias if bias is not None else 0)
    order = torch.argsort(by, dim=-1, descending=True, stable=True)[:, :k]
    chosen = torch.zeros_like(scores).scatter(1, order, 1)
    first = torch.zeros_like(scores).scatter(1, order[:, :1], 1)
    if m.get("after"):
        weight = torch.softmax(logits.masked_fill(chosen == 0, -torch.inf), -1)
    else:
        weight = scores * chosen
    kept = chosen
    if m.get("factor"):
        capacity = max(math.ceil(t / e * m["factor"] * k), m["least"])
        if k == 2:  # seconds behind all firsts
            second = chosen - first
            slot = (first.cumsum(0) - 1) * first + (second.cumsum(0) - 1 + first.sum(0)) * second
        else:
            slot = chosen.cumsum(0) - 1
        kept = chosen * (slot < capacity)
        weight = weight * kept
    if m.get("renormalise"):
        weight = weight / weight.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).eps)
    weight = weight * m.get("scale", 1)
    if m.get("deepspeed"):
        load = first if k == 2 else chosen
        aux = e * e * (scores.mean(0) * load.mean(0)).mean() / (k if k > 2 else 1)
    else:
        p = scores / scores.sum(-1, keepdim=True) if m["score"] == "sigmoid" else scores
        aux = e / (k * t * t) * (p.sum(0) * chosen.sum(0)).sum()
    z = torch.logsumexp(logits, -1).square().mean()
    return weight, m.get("aux", 0) * aux + m.get("z", 0) * z, chosen.sum(0), (chosen - kept).sum()


def experts(w, name, x, m, stats):
    flat = x.reshape(-1, H)
    logits = flat @ w(name + "router.weight", m["experts"], H).T
    bias = None
    if m.get("bias"):
        bias = w(name + "router.expert_bias", m["experts"]).detach()
    weight, loss, load, dropped = route(m, logits, bias)
    y = sum(weight[:, e:e + 1] * mlp(w, f"{name}experts.{e}.", flat, m) for e in range(m["experts"]))
    if m.get("residual"):
        c = torch.softmax(linear(w, name + "residual.coefficient", flat, 2), -1)
        y = c[:, :1] * y + c[:, 1:] * mlp(w, name + "residual.", flat, m)
    if m.get("shared"):
        shared = mlp(w, name + "shared_expert.", flat, {**m, "ffn": m["shared"]})
        if m.get("shared_gate"):
            shared = torch.sigmoid(flat @ w(name + "shared_expert.gate.weight", 1, H).T) * shared
        y = y + shared
    stats.append((loss, load, dropped))
    return y.reshape(x.shape)


def run(m):
    w, stats = Weights(), []
    tokens = [int((u + 0.5) * VOCAB) for u in drawn("tokens", B * (S + 1))]
    rows = torch.tensor(tokens).reshape(B, S + 1)
    words = w("embedding.word_embeddings.weight", V, H, logical=VOCAB)
    x = words[rows[:, :-1].T] + w("embedding.position_embeddings.weight", S, H)[:, None]
    for i in range(2):
        name = f"encoder.layers.{i}."
        x = x + attention(w, name + "self_attention.", norm(w, name + "input_layernorm", x))
        n = norm(w, name + "post_attention_layernorm", x)
        x = x + (experts(w, name + "mlp.", n, m, stats) if i + 1 >= m.get("from", 1) else mlp(w, name + "mlp.", n, m))
    logits = norm(w, "encoder.final_layernorm", x) @ words[:VOCAB].T
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), rows[:, 1:].T.reshape(-1))
    (loss + sum(s[0] for s in stats)).backward()
    gradients = {}
    for name, x in w.of.items():
        if x.grad is None:
            continue
        g = x.grad.flatten()
        along = torch.tensor(drawn(name + "!", g.numel()), dtype=torch.float64)
        gradients[name] = [g.norm().item(), (g @ along).item()]
    return {"flags": m["flags"], "loss": loss.item(), "own": [s[0].item() for s in stats],
            "load": [[int(n) for n in s[1]] for s in stats], "dropped": [int(s[2]) for s in stats], "gradients": gradients}


CORE = "--num-experts 5 --moe-layer-freq 1 --moe-router-topk "
MODELS = [
    dict(flags=CORE + "2 --moe-aux-loss-coeff 0.05 --moe-z-loss-coeff 0.02", experts=5, k=2, score="softmax", after=True,
         aux=0.05, z=0.02),
    dict(flags=CORE + "3 --moe-router-pre-softmax --moe-aux-loss-coeff 0.05 --swiglu --moe-shared-expert-intermediate-size 20 "
         "--moe-ffn-hidden-size 24", experts=5, k=3, score="softmax", aux=0.05, swiglu=True, shared=20),
    dict(flags="--num-experts 4 --topk 1 --expert-interval 2 --mlp-type residual --moe-loss-coeff 0.1 "
         "--disable-moe-token-dropping", experts=4, k=1, score="softmax", aux=0.1, residual=True, deepspeed=True, **{"from": 2}),
    dict(flags="--num-experts 4 --topk 2 --expert-interval 1 --moe-loss-coeff 0.1 --moe-train-capacity-factor 0.6 "
         "--moe-min-capacity 2 --disable-moe-top2-2nd-expert-sampling", experts=4, k=2, score="softmax", aux=0.1,
         renormalise=True, factor=0.6, least=2, deepspeed=True),
]

if __name__ == "__main__":
    print(json.dumps([run(m) for m in MODELS], indent=1))
