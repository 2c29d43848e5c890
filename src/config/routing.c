/* routing.c - how many tokens the layers of --random-ltd compute, and how many layers --progressive-layer-drop passes
 * by: DeepSpeed's rules, in its own floating-point arithmetic. Pure functions of the iteration, so a resumed run goes
 * on with the numbers of one that was not interrupted. */
#include <math.h>

#include "config/option_table.h"

/* DeepSpeed counts steps from 0, and what has come to the highest number stays there. */
static int64_t reserved_at(const void *cfg, int64_t iteration)
{
    const tx_config *c = cfg;
    int64_t min = c->random_ltd_min_value, max = c->random_ltd_max_value, unit = c->random_ltd_seq_per_step;
    if (min >= max) return min;
    double part = (double)(iteration - 1) / (double)c->random_ltd_require_steps;
    double length = floor(part * (double)(max - min) + (double)min);
    if (!(length < (double)(max + unit))) return max;
    int64_t whole = (int64_t)length - (int64_t)length % unit;
    return whole < max ? whole : max;
}

int64_t tx_config_reserved_length(const tx_config *c, int64_t iteration, int64_t *last)
{
    *last = INT64_MAX;
    if (!c->random_ltd) return 0;
    *last = tx__last_alike(reserved_at, c, iteration);
    return reserved_at(c, iteration);
}

int64_t tx_config_kept(const tx_config *c, int64_t iteration, int64_t *last)
{
    int64_t r = tx_config_reserved_length(c, iteration, last);
    return r ? r : c->seq_length;
}

bool tx_config_drops_tokens(const tx_config *c, int64_t layer)
{
    const tx_list *l = &c->random_ltd_layer_id;
    int64_t n;
    if (!c->random_ltd) return false;
    if (!l->n) return layer > 0 && layer < c->num_layers - 1;
    for (int i = 0; i < l->n; i++)
        if (tx__integer_parse(l->item[i], &n) && n == layer) return true;
    return false;
}

int64_t tx_config_n_dropping(const tx_config *c)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->num_layers && c->random_ltd; i++) n += tx_config_drops_tokens(c, i);
    return n;
}

int64_t tx_config_layer_tokens(const tx_config *c, int64_t s, int64_t r)
{
    int64_t n = tx_config_n_dropping(c);
    return r < s && n ? (s * (c->num_layers - n) + r * n) / c->num_layers : s;
}

/* DeepSpeed begins at 1 and moves theta at the end of each step, whose number it counts from 0. */
double tx_config_layer_theta(const tx_config *c, int64_t iteration)
{
    double theta = c->pld_theta;
    if (!c->progressive_layer_drop || iteration < 2) return 1;
    return (1.0 - theta) * exp(-c->pld_gamma * (double)(iteration - 2)) + theta;
}
