/* client_optim.c - user-defined optimizers (triax/optimizer.h). */
#include <string.h>

#include "backend/backend.h"
#include "base/args.h"
#include "optim/optim.h"

enum { MAX_STATE = sizeof((tx_client_optimizer *)0)->state_name / sizeof(char *) };

static bool is_word(const char *s)
{
    return s && *s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")];
}

tx_status tx_optim_check_client(const tx_client_optimizer *from)
{
    tx_client_optimizer own, *o = &own;
    if (!from) return TX_OK;
    TX_TRY(TX_ARGS_TAKE(o, from, tx_client_optimizer, user));
    if (!o->name || !*o->name) return TX_FAIL(TX_ERR_ARG, "tx_client_optimizer.name is missing");
    if (!o->step) return TX_FAIL(TX_ERR_ARG, "the optimizer %s has no step", o->name);
    if (o->n_state < 0 || o->n_state > MAX_STATE)
        return TX_FAIL(TX_ERR_ARG, "the optimizer %s: n_state is %d, not 0, 1 or 2", o->name, o->n_state);
    for (int k = 0; k < o->n_state; k++) /* beside the weights, "model.<parameter>" */
        if (!is_word(o->state_name[k]) || !strcmp(o->state_name[k], "model"))
            return TX_FAIL(TX_ERR_ARG,
                           "the optimizer %s: state_name[%d] has to be letters, digits and _, not \"model\"", o->name,
                           k);
    if (o->n_state == 2 && !strcmp(o->state_name[0], o->state_name[1]))
        return TX_FAIL(TX_ERR_ARG, "the optimizer %s: both of its states are called %s", o->name, o->state_name[0]);
    return TX_OK;
}

int tx_optim_n_state(const tx_config *cfg, const tx_client_optimizer *client)
{
    return client ? client->n_state : tx_optim_type_of(cfg->optimizer)->keeps->n;
}

bool tx_optim_has_norms(const tx_config *cfg, const tx_client_optimizer *client)
{
    return !client && tx_optimizer_traits(cfg->optimizer) & TX_OPTIMIZER_NORMS;
}

enum { AT_A_TIME = 4096 }; /* gradients that are not fp32 */

/* Gradients of elements [at, at + n) of a range. */
typedef struct gradients {
    int64_t at, n;
    const float *grad;
    double scale; /* what they are still to be multiplied with */
} gradients;

static tx_status call(const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s, const gradients *g)
{
    int64_t at = g->at;
    tx_optimizer_update u = { .name = r->name,
                              .first = r->first + at,
                              .numel = g->n,
                              .value = r->value + at,
                              .grad = g->grad,
                              .grad_scale = g->scale,
                              .lr = s->lr,
                              .weight_decay = s->weight_decay,
                              .step = s->t };
    for (int k = 0; k < o->type->keeps->n; k++) u.state[k] = r->state[k] + at;
    return o->client->step(o->client->user, &u);
}

/* Rows that pad the vocabulary stay zero: the client does not see them. */
static tx_status call_all(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s,
                          double grad_scale)
{
    float grad[AT_A_TIME];
    if (!r->n_real) return TX_OK;
    if (r->grad.dtype == TX_F32) return call(o, r, s, &(gradients){ 0, r->n_real, r->grad.data, grad_scale });
    for (int64_t at = 0; at < r->n_real; at += AT_A_TIME) {
        int64_t n = r->n_real - at < AT_A_TIME ? r->n_real - at : AT_A_TIME;
        TX_RUN(c, cast, .y = tx_tensor1(grad, TX_F32, n), .x = tx_slice1(r->grad, at, n));
        TX_TRY(call(o, r, s, &(gradients){ at, n, grad, grad_scale }));
    }
    return TX_OK;
}

static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    double grad_scale = 1;
    if (!c->dry && !tx__update_gate(s->gate, &grad_scale)) return TX_OK;
    if (!c->dry) TX_TRY(call_all(c, o, r, s, grad_scale));
    if (r->low.dtype != TX_F32 && r->low.data)
        TX_RUN(c, cast, .y = r->low, .x = tx_tensor1(r->value, TX_F32, r->numel));
    return TX_OK;
}

tx_optim_type tx__optim_of_client(const tx_client_optimizer *o, tx_optim_keeps *keeps)
{
    *keeps = (tx_optim_keeps){ .n = o->n_state };
    for (int k = 0; k < o->n_state; k++) keeps->state[k] = (tx_optimizer_buffer){ o->state_name[k], TX_STATE_OF_ALL };
    return (tx_optim_type){ .keeps = keeps, .step = step };
}
