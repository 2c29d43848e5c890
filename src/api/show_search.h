/* show_search.h - the answer of a job plan with --search or --gpus-for: the fastest layouts, in place of the run's own.
 */
#ifndef TX_API_SHOW_SEARCH_H
#define TX_API_SHOW_SEARCH_H

#include "api/report.h"
#include "predict/search.h"

typedef struct tx__layout_job {
    const tx_config *cfg;
    int64_t vocab_size;
    const tx_machine *machine;
    double tokens; /* of the whole run; 0: its length is not given */
} tx__layout_job;

/* Searches, and reports text or with --json one object. TX_ERR_ARG: no layout is for so many ranks, none fits, or no
 * number of ranks is enough; the message names the nearest. */
tx_status tx__show_search(tx__report *r, const tx__layout_job *job);

#endif
