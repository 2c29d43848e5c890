/* background_save.c - attempts at saving a copy of the training state, beside the steps. */
#include "train/background_save.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"

#define LONG_WAIT 1.0 /* seconds: worth a line */

enum {
    MAX_PAUSE = 64,   /* iterations between two attempts */
    LAST_ATTEMPTS = 3 /* at the end of a run, a second apart */
};

static long long iteration_of(const tx_background_save *b)
{
    return (long long)b->what.state.iteration;
}

bool tx_background_save_writes(const tx_background_save *b)
{
    return b->under_way && b->threaded && !atomic_load(&b->written);
}

/* ---- the thread ---- */

static void *write_beside(void *user)
{
    tx_background_save *b = user;
    tx_thread_stand_back();
    tx_checkpoint_save_write(b->save);
    atomic_store(&b->written, true);
    return NULL;
}

/* Where the system gives no thread, the rank's own writes. */
static void start_thread(tx_background_save *b)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are for the threads that ask for them */
    atomic_store(&b->written, false);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    b->threaded = !pthread_create(&b->thread, NULL, write_beside, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (b->threaded) return;
    tx_warn("--async-save: the system starts no thread; the step waits for the checkpoint");
    tx_checkpoint_save_write(b->save);
}

static void join(tx_background_save *b)
{
    if (b->threaded) pthread_join(b->thread, NULL);
    b->threaded = false;
}

/* ---- attempts ---- */

static void forget(tx_background_save *b)
{
    tx_snapshot_free(&b->what);
    b->pending = false;
    b->n_failed = 0;
}

/* What may be better another time. */
static bool is_curable(tx_status st)
{
    return st == TX_ERR_IO || st == TX_ERR_NOTFOUND || st == TX_ERR_NOMEM;
}

/* How an attempt went on all ranks. A rank that itself did well has TX_ERR_COMM, or in another group nothing: the cause
 * is what any has else. *failed: it can be made again. */
static tx_status judge(tx_background_save *b, tx_status st, bool *failed)
{
    tx_comm *world = b->t->grid->world;
    int mine = (int)st, cause = mine, n = tx_comm_size(world), *all;
    *failed = false;
    snprintf(b->why, sizeof b->why, "%s", st ? tx_last_error() : "another rank could not save");
    if (n > 1) {
        TX_TRY(tx_alloc(&all, (size_t)n, sizeof *all, "the ranks' results"));
        tx_status gathered = tx_comm_gather(world, all, &mine, sizeof mine);
        for (int i = 0; i < n && !gathered; i++)
            if (all[i] && (!cause || cause == TX_ERR_COMM)) cause = all[i];
        tx_free(all);
        TX_TRY(gathered);
    }
    b->why_status = (tx_status)cause;
    if (!cause) return TX_OK;
    *failed = is_curable((tx_status)cause);
    return *failed ? TX_OK : TX_FAIL_LINES(st ? st : TX_ERR_COMM, "%s", b->why);
}

/* The first attempt after a failure comes at once, the others after 1, 2, 4, ... iterations. */
static void note_failure(tx_background_save *b)
{
    int64_t pause = b->n_failed > 6 ? MAX_PAUSE : b->n_failed ? (int64_t)1 << (b->n_failed - 1) : 0;
    b->n_failed++;
    b->retry_at = b->t->iteration + pause;
    if (b->t->grid->rank == 0)
        tx_warn("iteration %lld is not saved yet, attempt %d failed: %s", iteration_of(b), b->n_failed, b->why);
}

static tx_status attempt(tx_background_save *b)
{
    bool failed;
    b->since = tx_clock();
    b->save = NULL;
    TX_TRY(judge(b, tx__trainer_save_begin(b->t, &b->what, b->dir, &b->save), &failed));
    if (failed)
        note_failure(b);
    else
        b->under_way = true;
    if (!failed && b->save) start_thread(b);
    return TX_OK;
}

static tx_status finish(tx_background_save *b)
{
    bool failed;
    join(b);
    tx_status st = b->save ? tx_checkpoint_save_finish(b->save) : TX_OK;
    b->save = NULL;
    b->under_way = false;
    TX_TRY(judge(b, st, &failed));
    if (failed) {
        note_failure(b);
        return TX_OK;
    }
    tx_info("  successfully saved checkpoint at iteration %7lld to %s, in %.1f s beside the steps", iteration_of(b),
            b->dir, tx_clock() - b->since);
    int64_t iteration = b->what.state.iteration;
    forget(b);
    return tx__trainer_saved(b->t, b->dir, &(tx_ckpt_state){ .iteration = iteration });
}

tx_status tx_background_save_start(tx_background_save *b)
{
    TX_ASSERT(!b->pending && !b->under_way);
    TX_TRY(tx_trainer_snapshot(b->t, &b->what, true));
    b->pending = true;
    return attempt(b);
}

tx_status tx_background_save_step(tx_background_save *b, bool all_written)
{
    if (b->under_way && all_written) TX_TRY(finish(b));
    if (b->pending && !b->under_way && b->t->iteration >= b->retry_at) return attempt(b);
    return TX_OK;
}

tx_status tx_background_save_settle(tx_background_save *b, bool last)
{
    double since = tx_clock();
    bool waits = tx_background_save_writes(b);
    for (int i = 0; b->pending; i++) {
        if (b->under_way) TX_TRY(finish(b));
        if (!b->pending || !last || i == LAST_ATTEMPTS) break;
        if (i) nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
        TX_TRY(attempt(b));
    }
    if (waits && tx_clock() - since > LONG_WAIT)
        tx_info(
            "  waited %.1f s until the last checkpoint was written: the disk takes longer than the steps in between",
            tx_clock() - since);
    if (!b->pending) return TX_OK;
    if (last) return TX_FAIL_LINES(b->why_status, "%s", b->why);
    if (b->t->grid->rank == 0)
        tx_warn("iteration %lld was never saved, %d attempts failed: it is given up for iteration %lld",
                iteration_of(b), b->n_failed, (long long)b->t->iteration);
    forget(b);
    return TX_OK;
}

void tx_background_save_close(tx_background_save *b, tx_status st)
{
    char why[2048];
    snprintf(why, sizeof why, "%s", tx_last_error());
    join(b);
    if (b->under_way && (st == TX_ERR_NUMERIC || b->t->grid->size == 1)) /* which comes to all ranks alike */
        (void)finish(b);
    else if (b->save)
        tx_checkpoint_save_abandon(b->save);
    forget(b);
    b->save = NULL;
    b->under_way = false;
    if (st) (void)TX_FAIL_LINES(st, "%s", why);
}
