/* saved.c - the part of a config that is kept in checkpoints: the model's shape and what steers the trajectory. */
#include <string.h>

#include "base/log.h"
#include "config/options.h"

/* ---------------------------------------------------------------- out */

static json_t *list_to_json(const tx_list *l)
{
    json_t *all = json_array();
    for (int i = 0; i < l->n; i++) {
        if (!json_array_append_new(all, json_string(l->item[i]))) continue;
        json_decref(all);
        return NULL;
    }
    return all;
}

static json_t *value_to_json(const tx_config *cfg, const tx_option *o)
{
    const void *at = tx__member_const(cfg, o);
    if (tx__is_unset(cfg, o)) return json_null();
    switch (o->kind) {
    case TX_OPTION_I64:
        return json_integer(*(const int64_t *)at);
    case TX_OPTION_F64:
        return json_real(*(const double *)at);
    case TX_OPTION_FLAG:
    case TX_OPTION_FLAG_OFF:
        return json_boolean(*(const bool *)at);
    case TX_OPTION_STR:
    case TX_OPTION_ENUM:
        return json_string(*(char *const *)at);
    default:
        return list_to_json(at);
    }
}

tx_status tx_config_to_json(const tx_config *cfg, json_t **out)
{
    json_t *all = json_object();
    for (size_t i = 0; all && i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (!tx__has_member(o) || o->kept == TX_KEPT_NO) continue;
        json_t *value = value_to_json(cfg, o);
        if (!value && (o->kind == TX_OPTION_STR || o->kind == TX_OPTION_ENUM)) {
            json_decref(all);
            return TX_FAIL(TX_ERR_ARG, "--%s is not UTF-8 and cannot be kept in a checkpoint", o->flag);
        }
        if (json_object_set_new(all, o->field, value)) { /* takes the value, also NULL */
            json_decref(all);
            all = NULL;
        }
    }
    if (!all) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the options of a checkpoint");
    *out = all;
    return TX_OK;
}

/* ---------------------------------------------------------------- in */

/* Type and bounds of a kept value; NULL is fine, it was unset. */
static tx_status check_saved(const tx_option *o, const json_t *value)
{
    bool fits = false;
    if (json_is_null(value)) return TX_OK;
    switch (o->kind) {
    case TX_OPTION_I64:
        fits = json_is_integer(value) && tx__in_bounds(o, (double)json_integer_value(value));
        break;
    case TX_OPTION_F64:
        fits = json_is_number(value) && tx__in_bounds(o, json_number_value(value));
        break;
    case TX_OPTION_FLAG:
    case TX_OPTION_FLAG_OFF:
        fits = json_is_boolean(value);
        break;
    case TX_OPTION_STR:
        fits = json_is_string(value);
        break;
    case TX_OPTION_LIST:
        fits = json_array_size(value) >= (size_t)o->lo && json_array_size(value) <= (size_t)o->hi;
        for (size_t i = 0; fits && i < json_array_size(value); i++) fits = json_is_string(json_array_get(value, i));
        break;
    default:
        fits = json_is_string(value) && tx__word_in(o->words, json_string_value(value));
        break;
    }
    if (!fits) return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's option %s has a value that it cannot have", o->field);
    return TX_OK;
}

static bool same_list(const tx_list *l, const json_t *value)
{
    bool same = (size_t)l->n == json_array_size(value);
    for (int i = 0; same && i < l->n; i++)
        same = !strcmp(l->item[i], json_string_value(json_array_get(value, (size_t)i)));
    return same;
}

static bool same(const tx_config *cfg, const tx_option *o, const json_t *value)
{
    const void *at = tx__member_const(cfg, o);
    if (json_is_null(value) || tx__is_unset(cfg, o)) return json_is_null(value) && tx__is_unset(cfg, o);
    switch (o->kind) {
    case TX_OPTION_I64:
        return *(const int64_t *)at == json_integer_value(value);
    case TX_OPTION_F64:
        return *(const double *)at == json_number_value(value);
    case TX_OPTION_FLAG:
    case TX_OPTION_FLAG_OFF:
        return *(const bool *)at == json_is_true(value);
    case TX_OPTION_LIST:
        return same_list(at, value);
    default:
        return !strcmp(*(char *const *)at, json_string_value(value));
    }
}

