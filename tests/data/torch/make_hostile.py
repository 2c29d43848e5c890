"""Makes hostile/: .pt files that are damaged or built to harm, and hostile/expected.tsv: name, kind of error, and a part of
the message that each has to be refused with. None of them runs anything when it is read as data; do not give them to Python.
Usage: python make_hostile.py      (from this folder; no packages needed)"""
import os
import pickle
import struct

rows = []


def keep(name, kind, message, b):
    assert len(b) < 100_000, name
    with open(os.path.join("hostile", name + ".pt"), "wb") as f:
        f.write(b)
    rows.append(f"{name}\t{kind}\t{message}\n")


# ---- archives, with every field at hand ----

class Entry:
    def __init__(self, name, data, **change):
        self.name, self.data = name.encode() if isinstance(name, str) else name, data
        self.change = dict(change)  # of the directory's header: flags method crc packed size at; local_...: of the other

    def __call__(self, key, value):
        return self.change.get(key, value)


def crc(b):
    import zlib
    return zlib.crc32(b)


def archive(entries, cut=0, after=b"", end=None, n=None, dir_at=None, dir_size=None, zip64=None):
    body, directory = b"", b""
    for e in entries:
        at = len(body)
        size = len(e.data)
        name = e("local_name", e.name)
        extra = e("local_extra", b"")
        body += struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, e("local_flags", e("flags", 0)), e("local_method", e("method", 0)), 0, 0,
                            e("local_crc", crc(e.data)), e("local_size", size), e("local_size", size), len(name), len(extra))
        body += name + extra + e.data
        extra = e("extra", b"")
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, e("flags", 0), e("method", 0), 0, 0, e("crc", crc(e.data)),
                                 e("packed", size), e("size", size), len(e.name), len(extra), 0, e("disk", 0), 0, 0, e("at", at))
        directory += e.name + extra
    count = len(entries) if n is None else n
    at = len(body) if dir_at is None else dir_at
    size = len(directory) if dir_size is None else dir_size
    tail = b"" if zip64 is None else zip64(len(body) + len(directory), len(entries), len(directory), len(body))
    tail += end if end is not None else struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, min(count, 65535), min(count, 65535), size, at, 0)
    out = body + directory + tail + after
    return out[:len(out) - cut]


GOOD = b"\x80\x02}."
VERSION = Entry("a/version", b"3\n")


def pt(pkl=GOOD, *more, **how):
    return archive([Entry("a/data.pkl", pkl), *more, VERSION], **how)


