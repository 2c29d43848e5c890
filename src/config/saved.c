/* saved.c - the part of a config that is kept in checkpoints: the model's shape and what steers the trajectory. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "config/option_table.h"

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
        return json_string(*(char *const *)at);
    case TX_OPTION_ENUM:
        return json_string(tx__enum_word(o, *(const int *)at));
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
        if (!value && o->kind == TX_OPTION_STR) {
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

/* Options that a checkpoint may be loaded with another value of, and a model computes something else with. */
static bool is_computed_with(const tx_option *o)
{
    static const char *const begin[] = { "rope_scaling_", "rope_original_", "rope_low_", "rope_high_", "yarn_" };
    for (size_t i = 0; o->kept == TX_KEPT_HINT && i < sizeof begin / sizeof *begin; i++)
        if (!strncmp(o->field, begin[i], strlen(begin[i]))) return true;
    return o->kept == TX_KEPT_SHAPE;
}

tx_status tx__shape_to_json(const tx_config *cfg, json_t **out)
{
    json_t *shape = json_object();
    tx_status st = shape ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for a model's options");
    for (size_t i = 0; !st && i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (!tx__has_member(o) || !is_computed_with(o)) continue;
        if (json_object_set_new(shape, o->field, value_to_json(cfg, o)))
            st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for a model's options");
    }
    if (st)
        json_decref(shape);
    else
        *out = shape;
    return st;
}

tx_status tx_config_shape(json_t **out)
{
    tx_config *cfg;
    TX_TRY(tx_config_new(&cfg, tx_command_id_word(TX_COMMAND_ENGINE)));
    tx_status st = tx__shape_to_json(cfg, out);
    tx_config_free(cfg);
    return st;
}

bool tx_config_is_shape(const char *field)
{
    for (size_t i = 0; i < tx__n_options; i++)
        if (tx__options[i].kept == TX_KEPT_SHAPE && !strcmp(tx__options[i].field, field)) return true;
    return false;
}

/* ---------------------------------------------------------------- in */

/* A text; a whole number where the option was one in an earlier version.   @number room for it; NULL: neither */
static const char *text_of(const json_t *value, char number[24])
{
    if (!json_is_integer(value)) return json_string_value(value);
    snprintf(number, 24, "%lld", (long long)json_integer_value(value));
    return number;
}

/* Type and bounds of a kept value; NULL is fine, it was unset. */
static tx_status check_saved(const tx_option *o, const json_t *value)
{
    bool fits = false;
    char number[24];
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
        fits = text_of(value, number) != NULL;
        break;
    case TX_OPTION_LIST:
        fits = json_array_size(value) >= (size_t)o->lo && json_array_size(value) <= (size_t)o->hi;
        for (size_t i = 0; fits && i < json_array_size(value); i++) fits = json_is_string(json_array_get(value, i));
        break;
    default:
        fits = json_is_string(value) && tx__enum_of(o, json_string_value(value));
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
    char number[24];
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
    case TX_OPTION_ENUM:
        return *(const int *)at == tx__enum_of(o, json_string_value(value));
    default:
        return !strcmp(*(char *const *)at, text_of(value, number));
    }
}

static tx_status fill_list(tx_config *cfg, const tx_option *o, const json_t *value)
{
    const char **item;
    size_t n = json_array_size(value);
    TX_TRY(tx_alloc(&item, n, sizeof *item, "options"));
    for (size_t i = 0; i < n; i++) item[i] = json_string_value(json_array_get(value, i));
    tx_status st = tx__option_set(cfg, o, (int)n, item);
    tx_free(item);
    return st;
}

static tx_status fill(tx_config *cfg, const tx_option *o, const json_t *value)
{
    void *at = tx__member(cfg, o);
    char number[24];
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
    case TX_OPTION_ENUM:
        *(int *)at = tx__enum_of(o, json_string_value(value));
        return TX_OK;
    case TX_OPTION_LIST:
        return fill_list(cfg, o, value);
    default:
        return tx_config_set_text(at, text_of(value, number));
    }
}

