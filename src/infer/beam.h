/* beam.h - beam search: the likeliest continuations by the sum of their log-probabilities.
 * Rules of Megatron's server (megatron/text_generation/generation.py, beam_search_and_return_on_first_stage):
 *   - of each step's 2 × width likeliest continuations, those that stop end a hypothesis if they are among the first
 *     width; the width likeliest others are continued
 *   - hypotheses that end are scored  sum / length^length_penalty,  `stop` counted in both
 *   - a search ends when `width` hypotheses have ended and the likeliest continuation is no better than the worst of
 *     them. It also ends at max_new: then the hypotheses that have not ended are scored with the others. */
#ifndef TX_INFER_BEAM_H
#define TX_INFER_BEAM_H

#include "infer/decoder.h"

typedef struct tx_beam_opts {
    int width; /* also how many are returned; at most half of the decoder's slots */
    int64_t max_new;
    int32_t stop; /* ends a hypothesis; -1: none */
    double length_penalty;
    bool prevent; /* `then` never comes right after `after` */
    int32_t after, then;
    bool (*cancelled)(void *user); /* asked before each step after the prompt's; true ends the search. NULL: never */
    void *user;
} tx_beam_opts;

typedef struct tx_hypothesis {
    int32_t *token; /* new ones, `stop` not among them; owned */
    int64_t n;
    double score;
    bool stopped; /* by `stop`, not by max_new */
} tx_hypothesis;

/* @out [width], best first; freed by tx_hypotheses_free. All are zeros after a search that was cancelled, which is no
 * error. The decoder's slots are empty before and afterwards.
 * TX_ERR_ARG: fewer tokens or slots than 2 × width, nothing to make, too many tokens for a slot. */
tx_status tx_beam_search(tx_decoder *d, const int32_t *prompt, int64_t n_prompt, const tx_beam_opts *o,
                         tx_hypothesis *out);
void tx_hypotheses_free(tx_hypothesis *h, int n);

#endif
