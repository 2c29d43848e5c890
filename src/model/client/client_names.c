/* client_names.c - the parameters of a user-defined model by their full names. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/client/client_model.h"

static bool is_called(const tx_client_names *names, int i, const char *full)
{
    const tx_layer *l = &names->model->layer[names->at[i].layer];
    size_t n = strlen(l->name);
    return !strncmp(full, l->name, n) && full[n] == '.' && !strcmp(full + n + 1, l->param[names->at[i].param].name);
}

int tx_client_names_find(const tx_client_names *names, const char *full)
{
    size_t at = 0, i;
    while (tx_hash_next(&names->by_name, tx_hash(full, strlen(full), 0), &at, &i))
        if (is_called(names, (int)i, full)) return (int)i;
    return -1;
}

tx_status tx_client_names_add(tx_client_names *names, int layer, int param)
{
    const tx_layer *l = &names->model->layer[layer];
    char full[TX_PARAM_NAME_MAX];
    snprintf(full, sizeof full, "%s.%s", l->name, l->param[param].name);
    int other = tx_client_names_find(names, full);
    if (other >= 0 && names->at[other].layer == layer)
        return TX_FAIL(TX_ERR_ARG, "layer %s has two parameters %s", l->name, l->param[param].name);
    if (other >= 0)
        return TX_FAIL(TX_ERR_ARG, "parameters of the layers %s and %s are both called %s",
                       names->model->layer[names->at[other].layer].name, l->name, full);
    if (names->n == names->cap) {
        int cap = 2 * names->cap + 64;
        TX_TRY(tx_realloc(&names->at, (size_t)cap, sizeof *names->at, "the model's parameters"));
        names->cap = cap;
    }
    TX_TRY(tx_hash_add(&names->by_name, tx_hash(full, strlen(full), 0), (size_t)names->n));
    names->at[names->n++] = (tx_client_place){ layer, param };
    return TX_OK;
}

void tx_client_names_free(tx_client_names *names)
{
    tx_free(names->at);
    tx_hash_free(&names->by_name);
    *names = (tx_client_names){ 0 };
}
