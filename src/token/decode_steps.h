/* decode_steps.h - the decoder of a tokenizer.json: steps from tokens to the pieces of a text. */
#ifndef TX_TOKEN_DECODE_STEPS_H
#define TX_TOKEN_DECODE_STEPS_H

#include <jansson.h>
#include <stdbool.h>

#include "token/json_part.h"
#include "token/text_pattern.h"

typedef enum {
    TX__D_BYTE_LEVEL,    /* ByteLevel: bytes of symbols, in one piece */
    TX__D_BYTE_FALLBACK, /* ByteFallback: <0x41> is the byte 0x41 */
    TX__D_FUSE,          /* Fuse: one piece */
    TX__D_METASPACE,     /* Metaspace */
    TX__D_STRIP,         /* Strip */
    TX__D_REPLACE,       /* Replace */
    TX__D_WORDPIECE,     /* WordPiece */
    TX__D_SUFFIX,        /* BPEDecoder */
} tx__decode_kind;

typedef struct tx__decode_step {
    tx__decode_kind kind;
    tx_str content;           /* Replace; the prefix of WordPiece, the suffix of BPEDecoder, the marks of the others */
    tx__text_pattern pattern; /* Replace */
    size_t start, stop;       /* Strip: at most so many characters at the ends */
    bool never;               /* Metaspace: a mark in front is a blank too */
    bool cleanup;             /* WordPiece */
} tx__decode_step;

/* Zeroed = none: tokens are joined with blanks. Const once it is read. */
typedef struct tx__text_decoder {
    tx__decode_step *step;
    size_t n;
} tx__text_decoder;

/* Strings one after the other: string i ends at end[i]. Zeroed = none. */
typedef struct tx__pieces {
    tx_str bytes;
    size_t *end, n, cap;
} tx__pieces;

tx_status tx__pieces_add(tx__pieces *p, const void *bytes, size_t n);
void tx__pieces_free(tx__pieces *p);

/* Reads "decoder". Anything unknown is TX_ERR_UNSUPPORTED, and the error names its place. */
tx_status tx__decoder_read(tx__text_decoder *out, json_t *root, const char *file);
void tx__decoder_free(tx__text_decoder *d);

/* Makes the text of the tokens in *p, which becomes one piece or none. */
tx_status tx__decoder_run(const tx__text_decoder *d, tx__pieces *p);

#endif
