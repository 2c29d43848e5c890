/* fit.h - --memory-limit: whether a planned run fits, and which changes of its options make it fit.
 *
 *  All combinations of these changes are tried, as far as the rules and the backend allow them:
 *
 *      layouts            all tensor- and pipeline-parallel sizes whose product divides the number of ranks, and with
 *                         them as many context ranks, or more, that are left with 2048 positions each
 *      micro-batch        divisors of the run's
 *      precision          --bf16 for fp32
 *      gradients          --grad-dtype bf16 or fp16 for fp32, if the values have that dtype
 *      recomputation      --recompute-activations, every second layer of a run of them (block), every layer (uniform)
 *      chunks             --ds-sequence-parallel-fpdt of long samples, also with offloading, without a GPU to a disk
 *      its inputs         --partition-activations
 *      between layers     --sequence-parallel
 *      ZeRO               higher stages
 *      offload            optimizer and parameters to host memory, if there is a GPU, or to a disk
 *      ranks              2, 4 and TX_FIT_MOST_RANKS times as many
 *
 *  Everything else stays the same: the model, the global batch, and so the run. */
#ifndef TX_TRAIN_FIT_H
#define TX_TRAIN_FIT_H

#include "train/plan.h"

typedef struct tx_memory_limit {
    size_t bytes;    /* 0: there is none */
    char whose[192]; /* its description, as in "and this machine has 15.5 GiB" */
    size_t taken;    /* of these: what the program uses before the run allocates anything */
} tx_memory_limit;

/* All the memory there is for what tx_memory_limited counts: the system's, or the GPU's that the plan is for. *whose is
 * set to its description. */
size_t tx_memory_here(const tx_memory *planned, const char **whose);

/* The limit by --memory-limit, where "auto" is `all` and shares are of it. */
tx_memory_limit tx_memory_limit_of(const tx_config *cfg, size_t all, const char *whose);

/* Whether --memory-limit is relative to the machine's memory (all or a fraction of it), not a size. */
bool tx_memory_limit_is_of_machine(const tx_config *cfg);

/* A change of options, what the run then needs, and what the change costs. */
enum { TX_FIT_FLAGS = 512 };
typedef struct tx_change {
    char flags[TX_FIT_FLAGS]; /* to add after the run's */
    const char *without;      /* the run's flags that are to be left out, or ""; static */
    int64_t ranks;            /* on which it is run */
    tx_memory memory;
    double extra_compute; /* as a fraction of an iteration's FLOPs, 0 or more */
    double messages;      /* bytes that a rank sends, relative to the unchanged run; 1 if it sends nothing */
    bool disk;            /* a disk is read and written in every iteration */
} tx_change;

enum { TX_MAX_CHANGES = 3, TX_FIT_MOST_RANKS = 8 };

typedef struct tx_fit {
    tx_change change[TX_MAX_CHANGES]; /* changes that fit on the run's ranks, cheapest first */
    int n;
    bool untried;    /* no change was tried */
    bool has_file;   /* --deepspeed_config is given, which may set some of the flags */
    tx_change least; /* if n is 0: the change on the run's ranks that needs the least memory; "": the run itself */
    int times;       /* up to how many times the run's ranks were tried; 1: only those */
    tx_change more;  /* on the fewest additional ranks on which it fits. ranks 0: it fits on none that were tried, or
                      * only with a change that is enough on the run's own ranks */
} tx_fit;

/* Tries changes by planning the run with them; each reported change has been planned as a whole. The options must be
 * complete, and `plan` must be theirs. If n is 0, no combination of the changes above fits on the run's ranks; if
 * `more` is empty, none fits on more ranks. */
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
