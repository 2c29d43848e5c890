"""Saving and loading 1.5 GB with torch.save, torch.load and safetensors next to plain write and fsync, in turns.

The tensors are GPT-2 124M's weights and two moments in fp32. Before each reading the pages are dropped. Writers are given an
fsync of their file, which they do not do by themselves.
Usage: checkpoint_peers.py FOLDER [REPETITIONS, 5]
"""
import os
import statistics
import sys
import time

import torch
from safetensors.torch import load_file, save_file

folder, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
h, shapes = 768, [(50304, 768), (1024, 768), (768,), (768,)]
for _ in range(12):
    shapes += [(h,), (h,), (3 * h, h), (3 * h,), (h, h), (h,), (h,), (h,), (4 * h, h), (4 * h,), (h, 4 * h), (h,)]
tensors = {f"{part}.{i}": torch.randn(s) for part in ("model", "exp_avg", "exp_avg_sq") for i, s in enumerate(shapes)}
size = sum(t.numel() * 4 for t in tensors.values())
path = os.path.join(folder, "peer")


def sync():
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def drop():
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def plain_write():
    block = bytes(4 << 20)
    with open(path, "wb", buffering=0) as f:
        for at in range(0, size, len(block)):
            f.write(block[: min(len(block), size - at)])


def plain_read():
    block = bytearray(4 << 20)
    with open(path, "rb", buffering=0) as f:
        while f.readinto(block):
            pass


def touch(loaded):
    return sum(t.view(-1)[::1024].sum().item() for t in loaded.values())


WAYS = {
    "plain": (plain_write, plain_read),
    "torch": (lambda: torch.save(tensors, path), lambda: torch.load(path)),
    "safetensors": (lambda: save_file(tensors, path), lambda: touch(load_file(path))),
}
seconds = {(way, what): [] for way in WAYS for what in ("save", "load")}
for _ in range(n):
    for way, (save, load) in WAYS.items():
        begin = time.perf_counter()
        save()
        sync()
        seconds[way, "save"].append(time.perf_counter() - begin)
        drop()
        begin = time.perf_counter()
        load()
        seconds[way, "load"].append(time.perf_counter() - begin)
        os.remove(path)
medians = {key: statistics.median(x) for key, x in seconds.items()}
for way in WAYS:
    for what in ("save", "load"):
        print(f"{way} {what}: {medians[way, what]:.2f} s, {medians[way, what] / medians['plain', what]:.2f} of plain")
