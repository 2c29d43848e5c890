/* char_class.c - letters and numbers from utf8proc's tables (Unicode 15.0 in utf8proc 2.8) and a short list of those
 * that Unicode 15.1 and 16.0 added, which is what the peers' tables hold; characters still younger are "other". White
 * space is Unicode's White_Space. */
#include "token/char_class.h"

#include <pthread.h>
#include <utf8proc.h>

uint8_t tx__bmp_class[0x10000];
static pthread_once_t bmp_once = PTHREAD_ONCE_INIT;

/* Letters and numbers of Unicode 15.1 and 16.0. A utf8proc that knows them says the same. */
/* clang-format off */
static const struct {
    uint32_t first, last;
    uint8_t kind;
} younger[] = {
    { 0x1C89, 0x1C8A, TX__LETTER }, { 0xA7CB, 0xA7CD, TX__LETTER }, { 0xA7DA, 0xA7DC, TX__LETTER },
    { 0x105C0, 0x105F3, TX__LETTER }, { 0x10D40, 0x10D49, TX__NUMBER }, { 0x10D4A, 0x10D65, TX__LETTER },
    { 0x10D6F, 0x10D85, TX__LETTER }, { 0x10EC2, 0x10EC4, TX__LETTER }, { 0x11380, 0x11389, TX__LETTER },
    { 0x1138B, 0x1138B, TX__LETTER }, { 0x1138E, 0x1138E, TX__LETTER }, { 0x11390, 0x113B5, TX__LETTER },
    { 0x113B7, 0x113B7, TX__LETTER }, { 0x113D1, 0x113D1, TX__LETTER }, { 0x113D3, 0x113D3, TX__LETTER },
    { 0x116D0, 0x116E3, TX__NUMBER }, { 0x11BC0, 0x11BE0, TX__LETTER }, { 0x11BF0, 0x11BF9, TX__NUMBER },
    { 0x13460, 0x143FA, TX__LETTER }, { 0x16100, 0x1611D, TX__LETTER }, { 0x16130, 0x16139, TX__NUMBER },
    { 0x16D40, 0x16D6C, TX__LETTER }, { 0x16D70, 0x16D79, TX__NUMBER }, { 0x18CFF, 0x18CFF, TX__LETTER },
    { 0x1CCF0, 0x1CCF9, TX__NUMBER }, { 0x1E5D0, 0x1E5ED, TX__LETTER }, { 0x1E5F0, 0x1E5F0, TX__LETTER },
    { 0x1E5F1, 0x1E5FA, TX__NUMBER }, { 0x2EBF0, 0x2EE5D, TX__LETTER },
};
/* clang-format on */

static uint8_t younger_class(uint32_t c)
{
    for (size_t i = 0; i < sizeof younger / sizeof *younger && c >= younger[i].first; i++)
        if (c <= younger[i].last) return younger[i].kind;
    return TX__OTHER;
}

uint8_t tx__category_class(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return TX__LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return TX__NUMBER;
    case UTF8PROC_CATEGORY_CN:
        return younger_class(c);
    default:
        return TX__OTHER;
    }
}

static void fill_bmp(void)
{
    /* White_Space as [first, last]; U+180E and U+200B are not in it */
    static const uint16_t space[][2] = { { 0x09, 0x0D },     { 0x20, 0x20 },     { 0x85, 0x85 },     { 0xA0, 0xA0 },
                                         { 0x1680, 0x1680 }, { 0x2000, 0x200A }, { 0x2028, 0x2029 }, { 0x202F, 0x202F },
                                         { 0x205F, 0x205F }, { 0x3000, 0x3000 } };
    for (uint32_t c = 0; c < 0x10000; c++) tx__bmp_class[c] = tx__category_class(c);
    for (size_t i = 0; i < sizeof space / sizeof *space; i++)
        for (uint32_t c = space[i][0]; c <= space[i][1]; c++) tx__bmp_class[c] = TX__SPACE;
}

void tx__char_class_init(void)
{
    pthread_once(&bmp_once, fill_bmp);
}
