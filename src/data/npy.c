/* npy.c - the header of a .npy file. */
#include "data/npy.h"

#include <ctype.h>

#include "base/status.h"

enum { MAX_HEADER = 1 << 16 }; /* bytes of text; NumPy writes about a hundred */

/* The header's text from *s to end, not NUL-terminated. */
typedef struct text {
    const char *s, *end;
} text;

static void blanks(text *t)
{
    while (t->s < t->end && isspace((unsigned char)*t->s)) t->s++;
}

/* Takes `word` if it is what comes next. */
static bool take(text *t, const char *word)
{
    size_t n = strlen(word);
    blanks(t);
    if ((size_t)(t->end - t->s) < n || memcmp(t->s, word, n)) return false;
    t->s += n;
    return true;
}

static bool take_either_quote(text *t, const char *word)
{
    text before = *t;
    const char *quote = take(t, "'") ? "'" : take(t, "\"") ? "\"" : NULL;
    if (quote && take(t, word) && take(t, quote)) return true;
    *t = before;
    return false;
}

static bool take_number(text *t, int64_t *out)
{
    int64_t n = 0;
    blanks(t);
    const char *from = t->s;
    for (; t->s < t->end && isdigit((unsigned char)*t->s); t->s++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *t->s - '0', &n)) return false;
    *out = n;
    return t->s > from;
}

static tx_status take_type(tx_npy *a, text *t, const char *path)
{
    static const struct {
        const char *name;
        tx_int_type type;
    } known[] = { { "<i4", TX_INT_I32 }, { "<u4", TX_INT_U32 }, { "<i8", TX_INT_I64 }, { "<u8", TX_INT_I64 } };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        a->ints.type = known[k].type;
        if (take_either_quote(t, known[k].name)) return TX_OK;
    }
    blanks(t);
    int shown = 0;
    while (shown < 12 && t->s + shown < t->end && t->s[shown] != ',') shown++;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: holds numbers of type %.*s; integers of 32 and 64 bits are read", path,
                   shown, t->s);
}

/* (5,) or (5, 2) */
static tx_status take_shape(tx_npy *a, text *t, const char *path)
{
    int n = 0;
    bool comma = true, ok = take(t, "(");
    a->dim[0] = a->dim[1] = 1;
    while (ok && !take(t, ")")) {
        if (n == 2)
            return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: has more than two dimensions, index files have one or two", path);
        ok = comma && take_number(t, &a->dim[n++]);
        comma = take(t, ",");
    }
    a->n_dims = n;
    if (!ok || n == 0 || (n == 1 && !comma)) return TX_FAIL(TX_ERR_FORMAT, "%s: its shape cannot be read", path);
    return TX_OK;
}

/* The dictionary: three entries in any order, each once. */
static tx_status read_header(tx_npy *a, text t, const char *path)
{
    bool type = false, order = false, shape = false, ok = take(&t, "{");
    while (ok && !take(&t, "}")) {
        if (!type && take_either_quote(&t, "descr")) {
            type = ok = take(&t, ":");
            if (ok) TX_TRY(take_type(a, &t, path));
        } else if (!order && take_either_quote(&t, "fortran_order")) {
            order = ok = take(&t, ":");
            if (take(&t, "True"))
                return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: is in Fortran order; save it again in C order", path);
            ok = ok && take(&t, "False");
        } else if (!shape && take_either_quote(&t, "shape")) {
            shape = ok = take(&t, ":");
            if (ok) TX_TRY(take_shape(a, &t, path));
        } else {
            ok = false;
        }
        if (!take(&t, ",") && ok) {
            ok = take(&t, "}");
            break;
        }
    }
    blanks(&t);
    if (ok && type && order && shape && t.s == t.end) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: the header of this .npy file cannot be read", path);
}

static tx_status read_file(tx_npy *a, const char *path)
{
    const unsigned char *h = a->map.data;
    size_t size = a->map.size, begin = 10;
    if (size < 12 || memcmp(h, "\x93NUMPY", 6)) return TX_FAIL(TX_ERR_FORMAT, "%s: is no .npy file of NumPy", path);
    if (h[6] < 1 || h[6] > 3)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: is of .npy version %d.%d; 1.0 to 3.0 are read", path, h[6], h[7]);
    size_t n = (size_t)h[8] | (size_t)h[9] << 8;
    if (h[6] > 1) {
        n |= (size_t)h[10] << 16 | (size_t)h[11] << 24;
        begin = 12;
    }
    if (n > MAX_HEADER || n > size - begin)
        return TX_FAIL(TX_ERR_FORMAT, "%s: its header of %zu bytes does not fit the file of %zu", path, n, size);
    TX_TRY(read_header(a, (text){ (const char *)h + begin, (const char *)h + begin + n }, path));
    int64_t bytes, left = (int64_t)(size - begin - n);
    if (__builtin_mul_overflow(a->dim[0], a->dim[1], &a->ints.n) ||
        __builtin_mul_overflow(a->ints.n, a->ints.type == TX_INT_I64 ? 8 : 4, &bytes) || bytes != left)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %lld bytes follow the header, which announces %lld x %lld numbers", path,
                       (long long)left, (long long)a->dim[0], (long long)a->dim[1]);
    a->ints.data = h + begin + n;
    return TX_OK;
}

tx_status tx_npy_open(tx_npy *out, const char *path)
{
    tx_npy a = { 0 };
    TX_TRY(tx_map_open(&a.map, path));
    tx_status st = read_file(&a, path);
    if (st)
        tx_map_close(&a.map);
    else
        *out = a;
    return st;
}

void tx_npy_close(tx_npy *a)
{
    tx_map_close(&a->map);
    *a = (tx_npy){ 0 };
}
