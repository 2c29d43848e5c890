/* rules.h - rules across options, for src/config/ only.
 *
 * There is one named function per rule, and one file and one table per topic. All rules run, and all violations are
 * reported, in upstream's words if it has a message for them. Bounds of a single option are in options.def.
 *
 * A rule reads k->c (values), k->g (typed by the user) and k->bad (could not be read: its value means nothing, and has
 * been reported). Numbers that are 0 are unknown: the shape, before a checkpoint is read.
 *
 * A rule that finds a value wrong from which other rules compute sets its k->bad, too, so that a wrong number is
 * reported once and not again through its consequences. Rules therefore run in the order of their dependencies: model,
 * tensor-parallel ranks, pipeline stages, world size, batch.
 *
 * A rule does not propose values. It names the options whose change may remedy the violation (tx__remedy), and
 * advice.c tries values on the whole configuration. */
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

/* The changes that advice.c tries, one bit each: first other values, then omitted flags, then words and flags that are
 * added. */
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
    TX__NO_OFFLOAD_RATIO = 1 << 20,
    TX__ONE_F_ONE_B = 1 << 21,
    TX__PARTITION = 1 << 22,
    TX__CHECKPOINT = 1 << 23,
    TX__NO_ZERO_BUBBLE = 1 << 24,
    TX__NO_STANDALONE = 1 << 25,
};

/* tx__violate, with the changes that may remedy the violation. */
void tx__violate_mendable(const tx__check *k, unsigned remedies, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Tries changes on the whole configuration, and appends those with which it is accepted to the violations, three
 * alternatives at most:
 *
 *      "; try --tensor-model-parallel-size 6 or 12, or --a 1 without --b"         a line of its own after several
 *
 * Each alternative is tried as a whole and is sufficient by itself: it leaves only violations that have no remedy and
 * were there before. The nearest come first: fewer changes before more (up to four), then by ratio. If there is none,
 * the text says so.
 * @as_given the options before anything was derived */
void tx__advise(const tx_config *as_given, const tx_config_given *bad, const tx__equation *equation, tx_violations *v);

/* profiled.c: a rule, of --profile and its steps. */
void tx__check_profile(const tx__check *k);

/* Whether the tensor- and pipeline-parallel sizes and the number of ranks are valid, and not what is looked for, so
 * that other rules can compute from them. */
bool tx__layout_is_known(const tx__check *k);

typedef struct tx__rule {
    const char *command; /* "pretrain": pretrain-gpt, pretrain-bert and plan; "training": and engine; NULL: every one;
                          * options it does not take are at harmless defaults there */
    void (*check)(const tx__check *k);
} tx__rule;

/* Each table ends with a row without a function. */
extern const tx__rule tx__rules_needs[], tx__rules_model[], tx__rules_layout[], tx__rules_run[], tx__rules_zero[],
    tx__rules_files[], tx__rules_bert[], tx__rules_schedule[], tx__rules_moe[], tx__rules_curriculum[],
    tx__rules_routing[], tx__rules_teacher[], tx__rules_finetune[], tx__rules_lora[], tx__rules_rotary[],
    tx__rules_context[], tx__rules_chunks[];

/* The flag by which c divides positions among ranks. */
const char *tx__context_flag(const tx_config *c);

/* Reports "<command> needs --<flag>" unless `have`. */
void tx__need(const tx__check *k, bool have, const char *flag);

/* Whether the command is `plan`, which trains nothing and so needs neither data nor a number of iterations. */
bool tx__plans_only(const tx__check *k);

/* Whether the length of the run is in samples, not in iterations; decay and warm-up then are, too. */
bool tx__in_samples(const tx_config *c);

/* rules_curriculum.c: whether --curriculum-schedule is given and has all it needs, so that lengths can be computed. */
bool tx__curriculum_is_sound(const tx__check *k);

/* rules_routing.c: whether --random-ltd is given and has all it needs, so that lengths can be computed. */
bool tx__random_ltd_is_sound(const tx__check *k);

/* rules_curriculum.c: the numbers of tokens that samples have in a run, one stretch of iterations alike after the
 * other. Zeroed, but for `drops`, at first. They can be computed where the two above say so. */
typedef struct tx__lengths {
    bool drops;             /* also those of --random-ltd's layers */
    int64_t first, last;    /* the stretch's iterations */
    int64_t sample, layers; /* tokens of a sample; of it in layers that drop some (tx_config_reserved_length) */
} tx__lengths;

/* False: there are no more. */
bool tx__lengths_next(const tx_config *c, tx__lengths *l);

/* Whether the data are given as weighted splits. */
bool tx__names_weighted(const tx_config_given *g);

#endif
