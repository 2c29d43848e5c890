"""Makes mixtral/, qwen2_moe/ and qwen3_moe/ beside this folder's parent: tiny models of experts with random weights, their
logits, loss and gradients in fp64, and 20 steps of AdamW, all by Hugging Face transformers.

Usage: make.py      (PyTorch 2.15, transformers 5.24)
"""
import json
import math
import os
import shutil
import tempfile

import numpy
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
B, S, VOCAB, STEPS = 4, 32, 64, 20
torch.float32 = torch.float = torch.float64  # what transformers widens to inside norms, routers and rotations

SIZES = dict(vocab_size=VOCAB, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=S, initializer_range=0.1, attention_dropout=0.0, num_experts_per_tok=2)
MODELS = {
    "mixtral": dict(intermediate_size=14, num_local_experts=4),
    "qwen2_moe": dict(intermediate_size=36, moe_intermediate_size=12, shared_expert_intermediate_size=16, num_experts=4),
    "qwen3_moe": dict(intermediate_size=36, moe_intermediate_size=12, num_experts=5, head_dim=8, norm_topk_prob=True,
                      tie_word_embeddings=True),
}


def tensors(model, values):
    """One tensor for each parameter, by the names that files have: transformers packs experts in memory."""
    kept = {name: p.data for name, p in model.named_parameters()}
    with tempfile.TemporaryDirectory() as folder:
        for name, p in model.named_parameters():
            p.data = values[name].detach().clone()
        model.save_pretrained(folder)
        found = load_file(os.path.join(folder, "model.safetensors"))
    for name, p in model.named_parameters():
        p.data = kept[name]
    return {name: t.to(torch.zeros(0, dtype=torch.half).float().dtype).contiguous() for name, t in found.items()}


def loss_of(model, rows):
    logits = model(rows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), rows[:, 1:].reshape(-1)), logits


def make(kind, more):
    out = os.path.join(HERE, kind)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES, **more))
    model.set_experts_implementation("eager")  # the only one that takes fp64
    single = torch.zeros(0).half().float().dtype
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_((torch.randn_like(p) * 0.3 + ("norm" in name)).to(single))
    model = model.double().eval()
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        model.to(single).save_pretrained(folder)
        for file in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(folder, file), out)
    model.double()
    batches = [torch.randint(0, VOCAB, (B, S + 1)) for _ in range(5)]
    with open(os.path.join(out, "batch.json"), "w") as f:
        json.dump({"input_ids": batches[0].tolist()}, f)
    with open(os.path.join(out, "train_batches.json"), "w") as f:
        json.dump([{"input_ids": b.tolist()} for b in batches], f)

    named = list(model.named_parameters())
    def decays(name, p):
        return "norm" not in name and not name.endswith("bias")
    groups = [{"params": [p for n, p in named if decays(n, p)], "weight_decay": 0.01},
              {"params": [p for n, p in named if not decays(n, p)], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    result = {"trajectory_f64": []}
    for step in range(STEPS):
        lr = 1e-3 * (1 - step / (2 * STEPS))
        for g in optimizer.param_groups:
            g["lr"] = lr
        optimizer.zero_grad()
        loss, logits = loss_of(model, batches[step % 5])
        loss.backward()
        if step == 0:
            numpy.save(os.path.join(out, "logits_f64.npy"), logits.detach().numpy())
            result["loss_f64"] = loss.item()
            save_file(tensors(model, {n: p.grad for n, p in named}), os.path.join(out, "grads.safetensors"))
        norm = math.sqrt(sum((p.grad ** 2).sum().item() for _, p in named))
        for _, p in named:
            p.grad *= min(1.0, 1.0 / (norm + 1e-6))
        optimizer.step()
        result["trajectory_f64"].append({"lr": lr, "loss": loss.item(), "grad_norm": norm})
    save_file(tensors(model, {n: p.data for n, p in named}), os.path.join(out, "final_params.safetensors"))
    with open(os.path.join(out, "result.json"), "w") as f:
        json.dump(result, f, indent=1)


for number, (kind, more) in enumerate(MODELS.items()):
    torch.manual_seed(27 + number)
    make(kind, more)