/* A kept value as Python prints it, like tx__option_format. */
static tx_status format_saved(tx_str *out, const json_t *value)
{
    if (json_is_integer(value)) return tx_str_printf(out, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) return tx_str_put_f64(out, json_real_value(value));
    if (json_is_string(value)) return tx_str_puts(out, json_string_value(value));
    for (size_t i = 0; i < json_array_size(value); i++)
        TX_TRY(tx_str_printf(out, "%s'%s'", i ? ", " : "[", json_string_value(json_array_get(value, i))));
    if (json_is_array(value)) return tx_str_puts(out, "]");
    return tx_str_puts(out, json_is_true(value) ? "True" : json_is_false(value) ? "False" : "None");
}

/* Options that differ. */
typedef struct difference {
    const tx_option *o;
    tx_str saved, given; /* as they are printed */
} difference;

typedef struct differences {
    difference *list;
    size_t n;
} differences;

static void differences_free(differences *d)
{
    for (size_t i = 0; i < d->n; i++) {
        tx_str_free(&d->list[i].saved);
        tx_str_free(&d->list[i].given);
    }
    tx_free(d->list);
}

static tx_status compare(const tx_config *cfg, const tx_option *o, const json_t *value, differences *d)
{
    if (same(cfg, o, value)) return TX_OK;
    TX_TRY(tx_realloc(&d->list, d->n + 1, sizeof *d->list, "a list of differences"));
    difference *e = &d->list[d->n++];
    *e = (difference){ .o = o };
    TX_TRY(format_saved(&e->saved, value));
    TX_TRY(tx__option_format(&e->given, cfg, o));
    TX_TRY(tx_str_printable(&e->saved));
    return tx_str_printable(&e->given);
}

/* "--hidden-size  64  128": a heading (i < 0) or a row of the table of all that differ. */
static tx_status table_row(tx_str *line, const differences *d, int i)
{
    int wide[2] = { 4, 17 }; /* the heading's words */
    for (size_t k = 0; k < d->n; k++) {
        int flag = (int)strlen(d->list[k].o->flag) + 2, saved = (int)d->list[k].saved.len;
        if (flag > wide[0]) wide[0] = flag;
        if (saved > wide[1] && saved <= 40) wide[1] = saved;
    }
    if (i < 0) return tx_str_printf(line, "  %-*s  %-*s  given", wide[0], "flag", wide[1], "in the checkpoint");
    const difference *e = &d->list[i];
    return tx_str_printf(line, "  --%-*s  %-*s  %s", wide[0] - 2, e->o->flag, wide[1], e->saved.data, e->given.data);
}

/* An error: one in a sentence, several in a table. */
static tx_status refuse(const differences *d)
{
    const difference *e = d->list;
    tx_str text = { 0 };
    if (d->n == 1)
        return TX_FAIL(TX_ERR_ARG,
                       "--%s is %s, in the checkpoint it is %s; leave the flag out or give the checkpoint's value",
                       e->o->flag, e->given.data, e->saved.data);
    tx_status st = TX_OK;
    for (int i = -1; i < (int)d->n && !st; i++) {
        st = tx_str_puts(&text, "\n");
        if (!st) st = table_row(&text, d, i);
    }
    if (!st)
        st = TX_FAIL_LINES(TX_ERR_ARG,
                           "the model of the checkpoint is another one: leave these flags out or give its values%s",
                           text.data);
    tx_str_free(&text);
    return st;
}

/* A warning: the same. */
static tx_status warn_of(const differences *d)
{
    const difference *e = d->list;
    tx_str line = { 0 };
    tx_status st = TX_OK;
    if (d->n == 1)
        tx_warn_once("--%s is %s, in the checkpoint it is %s; this run goes on with its own", e->o->flag, e->given.data,
                     e->saved.data);
    if (d->n > 1) tx_warn_once("%zu options are not the checkpoint's; this run goes on with its own:", d->n);
    for (int i = -1; i < (int)d->n && d->n > 1 && !st; i++) {
        line.len = 0;
        st = table_row(&line, d, i);
        if (!st) tx_warn_once("%s", line.data);
    }
    tx_str_free(&line);
    return st;
}

/* Older checkpoints, and those of other programs, say by two flags how positions are known. Its own reference. */
static tx_status with_positions(json_t **out, const json_t *saved)
{
    const json_t *rotary = json_object_get(saved, "use_rotary_position_embeddings"),
                 *table = json_object_get(saved, "add_position_embedding");
    if (json_object_get(saved, "position_embedding_type") || (!rotary && !table)) {
        *out = json_incref((json_t *)saved);
        return TX_OK;
    }
    const char *type = json_is_true(rotary) ? "rope" : json_is_false(table) ? "none" : "learned_absolute";
    *out = json_copy((json_t *)saved);
    if (!json_object_set_new(*out, "position_embedding_type", json_string(type))) return TX_OK;
    json_decref(*out);
    return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the options of a checkpoint");
}

