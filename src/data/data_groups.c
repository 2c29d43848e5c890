/* data_groups.c - from the data options to groups of datasets. */
#include "data/data_groups.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "data/mock_documents.h"

enum { MAX_GROUPS_FILE = 16 << 20 }; /* bytes */

void tx_data_group_free(tx_data_group *g)
{
    for (int i = 0; i < g->n; i++) {
        tx_free(g->set[i].path);
        tx_free(g->set[i].range);
    }
    tx_free(g->set);
    tx_free(g->name);
    *g = (tx_data_group){ 0 };
}

void tx_data_groups_close(tx_data_groups *g)
{
    for (int i = 0; i < g->n; i++) tx_data_group_free(&g->group[i]);
    tx_free(g->group);
    *g = (tx_data_groups){ 0 };
}

/* Another dataset at the group's end. @range NULL: none */
static tx_status add_set(tx_data_group *g, double weight, const char *range, size_t n_range, const char *path,
                         size_t n_path)
{
    TX_TRY(tx_realloc(&g->set, (size_t)g->n + 1, sizeof *g->set, "a list of datasets"));
    tx_data_set *s = &g->set[g->n++];
    *s = (tx_data_set){ .weight = weight };
    if (range) TX_TRY(tx_memdup0(&s->range, range, n_range, "a dataset's range"));
    return tx_memdup0(&s->path, path, n_path, "a dataset's path");
}

/* Takes the group over, also on failure. */
static tx_status add_group(tx_data_groups *all, tx_data_group *g)
{
    tx_status st = tx_realloc(&all->group, (size_t)all->n + 1, sizeof *all->group, "a list of datasets");
    if (st)
        tx_data_group_free(g);
    else
        all->group[all->n++] = *g;
    *g = (tx_data_group){ 0 };
    return st;
}

/* ---- plain lists ---- */

static tx_status add_list(tx_data_groups *all, const tx_list *list, const char *folder, const tx_split *split)
{
    tx_data_group g = { .divided = !split, .exact = split != NULL, .blend = list->n > 1 };
    tx_str path = { 0 };
    tx_status st = TX_OK;
    if (!list->n) return TX_OK;
    if (split) g.split = *split;
    for (int i = 0; i < tx_weighted_count(list); i++) {
        double weight;
        const char *prefix = tx_weighted_at(list, i, &weight);
        path.len = 0;
        TX_GOTO(tx_str_printf(&path, "%s%s%s", folder ? folder : "", folder ? "/" : "", prefix));
        TX_GOTO(add_set(&g, weight, split ? "0:1" : NULL, 3, path.data, path.len));
    }
    st = add_group(all, &g);
out:
    tx_str_free(&path);
    tx_data_group_free(&g);
    return st;
}

static tx_status add_mock(tx_data_groups *all, bool wanted)
{
    tx_data_group g = { .divided = true, .mock = true };
    if (!wanted) return TX_OK;
    tx_status st = add_set(&g, 1, NULL, 0, TX_MOCK_NAME, strlen(TX_MOCK_NAME));
    if (!st) return add_group(all, &g);
    tx_data_group_free(&g);
    return st;
}

/* ---- weighted splits ---- */

/* Next word before `end`; its length, 0 behind the last. */
static size_t next_word(const char **s, const char *end, const char **word)
{
    while (*s < end && isspace((unsigned char)**s)) ++*s;
    *word = *s;
    while (*s < end && !isspace((unsigned char)**s)) ++*s;
    return (size_t)(*s - *word);
}

static bool parse_weight(double *out, const char *s, size_t n)
{
    char text[64], *end;
    if (!n || n >= sizeof text) return false;
    memcpy(text, s, n);
    text[n] = 0;
    *out = strtod(text, &end);
    return !*end && !strpbrk(text, "xX") && isfinite(*out) && *out >= 0;
}

/* "weight start:end path" */
static tx_status parse_set(tx_data_group *g, const char *flag, const char *s, const char *end)
{
    const char *weight, *range, *path, *more;
    double w;
    int64_t bound[2];
    const char *all = s;
    size_t n_weight = next_word(&s, end, &weight), n_range = next_word(&s, end, &range);
    size_t n_path = next_word(&s, end, &path);
    if (!n_path || next_word(&s, end, &more) || !parse_weight(&w, weight, n_weight))
        return TX_FAIL(TX_ERR_ARG, "--%s: \"%.*s\" is not \"WEIGHT START:END PATH\"", flag,
                       (int)(end - all > 200 ? 200 : end - all), all);
    if (g->n == TX_BLEND_MAX)
        return TX_FAIL(TX_ERR_ARG, "--%s: \"%s\" has more than %d datasets", flag, g->name, TX_BLEND_MAX);
    TX_TRY(add_set(g, w, range, n_range, path, n_path));
    tx_status st = tx_split_range(bound, g->set[g->n - 1].range, 0);
    return st ? tx_fail_prefix(st, "--%s", flag) : TX_OK;
}

