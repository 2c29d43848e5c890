"""Makes the .pt files of this folder and, for each, the line that tests/torch/pt_text.h has to make of it.
Usage: python make_files.py      (needs torch and numpy; from this folder)"""
import argparse
import collections
import datetime
import os
import pathlib
import pickle
import struct
import sys
import zipfile

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "torch"))
from describe import describe

torch.manual_seed(1)
np.random.seed(1)


def mixed():
    base = torch.arange(24, dtype=torch.float32) / 7
    state = collections.OrderedDict()
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        state[str(dtype)] = torch.randn(3, 5).to(dtype)
    for dtype, lo, hi in ((torch.int64, -2**63, 2**63 - 1), (torch.int32, -2**31, 2**31 - 1), (torch.int16, -2**15, 2**15 - 1),
                          (torch.int8, -128, 127), (torch.uint8, 0, 255)):
        state[str(dtype)] = torch.tensor([lo, 0, 1, hi], dtype=dtype)
    state["bool"] = torch.tensor([[True, False], [False, True]])
    state._metadata = collections.OrderedDict(version=1)
    shared = {"same": [1, 2]}
    ns = argparse.Namespace(lr=1e-3, params_dtype=torch.bfloat16, names=["a", "b"], nested={"x": None}, shared=shared)
    by_two = collections.defaultdict(list)
    by_two["k"].append(2)
    return {
        "state": state,
        "views": [base, base[4:10], base.view(4, 6).t(), base.view(2, 3, 4)[:, 1], base.view(4, 6)[::2, 1::3], base[5], base[:0],
                  base[3:4].expand(2, 3), base.view(2, 1, 12).permute(2, 1, 0)],
        "scalar": torch.tensor(2.5), "empty": torch.empty(0, 3), "parameter": torch.nn.Parameter(torch.ones(2, 2)),
        "frozen": torch.nn.Parameter(torch.zeros(1), requires_grad=False), "grad": torch.ones(1, requires_grad=True),
        "special": torch.tensor([float("inf"), float("-inf"), float("nan"), -0.0, 1e-45]),
        "ints": [0, 1, 255, 256, 65535, 65536, -1, -2**31, 2**31, -2**31 - 1, 2**40, 2**63 - 1, -2**63, 2**63, -2**63 - 1, 2**100, -2**2100],
        "floats": [0.0, -0.0, 1.5, float("inf"), float("-inf"), 1e300], "texts": ["", "é中\U0001F600", "a\x00b", "x" * 300],
        "bytes": [b"", b"abc", bytes(range(256))], "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "set": {1, 2, 3}, "frozenset": frozenset(["a"]), "none": None, "bools": [True, False], "args": ns, "shared": shared,
        "default": by_two, "deque": collections.deque([1, 2]), "counter": collections.Counter("aab"),
        "size": torch.Size([2, 3]), "device": torch.device("cuda", 1), "dtype": torch.float16,
        "path": pathlib.PurePosixPath("a/b"), "time": datetime.timedelta(seconds=5),
        "numpy": np.random.get_state(), "array": np.arange(6, dtype=np.int32).reshape(2, 3), "number": np.float64(0.5),
        (1, "key"): "a tuple for a key", 7: "an int", None: "none", 2.5: "a float",
    }


def text(name, line):
    with open(name + ".txt", "w") as f:
        f.write(line)


def by_hand(name, pkl, storages=(), root="archive", extra=()):
    with zipfile.ZipFile(name, "w", zipfile.ZIP_STORED) as z:
        def put(entry, b):
            z.writestr(zipfile.ZipInfo(f"{root}/{entry}", (1980, 1, 1, 0, 0, 0)), b)
        put("data.pkl", pkl)
        for key, b in storages:
            put(f"data/{key}", b)
        for entry, b in extra:
            put(entry, b)
        put("version", b"3\n")


def s2(x):  # a text of Python 2
    return b"U" + bytes([len(x)]) + x


FLOATS = b"ctorch\nFloatStorage\n"


