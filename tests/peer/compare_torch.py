"""Compares what triax reads from .pt files, and what it writes, with PyTorch: values, numbers, views, flags.

Values by chance, in both containers and with every pickle protocol: torch.save, then triax reads them, then triax writes
them, then torch.load; and values that triax makes, which torch.load reads with weights_only=True and False.
Usage: compare_torch.py PT_TOOL WORKDIR [SEED]
"""
import argparse
import collections
import os
import random
import subprocess
import sys

import numpy as np
import torch

from describe import describe

TOOL, WORK = sys.argv[1:3]
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 3
N = 40
rng = random.Random(SEED)
torch.manual_seed(SEED)
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


def tool(*args, env=None):
    r = subprocess.run([TOOL, *args], capture_output=True, env={**os.environ, **(env or {})})
    if r.returncode:
        sys.exit(f"FAILED: pt_tool {' '.join(args)}: {r.stderr.decode()}")
    return r.stdout.decode()


def same(what, got, want):
    if got == want:
        return
    i = next((k for k, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    sys.exit(f"FAILED: {what}, from character {i} on:\n  {got[max(0, i - 60):i + 60]}\nexpected\n  {want[max(0, i - 60):i + 60]}")


pool = []


def tensor():
    if pool and rng.random() < 0.4:
        t = rng.choice(pool)
    else:
        shape = [rng.randint(0, 5) for _ in range(rng.randint(0, 4))]
        dtype = rng.choice(FLOATS + INTS)
        t = torch.randn(shape).to(dtype) if dtype in FLOATS else torch.randint(0, 2, shape).to(dtype)
        pool.append(t)
    for _ in range(rng.randint(0, 2)):
        if t.dim() == 0:
            break
        d = rng.randrange(t.dim())
        how = rng.randrange(5)
        if how == 0: t = t.transpose(0, d)
        elif how == 1 and t.shape[d]: t = t.narrow(d, rng.randrange(t.shape[d]), 1)
        elif how == 2 and t.shape[d]: t = t.select(d, rng.randrange(t.shape[d]))
        elif how == 3: t = t[::2]
        elif how == 4: t = t.unsqueeze(d).expand(*t.shape[:d], 2, *t.shape[d:])
    if t.dtype in FLOATS and rng.random() < 0.2:
        t = torch.nn.Parameter(t, requires_grad=rng.random() < 0.5)
    return t


def value(depth):
    kind = rng.randrange(20 if depth else 11)
    if kind < 5: return tensor()
    if kind == 5: return rng.choice([None, True, False, torch.float16, torch.Size([1, 2])])
    if kind == 6: return rng.choice([0, -1, 255, 2**31, -2**31 - 1, 2**63 - 1, -2**63, 2**63, 2**200, -2**200])
    if kind == 7: return rng.uniform(-1, 1)
    if kind in (8, 9): return "".join(rng.choice("aé中\U0001F600 ./") for _ in range(rng.randint(0, 9)))
    if kind == 10: return rng.randbytes(rng.randint(0, 9))
    if kind < 14: return [value(depth - 1) for _ in range(rng.randint(0, 5))]
    if kind < 16: return tuple(value(depth - 1) for _ in range(rng.randint(0, 5)))
    made = {f"k{i}": value(depth - 1) for i in range(rng.randint(0, 5))}
    if kind == 16: return argparse.Namespace(**made)
    if kind == 17: return {1, "x", (2, 3)}
    return made if kind == 18 else collections.OrderedDict(made)


def from_torch():
    for i in range(N):
        pool.clear()
        obj = {"values": [value(4) for _ in range(6)], "numpy": np.random.RandomState(i).get_state() if i % 4 == 0 else None}
        line = describe(obj)
        path, back = (os.path.join(WORK, x) for x in ("theirs.pt", "back.pt"))
        for zipped in (True, False):
            for protocol in (2, 3, 4, 5) if i % 4 else (2, 3, 4):  # NumPy has other words for an array in protocol 5
                torch.save(obj, path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
                same(f"seed {SEED}, values {i}, protocol {protocol}, zip {zipped}: as triax reads them", tool("show", path), line)
        tool("copy", path, back)
        same(f"seed {SEED}, values {i}: as torch reads what triax wrote", describe(torch.load(back, weights_only=False)), line)
    print(f"{N * 15 // 2} files of torch.save read, {N} of triax loaded by torch: equal")


def from_triax():
    path = os.path.join(WORK, "ours.pt")
    for i in range(N):
        line = tool("make", str(SEED * 1000 + i), path)
        for weights_only in (True, False):
            for mmap in (True, False):
                same(f"seed {SEED}, values {i} of triax, weights_only={weights_only}",
                     describe(torch.load(path, weights_only=weights_only, mmap=mmap)), line)
        with torch.serialization.skip_data():
            torch.load(path)
        line = tool("make", str(SEED * 1000 + i), path, env={"TX_PT_OBJECTS": "1"})
        same(f"seed {SEED}, values {i} of triax with objects", describe(torch.load(path, weights_only=False)), line)
    print(f"{N} files of triax loaded by torch with weights_only=True, {2 * N} with False: equal")


def large():
    path = os.path.join(WORK, "large.pt")
    tool("large", "5", path)
    v = torch.load(path, mmap=True)
    n = v["large"].numel()
    assert n == 5 << 28 and os.path.getsize(path) > 5 << 30
    for i in [0, 999, 1000, 2**30, n - 1] + [rng.randrange(n) for _ in range(1000)]:
        assert v["large"][i].item() == torch.tensor(i // 1000, dtype=torch.float32).item(), i
    assert v["behind"].tolist() == [0.0] * 10
    import zipfile
    assert zipfile.ZipFile(path).read("large/data/1") == bytes(40)
    print("a file of 5 GiB: equal")


from_torch()
from_triax()
if os.environ.get("TX_PEER_LARGE"):
    large()
