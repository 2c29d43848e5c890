/* char_class.c - categories from utf8proc's tables (Unicode 15.0 in utf8proc 2.8) and a short list of the characters
 * that Unicode 15.1 and 16.0 added, which are those in the tables of Hugging Face's tokenizers; characters newer than
 * that are "other". White space is Unicode's White_Space. */
#include "token/char_class.h"

#include <pthread.h>
#include <utf8proc.h>

uint8_t tx__bmp_class[0x10000], tx__bmp_bits[0x10000];
atomic_bool tx__char_class_ready;
static pthread_once_t bmp_once = PTHREAD_ONCE_INIT;

/* Of Unicode 15.1 and 16.0. A utf8proc that knows them says the same. All but symbols are word characters. */
/* clang-format off */
static const struct {
    uint32_t first, last;
    uint8_t kind;
} younger[] = {
    { 0x0897, 0x0897, TX__MARK }, { 0x1B4E, 0x1B4F, TX__SYMBOL }, { 0x1B7F, 0x1B7F, TX__SYMBOL },
    { 0x1C89, 0x1C89, TX__UPPER }, { 0x1C8A, 0x1C8A, TX__LOWER }, { 0x2427, 0x2429, TX__SYMBOL },
    { 0x2FFC, 0x2FFF, TX__SYMBOL }, { 0x31E4, 0x31E5, TX__SYMBOL }, { 0x31EF, 0x31EF, TX__SYMBOL },
    { 0xA7CB, 0xA7CC, TX__UPPER }, { 0xA7CD, 0xA7CD, TX__LOWER }, { 0xA7DA, 0xA7DA, TX__UPPER },
    { 0xA7DB, 0xA7DB, TX__LOWER }, { 0xA7DC, 0xA7DC, TX__UPPER }, { 0x105C0, 0x105F3, TX__UNCASED },
    { 0x10D40, 0x10D49, TX__NUMERIC }, { 0x10D4A, 0x10D4F, TX__UNCASED }, { 0x10D50, 0x10D65, TX__UPPER },
    { 0x10D69, 0x10D6D, TX__MARK }, { 0x10D6E, 0x10D6E, TX__SYMBOL }, { 0x10D6F, 0x10D6F, TX__UNCASED },
    { 0x10D70, 0x10D85, TX__LOWER }, { 0x10D8E, 0x10D8F, TX__SYMBOL }, { 0x10EC2, 0x10EC4, TX__UNCASED },
    { 0x10EFC, 0x10EFC, TX__MARK }, { 0x11380, 0x11389, TX__UNCASED }, { 0x1138B, 0x1138B, TX__UNCASED },
    { 0x1138E, 0x1138E, TX__UNCASED }, { 0x11390, 0x113B5, TX__UNCASED }, { 0x113B7, 0x113B7, TX__UNCASED },
    { 0x113B8, 0x113C0, TX__MARK }, { 0x113C2, 0x113C2, TX__MARK }, { 0x113C5, 0x113C5, TX__MARK },
    { 0x113C7, 0x113CA, TX__MARK }, { 0x113CC, 0x113D0, TX__MARK }, { 0x113D1, 0x113D1, TX__UNCASED },
    { 0x113D2, 0x113D2, TX__MARK }, { 0x113D3, 0x113D3, TX__UNCASED }, { 0x113D4, 0x113D5, TX__SYMBOL },
    { 0x113D7, 0x113D8, TX__SYMBOL }, { 0x113E1, 0x113E2, TX__MARK }, { 0x116D0, 0x116E3, TX__NUMERIC },
    { 0x11BC0, 0x11BE0, TX__UNCASED }, { 0x11BE1, 0x11BE1, TX__SYMBOL }, { 0x11BF0, 0x11BF9, TX__NUMERIC },
    { 0x11F5A, 0x11F5A, TX__MARK }, { 0x13460, 0x143FA, TX__UNCASED }, { 0x16100, 0x1611D, TX__UNCASED },
    { 0x1611E, 0x1612F, TX__MARK }, { 0x16130, 0x16139, TX__NUMERIC }, { 0x16D40, 0x16D6C, TX__UNCASED },
    { 0x16D6D, 0x16D6F, TX__SYMBOL }, { 0x16D70, 0x16D79, TX__NUMERIC }, { 0x18CFF, 0x18CFF, TX__UNCASED },
    { 0x1CC00, 0x1CCEF, TX__SYMBOL }, { 0x1CCF0, 0x1CCF9, TX__NUMERIC }, { 0x1CD00, 0x1CEB3, TX__SYMBOL },
    { 0x1E5D0, 0x1E5ED, TX__UNCASED }, { 0x1E5EE, 0x1E5EF, TX__MARK }, { 0x1E5F0, 0x1E5F0, TX__UNCASED },
    { 0x1E5F1, 0x1E5FA, TX__NUMERIC }, { 0x1E5FF, 0x1E5FF, TX__SYMBOL }, { 0x1F8B2, 0x1F8BB, TX__SYMBOL },
    { 0x1F8C0, 0x1F8C1, TX__SYMBOL }, { 0x1FA89, 0x1FA89, TX__SYMBOL }, { 0x1FA8F, 0x1FA8F, TX__SYMBOL },
    { 0x1FABE, 0x1FABE, TX__SYMBOL }, { 0x1FAC6, 0x1FAC6, TX__SYMBOL }, { 0x1FADC, 0x1FADC, TX__SYMBOL },
    { 0x1FADF, 0x1FADF, TX__SYMBOL }, { 0x1FAE9, 0x1FAE9, TX__SYMBOL }, { 0x1FBCB, 0x1FBEF, TX__SYMBOL },
    { 0x2EBF0, 0x2EE5D, TX__UNCASED },
};
/* clang-format on */

