/* save_folder.c - what --save names is new, or this run's own. */
#include "api/save_folder.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "convert/save_as.h"

/* What the run in the folder has that this one has not, as parts of a sentence. */
typedef struct other_run {
    tx_str text;
    int64_t newest; /* iteration */
} other_run;

static tx_status note(other_run *o, const char *what)
{
    return tx_str_printf(&o->text, "%s%s", o->text.len ? "; " : "", what);
}

static tx_status compare_vocabulary(other_run *o, const tx_trainer *t, const tx_checkpoint *c)
{
    char text[160];
    int64_t there = tx_checkpoint_state(c)->vocab_size, here = t->model->vocab_size;
    tx_ckpt_tokenizer own;
    TX_TRY(tx_checkpoint_tokenizer(c, false, &own));
    bool same = there == here && (!*own.hash || !t->tokenizer || !strcmp(own.hash, t->tokenizer->hash));
    tx_ckpt_tokenizer_free(&own);
    if (same) return TX_OK;
    if (there == here) return note(o, "its tokenizer is another one");
    snprintf(text, sizeof text, "its vocabulary has %lld tokens, this run's %lld", (long long)there, (long long)here);
    return note(o, text);
}

static tx_status compare_model(other_run *o, const tx_trainer *t, const tx_checkpoint *c)
{
    const char *there = json_string_value(json_object_get(tx_checkpoint_config(c), TX_CLIENT_MODEL));
    const char *here = t->client->model ? t->client->model->name : NULL;
    tx_str shape = { 0 };
    if ((there || here) && (!there || !here || strcmp(there, here))) return note(o, "its model is another one");
    tx_status st = tx_config_shape_differences(t->cfg, tx_checkpoint_config(c), &shape);
    if (!st && shape.len) st = note(o, shape.data);
    tx_str_free(&shape);
    return st;
}

static tx_status compare_native(other_run *o, const tx_trainer *t)
{
    tx_checkpoint *c;
    TX_TRY(tx_checkpoint_open_manifest(&c, t->cfg->save));
    if (tx_checkpoint_state(c)->iteration > o->newest) o->newest = tx_checkpoint_state(c)->iteration; /* under a tag */
    tx_status st = compare_model(o, t, c);
    if (!st) st = compare_vocabulary(o, t, c);
    tx_checkpoint_close(c);
    return st;
}

/* A folder of Megatron's or DeepSpeed's, which this run writes, too. */
static tx_status compare_upstream(other_run *o, const tx_trainer *t)
{
    char text[160];
    tx_source src = { 0 };
    json_t *all = NULL, *options = NULL;
    tx_str shape = { 0 };
    tx_status st;
    TX_GOTO(tx_source_open_unverified(&src, t->cfg->save, NULL, &tx_comm_self));
    TX_GOTO(tx_config_to_json(t->cfg, &all));
    TX_GOTO(src.type->options(&src, all, &options));
    TX_GOTO(tx_config_shape_differences(t->cfg, options, &shape));
    if (shape.len) TX_GOTO(note(o, shape.data));
    snprintf(text, sizeof text, "its vocabulary has %lld tokens, this run's %lld", (long long)src.vocab_size,
             (long long)t->model->vocab_size);
    if (src.state.vocab_size && src.vocab_size != t->model->vocab_size) TX_GOTO(note(o, text));
out:
    tx_str_free(&shape);
    json_decref(options);
    json_decref(all);
    tx_source_close(&src);
    return st;
}

static tx_status compare_run(other_run *o, const tx_trainer *t)
{
    char text[160];
    const tx_ckpt_kind kind = tx_save_kind(t->cfg);
    TX_TRY(tx_checkpoint_newest(t->cfg->save, kind, &o->newest));
    TX_TRY(kind == TX_CKPT_NATIVE ? compare_native(o, t) : compare_upstream(o, t));
    if (o->newest <= t->iteration) return TX_OK;
    snprintf(text, sizeof text, "it is at iteration %lld, this run begins at %lld", (long long)o->newest,
             (long long)t->iteration);
    return note(o, text);
}

