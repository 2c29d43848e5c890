"""Trains the same GPT-2 or Llama in PyTorch and in triax, step by step, and compares loss, gradients and weights.

A random Hugging Face model is saved, triax loads it and dumps each step (--dump-step); PyTorch then does the same step on
the dumped batch. Also: a dump opens with from_pretrained. Usage: compare_models.py TRIAX WORKDIR
"""
import os
import struct
import subprocess
import sys

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

TRIAX, WORK = sys.argv[1:3]
STEPS, LR, MIN_LR, DECAY, BETAS = 4, 1e-3, 1e-4, 0.1, (0.9, 0.95)

# name, layers, hidden, heads, positions, vocabulary, activation, sequence, micro batch, global batch, padding, dtype
# "documents" is trained with --reset-attention-mask, --reset-position-ids and --eod-mask-loss
CASES = [
    ("plain", 2, 64, 4, 64, 512, "gelu_new", 64, 2, 4, 128, torch.float32),
    ("odd", 3, 48, 3, 40, 509, "gelu", 33, 3, 9, 128, torch.float32),
    ("sharded", 2, 80, 5, 128, 1000, "gelu_new", 100, 1, 2, 64, torch.float32),
    ("bf16-file", 1, 64, 2, 32, 300, "gelu_new", 32, 4, 4, 1, torch.bfloat16),
    ("documents", 2, 64, 4, 256, 512, "gelu_new", 256, 2, 4, 128, torch.float32),
    ("wide-head", 2, 160, 1, 32, 300, "gelu", 17, 4, 8, 1, torch.float32),
    ("llama", 2, 64, 4, 64, 512, "silu", 64, 2, 4, 128, torch.float32),
    ("llama-tied", 3, 96, 6, 80, 509, "silu", 40, 3, 6, 64, torch.float32),
]


def write_dataset(prefix, vocab):
    rng = np.random.RandomState(1)
    docs = [np.append(rng.randint(0, vocab, rng.randint(1, 200)), vocab - 1) for _ in range(80)]
    sizes = np.array([len(d) for d in docs], np.int32)
    pointers = np.concatenate([[0], np.cumsum(sizes[:-1].astype(np.int64) * 2)])
    np.concatenate(docs).astype(np.uint16).tofile(prefix + ".bin")
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(docs), len(docs) + 1))
        f.write(sizes.tobytes() + pointers.astype(np.int64).tobytes() + np.arange(len(docs) + 1, dtype=np.int64).tobytes())


def dump_step(folder, case, step):
    name, layers, hidden, heads, positions, vocab, act, seq, micro, batch, pad, _ = case
    flags = {
        "num-layers": layers, "hidden-size": hidden, "num-attention-heads": heads, "seq-length": seq,
        "max-position-embeddings": positions, "micro-batch-size": micro, "global-batch-size": batch, "train-iters": STEPS,
        "lr": LR, "min-lr": MIN_LR, "lr-decay-style": "linear", "weight-decay": DECAY, "clip-grad": 1.0,
        "adam-beta2": BETAS[1], "hidden-dropout": 0, "attention-dropout": 0, "data-path": folder + "/data",
        "tokenizer-type": "NullTokenizer", "vocab-size": vocab - 1, "split": "1,0,0", "load": folder + "/hf",
        "make-vocab-size-divisible-by": pad,
    }
    apart = ["--reset-attention-mask", "--reset-position-ids", "--eod-mask-loss"] if name == "documents" else []
    command = [TRIAX, "pretrain-gpt"] + [str(x) for k, v in flags.items() for x in ("--" + k, v)]
    command += apart + ["--dump-step", str(step), f"{folder}/dump{step}"] + (["--no-bias-gelu-fusion"] if act == "gelu" else [])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr}")
    return [load_file(f"{folder}/dump{step}/{x}.safetensors") for x in ("loss", "grads", "model")]


