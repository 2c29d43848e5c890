/* block_starts.c - the regular expressions of unicode_split.c and split_pattern.c, as operations on bits.
 *
 *      text    W e ' r e _ a t _ _ v 2         bit i is byte i; << 1 looks at the byte before, >> 1 at the one after
 *      letter  1 1 . 1 1 . 1 1 . . 1 .
 *      starts  1 . 1 . . 1 . . 1 1 . 1         "We" "'re" " at" " " " v" "2"                                        */
#include "token/block_starts.h"

/* First bits of the runs of ones. */
static inline uint64_t firsts(uint64_t run)
{
    return run & ~(run << 1);
}

/* Last bits of the runs; of one that goes up to the block's end the last is not known. */
static inline uint64_t lasts(uint64_t run)
{
    return run & ~(run >> 1 | (uint64_t)1 << 63);
}

/* The places about which ASCII alone decides. Of two bytes at the end the second is left out, for what follows it is
 * not known, and a contraction of three may begin at the first. */
static inline uint64_t known(uint64_t wide)
{
    return wide ? (((uint64_t)1 << __builtin_ctzll(wide)) - 1) >> 1 : UINT64_MAX >> 1;
}

/* Bytes of 's 't 'm 'd 're 've 'll at p, 0: none. */
static inline unsigned contraction(const unsigned char *p)
{
    if (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd') return 2;
    return (p[2] == 'e' && (p[1] == 'r' || p[1] == 'v')) || (p[1] == 'l' && p[2] == 'l') ? 3 : 0;
}

/* Runs of a class, each with the blank before it; all but the last character of white space that something follows. */
static uint64_t gpt2_starts(const tx__byte_classes *c, const unsigned char *text)
{
    uint64_t other = ~(c->letter | c->number | c->space), last = lasts(c->space);
    uint64_t starts = firsts(c->letter) | firsts(c->number) | firsts(other) | firsts(c->space) | last;
    starts &= ~((last & c->blank) << 1);
    for (uint64_t at = starts & c->apostrophe & UINT64_MAX >> 2; at; at &= at - 1) {
        unsigned place = (unsigned)__builtin_ctzll(at), n = contraction(text + place);
        if (n) starts = (starts & ~((uint64_t)2 << place)) | (uint64_t)1 << (place + n) % 64;
    }
    return starts & known(c->wide) & ~(uint64_t)1;
}

tx__starts_fn *tx__starts_of(tx__split_fn *split)
{
    return split == tx__split_next ? gpt2_starts : NULL;
}
