/* deepspeed_optimizers.c - the rows of kinds/optimizers.h by DeepSpeed's names. */
#include "config/deepspeed_optimizers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/option_table.h"

#define OF_ALL "lr|weight_decay|max_grad_norm"

static const tx__ds_optimizer optimizers[] = {
#define ROW(constant, word, type, name, other, params, ...) { constant, word, name, other, params },
    TX_OPTIMIZERS(ROW)
#undef ROW
};
enum { N_OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

const tx__ds_optimizer *tx__ds_optimizer_of(const char *name)
{
    for (int i = 0; i < N_OPTIMIZERS; i++)
        if ((optimizers[i].name && !strcasecmp(name, optimizers[i].name)) ||
            (optimizers[i].other && !strcasecmp(name, optimizers[i].other)))
            return &optimizers[i];
    return NULL;
}

const char *tx__ds_optimizer_list(char *buf, size_t cap)
{
    size_t n = 0;
    for (int i = 0; i < N_OPTIMIZERS && n < cap; i++) {
        if (!optimizers[i].name) continue; /* not a type of DeepSpeed's with the same rule */
        const char *other = optimizers[i].other, *before = i == 0 ? "" : i == N_OPTIMIZERS - 1 ? " and " : ", ";
        n += (size_t)snprintf(buf + n, cap - n, "%s%s%s%s%s", before, optimizers[i].name, other ? " (also " : "",
                              other ? other : "", other ? ")" : "");
    }
    return buf;
}

bool tx__ds_optimizer_takes(const tx__ds_optimizer *o, const char *param, char takes[256])
{
    if (tx__word_in(OF_ALL, param) || tx__word_in(o->params, param)) return true;
    snprintf(takes, 256, OF_ALL "|%s", o->params);
    for (char *at = takes; (at = strchr(at, '|'));) *at = ' ';
    return false;
}
