/* hf_chars.h - what characters are to Hugging Face's tokenizers, whose tables are partly older and partly newer than
 * utf8proc's. White space and numbers are char_class.h's. */
#ifndef TX_TOKEN_HF_CHARS_H
#define TX_TOKEN_HF_CHARS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TX__HF_PUNCTUATION = 1, /* Punctuation and BertPreTokenizer cut it off */
    TX__HF_CONTROL = 2,     /* BertNormalizer's clean_text drops it; U+FFFD too */
    TX__HF_MARK = 4,        /* StripAccents drops it */
    TX__HF_NONSPACING = 8   /* BertNormalizer's strip_accents drops it, after NFD */
};

extern uint8_t tx__hf_bmp[0x10000]; /* once tx__hf_chars_init has run */
uint8_t tx__hf_flags(uint32_t c);   /* of any character; slow */

/* To be called before tx__hf_char is used. Thread-safe; calls after the first one do nothing. */
void tx__hf_chars_init(void);

static inline unsigned tx__hf_char(uint32_t c)
{
    return c < 0x10000 ? tx__hf_bmp[c] : tx__hf_flags(c);
}

/* Rust's char::to_lowercase, except that of U+0130, which is two characters: i and U+0307; here it is i. */
uint32_t tx__hf_lower(uint32_t c);

#endif
