/* deepspeed_batch.c - DeepSpeed's three batch sizes: any of them follows from the others. */
#include <math.h>

#include "config/deepspeed_json.h"

static bool is_a_number(const tx__batch *c)
{
    return (double)c->micro * (double)c->accumulation * (double)c->ranks < 1e18;
}

bool tx__batch_complete(tx__batch *b)
{
    tx__batch c = *b;
    if (!c.train && !c.micro) return false;
    if (!c.accumulation && (!c.train || !c.micro)) c.accumulation = 1;
    if (!is_a_number(&c)) return false;
    if (!c.train) c.train = c.micro * c.accumulation * c.ranks;
    if (!c.micro) c.micro = c.train / (c.accumulation * c.ranks);
    if (!c.accumulation) c.accumulation = c.train / (c.micro * c.ranks);
    if (!c.micro || !c.accumulation || c.micro * c.accumulation * c.ranks != c.train) return false;
    *b = c;
    return true;
}

/* ---------------------------------------------------------------- nearest */

/* One number that is left as it is counts for more than two that change a little. */
static double change(int64_t from, int64_t to)
{
    const double any = 0.25;
    return !from || from == to ? 0 : any + fabs(log((double)to / (double)from));
}

static double distance(const tx__batch *b, const tx__batch *c)
{
    return change(b->train, c->train) + change(b->micro, c->micro) + change(b->accumulation, c->accumulation);
}

/* Keeps the nearest, sorted; of two that are as near the first one. */
static int keep(const tx__batch *b, tx__batch near[TX__N_NEAREST], int n, int64_t micro, int64_t accumulation)
{
    tx__batch c = { .micro = micro, .accumulation = accumulation, .ranks = b->ranks };
    if (micro < 1 || accumulation < 1 || !is_a_number(&c)) return n;
    c.train = c.micro * c.accumulation * c.ranks;
    for (int i = 0; i < n; i++)
        if (near[i].micro == micro && near[i].accumulation == accumulation) return n;
    int at = n;
    while (at > 0 && distance(b, &c) < distance(b, &near[at - 1])) at--;
    if (at == TX__N_NEAREST) return n;
    n += n < TX__N_NEAREST;
    for (int i = n - 1; i > at; i--) near[i] = near[i - 1];
    near[at] = c;
    return n;
}

/* With this micro-batch: the accumulation stays, or is what comes next to the batch. A batch alone is accumulated once.
 */
static int keep_micro(const tx__batch *b, tx__batch near[TX__N_NEAREST], int n, int64_t micro)
{
    n = keep(b, near, n, micro, b->accumulation ? b->accumulation : 1);
    if (micro < 1 || (!b->micro && !b->accumulation)) return n;
    int64_t below = b->train / (micro * b->ranks);
    n = keep(b, near, n, micro, below);
    return keep(b, near, n, micro, below + 1);
}

int tx__batch_nearest(const tx__batch *b, tx__batch near[TX__N_NEAREST])
{
    enum { AROUND = 1024 };
    int64_t fit = b->train / b->ranks / (b->accumulation ? b->accumulation : 1);
    int64_t middle = b->micro ? b->micro : fit, around = middle < AROUND ? middle + 4 : AROUND;
    int64_t low = middle > around ? middle - around : 1;
    int n = keep_micro(b, near, 0, fit);
    for (int64_t micro = low; micro <= middle + around; micro++) n = keep_micro(b, near, n, micro);
    return n;
}
