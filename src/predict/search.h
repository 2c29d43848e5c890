/* search.h - the fastest layouts of a run on a machine.
 *
 *  Every layout there is (layout_choice.h) gets a bound (layout_bound.h). In the order of their bounds layouts are
 *  then planned whole and timed, as many at once as there are threads, until no bound of the rest is below the time of
 *  the last one that is wanted. So what is found is what timing all of them would find, as far as the bounds hold.
 *  A layout fits if the plans of its stages do (train/plan.h): not a byte of it is estimated. */
#ifndef TX_PREDICT_SEARCH_H
#define TX_PREDICT_SEARCH_H

#include "predict/layout_bound.h"

typedef struct tx_search_args {
    const tx_config *cfg; /* complete; its own layout does not count */
    int64_t vocab_size;
    const tx_machine *machine;
    size_t room;            /* bytes of a rank's memory that a run can have */
    bool gpu;               /* what is on the host is no part of that */
    tx_predict_fn *predict; /* NULL: tx_predict; for tests: another one */
    int n_threads;
} tx_search_args;

/* A layout that was timed. */
typedef struct tx_found_layout {
    tx_layout_choice is;
    tx_time time;
    tx_memory memory; /* of the rank that takes the most */
    double flops_2021;
} tx_found_layout;

enum { TX_SEARCH_BEST = 10 };
typedef struct tx_search_result {
    int64_t ranks;
    tx_found_layout best[TX_SEARCH_BEST]; /* the fastest first */
    int n;
    tx_found_layout other_way; /* the fastest with the other --cp-comm-type of the two; ranks 0: it has none, or that
                                * does not go or not fit */
    tx_found_layout least; /* where n is 0: of those that were planned the one that takes the least; ranks 0: none */
    bool offload;          /* without offload none fits */
    int64_t n_layouts, n_planned;
} tx_search_result;

/* The best layouts on so many ranks. n is 0 where none fits. */
tx_status tx_search_layouts(tx_search_result *out, const tx_search_args *a, int64_t ranks);

/* The fewest ranks, whole nodes of the machine, on which an iteration takes at most `seconds`, and the best layouts
 * there. Of more than 64 nodes the number is found to a 64th of it. Where no number of nodes is enough, the fastest
 * that was found; *enough says so. */
tx_status tx_search_ranks(tx_search_result *out, bool *enough, const tx_search_args *a, double seconds);

/* "1.42 s less waiting for other stages": the part of an iteration in which a differs most from b. */
const char *tx_search_reason(char buf[96], const tx_time *a, const tx_time *b);

#endif
