/* py.h - the values that a pickle holds, as data: nothing of them is ever run. Shared by reading and writing .pt files.
 *
 *      {'iteration': 4, 'args': Namespace(lr=0.001), 'model': {'weight': <tensor>}}
 *
 *      TX_PY_DICT  'iteration' -> TX_PY_INT 4
 *                  'args'      -> TX_PY_OBJECT of class argparse.Namespace, state -> TX_PY_DICT 'lr' -> TX_PY_FLOAT
 *                  'model'     -> TX_PY_DICT 'weight' -> TX_PY_TENSOR
 *
 *  Values are borrowed from the file that they were read from, or from the arena that they were made in, and live as
 * long as it does. One value may stand in several places (a pickle's memo), but never inside itself. */
#ifndef TX_TORCH_PY_H
#define TX_TORCH_PY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum tx_py_kind {
    TX_PY_NONE,
    TX_PY_BOOL,
    TX_PY_INT, /* of 64 bits; a longer one is TX_PY_BYTES of its little-endian two's complement with `big` set */
    TX_PY_FLOAT,
    TX_PY_STR, /* UTF-8, may hold NUL */
    TX_PY_BYTES,
    TX_PY_LIST,
    TX_PY_TUPLE, /* torch.Size, too */
    TX_PY_SET,
    TX_PY_DICT, /* OrderedDict, too; in the order of the file, keys are unique */
    TX_PY_TENSOR,
    TX_PY_GLOBAL, /* a class or function by its name, such as torch.float16 */
    TX_PY_OBJECT  /* what a class or function would have made; names outside a list are refused: pt.h */
} tx_py_kind;

/* Element types of storages. */
typedef enum tx_pt_dtype {
    TX_PT_F64,
    TX_PT_F32,
    TX_PT_F16,
    TX_PT_BF16,
    TX_PT_I64,
    TX_PT_I32,
    TX_PT_I16,
    TX_PT_I8,
    TX_PT_U8,
    TX_PT_BOOL,
    TX_PT_N_DTYPES
} tx_pt_dtype;

size_t tx_pt_dtype_size(tx_pt_dtype t);      /* bytes */
const char *tx_pt_dtype_name(tx_pt_dtype t); /* as torch says it: "float32" */

enum { TX_PT_MAX_DIMS = 8 };

/* A run of elements in the file. Several tensors may be views of one. */
typedef struct tx_pt_storage {
    tx_pt_dtype dtype;
    int64_t numel;
    const unsigned char *data; /* read: in the mapped file, little-endian, perhaps unaligned. Written: NULL */
    const void *source;        /* written: the caller's, for tx_pt_fetch */
    size_t entry; /* read: number of the archive's entry whose CRC-32 is still to be compared, from 1; 0: none */
} tx_pt_storage;

typedef struct tx_pt_tensor {
    const tx_pt_storage *storage;
    int64_t offset;                                      /* elements */
    int n_dims;                                          /* 0: a single number */
    int64_t dim[TX_PT_MAX_DIMS], stride[TX_PT_MAX_DIMS]; /* elements; every index lies inside the storage */
    bool requires_grad, parameter;                       /* torch.nn.Parameter */
} tx_pt_tensor;

typedef struct tx_py tx_py;
struct tx_py {
    tx_py_kind kind;
    bool big;           /* TX_PY_BYTES that are an integer */
    unsigned char mark; /* the reader's own */
    union {
        bool b;
        int64_t i;
        double f;
        struct {
            const char *text; /* ends with a NUL that n does not count */
            size_t n;
        } str; /* and BYTES */
        struct {
            const tx_py **item;
            size_t n;
        } list; /* LIST, TUPLE, SET */
        struct {
            const tx_py **key, **value;
            size_t n;
            bool ordered; /* collections.OrderedDict */
        } dict;
        const tx_pt_tensor *tensor;
        struct {
            const char *module, *name; /* "torch", "float16" */
        } global;
        struct {
            const tx_py *type;  /* TX_PY_GLOBAL */
            const tx_py *args;  /* TX_PY_TUPLE, or NULL */
            const tx_py *state; /* what BUILD gave it, mostly a dict; or NULL */
        } object;
    } as;
};

