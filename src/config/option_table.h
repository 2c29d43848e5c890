/* option_table.h - options.def as arrays, for src/config/ only: finds options by flag, and accesses their members in a
 * config. */
#ifndef TX_CONFIG_OPTION_TABLE_H
#define TX_CONFIG_OPTION_TABLE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

enum {
#define GROUP(name, title) TX_GROUP_##name,
#include "config/options.def"
    TX_N_OPTION_GROUPS
};

/* The kind of a row; kinds before TX_OPTION_NOOP have a member in tx_config. */
typedef enum tx_option_kind {
    TX_OPTION_I64,
    TX_OPTION_F64,
    TX_OPTION_STR,
    TX_OPTION_ENUM,
    TX_OPTION_LIST,
    TX_OPTION_FLAG,
    TX_OPTION_FLAG_OFF,
    TX_OPTION_NOOP,
    TX_OPTION_FIXED,
    TX_OPTION_LATER,
    TX_OPTION_REFUSED
} tx_option_kind;

/* A word of an ENUM, and its constant. */
typedef struct tx__option_word {
    int value;
    const char *word;
} tx__option_word;

typedef struct tx_option {
    tx_option_kind kind;
    unsigned group, kept;
    int n_args;                   /* 0, 1, or -1: a list */
    const char *flag, *field;     /* without dashes; field NULL for rows without a member */
    size_t at, given_at;          /* offset of the member and of its bool in tx_config_given */
    const char *initial;          /* the default as text, NULL: unset */
    double lo, hi;                /* bounds of a number, or of a list's length */
    const char *unit;             /* of a number; for STR and LIST what --help calls the value */
    const char *words;            /* ENUM, FIXED: "a|b|c" */
    const tx__option_word *enums; /* ENUM: the same, NULL at the end */
    const char *text;             /* help, meaning or reason */
} tx_option;

extern const tx_option tx__options[];
extern const size_t tx__n_options;
extern const char *const tx__group_titles[TX_N_OPTION_GROUPS];
extern const tx_command tx__commands[];
extern const size_t tx__n_commands;

/* The i-th alias of any flag; false past the last. */
bool tx__alias(size_t i, const char **spelling, const char **flag);

/* The log message for a flag's spelling in older scripts; NULL: none. */
const char *tx__renamed(const char *spelling);

/* The word of an ENUM that was meant: resolves an alias, else returns what was typed. */
const char *tx__word_of(const tx_option *o, const char *typed);

/* "128" of "128,0" or "(128,0)", in `first`, if that is an option's pair; else what was typed. */
const char *tx__first_of_pair(const tx_option *o, const char *typed, char *first, size_t size);

/* Whether the row stands for all flags with its prefix: "moe-*". */
bool tx__is_family(const tx_option *o);

/* Whether a command accepts an option; *initial (if not NULL) is then set to the option's default for that command. */
bool tx__command_takes(const tx_command *cmd, const tx_option *o, const char **initial);

/* Finds the option that a command (NULL: any) has under this flag or alias of n bytes, without the leading dashes.
 * *spelling (if not NULL) is set to the flag as the table spells it. A flag's own row takes precedence over a
 * family's. NULL: there is none. */
const tx_option *tx__option_find(const tx_command *cmd, const char *flag, size_t n, const char **spelling);

/* The option that a command's first argument sets if it is not a flag; NULL: the command has none. */
const tx_option *tx__option_bare(const tx_command *cmd);

/* Whether the two are equal, '_' and '-' being the same. */
bool tx__flag_equal(const char *table, const char *typed, size_t n);

/* Whether `word` is one of "a|b|c". */
bool tx__word_in(const char *words, const char *word);

/* The value of an ENUM for a word, 0: none; and the word for a value, NULL: unset. */
int tx__enum_of(const tx_option *o, const char *word);
const char *tx__enum_word(const tx_option *o, int value);

/* ---- an option's value inside a config ---- */

static inline bool tx__has_member(const tx_option *o)
{
    return o->kind < TX_OPTION_NOOP;
}

static inline void *tx__member(tx_config *cfg, const tx_option *o)
{
    return (char *)cfg + o->at;
}

static inline const void *tx__member_const(const tx_config *cfg, const tx_option *o)
{
    return (const char *)cfg + o->at;
}

static inline bool *tx__given(tx_config_given *given, const tx_option *o)
{
    return (bool *)((char *)given + o->given_at);
}

static inline bool tx__is_given(const tx_config *cfg, const tx_option *o)
{
    return *(const bool *)((const char *)&cfg->given + o->given_at);
}

/* Whether the option has no default, was not given and was not derived. */
bool tx__is_unset(const tx_config *cfg, const tx_option *o);

/* Copies the value of one option from another config; both have the member. TX_ERR_NOMEM. */
tx_status tx__option_copy(tx_config *to, const tx_config *from, const tx_option *o);

/* Sets one option from its value(s); FLAG kinds take none. On TX_ERR_ARG the last error names the flag, the value and
 * what is allowed, and nothing is stored. */
tx_status tx__option_set(tx_config *cfg, const tx_option *o, int n, const char *const *values);

/* Sets an option to its default, given as text (NULL: unset). */
tx_status tx__option_reset(tx_config *cfg, const tx_option *o, const char *initial);

/* Parses a number as on the command line: digits with single underscores between them, for integers also 2e6. Returns
 * false if the text is not a number. */
bool tx__number_parse(const char *text, double *out);
bool tx__integer_parse(const char *text, int64_t *out);

/* "1 to 64 layers", "at least 0 iterations", "one of a, b" ... : what an option allows. Appends nothing for free text.
 */
