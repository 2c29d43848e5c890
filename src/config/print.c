/* print.c - the banner of arguments at the start of a run, as upstream prints it. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/log.h"
#include "config/option_table.h"

enum { NAME_WIDTH = 48 };

static int by_field(const void *a, const void *b)
{
    const tx_option *x = *(const tx_option *const *)a, *y = *(const tx_option *const *)b;
    return strcasecmp(x->field, y->field);
}

static void to_log(void *user, const char *text)
{
    (void)user;
    tx_info("%s", text);
}

/* The command's options in the order of their fields. */
static tx_status sort_options(const tx_config *cfg, const tx_option ***out, size_t *n)
{
    TX_TRY(tx_alloc(out, tx__n_options, sizeof **out, "the list of arguments"));
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (tx__has_member(o) && tx__command_takes(cfg->command, o, NULL)) (*out)[(*n)++] = o;
    }
    qsort(*out, *n, sizeof **out, by_field);
    return TX_OK;
}

tx_status tx_config_each(const tx_config *cfg, tx_config_item_fn *item, void *user)
{
    const tx_option **sorted = NULL;
    tx_str value = { 0 };
    tx_status st;
    size_t n = 0;
    TX_GOTO(sort_options(cfg, &sorted, &n));
    for (size_t i = 0; i < n; i++) {
        value.len = 0;
        TX_GOTO(tx__option_format(&value, cfg, sorted[i]));
        TX_GOTO(item(user, sorted[i]->field, value.data ? value.data : ""));
    }
out:
    tx_str_free(&value);
    tx_free(sorted);
    return st;
}

/* ---- the banner ---- */

typedef struct banner {
    const tx_config *cfg;
    tx_config *plain; /* the command without a flag */
    void (*line)(void *user, const char *text);
    void *user;
    tx_str text, initial;
} banner;

/* The option's line, if it is wanted: `differing` from the default or given, or `plain`. */
static tx_status banner_item(banner *b, const tx_option *o, bool differing, bool plain, size_t *n_left)
{
    static const char dots[] = "................................................";
    size_t used = strlen(o->field), at;
    b->text.len = b->initial.len = 0;
    TX_TRY(tx_str_printf(&b->text, "  %s %s ", o->field, used < NAME_WIDTH ? dots + used : ""));
    at = b->text.len;
    TX_TRY(tx__option_format(&b->text, b->cfg, o));
    TX_TRY(tx__option_format(&b->initial, b->plain, o));
    bool same = !tx__is_given(b->cfg, o) && !strcmp(b->text.data + at, b->initial.data ? b->initial.data : "");
    if (same ? !plain : !differing) {
        ++*n_left;
        return TX_OK;
    }
    TX_TRY(tx_str_printable(&b->text)); /* a value may be any bytes of a command line */
    b->line(b->user, b->text.data);
    return TX_OK;
}

static tx_status banner_items(banner *b, bool differing, bool plain, size_t *n_left)
{
    const tx_option **sorted = NULL;
    size_t n = 0;
    tx_status st = sort_options(b->cfg, &sorted, &n);
    for (size_t i = 0; i < n && !st; i++) st = banner_item(b, sorted[i], differing, plain, n_left);
    tx_free(sorted);
    return st;
}

/* Upstream lists all, and whoever looks for what was typed searches two hundred lines. */
static tx_status banner_body(banner *b)
{
    size_t n_left = 0;
    bool all = tx_config_log_level(b->cfg) >= TX_LOG_DEBUG;
    if (b->cfg->given.log_dialect) return banner_items(b, true, true, &n_left);
    TX_TRY(banner_items(b, true, false, &n_left));
    if (!n_left) return TX_OK;
    b->text.len = 0;
    TX_TRY(tx_str_printf(&b->text, "  (%zu more at their defaults%s)", n_left,
                         all ? ":" : "; --log-level debug shows them"));
    b->line(b->user, b->text.data);
    return all ? banner_items(b, false, true, &n_left) : TX_OK;
}

tx_status tx_config_print(const tx_config *cfg, void (*line)(void *user, const char *text), void *user)
{
    static const tx_config_given none = { 0 };
    banner b = { .cfg = cfg, .line = line ? line : to_log, .user = user };
    tx_violations missing = { 0 }; /* what an empty command line lacks is nobody's matter */
    tx_status st;
    TX_GOTO(tx_config_new(&b.plain, cfg->command->name));
    TX_GOTO(tx__config_settle(b.plain, &none, NULL, false, &missing));
    b.line(user, "------------------------ arguments ------------------------");
    TX_GOTO(banner_body(&b));
    b.line(user, "-------------------- end of arguments ---------------------");
out:
    tx_config_free(b.plain);
    tx_str_free(&missing.text);
    tx_str_free(&b.text);
    tx_str_free(&b.initial);
    return st;
}
