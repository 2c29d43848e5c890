/* native_sink.c - a checkpoint of triax, written by one rank from whatever a source has. */
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "convert/sink.h"

/* A tx_ckpt_move: the window of a parameter that is asked for next. */
static tx_status move(void *user, const tx_ckpt_window *w, bool store)
{
    tx_conversion *c = user;
    const float *whole;
    TX_ASSERT(!store);
    TX_TRY(tx_conversion_fetch(c, w->part, w->fragment->row, &whole));
    tx_param_cut_range(&c->m->params.param[w->fragment->row], w->buf, whole, w->first, w->n);
    return TX_OK;
}

/* The options as a run of the source's would keep them. */
static tx_status config_of(const tx_conversion *c, json_t **out)
{
    json_t *config;
    TX_TRY(tx_config_to_json(c->cfg, &config));
    bool bad = json_object_update(config, (json_t *)c->options) ||
               (c->src->run && !c->src->native && json_object_update(config, c->src->run));
    if (c->cfg->megatron_padded_logits)
        bad = bad || json_object_set_new(config, "pad_vocab_size_to", json_integer(c->m->n_valid));
    bad = bad || json_object_set_new(config, "megatron_padded_logits", json_boolean(c->cfg->megatron_padded_logits));
    if (bad) {
        json_decref(config);
        return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the options of a checkpoint");
    }
    *out = config;
    return TX_OK;
}

static tx_status write(tx_conversion *c)
{
    tx_ckpt_part part[TX_CKPT_MAX_PARTS];
    tx_ckpt_state state = c->src->state;
    json_t *config;
    int n = c->with_optim ? c->src->n_parts : 1;
    for (int i = 0; i < n; i++) part[i] = (tx_ckpt_part){ .name = c->src->part[i], .move = move, .user = c };
    if (!c->src->type->resumes) state.vocab_size = c->m->vocab_size;
    state.tokenizer = c->tokenizer;
    if (!state.seed) state.seed = (uint64_t)c->cfg->seed;
    TX_TRY(config_of(c, &config));
    tx_status st = tx_checkpoint_save(&(tx_ckpt_save_args){ .dir = c->out,
                                                            .state = &state,
                                                            .config = config,
                                                            .ps = &c->m->params,
                                                            .part = part,
                                                            .n_parts = n,
                                                            .group = &tx_comm_self });
    json_decref(config);
    return st;
}

static unsigned change(const tx_conversion *c, const tx_param *p)
{
    (void)c;
    return p->whole_logical < p->whole[0] ? TX_CHANGE_CUT : TX_CHANGE_NONE;
}

const tx_sink_type tx_sink_native = { .format = TX_FORMAT_NATIVE, .has_optim = true, .write = write, .change = change };