static uint8_t younger_bits(uint32_t c)
{
    for (size_t i = 0; i < sizeof younger / sizeof *younger && c >= younger[i].first; i++)
        if (c <= younger[i].last)
            return younger[i].kind == TX__SYMBOL ? TX__SYMBOL : (uint8_t)(younger[i].kind | TX__WORD);
    return 0;
}

/* \w beyond letters, marks and numbers: joiners, and symbols that are letters in circles and squares. */
static uint8_t odd_word(uint32_t c)
{
    return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                   (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189)
               ? TX__WORD
               : 0;
}

uint8_t tx__category_bits(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
        return TX__UPPER | TX__WORD;
    case UTF8PROC_CATEGORY_LL:
        return TX__LOWER | TX__WORD;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return TX__UNCASED | TX__WORD;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return TX__MARK | TX__WORD;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
        return TX__NUMERIC | TX__WORD;
    case UTF8PROC_CATEGORY_NO:
        return TX__NUMERIC;
    case UTF8PROC_CATEGORY_PC:
        return TX__SYMBOL | TX__WORD;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
        return (uint8_t)(TX__SYMBOL | odd_word(c));
    case UTF8PROC_CATEGORY_CN:
        return younger_bits(c);
    default:
        return odd_word(c);
    }
}

uint8_t tx__category_class(uint32_t c)
{
    uint8_t bits = tx__category_bits(c);
    return bits & TX__ALPHA ? TX__LETTER : bits & TX__NUMERIC ? TX__NUMBER : TX__OTHER;
}

static void fill_bmp(void)
{
    /* White_Space as [first, last]; U+180E and U+200B are not in it */
    static const uint16_t space[][2] = { { 0x09, 0x0D },     { 0x20, 0x20 },     { 0x85, 0x85 },     { 0xA0, 0xA0 },
                                         { 0x1680, 0x1680 }, { 0x2000, 0x200A }, { 0x2028, 0x2029 }, { 0x202F, 0x202F },
                                         { 0x205F, 0x205F }, { 0x3000, 0x3000 } };
    for (uint32_t c = 0; c < 0x10000; c++) {
        tx__bmp_bits[c] = tx__category_bits(c);
        tx__bmp_class[c] = tx__category_class(c);
    }
    for (size_t i = 0; i < sizeof space / sizeof *space; i++)
        for (uint32_t c = space[i][0]; c <= space[i][1]; c++) {
            tx__bmp_class[c] = TX__SPACE;
            tx__bmp_bits[c] = TX__WHITE;
        }
    atomic_store_explicit(&tx__char_class_ready, true, memory_order_release);
}

void tx__char_class_fill(void)
{
    pthread_once(&bmp_once, fill_bmp);
}
