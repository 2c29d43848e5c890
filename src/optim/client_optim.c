/* client_optim.c - an optimizer of a client's own (triax/optimizer.h). */
#include <string.h>

#include "backend/backend.h"
#include "base/args.h"
#include "optim/optim.h"

/* The client sees real elements alone; what pads the vocabulary stays 0. */
static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    const tx_client_optimizer *client = &o->type->client;
    tx_optimizer_update u = { .name = r->name,
                              .first = r->first,
                              .numel = r->n_real,
                              .value = r->value,
                              .grad = r->grad,
                              .state = { r->state[0], r->state[1] },
                              .grad_scale = 1,
                              .lr = s->lr,
                              .weight_decay = s->weight_decay,
                              .step = s->t };
    if (c->device)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "--device gpu: the optimizer %s computes on the host alone", client->name);
    if (c->dry || !r->n_real || !tx__update_gate(s->gate, &u.grad_scale)) return TX_OK;
    TX_TRY(client->step(client->user, &u));
    if (r->low.data)
        TX_RUN(c, cast, .y = tx_slice1(r->low, 0, r->n_real), .x = tx_tensor1(r->value, TX_F32, r->n_real));
    return TX_OK;
}

tx_status tx_optim_type_of_client(tx_optim_type *out, const tx_client_optimizer *from)
{
    tx_client_optimizer own;
    TX_TRY(TX_ARGS_TAKE(&own, from, tx_client_optimizer, user));
    const tx_client_optimizer *client = &own;
    if (!client->name || !*client->name || !client->step)
        return TX_FAIL(TX_ERR_ARG, "an optimizer needs a name and a step");
    if (client->n_state < 0 || client->n_state > TX_OPTIM_MAX_STATE)
        return TX_FAIL(TX_ERR_ARG, "the optimizer %s has %d numbers of state: 0 to %d are possible", client->name,
                       client->n_state, TX_OPTIM_MAX_STATE);
    *out = (tx_optim_type){ .name = client->name, .n_state = client->n_state, .step = step, .client = *client };
    for (int i = 0; i < client->n_state; i++) {
        const char *name = client->state_name[i];
        if (!name || !*name || strpbrk(name, "/.") || (i && !strcmp(name, client->state_name[0])))
            return TX_FAIL(TX_ERR_ARG, "the optimizer %s: state %d needs a name of its own", client->name, i);
        out->state_name[i] = name;
    }
    return TX_OK;
}
