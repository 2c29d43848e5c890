"""check_upstream.py EXPECT FOLDER KIND - what triax wrote, read by torch and DeepSpeed's own tools.

EXPECT: a safetensors file of a native checkpoint. KIND: zero (a DeepSpeed folder without tensor and pipeline ranks),
universal (a DeepSpeed folder that ds_to_universal turns into a universal one), pt (every file is read and no more),
written (a universal folder of triax).
"""
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch


def native(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        data = f.read()
    out = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        out[name] = torch.from_numpy(np.frombuffer(data[begin:end], dtype="<f4").reshape(t["shape"]).copy())
    return out


def ours(name, layers):
    """A name of Megatron's or of a pipeline's modules as triax has it."""
    first, _, rest = name.partition(".")
    if first == "language_model":
        return rest
    if first in ("lm_head", "binary_head"):  # of a BERT
        return name
    if first == "tied_modules":
        return "embedding." + rest.partition(".")[2]
    n = int(first)
    if n == 1:
        return "embedding." + rest
    if n == layers + 2:
        return "encoder.final_layernorm." + rest
    return "output_layer.weight" if n == layers + 3 else f"encoder.layers.{n - 2}.{rest}"


def same(got, want, what):
    rows = want.shape[0]
    assert torch.equal(got[:rows], want), f"{what} differs"
    assert not got[rows:].any(), f"{what}: padding is not zero"


def zero_to_fp32(expect, folder, layers):
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    state = get_fp32_state_dict_from_zero_checkpoint(folder)
    names = {ours(n, layers) for n in state}
    assert names == {n[6:] for n in expect if n.startswith("model.")}, sorted(names)
    for name, t in state.items():
        same(t, expect["model." + ours(name, layers)], name)
    return len(state)


def universal(expect, step, layers, weights_only):
    files = {"fp32": "model", "exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}
    folders = glob.glob(step + "/zero/*/")
    assert len(folders) == sum(n.startswith("model.") for n in expect), len(folders)
    for folder in folders:
        name = os.path.basename(folder[:-1])
        for file, part in files.items():
            got = torch.load(f"{folder}{file}.pt", weights_only=weights_only)
            got = got["param"] if isinstance(got, dict) else got
            want = expect[f"{part}.{ours(name, layers)}"]
            if name == "lm_head.bias":  # keeps its padding
                same(got, want, f"{name} {file}")
            else:
                assert torch.equal(got.reshape(want.shape), want), f"{name} {file} differs"
    return len(folders)


# DeepSpeed 0.19.8 takes `module` for a flat dict where there is no pipeline, and stumbles over Megatron's nested one, in
# the folders that it wrote itself, too. It wants parameters from there that the optimizer has not: there are none.
TOOL = """
import runpy, sys, torch
load = torch.load
def without_module(*args, **kwargs):
    state = load(*args, **kwargs)
    if isinstance(state, dict) and isinstance(state.get("module"), dict):
        state["module"] = None
    return state
torch.load = without_module
runpy.run_module("deepspeed.checkpoint.ds_to_universal", run_name="__main__")
"""


def ds_to_universal(expect, folder, layers):
    step = os.path.join(folder, open(os.path.join(folder, "latest")).read())
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "universal")
        done = subprocess.run(
            [sys.executable, "-c", TOOL, "--input_folder", step, "--output_folder",
             out, "--num_extract_workers", "1", "--num_merge_workers", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:]
        return universal(expect, out, layers, False)


def main():
    path, folder, kind = sys.argv[1:4]
    expect = native(path)
    layers = 1 + max(int(n.split(".")[3]) for n in expect if n.startswith("model.encoder.layers."))
    files = glob.glob(folder + "/**/*.pt", recursive=True)
    assert files
    for f in files:
        torch.load(f, map_location="cpu", weights_only=False)
    if kind == "zero":
        n = zero_to_fp32(expect, folder, layers)
    elif kind == "universal":
        n = ds_to_universal(expect, folder, layers)
    elif kind == "written":
        n = universal(expect, glob.glob(folder + "/global_step*_universal")[0], layers, True)
    else:
        n = 0
    print(f"{kind}: {len(files)} files read, {n} parameters equal")


main()
