/* sp_model.h - a SentencePiece model as its file has it: read, with defaults filled in, and checked. */
#ifndef TX_TOKEN_SP_MODEL_H
#define TX_TOKEN_SP_MODEL_H

#include <stdbool.h>

#include "base/str.h"
#include "token/strings.h"

typedef enum tx__sp_type { /* of a piece, as in the file */
                           TX__SP_NORMAL = 1,
                           TX__SP_UNKNOWN = 2,
                           TX__SP_CONTROL = 3,
                           TX__SP_USER_DEFINED = 4,
                           TX__SP_UNUSED = 5,
                           TX__SP_BYTE = 6
} tx__sp_type;

typedef enum tx__sp_kind { TX__SP_UNIGRAM = 1, TX__SP_BPE = 2, TX__SP_WORD = 3, TX__SP_CHAR = 4 } tx__sp_kind;

typedef struct tx__sp_text {
    const char *bytes; /* of the file, or a default; no NUL after them */
    size_t n;
} tx__sp_text;

typedef struct tx__sp_rules { /* normalizer_spec or denormalizer_spec */
    tx__sp_text charsmap;     /* precompiled_charsmap, empty: none */
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
} tx__sp_rules;

typedef struct tx__sp_sample {
    tx__sp_text input, expected;
} tx__sp_sample;

/* Zeroed = none. */
typedef struct tx__sp_model {
    tx_str file;       /* its bytes */
    tx__strings piece; /* number = id; valid UTF-8, not empty, without NUL, each once */
    float *score;      /* [id] finite */
    unsigned char *type;
    tx__sp_kind kind;
    bool byte_fallback, whitespace_as_suffix;
    tx__sp_text unk_piece, bos_piece, eos_piece, pad_piece, unk_surface;
    tx__sp_rules normalizer, denormalizer;
    bool denormalizes; /* denormalizer has a charsmap */
    tx__sp_sample *sample;
    size_t n_samples;
    int32_t unk, byte_id[256]; /* byte_id: of byte_fallback */
} tx__sp_model;

/* Errors name the file, and the byte, piece or field: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_UNSUPPORTED,
 * TX_ERR_NOMEM. *m is zeroed before. */
tx_status tx__sp_model_read(tx__sp_model *m, const char *file);
void tx__sp_model_free(tx__sp_model *m);

/* The id of a piece of this spelling and type, -1: none. */
int32_t tx__sp_find(const tx__sp_model *m, tx__sp_text piece, tx__sp_type type);

#endif
