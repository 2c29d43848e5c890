/* rules.h - rules across options, for this room: one named function per rule, in one file and one table per topic. All
 * of them run, all violations are told. Bounds of a single option are in options.def. Where upstream has words for it,
 * they are the rule's.
 *
 *  A rule reads k->c (values), k->g (typed by the user) and k->bad (typed, but could not be read: its value says
 *  nothing, and the user hears about it anyway). Numbers that are 0 are not known: shape before a checkpoint is read.
 *
 *  A rule that finds a value wrong from which others reckon sets its k->bad, too: what would follow from a wrong number
 *  is no violation of its own. So rules stand in the order in which one's numbers are another's: model, tensor ranks,
 *  stages, world size, batch.
 *
 *  No rule says which other value would do. It names options whose change may mend it (tx__remedy), and advice.c tries
 *  values on the whole configuration. */
#ifndef TX_CONFIG_RULES_H
#define TX_CONFIG_RULES_H

#include "config/option_table.h"

enum { TX__MAX_BATCH = 1000000000 };

typedef struct tx__check {
    const tx_config *c;
    const tx_config_given *g;
    tx_config_given *bad;
    const tx__equation *equation; /* NULL: no file of DeepSpeed's */
    tx_violations *v;
} tx__check;

/* Changes of options that advice.c tries, a bit each: other values, then flags that are left out, then words
 * and flags that are given. */
enum {
    TX__TENSOR = 1 << 0, /* --tensor-model-parallel-size, and so on */
    TX__PIPELINE = 1 << 1,
    TX__RANKS = 1 << 2,
    TX__VIRTUAL = 1 << 3, /* --num-layers-per-virtual-pipeline-stage */
    TX__BATCH = 1 << 4,   /* --micro-batch-size and --global-batch-size; or DeepSpeed's three numbers */
    TX__RAMP = 1 << 5,
    TX__SEQUENCE = 1 << 6, /* --seq-length */
    TX__VOCABULARY = 1 << 7,
    TX__LAYERS = 1 << 8,
    TX__KEY_HEADS = 1 << 9,
    TX__ZERO = 1 << 10,
    TX__AIO_BLOCK = 1 << 11,
    TX__NO_SEQUENCE_PARALLEL = 1 << 12,
    TX__NO_VIRTUAL = 1 << 13,
    TX__NO_PARTITION = 1 << 14,
    TX__NO_DISABLED_PIPELINE = 1 << 15,
    TX__NO_DUMP = 1 << 16,
    TX__NO_DISTRIBUTED_OPTIMIZER = 1 << 17,
    TX__NO_CHECKPOINTS = 1 << 18,
    TX__NO_CONTIGUOUS = 1 << 19,
    TX__ONE_F_ONE_B = 1 << 20,
    TX__PARTITION = 1 << 21,
    TX__CHECKPOINT = 1 << 22,
};

/* tx__violate, with what may mend it. */
void tx__violate_mendable(const tx__check *k, unsigned remedies, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Tries changes on the whole configuration and adds to the violations those with which it is accepted, three
 * alternatives at most:
 *
 *      "; try --tensor-model-parallel-size 6 or 12, or --a 1 without --b"         a line of its own after several
 *
 * Each alternative is tried as a whole and is enough by itself: with it no violation is left but those for which nobody
 * named a remedy, and these were there before. The nearest come first: fewer changes before more (up to four), then by
 * ratio. Where none is found, it says so.   @as_given before anything was derived */
void tx__advise(const tx_config *as_given, const tx_config_given *bad, const tx__equation *equation, tx_violations *v);

/* profiled.c: a rule, of --profile and its steps. */
void tx__check_profile(const tx__check *k);

/* Whether tensor- and pipeline-parallel size and the number of ranks are sound, so that others may reckon from them. */
bool tx__layout_is_known(const tx__check *k);

typedef struct tx__rule {
    const char *command; /* "pretrain": pretrain-gpt, pretrain-bert and plan; "training": and engine; NULL: every one;
                          * options it does not take are at harmless defaults there */
    void (*check)(const tx__check *k);
} tx__rule;

/* A row without a function at the end of each. */
extern const tx__rule tx__rules_needs[], tx__rules_model[], tx__rules_layout[], tx__rules_run[], tx__rules_zero[],
    tx__rules_files[], tx__rules_bert[], tx__rules_schedule[];

/* "<command> needs --<flag>", unless it is there. */
void tx__need(const tx__check *k, bool have, const char *flag);

/* `plan` runs nothing: it needs neither data nor a length. */
bool tx__plans_only(const tx__check *k);

/* The length of a run is in iterations or in samples, and so are decay span and warm-up. */
bool tx__in_samples(const tx_config *c);

/* Data given as weighted splits. */
bool tx__names_weighted(const tx_config_given *g);

#endif
