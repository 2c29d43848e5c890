/* flags.c - the options that were given, as the command line that gives them again. */
#include <string.h>

#include "config/option_table.h"

static bool is_left_out(const char *field, const char *const *without)
{
    while (*without && strcmp(*without, field)) without++;
    return *without != NULL;
}

/* Takes the string, which is NULL when there was no memory. */
static tx_status append(json_t *all, json_t *text)
{
    return json_array_append_new(all, text) ? TX_FAIL(TX_ERR_NOMEM, "not enough memory for the flags of a run") : TX_OK;
}

static tx_status append_text(json_t *all, const tx_option *o, const char *text)
{
    json_t *string = json_string(text);
    if (!string && text) return TX_FAIL(TX_ERR_ARG, "--%s is not UTF-8 and cannot be kept in a file", o->flag);
    return append(all, string);
}

/* "--flag=value": a value may begin like a flag. */
static tx_status append_pair(json_t *all, const tx_option *o, const char *value)
{
    tx_str text = { 0 };
    tx_status st = tx_str_printf(&text, "--%s=%s", o->flag, value);
    if (!st) st = append_text(all, o, text.data);
    tx_str_free(&text);
    return st;
}

static tx_status append_option(json_t *all, const tx_config *cfg, const tx_option *o)
{
    const void *at = tx__member_const(cfg, o);
    const tx_list *list = at;
    switch (o->kind) {
    case TX_OPTION_I64:
        return append(all, json_sprintf("--%s=%lld", o->flag, (long long)*(const int64_t *)at));
    case TX_OPTION_F64:
        return append(all, json_sprintf("--%s=%.17g", o->flag, *(const double *)at));
    case TX_OPTION_STR:
        return append_pair(all, o, *(char *const *)at);
    case TX_OPTION_ENUM:
        return append_pair(all, o, tx__enum_word(o, *(const int *)at));
    case TX_OPTION_LIST:
        if (list->n == 1) return append_pair(all, o, list->item[0]);
        TX_TRY(append(all, json_sprintf("--%s", o->flag)));
        for (int i = 0; i < list->n; i++) TX_TRY(append_text(all, o, list->item[i]));
        return TX_OK;
    default:
        return append(all, json_sprintf("--%s", o->flag));
    }
}

tx_status tx_config_to_flags(const tx_config *cfg, const char *const *without, json_t **out)
{
    json_t *all = json_array();
    tx_status st = all ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for the flags of a run");
    for (size_t i = 0; !st && i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (!tx__has_member(o) || !tx__is_given(cfg, o) || is_left_out(o->field, without)) continue;
        if (!strcmp(o->field, "deepspeed_config")) continue; /* what the file says is given, too */
        if (tx__command_takes(cfg->command, o, NULL)) st = append_option(all, cfg, o);
    }
    if (st)
        json_decref(all);
    else
        *out = all;
    return st;
}
