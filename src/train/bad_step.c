/* bad_step.c - names what went bad in a skipped step, and leaves a replay file when the run stops. */
#include "train/bad_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/replay_file.h"
#include "data/sample_documents.h"
#include "train/non_finite.h"

typedef struct job {
    tx_trainer *t;
    tx_batch_reader *reader;
    tx_bad_iteration bad;
    tx_non_finite found;
    tx_str documents;
} job;

static int64_t micro_begin(const job *j, int64_t micro)
{
    return tx_train_position(j->t->cfg, j->bad.iteration, j->bad.consumed_train_samples) + micro * j->t->b;
}

static tx_status read_micro(void *user, int64_t micro, const void **rows)
{
    job *j = user;
    TX_TRY(tx_batch_reader_read(j->reader, j->t, micro_begin(j, micro)));
    *rows = j->reader->rows;
    return TX_OK;
}

static tx_status look(job *j)
{
    TX_TRY(tx_non_finite_search(j->t, &j->bad, read_micro, j, &j->found));
    if (!j->found.found)
        snprintf(j->found.text, sizeof j->found.text,
                 "nothing, when it ran again: this machine computes the same in two ways, look at its memory");
    TX_TRY(tx_batch_reader_read(j->reader, j->t, micro_begin(j, j->found.micro)));
    TX_TRY(tx_sample_documents(&j->documents, j->reader->data, j->reader->sample, j->t->b));
    tx_warn("iteration %lld: %s; its samples are of %s", (long long)j->bad.iteration, j->found.text, j->documents.data);
    return TX_OK;
}

/* ---- the replay file ---- */

/* The micro-batches up to the one with the finding; of many the last ones. */
static tx_status read_ids(job *j, tx_replay_file *r)
{
    int64_t row = tx_trainer_row_len(j->t), size = j->t->b * row, n = j->found.micro + 1;
    if (n > TX_REPLAY_MAX_IDS / size) n = TX_REPLAY_MAX_IDS / size > 1 ? TX_REPLAY_MAX_IDS / size : 1;
    r->first_micro = j->found.micro + 1 - n;
    r->n_rows = n * j->t->b;
    r->row = row;
    TX_TRY(tx_alloc(&r->id, (size_t)(n * size), sizeof *r->id, "the ids of a replay file"));
    for (int64_t i = 0; i < n; i++) {
        TX_TRY(tx_batch_reader_read(j->reader, j->t, micro_begin(j, r->first_micro + i)));
        memcpy(r->id + i * size, j->reader->rows, (size_t)size * sizeof *r->id);
    }
    return TX_OK;
}

/* The run's own flags, without those that write, from the checkpoint that its state was in last. */
static tx_status make_flags(const tx_trainer *t, json_t **out)
{
    static const char *const to_own[] = {
        "load",     "load_tag",      "load_latest_good", "async_save",       "keep_last",
        "threads",  "save",          "save_interval",    "max_failed_saves", "dump_step",
        "finetune", "no_load_optim", "no_load_lr_state", "reset_iteration",  NULL
    };
    static const char *const to_other[] = { "load",    "load_tag", "load_latest_good", "async_save",       "keep_last",
                                            "threads", "save",     "save_interval",    "max_failed_saves", "dump_step",
                                            NULL };
    TX_TRY(tx_config_to_flags(t->cfg, t->origin_own ? to_own : to_other, out));
    char *whole = t->origin ? realpath(t->origin, NULL) : NULL;
    const char *path = whole ? whole : t->origin;
    bool failed = json_array_append_new(*out, json_sprintf("--threads=%d", t->ctx.n_threads)) ||
                  (path && json_array_append_new(*out, json_sprintf("--load=%s", path)));
    free(whole);
    if (!failed) return TX_OK;
    json_decref(*out);
    *out = NULL;
    return TX_FAIL(TX_ERR_ARG, "the flags of the run cannot be kept: a path is not UTF-8, or memory is short");
}

static tx_status write_replay(job *j, const char *path)
{
    const tx_trainer *t = j->t;
    tx_replay_file r = { .command = t->cfg->command->name,
                         .iteration = j->bad.iteration,
                         .consumed_train_samples = j->bad.consumed_train_samples,
                         .skipped_before = t->consecutive_skips - 1,
                         .vocab_size = t->model->vocab_size,
                         .eod = t->eod };
    tx_status st;
    TX_GOTO(make_flags(t, &r.flags));
    r.found = json_string(j->found.text);
    r.documents = json_string(j->documents.data);
    if (!r.found || !r.documents) {
        st = TX_FAIL(TX_ERR_ARG, "a dataset's path is not UTF-8, or memory is short");
        goto out;
    }
    TX_GOTO(read_ids(j, &r));
    if (t->cfg->save) TX_GOTO(tx_make_dirs(t->cfg->save));
    TX_GOTO(tx_replay_file_write(&r, path));
out:
    tx_replay_file_free(&r);
    return st;
}

static tx_status leave(job *j)
{
    const tx_config *cfg = j->t->cfg;
    char name[64], path[4096];
    snprintf(name, sizeof name, TX_REPLAY_PREFIX "%lld.json", (long long)j->bad.iteration);
    tx_status st = tx_path_join(path, sizeof path, cfg->save ? cfg->save : ".", name);
    if (!st) st = write_replay(j, path);
    if (st) tx_warn("no replay file was left: %s", tx_last_error());
    return TX_FAIL(TX_ERR_NUMERIC,
                   "--max-consecutive-skips %lld: so many iterations in a row were skipped, up to %lld; nothing was "
                   "saved. %s%.900s. %s",
                   (long long)j->t->consecutive_skips, (long long)j->bad.iteration,
                   st ? "Lower --lr, or look at the data" : "To see it again: triax replay ", st ? "" : path,
                   j->found.text);
}

tx_status tx_bad_step(tx_trainer *t, tx_batch_reader *from, bool stop)
{
    job j = { .t = t,
              .reader = from,
              .bad = { .iteration = t->iteration,
                       .consumed_train_samples = t->consumed_train_samples - t->n_micro * t->b,
                       .n_micro = t->n_micro } };
    tx_status st = look(&j);
    if (!st && stop) st = leave(&j);
    tx_str_free(&j.documents);
    return st;
}
