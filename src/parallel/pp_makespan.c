/* pp_makespan.c - how long a pipeline takes, without its instruction lists.
 *
 *  1F1B goes in rounds. In round r stage i does its step k = r - (p - 1 - i): the forward of unit k + ahead(i), then
 * the backward of unit k, where there are such (pp_schedule.c numbers units). Then all messages that a round needs are
 * of the round before it; without chunks those forward are of the stage before in the same round. So what comes after a
 *  round depends on three numbers of each stage alone: when it has ended, and when its last outputs were computed.
 *
 *      p = 2, m = 3        round    0    1      2      3      4
 *                          stage 0  F0   F1 B0  F2 B1  B2
 *                          stage 1  F0 B0  F1 B1 ...            (its step k is of round k)
 *
 *  With ZB-H1 step k of stage i is also the weights' part of unit k - i, if it has come so far. Nobody waits for it but
 * its own stage.
 *
 *  If these numbers are those of q rounds ago plus the same time for all, and rounds in between are all of the same
 * kind, every further q rounds take that time as well: sums and maxima know nothing of an absolute time. */
#include <math.h>

#include "base/alloc.h"
#include "parallel/pp_times.h"

enum { FWD, BWD, MOST_KEPT = 64 };

typedef struct rounds {
    const tx_pp_shape *s;
    const tx_pp_times *t;
    int total;          /* units */
    int period;         /* rounds after which the same chunks are at work */
    double *end;        /* [p] */
    double *now[2];     /* [p] when the outputs of this round were computed */
    double *before[2];  /* [p] likewise those of the round before */
    double *kept;       /* [n_kept, 3p] the numbers of rounds ago, one a period, the last at n_seen % n_kept */
    int n_kept, n_seen; /* room for; that came */
} rounds;

tx_status tx_pp_check_times(const tx_pp_shape *s, const tx_pp_times *t)
{
    const double *all[] = { t->fwd, t->bwd, t->bwd_last, t->message[FWD], t->message[BWD], t->wgt, t->wgt_last };
    TX_TRY(tx_pp_check_shape(s));
    TX_ASSERT(t->wgt || s->kind != TX_PP_ZBH1);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (int v = 0; all[k] && v < s->p * s->n_chunks; v++)
            if (!(all[k][v] >= 0 && isfinite(all[k][v])))
                return TX_FAIL(TX_ERR_ARG, "stage %d, chunk %d: %g is no time", v % s->p, v / s->p, all[k][v]);
    return TX_OK;
}

static double time_of(const double *message, int at)
{
    return message ? message[at] : 0;
}

static void compute(double *end, double ready, double cost)
{
    *end = (ready > *end ? ready : *end) + cost;
}

static void forward(rounds *f, int i, int unit)
{
    int p = f->s->p, n_chunks = f->s->n_chunks, v = (unit / p) % n_chunks * p + i;
    const double *from = n_chunks > 1 ? f->before[FWD] : f->now[FWD];
    double ready = v ? from[i ? i - 1 : p - 1] + time_of(f->t->message[FWD], v - 1) : 0;
    compute(&f->end[i], ready, f->t->fwd[v]);
    f->now[FWD][i] = f->end[i];
}

static void backward(rounds *f, int i, int unit)
{
    int p = f->s->p, n_chunks = f->s->n_chunks, v = (n_chunks - 1 - (unit / p) % n_chunks) * p + i;
    bool last = n_chunks > 1 ? unit >= f->total - n_chunks * p && unit % p == p - 1 : unit == f->total - 1;
    const double *cost = last && f->t->bwd_last ? f->t->bwd_last : f->t->bwd;
    double ready =
        v < n_chunks * p - 1 ? f->before[BWD][i < p - 1 ? i + 1 : 0] + time_of(f->t->message[BWD], v + 1) : 0;
    compute(&f->end[i], ready, cost[v]);
    f->now[BWD][i] = f->end[i];
}

static void weights(rounds *f, int i, int unit)
{
    const double *cost = unit == f->total - 1 && f->t->wgt_last ? f->t->wgt_last : f->t->wgt;
    f->end[i] += cost[i];
}

static void do_round(rounds *f, int r)
{
    int p = f->s->p, n_chunks = f->s->n_chunks;
    for (int d = 0; d < 2; d++) {
        double *swap = f->before[d];
        f->before[d] = f->now[d];
        f->now[d] = swap;
    }
    for (int i = 0; i < p; i++) {
        int after = p - 1 - i, k = r - after, unit = k + (n_chunks > 1 ? 2 * after + (n_chunks - 1) * p : after);
        if (unit >= 0 && unit < f->total) forward(f, i, unit);
        if (k >= 0 && k < f->total) backward(f, i, k);
        if (f->s->kind == TX_PP_ZBH1 && k >= i) weights(f, i, k - i);
    }
}

/* ---------------------------------------------------------------- repetitions */

static double *kept_at(const rounds *f, int seen)
{
    return f->kept + (size_t)(seen % f->n_kept) * 3 * (size_t)f->s->p;
}