static tx_status fill(tx_config *cfg, const tx_option *o, const json_t *value)
{
    void *at = tx__member(cfg, o);
    switch (o->kind) {
    case TX_OPTION_I64:
        *(int64_t *)at = json_integer_value(value);
        return TX_OK;
    case TX_OPTION_F64:
        *(double *)at = json_number_value(value);
        return TX_OK;
    case TX_OPTION_FLAG:
    case TX_OPTION_FLAG_OFF:
        *(bool *)at = json_is_true(value);
        return TX_OK;
    default:
        TX_ASSERT(o->kind != TX_OPTION_LIST); /* kept lists are compared, never taken */
        return tx_config_set_text(at, json_string_value(value));
    }
}

/* A kept value as Python prints it, like tx__option_format. */
static tx_status format_saved(tx_str *out, const json_t *value)
{
    if (json_is_integer(value)) return tx_str_printf(out, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) return tx__f64_format(out, json_real_value(value));
    if (json_is_string(value)) return tx_str_puts(out, json_string_value(value));
    for (size_t i = 0; i < json_array_size(value); i++)
        TX_TRY(tx_str_printf(out, "%s'%s'", i ? ", " : "[", json_string_value(json_array_get(value, i))));
    if (json_is_array(value)) return tx_str_puts(out, "]");
    return tx_str_puts(out, json_is_true(value) ? "True" : json_is_false(value) ? "False" : "None");
}

/* Whether the option at hand differs in a way that has to be told, and telling it. */
static tx_status compare(const tx_config *cfg, const tx_option *o, const json_t *value, tx_violations *v)
{
    tx_str text = { 0 };
    tx_status st;
    if (same(cfg, o, value)) return TX_OK;
    TX_GOTO(tx_str_printf(&text, "--%s is ", o->flag));
    TX_GOTO(tx__option_format(&text, cfg, o));
    TX_GOTO(tx_str_puts(&text, ", in the checkpoint it is "));
    TX_GOTO(format_saved(&text, value));
    if (o->kept == TX_KEPT_SHAPE)
        tx__violate(v, "%s; leave the flag out or give the checkpoint's value", text.data);
    else
        tx_warn("%s; this run goes on with its own", text.data);
out:
    tx_str_free(&text);
    return st;
}

/* Whether a difference is told: an error for the shape, a warning for the trajectory. */
static bool is_told(const tx_config *cfg, const tx_option *o, unsigned which)
{
    if (o->kept == TX_KEPT_SHAPE) return tx__is_given(cfg, o) || which & TX_KEPT_ALL_GIVEN;
    return o->kept == TX_KEPT_RUN && tx__command_takes(cfg->command, o, NULL);
}

/* Whether the checkpoint's value is taken. */
static bool is_filled(const tx_config *cfg, const tx_option *o, unsigned which)
{
    return !(which & TX_KEPT_ALL_GIVEN) && o->kept != TX_KEPT_RUN && !tx__is_given(cfg, o);
}

tx_status tx_config_from_json(tx_config *cfg, const json_t *saved, unsigned which)
{
    tx_violations v = { 0 };
    tx_status st;
    if (!json_is_object(saved)) return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's options are not a JSON object");
    for (size_t i = 0; i < tx__n_options; i++) { /* look at everything before anything is changed */
        const tx_option *o = &tx__options[i];
        const json_t *value = json_object_get(saved, o->field ? o->field : "");
        if (!tx__has_member(o) || !(o->kept & which) || !value) continue;
        TX_GOTO(check_saved(o, value));
        if (is_told(cfg, o, which)) TX_GOTO(compare(cfg, o, value, &v));
    }
    TX_GOTO(tx__violations_close(&v));
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        const json_t *value = json_object_get(saved, o->field ? o->field : "");
        if (!tx__has_member(o) || !(o->kept & which) || !value) continue;
        if (is_filled(cfg, o, which) && !json_is_null(value)) TX_GOTO(fill(cfg, o, value));
    }
out:
    tx_str_free(&v.text);
    return st;
}
