/* pickle_names.c - the names that a checkpoint may hold, and what calling one makes. Nothing is ever called: the list
 * is what keeps a file that was built to harm someone else's Python from being passed on, and says early that a file is
 * of a kind that is not understood. */
#include <string.h>

#include "torch/pickle.h"

#define STORAGE(name_, dtype_)                        \
    { "torch", name_, TX__CALL_STORAGE, dtype_ },     \
    {                                                 \
        "torch.cuda", name_, TX__CALL_STORAGE, dtype_ \
    }
#define DTYPE(name_)                     \
    {                                    \
        "torch", name_, TX__CALL_NONE, 0 \
    }
#define OBJECT(module_, name_)             \
    {                                      \
        module_, name_, TX__CALL_OBJECT, 0 \
    }
#define NUMPY(name_) OBJECT("numpy", name_), OBJECT("numpy.dtypes", name_)
#define BUILTIN(name_, call_)           \
    { "__builtin__", name_, call_, 0 }, \
    {                                   \
        "builtins", name_, call_, 0     \
    }

/* clang-format off */
static const tx__name names[] = {
    /* tensors */
    STORAGE("DoubleStorage", TX_PT_F64), STORAGE("FloatStorage", TX_PT_F32), STORAGE("HalfStorage", TX_PT_F16),
    STORAGE("BFloat16Storage", TX_PT_BF16), STORAGE("LongStorage", TX_PT_I64), STORAGE("IntStorage", TX_PT_I32),
    STORAGE("ShortStorage", TX_PT_I16), STORAGE("CharStorage", TX_PT_I8), STORAGE("ByteStorage", TX_PT_U8),
    STORAGE("BoolStorage", TX_PT_BOOL), STORAGE("UntypedStorage", TX_PT_U8),
    { "torch.storage", "UntypedStorage", TX__CALL_STORAGE, TX_PT_U8 },
    { "torch._utils", "_rebuild_tensor_v2", TX__CALL_TENSOR, 0 }, { "torch._utils", "_rebuild_tensor", TX__CALL_TENSOR, 0 },
    { "torch._utils", "_rebuild_parameter", TX__CALL_PARAMETER, 0 },
    { "torch._utils", "_rebuild_parameter_with_state", TX__CALL_PARAMETER, 0 },
    { "torch._tensor", "_rebuild_from_type_v2", TX__CALL_REBUILD, 0 },
    { "torch", "Tensor", TX__CALL_NONE, 0 }, { "torch.nn.parameter", "Parameter", TX__CALL_NONE, 0 },
    { "torch", "Size", TX__CALL_TUPLE, 0 }, OBJECT("torch", "device"), OBJECT("torch.torch_version", "TorchVersion"),
    DTYPE("float64"), DTYPE("float32"), DTYPE("float16"), DTYPE("bfloat16"), DTYPE("int64"), DTYPE("int32"), DTYPE("int16"),
    DTYPE("int8"), DTYPE("uint8"), DTYPE("uint16"), DTYPE("uint32"), DTYPE("uint64"), DTYPE("bool"), DTYPE("complex64"),
    DTYPE("complex128"), DTYPE("float8_e4m3fn"), DTYPE("float8_e5m2"), DTYPE("double"), DTYPE("float"), DTYPE("half"),
    DTYPE("long"), DTYPE("int"), DTYPE("short"), DTYPE("strided"), DTYPE("contiguous_format"), DTYPE("preserve_format"),

    /* Python's own */
    { "collections", "OrderedDict", TX__CALL_ORDERED, 0 }, { "collections", "defaultdict", TX__CALL_DEFAULT_DICT, 0 },
    { "collections", "Counter", TX__CALL_DICT, 0 }, { "collections", "deque", TX__CALL_LIST, 0 },
    BUILTIN("dict", TX__CALL_DICT), BUILTIN("list", TX__CALL_LIST), BUILTIN("tuple", TX__CALL_TUPLE),
    BUILTIN("set", TX__CALL_SET), BUILTIN("frozenset", TX__CALL_SET), BUILTIN("bytes", TX__CALL_BYTES),
    BUILTIN("bytearray", TX__CALL_BYTES), BUILTIN("object", TX__CALL_OBJECT), BUILTIN("complex", TX__CALL_OBJECT),
    BUILTIN("slice", TX__CALL_OBJECT), BUILTIN("range", TX__CALL_OBJECT), BUILTIN("xrange", TX__CALL_OBJECT),
    BUILTIN("int", TX__CALL_NONE), BUILTIN("long", TX__CALL_NONE), BUILTIN("float", TX__CALL_NONE),
    BUILTIN("str", TX__CALL_NONE), BUILTIN("unicode", TX__CALL_NONE), BUILTIN("bool", TX__CALL_NONE),
    { "copy_reg", "_reconstructor", TX__CALL_RECONSTRUCT, 0 }, { "copyreg", "_reconstructor", TX__CALL_RECONSTRUCT, 0 },
    { "_codecs", "encode", TX__CALL_ENCODE, 0 },
    OBJECT("argparse", "Namespace"), OBJECT("types", "SimpleNamespace"),
    OBJECT("pathlib", "Path"), OBJECT("pathlib", "PosixPath"), OBJECT("pathlib", "PurePosixPath"),
    OBJECT("pathlib", "WindowsPath"), OBJECT("pathlib", "PureWindowsPath"), OBJECT("pathlib._local", "PosixPath"),
    OBJECT("pathlib._local", "PurePosixPath"), OBJECT("pathlib._local", "WindowsPath"),
    OBJECT("datetime", "datetime"), OBJECT("datetime", "date"), OBJECT("datetime", "time"), OBJECT("datetime", "timedelta"),
    OBJECT("datetime", "timezone"), OBJECT("_io", "BytesIO"), OBJECT("io", "BytesIO"),

    /* NumPy's: states of random generators, numbers */
    OBJECT("numpy.core.multiarray", "_reconstruct"), OBJECT("numpy._core.multiarray", "_reconstruct"),
    OBJECT("numpy.core.multiarray", "scalar"), OBJECT("numpy._core.multiarray", "scalar"),
    OBJECT("numpy.core.numeric", "_frombuffer"), OBJECT("numpy._core.numeric", "_frombuffer"),
    OBJECT("numpy", "ndarray"), OBJECT("numpy", "dtype"),
    NUMPY("float64"), NUMPY("float32"), NUMPY("float16"), NUMPY("int64"), NUMPY("int32"), NUMPY("int16"), NUMPY("int8"),
    NUMPY("uint64"), NUMPY("uint32"), NUMPY("uint16"), NUMPY("uint8"), NUMPY("bool_"), NUMPY("bool"),
    OBJECT("numpy.dtypes", "Float64DType"), OBJECT("numpy.dtypes", "Float32DType"), OBJECT("numpy.dtypes", "Int64DType"),
    OBJECT("numpy.dtypes", "Int32DType"), OBJECT("numpy.dtypes", "UInt32DType"), OBJECT("numpy.dtypes", "BoolDType"),
    OBJECT("numpy.random._pickle", "__randomstate_ctor"), OBJECT("numpy.random._pickle", "__generator_ctor"),
    OBJECT("numpy.random._pickle", "__bit_generator_ctor"), OBJECT("numpy.random._mt19937", "MT19937"),
    OBJECT("numpy.random._pcg64", "PCG64"),

    /* the index of torch.distributed.checkpoint's folders */
    OBJECT("torch.distributed.checkpoint", NULL), OBJECT("torch.serialization", "_get_layout"),

    /* enums, options, loss scalers, addresses of fragments: whatever these two keep of theirs */
    OBJECT("megatron", NULL), OBJECT("deepspeed", NULL),
};
/* clang-format on */

static bool below(const char *module, const char *package)
{
    size_t n = strlen(package);
    return !strncmp(module, package, n) && (module[n] == '.' || !module[n]);
}

/* A class's or function's own name; "x.y" would be looked for inside of x, which may be anything that x imports. */
static bool is_plain(const char *name)
{
    return *name && !strchr(name, '.');
}

const tx__name *tx__name_find(const char *module, const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const tx__name *row = &names[i];
        if (row->name ? !strcmp(row->module, module) && !strcmp(row->name, name)
                      : below(module, row->module) && is_plain(name))
            return row;
    }
    return NULL;
}
