/* worded_run.h - a run of a layout case given in words, with more flags than it has. */
#ifndef TX_TESTS_PARALLEL_WORDED_RUN_H
#define TX_TESTS_PARALLEL_WORDED_RUN_H

#include "layout_cases.h"
#include "layout_run.h"

/* @ref gets the one rank's run of the same flags; NULL: none is wanted   @edit changes what both have; NULL: nothing */
static inline tx_status run_words(layout_run *r, const reference **ref, const char *words, const char *more,
                                  void (*edit)(char *flags, size_t cap), int64_t until)
{
    char what[3584], both[8000], how[512];
    layout_case c = case_of(words);
    sizes l = sizes_of(&c);
    what_flags(what, sizeof what, &c);
    if (edit) edit(what, sizeof what);
    how_flags(how, sizeof how, &c);
    snprintf(what + strlen(what), sizeof what - strlen(what), "%s", more);
    r->vocab = vocab_of(&c);
    r->n_ranks = n_ranks_of(&c);
    r->tp = l.tp;
    r->pp = l.pp;
    r->until = until;
    if (ref) {
        TX_TRY(reference_of(ref, what, r->vocab));
        r->ref = *ref;
    }
    snprintf(both, sizeof both, "%s %s", what, how);
    return run_layout(r, both);
}

#endif
