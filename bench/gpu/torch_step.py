"""Milliseconds of a training step of GPT-2 in PyTorch on a GPU: bf16 autocast, fused attention, torch.compile, fused AdamW.

    torch_step.py LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH [--device cpu]

Reads numbers of steps, a line each; runs two that do not count and then so many, prints their mean, and gives the memory back that
only a step needs. On the CPU, where its protocol is tried, nothing is compiled.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import torch

from gpt_torch import GPT

layers, hidden, heads, vocab, seq, batch = map(int, sys.argv[1:7])
device = sys.argv[8] if sys.argv[7:8] == ["--device"] else "cuda"
gpu = torch.cuda if device == "cuda" else None
torch.manual_seed(1)
torch.set_float32_matmul_precision("high")
if gpu:
    # What is compiled may be kept (TORCHINDUCTOR_CACHE_DIR); which kernel is the fastest is found out anew, on a quiet GPU.
    import torch._inductor.config

    torch._inductor.config.autotune_local_cache = False
with torch.device(device):
    model = GPT(layers, hidden, heads, vocab, seq)
    ids = torch.randint(vocab, (batch, seq + 1))
step_of = torch.compile(model, dynamic=False) if gpu else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def step():
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = step_of(ids[:, :-1], ids[:, 1:])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def now():
    if gpu:
        gpu.synchronize()
    return time.perf_counter()


print("torch", torch.__version__, flush=True)
for line in sys.stdin:
    n = int(line)
    if n <= 0:
        break
    for _ in range(2):
        step()
    start = now()
    for _ in range(n):
        step()
    print(f"{1e3 * (now() - start) / n:.4f}", flush=True)
    if gpu:
        print(f"{gpu.max_memory_allocated() / 2**30:.1f} GiB", file=sys.stderr, flush=True)
        gpu.empty_cache()
