/* text_stream.h - tokens to text as they come: only whole characters are let out, and nothing that may yet turn out to
 * be the beginning of a stop string.
 *
 *      tokens      "Hel"  "lo"  " \xe2\x82"  "\xac"  "\n\nUs"  "er:"          stop string "\nUser:"
 *      text out    "Hel"  "lo"  " "          "€"     "\n"      (stopped; "\nUser:" is not part of the text)
 *
 *  Of several stop strings the one that is complete first counts, wherever tokens begin and end. */
#ifndef TX_INFER_TEXT_STREAM_H
#define TX_INFER_TEXT_STREAM_H

#include <stdbool.h>

#include "base/str.h"
#include "triax/token.h"

typedef struct tx_text_stream {
    const tx_tokenizer *tok; /* borrowed */
    const char *const *stop; /* borrowed, [n_stops], none empty */
    int n_stops;
    tx_str text;  /* let out so far: valid UTF-8, what is not a character is U+FFFD */
    tx_str held;  /* bytes that came behind it */
    bool stopped; /* a stop string has come */
    int32_t last; /* token, -1: none yet; whether a blank stands before the next depends on it in some vocabularies */
} tx_text_stream;

void tx_text_stream_init(tx_text_stream *t, const tx_tokenizer *tok, const char *const *stop, int n_stops);
void tx_text_stream_deinit(tx_text_stream *t); /* safe on a zeroed one */

/* One token more. New text is what t->text has got longer by. Afterwards nothing is added where t->stopped. */
tx_status tx_text_stream_put(tx_text_stream *t, int32_t id);

/* There will be no more: what was held back comes out. */
tx_status tx_text_stream_end(tx_text_stream *t);

#endif
