/* layer_pattern.c - reads --moe-layer-freq. Nothing is built up: an expression is read for its length and for one of
 * its elements. */
#include "config/layer_pattern.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>

enum { MAX_DEPTH = 8, MAX_LAYERS = 1000000 };

/* A number, or a list and its element `at`. */
typedef tx_layer_pattern value;

typedef struct reader {
    const char *s;
    int depth;
} reader;

static void skip(reader *r)
{
    while (isspace((unsigned char)*r->s)) r->s++;
}

static bool accept(reader *r, char c)
{
    skip(r);
    if (*r->s != c) return false;
    r->s++;
    return true;
}

static bool read_number(reader *r, int64_t *n)
{
    *n = 0;
    skip(r);
    const char *first = r->s;
    for (; isdigit((unsigned char)*r->s) && *n <= MAX_LAYERS; r->s++) *n = 10 * *n + (*r->s - '0');
    return r->s > first && *n <= MAX_LAYERS;
}

/* Behind its bracket: "0, 1, 1]". */
static bool read_list(reader *r, int64_t at, value *out)
{
    *out = (value){ .listed = true };
    while (!accept(r, ']')) {
        int64_t n;
        if ((out->n && !accept(r, ',')) || !read_number(r, &n) || n > 1) return false;
        if (out->n++ == at) out->at = n == 1;
    }
    return out->n <= MAX_LAYERS;
}

static bool read_sum(reader *r, int64_t at, value *out);

static bool read_factor(reader *r, int64_t at, value *out)
{
    if (accept(r, '[')) return read_list(r, at, out);
    if (!accept(r, '(')) {
        *out = (value){ .n = 0 };
        return read_number(r, &out->n);
    }
    if (++r->depth > MAX_DEPTH || !read_sum(r, at, out)) return false;
    r->depth--;
    return accept(r, ')');
}

/* Numbers times each other, or times one list: that is read twice, for its length and then for its element. */
static bool read_product(reader *r, int64_t at, value *out)
{
    reader list = { .s = NULL };
    int64_t times = 1, length = 0;
    do {
        const reader here = *r;
        value f;
        if (!read_factor(r, -1, &f) || (f.listed && list.s)) return false;
        if (f.listed) {
            list = here;
            length = f.n;
        } else if (__builtin_mul_overflow(times, f.n, &times) || times > MAX_LAYERS) {
            return false;
        }
    } while (accept(r, '*'));
    *out = (value){ .listed = list.s, .n = list.s ? length * times : times };
    if (out->n > MAX_LAYERS) return false;
    if (!list.s || at < 0 || at >= out->n) return true;
    value element;
    if (!read_factor(&list, at % length, &element)) return false;
    out->at = element.at;
    return true;
}

static bool read_sum(reader *r, int64_t at, value *out)
{
    if (!read_product(r, at, out)) return false;
    while (accept(r, '+')) {
        value next;
        if (!read_product(r, at < out->n ? -1 : at - out->n, &next) || next.listed != out->listed) return false;
        out->n += next.n;
        out->at = out->at || next.at;
        if (out->n > MAX_LAYERS) return false;
    }
    return true;
}

bool tx_layer_pattern_read(const char *text, int64_t layer, tx_layer_pattern *out)
{
    reader r = { .s = text };
    if (!read_sum(&r, layer, out)) return false;
    skip(&r);
    if (*r.s || out->n < 1) return false;
    if (!out->listed) out->at = layer % out->n == 0;
    return true;
}
