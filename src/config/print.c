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

tx_status tx_config_print(const tx_config *cfg, void (*line)(void *user, const char *text), void *user)
{
    static const char dots[] = "................................................";
    const tx_option **sorted = NULL;
    tx_str text = { 0 };
    tx_status st;
    size_t n = 0;
    if (!line) line = to_log;
    TX_GOTO(tx_alloc(&sorted, tx__n_options, sizeof *sorted, "the list of arguments"));
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (tx__has_member(o) && tx__command_takes(cfg->command, o, NULL)) sorted[n++] = o;
    }
    qsort(sorted, n, sizeof *sorted, by_field);

    line(user, "------------------------ arguments ------------------------");
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(sorted[i]->field);
        text.len = 0;
        TX_GOTO(tx_str_printf(&text, "  %s %s ", sorted[i]->field, used < NAME_WIDTH ? dots + used : ""));
        TX_GOTO(tx__option_format(&text, cfg, sorted[i]));
        line(user, text.data);
    }
    line(user, "-------------------- end of arguments ---------------------");
    st = TX_OK;
out:
    tx_str_free(&text);
    tx_free(sorted);
    return st;
}
