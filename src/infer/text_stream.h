/* text_stream.h - tokens to text while they are generated: only whole characters are released, and nothing that may
 * still turn out to be the beginning of a stop string.
 *
 *      tokens      "Hel"  "lo"  " \xe2\x82"  "\xac"  "\n\nUs"  "er:"          stop string "\nUser:"
 *      text out    "Hel"  "lo"  " "          "€"     "\n"      (stopped; "\nUser:" is not part of the text)
 *
 *  Of several stop strings the one that is complete first counts. It may begin and end inside tokens. */
#ifndef TX_INFER_TEXT_STREAM_H
#define TX_INFER_TEXT_STREAM_H

#include <stdbool.h>

#include "base/str.h"
#include "triax/token.h"

typedef struct tx_text_stream {
    const tx_tokenizer *tok; /* borrowed */
    const char *const *stop; /* borrowed, [n_stops], none empty */
    int n_stops;
    tx_str text;  /* released so far: valid UTF-8, with U+FFFD for what is not a character */
    tx_str held;  /* bytes after it that are held back */
    bool stopped; /* a stop string was found */
    int32_t last; /* token, -1: none yet; in some vocabularies it decides whether a blank comes before the next */
} tx_text_stream;

void tx_text_stream_init(tx_text_stream *t, const tx_tokenizer *tok, const char *const *stop, int n_stops);
void tx_text_stream_deinit(tx_text_stream *t); /* safe on a zeroed one */

/* Adds one token. New text is appended to t->text. Does nothing once t->stopped is set. */
tx_status tx_text_stream_put(tx_text_stream *t, int32_t id);

/* After the last token: what was held back is released. */
tx_status tx_text_stream_end(tx_text_stream *t);

#endif
