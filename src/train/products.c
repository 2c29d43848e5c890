/* products.c - the algorithms of matrix products, carried between ranks and runs. */
#include "train/products.h"

#include <string.h>
#include <xxhash.h>

#include "backend/gpu_module.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

enum { MAX_TEXT = 64 << 20 };

/* What rank `root` has, on all.   @text in: root's, borrowed; out: a copy, tx_free() */
static tx_status spread_text(tx_comm *world, int root, const char *mine, char **text)
{
    size_t n = tx_comm_rank(world) == root ? strlen(mine) : 0;
    TX_TRY(tx_comm_spread(world, &n, sizeof n, root));
    TX_TRY(tx_comm_agree(world, tx_alloc(text, n + 1, 1, "the list of matrix products")));
    if (tx_comm_rank(world) == root) memcpy(*text, mine, n);
    tx_status st = tx_comm_spread(world, *text, n, root);
    if (st) tx_free(*text);
    return st;
}

static tx_status take_from(tx_ctx *c, const tx_gpu_module *m, tx_comm *world, int root, const char *mine)
{
    char *text;
    int n_used, n_other;
    TX_TRY(spread_text(world, root, mine, &text));
    tx_status st = m->load_choices(c, text, &n_used, &n_other);
    tx_free(text);
    return tx_comm_agree(world, st);
}

/* Texts that differ are taken in such an order that the first rank's holds. */
static tx_status merge(tx_ctx *c, const tx_gpu_module *m, tx_comm *world, const char *mine)
{
    int n = tx_comm_size(world);
    uint64_t *all, hash = XXH3_64bits(mine, strlen(mine));
    TX_TRY(tx_alloc(&all, (size_t)n, sizeof *all, "the ranks' matrix products"));
    tx_status st = tx_comm_gather(world, all, &hash, sizeof hash);
    bool same = true;
    for (int r = 1; r < n && !st; r++) same = same && all[r] == all[0];
    for (int r = n - 1; r >= 0 && !st && !same; r--) {
        bool first = true;
        for (int k = 0; k < r; k++) first = first && all[k] != all[r];
        if (first) st = take_from(c, m, world, r, mine);
    }
    tx_free(all);
    return st;
}

/* The first rank that has shapes without an algorithm; -1: none has. */
static tx_status first_open(const tx_ctx *c, const tx_gpu_module *m, tx_comm *world, int *out)
{
    int n = tx_comm_size(world), mine = m->n_open_choices(c), *all;
    TX_TRY(tx_alloc(&all, (size_t)n, sizeof *all, "the ranks' matrix products"));
    tx_status st = tx_comm_gather(world, all, &mine, sizeof mine);
    *out = -1;
    for (int r = n - 1; r >= 0; r--)
        if (all[r]) *out = r;
    tx_free(all);
    return st;
}

tx_status tx_products_choose(tx_ctx *c, tx_comm *world)
{
    const tx_gpu_module *m;
    int root, before = -1;
    if (!c->device) return TX_OK;
    TX_TRY(tx_gpu_module_get(&m));
    for (;; before = root) {
        char *mine = NULL;
        TX_TRY(first_open(c, m, world, &root));
        if (root <= before) return TX_OK; /* none, or one whose memory was short */
        tx_status st = tx_comm_rank(world) == root ? m->choose(c) : TX_OK;
        if (!st) st = m->save_choices(c, &mine);
        st = tx_comm_agree(world, st);
        if (!st && tx_comm_size(world) > 1) st = take_from(c, m, world, root, mine);
        tx_free(mine);
        TX_TRY(st);
    }
}

tx_status tx_products_agree(tx_ctx *c, tx_comm *world, char **text)
{
    const tx_gpu_module *m;
    char *mine = NULL;
    *text = NULL;
    if (!c->device) return TX_OK;
    TX_TRY(tx_gpu_module_get(&m));
    TX_TRY(tx_comm_agree(world, m->save_choices(c, &mine)));
    tx_status st = merge(c, m, world, mine);
    tx_free(mine);
    if (!st) st = m->save_choices(c, text);
    return st;
}

tx_status tx_products_take(tx_ctx *c, const char *text, const char *where)
{
    const tx_gpu_module *m;
    int n_used, n_other;
    if (!c->device || !text) return TX_OK;
    TX_TRY(tx_gpu_module_get(&m));
    tx_status st = m->load_choices(c, text, &n_used, &n_other);
    if (st) return TX_FAIL(st, "%s: %s", where, tx_last_error());
    if (n_used) tx_info("%d matrix products are made as %s says", n_used, where);
    if (n_other)
        tx_info("%d matrix products in %s are another GPU's or library's: results may differ in last places", n_other,
                where);
    return TX_OK;
}

static tx_status read_file(const char *dir, tx_str *out)
{
    char path[4096];
    TX_TRY(tx_path_join(path, sizeof path, dir, TX_PRODUCTS_FILE));
    return tx_path_exists(path) ? tx_file_read(path, MAX_TEXT, out) : TX_OK;
}

tx_status tx_products_read(tx_ctx *c, tx_comm *world, const char *dir)
{
    tx_str mine = { 0 };
    char *text = NULL;
    tx_status st = TX_OK;
    if (!c->device) return TX_OK;
    if (tx_comm_rank(world) == 0) st = read_file(dir, &mine);
    TX_GOTO(tx_comm_agree(world, st));
    TX_GOTO(spread_text(world, 0, mine.data ? mine.data : "", &text));
    st = *text ? tx_comm_agree(world, tx_products_take(c, text, TX_PRODUCTS_FILE)) : TX_OK;
out:
    tx_str_free(&mine);
    tx_free(text);
    return st;
}

tx_status tx_products_write(const char *text, const char *dir)
{
    char path[4096];
    TX_TRY(tx_make_dirs(dir));
    TX_TRY(tx_path_join(path, sizeof path, dir, TX_PRODUCTS_FILE));
    return tx_file_publish(path, text, strlen(text));
}
