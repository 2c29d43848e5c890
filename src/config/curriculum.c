/* curriculum.c - what grows as the run goes on: the length of an iteration's training samples (--curriculum-schedule),
 * and the difficulty of those that are drawn (--curriculum-metrics). DeepSpeed's rule, in its own floating-point
 * arithmetic. A pure function of the iteration, so a resumed run goes on with what one has that was not interrupted. */
#include <math.h>

#include "config/curriculum_metrics.h"
#include "config/option_table.h"

enum { LAST_ITERATION = 2000000000 }; /* no run comes here */

/* min + (step / total)^(1 / degree) of the way to max, in whole multiples of the step of difficulties: rounded down,
 * but to no less than min rounded up (DeepSpeed 0.19.8; before it, rounded down, too). */
static int64_t root_difficulty(const tx_curriculum *c, int64_t step, double degree)
{
    double part = pow((double)step / (double)c->total_step, 1.0 / degree);
    double length = floor(part * (double)(c->max - c->min) + (double)c->min);
    if (!(length < (double)(c->max + c->step))) return c->max;
    int64_t whole = (int64_t)length - (int64_t)length % c->step, first = (c->min + c->step - 1) / c->step * c->step;
    if (whole < first) whole = first;
    return whole < c->max ? whole : c->max;
}

int64_t tx__curriculum_item(const tx_list *l, int i)
{
    int64_t n;
    return tx__integer_parse(l->item[i], &n) && n >= 1 && n <= 1000000000 ? n : 0;
}

/* Which of the listed difficulties an iteration has. One that is not less than the highest stays: DeepSpeed asks its
 * list no more then. */
static int listed(const tx_curriculum *c, int64_t step)
{
    int i = 0;
    while (i < c->n && step > c->max_step[i] && c->difficulty[i] < c->max) i++;
    return i;
}

static int64_t listed_difficulty(const tx_curriculum *c, int64_t step)
{
    return c->difficulty[listed(c, step)];
}

/* clang-format off */
#define TAKES(constant, word, difficulty, takes) case constant: return takes;
#define DIFFICULTY(constant, word, difficulty, takes) case constant: return difficulty;
/* clang-format on */

const char *tx__curriculum_takes(enum tx_curriculum_kind kind)
{
    switch (kind) {
        TX_CURRICULA(TAKES)
    }
    return "";
}

int64_t tx_curriculum_at(const tx_curriculum *c, int64_t step)
{
    if (c->min >= c->max) return c->min;
    switch (c->kind) {
        TX_CURRICULA(DIFFICULTY)
    }
    return c->max;
}

int64_t tx__last_alike(int64_t (*at)(const void *of, int64_t iteration), const void *of, int64_t iteration)
{
    int64_t value = at(of, iteration), same = iteration, other = iteration + 1;
    while (other <= LAST_ITERATION && at(of, other) == value) {
        same = other;
        other += other - iteration;
    }
    if (other > LAST_ITERATION) return INT64_MAX;
    while (other - same > 1) {
        int64_t middle = same + (other - same) / 2;
        if (at(of, middle) == value)
            same = middle;
        else
            other = middle;
    }
    return same;
}

static int64_t difficulty_at(const void *curriculum, int64_t step)
{
    return tx_curriculum_at(curriculum, step);
}

int64_t tx_config_sample_length(const tx_config *c, int64_t iteration, int64_t *last)
{
    enum { MOST = 1000 }; /* items that the two lists have at most */
    int64_t length_of[MOST], last_of[MOST];
    *last = INT64_MAX;
    if (!c->curriculum_schedule) return c->seq_length;
    tx_curriculum lengths = { .kind = c->curriculum_schedule,
                              .min = c->curriculum_min_difficulty,
                              .max = c->curriculum_max_difficulty,
                              .total_step = c->curriculum_total_step,
                              .step = c->curriculum_difficulty_step,
                              .root_degree = c->curriculum_root_degree,
                              .difficulty = length_of,
                              .max_step = last_of };
    bool discrete = lengths.kind == TX_CURRICULUM_DISCRETE;
    if (discrete) lengths.n = c->curriculum_max_step.n;
    for (int i = 0; discrete && i <= lengths.n; i++) length_of[i] = tx__curriculum_item(&c->curriculum_difficulty, i);
    for (int i = 0; i < lengths.n; i++) last_of[i] = tx__curriculum_item(&c->curriculum_max_step, i);
    int64_t length = tx_curriculum_at(&lengths, iteration);
    if (length >= lengths.max) return length;
    if (!discrete)
        *last = tx__last_alike(difficulty_at, &lengths, iteration);
    else if (listed(&lengths, iteration) < lengths.n)
        *last = last_of[listed(&lengths, iteration)];
    return length;
}

double tx_config_tokens(const tx_config *c, int64_t iterations)
{
    double tokens = 0;
    for (int64_t i = 1, last; i <= iterations; i = last + 1) {
        int64_t until, s = tx_config_sample_length(c, i, &last), r = tx_config_reserved_length(c, i, &until);
        if (until < last) last = until;
        if (last > iterations) last = iterations;
        tokens +=
            (double)(last - i + 1) * (double)c->global_batch_size * (double)(r ? tx_config_layer_tokens(c, s, r) : s);
    }
    return tokens;
}
