/* sentences.h - where English sentences end, by rules: what nltk's punkt does for Megatron's --split-sentences.
 *
 *      text       He met Dr. Brown.  "Why?"  It was 3.14...
 *      sentences  |----------------| |----|  |------------|
 *
 *  A sentence ends after a run of . ? ! and the closing quotes and brackets after it, where white space (line ends are
 *  white space) or the text's end follows. It does not after
 *    - a title (Dr.), and other abbreviations (e.g., U.S., Inc., Jan.) and initials (J.), unless a word follows that
 * often begins a sentence, with a capital letter (U.S. He);
 *    - a number before a small letter (No. 3. and); . . . and an ellipsis before anything but a capital letter.
 *  Every ? and ! ends one. docs/howto/preprocess-data.md compares it with punkt. */
#ifndef TX_DATA_SENTENCES_H
#define TX_DATA_SENTENCES_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the first sentence of text[0..n): its bytes are [0, *end), the next begins at *next. The white space between is
 * in neither; with keep_space it belongs to the sentence before it (but for the text's last). White space at the text's
 * beginning belongs to the first, as in punkt. false: nothing but white space is left. Any bytes are allowed. */
bool tx__sentence_next(const char *text, size_t n, bool keep_space, size_t *end, size_t *next);

#endif