tx_status tx_data_group_parse(tx_data_group *out, const char *flag, const char *text, size_t n)
{
    tx_data_group g = { 0 };
    const char *end = text + n, *s = n ? memchr(text, ':', n) : NULL;
    double sum = 0;
    tx_status st;
    if (!s)
        return TX_FAIL(TX_ERR_ARG, "--%s: \"%.*s\" is not \"NAME: WEIGHT START:END PATH, ...\"", flag,
                       (int)(n > 200 ? 200 : n), text);
    TX_GOTO(tx_memdup0(&g.name, text, (size_t)(s - text), "a group's name"));
    for (s++;; s++) {
        const char *comma = s < end ? memchr(s, ',', (size_t)(end - s)) : NULL;
        TX_GOTO(parse_set(&g, flag, s, comma ? comma : end));
        sum += g.set[g.n - 1].weight;
        if (!comma) break;
        s = comma;
    }
    g.blend = g.n > 1;
    if (g.blend && !(sum > 0 && isfinite(sum))) {
        st = TX_FAIL(TX_ERR_ARG, "--%s: the weights of \"%s\" have the sum %g, it must be above 0", flag, g.name, sum);
        goto out;
    }
    *out = g;
    return TX_OK;
out:
    tx_data_group_free(&g);
    return st;
}

static tx_status add_text(tx_data_groups *all, const char *flag, tx_split split, const char *text, size_t n)
{
    tx_data_group g;
    TX_TRY(tx_data_group_parse(&g, flag, text, n));
    g.split = split;
    return add_group(all, &g);
}

/* A line of texts in double quotes, a blank between them. */
static tx_status add_file(tx_data_groups *all, const char *flag, tx_split split, const char *path)
{
    tx_str text = { 0 };
    tx_status st;
    TX_GOTO(tx_file_read(path, MAX_GROUPS_FILE, &text));
    const char *s = text.data, *end = s + text.len, *quote;
    if (end > s && end[-1] == '\n') end--;
    for (;; s++) {
        bool ok = s < end && *s == '"' && !memchr(s, '\n', (size_t)(end - s));
        quote = ok ? memchr(s + 1, '"', (size_t)(end - s - 1)) : NULL;
        if (!quote || (quote + 1 < end && (quote[1] != ' ' || quote + 2 == end))) {
            st = TX_FAIL(TX_ERR_FORMAT,
                         "--%s %s: must be one line of texts in double quotes, one blank between them, each \"NAME: "
                         "WEIGHT START:END PATH, ...\"",
                         flag, path);
            goto out;
        }
        TX_GOTO(add_text(all, flag, split, s + 1, (size_t)(quote - s - 1)));
        if (quote + 1 == end) break;
        s = quote + 1;
    }
out:
    tx_str_free(&text);
    return st;
}

/* ---- all of them ---- */

tx_status tx_data_groups_open(tx_data_groups *out, const tx_config *cfg)
{
    const struct {
        const tx_list *plain, *weighted;
        const char *flag, *file, *file_flag;
    } own[TX_N_SPLITS] = {
        { &cfg->train_data_path, &cfg->train_weighted_split_paths, "train-weighted-split-paths",
          cfg->train_weighted_split_paths_path, "train-weighted-split-paths-path" },
        { &cfg->valid_data_path, &cfg->valid_weighted_split_paths, "valid-weighted-split-paths",
          cfg->valid_weighted_split_paths_path, "valid-weighted-split-paths-path" },
        { &cfg->test_data_path, &cfg->test_weighted_split_paths, "test-weighted-split-paths",
          cfg->test_weighted_split_paths_path, "test-weighted-split-paths-path" },
    };
    tx_data_groups all = { 0 };
    tx_status st;
    TX_GOTO(add_mock(&all, cfg->mock_data));
    TX_GOTO(add_list(&all, &cfg->data_path, cfg->aml_data_download_path, NULL));
    for (int k = 0; k < TX_N_SPLITS; k++) {
        tx_split split = (tx_split)k;
        int before = all.n;
        TX_GOTO(add_list(&all, own[k].plain, NULL, &split));
        for (int i = 0; i < own[k].weighted->n; i++) {
            const char *text = own[k].weighted->item[i];
            TX_GOTO(add_text(&all, own[k].flag, split, text, strlen(text)));
        }
        if (own[k].file) TX_GOTO(add_file(&all, own[k].file_flag, split, own[k].file));
        if (split == TX_SPLIT_TRAIN && all.n - before > 1) {
            st = TX_FAIL(TX_ERR_ARG, "--%s: training has one group of datasets, %d are given", own[k].flag,
                         all.n - before);
            goto out;
        }
    }
    *out = all;
    return TX_OK;
out:
    tx_data_groups_close(&all);
    return st;
}
