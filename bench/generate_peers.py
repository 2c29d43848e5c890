"""Generation of triax and Hugging Face transformers in turn: GPT-2 124M's shapes, random weights, greedy, key-value cache.

One stream behind a prompt of 128 tokens, as bench/generate.c does; the fastest and the median token of each, and their ratio. The
peer twice: a bare loop over its forward, and its own generate(), whose time for one token is that of 33 less that of one, by 32.
Usage: generate_peers.py BENCH_GENERATE [--threads 2] [--rounds 3]
"""
import argparse
import collections
import re
import statistics
import subprocess
import sys

PEER = """
import sys, time, torch
from transformers import GPT2Config, GPT2LMHeadModel
torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config()).to(getattr(torch, sys.argv[2])).eval()
ids = torch.randint(50257, (1, 128))
with torch.inference_mode():
    out = model(ids, use_cache=True)
    for i in range(18):
        token = out.logits[:, -1:].argmax(-1)
        start = time.perf_counter()
        out = model(token, past_key_values=out.past_key_values, use_cache=True)
        out.logits[0, -1].argmax().item()
        if i >= 2:
            print("loop", time.perf_counter() - start)
    def seconds(n):
        start = time.perf_counter()
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, min_new_tokens=n, do_sample=False, pad_token_id=0)
        return time.perf_counter() - start
    for i in range(4):
        per_token = (seconds(33) - seconds(1)) / 32
        if i >= 1:
            print("generate()", per_token)
"""


def peer(threads, dtype):
    out = subprocess.run([sys.executable, "-c", PEER, str(threads), dtype], check=True, capture_output=True, text=True)
    return [(how, float(x)) for how, x in (line.split() for line in out.stdout.splitlines())]


def ours(program, threads):
    """Tokens/s by dtype: the fastest and the median."""
    out = subprocess.run([program, str(threads), "1"], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^(fp32|bf16) (fastest|median) +one stream +([0-9.]+) tokens/s", out, re.M)
    return {(dtype, which): float(rate) for dtype, which, rate in found}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("program")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    theirs = collections.defaultdict(list)
    mine = []
    for _ in range(a.rounds):
        mine.append(ours(a.program, a.threads))
        for dtype, name in (("fp32", "float32"), ("bf16", "bfloat16")):
            for how, x in peer(a.threads, name):
                theirs[dtype, how].append(x)
    for (dtype, how), times in theirs.items():
        for which, pick, other in (("fastest", max, min), ("median", statistics.median, statistics.median)):
            rate, peers = pick(r[dtype, which] for r in mine), 1 / other(times)
            print(f"{dtype} {which:7} triax {rate:6.1f} tokens/s, transformers' {how:10} {peers:6.1f}: {rate / peers:.1f} times")


if __name__ == "__main__":
    main()
