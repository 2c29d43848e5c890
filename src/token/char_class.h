/* char_class.h - what the splitters want to know of a character. */
#ifndef TX_TOKEN_CHAR_CLASS_H
#define TX_TOKEN_CHAR_CLASS_H

#include <stddef.h>
#include <stdint.h>

#include "token/utf8.h"

enum { TX__OTHER, TX__LETTER, TX__NUMBER, TX__SPACE }; /* \p{L}, \p{N}, \s */

extern uint8_t tx__bmp_class[0x10000];  /* of the Basic Multilingual Plane, once tx__char_class_init has run */
void tx__char_class_init(void);         /* thread-safe, cheap after the first call */
uint8_t tx__category_class(uint32_t c); /* of any character, white space apart; slow */

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

#endif