/* How an option of a checkpoint's is kept: only a table of positions has an end. */
static unsigned kept_as(const tx_option *o, const json_t *saved)
{
    const char *type = json_string_value(json_object_get(saved, "position_embedding_type"));
    bool reach = !strcmp(o->field ? o->field : "", "max_position_embeddings");
    return reach && type && strcmp(type, "learned_absolute") != 0 ? TX_KEPT_HINT : o->kept;
}

/* Whether a difference is told: an error for the shape, a warning for the trajectory. */
static bool is_told(const tx_config *cfg, const tx_option *o, unsigned kept, unsigned which)
{
    if (kept == TX_KEPT_SHAPE) return tx__is_given(cfg, o) || which & TX_KEPT_ALL_GIVEN;
    return kept == TX_KEPT_RUN && tx__command_takes(cfg->command, o, NULL);
}

/* A scaling of positions that is given is not mixed with the numbers of the checkpoint's. */
static bool is_of_another_scaling(const tx_config *cfg, const tx_option *o)
{
    const char *field = o->field ? o->field : "";
    return cfg->given.rope_scaling_type && o->kept == TX_KEPT_HINT &&
           (!strncmp(field, "rope_", 5) || !strncmp(field, "yarn_", 5));
}

/* Whether the checkpoint's value is taken. */
static bool is_filled(const tx_config *cfg, const tx_option *o, unsigned which)
{
    return !(which & TX_KEPT_ALL_GIVEN) && o->kept != TX_KEPT_RUN && !tx__is_given(cfg, o) &&
           !is_of_another_scaling(cfg, o);
}

tx_status tx_config_from_json(tx_config *cfg, const json_t *kept, unsigned which)
{
    differences shape = { 0 }, run = { 0 };
    json_t *saved;
    tx_status st = TX_OK;
    if (!json_is_object(kept)) return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's options are not a JSON object");
    TX_TRY(with_positions(&saved, kept));
    for (size_t i = 0; i < tx__n_options; i++) { /* look at everything before anything is changed */
        const tx_option *o = &tx__options[i];
        const json_t *value = json_object_get(saved, o->field ? o->field : "");
        if (!tx__has_member(o) || !(o->kept & which) || !value) continue;
        TX_GOTO(check_saved(o, value));
        if (is_told(cfg, o, kept_as(o, saved), which))
            TX_GOTO(compare(cfg, o, value, o->kept == TX_KEPT_SHAPE ? &shape : &run));
    }
    TX_GOTO(warn_of(&run));
    if (shape.n) TX_GOTO(refuse(&shape));
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        const json_t *value = json_object_get(saved, o->field ? o->field : "");
        if (!tx__has_member(o) || !(o->kept & which) || !value) continue;
        if (is_filled(cfg, o, which) && !json_is_null(value)) TX_GOTO(fill(cfg, o, value));
    }
out:
    differences_free(&shape);
    differences_free(&run);
    json_decref(saved);
    return st;
}

tx_status tx_config_shape_differences(const tx_config *cfg, const json_t *kept, tx_str *out)
{
    differences d = { 0 };
    json_t *saved;
    tx_status st = TX_OK;
    TX_TRY(with_positions(&saved, kept));
    for (size_t i = 0; i < tx__n_options && !st; i++) {
        const tx_option *o = &tx__options[i];
        const json_t *value = json_object_get(saved, o->field ? o->field : "");
        if (!tx__has_member(o) || kept_as(o, saved) != TX_KEPT_SHAPE || !value) continue;
        st = check_saved(o, value);
        if (!st) st = compare(cfg, o, value, &d);
    }
    for (size_t i = 0; i < d.n && !st; i++)
        st = tx_str_printf(out, "%sits --%s is %s, this run's %s", out->len ? "; " : "", d.list[i].o->flag,
                           d.list[i].saved.data, d.list[i].given.data);
    differences_free(&d);
    json_decref(saved);
    return st;
}
