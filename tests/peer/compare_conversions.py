"""Hugging Face models through triax convert and back, and what transformers computes with the results.

Models of random weights: GPT-2 (tied, untied, gelu and gelu_new), Llama (one head a group and several, tied and untied),
saved as safetensors, in shards and as pytorch_model.bin. Each goes to every format and back: fp32 weights must come back
bit for bit, a bf16 result must be the rounded weights, and the logits of from_pretrained on the result those of the
original within 1e-4. triax itself, reading the folder of a model with experts, gives texts the log-probabilities that
transformers gives them in fp64, within 2e-5; configs that it cannot have are refused.
Usage: compare_conversions.py TRIAX SCRATCH
"""
import json
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
    "mixtral-one": (other("mixtral", num_local_experts=3, num_experts_per_tok=1, head_dim=8, tie_word_embeddings=True), {}),
    "qwen2-moe": (other("qwen2_moe", shared_expert_intermediate_size=40, **EXPERTS), {}),
    "qwen3-moe": (other("qwen3_moe", head_dim=16, norm_topk_prob=True, **EXPERTS), {}),
    "qwen3-moe-tied": (other("qwen3_moe", head_dim=8, norm_topk_prob=False, tie_word_embeddings=True, **EXPERTS), {}),
    "qwen2-moe-some": (other("qwen2_moe", shared_expert_intermediate_size=24, norm_topk_prob=True, decoder_sparse_step=2,
                             tie_word_embeddings=True, **EXPERTS), {}),
    "qwen2-moe-window": (other("qwen2_moe", shared_expert_intermediate_size=8, sliding_window=16, use_sliding_window=False,
                               num_experts=6, num_experts_per_tok=4, moe_intermediate_size=16), {}),
    "qwen3-moe-some": (other("qwen3_moe", head_dim=16, norm_topk_prob=True, mlp_only_layers=[0], **EXPERTS), {"shard": "60KB"}),
    "qwen3-moe-one": (other("qwen3_moe", head_dim=16, num_experts=4, num_experts_per_tok=1, moe_intermediate_size=24,
                            decoder_sparse_step=2, mlp_only_layers=[0]), {}),
}
REFUSED = {
    "mixtral": ({"sliding_window": "16"}, "sliding_window"),
    "qwen2-moe": ({"use_sliding_window": 1}, "use_sliding_window"),
    "qwen2-moe-some": ({"mlp_only_layers": 1}, '"mlp_only_layers" must be a list of numbers of layers'),
    "qwen2-moe-window": ({"qkv_bias": False}, "qkv_bias"),
    "qwen3-moe": ({"attention_bias": True}, "attention_bias"),
    "qwen3-moe-some": ({"mlp_only_layers": [0, 1]}, "config.json: no layer has experts"),
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


def exact(model, tokens):
    """log-probabilities in fp64, also where transformers widens to fp32."""
    single, torch.float32 = torch.float32, torch.float64
    torch.float = torch.float64
    model.set_experts_implementation("eager")
    with torch.no_grad():
        said = model.double()(tokens).logits.log_softmax(-1)
    torch.float32 = torch.float = single
    model.float()
    return said


def computes(name, folder, model, tokens):
    with open(f"{folder}-texts.jsonl", "w") as f:
        f.writelines(json.dumps({"text": " ".join(map(str, text.tolist()))}) + "\n" for text in tokens)
    done = subprocess.run([TRIAX, "evaluate", "--load", folder, "--valid-data", f"{folder}-texts.jsonl", "--per-token",
                           "--tokenizer-type", "NullTokenizer", "--vocab-size", "202"], capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    want = exact(model, tokens)
    worst = 9.0 if done.returncode else 0.0
    for k, text in enumerate(tokens.tolist()):
        got = [r["logprob"] for r in rows if r["document"] == k]
        at = [i + len(text) - len(got) for i in range(len(got))]
        worst = max([worst] + [abs(g - want[k, i - 1, text[i]].item()) for i, g in zip(at, got) if g is not None and i])
        worst = worst if len(got) >= len(text) - 1 else 9.0
    check(worst <= 2e-5, f"{name}: triax's log-probabilities differ by {worst:.3g} {done.stderr.strip()[-200:] if worst > 1 else ''}")


def refuses(name, folder):
    members, why = REFUSED[name]
    with open(f"{folder}/config.json") as f:
        config = json.load(f)
    with open(f"{folder}/config.json", "w") as f:
        json.dump({**config, **members}, f)
    done = subprocess.run([TRIAX, "convert", "--to", "native", folder, f"{folder}-refused"], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    check(done.returncode and why in last, f"{name} with {members} is refused: {last}")


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
    if getattr(model.config, "num_experts_per_tok", None):
        computes(name, first, model, tokens)
    if name in REFUSED:
        refuses(name, first)
sys.exit(1 if failed else 0)
