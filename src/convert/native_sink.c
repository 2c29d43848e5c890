/* native_sink.c - a checkpoint of triax, written by one rank from whatever a source has. */
#include <string.h>

#include "base/alloc.h"
#include "checkpoint/checkpoint.h"
#include "convert/sink.h"
#include "optim/optim.h"

/* The tensors of a part of a native checkpoint, which may have some only, in shapes of their own. */
typedef struct own_tensors {
    tx_conversion *c;
    tx_params rows;    /* owned */
    tx_fragments kept; /* owned */
    int *of;           /* owned; the parameter that each belongs to */
} own_tensors;

/* A tx_ckpt_move of those. */
static tx_status move_own(void *user, const tx_ckpt_window *w, bool store)
{
    const own_tensors *o = user;
    const float *whole;
    int i = w->fragment->row;
    TX_ASSERT(!store);
    TX_TRY(tx_conversion_fetch_tensor(o->c, w->part, o->of[i], &o->rows.param[i], &whole));
    memcpy(w->buf, whole + w->first, (size_t)w->n * sizeof *w->buf);
    return TX_OK;
}

static tx_status list_own(own_tensors *o, tx_conversion *c, int number, tx_ckpt_part *part)
{
    static const char what[] = "names of tensors";
    const tx_params *ps = &c->m->params;
    o->c = c;
    TX_TRY(tx_alloc(&o->rows.param, (size_t)ps->n + 1, sizeof *o->rows.param, what));
    TX_TRY(tx_alloc(&o->kept.fragment, (size_t)ps->n + 1, sizeof *o->kept.fragment, what));
    TX_TRY(tx_alloc(&o->of, (size_t)ps->n + 1, sizeof *o->of, what));
    for (int row = 0; row < ps->n; row++) {
        tx_param *p = &o->rows.param[o->rows.n];
        if (!tx_source_tensor(c->src, number, &ps->param[row], p)) continue;
        o->kept.fragment[o->kept.n++] = (tx_fragment){ .row = o->rows.n, .numel = p->numel };
        o->of[o->rows.n++] = row;
    }
    part->rows = &o->rows;
    part->kept = &o->kept;
    part->move = move_own;
    part->user = o;
    return TX_OK;
}

/* Whether a part of another format's has a number of each tensor. */
static bool has_numbers(const tx_conversion *c, int part)
{
    const tx_optim_type *o = tx_optim_type_of(c->src->optimizer);
    return o && o->keeps->state[part - 1].of == TX_STATE_OF_TENSORS;
}

static void free_own(own_tensors *o)
{
    tx_params_deinit(&o->rows);
    tx_free(o->kept.fragment);
    tx_free(o->of);
}

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
    own_tensors own[TX_CKPT_MAX_PARTS] = { { .c = NULL } };
    tx_ckpt_state state = c->src->state;
    json_t *config;
    int n = c->with_optim ? c->src->n_parts : 1;
    for (int i = 0; i < n; i++) part[i] = (tx_ckpt_part){ .name = c->src->part[i], .move = move, .user = c };
    if (!c->src->type->resumes || !state.vocab_size) state.vocab_size = c->m->vocab_size;
    state.tokenizer = c->tokenizer;
    if (!state.seed) state.seed = (uint64_t)c->cfg->seed;
    TX_TRY(config_of(c, &config));
    tx_status st = TX_OK;
    for (int i = 1; i < n && !st; i++)
        if (c->src->native || has_numbers(c, i)) st = list_own(&own[i], c, i, &part[i]);
    if (!st)
        st = tx_checkpoint_save(&(tx_ckpt_save_args){ .dir = c->out,
                                                      .state = &state,
                                                      .config = config,
                                                      .ps = &c->m->params,
                                                      .part = part,
                                                      .n_parts = n,
                                                      .group = &tx_comm_self });
    for (int i = 1; i < n; i++) free_own(&own[i]);
    json_decref(config);
    return st;
}

static unsigned change(const tx_conversion *c, const tx_param *p)
{
    (void)c;
    return p->whole_logical < p->whole[0] ? TX_CHANGE_CUT : TX_CHANGE_NONE;
}

const tx_sink_type tx_sink_native = { .format = TX_FORMAT_NATIVE, .has_optim = true, .write = write, .change = change };