def documents(x, eod):
    """Megatron's masks for inputs x: what may be attended to (causal; behind an EOD nothing up to it), positions, loss mask."""
    b, s = x.shape
    seen, position = torch.tril(torch.ones(b, 1, s, s, dtype=torch.bool)), torch.arange(s).repeat(b, 1)
    for j in range(b):
        for i in (x[j] == eod).nonzero().flatten().tolist():
            seen[j, 0, i + 1:, :i + 1] = False
            position[j, i + 1:] = torch.arange(s - i - 1)
    return seen, position, x != eod


def within(name, step, what, value, bound):
    print(f"{name:10} step {step} {what:20} {value:.1e} (bound {bound:.0e})")
    if not value <= bound:
        sys.exit(f"{name}: {what} is out of bounds")


def random_model(name, layers, hidden, heads, positions, vocab, act):
    common = {"vocab_size": vocab, "bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.05}
    if act != "silu":
        return GPT2LMHeadModel(GPT2Config(
            n_positions=positions, n_embd=hidden, n_layer=layers, n_head=heads, activation_function=act, resid_pdrop=0,
            embd_pdrop=0, attn_pdrop=0, **common))
    tied = name == "llama-tied"  # also wider heads than hidden / heads, and another base of the rotation
    return LlamaForCausalLM(LlamaConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads // 2,
        intermediate_size=hidden * 5 // 2, max_position_embeddings=positions, tie_word_embeddings=tied,
        head_dim=24 if tied else hidden // heads,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0 if tied else 10000.0}, **common))


def run(case):
    name, layers, hidden, heads, positions, vocab, act, _, micro, batch, _, dtype = case
    folder = f"{WORK}/{name}"
    os.makedirs(folder)
    torch.manual_seed(0)
    model = random_model(name, layers, hidden, heads, positions, vocab, act)
    for p in model.parameters():
        p.data += torch.randn_like(p) * 0.02
    model = model.to(dtype)
    model.save_pretrained(folder + "/hf", max_shard_size="100KB" if name == "sharded" else "5GB")
    model = model.float()
    write_dataset(folder + "/data", vocab)
    named = dict(model.named_parameters())
    adam = torch.optim.AdamW([{"params": [p for p in named.values() if p.ndim >= 2], "weight_decay": DECAY},
                              {"params": [p for p in named.values() if p.ndim < 2], "weight_decay": 0}], lr=LR, betas=BETAS)
    for step in range(1, STEPS + 1):
        numbers, grads, weights = dump_step(folder, case, step)
        ids, loss = numbers["input_ids"].long(), 0.0
        adam.zero_grad()
        for k in range(0, batch, micro):
            x = ids[k:k + micro]
            more, counted = {}, torch.ones_like(x[:, :-1], dtype=torch.bool)
            if name == "documents":
                seen, position, counted = documents(x[:, :-1], vocab - 1)
                assert not counted.all(), "no document ends"
                more = {"attention_mask": torch.where(seen, 0.0, -10000.0), "position_ids": position}
            logits = model(x[:, :-1], **more).logits
            part = torch.nn.functional.cross_entropy(logits[counted], x[:, 1:][counted])
            (part * micro / batch).backward()
            loss += part.item() * micro / batch
        assert set(weights) == set(grads) == set(named), "other tensors"
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).item()
        worst = max(((grads[n] - p.grad).norm() / p.grad.norm()).item() for n, p in named.items() if p.grad.norm() > 1e-6)
        apart = max((weights[n] - p.detach()).abs().max().item() for n, p in named.items() if "c_attn.bias" not in n)
        within(name, step, "loss", abs(loss - numbers["loss"].item()), 5e-6 if step == 1 else 2e-5)
        within(name, step, "gradient norm", abs(norm - numbers["grad_norm"].item()) / norm, 1e-4)
        within(name, step, "weights", apart, 0 if step == 1 else 1e-4)
        if step == 1:
            within(name, step, "gradients", worst, 1e-5)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in adam.param_groups:
            group["lr"] = MIN_LR + (1 - (step - 1) / STEPS) * (LR - MIN_LR)
        adam.step()
    type(model).from_pretrained(folder + "/dump1")


for one in CASES:
    run(one)
print("all within bounds")
