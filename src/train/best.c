/* best.c - keeping the best checkpoint. */
#include "train/best.h"

#include <math.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"

enum { MAX_FILE = 1 << 16 }; /* bytes */

static tx_status path_of(const tx_best *b, char path[4096])
{
    return tx_path_join(path, 4096, b->dir, "best.json");
}

/* Rank 0's. The file of another run, which this one replaces, goes at once; one of a later iteration says nothing. */
static tx_status read_loss(tx_best *b)
{
    char path[4096];
    tx_str text = { 0 };
    json_error_t e;
    TX_TRY(path_of(b, path));
    if (b->t->replaces_run) return tx_remove_tree(path);
    if (!tx_path_exists(path)) return TX_OK;
    TX_TRY(tx_file_read(path, MAX_FILE, &text));
    json_t *all = tx_json_load(text.data ? text.data : "", text.len, 0, &e);
    const json_t *iteration = json_object_get(all, "iteration"), *loss = json_object_get(all, "loss");
    bool sound = json_is_integer(iteration) && json_is_number(loss);
    if (sound && json_integer_value(iteration) <= b->t->iteration) b->loss = json_number_value(loss);
    json_decref(all);
    tx_str_free(&text);
    if (sound) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT,
                   "%s: has no \"iteration\" and \"loss\"; remove the file, and --save-best begins anew with the next "
                   "evaluation",
                   path);
}

tx_status tx_best_open(tx_best *b, tx_trainer *t)
{
    const tx_config *cfg = t->cfg;
    *b = (tx_best){ .loss = INFINITY };
    if (!cfg->save_best || !cfg->save || cfg->skip_train) return TX_OK;
    tx_comm *world = tx_grid_group(t->grid, TX_GROUP_WORLD);
    b->t = t;
    TX_TRY(tx_path_join(b->dir, sizeof b->dir, cfg->save, "best"));
    TX_TRY(tx_comm_agree(world, t->grid->rank == 0 ? read_loss(b) : TX_OK));
    return tx_comm_spread(world, &b->loss, sizeof b->loss, 0);
}

/* Rank 0's: that it is the only one there, and what its loss is. */
static tx_status note(const tx_best *b, double loss)
{
    char path[4096], text[128];
    const tx_trainer *t = b->t;
    int n = snprintf(text, sizeof text, "{\"iteration\": %lld, \"loss\": %.17g}\n", (long long)t->iteration, loss);
    TX_TRY(path_of(b, path));
    TX_TRY(tx_file_publish(path, text, (size_t)n));
    return tx_checkpoint_remove_others(b->dir, tx_save_kind(t->cfg), t->iteration, t->loaded);
}

tx_status tx_best_offer(tx_best *b, double loss)
{
    if (!b->t || !(loss < b->loss)) return TX_OK;
    tx_comm *world = tx_grid_group(b->t->grid, TX_GROUP_WORLD);
    tx_status st = tx_trainer_save_apart(b->t, b->dir);
    if (!st) st = tx_comm_agree(world, b->t->grid->rank == 0 ? note(b, loss) : TX_OK);
    if (st == TX_OK) {
        tx_info("  the lowest validation loss so far, %.6E: saved iteration %7lld to %s", loss,
                (long long)b->t->iteration, b->dir);
        b->loss = loss;
    } else if (b->t->grid->rank == 0) {
        tx_warn("--save-best: iteration %lld, with the lowest validation loss so far, could not be saved; the run goes "
                "on: %s",
                (long long)b->t->iteration, tx_last_error());
    }
    return TX_OK;
}
