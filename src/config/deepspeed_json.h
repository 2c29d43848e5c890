/* deepspeed_json.h - --deepspeed_config: DeepSpeed's JSON as options, by the table deepspeed_keys.def.
 *
 *  A key is an option's value, read by the option's own parser; what the file leaves out is the flags' or the default.
 *  Called while a command line is parsed: when all flags are read, before anything is derived of them. */
#ifndef TX_CONFIG_DEEPSPEED_JSON_H
#define TX_CONFIG_DEEPSPEED_JSON_H

#include "config/option_table.h"
#include "config/relaxed_json.h"

typedef struct tx__origin {
    const char *key; /* of the table; NULL: the option's value is not from the file */
    tx__json_place at;
} tx__origin;

typedef struct tx__deepspeed {
    tx__origin *from; /* per option; NULL: no file was read */
    tx_str notes;     /* lines for the log */
    tx__equation equation;
} tx__deepspeed;

/* Reads cfg->deepspeed_config into cfg: options that it sets count as given. typed: per option the flag as it was
 * typed, NULL if it was not. What is wrong with the file, and where it disagrees with flags, becomes violations; the
 * options are then `bad`, too. Fails for want of memory only. d is zeroed before and deinited after, also on failure.
 */
tx_status tx__deepspeed_read(tx__deepspeed *d, tx_config *cfg, const char *const *typed, tx_config_given *bad,
                             tx_violations *found);

/* Rules name flags. Of each that stands in the violations from byte `first` on and whose value the file has set, adds
 * a line that says so. */
void tx__deepspeed_explain(const tx__deepspeed *d, const tx_config *cfg, size_t first, tx_violations *found);

void tx__deepspeed_log(const tx__deepspeed *d);
void tx__deepspeed_deinit(tx__deepspeed *d);

#endif
