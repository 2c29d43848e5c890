/* print.c - the banner of arguments at the start of a run, as upstream prints it. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/log.h"
#include "config/options.h"

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

tx_status tx_config_each(const tx_config *cfg, tx_config_item_fn *item, void *user)
{
    const tx_option **sorted = NULL;
    tx_str value = { 0 };
    tx_status st;
    size_t n = 0;
    TX_GOTO(tx_alloc(&sorted, tx__n_options, sizeof *sorted, "the list of arguments"));
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (tx__has_member(o) && tx__command_takes(cfg->command, o, NULL)) sorted[n++] = o;
    }
    qsort(sorted, n, sizeof *sorted, by_field);
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

typedef struct banner {
    void (*line)(void *user, const char *text);
    void *user;
    tx_str text;
} banner;

static tx_status banner_item(void *user, const char *name, const char *value)
{
    static const char dots[] = "................................................";
    banner *b = user;
    size_t used = strlen(name);
    b->text.len = 0;
    TX_TRY(tx_str_printf(&b->text, "  %s %s %s", name, used < NAME_WIDTH ? dots + used : "", value));
    TX_TRY(tx_str_printable(&b->text)); /* a value may be any bytes of a command line */
    b->line(b->user, b->text.data);
    return TX_OK;
}

tx_status tx_config_print(const tx_config *cfg, void (*line)(void *user, const char *text), void *user)
{
    banner b = { .line = line ? line : to_log, .user = user };
    b.line(user, "------------------------ arguments ------------------------");
    tx_status st = tx_config_each(cfg, banner_item, &b);
    if (!st) b.line(user, "-------------------- end of arguments ---------------------");
    tx_str_free(&b.text);
    return st;
}
