/* pp_picture.c - a pipeline's timeline as lines of text. */
#include <math.h>
#include <stdio.h>

#include "parallel/pp_times.h"

static int n_digits(int n)
{
    return snprintf(NULL, 0, "%d", n);
}

static tx_status fill(tx_str *out, const char *with, int n)
{
    for (int i = 0; i < n; i++) TX_TRY(tx_str_puts(out, with));
    return TX_OK;
}

/* What takes several units is drawn out: B3----. */
static tx_status draw_stage(const tx_pp_timeline *t, int at, tx_str *out)
{
    const tx_pp_lane *s = &t->stage[at];
    int column = 2 + n_digits(t->m - 1) + (t->n_chunks > 1 ? 1 + n_digits(t->n_chunks - 1) : 0), now = 0;
    TX_TRY(tx_str_printf(out, "stage %-*d   ", n_digits(t->p - 1), at));
    for (int k = 0; k < s->n; k++) {
        const tx_pp_span *b = &s->span[k];
        int cost = (int)(b->end - b->start);
        for (bool begun = now > 0; now < (int)b->start; now++)
            TX_TRY(tx_str_printf(out, "%-*s", column, begun ? ".." : ""));
        size_t from = out->len;
        TX_TRY(tx_str_printf(out, "%c%d", b->backward ? 'B' : 'F', b->micro));
        if (t->n_chunks > 1) TX_TRY(tx_str_printf(out, ".%d", b->chunk));
        TX_TRY(fill(out, cost > 1 ? "-" : " ", column * cost - 1 - (int)(out->len - from)));
        TX_TRY(tx_str_puts(out, " "));
        now += cost;
    }
    while (out->data[out->len - 1] == ' ') out->data[--out->len] = 0;
    return tx_str_puts(out, "\n");
}

tx_status tx_pp_draw_units(const tx_pp_timeline *t, tx_str *out)
{
    for (int i = 0; i < t->p; i++) TX_TRY(draw_stage(t, i, out));
    return TX_OK;
}
