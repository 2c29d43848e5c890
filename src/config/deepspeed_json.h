/* deepspeed_json.h - --deepspeed_config: DeepSpeed's JSON as options, by the table deepspeed_keys.def.
 *
 *  A key is an option's value, read by the option's own parser; what the file leaves out is the flags' or the default.
 *  Called while a command line is parsed: when all flags are read, before anything is derived of them. */
#ifndef TX_CONFIG_DEEPSPEED_JSON_H
#define TX_CONFIG_DEEPSPEED_JSON_H

#include "config/options.h"
#include "config/relaxed_json.h"

typedef struct tx__origin {
    const char *key; /* of the table; NULL: the option's value is not from the file */
    tx__place at;
} tx__origin;

typedef struct tx__deepspeed {
    tx__origin *from; /* per option; NULL: no file was read */
    tx_str notes;     /* lines for the log */
} tx__deepspeed;

/* Reads cfg->deepspeed_config into cfg: options that it sets count as given. typed: per option the flag as it was
 * typed, NULL if it was not. What is wrong with the file, and where it disagrees with flags, becomes violations; the
 * options are then `bad`, too. Fails for want of memory only. d is zeroed before and deinited after, also on failure.
 */
tx_status tx__deepspeed_read(tx__deepspeed *d, tx_config *cfg, const char *const *typed, tx_config_given *bad,
                             tx_violations *found);

/* Rules name flags. Of each that stands in the violations from byte `behind` on and whose value the file has set, adds
 * a line that says so. */
void tx__deepspeed_explain(const tx__deepspeed *d, const tx_config *cfg, size_t behind, tx_violations *found);

void tx__deepspeed_log(const tx__deepspeed *d);
void tx__deepspeed_deinit(tx__deepspeed *d);

/* ---- batch sizes: deepspeed_batch.c ---- */

/* train = micro x accumulation x ranks; 0: not known. */
typedef struct tx__batch {
    int64_t train, micro, accumulation, ranks;
} tx__batch;

/* Fills in what is not known, by DeepSpeed's table: train alone, and micro alone, accumulate once. false, and nothing
 * is filled in: train and micro are both unknown, or there is no solution in whole numbers. */
bool tx__batch_complete(tx__batch *b);

/* Solutions near what has none, the nearest first: the fewer of the known numbers change, and the less by ratio, the
 * nearer. Gives back how many, 1 to 3. */
enum { TX__N_NEAREST = 3 };
int tx__batch_nearest(const tx__batch *b, tx__batch near[TX__N_NEAREST]);

#endif
