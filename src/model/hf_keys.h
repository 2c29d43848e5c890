/* hf_keys.h - members of config.json: each is a row of a table that says what it is of a model's options. The same row
 * reads it and writes it, so that what one does the other can.
 *
 *  A value of a row is JSON text: "1e-5", "true", "\"gelu\"". Options are those of options.def that are marked SHAPE;
 * a row whose option there is not is refused where it would not be at its neutral value (0, off, none). */
#ifndef TX_MODEL_HF_KEYS_H
#define TX_MODEL_HF_KEYS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum tx_hf_kind {
    TX_HF_LAST,    /* ends a table */
    TX_HF_HAS,     /* no member: every model of the family has this value of the option */
    TX_HF_SIZE,    /* a positive whole number */
    TX_HF_SIZE_OR, /* the same; left out or null: what --ffn-hidden-size, --kv-channels and --num-key-value-heads are
                    * then */
    TX_HF_NUMBER,  /* a number; null: 0, which with an `also` is written so */
    TX_HF_OVER,    /* 1 over the option */
    TX_HF_ROOT,    /* the option is 1 over its root */
    TX_HF_SWITCH,  /* true or false */
    TX_HF_UNLESS,  /* the option is its contrary */
    TX_HF_WORD,    /* a word, with what options are then; or true and false, as the first choice's word says */
    TX_HF_ONLY,    /* must be this value, which is written; left out it is the one of `also`, or this */
    TX_HF_FREE,    /* says nothing about the model; with a value, that is written */
    TX_HF_COMPUTED /* read and written by functions */
} tx_hf_kind;

/* A word there, and what of the options it stands for. */
typedef struct tx_hf_choice {
    const char *word;
    struct {
        const char *option, *value;
    } is[3];
} tx_hf_choice;

typedef tx_status tx_hf_read_fn(json_t *options, const json_t *config);
typedef tx_status tx_hf_write_fn(json_t *config, const json_t *options);

typedef struct tx_hf_key {
    tx_hf_kind kind;
    const char *theirs; /* "hidden_size"; "attn_config.alibi" is a member of a member */
    const char *option; /* "hidden_size" */
    const char *value;  /* theirs, where it is left out; of TX_HF_HAS the option's */
    const char *also;   /* of a size: another name of theirs, which is written, too */
    const tx_hf_choice *choice;
    tx_hf_read_fn *read; /* after all other rows */
    tx_hf_write_fn *write;
} tx_hf_key;

/* clang-format off */
#define TX_HF_IS(option_, value_)             { .kind = TX_HF_HAS, .option = option_, .value = value_ }
#define TX_HF_COUNT(option_, theirs_)         { .kind = TX_HF_SIZE, .option = option_, .theirs = theirs_ }
#define TX_HF_COUNT_OR(option_, theirs_)      { .kind = TX_HF_SIZE_OR, .option = option_, .theirs = theirs_ }
#define TX_HF_NUM(option_, theirs_, value_)   { .kind = TX_HF_NUMBER, .option = option_, .theirs = theirs_, .value = value_ }
#define TX_HF_NUM_OR_NULL(option_, theirs_, value_) \
    { .kind = TX_HF_NUMBER, .option = option_, .theirs = theirs_, .value = value_, .also = "null" }
#define TX_HF_INVERSE(option_, theirs_, value_) { .kind = TX_HF_OVER, .option = option_, .theirs = theirs_, .value = value_ }
#define TX_HF_INVERSE_ROOT(option_, theirs_, value_) \
    { .kind = TX_HF_ROOT, .option = option_, .theirs = theirs_, .value = value_ }
#define TX_HF_FLAG(option_, theirs_, value_)  { .kind = TX_HF_SWITCH, .option = option_, .theirs = theirs_, .value = value_ }
#define TX_HF_NOT(option_, theirs_, value_)   { .kind = TX_HF_UNLESS, .option = option_, .theirs = theirs_, .value = value_ }
#define TX_HF_ONE_OF(theirs_, choice_, value_) { .kind = TX_HF_WORD, .theirs = theirs_, .choice = choice_, .value = value_ }
#define TX_HF_MUST(theirs_, value_)           { .kind = TX_HF_ONLY, .theirs = theirs_, .value = value_ }
#define TX_HF_ANY(theirs_)                    { .kind = TX_HF_FREE, .theirs = theirs_ }
#define TX_HF_WRITES(theirs_, value_)         { .kind = TX_HF_FREE, .theirs = theirs_, .value = value_ }
#define TX_HF_BY(theirs_, read_, write_)      { .kind = TX_HF_COMPUTED, .theirs = theirs_, .read = read_, .write = write_ }
#define TX_HF_END                             { .kind = TX_HF_LAST }
/* clang-format on */

/* Sets in `options`, which has all of the shape, what config.json says by a table; TX_ERR_UNSUPPORTED names a member
 * that it cannot have, or that no row knows.   @family its name, for that message */
tx_status tx_hf_keys_read(const tx_hf_key *keys, const char *family, json_t *options, const json_t *config);

/* Members of config.json by a table, and what the options are. */
tx_status tx_hf_keys_write(const tx_hf_key *keys, json_t *config, const json_t *options);

/* ---- for TX_HF_BY ---- */

/* A member, also of a member; NULL: there is none. */
const json_t *tx_hf_get(const json_t *config, const char *key);

/* Takes `value` (NULL: no memory). An option that there is not is refused but for 0, false and null. */
tx_status tx_hf_put(json_t *options, const char *option, json_t *value);
/* The same of config.json. */
tx_status tx_hf_say(json_t *config, const char *key, json_t *value);

/* A positive whole number of 31 bits; the same, or `fallback` when it is not there or null; a number, a bool or a
 * word, or `fallback` when it is not there. TX_ERR_FORMAT: it is something else. */
tx_status tx_hf_get_size(const json_t *config, const char *key, int64_t *out);
tx_status tx_hf_get_size_or(const json_t *config, const char *key, int64_t fallback, int64_t *out);
tx_status tx_hf_get_number(const json_t *config, const char *key, double fallback, double *out);
tx_status tx_hf_get_bool(const json_t *config, const char *key, bool fallback, bool *out);
tx_status tx_hf_get_word(const json_t *config, const char *key, const char *fallback, const char **out);

/* An option's value; 0, false, "" where it means nothing beside the others. */
int64_t tx_hf_size(const json_t *options, const char *option);
double tx_hf_number(const json_t *options, const char *option);
bool tx_hf_is(const json_t *options, const char *option);
const char *tx_hf_word(const json_t *options, const char *option);

/* Which layers an option of layers has, as --moe-layer-freq lists them: @at [n] true where the list has 1; left out, or
 * a number N: `first` the first of every N, else all but the last of every N. */
typedef struct tx_hf_layers {
    int64_t n;
    unsigned char *at; /* owned: tx_free */
} tx_hf_layers;
tx_status tx_hf_layers_new(tx_hf_layers *out, const json_t *options);
tx_status tx_hf_put_layers(json_t *options, const char *option, const tx_hf_layers *layers);
tx_status tx_hf_get_layers(const json_t *options, const char *option, tx_hf_layers *layers);

#endif
