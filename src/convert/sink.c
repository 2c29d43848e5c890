/* sink.c - the formats that can be written, and the parameters on their way. */
#include "convert/sink.h"

#include <inttypes.h>

#include "base/alloc.h"

#define TYPE_OF(constant, word, kind, what, sign, source, sink) [constant] = &sink,
static const tx_sink_type *const types[] = { TX_FORMATS(TYPE_OF) };

const tx_sink_type *tx_sink_type_of(enum tx_checkpoint_format format)
{
    return types[format];
}

tx_status tx_conversion_check(const tx_conversion *c)
{
    const tx_model *m = c->m;
    if (m->n_layers % c->n_pp)
        return TX_FAIL(TX_ERR_SHAPE,
                       "%" PRId64 " layers cannot be divided into %d pipeline stages; choose a --target-pp that "
                       "divides them",
                       m->n_layers, c->n_pp);
    bool divides = m->n_heads % c->n_tp == 0 && m->n_groups % c->n_tp == 0;
    for (int i = 0; i < m->params.n && divides; i++) divides = tx_param_divides(&m->params.param[i], c->n_tp);
    if (divides) return TX_OK;
    return TX_FAIL(TX_ERR_SHAPE,
                   "--target-tp %d does not divide %" PRId64 " heads in %" PRId64
                   " groups of keys and values, or %" PRId64 " rows of the vocabulary; choose a smaller one",
                   c->n_tp, m->n_heads, m->n_groups, m->vocab_padded);
}

tx_status tx_conversion_fetch(tx_conversion *c, int part, int row, const float **whole)
{
    return tx_conversion_fetch_tensor(c, part, row, &c->m->params.param[row], whole);
}

tx_status tx_conversion_fetch_tensor(tx_conversion *c, int part, int row, const tx_param *tensor, const float **whole)
{
    const tx_params *ps = &c->m->params;
    if (!c->whole) {
        TX_TRY(tx_alloc(&c->whole, (size_t)tx_params_largest_whole(ps), sizeof *c->whole, "a tensor"));
        c->row = -1;
    }
    if (c->part != part || c->row != row) {
        c->row = -1;
        TX_TRY(tx_source_read_whole(c->src, c->m, part, tensor, c->whole));
        c->part = part;
        c->row = row;
    }
    *whole = c->whole;
    return TX_OK;
}
