/* cuts.h - the pre_tokenizer of a tokenizer.json: steps that cut a text into words, and may change it. */
#ifndef TX_TOKEN_CUTS_H
#define TX_TOKEN_CUTS_H

#include <jansson.h>
#include <stdbool.h>

#include "token/byte_bpe.h"
#include "token/json_part.h"
#include "token/text_pattern.h"

typedef enum {
    TX__C_SPLIT,     /* by a function that knows where pieces end */
    TX__C_PATTERN,   /* Split: at the matches of a pattern */
    TX__C_CHARS,     /* at each character of a kind */
    TX__C_PREFIX,    /* ByteLevel's add_prefix_space */
    TX__C_SYMBOLS,   /* ByteLevel: a symbol for each byte */
    TX__C_METASPACE, /* Metaspace */
    TX__C_LENGTH,    /* FixedLength */
} tx__cut_kind;

/* What becomes of a match: a piece of its own, nothing, the end of the piece before it, the beginning of the next one,
 * or one piece with the matches beside it. */
typedef enum { TX__ISOLATED, TX__REMOVED, TX__MERGED_BEFORE, TX__MERGED_AFTER, TX__CONTIGUOUS } tx__behavior;

/* Where Metaspace prepends its mark: to every text, where the original begins, nowhere. */
typedef enum { TX__ALWAYS, TX__FIRST, TX__NEVER } tx__prepend;

/* Whether the first character of p[0..n) is one of the kind; *len is its length. */
typedef bool tx__char_fn(const unsigned char *p, size_t n, size_t *len, uint32_t only);

typedef struct tx__cut_step {
    tx__cut_kind kind;
    tx__split_fn *split; /* TX__C_SPLIT */
    bool drop_white;     /* and pieces that begin with white space are dropped */
    tx__text_pattern pattern;
    tx__char_fn *is; /* TX__C_CHARS */
    uint32_t only;   /* the one character, for `is` */
    tx__behavior behavior;
    bool invert;      /* what does not match is the match */
    char mark[8];     /* Metaspace's, with a NUL */
    tx__prepend when; /* it is prepended */
    bool cut;         /* Metaspace cuts before each mark */
    size_t length;    /* FixedLength, characters */
} tx__cut_step;

/* Zeroed = none. Const once it is read. */
typedef struct tx__cuts {
    tx__cut_step *step;
    size_t n;
} tx__cuts;

/* Memory of a run, kept between runs: one of these a step. Zeroed = none. */
typedef struct tx__cut_scratch {
    struct tx__cut_level {
        struct tx__cut_span *span;
        size_t n, cap;
        tx_str text;
    } level[TX__MAX_STEPS];
} tx__cut_scratch;
void tx__cut_scratch_free(tx__cut_scratch *s);

/* Reads "pre_tokenizer". Anything unknown is TX_ERR_UNSUPPORTED, and the error names its place. */
tx_status tx__cuts_read(tx__cuts *out, json_t *root, const char *file);
void tx__cuts_free(tx__cuts *c);

/* Calls each() for the words of text[0..n), in order; none is empty.   @front the text begins where the original does
 */
typedef struct tx__cutting {
    const tx__cuts *cuts;
    tx__cut_scratch *scratch;
    tx_status (*each)(void *user, const unsigned char *word, size_t n);
    void *user;
} tx__cutting;
tx_status tx__cut(const tx__cutting *c, const unsigned char *text, size_t n, bool front);

/* Reads the members of Metaspace that its pre-tokenizer and its decoder share. */
tx_status tx__metaspace_read(tx__cut_step *out, json_t *step, const char *file, const char *place);

#endif