def archives():
    keep("empty", "format", "neither a zip archive nor a pickle", b"")
    keep("text", "format", "neither a zip archive nor a pickle", b"hello, this is no checkpoint\n")
    keep("cut_off", "format", "without an end record", pt(cut=1))
    keep("cut_in_half", "format", "without an end record", pt(cut=100))
    keep("appended", "format", "without an end record", pt(after=b"more"))
    keep("only_the_mark", "format", "without an end record", b"PK\x03\x04")
    keep("no_entries", "format", "not one of torch.save", archive([]))
    keep("no_pickle", "format", "without data.pkl", archive([Entry("a/version", b"3\n")]))
    keep("no_folder", "format", "not one of torch.save", archive([Entry("data.pkl", GOOD)]))
    keep("no_version", "format", "no entry that says its version", archive([Entry("a/data.pkl", GOOD)]))
    keep("version_11", "unsupported", "a version of the archive other than 1 to 10",
         archive([Entry("a/data.pkl", GOOD), Entry("a/version", b"11\n")]))
    keep("big_endian", "unsupported", "big-endian", pt(GOOD, Entry("a/byteorder", b"big")))
    keep("no_endian", "format", "neither little nor big", pt(GOOD, Entry("a/byteorder", b"middle")))
    keep("torchscript", "unsupported", "TorchScript", pt(GOOD, Entry("a/constants.pkl", b"\x80\x02).")))
    for name, path, what in (("parent", "a/../../etc/passwd", "leads out of the archive"), ("parent_first", "../x", "leads out"),
                             ("absolute", "/etc/passwd", "absolute path"), ("drive", "C:/x", "absolute path"),
                             ("backslash", "a\\..\\x", "backslash"), ("control", "a/x\x1b[2J", "control characters"),
                             ("nameless", "", "empty or too long"), ("nul", "a/x\0y", "control characters")):
        keep("name_" + name, "format", what, pt(GOOD, Entry(path, b"x")))
    keep("name_long", "format", "empty or too long", pt(GOOD, Entry("a/" + "x" * 5000, b"x")))
    keep("name_twice", "format", "is there twice", pt(GOOD, Entry("a/data.pkl", b"\x80\x02N.")))
    keep("compressed", "unsupported", "is compressed", pt(GOOD, Entry("a/x", b"xxxx", method=8)))
    keep("encrypted", "unsupported", "is encrypted", pt(GOOD, Entry("a/x", b"xxxx", flags=1)))
    keep("two_sizes", "format", "is not compressed and has two sizes", pt(GOOD, Entry("a/x", b"xxxx", packed=3)))
    keep("other_disk", "unsupported", "another part of the archive", pt(GOOD, Entry("a/x", b"xxxx", disk=1)))
    keep("local_name", "format", "its header and the directory differ", pt(GOOD, Entry("a/x", b"xxxx", local_name=b"a/y")))
    keep("local_size", "format", "its header and the directory differ", pt(GOOD, Entry("a/x", b"xxxx", local_size=5)))
    keep("local_crc", "format", "its header and the directory differ", pt(GOOD, Entry("a/x", b"xxxx", local_crc=5)))
    keep("local_method", "format", "its header and the directory differ", pt(GOOD, Entry("a/x", b"xxxx", local_method=8)))
    keep("local_flags", "format", "its header and the directory differ", pt(GOOD, Entry("a/x", b"xxxx", local_flags=8)))
    keep("outside", "format", "lies outside the file", pt(GOOD, Entry("a/x", b"xxxx", at=1 << 31)))
    keep("no_header", "format", "no header where the directory says", pt(GOOD, Entry("a/x", b"xxxx", at=3)))
    keep("overlap", "format", "overlaps another entry",
         archive([Entry("a/data.pkl", GOOD), Entry("a/x", archive([Entry("a/y", b"z")])), Entry("a/y", b"z", at=len(GOOD) + 40 + 33), VERSION]))
    keep("same_place", "format", "differ", pt(GOOD, Entry("a/x", b"xxxx", at=0)))
    keep("too_large", "format", "is larger than the file", pt(GOOD, Entry("a/x", b"xxxx", size=1 << 31, packed=1 << 31, local_size=1 << 31)))
    keep("into_directory", "format", "is larger than the file, or reaches into the directory",
         archive([Entry("a/data.pkl", GOOD), VERSION, Entry("a/x", b"xxxx", size=40, packed=40, local_size=40)]))
    wide = struct.pack("<HHQQ", 1, 16, 1 << 60, 1 << 60)
    full = dict(size=0xFFFFFFFF, packed=0xFFFFFFFF, extra=wide, local_size=0xFFFFFFFF, local_extra=wide)
    keep("wide_size", "format", "is larger than the file", pt(GOOD, Entry("a/x", b"xxxx", **full)))
    keep("wide_size_2_64", "format", "is larger than the file",
         pt(GOOD, Entry("a/x", b"xxxx", **{**full, "extra": struct.pack("<HHQQ", 1, 16, 2**64 - 1, 2**64 - 1)})))
    keep("wide_place", "format", "lies outside the file",
         pt(GOOD, Entry("a/x", b"xxxx", at=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 2**64 - 10))))
    keep("no_wide_field", "format", "extra fields are damaged", pt(GOOD, Entry("a/x", b"xxxx", size=0xFFFFFFFF, packed=0xFFFFFFFF)))
    keep("extra_too_long", "format", "extra fields are damaged", pt(GOOD, Entry("a/x", b"xxxx", extra=struct.pack("<HH", 1, 99))))
    keep("local_extra_too_long", "format", "extra fields are damaged", pt(GOOD, Entry("a/x", b"xxxx", local_extra=struct.pack("<HH", 1, 99))))
    keep("too_few", "format", "more entries than its end record says", pt(n=1))
    keep("too_many", "format", "cannot have 60000 entries", pt(n=60000))
    keep("directory_place", "format", "does not end where the end record begins", pt(dir_at=10))
    keep("directory_size", "format", "does not end where the end record begins", pt(dir_size=10))
    keep("parts", "unsupported", "several parts", pt(end=struct.pack("<IHHHHIIH", 0x06054b50, 1, 0, 2, 2, 0, 0, 0)))
    keep("no_zip64_end", "format", "needs a zip64 end record", pt(n=65535))

    def zip64(record_at=None, size=44, n=None, at=None):
        def make(here, n_entries, n_bytes, dir_at):
            return (struct.pack("<IQHHIIQQQQ", 0x06064b50, size, 45, 45, 0, 0, n_entries if n is None else n, n_entries if n is None else n,
                                n_bytes, dir_at if at is None else at)
                    + struct.pack("<IIQI", 0x07064b50, 0, here if record_at is None else record_at, 1))
        return make
    keep("zip64_place", "format", "zip64 end record is not where", pt(zip64=zip64(record_at=1 << 60)))
    keep("zip64_size", "format", "zip64 end record is not where", pt(zip64=zip64(size=1 << 60)))
    keep("zip64_differs", "format", "two end records of the archive differ", pt(zip64=zip64(n=7)))
    keep("zip64_many", "format", "cannot have", pt(n=65535, zip64=zip64(n=1 << 60)))
    keep("zip64_directory", "format", "does not end where",
         pt(zip64=zip64(at=1 << 60), end=struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 2, 2, 0xFFFFFFFF, 0xFFFFFFFF, 0)))