/* The run goes on from a checkpoint in its own folder. */
static bool goes_on(const tx_trainer *t)
{
    char parent[4096];
    const char *slash = t->loaded ? strrchr(t->loaded, '/') : NULL;
    if (!slash || t->cfg->finetune || t->cfg->reset_iteration) return false;
    snprintf(parent, sizeof parent, "%.*s", slash == t->loaded ? 1 : (int)(slash - t->loaded), t->loaded);
    return tx_path_is_same(parent, t->cfg->save) || tx_path_is_same(t->loaded, t->cfg->save);
}

/* Somebody wants to go back. */
static tx_status warn_of_later(const tx_trainer *t)
{
    int64_t newest;
    TX_TRY(tx_checkpoint_newest(t->cfg->save, tx_save_kind(t->cfg), &newest));
    if (newest > t->iteration)
        tx_warn(
            "--save %s has iteration %lld, and this run goes on from %lld: later ones stay until it saves them anew",
            t->cfg->save, (long long)newest, (long long)t->iteration);
    return TX_OK;
}

static tx_status refuse(const tx_trainer *t, const other_run *o)
{
    const char *dir = t->cfg->save;
    return TX_FAIL(TX_ERR_ARG,
                   "--save %s holds another run: %s; go on with that one (--load %s), save into another folder, or "
                   "replace it (--overwrite-run)",
                   dir, o->text.data, dir);
}

/* One folder has one format: its file `latest` has room for one. */
static tx_status check_kind(const tx_trainer *t, tx_ckpt_kind kind)
{
    const enum tx_checkpoint_format format = (enum tx_checkpoint_format)kind;
    bool none = kind == TX_CKPT_NONE || kind == TX_CKPT_UNKNOWN, saved = !none && tx_checkpoint_format_is_saved(format);
    /* A Hugging Face model has no state of a run: no start would go on from it. */
    if (none || kind == TX_CKPT_HUGGINGFACE || kind == tx_save_kind(t->cfg)) return TX_OK;
    return TX_FAIL(TX_ERR_ARG,
                   "--save: %s holds %s, and the next start would take that for this run's own "
                   "(--save-format %s): save into another folder%s%s",
                   t->cfg->save, tx_checkpoint_format_what(format), tx_checkpoint_format_word(t->cfg->save_format),
                   saved ? ", or with --save-format " : "", saved ? tx_checkpoint_format_word(format) : "");
}

/* Rank 0's. *replaces: there is a run, and it is to go */
static tx_status check(const tx_trainer *t, bool *replaces)
{
    char detail[512];
    tx_ckpt_kind kind;
    other_run o = { .newest = -1 };
    tx_status st = tx_checkpoint_probe(t->cfg->save, &kind, detail, sizeof detail);
    if (!st) TX_TRY(check_kind(t, kind));
    if (goes_on(t)) return warn_of_later(t);
    if (st && st != TX_ERR_NOMEM && !tx_checkpoint_is_any_in(t->cfg->save))
        return TX_OK; /* nothing that a save could harm */
    if (st) return tx_fail_prefix(st, "--save");
    if (kind != tx_save_kind(t->cfg)) return TX_OK;
    st = compare_run(&o, t);
    *replaces = !st && o.text.len && t->cfg->overwrite_run;
    if (!st && o.text.len && !*replaces) st = refuse(t, &o);
    if (*replaces)
        tx_warn(
            "--overwrite-run: the run in %s (iteration %lld) is removed when this run's first checkpoint is complete",
            t->cfg->save, (long long)o.newest);
    tx_str_free(&o.text);
    return st;
}

tx_status tx__save_folder_check(tx_engine *e)
{
    tx_trainer *t = e->trainer;
    bool replaces = false;
    if (!t->cfg->save) return TX_OK;
    tx_status st = t->grid->rank == 0 ? check(t, &replaces) : TX_OK;
    TX_TRY(tx_comm_agree(tx_grid_group(t->grid, TX_GROUP_WORLD), st));
    t->replaces_run = replaces; /* rank 0 removes */
    return TX_OK;
}
