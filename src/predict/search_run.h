/* search_run.h - a search in progress, for the files of the search alone. */
#ifndef TX_PREDICT_SEARCH_RUN_H
#define TX_PREDICT_SEARCH_RUN_H

#include "predict/search.h"

typedef struct tx__search {
    const tx_search_args *args;
    tx_config base;
    tx_layout_bounds bounds;
    int most;           /* layouts that are wanted, up to TX_SEARCH_BEST */
    double within;      /* seconds that an iteration may take; infinity: any */
    double start, told; /* tx_clock */
} tx__search;

typedef enum tx__outcome { TX__REFUSED, TX__TOO_LARGE, TX__TIMED } tx__outcome;

/* A layout that is planned. */
typedef struct tx__trial {
    tx_found_layout found;
    tx__outcome outcome;
    tx_status status;
    char error[512];
} tx__trial;

/* A layout of the list, with its bound. */
typedef struct tx__bounded {
    int64_t i;
    double seconds;
} tx__bounded;

void tx__search_open(tx__search *s, const tx_search_args *a);
void tx__search_close(tx__search *s);

/* tx_search_layouts, of which `most` are wanted, none slower than `within`; small runs are kept for the next call. */
tx_status tx__search_on(tx__search *s, tx_search_result *out, int64_t ranks);

#endif
