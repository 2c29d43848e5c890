/* fit.h - --memory-limit: whether a planned run fits, and which changes of its options make it fit. */
#ifndef TX_TRAIN_FIT_H
#define TX_TRAIN_FIT_H

#include "train/plan.h"

typedef struct tx_memory_limit {
    size_t bytes;      /* 0: there is none */
    const char *whose; /* words for it, as in "and this machine has 15.5 GiB"; static */
    size_t taken;      /* of these; by the program before the run takes any */
} tx_memory_limit;

/* What --memory-limit says of what tx_memory_limited counts; "auto" asks the system, or the GPU that the plan is for.
 */
tx_memory_limit tx_memory_limit_of(const tx_config *cfg, const tx_memory *planned);

/* A change of options: what the run takes with it, and what it costs. */
typedef struct tx_change {
    char flags[256]; /* to put behind the run's */
    tx_memory memory;
    double extra_compute; /* part of an iteration's FLOPs, 0 or more */
    double messages;      /* bytes that a rank sends then, for 1 as it is; 1 where it sends nothing */
    bool disk;            /* some of it is read and written in every iteration */
} tx_change;

enum { TX_MAX_CHANGES = 3 };

typedef struct tx_fit {
    tx_change change[TX_MAX_CHANGES]; /* that fit, cheapest first */
    int n;
    bool untried;    /* no change was */
    tx_change least; /* of all that were tried the one that takes least; "" where every change takes more */
} tx_fit;

/* Tries changes by planning them. The options must be complete, `plan` theirs. */
tx_status tx_fit_find(tx_fit *out, const tx_config *cfg, int64_t vocab_size, const tx_run_plan *plan, size_t limit);

/* TX_OK within --memory-limit; else TX_ERR_NOMEM with a message of several lines: what the run would take, the limit,
 * the changes. Warns when it fits, but not into the memory that is free now.
 * can_plan false: no changes are looked for, because the options alone do not say what the model is */
tx_status tx_fit_check(const tx_config *cfg, int64_t vocab_size, bool can_plan, const tx_memory *planned);

/* That message, of changes that are found already. */
tx_status tx_fit_refuse(const tx_fit *f, const tx_memory *planned, tx_memory_limit limit);

/* "no extra compute", "about 33 % more compute, 1.5 times the messages". */
const char *tx_change_cost_text(char buf[96], const tx_change *c);

#endif
