/* rules.h - rules across options, for this room: one named function per rule, in one file and one table per topic. All
 * of them run, all violations are told. Bounds of a single option are in options.def. Where upstream has words for it,
 * they are the rule's.
 *
 *  A rule reads k->c (values), k->g (typed by the user) and k->bad (typed, but could not be read: its value says
 *  nothing, and the user hears about it anyway). Numbers that are 0 are not known: shape before a checkpoint is read.
 */
#ifndef TX_CONFIG_RULES_H
#define TX_CONFIG_RULES_H

#include "config/options.h"

typedef struct tx__check {
    const tx_config *c;
    const tx_config_given *g, *bad;
    tx_violations *v;
} tx__check;

typedef struct tx__rule {
    const char *command; /* "pretrain": pretrain-gpt, pretrain-bert and plan; "training": and engine; NULL: every one;
                          * options it does not take are at harmless defaults there */
    void (*check)(const tx__check *k);
} tx__rule;

/* A row without a function at the end of each. */
extern const tx__rule tx__rules_needs[], tx__rules_model[], tx__rules_layout[], tx__rules_run[], tx__rules_zero[],
    tx__rules_files[], tx__rules_bert[];

/* "<command> needs --<flag>", unless it is there. */
void tx__need(const tx__check *k, bool have, const char *flag);

/* `plan` runs nothing: it needs neither data nor a length. */
bool tx__plans_only(const tx__check *k);

/* The length of a run is in iterations or in samples, and so are decay span and warm-up. */
bool tx__in_samples(const tx_config *c);

/* Data given as weighted splits. */
bool tx__names_weighted(const tx_config_given *g);

/* The multiples of unit next to `value`, which is none, for a message: "96 or 104"; without a 0. */
enum { TX__NEAREST = 48 };
const char *tx__nearest_multiples(char text[TX__NEAREST], int64_t value, int64_t unit);

#endif
