/* charsmap.c - checks a double array once, so that walks need not. A unit is
 *
 *      offset 22 bits | wide offset: bit 9 | a value lies at the offset: bit 8 | label 8 bits, or a value with bit 31
 */
#include "token/charsmap.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

static tx_status broken(const char *where, const char *why)
{
    return TX_FAIL(TX_ERR_FORMAT, "%s is damaged: %s", where, why);
}

/* Visits every unit that a text can lead to, each once: units may have several parents. */
static tx_status check_units(const tx__charsmap *c, uint32_t n_units, size_t n_text, const char *where)
{
    tx_status st;
    unsigned char *seen = NULL;
    uint32_t *stack = NULL, n = 0;
    TX_GOTO(tx_alloc(&seen, n_units, 1, "normalization rules"));
    TX_GOTO(tx_alloc(&stack, n_units, sizeof *stack, "normalization rules"));
    stack[n++] = 0;
    seen[0] = 1;
    while (n) {
        uint32_t at = stack[--n], below = tx__charsmap_below(c, at);
        if ((below | 0xFF) >= n_units) {
            st = broken(where, "its table leads out of itself");
            goto out;
        }
        if (c->unit[at] & 1u << 8 && (c->unit[below] & ~(1u << 31)) >= n_text) {
            st = broken(where, "a replacement lies behind its end");
            goto out;
        }
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t child = below ^ byte;
            if ((c->unit[child] & (1u << 31 | 0xFF)) != byte || seen[child]) continue;
            seen[child] = 1;
            stack[n++] = child;
        }
    }
out:
    tx_free(seen);
    tx_free(stack);
    return st;
}

tx_status tx__charsmap_read(tx__charsmap *c, const void *blob, size_t n, const char *where)
{
    const unsigned char *p = blob;
    *c = (tx__charsmap){ 0 };
    if (n < 4) return broken(where, "it has fewer than 4 bytes");
    size_t n_units_bytes = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
    if (n_units_bytes >= n - 4 || n_units_bytes % 1024 || !n_units_bytes)
        return broken(where, "its table has no whole blocks of 1024 bytes, or leaves no room for replacements");
    const unsigned char *text = p + 4 + n_units_bytes;
    size_t n_text = n - 4 - n_units_bytes;
    if (text[n_text - 1]) return broken(where, "its last replacement has no end");
    for (size_t i = 0; i < n_text;) {
        uint32_t ch;
        i += tx__utf8_next(text + i, n_text - i, &ch);
        if (ch == TX__NO_CHAR) return broken(where, "its replacements are no valid UTF-8");
    }

    tx_status st;
    TX_GOTO(tx_alloc(&c->unit, n_units_bytes / 4, sizeof *c->unit, "normalization rules"));
    TX_GOTO(tx_memdup0(&c->text, text, n_text, "normalization rules"));
    for (size_t i = 0; i < n_units_bytes / 4; i++) {
        const unsigned char *u = p + 4 + 4 * i;
        c->unit[i] = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    }
    TX_GOTO(check_units(c, (uint32_t)(n_units_bytes / 4), n_text, where));
out:
    if (st) tx__charsmap_free(c);
    return st;
}

void tx__charsmap_free(tx__charsmap *c)
{
    tx_free(c->unit);
    tx_free(c->text);
    *c = (tx__charsmap){ 0 };
}
