/* base64.h - bytes of their base64 text. */
#ifndef TX_TOKEN_BASE64_H
#define TX_TOKEN_BASE64_H

#include "base/str.h"

/* Appends the bytes of text[0..n), which is base64 with its padding and nothing else. TX_ERR_FORMAT: it is not, without
 * the file's name. */
tx_status tx__base64_read(tx_str *out, const char *text, size_t n);

#endif
