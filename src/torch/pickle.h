/* pickle.h - pickles as data: following the opcodes of Python's unpickler as far as they build values. Shared inside
 * the room.
 *
 *  What would call something makes a value that says so (TX_PY_OBJECT), for the names of pickle_names.c; the few calls
 * whose result is known (a tensor, an OrderedDict, a set) make that result. Every other name is refused. */
#ifndef TX_TORCH_PICKLE_H
#define TX_TORCH_PICKLE_H

#include "base/hash_table.h"
#include "base/str.h"
#include "torch/pt.h"
#include "torch/py_room.h"

/* ---- names ---- what calling one makes */

typedef enum tx__call {
    TX__CALL_OBJECT,       /* a value that says what was called */
    TX__CALL_NONE,         /* not to be called: a constant, or a class that is only named */
    TX__CALL_STORAGE,      /* neither; its dtype is in the row */
    TX__CALL_TENSOR,       /* (storage, offset, size, stride[, requires_grad, hooks[, metadata]]) */
    TX__CALL_PARAMETER,    /* (tensor, requires_grad, hooks[, state]) */
    TX__CALL_REBUILD,      /* (function, class, args, state) */
    TX__CALL_DICT,         /* ([pairs]) */
    TX__CALL_ORDERED,      /* ([pairs]) */
    TX__CALL_DEFAULT_DICT, /* (what makes a value[, pairs]) */
    TX__CALL_LIST,
    TX__CALL_TUPLE,
    TX__CALL_SET,
    TX__CALL_ENCODE,     /* (text, 'latin1'): bytes */
    TX__CALL_BYTES,      /* () or (list of ints), or of bytes */
    TX__CALL_RECONSTRUCT /* (class, base, state): copy_reg's */
} tx__call;

typedef struct tx__name {
    const char *module, *name; /* name NULL: any below the package `module` */
    tx__call call;
    tx_pt_dtype dtype; /* of a storage's class */
} tx__name;

/* The row of a name; NULL: it is not allowed. */
const tx__name *tx__name_find(const char *module, const char *name);

/* ---- reading ---- */

typedef struct tx__storage_id {
    tx_pt_dtype dtype;
    const char *key;
    int64_t numel;
    const char
        *view; /* of the older container: the key of a part of it, elements [view_at, view_at + view_numel); or NULL */
    int64_t view_at, view_numel;
} tx__storage_id;

typedef struct tx__pickle tx__pickle;

/* The storage that a pickle refers to. Errors as tx_pt_open's. */
typedef tx_status tx__find_storage(void *user, const tx__storage_id *id, const tx_pt_storage **out);

/* Compares a storage with its checksum. */
typedef tx_status tx__check_storage(void *user, const tx_pt_storage *s);

typedef struct tx__pickle_in {
    const char *path, *part; /* for messages */
    const unsigned char *data;
    size_t size;
    tx__find_storage *find; /* NULL: there are none */
    void *user;
    size_t *n_values;         /* of the file so far */
    tx__check_storage *check; /* or NULL; called for tensors of one number, which py.h reads without the file */
} tx__pickle_in;

/* One pickle from the start of `data` and how many bytes it took. Values are the arena's; nothing in them contains
 * itself or is deeper than TX_PT_MAX_DEPTH. */
tx_status tx__pickle_read(const tx_py **out, size_t *taken, tx_py_arena *a, const tx__pickle_in *in);

/* ---- inside of the reader ---- */

struct tx__pickle {
    const tx__pickle_in *in;
    tx_py_arena *arena;
    size_t at, op; /* next byte; the opcode that is being followed */
    const tx_py **stack;
    size_t n, cap, *mark, n_marks, cap_marks;
    const tx_py **memo;
    size_t n_memo, cap_memo, n_puts;
    tx_hash_table keys; /* of all dicts, with the dict hashed along: indices into its pairs */
};

enum { TX__MARK_STORAGE = 254 }; /* tx_py.mark of a storage that is no tensor yet */

/* TX_FAIL, the message preceded by file, part and place. */
#define TX__PICKLE_FAIL(p, code, ...) (tx__pickle_fail(p, TX_FAIL(code, __VA_ARGS__)), (tx_status)(code))
tx_status tx__pickle_fail(const tx__pickle *p, tx_status code);
tx_status tx__pickle_no_memory(const tx__pickle *p);

/* A value that counts; NULL after TX_FAIL. */
tx_status tx__pickle_new(tx__pickle *p, tx_py **out, tx_py_kind kind);

/* function(*args), cls.__new__(*args); and value.__setstate__(state). */
tx_status tx__pickle_call(tx__pickle *p, const tx_py *function, const tx_py *args, const tx_py **out);
tx_status tx__pickle_build(tx__pickle *p, const tx_py *value, const tx_py *state);
/* persistent_load(id): a storage. */
tx_status tx__pickle_load(tx__pickle *p, const tx_py *id, const tx_py **out);
/* dict[key] = value. */
tx_status tx__pickle_set_item(tx__pickle *p, tx_py *dict, const tx_py *key, const tx_py *value);

/* ---- writing ---- */

/* The storages that a pickle names "0", "1", ... */
typedef struct tx__storage_list {
    const tx_pt_storage **item;
    size_t n;
    tx_hash_table by_address;
} tx__storage_list;

/* Appends the pickle of a value (protocol 2). */
tx_status tx__pickle_write(tx_str *out, tx__storage_list *storages, const char *path, const tx_py *root);
void tx__storage_list_free(tx__storage_list *l);

#endif