def tensor(key, numel, offset, size, stride):
    out = b"ctorch._utils\n_rebuild_tensor_v2\n((" + s2(b"storage") + FLOATS + s2(key) + s2(b"cpu") + b"K" + bytes([numel]) + b"tQ"
    out += b"K" + bytes([offset]) + b"(" + b"".join(b"K" + bytes([x]) for x in size) + b"t"
    return out + b"(" + b"".join(b"K" + bytes([x]) for x in stride) + b"t\x89ccollections\nOrderedDict\n(tRtR"


def main():
    obj = mixed()
    line = describe(obj)
    text("mixed", line)
    torch.save(obj, "mixed.pt")
    torch.save(obj, "mixed_protocol_4.pt", pickle_protocol=4)
    torch.save(obj, "mixed_legacy.pt", _use_new_zipfile_serialization=False)

    # without checksums, and with storages that are filled in later, which have none
    few = {"step": torch.tensor(7.0), "weight": torch.arange(6.0)}
    torch.serialization.set_crc32_options(False)
    torch.save(few, "no_crc.pt")
    torch.serialization.set_crc32_options(True)
    with torch.serialization.skip_data():
        torch.save(few, "crc_of_some.pt")
    text("no_crc", describe(few))

    # zip64 fields where they are not needed, as other writers use them
    pkl = b"\x80\x02}(X\x01\x00\x00\x00a" + tensor(b"0", 3, 0, [3], [1]) + b"u."
    floats = struct.pack("<3f", 1, 2, 3)
    with zipfile.ZipFile("zip64.pt", "w", zipfile.ZIP_STORED) as z:
        for entry, b in (("data.pkl", pkl), ("data/0", floats), ("byteorder", b"little"), ("version", b"3\n")):
            with z.open(zipfile.ZipInfo("wide/" + entry, (1980, 1, 1, 0, 0, 0)), "w", force_zip64=True) as f:
                f.write(b)
    text("zip64", describe({"a": torch.tensor([1., 2., 3.])}))

    # what Python 2's pickler wrote: texts of bytes, integers as digits, dicts and lists between marks
    pkl = b"\x80\x02(" + s2(b"text") + b"T\x02\x00\x00\x00\xff\xfe" + s2(b"wide") + b"I4294967296\n" + s2(b"long") + b"L-5L\n"
    pkl += s2(b"true") + b"I01\n" + s2(b"list") + b"(K\x01K\x02l" + s2(b"old") + b"ccopy_reg\n_reconstructor\n(cargparse\nNamespace\n"
    pkl += b"c__builtin__\nobject\nNtR(" + s2(b"x") + b"K\x03db" + s2(b"set") + b"c__builtin__\nset\n(](K\x04K\x05etR"
    pkl += s2(b"ordered") + b"ccollections\nOrderedDict\n(](](" + s2(b"k") + b"K\x06eetR" + s2(b"t") + tensor(b"0", 3, 1, [2], [1]) + b"d."
    by_hand("python2.pt", pkl, [("0", floats)])
    base = torch.tensor([1., 2., 3.])
    text("python2", describe({"text": b"\xff\xfe", "wide": 2**32, "long": -5, "true": True, "list": [1, 2],
                              "old": argparse.Namespace(x=3), "set": {4, 5}, "ordered": collections.OrderedDict(k=6), "t": base[1:]}))

    # storages that are parts of one another, as PyTorch 0.4 wrote them
    def part(key, at, n):
        view = b"(" + s2(key) + b"K" + bytes([at]) + b"K" + bytes([n]) + b"t"
        return (b"ctorch._utils\n_rebuild_tensor\n((" + s2(b"storage") + FLOATS + s2(b"100") + s2(b"cpu") + b"K\x06" + view + b"tQ"
                b"K\x00(K" + bytes([n]) + b"t(K\x01ttR")
    body = b"\x80\x02](" + part(b"101", 1, 2) + part(b"102", 0, 6) + part(b"101", 1, 2) + b"e."
    with open("legacy_views.pt", "wb") as f:
        for x in (0x1950a86a20f9469cfc6c, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}):
            f.write(pickle.dumps(x, 2))
        f.write(body + pickle.dumps(["100"], 2) + struct.pack("<q6f", 6, *range(6)))
    base = torch.arange(6, dtype=torch.float32)
    a, b = base[1:3].clone(), base.clone()
    text("legacy_views", describe([a, b, a]))


main()