/* ---- looking ---- all take NULL and any kind, and find nothing there then */

/* The value under a text key of a dict, or of an object's state (its attributes); NULL if there is none. */
const tx_py *tx_py_get(const tx_py *v, const char *key);

/* The value under an int key of a dict. */
const tx_py *tx_py_get_int(const tx_py *v, int64_t key);

/* "a.b.c": get() again and again; keys must not hold dots themselves. */
const tx_py *tx_py_at(const tx_py *v, const char *path);

size_t tx_py_len(const tx_py *v);                  /* of list, tuple, set, dict; else 0 */
const tx_py *tx_py_item(const tx_py *v, size_t i); /* of list, tuple, set; NULL beyond the end */
const char *tx_py_str(const tx_py *v);             /* text; NULL if it is none, or holds a NUL */
bool tx_py_int(const tx_py *v, int64_t *out);      /* of an int or bool, a tensor of one integer */
bool tx_py_float(const tx_py *v, double *out);     /* of a float or an int, a tensor of one number */
bool tx_py_true(const tx_py *v);                   /* a bool that is True */
const tx_pt_tensor *tx_py_tensor(const tx_py *v);  /* NULL if it is none */
bool tx_py_is_global(const tx_py *v, const char *module, const char *name);

/* ---- making, for a file to be written ---- values of a tx_py_arena; NULL when memory is short, and passes NULLs on,
 * so that one look at the root is enough */

typedef struct tx_py_arena tx_py_arena;
tx_status tx_py_arena_create(tx_py_arena **out);
void tx_py_arena_destroy(tx_py_arena *a); /* NULL allowed */

tx_py *tx_py_none(tx_py_arena *a);
tx_py *tx_py_of_bool(tx_py_arena *a, bool b);
tx_py *tx_py_of_int(tx_py_arena *a, int64_t i);
tx_py *tx_py_of_float(tx_py_arena *a, double f);
tx_py *tx_py_of_str(tx_py_arena *a, const char *text); /* copied; UTF-8 */
tx_py *tx_py_list(tx_py_arena *a);
tx_py *tx_py_tuple(tx_py_arena *a);
tx_py *tx_py_dict(tx_py_arena *a);
tx_py *tx_py_ordered_dict(tx_py_arena *a);
tx_py *tx_py_of_global(tx_py_arena *a, const char *module, const char *name);
/* type(*args) and then its state, as BUILD sets it. args a tuple; state NULL: none. */
tx_py *tx_py_object(tx_py_arena *a, const char *module, const char *name, const tx_py *args, const tx_py *state);
tx_py *tx_py_append(tx_py_arena *a, tx_py *list_or_tuple, const tx_py *item);       /* returns the list */
tx_py *tx_py_set(tx_py_arena *a, tx_py *dict, const char *key, const tx_py *value); /* the dict; replaces */
tx_py *tx_py_set_int(tx_py_arena *a, tx_py *dict, int64_t key, const tx_py *value); /* an int for a key */

/* A storage of its own for each call; tensors are row-major views of it, at element `offset`. */
tx_pt_storage *tx_py_storage(tx_py_arena *a, tx_pt_dtype dtype, int64_t numel, const void *source);
tx_py *tx_py_of_tensor(tx_py_arena *a, const tx_pt_storage *s, int64_t offset, int n_dims, const int64_t *dim);

/* JSON of a value, for what is kept of it (json_decref): text keys only; tensors, objects and what JSON has no word for
 * are left out (null inside of a list), torch.dtype becomes its name. A value that stands in several places is written
 * as often; what comes after TX_PY_MAX_JSON values is left out, too. NULL when memory is short. */
enum { TX_PY_MAX_JSON = 1 << 20 };
json_t *tx_py_to_json(const tx_py *v);
/* And of JSON a value. */
tx_py *tx_py_of_json(tx_py_arena *a, const json_t *v);

#endif