tx_status tx__option_allowed(tx_str *out, const tx_option *o);

/* Whether a number lies within the option's bounds. */
bool tx__in_bounds(const tx_option *o, double v);

/* The value as Python prints it: None, True, 1e-05, 1.0, text, ['a', 'b']. */
tx_status tx__option_format(tx_str *out, const tx_config *cfg, const tx_option *o);

/* ---- --rampup-batch-size: rampup.c ---- */

typedef struct tx__ramp {
    int64_t start, increment, samples, global;
    int64_t n_increments; /* 0: constant */
} tx__ramp;

typedef enum tx__ramp_fault {
    TX__RAMP_NONE,
    TX__RAMP_NUMBERS,  /* not three numbers within their bounds */
    TX__RAMP_START,    /* it starts above the global batch size */
    TX__RAMP_INTERVAL, /* the increment does not lead to it */
    TX__RAMP_STEPS     /* too many increments */
} tx__ramp_fault;

tx__ramp_fault tx__ramp_of(const tx_config *c, tx__ramp *r);

/* How many iterations a run of train_samples samples has. Below 1: there are too few samples. */
int64_t tx__ramp_iterations(const tx__ramp *r, int64_t train_samples);

/* ---- violations: one error text reports all of them ---- */

enum { TX__MAX_OTHER = 32 };
typedef struct tx_violations {
    tx_str text;
    int n, n_hidden;   /* hidden: did not fit into the error text, only counted */
    tx_status st;      /* TX_ERR_NOMEM if memory ran out while collecting */
    bool silent;       /* sentences are only counted */
    int n_mendable;    /* violations that advice.c may remedy, ... */
    unsigned remedies; /* ... by these remedies, and the remedies of the first one (rules.h: tx__remedy) */
    unsigned first_remedies;
    uint64_t other[TX__MAX_OTHER]; /* hashes of the other violations' texts; beyond TX__MAX_OTHER they are only
                                    * counted */
    int n_other;
} tx_violations;

void tx__violate(tx_violations *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tx__violate_v(tx_violations *v, unsigned remedies, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
void tx__violate_last_error(tx_violations *v); /* the sentence of the last TX_FAIL */

/* TX_OK if there are no violations; else TX_ERR_ARG with all sentences, one per line. Frees v. */
tx_status tx__violations_close(tx_violations *v);

/* ---- user-defined options: arguments.c ---- */

const tx_argument *tx__argument_find(const tx_argument *own, const char *typed, size_t n); /* own may be NULL */

/* Stores the value of a user-defined flag; `value` is NULL for a flag without a value. */
void tx__argument_set(const tx_argument *a, const char *value, tx_violations *v);

/* Adds violations for invalid rows of the table. */
void tx__arguments_check(const tx_argument *own, const tx_command *cmd, tx_violations *v);

/* "START-END", 1 <= START <= END. */
bool tx__skip_range_parse(const char *text, int64_t *first, int64_t *last);

/* Of --curriculum-difficulty and --curriculum-max-step; 0: it is no whole number from 1 to 1e9. The parameters of
 * schedule_config that a schedule takes, as words with | between them. */
int64_t tx__curriculum_item(const tx_list *l, int i);
const char *tx__curriculum_takes(enum tx_curriculum_kind kind);

/* curriculum.c: of numbers that do not fall, the last iteration with that of `iteration`. INT64_MAX: all later ones. */
int64_t tx__last_alike(int64_t (*at)(const void *of, int64_t iteration), const void *of, int64_t iteration);

/* ---- DeepSpeed's equation of three batch sizes: deepspeed_batch.c ---- */

/* train = micro x accumulation x ranks; 0: not known. */
typedef struct tx__batch_sizes {
    int64_t train, micro, accumulation, ranks;
} tx__batch_sizes;

/* The batch sizes of a DeepSpeed file; the equation has to hold in any layout. */
typedef struct tx__equation {
    bool any;              /* the file has at least one of the numbers */
    tx__batch_sizes given; /* 0: left out; `ranks` does not come from the file */
    int64_t data_parallel; /* 0: left out */
    bool train_typed, micro_typed;
    char where[160], where_ranks[160]; /* "ds.json: line 2, column 2" */
} tx__equation;

/* Fills in the unknown numbers by DeepSpeed's table: with train alone, or micro alone, accumulation is 1. Returns
 * false and fills in nothing if train and micro are both unknown, or there is no solution in whole numbers. */
bool tx__batch_complete(tx__batch_sizes *b);

/* Finds solutions near these numbers, nearest first. A solution is nearer if it changes fewer of the known numbers,
 * then if the changes are smaller by ratio. Returns how many it found, 1 to n_most. */
int tx__batch_nearest(const tx__batch_sizes *b, int n_most, tx__batch_sizes *near);

/* ---- derived values and rules: validate.c ---- */

/* tx_config_complete for options some of which could not be read: those are marked in `bad`, and rules skip them.
 * @equation NULL: there is no DeepSpeed file
 * @advises whether to add advice (advice.c) to the violations */
tx_status tx__config_settle(tx_config *cfg, const tx_config_given *bad, const tx__equation *equation, bool advises,
                            tx_violations *v);

/* Like tx__config_settle, but derives no texts: it allocates nothing, and cfg may borrow its texts. */
void tx__config_settle_numbers(tx_config *cfg, const tx_config_given *bad, const tx__equation *equation,
                               tx_violations *v);

/* docs/options.md, docs/not-built.md and docs/deepspeed-keys.md as text. */
tx_status tx__options_markdown(tx_str *out);
tx_status tx__not_built_markdown(tx_str *out);
tx_status tx__deepspeed_markdown(tx_str *out);

#endif
