/* deepspeed_json.h - --deepspeed_config: DeepSpeed's JSON as options, by the table deepspeed_keys.def.
 *
 * Each key sets an option, through the option's own parser. Options that the file leaves out keep the value of the
 * flag or the default. Called while a command line is parsed: after all flags are read, before anything is derived
 * from them. */
#ifndef TX_CONFIG_DEEPSPEED_JSON_H
#define TX_CONFIG_DEEPSPEED_JSON_H

#include "config/option_table.h"
#include "config/relaxed_json.h"

typedef struct tx__origin {
    const char *key; /* from the table; NULL: the file did not set the option */
    tx__json_place at;
} tx__origin;

typedef struct tx__deepspeed {
    tx__origin *from; /* per option; NULL: no file was read */
    tx_str notes;     /* lines for the log */
    tx__equation equation;
} tx__deepspeed;

/* Reads cfg->deepspeed_config into cfg; options that it sets count as given. Errors in the file and contradictions to
 * flags become violations, and the options concerned are also marked `bad`. Fails only if memory runs out. Zero d
 * before the call and deinit it afterwards, also on failure.
 * @typed the flag of each option as it was typed; NULL: it was not */
tx_status tx__deepspeed_read(tx__deepspeed *d, tx_config *cfg, const char *const *typed, tx_config_given *bad,
                             tx_violations *found);

/* Rules name flags. For each flag that the violations name from byte `first` on and that the file has set, adds a line
 * that points to the file. */
void tx__deepspeed_explain(const tx__deepspeed *d, const tx_config *cfg, size_t first, tx_violations *found);

/* Of a long path what tells files apart: a message has room for so much. */
const char *tx__deepspeed_file_end(const char *path);

/* "c" of "a.b.c" */
const char *tx__ds_last_part(const char *path);

/* The key of the table that an unknown one may be meant to be. */
typedef struct tx__ds_nearest {
    const char *path; /* of the typed key */
    int distance;
    tx_str found; /* empty: none is near; the caller frees it */
} tx__ds_nearest;

void tx__ds_nearest_begin(tx__ds_nearest *n, const char *path);
tx_status tx__ds_nearest_try(tx__ds_nearest *n, const char *row, const char *members); /* of a section; NULL: none */

void tx__deepspeed_log(const tx__deepspeed *d);
void tx__deepspeed_deinit(tx__deepspeed *d);

#endif
