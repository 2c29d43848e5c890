/* str.h - a growing byte string. A NUL follows the last byte; bytes may themselves be NUL. Zeroed = empty. */
#ifndef TX_BASE_STR_H
#define TX_BASE_STR_H

#include <stddef.h>

#include "base/status.h"

typedef struct tx_str {
    char *data; /* NULL while empty and never grown */
    size_t len, cap;
} tx_str;

tx_status tx_str_append(tx_str *s, const void *bytes, size_t n);
tx_status tx_str_puts(tx_str *s, const char *text);
tx_status tx_str_printf(tx_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
tx_status tx_str_reserve(tx_str *s, size_t cap);        /* room for cap bytes and the NUL */
tx_status tx_str_printable(tx_str *s);                  /* as tx_printable shows it; its first NUL ends it */
tx_status tx_str_put_word(tx_str *s, const char *word); /* as one would type it in a shell: in quotes where need be */
void tx_str_free(tx_str *s);                            /* back to empty */

/* A number of bytes as text, "12.3 MiB", in the largest unit that gives at least 1; into buf, which is returned. */
const char *tx_bytes_text(char buf[24], double bytes);

/* Edit distance for "did you mean": insertions, deletions, changes; n, m below 64, else a large number. */
int tx_str_distance(const char *a, const char *b);

/* The distance from which on a word of n letters counts as another word, not a mistyped one. */
int tx_str_another(size_t n);

/* Appends a float as Python prints it: the fewest digits that read back as the same double, plain from 1e-4 to below
 * 1e16. */
tx_status tx_str_put_f64(tx_str *s, double v);

#endif
