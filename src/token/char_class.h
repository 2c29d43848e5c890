/* char_class.h - the classes of characters that the splitters distinguish. */
#ifndef TX_TOKEN_CHAR_CLASS_H
#define TX_TOKEN_CHAR_CLASS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/utf8.h"

enum { TX__OTHER, TX__LETTER, TX__NUMBER, TX__SPACE }; /* \p{L}, \p{N}, \s */

extern uint8_t tx__bmp_class[0x10000]; /* of the Basic Multilingual Plane, once tx__char_class_init has run */
extern atomic_bool tx__char_class_ready;
void tx__char_class_fill(void);
uint8_t tx__category_class(uint32_t c); /* of any character, white space apart; slow */

/* To be called before anything here is used. Thread-safe; calls after the first one do nothing. */
static inline void tx__char_class_init(void)
{
    if (!atomic_load_explicit(&tx__char_class_ready, memory_order_acquire)) tx__char_class_fill();
}

/* The finer classes of later patterns, as bits. */
enum {
    TX__UPPER = 1,    /* Lu, Lt */
    TX__LOWER = 2,    /* Ll */
    TX__UNCASED = 4,  /* Lm, Lo */
    TX__MARK = 8,     /* M */
    TX__NUMERIC = 16, /* N */
    TX__WHITE = 32,   /* \s; no other bit */
    TX__SYMBOL = 64,  /* P, S */
    TX__WORD = 128,   /* \w: Alphabetic, M, Nd, Pc, Join_Control */
    TX__ALPHA = TX__UPPER | TX__LOWER | TX__UNCASED,
};

extern uint8_t tx__bmp_bits[0x10000];
uint8_t tx__category_bits(uint32_t c); /* of any character, white space apart; slow */

/* Class of the first character of p[0..n), n > 0, and its length. Bytes that are not UTF-8 are "other", one by one as
 * tx__utf8_next counts them. */
static inline int tx__class_next(const unsigned char *p, size_t n, size_t *len)
{
    if (p[0] < 0x80) {
        *len = 1;
        return tx__bmp_class[p[0]];
    }
    uint32_t c;
    *len = tx__utf8_next(p, n, &c);
    if (c < 0x10000) return tx__bmp_class[c];
    return c == TX__NO_CHAR ? TX__OTHER : tx__category_class(c); /* beyond the BMP nothing is White_Space */
}

/* The same for bits, 0 for bytes that are not UTF-8. */
static inline unsigned tx__bits_next(const unsigned char *p, size_t n, size_t *len)
{
    uint32_t c = p[0];
    *len = 1;
    if (c >= 0x80) *len = tx__utf8_next(p, n, &c);
    if (c < 0x10000) return tx__bmp_bits[c];
    return c == TX__NO_CHAR ? 0 : tx__category_bits(c);
}

#endif
