/* block_starts.h - where the pieces of a block of text begin, found for all of them at once. The rules are those of the
 * functions that cut one piece after the other, for ASCII alone; where they see too little they leave the rest to
 * those. */
#ifndef TX_TOKEN_BLOCK_STARTS_H
#define TX_TOKEN_BLOCK_STARTS_H

#include "token/byte_classes.h"
#include "token/unicode_split.h"

/* Of text[0..TX__BLOCK), where a piece begins at 0 and whose classes are c: bits of the places where the pieces after
 * it begin. Every piece that starts before the last bit ends at the bit after it. 0: the first piece must be cut off by
 * the other function. */
typedef uint64_t tx__starts_fn(const tx__byte_classes *c, const unsigned char *text);

/* That of a function that cuts pieces; NULL: it has none. */
tx__starts_fn *tx__starts_of(tx__split_fn *split);

#endif
