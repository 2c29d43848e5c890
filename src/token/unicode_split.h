/* unicode_split.h - cuts text into pieces as GPT-2 does; BPE never merges across them. */
#ifndef TX_TOKEN_UNICODE_SPLIT_H
#define TX_TOKEN_UNICODE_SPLIT_H

#include <stddef.h>

/* Length in bytes of the first piece of text[0..n), n > 0. Where a piece ends depends only on what follows its start,
 * so a text is cut by calling this until nothing is left. Thread-safe. */
typedef size_t tx__split_fn(const unsigned char *text, size_t n);

size_t tx__split_next(const unsigned char *text, size_t n);

#endif
