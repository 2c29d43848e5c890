/* curriculum.c - the length of an iteration's training samples, which --curriculum-schedule lets grow: DeepSpeed's
 * rule, in its own floating-point arithmetic. A pure function of the iteration, so a resumed run goes on with the
 * lengths of one that was not interrupted. */
#include <math.h>

#include "config/option_table.h"

enum { LAST_ITERATION = 2000000000 }; /* no run comes here */

/* min + (step / total)^(1 / degree) of the way to max, in whole multiples of the step of lengths: rounded down, but to
 * no less than min rounded up (DeepSpeed 0.19.8; before it, rounded down, too). */
static int64_t root_length(const tx_config *c, int64_t step, double degree)
{
    int64_t min = c->curriculum_min_difficulty, max = c->curriculum_max_difficulty,
            unit = c->curriculum_difficulty_step;
    double part = pow((double)step / (double)c->curriculum_total_step, 1.0 / degree);
    double length = floor(part * (double)(max - min) + (double)min);
    if (!(length < (double)(max + unit))) return max;
    int64_t whole = (int64_t)length - (int64_t)length % unit, first = (min + unit - 1) / unit * unit;
    if (whole < first) whole = first;
    return whole < max ? whole : max;
}

int64_t tx__curriculum_item(const tx_list *l, int i)
{
    int64_t n;
    return tx__integer_parse(l->item[i], &n) && n >= 1 && n <= 1000000000 ? n : 0;
}

/* Which of the listed lengths an iteration has. One that is not less than the highest stays: DeepSpeed asks its list
 * no more then. */
static int listed(const tx_config *c, int64_t step)
{
    int i = 0;
    while (i < c->curriculum_max_step.n && step > tx__curriculum_item(&c->curriculum_max_step, i) &&
           tx__curriculum_item(&c->curriculum_difficulty, i) < c->curriculum_max_difficulty)
        i++;
    return i;
}

static int64_t listed_length(const tx_config *c, int64_t step)
{
    return tx__curriculum_item(&c->curriculum_difficulty, listed(c, step));
}

/* clang-format off */
#define TAKES(constant, word, length, takes) case constant: return takes;
#define LENGTH(constant, word, length, takes) case constant: return length;
/* clang-format on */

const char *tx__curriculum_takes(enum tx_curriculum_kind kind)
{
    switch (kind) {
        TX_CURRICULA(TAKES)
    }
    return "";
}

static int64_t length_at(const tx_config *c, int64_t step)
{
    if (c->curriculum_min_difficulty >= c->curriculum_max_difficulty) return c->curriculum_min_difficulty;
    switch (c->curriculum_schedule) {
        TX_CURRICULA(LENGTH)
    }
    return c->seq_length;
}

/* Of a schedule that does not fall: the last iteration with the length of `step`. */
static int64_t last_of_length(const tx_config *c, int64_t step)
{
    int64_t length = length_at(c, step), same = step, other = step + 1;
    while (other <= LAST_ITERATION && length_at(c, other) == length) {
        same = other;
        other += other - step;
    }
    if (other > LAST_ITERATION) return INT64_MAX;
    while (other - same > 1) {
        int64_t middle = same + (other - same) / 2;
        if (length_at(c, middle) == length)
            same = middle;
        else
            other = middle;
    }
    return same;
}

int64_t tx_config_sample_length(const tx_config *c, int64_t iteration, int64_t *last)
{
    *last = INT64_MAX;
    if (!c->curriculum_schedule) return c->seq_length;
    int64_t length = length_at(c, iteration);
    if (length >= c->curriculum_max_difficulty) return length;
    if (c->curriculum_schedule != TX_CURRICULUM_DISCRETE)
        *last = last_of_length(c, iteration);
    else if (listed(c, iteration) < c->curriculum_max_step.n)
        *last = tx__curriculum_item(&c->curriculum_max_step, listed(c, iteration));
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
