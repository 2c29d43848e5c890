/* deepspeed_messages.c - what is said of DeepSpeed's file besides what is wrong in it. */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "config/deepspeed_json.h"
#include "config/option_table.h"

const char *tx__deepspeed_file_end(const char *path)
{
    size_t n = strlen(path);
    return n > 100 ? path + n - 100 : path;
}

/* Whether a text has the flag as a word. */
static bool names_flag(const char *text, const char *flag)
{
    size_t n = strlen(flag);
    for (const char *p = strstr(text, "--"); p; p = strstr(p + 2, "--"))
        if (!strncmp(p + 2, flag, n) && !strchr("abcdefghijklmnopqrstuvwxyz0123456789-_", p[2 + n])) return true;
    return false;
}

void tx__deepspeed_explain(const tx__deepspeed *d, const tx_config *cfg, size_t first, tx_violations *found)
{
    size_t n = found->text.len;
    char *rules = NULL;
    if (!d->from || n <= first) return;
    if (!found->st) found->st = tx_memdup0(&rules, found->text.data + first, n - first, "a message");
    for (size_t i = 0; rules && i < tx__n_options; i++) {
        const tx__origin *from = &d->from[i];
        if (from->key && names_flag(rules, tx__options[i].flag))
            tx__violate(found, "--%s is here %s, in %s, line %d, column %d", tx__options[i].flag, from->key,
                        tx__deepspeed_file_end(cfg->deepspeed_config), from->at.line, from->at.column);
    }
    tx_free(rules);
}

void tx__deepspeed_log(const tx__deepspeed *d)
{
    const char *line = d->notes.data;
    while (line && *line) {
        int n = (int)strcspn(line, "\n");
        tx_info("%.*s", n, line);
        line += n + 1;
    }
}
