/* byte_classes.h - which of 64 bytes of text are letters, numbers, white space: a bit for each. What a splitter asks of
 * character after character it then asks of all of them at once. */
#ifndef TX_TOKEN_BYTE_CLASSES_H
#define TX_TOKEN_BYTE_CLASSES_H

#include <stdint.h>

enum { TX__BLOCK = 64 }; /* bytes */

/* Bit i is byte i of the block. Only ASCII is classified: other bytes are `wide` and nothing else. */
typedef struct tx__byte_classes {
    uint64_t letter, number, space; /* \p{L}, \p{N}, \s */
    uint64_t blank, newline;        /* of space: U+0020; \r and \n */
    uint64_t apostrophe;
    uint64_t wide; /* part of a character beyond ASCII, or not UTF-8 */
} tx__byte_classes;

/* Classifies text[0..TX__BLOCK). */
typedef void tx__classify_fn(tx__byte_classes *out, const unsigned char *text);

/* The fastest of this processor. All give the same. */
tx__classify_fn *tx__classify_best(void);

/* All that this processor can run, plain C first; ends with NULL. for tests: they give the same */
enum { TX__CLASSIFY_MAX = 4 };
void tx__classify_all(tx__classify_fn *all[TX__CLASSIFY_MAX]);

#endif
