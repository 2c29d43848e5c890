"""Milliseconds of a training step of GPT-2 in PyTorch on a GPU: bf16 autocast, fused attention, torch.compile, fused AdamW.

    torch_step.py LAYERS HIDDEN HEADS VOCABULARY SEQUENCE BATCH

Reads numbers of steps, a line each; runs so many and prints their mean, as bench/train.c does.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import torch

from gpt_torch import GPT

layers, hidden, heads, vocab, seq, batch = map(int, sys.argv[1:7])
torch.manual_seed(1)
torch.set_float32_matmul_precision("high")
model = GPT(layers, hidden, heads, vocab, seq).cuda()
step_of = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
ids = torch.randint(vocab, (batch, seq + 1), device="cuda")


def step():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = step_of(ids[:, :-1], ids[:, 1:])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


print("torch", torch.__version__, flush=True)
for line in sys.stdin:
    n = int(line)
    if n <= 0:
        break
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(n):
        step()
    torch.cuda.synchronize()
    print(f"{1e3 * (time.perf_counter() - start) / n:.4f}", flush=True)
