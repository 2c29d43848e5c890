/* py_room.c - the memory of values, and containers that grow. */
#include "torch/py_room.h"

#include <string.h>

#include "base/alloc.h"

/* ---- memory: blocks in a list, filled from the front ---- */

#define BLOCK_BYTES ((size_t)64 << 10)

typedef struct block {
    struct block *next;
    size_t used, cap; /* bytes of what follows */
    _Alignas(16) unsigned char byte[];
} block;

struct tx_py_arena {
    block *head;
};

tx_status tx_py_arena_create(tx_py_arena **out)
{
    return tx_alloc(out, 1, sizeof **out, "values of a .pt file");
}

void tx_py_arena_destroy(tx_py_arena *a)
{
    if (!a) return;
    for (block *b = a->head, *next; b; b = next) {
        next = b->next;
        tx_free(b);
    }
    tx_free(a);
}

/* Something large gets a block for itself, behind the one that is being filled. */
void *tx__py_memory(tx_py_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    block *b = a->head;
    if (!b || b->cap - b->used < bytes) {
        bool large = bytes > BLOCK_BYTES / 4;
        size_t cap = large ? bytes : BLOCK_BYTES;
        if (tx_alloc(&b, 1, sizeof *b + cap, "values of a .pt file")) return NULL;
        b->cap = cap;
        if (large && a->head) {
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
    }
    void *p = b->byte + b->used;
    b->used += bytes;
    return p;
}

char *tx__py_text(tx_py_arena *a, const void *bytes, size_t n)
{
    char *p = tx__py_memory(a, n + 1);
    if (p && n) memcpy(p, bytes, n);
    return p;
}

tx_py *tx__py_new(tx_py_arena *a, tx_py_kind kind)
{
    tx_py *v = tx__py_memory(a, sizeof *v);
    if (v) v->kind = kind;
    return v;
}

tx_py *tx__py_string(tx_py_arena *a, tx_py_kind kind, const void *bytes, size_t n)
{
    tx_py *v = tx__py_new(a, kind);
    if (!v) return NULL;
    v->as.str.text = tx__py_text(a, bytes, n);
    v->as.str.n = n;
    return v->as.str.text ? v : NULL;
}

#define INT1(n)                        \
    {                                  \
        .kind = TX_PY_INT, .as.i = (n) \
    }
#define INT4(n)  INT1(n), INT1((n) + 1), INT1((n) + 2), INT1((n) + 3)
#define INT16(n) INT4(n), INT4((n) + 4), INT4((n) + 8), INT4((n) + 12)
#define INT64(n) INT16(n), INT16((n) + 16), INT16((n) + 32), INT16((n) + 48)

const tx_py *tx__py_small(tx_py_kind kind, int64_t i)
{
    static const tx_py none = { .kind = TX_PY_NONE }, empty = { .kind = TX_PY_TUPLE };
    static const tx_py truth[2] = { { .kind = TX_PY_BOOL, .as.b = false }, { .kind = TX_PY_BOOL, .as.b = true } };
    static const tx_py number[257] = { INT1(-1), INT64(0), INT64(64), INT64(128), INT64(192) };
    switch (kind) {
    case TX_PY_NONE:
        return &none;
    case TX_PY_BOOL:
        return &truth[i != 0];
    case TX_PY_TUPLE:
        return &empty;
    case TX_PY_INT:
        return i >= -1 && i <= 255 ? &number[i + 1] : NULL;
    default:
        return NULL;
    }
}

/* An array doubles when its number of items is 4, 8, 16, ..., so that its capacity need not be kept. */
static bool is_full(size_t n)
{
    return n == 0 || (n >= 4 && (n & (n - 1)) == 0);
}

static bool grow(tx_py_arena *a, const tx_py ***item, size_t n)
{
    if (!is_full(n)) return true;
    const tx_py **more = n > SIZE_MAX / 64 ? NULL : tx__py_memory(a, (n ? 2 * n : 4) * sizeof *more);
    if (!more) return false;
    if (n) memcpy(more, *item, n * sizeof *more);
    *item = more;
    return true;
}

bool tx__py_push(tx_py_arena *a, tx_py *list, const tx_py *item)
{
    if (!grow(a, &list->as.list.item, list->as.list.n)) return false;
    list->as.list.item[list->as.list.n++] = item;
    return true;
}

bool tx__py_push_pair(tx_py_arena *a, tx_py *dict, const tx_py *key, const tx_py *value)
{
    if (!grow(a, &dict->as.dict.key, dict->as.dict.n) || !grow(a, &dict->as.dict.value, dict->as.dict.n)) return false;
    dict->as.dict.key[dict->as.dict.n] = key;
    dict->as.dict.value[dict->as.dict.n++] = value;
    return true;
}
