"""Hugging Face models through triax convert and back, and what transformers computes with the results.

Models of random weights: GPT-2 (tied, untied, gelu and gelu_new), Llama (one head a group and several, tied and untied),
saved as safetensors, in shards and as pytorch_model.bin. Each goes to every format and back: fp32 weights must come back
bit for bit, a bf16 result must be the rounded weights, and the logits of from_pretrained on the result those of the
original within 1e-4.
Usage: compare_conversions.py TRIAX SCRATCH
"""
import os
import subprocess
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

TRIAX, SCRATCH = sys.argv[1:3]
torch.manual_seed(7)
failed = 0


def gpt2(**more):
    return GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=48, n_head=4, n_positions=40, vocab_size=203, **more))


def llama(**more):
    sizes = dict(num_hidden_layers=2, hidden_size=48, intermediate_size=104, num_attention_heads=4, vocab_size=203)
    return LlamaForCausalLM(LlamaConfig(max_position_embeddings=40, **sizes, **more))


def other(kind, **more):
    """One of Llama's descendants: every parameter random, biases and norms too."""
    sizes = dict(num_hidden_layers=2, hidden_size=48, intermediate_size=104, num_attention_heads=4, vocab_size=203)
    config = AutoConfig.for_model(kind, max_position_embeddings=40, num_key_value_heads=2, **sizes, **more)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.2 + ("norm" in name))
    return model


EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)
MODELS = {
    "gpt2": (gpt2(), {}),
    "gpt2-gelu": (gpt2(activation_function="gelu"), {"shard": "40KB"}),
    "gpt2-untied": (gpt2(tie_word_embeddings=False), {}),
    "gpt2-bin": (gpt2(), {"bin": True}),
    "llama": (llama(num_key_value_heads=4, tie_word_embeddings=False), {"shard": "60KB"}),
    "llama-gqa": (llama(num_key_value_heads=2, tie_word_embeddings=False), {}),
    "llama-tied-bin": (llama(num_key_value_heads=1, tie_word_embeddings=True), {"bin": True}),
    "qwen2": (other("qwen2", tie_word_embeddings=True), {}),
    "qwen3": (other("qwen3", head_dim=16), {}),
    "mixtral": (other("mixtral", num_local_experts=4, num_experts_per_tok=2), {"shard": "60KB"}),
    "qwen2-moe": (other("qwen2_moe", shared_expert_intermediate_size=40, **EXPERTS), {}),
    "qwen3-moe": (other("qwen3_moe", head_dim=16, norm_topk_prob=True, **EXPERTS), {}),
    "qwen3-moe-tied": (other("qwen3_moe", head_dim=8, norm_topk_prob=False, tie_word_embeddings=True, **EXPERTS), {}),
}


def check(good, text):
    global failed
    failed += not good
    print(("ok    " if good else "WRONG ") + text, flush=True)


def convert(to, a, b, *more):
    command = [TRIAX, "convert", "--to", to, a, b, *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        check(False, f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode == 0


def save(model, folder, how):
    if how.get("bin"):
        model.config.save_pretrained(folder)
        torch.save(model.state_dict(), os.path.join(folder, "pytorch_model.bin"))
    else:
        model.save_pretrained(folder, max_shard_size=how.get("shard", "5GB"))


def logits(model, tokens):
    with torch.no_grad():
        return model(tokens).logits


def saved(folder, model):
    """What save() wrote: transformers packs experts in memory, not in files."""
    files = [name for name in os.listdir(folder) if name.endswith(".safetensors")]
    all = {}
    for name in files:
        all.update(load_file(os.path.join(folder, name)))
    return all if files else model.state_dict()


def differ(folder, original, model, dtype=torch.float32):
    got = load_file(os.path.join(folder, "model.safetensors"))
    mine = saved(original, model)
    wrong = [k for k, x in got.items() if k not in mine or not torch.equal(x, mine[k].to(dtype))]
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    return wrong + [k for k in mine if k not in got and k not in tied and not k.endswith((".attn.bias", ".masked_bias"))]


for name, (model, how) in MODELS.items():
    model.eval()
    tokens = torch.randint(0, 203, (2, 33))
    first = f"{SCRATCH}/{name}"
    os.makedirs(first)
    save(model, first, how)
    formats = [("native", []), ("megatron", []), ("deepspeed", [])]
    if name == "llama":
        formats = [("native", []), ("megatron", ["--target-tp", "2", "--target-pp", "2"]),
                   ("deepspeed", ["--target-tp", "2", "--target-pp", "2", "--target-dp", "2"])]
    if getattr(model.config, "num_experts_per_tok", None):
        formats = [("native", [])]
    for form, more in formats:
        between, back = f"{first}-{form}", f"{first}-{form}-back"
        if not convert(form, first, between, *more) or not convert("huggingface", between, back, "--true-vocab-size", "203"):
            continue
        wrong = differ(back, first, model)
        check(not wrong, f"{name} through {form}: bit for bit the same {wrong[:3]}")
        diff = (logits(AutoModelForCausalLM.from_pretrained(back), tokens) - logits(model, tokens)).abs().max().item()
        check(diff <= 1e-4, f"{name} through {form}: logits of from_pretrained differ by {diff:.3g}")
    half = f"{first}-bf16"
    if convert("huggingface", first, half, "--dtype", "bf16", "--max-shard-size", "1GB"):
        wrong = differ(half, first, model, torch.bfloat16)
        check(not wrong, f"{name} as bf16: the rounded weights {wrong[:3]}")
        loaded = AutoModelForCausalLM.from_pretrained(half)
        check(loaded.dtype == torch.bfloat16, f"{name} as bf16: from_pretrained takes it as {loaded.dtype}")
sys.exit(1 if failed else 0)