/* Whether all numbers have grown by the same since then. */
static bool grown_alike(const double *now, const double *then, int n, double *by)
{
    double grown = *by = now[0] - then[0];
    for (int i = 1; i < n; i++)
        if (fabs(now[i] - then[i] - grown) > 1e-11 * grown) return false;
    return true;
}

/* Keeps the numbers of this round, and looks for those that they repeat: the number of periods since, or 0. */
static int look_back(rounds *f, double *by)
{
    int p = f->s->p, seen = f->n_seen++;
    double *now = kept_at(f, seen);
    for (int i = 0; i < p; i++) {
        now[i] = f->end[i];
        now[p + i] = f->now[FWD][i];
        now[2 * p + i] = f->now[BWD][i];
    }
    for (int ago = 1; ago < f->n_kept && ago <= seen; ago++)
        if (grown_alike(now, kept_at(f, seen - ago), 3 * p, by)) return ago;
    return 0;
}

/* Round r has been done: skips repetitions of what came before it, as long as all stages do a forward and a backward
 * that is not the last of its chunk. Returns the round that has then been done. */
static int skip(rounds *f, int r)
{
    int p = f->s->p, left = f->total - f->s->n_chunks * p - 1 - r, ago;
    double by;
    if (r < p - 1 || left < f->period || (r - (p - 1)) % f->period) return r;
    ago = look_back(f, &by);
    if (!ago) return r;
    int n = left / (ago * f->period);
    for (int i = 0; i < p; i++) {
        f->end[i] += n * by;
        for (int d = 0; d < 2; d++) f->now[d][i] += n * by;
    }
    f->n_seen = 0;
    return r + n * ago * f->period;
}

static tx_status run_1f1b(const tx_pp_shape *s, const tx_pp_times *t, double *end)
{
    rounds f = { .s = s, .t = t, .total = s->m * s->n_chunks, .end = end };
    size_t p = (size_t)s->p;
    double *room;
    f.period = s->n_chunks > 1 ? s->p * s->n_chunks : 1;
    f.n_kept = 1 + (s->p < MOST_KEPT ? s->p : MOST_KEPT);
    TX_TRY(tx_alloc(&room, 4 * p + 3 * p * (size_t)f.n_kept, sizeof *room, "the time of a pipeline"));
    for (int d = 0; d < 2; d++) {
        f.now[d] = room + (size_t)d * p;
        f.before[d] = room + (size_t)(2 + d) * p;
    }
    f.kept = room + 4 * p;
    for (int r = s->n_chunks > 1 ? 1 - s->n_chunks * s->p : 0; r < f.total + s->p - 1; r++) {
        do_round(&f, r);
        r = skip(&f, r);
    }
    tx_free(room);
    return TX_OK;
}

/* ---------------------------------------------------------------- one direction after the other */

/* Unit after unit through all stages. */
static tx_status run_forward(const tx_pp_shape *s, const tx_pp_times *t, double *end)
{
    int p = s->p;
    double *out; /* [p] when the last stage has computed its last p units */
    TX_TRY(tx_alloc(&out, (size_t)p, sizeof *out, "the time of a pipeline"));
    for (int unit = 0; unit < s->m * s->n_chunks; unit++) {
        double ready = out[unit % p];
        for (int i = 0, v = (unit / p) % s->n_chunks * p; i < p; i++, v++) {
            if (v) ready += time_of(t->message[FWD], v - 1);
            compute(&end[i], v ? ready : 0, t->fwd[v]);
            ready = end[i];
        }
        out[unit % p] = ready;
    }
    tx_free(out);
    return TX_OK;
}

static void run_backward(const tx_pp_shape *s, const tx_pp_times *t, double *end)
{
    for (int micro = 0; micro < s->m; micro++) {
        const double *cost = micro == s->m - 1 && t->bwd_last ? t->bwd_last : t->bwd;
        double ready = 0;
        for (int i = s->p - 1; i >= 0; i--) {
            compute(&end[i], ready, cost[i]);
            ready = end[i] + time_of(t->message[BWD], i);
        }
    }
}

tx_status tx_pp_makespan(const tx_pp_shape *shape, const tx_pp_times *times, double *makespan, double *end)
{
    double *own = NULL, longest = 0;
    tx_status st;
    TX_GOTO(tx_pp_check_times(shape, times));
    TX_GOTO(tx_alloc(&own, (size_t)shape->p, sizeof *own, "the time of a pipeline"));
    TX_GOTO(shape->kind == TX_PP_1F1B || shape->kind == TX_PP_ZBH1 ? run_1f1b(shape, times, own)
                                                                   : run_forward(shape, times, own));
    if (shape->kind == TX_PP_GPIPE) run_backward(shape, times, own);
    for (int i = 0; i < shape->p; i++) {
        longest = fmax(longest, own[i]);
        if (end) end[i] = own[i];
    }
    *makespan = longest;
out:
    tx_free(own);
    return st;
}
