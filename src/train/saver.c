/* saver.c - attempts at saving the training state, and what comes of those that fail. */
#include "train/saver.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/file.h"
#include "base/log.h"

#define LONG_WAIT 1.0 /* seconds: worth a line */

enum {
    MAX_PAUSE = 64,   /* iterations between two attempts */
    LAST_ATTEMPTS = 3 /* more at the end of a run, a second apart */
};

/* Whether the run was loaded from the very checkpoint that saving it now would write. */
static bool is_there(const tx_trainer *t)
{
    char path[4096];
    return t->cfg->save && t->loaded &&
           !tx_checkpoint_path_of(path, sizeof path, t->cfg->save, tx_save_kind(t->cfg), t->iteration, NULL) &&
           tx_path_is_same(path, t->loaded);
}

tx_status tx_saver_open(tx_saver *s, tx_trainer *t)
{
    *s = (tx_saver){ .t = t, .dir = t->cfg->save, .iteration = -1, .good = -1 };
    bool there = is_there(t);
    TX_TRY(tx_alloc(&s->results, (size_t)t->grid->size, sizeof *s->results, "the ranks' results"));
    TX_TRY(tx_comm_spread(tx_grid_group(t->grid, TX_GROUP_WORLD), &there, sizeof there, 0));
    if (there) s->iteration = t->iteration;
    if (there && t->grid->rank == 0 && tx_checkpoint_clean_up(s->dir)) tx_warn("--save: %s", tx_last_error());
    return TX_OK;
}

/* ---- space ---- */

int64_t tx__saver_to_come(const tx_config *cfg, int64_t iteration, int64_t tokens)
{
    int64_t last = cfg->train_iters, batch = cfg->global_batch_size * cfg->seq_length;
    if (cfg->train_tokens) { /* shorter batches at the beginning make it more iterations: a warning less */
        int64_t left = tokens < cfg->train_tokens ? (cfg->train_tokens - tokens + batch - 1) / batch : 0;
        if (left < last - iteration) last = iteration + left;
    }
    if (cfg->given.exit_interval) {
        int64_t leaves = (iteration / cfg->exit_interval + 1) * cfg->exit_interval;
        if (leaves < last) last = leaves;
    }
    if (last <= iteration || cfg->skip_train) return 0;
    if (!cfg->given.save_interval) return 1;
    return last / cfg->save_interval - iteration / cfg->save_interval + (last % cfg->save_interval != 0);
}

/* Rank 0's. @each bytes of a checkpoint   @passing more while one is saved   @n saves to come */
static tx_status look_for_space(const tx_saver *s, int64_t each, int64_t passing, int64_t n)
{
    const tx_config *cfg = s->t->cfg;
    uint64_t have;
    int64_t there;
    char keeps[100] = "all of them stay";
    TX_TRY(tx_make_dirs(s->dir));
    TX_TRY(tx_checkpoint_free_space(s->dir, &have));
    TX_TRY(tx_checkpoint_count(s->dir, tx_save_kind(cfg), s->t->iteration + 1, s->t->loaded, &there));
    int64_t more = tx_checkpoint_more(n, cfg->keep_last, there);
    if ((uint64_t)(more * each + passing) + TX_CKPT_SPARE <= have) return TX_OK;
    if (cfg->keep_last)
        snprintf(keeps, sizeof keeps, "--keep-last %lld and the one being written", (long long)cfg->keep_last);
    tx_warn("--save %s: a checkpoint takes %.1f MB, %lld more than now will lie there (%s), %.1f MB, and %.1f MB are "
            "free: make room, keep fewer (--keep-last), save less often (--save-interval) or save somewhere else",
            s->dir, (double)each / 1e6, (long long)more, keeps, ((double)more * (double)each + (double)passing) / 1e6,
            (double)have / 1e6);
    return TX_OK;
}

tx_status tx_saver_foresee(const tx_saver *s)
{
    tx_trainer *t = s->t;
    tx_comm *world = tx_grid_group(t->grid, TX_GROUP_WORLD);
    int64_t n = tx__saver_to_come(t->cfg, t->iteration, t->consumed_train_tokens), mine[2], all[2] = { 0 };
    int64_t(*bytes)[2] = NULL; /* of a checkpoint, and passing */
    if (!s->dir || !n) return TX_OK;
    mine[0] = tx__trainer_save_bytes(t, &mine[1]);
    tx_status st = tx_alloc(&bytes, (size_t)t->grid->size, sizeof *bytes, "the ranks' bytes");
    TX_GOTO(tx_comm_agree(world, st));
    TX_GOTO(tx_comm_gather(world, bytes, mine, sizeof mine));
    for (int i = 0; i < 2 * t->grid->size; i++) all[i % 2] += bytes[i / 2][i % 2];
    if (t->grid->rank == 0) st = look_for_space(s, all[0], all[1], n);
    if (st && st != TX_ERR_NOMEM) { /* a folder may be there when it is needed */
        tx_warn("--save: %s", tx_last_error());
        st = TX_OK;
    }
    st = tx_comm_agree(world, st);
out:
    tx_free(bytes);
    return st;
}

