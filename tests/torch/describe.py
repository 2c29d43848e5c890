"""The values of a .pt file as one line of text, as pt_text.h makes it: see there. Needs torch and numpy."""
import collections
import copyreg
import struct

import torch


def quoted(kind, b):
    ok = set(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.")
    return kind + "'" + "".join(chr(c) if c in ok else "\\%02x" % c for c in b) + "'"


def name_of(x):
    module = {"builtins": "__builtin__", "copyreg": "copy_reg"}.get(x.__module__, x.__module__)
    return f"{module}.{x.__qualname__}"


class Describer:
    def __init__(self):
        self.storages = []
        self.keep = []

    def tensor(self, v):
        key = (v.untyped_storage()._cdata)
        if key not in self.storages:
            self.storages.append(key)
            self.keep.append(v)
        parameter = isinstance(v, torch.nn.Parameter)
        x = v.detach().contiguous()
        x = x.to(torch.float32) if x.dtype.is_floating_point else x.to(torch.int64)
        raw = x.numpy().tobytes().hex()
        return "t%s%s%s[%s]@%d+%d/%s=%s" % (str(v.dtype)[6:], "P" if parameter else "", "R" if v.requires_grad else "",
                                            ",".join(map(str, v.shape)), self.storages.index(key), v.storage_offset(),
                                            ",".join(map(str, v.stride())), raw)

    def text(self, v):
        if v is None: return "N"
        if v is True: return "T"
        if v is False: return "F"
        if isinstance(v, torch.dtype): return "g:" + str(v)
        if isinstance(v, type) or type(v).__name__ in ("builtin_function_or_method", "function"): return "g:" + name_of(v)
        kind = type(v)
        if kind is int:
            if -2**63 <= v < 2**63: return f"i{v}"
            return "I0x" + v.to_bytes(v.bit_length() // 8 + 1, "little", signed=True).hex()
        if kind is float: return "f" + struct.pack(">d", v).hex()
        if kind is str: return quoted("s", v.encode())
        if kind in (bytes, bytearray): return quoted("b", bytes(v))
        if kind in (list, collections.deque): return "[" + "".join(self.text(x) + " " for x in v) + "]"
        if kind in (tuple, torch.Size): return "(" + "".join(self.text(x) + " " for x in v) + ")"
        if kind in (set, frozenset): return "{" + "".join(x + " " for x in sorted(self.text(x) for x in v)) + "}"
        if kind in (dict, collections.OrderedDict, collections.defaultdict, collections.Counter):
            inner = "".join(self.text(k) + ":" + self.text(x) + " " for k, x in v.items())
            return ("o" if kind is collections.OrderedDict else "d") + "{" + inner + "}"
        if isinstance(v, torch.Tensor): return self.tensor(v)
        call, args, state = (tuple(v.__reduce_ex__(2)) + (None,))[:3]
        if call is copyreg.__newobj__:
            call, args = args[0], args[1:]
        return "O:" + name_of(call) + self.text(args) + ("" if state is None else self.text(state))


def describe(v):
    return Describer().text(v)
