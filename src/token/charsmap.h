/* charsmap.h - SentencePiece's precompiled_charsmap: for the beginning of a text, what the longest known sequence of
 * characters there is replaced by. The bytes are a double array as darts-clone writes it, after its length, and the
 * replacements, each with a NUL after it. Source: darts-clone's details; SentencePiece's normalizer. */
#ifndef TX_TOKEN_CHARSMAP_H
#define TX_TOKEN_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Zeroed = maps nothing. */
typedef struct tx__charsmap {
    uint32_t *unit; /* NULL: maps nothing */
    char *text;     /* all replacements */
} tx__charsmap;

/* Copies blob[0..n), all of which is checked: after this no walk leaves it. `where` begins errors: the file and the
 * field. Errors: TX_ERR_FORMAT, TX_ERR_NOMEM. */
tx_status tx__charsmap_read(tx__charsmap *c, const void *blob, size_t n, const char *where);
void tx__charsmap_free(tx__charsmap *c);

static inline uint32_t tx__charsmap_below(const tx__charsmap *c, uint32_t at)
{
    uint32_t u = c->unit[at];
    return at ^ (u >> 10) << ((u & 1u << 9) >> 6);
}

/* Length of the longest sequence that text[0..n) begins with, 0: none; *to is its replacement, with a NUL. */
static inline size_t tx__charsmap_longest(const tx__charsmap *c, const unsigned char *text, size_t n, const char **to)
{
    size_t longest = 0;
    uint32_t below = c->unit ? tx__charsmap_below(c, 0) : 0;
    for (size_t i = 0; c->unit && i < n; i++) {
        uint32_t at = below ^ text[i], u = c->unit[at];
        if ((u & (1u << 31 | 0xFF)) != text[i]) break;
        below = tx__charsmap_below(c, at);
        if (u & 1u << 8) {
            longest = i + 1;
            *to = c->text + (c->unit[below] & ~(1u << 31));
        }
    }
    return longest;
}

#endif
