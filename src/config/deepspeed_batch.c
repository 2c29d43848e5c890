/* deepspeed_batch.c - DeepSpeed's three batch sizes: any of them follows from the others. */
#include <math.h>

#include "config/option_table.h"

static bool is_a_number(const tx__batch_sizes *c)
{
    return (double)c->micro * (double)c->accumulation * (double)c->ranks < 1e18;
}

bool tx__batch_complete(tx__batch_sizes *b)
{
    tx__batch_sizes c = *b;
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

static double distance(const tx__batch_sizes *b, const tx__batch_sizes *c)
{
    return change(b->train, c->train) + change(b->micro, c->micro) + change(b->accumulation, c->accumulation);
}

/* The nearest, sorted. */
typedef struct nearest {
    const tx__batch_sizes *to;
    tx__batch_sizes *at;
    int n, n_most;
} nearest;

/* Of two that are as near the first one stands first. */
static void keep(nearest *near, int64_t micro, int64_t accumulation)
{
    tx__batch_sizes c = { .micro = micro, .accumulation = accumulation, .ranks = near->to->ranks };
    if (micro < 1 || accumulation < 1 || !is_a_number(&c)) return;
    c.train = c.micro * c.accumulation * c.ranks;
    for (int i = 0; i < near->n; i++)
        if (near->at[i].micro == micro && near->at[i].accumulation == accumulation) return;
    int at = near->n;
    while (at > 0 && distance(near->to, &c) < distance(near->to, &near->at[at - 1])) at--;
    if (at == near->n_most) return;
    near->n += near->n < near->n_most;
    for (int i = near->n - 1; i > at; i--) near->at[i] = near->at[i - 1];
    near->at[at] = c;
}

/* With this micro-batch: the accumulation stays, or is what comes next to the batch. A batch alone is accumulated once.
 */
static void keep_micro(nearest *near, int64_t micro)
{
    const tx__batch_sizes *b = near->to;
    keep(near, micro, b->accumulation ? b->accumulation : 1);
    if (micro < 1 || (!b->micro && !b->accumulation)) return;
    int64_t below = b->train / (micro * b->ranks);
    keep(near, micro, below);
    keep(near, micro, below + 1);
}

int tx__batch_nearest(const tx__batch_sizes *b, int n_most, tx__batch_sizes *at)
{
    enum { AROUND = 1024 };
    nearest near = { .to = b, .at = at, .n_most = n_most };
    int64_t fit = b->train / b->ranks / (b->accumulation ? b->accumulation : 1);
    int64_t middle = b->micro ? b->micro : fit, around = middle < AROUND ? middle + 4 : AROUND;
    int64_t low = middle > around ? middle - around : 1;
    keep_micro(&near, fit);
    for (int64_t micro = low; micro <= middle + around; micro++) keep_micro(&near, micro);
    return near.n;
}