bool tx_saver_writes(const tx_saver *s)
{
    return s->under_way && s->threaded && !atomic_load(&s->written);
}

/* ---- the thread ---- */

static void *write_beside(void *user)
{
    tx_saver *s = user;
    tx_thread_stand_back();
    tx_save_write(s->save);
    atomic_store(&s->written, true);
    return NULL;
}

/* Where the system gives no thread, the rank's own writes. */
static void start_thread(tx_saver *s)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are for the threads that ask for them */
    atomic_store(&s->written, false);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    s->threaded = !pthread_create(&s->thread, NULL, write_beside, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (s->threaded) return;
    tx_warn("--async-save: the system starts no thread; the step waits for the checkpoint");
    tx_save_write(s->save);
}

/* Beside the steps, or before the next one. */
static void write_now(tx_saver *s)
{
    s->under_way = true;
    if (!s->save) return;
    if (s->beside)
        start_thread(s);
    else
        tx_save_write(s->save);
}

static void join(tx_saver *s)
{
    if (s->threaded) pthread_join(s->thread, NULL);
    s->threaded = false;
}

/* ---- failures ---- */

static void forget(tx_saver *s)
{
    tx_snapshot_free(&s->what);
    s->pending = false;
    s->n_failed = 0;
}

/* What may be better another time. */
static bool is_curable(tx_status st)
{
    return st == TX_ERR_IO || st == TX_ERR_NOTFOUND || st == TX_ERR_NOMEM;
}

/* How an attempt went on all ranks. A rank that itself did well has TX_ERR_COMM, or in another group nothing: the cause
 * is what any has else. *failed: it can be made again. */
static tx_status judge(tx_saver *s, tx_status st, bool *failed)
{
    tx_comm *world = tx_grid_group(s->t->grid, TX_GROUP_WORLD);
    int mine = (int)st, cause = mine, n = tx_comm_size(world);
    *failed = false;
    snprintf(s->why, sizeof s->why, "%s", st ? tx_last_error() : "another rank could not save");
    if (n > 1) {
        TX_TRY(tx_comm_gather(world, s->results, &mine, sizeof mine));
        for (int i = 0; i < n; i++)
            if (s->results[i] && (!cause || cause == TX_ERR_COMM)) cause = s->results[i];
    }
    s->why_status = (tx_status)cause;
    if (!cause) return TX_OK;
    *failed = is_curable((tx_status)cause);
    return *failed ? TX_OK : TX_FAIL_LINES(st ? st : TX_ERR_COMM, "%s", s->why);
}

/* Beside the steps the first attempt after a failure comes at once, the others after 1, 2, 4, ... iterations. While
 * steps stand still for the save in mid-run it is given up at once, which is the warning. */
static void note_failure(tx_saver *s)
{
    int64_t pause = s->n_failed > 6 ? MAX_PAUSE : s->n_failed ? (int64_t)1 << (s->n_failed - 1) : 0;
    s->n_failed++;
    s->retry_at = s->t->iteration + pause;
    if (s->t->grid->rank || (!s->beside && !s->ending)) return;
    tx_warn("iteration %lld is not saved yet, attempt %d failed: %s", (long long)s->iteration, s->n_failed, s->why);
}

/* "and RUN/iter_0000004 is the last good checkpoint". It stays: only a save that succeeds removes any (--keep-last). */
static void good_text(const tx_saver *s, char *text, size_t cap)
{
    char own[3072];
    const char *path = s->t->loaded;
    if (s->good >= 0 && !tx_checkpoint_path_of(own, sizeof own, s->dir, tx_save_kind(s->t->cfg), s->good, NULL))
        path = own;
    if (path)
        snprintf(text, cap, "%.3072s is the last good checkpoint", path);
    else
        snprintf(text, cap, "no save of this run has succeeded yet");
}

/* The pending iteration will not be saved. @last: the run ends, and a later iteration is still to be saved */
static tx_status give_up(tx_saver *s, bool last)
{
    char good[3200];
    long long n = ++s->n_given_up, most = s->t->cfg->max_failed_saves;
    int n_failed = s->n_failed;
    good_text(s, good, sizeof good);
    forget(s);
    if (n > most && !last)
        return TX_FAIL_LINES(s->why_status,
                             "--max-failed-saves %lld: %lld save%s in a row failed, the last one that of iteration "
                             "%lld; %s: %s",
                             most, n, n == 1 ? "" : "s", (long long)s->iteration, good, s->why);
    if (s->t->grid->rank == 0)
        tx_warn("iteration %lld was never saved, %d attempt%s failed; the run goes on, and %s (saves that failed in a "
                "row: %lld; --max-failed-saves: %lld): %s",
                (long long)s->iteration, n_failed, n_failed == 1 ? "" : "s", good, n, most, s->why);
    s->iteration = -1;
    return TX_OK;
}

