/* blend_phase.h - changing a blend in mid-run (--data-order keyed): no sample comes twice and none is left out.
 *
 *      run        0 ............... 5000 ............... 9000 ......
 *      blend      0.3 a  0.7 b      0.5 a  0.4 b  0.1 c   1.0 b
 *      begins at  a 0, b 0          a 1500, b 3500, c 0   b 5100
 *
 *  A phase is a stretch of the run with one blend: it holds at which sample of the run it begins and at which sample of
 *  each dataset. Checkpoints carry the phase they were written in. A run that continues with the same blend continues
 * in that phase; with another blend (weights, datasets, their order) it begins a new one where the checkpoint's ends,
 * with every dataset where it was left. A dataset is known again by tx_samples.id, not by its path; one that is not
 * in the new blend keeps its place in case it comes back. A change of seed, sequence length or documents makes it
 * another dataset, which begins at its first sample, with a warning.
 *
 *      {"from": 5000, "datasets": [{"id": "<16 hex digits>", "weight": 0.5, "sample": 1500}, ...]} */
#ifndef TX_DATA_BLEND_PHASE_H
#define TX_DATA_BLEND_PHASE_H

#include <jansson.h>

#include "data/blend.h"

/* Sets where the blend (keyed) begins, from the phase that a checkpoint of `consumed` samples was saved in (NULL: none,
 * it begins at 0). *out is the phase to save from now on; json_decref. Logs a change. Errors: TX_ERR_FORMAT for what
 * is no phase, TX_ERR_NOMEM. */
tx_status tx_blend_phase(tx_blend *b, const json_t *saved, int64_t consumed, json_t **out);

#endif
