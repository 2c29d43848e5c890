/* byte_symbols.h - GPT-2's names for bytes. Pure functions. */
#ifndef TX_TOKEN_BYTE_SYMBOLS_H
#define TX_TOKEN_BYTE_SYMBOLS_H

#include <stdint.h>

/* GPT-2's files spell a byte as a visible character: Latin-1's printable ones stand for themselves, the other 68 bytes,
 * in order, are U+0100 to U+0143:
 *      0..32 -> U+0100..0120      127..160 -> U+0121..0142      173 -> U+0143                                  */
#define TX__SYMBOL_END 0x144u

static inline uint32_t tx__symbol_of_byte(unsigned b)
{
    if (b <= 32) return 0x100 + b;
    if (b >= 127 && b <= 160) return 0x121 + (b - 127);
    return b == 173 ? 0x143 : b;
}

/* The byte, or -1 for a character that names none. */
static inline int tx__byte_of_symbol(uint32_t c)
{
    if (c >= TX__SYMBOL_END) return -1;
    if (c == 0x143) return 173;
    if (c >= 0x121) return (int)(c - 0x121 + 127);
    if (c >= 0x100) return (int)(c - 0x100);
    return c <= 32 || (c >= 127 && c <= 160) || c == 173 ? -1 : (int)c;
}

#endif