/* ---- attempts ---- */

/* Of one write: behind it there may be another under way (convert/save_as.h). */
static tx_status finish(tx_saver *s)
{
    bool failed, more = false;
    join(s);
    tx_status st = s->save ? tx_save_finish(s->save, &more) : TX_OK;
    if (!more) s->save = NULL;
    s->under_way = false;
    TX_TRY(judge(s, st, &failed));
    if (more && !failed) {
        write_now(s);
        return TX_OK;
    }
    if (failed) {
        note_failure(s);
        return TX_OK;
    }
    char how[64] = "";
    if (s->beside) snprintf(how, sizeof how, ", in %.1f s beside the steps", tx_clock() - s->since);
    tx_info("  successfully saved checkpoint at iteration %7lld to %s%s", (long long)s->iteration, s->dir, how);
    forget(s);
    s->good = s->iteration;
    s->n_given_up = 0;
    return tx__trainer_saved(s->t, s->dir, &(tx_ckpt_state){ .iteration = s->iteration });
}

/* A snapshot that there was no memory for is taken at the next attempt: beside the steps of a later iteration. */
static tx_status begin(tx_saver *s)
{
    s->save = NULL;
    if (!s->what.config) {
        s->iteration = s->t->iteration;
        TX_TRY(tx_trainer_snapshot(s->t, &s->what, s->beside));
    }
    return tx__trainer_save_begin(s->t, &s->what, s->dir, &s->save);
}

static tx_status attempt(tx_saver *s)
{
    bool failed;
    s->since = tx_clock();
    TX_TRY(judge(s, begin(s), &failed));
    if (failed) {
        note_failure(s);
        return TX_OK;
    }
    write_now(s);
    while (s->under_way && !s->beside) TX_TRY(finish(s));
    return TX_OK;
}

/* The first attempt at the trainer's iteration. */
static tx_status start(tx_saver *s, bool beside)
{
    TX_ASSERT(!s->pending && !s->under_way);
    s->pending = true;
    s->beside = beside;
    s->iteration = s->t->iteration;
    return attempt(s);
}

/* Until nothing is under way. */
static tx_status settle(tx_saver *s)
{
    double since = tx_clock();
    bool waits = tx_saver_writes(s);
    while (s->under_way) TX_TRY(finish(s));
    if (waits && tx_clock() - since > LONG_WAIT)
        tx_info(
            "  waited %.1f s until the last checkpoint was written: the disk takes longer than the steps in between",
            tx_clock() - since);
    return TX_OK;
}

tx_status tx_saver_save(tx_saver *s)
{
    TX_TRY(settle(s));
    if (s->pending) TX_TRY(give_up(s, false));
    tx_info("saving checkpoint at iteration %7lld to %s", (long long)s->t->iteration, s->dir);
    TX_TRY(start(s, s->t->cfg->async_save));
    return s->pending && !s->beside ? give_up(s, false) : TX_OK;
}

tx_status tx_saver_step(tx_saver *s, bool all_written)
{
    if (s->under_way && all_written) TX_TRY(finish(s));
    if (s->pending && !s->under_way && s->t->iteration >= s->retry_at) return attempt(s);
    return TX_OK;
}

tx_status tx_saver_save_last(tx_saver *s)
{
    s->ending = true;
    TX_TRY(settle(s));
    if (s->pending && s->iteration != s->t->iteration) TX_TRY(give_up(s, true));
    if (tx_saver_has(s)) return TX_OK;
    if (!s->pending) {
        tx_info("saving checkpoint at iteration %7lld to %s", (long long)s->t->iteration, s->dir);
        TX_TRY(start(s, false));
    }
    s->beside = false;
    for (int i = 0; s->pending && i < LAST_ATTEMPTS; i++) {
        if (i) nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
        TX_TRY(attempt(s));
    }
    if (!s->pending) return TX_OK;
    char good[3200];
    good_text(s, good, sizeof good);
    return TX_FAIL_LINES(s->why_status, "iteration %lld is not saved, %d attempts failed; %s: %s",
                         (long long)s->iteration, s->n_failed, good, s->why);
}

void tx_saver_close(tx_saver *s, tx_status st)
{
    char why[sizeof s->why];
    if (!s->t) return; /* it was not opened */
    snprintf(why, sizeof why, "%s", tx_last_error());
    join(s);
    if (st == TX_ERR_NUMERIC || s->t->grid->size == 1) /* which comes to all ranks alike */
        while (s->under_way && !finish(s)) continue;
    tx_save_abandon(s->save);
    forget(s);
    tx_free(s->results);
    s->results = NULL;
    s->save = NULL;
    s->under_way = false;
    if (st) (void)TX_FAIL_LINES(st, "%s", why);
}
