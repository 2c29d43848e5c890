"""make.py - what is in this folder: a GPT with ALiBi as Megatron-DeepSpeed of BigScience has it, in PyTorch and fp64.

The formula of attention is upstream's (megatron/model/transformer.py, ParallelAttention.forward and
_build_alibi_tensor): slope x key position is added to the scores by baddbmm, after they are scaled by 1 / sqrt(d).
Written: a checkpoint as that program writes it, whose options hold its enum of positions; logits of texts that are
longer than what the model was made for; the losses and gradient norms of steps of AdamW.

    python3 make.py FOLDER
"""
import argparse
import enum
import json
import math
import os
import sys
import types

import numpy
import torch

HIDDEN, HEADS, LAYERS, SEQ, VOCAB, LONG = 24, 6, 2, 16, 64, 40
torch.set_default_dtype(torch.float64)
torch.manual_seed(20)


class PositionEmbeddingType(enum.Enum):
    rotary = 1
    absolute = 2
    alibi = 3


PositionEmbeddingType.__module__ = "megatron.enums"
module = types.ModuleType("megatron.enums")
module.PositionEmbeddingType = PositionEmbeddingType
sys.modules["megatron"] = types.ModuleType("megatron")
sys.modules["megatron.enums"] = module


def get_slopes(n):
    def of_power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return of_power_of_2(n)
    closest = 2 ** math.floor(math.log2(n))
    return of_power_of_2(closest) + get_slopes(2 * closest)[0::2][: n - closest]


def weights():
    """In Megatron's names, rounded to fp32; biases and norms are not what they begin as, so that each is seen."""
    h, w = HIDDEN, {}

    def random(*shape, std, mean=0.0):
        return (mean + std * torch.randn(*shape)).float()

    w["words"] = random(VOCAB, h, std=0.3)
    w["words.norm.weight"], w["words.norm.bias"] = random(h, std=0.1, mean=1), random(h, std=0.1)
    for i in range(LAYERS):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            w[f"layers.{i}.{norm}.weight"] = random(h, std=0.1, mean=1)
            w[f"layers.{i}.{norm}.bias"] = random(h, std=0.1)
        for name, rows, columns in (
            ("self_attention.query_key_value", 3 * h, h),
            ("self_attention.dense", h, h),
            ("mlp.dense_h_to_4h", 4 * h, h),
            ("mlp.dense_4h_to_h", h, 4 * h),
        ):
            w[f"layers.{i}.{name}.weight"] = random(rows, columns, std=0.3)
            w[f"layers.{i}.{name}.bias"] = random(rows, std=0.1)
    w["final_layernorm.weight"], w["final_layernorm.bias"] = random(h, std=0.1, mean=1), random(h, std=0.1)
    return w


def norm(w, name, x):
    return torch.nn.functional.layer_norm(x, (HIDDEN,), w[name + ".weight"], w[name + ".bias"], 1e-5)


def linear(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def attention(w, prefix, x):
    s, b, d = x.shape[0], x.shape[1], HIDDEN // HEADS
    q, k, v = linear(w, prefix + ".query_key_value", x).view(s, b * HEADS, 3, d).unbind(2)
    alibi = torch.tensor(get_slopes(HEADS)).view(-1, 1, 1) * torch.arange(s).view(1, 1, -1)
    scores = torch.baddbmm(
        alibi.repeat(b, 1, 1), q.transpose(0, 1), k.transpose(0, 1).transpose(1, 2), beta=1.0, alpha=1.0 / math.sqrt(d)
    )
    scores = scores.masked_fill(torch.ones(s, s, dtype=torch.bool).triu(1), float("-inf"))
    o = torch.bmm(scores.softmax(-1), v.transpose(0, 1)).transpose(0, 1).reshape(s, b, HIDDEN)
    return linear(w, prefix + ".dense", o)


def logits(w, tokens):
    """tokens [b, s] -> [b, s, vocabulary]"""
    x = norm(w, "words.norm", w["words"][tokens.T])
    for i in range(LAYERS):
        x = x + attention(w, f"layers.{i}.self_attention", norm(w, f"layers.{i}.input_layernorm", x))
        y = linear(w, f"layers.{i}.mlp.dense_h_to_4h", norm(w, f"layers.{i}.post_attention_layernorm", x))
        x = x + linear(w, f"layers.{i}.mlp.dense_4h_to_h", torch.nn.functional.gelu(y, approximate="tanh"))
    return (norm(w, "final_layernorm", x) @ w["words"].T).transpose(0, 1)


def save(w, folder):
    def part(prefix):
        return {name[len(prefix):]: x.clone() for name, x in w.items() if name.startswith(prefix)}

    encoder = {name: x.clone() for name, x in w.items() if name.split(".")[0] in ("layers", "final_layernorm")}
    words = {"weight": w["words"].clone(), "norm.weight": w["words.norm.weight"], "norm.bias": w["words.norm.bias"]}
    args = argparse.Namespace(
        num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, ffn_hidden_size=4 * HIDDEN,
        kv_channels=HIDDEN // HEADS, max_position_embeddings=SEQ, seq_length=SEQ, padded_vocab_size=VOCAB,
        make_vocab_size_divisible_by=VOCAB, layernorm_epsilon=1e-5, embed_layernorm=True, glu_activation=None,
        bias_gelu_fusion=True, openai_gelu=False, apply_residual_connection_post_layernorm=False,
        position_embedding_type=PositionEmbeddingType.alibi, tensor_model_parallel_size=1,
        pipeline_model_parallel_size=1, seed=1234, consumed_train_samples=0, consumed_valid_samples=0,
    )
    model = {"language_model": {"embedding": {"word_embeddings": words}, "encoder": encoder}}
    root = {"args": args, "checkpoint_version": 3.0, "iteration": 0, "model": model}
    os.makedirs(os.path.join(folder, "release", "mp_rank_00"), exist_ok=True)
    torch.save(root, os.path.join(folder, "release", "mp_rank_00", "model_optim_rng.pt"))
    with open(os.path.join(folder, "latest_checkpointed_iteration.txt"), "w") as f:
        f.write("release")


def trajectory(w, batch):
    w = {name: x.double().requires_grad_() for name, x in w.items()}
    matrices = [x for x in w.values() if x.dim() > 1]
    others = [x for x in w.values() if x.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    steps = []
    for _ in range(10):
        adam.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits(w, batch[:, :-1]).reshape(-1, VOCAB), batch[:, 1:].reshape(-1))
        loss.backward()
        total = torch.nn.utils.clip_grad_norm_(list(w.values()), 1.0)
        steps.append({"lr": 1e-3, "loss": loss.item(), "grad_norm": total.item()})
        adam.step()
    return steps


def main(folder):
    w = weights()
    save(w, folder)
    tokens = torch.randint(0, VOCAB, (2, LONG))
    with torch.no_grad():
        z = logits({name: x.double() for name, x in w.items()}, tokens)
    numpy.save(os.path.join(folder, "logits_f64.npy"), z.numpy())
    batch = torch.randint(0, VOCAB, (2, SEQ + 1))
    result = {"tokens": tokens.tolist(), "batch": batch.tolist(), "trajectory_f64": trajectory(w, batch)}
    with open(os.path.join(folder, "result.json"), "w") as f:
        json.dump(result, f)


main(sys.argv[1])
