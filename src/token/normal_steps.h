/* normal_steps.h - the normalizer of a tokenizer.json: steps that make another text of a text. */
#ifndef TX_TOKEN_NORMAL_STEPS_H
#define TX_TOKEN_NORMAL_STEPS_H

#include <jansson.h>
#include <stdbool.h>

#include "token/charsmap.h"
#include "token/json_part.h"
#include "token/normalize.h"
#include "token/text_pattern.h"

typedef enum {
    TX__N_FORM,     /* NFC, NFD, NFKC, NFKD */
    TX__N_LOWER,    /* Lowercase */
    TX__N_ACCENTS,  /* StripAccents */
    TX__N_STRIP,    /* Strip */
    TX__N_BERT,     /* BertNormalizer */
    TX__N_NMT,      /* Nmt */
    TX__N_PREPEND,  /* Prepend */
    TX__N_REPLACE,  /* Replace */
    TX__N_SYMBOLS,  /* ByteLevel: a symbol for each byte */
    TX__N_CHARSMAP, /* Precompiled */
} tx__normal_kind;

typedef struct tx__normal_step {
    tx__normal_kind kind;
    tx__normal_form form;
    bool left, right;                /* Strip */
    bool clean, cjk, accents, lower; /* BertNormalizer */
    tx_str content;                  /* Prepend, Replace */
    tx__text_pattern pattern;        /* Replace */
    tx__charsmap map;                /* Precompiled */
} tx__normal_step;

/* Zeroed = none. Const once it is read. */
typedef struct tx__normalizer {
    tx__normal_step *step;
    size_t n;
} tx__normalizer;

/* Memory of a run, kept between runs. Zeroed = none. */
typedef struct tx__normal_scratch {
    tx_str form[2]; /* what a step makes, and what it makes it of */
    tx_str part[2];
} tx__normal_scratch;

/* Reads "normalizer". Anything unknown is TX_ERR_UNSUPPORTED, and the error names its place. */
tx_status tx__normalizer_read(tx__normalizer *out, json_t *root, const char *file);
void tx__normalizer_free(tx__normalizer *z);

/* Points *text and *n at the text after all steps, in s or the text itself.
 * @front in and out: whether the first character stands where the original text begins, which Metaspace asks. */
tx_status tx__normalizer_run(const tx__normalizer *z, tx__normal_scratch *s, const unsigned char **text, size_t *n,
                             bool *front);
void tx__normal_scratch_free(tx__normal_scratch *s);

/* Appends GPT-2's symbol of every byte. */
tx_status tx__symbols_append(tx_str *out, const unsigned char *text, size_t n);

#endif
