/* deepspeed_messages.c - what is said of DeepSpeed's file besides what is wrong in it. */
#include <stdio.h>
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

const char *tx__ds_last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

void tx__ds_nearest_begin(tx__ds_nearest *n, const char *path)
{
    size_t length = strlen(tx__ds_last_part(path));
    int some = (int)(length > 60 ? 60 : length) / 3 + 1;
    *n = (tx__ds_nearest){ .path = path, .distance = length < 4 ? 2 : length < 9 ? 3 : some };
}

/* A key of the same name elsewhere is as near as one letter. */
static tx_status try_key(tx__ds_nearest *n, const char *above, const char *name, size_t n_name)
{
    char candidate[64], path[160];
    size_t own = (size_t)(tx__ds_last_part(n->path) - n->path);
    snprintf(candidate, sizeof candidate, "%.*s", (int)n_name, name);
    snprintf(path, sizeof path, "%s%s%s", above, *above ? "." : "", candidate);
    bool beside = strlen(path) - n_name == own && !strncmp(path, n->path, own);
    int d = tx_str_distance(tx__ds_last_part(n->path), candidate);
    if (d >= n->distance - !beside) return TX_OK;
    n->distance = d + !beside;
    tx_str_free(&n->found);
    return tx_str_puts(&n->found, path);
}

tx_status tx__ds_nearest_try(tx__ds_nearest *n, const char *row, const char *members)
{
    char above[128];
    const char *name = tx__ds_last_part(row);
    snprintf(above, sizeof above, "%.*s", name == row ? 0 : (int)(name - row - 1), row);
    TX_TRY(try_key(n, above, name, strlen(name)));
    if (!strchr(above, '.') && *above) TX_TRY(try_key(n, "", above, strlen(above)));
    for (const char *w = members; w; w = strchr(w, '|')) {
        w += *w == '|';
        TX_TRY(try_key(n, row, w, strcspn(w, "|")));
    }
    return TX_OK;
}
