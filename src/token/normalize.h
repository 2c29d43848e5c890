/* normalize.h - Unicode's normal forms as Hugging Face tokenizers makes them. */
#ifndef TX_TOKEN_NORMALIZE_H
#define TX_TOKEN_NORMALIZE_H

#include "base/str.h"

typedef enum { TX__NFC, TX__NFD, TX__NFKC, TX__NFKD } tx__normal_form;

/* Appends text[0..n) in that form to *out. Bytes that are not UTF-8 are kept as they are. The tables of Hugging Face's
 * tokenizers are older than utf8proc's: characters that are missing from them are kept as they are too. */
tx_status tx__normalize(tx_str *out, const unsigned char *text, size_t n, tx__normal_form form);

#endif
