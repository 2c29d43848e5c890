/* fit.h - --memory-limit: whether a planned run fits, and which changes of its options make it fit.
 *
 *  What is tried, all of it with all of it, as far as the rules and the backend take it:
 *
 *      layouts            every tensor- and pipeline-parallel size whose product divides the ranks
 *      micro-batch        what divides the run's
 *      precision          --bf16 for fp32
 *      gradients          --grad-dtype bf16 or fp16 for fp32, where values are
 *      recomputation      --recompute-activations, every second layer of a run of them (block), every layer (uniform)
 *      its inputs         --partition-activations
 *      between layers     --sequence-parallel
 *      ZeRO               higher stages
 *      offload            optimizer and parameters to the host, where there is a GPU, or to a disk
 *      ranks              2, 4 and TX_FIT_MOST_RANKS times as many
 *
 *  Everything else stays the same: the model, the global batch, and so the run. */
#ifndef TX_TRAIN_FIT_H
#define TX_TRAIN_FIT_H

#include "train/plan.h"

typedef struct tx_memory_limit {
    size_t bytes;    /* 0: there is none */
    char whose[192]; /* words for it, as in "and this machine has 15.5 GiB" */
    size_t taken;    /* of these; by the program before the run takes any */
} tx_memory_limit;

/* The limit by --memory-limit, of what tx_memory_limited counts; "auto" and shares ask the system, or the GPU that the
 * plan is for. */
tx_memory_limit tx_memory_limit_of(const tx_config *cfg, const tx_memory *planned);

/* Whether it is of what is there, all or a share of it, and no size. */
bool tx_memory_limit_is_of_machine(const tx_config *cfg);

/* A change of options: what the run takes with it, and what it costs. */
enum { TX_FIT_FLAGS = 512 };
typedef struct tx_change {
    char flags[TX_FIT_FLAGS]; /* to add after the run's */
    const char *without;      /* the run's flags that are to be left out, or ""; static */
    int64_t ranks;            /* on which it is run */
    tx_memory memory;
    double extra_compute; /* part of an iteration's FLOPs, 0 or more */
    double messages;      /* bytes that a rank sends then, for 1 as it is; 1 where it sends nothing */
    bool disk;            /* some of it is read and written in every iteration */
} tx_change;

enum { TX_MAX_CHANGES = 3, TX_FIT_MOST_RANKS = 8 };

typedef struct tx_fit {
    tx_change change[TX_MAX_CHANGES]; /* that fit on the run's ranks, cheapest first */
    int n;
    bool untried;    /* no change was */
    bool has_file;   /* --deepspeed_config is given, which may set some of the flags */
    tx_change least; /* where n is 0, of all changes on the run's ranks the one that takes least; "": the run itself */
    int times;       /* how many times the run's ranks were tried, 1: no more than these */
    tx_change more; /* on as few more ranks as it fits on; ranks 0: it does not fit on any that were tried, or only with
                     * what is enough on the run's */
} tx_fit;

/* Tries changes by planning them; what is said is planned as a whole. The options must be complete, `plan` theirs.
 * Where n is 0, nothing in the space above fits on the run's ranks, and where `more` has none, on no more of them. */
tx_status tx_fit_find(tx_fit *out, const tx_config *cfg, int64_t vocab_size, const tx_run_plan *plan, size_t limit);

/* TX_OK within --memory-limit; else TX_ERR_NOMEM with a message of several lines: what the run would take, the limit,
 * the changes. Warns when it fits, but not into the memory that is free now.
 * can_plan false: no changes are looked for, because the model does not follow from the options alone */
tx_status tx_fit_check(const tx_config *cfg, int64_t vocab_size, bool can_plan, const tx_memory *planned);

/* The same message, of changes that have been found already. */
tx_status tx_fit_refuse(const tx_fit *f, const tx_memory *planned, tx_memory_limit limit);

/* "no extra compute", "about 33 % more compute, 1.5 times the messages". */
const char *tx_change_cost_text(char buf[96], const tx_change *c);

#endif
