/* arguments.c - user-defined options, beside those of a command. */
#include <string.h>

#include "config/option_table.h"

const tx_argument *tx__argument_find(const tx_argument *own, const char *typed, size_t n)
{
    for (; own && own->flag; own++)
        if (tx__flag_equal(own->flag, typed, n)) return own;
    return NULL;
}

void tx__argument_set(const tx_argument *a, const char *value, tx_violations *v)
{
    switch (a->kind) {
    case TX_ARGUMENT_FLAG:
        *(bool *)a->value = true;
        return;
    case TX_ARGUMENT_INT:
        if (!tx__integer_parse(value, a->value)) tx__violate(v, "--%s %.60s is not an integer", a->flag, value);
        return;
    case TX_ARGUMENT_FLOAT:
        if (!tx__number_parse(value, a->value)) tx__violate(v, "--%s %.60s is not a number", a->flag, value);
        return;
    case TX_ARGUMENT_TEXT:
        *(const char **)a->value = value;
        return;
    }
}

void tx__arguments_check(const tx_argument *own, const tx_command *cmd, tx_violations *v)
{
    for (const tx_argument *a = own; a && a->flag; a++) {
        size_t n = strlen(a->flag);
        if (!n || a->flag[0] == '-' || strcspn(a->flag, "= ") != n)
            tx__violate(v, "the client's option \"%.60s\": a name without dashes in front, '=' and blanks", a->flag);
        if ((unsigned)a->kind > TX_ARGUMENT_TEXT || !a->value)
            tx__violate(v, "the client's option --%.60s has no value to write to, or is of no kind", a->flag);
        if (tx__option_find(cmd, a->flag, n, NULL))
            tx__violate(v, "the client's option --%.60s is one of %s's", a->flag, cmd->name);
        if (tx__argument_find(own, a->flag, n) != a) tx__violate(v, "the client has two options --%.60s", a->flag);
    }
}