# ---- pickles ----

def u(x):
    x = x.encode() if isinstance(x, str) else x
    return b"X" + struct.pack("<I", len(x)) + x


def num(x):
    return pickle.dumps(x, 2)[2:-1]


def storage(key="0", numel=4, cls=b"ctorch\nFloatStorage\n", kind="storage"):
    return b"(" + u(kind) + cls + u(key) + u("cpu") + num(numel) + b"tQ"


def tensor(offset=0, size=(4,), stride=(1,), store=None, metadata=None):
    out = b"ctorch._utils\n_rebuild_tensor_v2\n(" + (storage() if store is None else store) + num(offset) + num(size) + num(stride)
    return out + b"\x89ccollections\nOrderedDict\n)R" + (metadata or b"") + b"tR"


def refuse(name, kind, message, body, *more):
    more = more or (Entry("a/data/0", bytes(16)),)
    keep(name, kind, message, pt(b"\x80\x02" + body, *more))


def pickles():
    not_listed = "which is not among the names that a checkpoint may hold; nothing was run"
    for module, name in (("os", "system"), ("posix", "system"), ("nt", "system"), ("subprocess", "Popen"), ("subprocess", "check_output"),
                         ("builtins", "eval"), ("builtins", "exec"), ("__builtin__", "eval"), ("builtins", "getattr"),
                         ("builtins", "__import__"), ("builtins", "open"), ("builtins", "compile"), ("operator", "attrgetter"),
                         ("operator", "methodcaller"), ("importlib", "import_module"), ("runpy", "_run_code"), ("shutil", "rmtree"),
                         ("torch", "load"), ("torch.storage", "_load_from_bytes"), ("torch.serialization", "load"), ("pickle", "loads"),
                         ("torch.hub", "load"), ("socket", "socket"), ("functools", "partial"), ("webbrowser", "open"),
                         ("numpy", "load"), ("torch", "jit"), ("deepspeedx", "y"), ("megatron_evil", "y"), ("sys", "modules")):
        refuse(f"calls_{module}_{name}", "unsupported", f"asks for {module}.{name}, {not_listed}",
               b"c" + module.encode() + b"\n" + name.encode() + b"\n" + u("echo hurt") + b"\x85R.")
    refuse("calls_by_text", "unsupported", f"asks for os.system, {not_listed}", u("os") + u("system") + b"\x93" + u("x") + b"\x85R.")
    refuse("calls_through_a_class", "unsupported", f"asks for megatron.x.os.system, {not_listed}",
           u("megatron.x") + u("os.system") + b"\x93" + u("x") + b"\x85R.")
    refuse("calls_class_of_python_1", "unsupported", "opcode 0x69 calls a class as Python 1 did", b"(" + u("x") + b"ios\nsystem\n.")
    refuse("calls_object_of_python_1", "unsupported", "opcode 0x6f calls a class", b"(ccollections\nOrderedDict\no.")
    refuse("extension", "unsupported", "opcode 0x82 refers to a registry", b"\x82\x01.")
    refuse("outside_buffer", "unsupported", "opcode 0x97 refers to a buffer", b"\x97.")
    refuse("text_protocol", "unsupported", "opcode 0x53 is of the text protocol", b"S'x'\n.")
    refuse("unknown_opcode", "unsupported", "opcode 0xff is none", b"\xff.")
    refuse("protocol_9", "unsupported", "pickle protocol 9", b"\x80\x09N.")
    refuse("calls_a_value", "format", "called that has no name", u("x") + b")R.")
    refuse("calls_without_arguments", "format", "arguments that are no tuple", b"cargparse\nNamespace\n]R.")
    refuse("calls_a_dtype", "format", "torch.float32 is called, which cannot be", b"ctorch\nfloat32\n)R.")
    refuse("named_arguments", "unsupported", "named arguments", b"cargparse\nNamespace\n)}" + u("a") + b"Ns\x92.")
    refuse("builds_a_list", "format", "a state is set in something that has none", b"]}b.")
    refuse("builds_a_name", "format", "a state is set", b"cargparse\nNamespace\n}" + u("x") + b"Nsb.")
    refuse("reconstructs_a_function", "unsupported", "made by copy_reg", b"ccopy_reg\n_reconstructor\n(c_codecs\nencode\nc__builtin__\nobject\nNtR.")
    refuse("name_without_end", "format", "a module's name that has no end", b"c" + b"x" * 3000)
    refuse("name_with_escapes", "format", "not plain ASCII", b"cos\x1b[2J\nsystem\n.")
    # the machine
    refuse("no_opcodes", "format", "the pickle ends within an opcode", b"")
    refuse("no_stop", "format", "the pickle ends within an opcode", b"N")
    refuse("goes_on", "format", "goes on for 2 bytes after its end", b"N.N.")
    refuse("empty_stack", "format", "empty stack", b"0.")
    refuse("nothing_left", "format", "empty stack", b".")
    refuse("leaves_values", "format", "leaves values behind", b"NN.")
    refuse("leaves_a_mark", "format", "empty stack", b"N(.")
    refuse("below_a_mark", "format", "empty stack", b"]N(a.")
    refuse("no_mark", "format", "looks for a mark", b"t.")
    refuse("tuple_of_nothing", "format", "takes 2 values", b"N\x86.")
    refuse("memo_unknown", "format", "memo entry 5 is asked for", b"h\x05.")
    refuse("memo_huge", "format", "a memo index of 4294967295", b"Nr\xff\xff\xff\xff.")
    refuse("memo_unknown_huge", "format", "memo entry 4294967295", b"j\xff\xff\xff\xff.")
    refuse("text_2_31", "format", "the pickle ends within an opcode", b"X\xff\xff\xff\x7fabc.")
    refuse("text_2_63", "format", "the pickle ends within an opcode", b"\x8d" + struct.pack("<Q", 2**63) + b"abc.")
    refuse("text_2_64", "format", "the pickle ends within an opcode", b"\x8d" + struct.pack("<Q", 2**64 - 1) + b"abc.")
    refuse("bytes_2_60", "format", "the pickle ends within an opcode", b"\x8e" + struct.pack("<Q", 2**60) + b"abc.")
    refuse("frame_2_60", "format", "a frame of", b"\x95" + struct.pack("<Q", 2**60) + b"N.")
    refuse("integer_2_31", "format", "the pickle ends within an opcode", b"\x8b\xff\xff\xff\x7fN.")
    refuse("integer_negative", "format", "negative number of bytes", b"\x8b\xff\xff\xff\xffN.")
    refuse("integer_of_letters", "format", "is no integer of 64 bits", b"Iabc\n.")
    refuse("integer_too_long", "format", "has no end", b"I" + b"1" * 100 + b"\n.")
    refuse("text_not_utf8", "format", "a text that is not UTF-8", b"X\x02\x00\x00\x00\xc0\xaf.")
    refuse("text_surrogate", "format", "a text that is not UTF-8", b"X\x03\x00\x00\x00\xed\xa0\x80.")
    # containers
    refuse("key_without_value", "format", "without a value", b"}(Nu.")
    refuse("key_is_a_list", "format", "a key of a dict that is none", b"}]Ns.")
    refuse("key_in_a_tuple", "format", "a key of a dict that is none", b"}]\x85Ns.")
    refuse("key_too_large", "unsupported", "a key of a dict that holds more than", b"}" + b"(" + b"N" * 1100 + b"tNs.")
    bomb = b")\x85q\x00" + b"".join(b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(100))
    refuse("key_is_a_bomb", "unsupported", "a key of a dict that holds more than", b"(" + bomb + b"1}h\x64Ns.")
    refuse("items_in_a_tuple", "format", "something that is no list", b")Na.")
    refuse("items_in_a_dict", "format", "something that is no list", b"}Na.")
    refuse("keys_in_a_list", "format", "something that is no dict", b"]NNs.")
    refuse("list_in_itself", "format", "a value that contains itself", b"]q\x00h\x00a.")
    refuse("dict_in_itself", "format", "a value that contains itself", b"}q\x00" + u("x") + b"h\x00s.")
    refuse("tuple_in_itself", "format", "a value that contains itself", b"]q\x00h\x00\x85a.")
    refuse("state_in_itself", "format", "a value that contains itself", b"cargparse\nNamespace\n)\x81q\x00}" + u("x") + b"h\x00sb.")
    refuse("too_deep", "format", "nested deeper than 128", b"]" * 200 + b"N" + b"a" * 200 + b".")
    refuse("too_deep_tuples", "format", "nested deeper than 128", b")" + b"\x85" * 5000 + b".")
    refuse("too_deep_by_one", "format", "nested deeper than 128",
           b"N" + b"\x85" * 129 + b".")
    refuse("dict_of_a_number", "format", "no list of pairs", b"ccollections\nOrderedDict\nK\x01\x85R.")
    refuse("dict_of_singles", "format", "no list of pairs", b"ccollections\nOrderedDict\n]]K\x01aa\x85R.")
    refuse("bytes_of_letters", "format", "a character above 255", b"c_codecs\nencode\n" + u("中") + u("latin1") + b"\x86R.")
    refuse("bytes_by_rot13", "unsupported", "in an encoding other than latin1", b"c_codecs\nencode\n" + u("x") + u("rot13") + b"\x86R.")
    refuse("bytes_of_300", "format", "bytes of numbers that are none", b"c__builtin__\nbytearray\n]M\x2c\x01a\x85R.")
    # tensors
    refuse("no_storage", "format", "storage 1 is not in the archive", storage("1") + b".")
    refuse("storage_path", "format", "is not in the archive", storage("../../etc/passwd") + b".")
    refuse("storage_is_the_pickle", "format", "is not in the archive", storage("../data.pkl") + b".")
    refuse("storage_small", "format", "has 5 elements of float32, and 16 bytes", storage(numel=5) + b".")
    refuse("storage_2_62", "format", "has 4611686018427387904 elements", storage(numel=2**62) + b".")
    refuse("storage_2_64", "format", "its number of elements is none", storage(numel=2**64) + b".")
    refuse("storage_negative", "format", "its number of elements is none", storage(numel=-1) + b".")
    refuse("storage_of_no_class", "format", "a storage of a class that is none", storage(cls=b"cargparse\nNamespace\n") + b".")
    refuse("storage_of_no_kind", "format", "that is no storage", storage(kind="module") + b".")
    refuse("storage_of_nothing", "format", "that is no storage", b"NQ.")
    refuse("storage_twice", "format", "is 4 of float32, and elsewhere 2 of float64",
           storage() + storage(numel=2, cls=b"ctorch\nDoubleStorage\n") + b"\x86.")
    refuse("storage_of_quantized", "unsupported", "asks for torch.QInt8Storage", storage(cls=b"ctorch\nQInt8Storage\n") + b".")
    refuse("tensor_beyond", "format", "reaches to element 4 of a storage of 4", tensor(1) + b".")
    refuse("tensor_strides_beyond", "format", "reaches to element 6", tensor(0, (2, 3), (2, 2)) + b".")
    refuse("tensor_overflow", "format", "larger than any file", tensor(0, (2**32, 2**32), (0, 0)) + b".")
    refuse("tensor_stride_overflow", "format", "larger than any file", tensor(0, (3,), (2**62,)) + b".")
    refuse("tensor_offset_overflow", "format", "larger than any file", tensor(2**63 - 1, (2,), (1,)) + b".")
    refuse("tensor_offset_2_62", "format", "reaches to element", tensor(2**62, (1,), (1,)) + b".")
    refuse("tensor_of_one_element_a_million_times", "unsupported", "repeats", tensor(0, (2**40,), (0,)) + b".")
    refuse("tensor_negative_stride", "format", "sizes or strides are none, negative", tensor(3, (4,), (-1,)) + b".")
    refuse("tensor_negative_size", "format", "sizes or strides are none, negative", tensor(0, (-4,), (1,)) + b".")
    refuse("tensor_negative_offset", "format", "whose offset is none", tensor(-1) + b".")
    refuse("tensor_few_strides", "format", "not as many", tensor(0, (2, 2), (1,)) + b".")
    refuse("tensor_9_dimensions", "unsupported", "9 dimensions; at most 8", tensor(0, (1,) * 9, (1,) * 9) + b".")
    refuse("tensor_of_a_text", "format", "a tensor without a storage", tensor(store=u("x")) + b".")
    refuse("tensor_of_a_tensor", "format", "a tensor without a storage", tensor(store=tensor()) + b".")
    refuse("tensor_conjugated", "unsupported", "negated or conjugated", tensor(metadata=b"}" + u("neg") + b"\x88s") + b".")
    refuse("parameter_of_nothing", "format", "a parameter without a tensor", b"ctorch._utils\n_rebuild_parameter\n(N\x88}tR.")
    refuse("tensor_of_its_own_class", "unsupported", "a tensor of a class of its own",
           b"ctorch._tensor\n_rebuild_from_type_v2\n(cargparse\nNamespace\nctorch\nTensor\n)}tR.")


