/* json_quote.h - texts as JSON strings: one line whatever they hold, bytes that are not UTF-8 as U+FFFD. */
#ifndef TX_DATA_JSON_QUOTE_H
#define TX_DATA_JSON_QUOTE_H

#include "base/str.h"
#include "triax/token.h"

/* Appends a text of n bytes. TX_ERR_NOMEM */
tx_status tx_json_quote(tx_str *out, const char *raw, size_t n);

/* Appends the text of n ids. TX_ERR_NOMEM, and those of tx_tokenizer_decode */
tx_status tx_json_quote_ids(tx_str *out, const tx_tokenizer *tok, const int32_t *ids, size_t n);

#endif
