/* replay.c - the whole of `triax replay`: the state that a run had before the iteration at which it stopped, and that
 * iteration once more, watched. */
#include <stdio.h>
#include <string.h>

#include "api/engine_internal.h"
#include "api/run_common.h"
#include "api/tokenizer_of.h"
#include "base/alloc.h"
#include "base/log.h"
#include "checkpoint/replay_file.h"
#include "train/loop.h"
#include "train/non_finite.h"
#include "triax/jobs.h"

typedef struct replay {
    const char *path;
    tx_replay_file file;
    tx_config *cfg; /* of the run */
    tx_engine *engine;
    tx_tokenizer *tok; /* where its data have to be read, and need one */
    tx_train_data *data;
} replay;

/* The run's flags; --threads and --device of this command win. */
static tx_status parse_flags(replay *r, const tx_config *cfg)
{
    size_t n = json_array_size(r->file.flags);
    char threads[64], device[64], **arg;
    TX_TRY(tx_alloc(&arg, n + 2, sizeof *arg, "the flags of a run"));
    for (size_t i = 0; i < n; i++) arg[i] = (char *)json_string_value(json_array_get(r->file.flags, i));
    snprintf(threads, sizeof threads, "--threads=%lld", (long long)cfg->threads);
    snprintf(device, sizeof device, "--device=%s", tx_device_choice_word(cfg->device));
    if (cfg->given.threads) arg[n++] = threads;
    if (cfg->given.device) arg[n++] = device;
    tx_status st = tx_config_parse(&r->cfg, r->file.command, (int)n, arg);
    tx_free(arg);
    if (!st && r->cfg->given.dump_step)
        st = TX_FAIL(TX_ERR_ARG, "--dump-step writes, which a replay does not: leave it out there");
    return st ? tx_fail_prefix(st, "%s: its flags", r->path) : TX_OK;
}

static tx_status restore(replay *r)
{
    tx_source src;
    TX_TRY(tx_source_open_for_run(&src, r->cfg, &tx_comm_self));
    const tx__engine_vocabulary v = { r->file.vocab_size, r->file.vocab_size, r->file.eod };
    tx_status st = tx__engine_create(&r->engine, r->cfg, &src, &v, NULL);
    tx_source_close(&src);
    return st;
}

/* What the file says fits what its flags made. */
static tx_status check(const replay *r)
{
    const tx_replay_file *f = &r->file;
    const tx_trainer *t = r->engine->trainer;
    int64_t n_micro = tx_config_batch_size(r->cfg, f->consumed_train_samples) / t->b;
    if (f->row != tx_trainer_row_len(t) || f->n_rows % t->b || f->n_rows / t->b > n_micro - f->first_micro)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %lld samples of %lld ids are no micro-batches of its flags' run", r->path,
                       (long long)f->n_rows, (long long)f->row);
    if (t->iteration >= f->iteration)
        return TX_FAIL(TX_ERR_STATE, "%s: iteration %lld cannot run from --load %s, which is at iteration %lld",
                       r->path, (long long)f->iteration, r->cfg->load ? r->cfg->load : "(none)",
                       (long long)t->iteration);
    if (f->iteration > r->cfg->train_iters)
        return TX_FAIL(TX_ERR_FORMAT, "%s: iteration %lld is behind the last one of its flags' run", r->path,
                       (long long)f->iteration);
    return TX_OK;
}

/* The updates between the checkpoint and the iterations that were skipped right before. */
static tx_status catch_up(replay *r)
{
    tx_trainer *t = r->engine->trainer;
    int64_t first = t->iteration + 1, last = r->file.iteration - 1 - r->file.skipped_before;
    if (first > last) return TX_OK;
    tx_info("> running iterations %lld to %lld again, up to the skipped ones ...", (long long)first, (long long)last);
    tx_status st = tx_train_data_prepare(r->cfg);
    if (st)
        return tx_fail_prefix(st, "%s: iterations %lld to %lld need the data", r->path, (long long)first,
                              (long long)last);
    if (tx_samples_need_tokenizer(r->cfg)) TX_TRY(tx__tokenizer_at_load(r->cfg, &r->tok));
    TX_TRY(tx__run_data_open(&r->data, r->cfg, r->file.vocab_size, r->file.eod, r->tok));
    TX_TRY(tx__run_data_carry(t, r->data));
    return tx_train_until(t, r->data, last);
}

static tx_status read_micro(void *user, int64_t micro, const void **rows)
{
    const replay *r = user;
    int64_t size = r->engine->trainer->b * r->file.row, at = micro - r->file.first_micro;
    TX_ASSERT(at >= 0 && at * r->engine->trainer->b < r->file.n_rows);
    *rows = r->file.id + at * size;
    return TX_OK;
}

static tx_status run_again(replay *r)
{
    const tx_replay_file *f = &r->file;
    tx_trainer *t = r->engine->trainer;
    tx_bad_iteration bad = { .iteration = f->iteration,
                             .consumed_train_samples = f->consumed_train_samples,
                             .first_micro = f->first_micro,
                             .n_micro = f->n_rows / t->b };
    const char *before = json_string_value(f->found);
    tx_non_finite now;
    TX_TRY(tx_non_finite_search(t, &bad, read_micro, r, &now));
    tx_info("the run found at iteration %lld: %s", (long long)f->iteration, before);
    tx_info("its samples are of %s", json_string_value(f->documents));
    if (now.found && !strcmp(now.text, before)) {
        tx_info("found again: the same");
        return TX_OK;
    }
    return TX_FAIL(TX_ERR_NUMERIC, "%s: iteration %lld ran again, but not the same was found: %s", r->path,
                   (long long)f->iteration, now.found ? now.text : "every value was finite");
}

tx_status tx_replay(const tx_config *cfg)
{
    replay r = { .path = cfg->replay_file };
    tx_status st;
    TX_GOTO(tx_replay_file_read(&r.file, r.path));
    TX_GOTO(parse_flags(&r, cfg));
    TX_GOTO(restore(&r));
    TX_GOTO(check(&r));
    TX_GOTO(catch_up(&r));
    TX_GOTO(run_again(&r));
out:
    tx_train_data_close(r.data);
    tx_tokenizer_close(r.tok);
    tx_engine_destroy(r.engine);
    tx_config_free(r.cfg);
    tx_replay_file_free(&r.file);
    return st;
}