# ---- the older container ----

def legacy(obj=b"\x80\x02}.", keys=(), tail=b"", head=(0x1950a86a20f9469cfc6c, 1001, {"little_endian": True})):
    return b"".join(pickle.dumps(x, 2) for x in head) + obj + (keys if isinstance(keys, bytes) else pickle.dumps(list(keys), 2)) + tail


def older():
    one = b"\x80\x02" + storage() + b"."
    data = struct.pack("<q4f", 4, 1, 2, 3, 4)
    keep("old_plain_pickle", "format", "a pickle, but not a file of torch.save", pickle.dumps({"a": 1}, 2))
    keep("old_calls", "unsupported", "asks for os.system", legacy(b"\x80\x02cos\nsystem\n" + u("x") + b"\x85R."))
    keep("old_calls_first", "unsupported", "asks for os.system", b"\x80\x02cos\nsystem\n" + u("x") + b"\x85R.")
    keep("old_protocol", "unsupported", "a protocol other than 1001", legacy(head=(0x1950a86a20f9469cfc6c, 1000, {})))
    keep("old_big_endian", "unsupported", "big-endian", legacy(head=(0x1950a86a20f9469cfc6c, 1001, {"little_endian": False})))
    keep("old_no_endian", "format", "in which order its bytes are", legacy(head=(0x1950a86a20f9469cfc6c, 1001, {})))
    keep("old_cut_off", "format", "the pickle ends within an opcode", legacy()[:-3])
    keep("old_no_list", "format", "its list of storages is no list", legacy(keys=pickle.dumps("0", 2)))
    keep("old_appended", "format", "bytes after the last storage belong to none", legacy(tail=b"xyz"))
    keep("old_unlisted", "format", "storage 0 is not in the file", legacy(one))
    keep("old_unused", "format", "is listed, and not used", legacy(keys=["7"], tail=data))
    keep("old_twice", "format", "is listed, and not used or there twice", legacy(one, ["0", "0"], data + data))
    keep("old_storage_cut", "format", "needs 16 bytes, the file has 12 more", legacy(one, ["0"], data[:-4]))
    keep("old_storage_no_size", "format", "cut off before storage 0", legacy(one, ["0"], data[:4]))
    keep("old_storage_size", "format", "has 5 elements, and 4 are used", legacy(one, ["0"], struct.pack("<q", 5) + data[8:]))
    keep("old_storage_2_60", "format", "is larger than the file", legacy(b"\x80\x02" + storage(numel=2**60) + b"."))

    def view(key, at, n):
        return b"(" + u("storage") + b"ctorch\nFloatStorage\n" + u("0") + u("cpu") + b"K\x04(" + u(key) + num(at) + num(n) + b"ttQ"
    keep("old_view_beyond", "format", "its view is damaged, or reaches beyond it", legacy(b"\x80\x02" + view("1", 2, 3) + b".", ["0"], data))
    keep("old_view_of_itself", "format", "a view of several", legacy(b"\x80\x02" + view("0", 0, 4) + b".", ["0"], data))
    keep("old_view_of_two", "format", "a view of several", legacy(b"\x80\x02" + view("1", 0, 2) + view("1", 1, 2) + b"\x86.", ["0"], data))
    tar = bytearray(1024)
    tar[0:8] = b"storages"
    tar[257:262] = b"ustar"
    keep("old_tar", "unsupported", "a tar archive", bytes(tar))


os.makedirs("hostile", exist_ok=True)
for old in os.listdir("hostile"):
    os.remove(os.path.join("hostile", old))
archives()
pickles()
older()
with open("hostile/expected.tsv", "w") as f:
    f.writelines(sorted(rows))
print(len(rows), "files")
