/* ref_experts.c - routing of tokens to experts, and the rows that go with it. */
#include <math.h>
#include <stdlib.h>

#include "backend/ref/ref.h"

#define EPSILON 0x1p-23 /* of fp32 */

static int64_t at2(tx_tensor x, int64_t i, int64_t j)
{
    return i * x.dim[1] + j;
}

static double log_sum_exp(tx_tensor logits, int64_t t)
{
    double most = -INFINITY, sum = 0;
    for (int64_t e = 0; e < logits.dim[1]; e++) most = fmax(most, tx__ref_load(logits, at2(logits, t, e)));
    for (int64_t e = 0; e < logits.dim[1]; e++) sum += exp(tx__ref_load(logits, at2(logits, t, e)) - most);
    return most + log(sum);
}

/* What token t's scores are made of. */
typedef struct scores {
    const tx_router *how;
    tx_tensor logits;
    int64_t t;
    double lse, sum; /* sum: of sigmoids; of a softmax 1 */
} scores;

static double score(const scores *s, int64_t e)
{
    double z = tx__ref_load(s->logits, at2(s->logits, s->t, e));
    return s->how->score == TX_ROUTER_SIGMOID ? 1 / (1 + exp(-z)) : exp(z - s->lse);
}

static scores scores_of(const tx_router *how, tx_tensor logits, int64_t t)
{
    scores s = { .how = how, .logits = logits, .t = t, .lse = log_sum_exp(logits, t), .sum = 1 };
    if (how->score != TX_ROUTER_SIGMOID) return s;
    s.sum = 0;
    for (int64_t e = 0; e < logits.dim[1]; e++) s.sum += score(&s, e);
    return s;
}

static int64_t expert_of(int64_t choice)
{
    return choice < 0 ? -1 - choice : choice;
}

static bool is_taken(const int32_t *choice, int64_t n, int64_t e)
{
    for (int64_t j = 0; j < n; j++)
        if (choice[j] == e) return true;
    return false;
}

/* Number of an element of the random stream. */
static uint64_t element_of(const tx_router *how, int64_t n_experts, int64_t t, int64_t e)
{
    int64_t b = how->b ? how->b : 1;
    const tx_dropout *r = &how->random;
    uint64_t sample = r->sample + (uint64_t)(t % b);
    return (sample * (uint64_t)r->s_global + (uint64_t)tx_position_of(&r->at, t / b)) * (uint64_t)n_experts +
           (uint64_t)e;
}

/* What the j-th choice of a token is made by. */
static double attraction(const tx_route_fwd_args *a, const scores *s, int64_t j, int64_t e)
{
    const tx_router *how = &a->router;
    if (j != 1 || !how->noisy_second) return score(s, e) + (a->bias.data ? tx__ref_load(a->bias, e) : 0);
    double u = tx_rng_uniform(&how->random.rng, element_of(how, a->logits.dim[1], s->t, e));
    return tx__ref_load(a->logits, at2(a->logits, s->t, e)) - log(-log(u));
}

static void choose(const tx_route_fwd_args *a, const scores *s, int32_t *choice)
{
    for (int64_t j = 0; j < a->router.k; j++) {
        double most = -INFINITY;
        choice[j] = -1;
        for (int64_t e = 0; e < a->logits.dim[1]; e++) {
            double by = attraction(a, s, j, e);
            if (is_taken(choice, j, e) || (choice[j] >= 0 && !(by > most))) continue;
            most = by;
            choice[j] = (int32_t)e;
        }
    }
}

/* Of a pair of token t and its j-th choice, which is e: the larger, the rather it is kept. Of equal ones the first is.
 */
static double claim(const tx_route_fwd_args *a, int64_t t, int64_t j, int64_t e)
{
    const tx_router *how = &a->router;
    switch (how->drop) {
    case TX_DROP_LATER:
        break;
    case TX_DROP_SECONDS:
        return (double)-j;
    case TX_DROP_SMALL:
        return score(&(scores){ how, a->logits, t, log_sum_exp(a->logits, t), 1 }, e);
    case TX_DROP_RANDOM:
        return tx_rng_uniform(&how->random.rng, element_of(how, a->logits.dim[1], t, e));
    }
    return 0;
}

/* A token's choice of an expert. */
typedef struct pair {
    double claim;
    int64_t at; /* t k + j */
} pair;

static int by_claim(const void *x, const void *y)
{
    const pair *a = x, *b = y;
    return a->claim > b->claim ? -1 : a->claim < b->claim ? 1 : (a->at > b->at) - (a->at < b->at);
}

size_t tx__ref_route_fwd_scratch(const tx_ctx *c, const tx_route_fwd_args *a)
{
    (void)c;
    return a->router.capacity ? (size_t)tx_numel(a->choice) * sizeof(pair) : 0;
}

/* What of the pairs an expert has no room for becomes -1 - e.   @all [T k] */
static void drop(const tx_route_fwd_args *a, pair *all)
{
    int64_t n = tx_numel(a->choice), k = a->router.k;
    int32_t *choice = a->choice.data;
    for (int64_t e = 0; e < a->logits.dim[1]; e++) {
        int64_t has = 0;
        for (int64_t i = 0; i < n; i++)
            if (choice[i] == e) all[has++] = (pair){ claim(a, i / k, i % k, e), i };
        if (has <= a->router.capacity) continue;
        qsort(all, (size_t)has, sizeof *all, by_claim);
        for (int64_t i = a->router.capacity; i < has; i++) choice[all[i].at] = (int32_t)(-1 - e);
    }
}

/* Weights of what token t has chosen, before scale; of the dropped ones, too, with softmax_after. *sum: what they were
 * divided by. */
static void weights_of(const tx_router *how, const scores *s, const int32_t *choice, double *w, double *sum)
{
    double most = -INFINITY;
    *sum = how->softmax_after || how->renormalise ? 0 : 1;
    for (int64_t j = 0; j < how->k; j++)
        most = fmax(most, tx__ref_load(s->logits, at2(s->logits, s->t, expert_of(choice[j]))));
    for (int64_t j = 0; j < how->k; j++) {
        int64_t e = expert_of(choice[j]);
        w[j] = how->softmax_after ? exp(tx__ref_load(s->logits, at2(s->logits, s->t, e)) - most)
               : choice[j] < 0    ? 0
                                  : score(s, e);
        if (how->softmax_after || how->renormalise) *sum += w[j];
    }
    if (how->renormalise && !how->softmax_after) *sum = fmax(*sum, EPSILON);
    for (int64_t j = 0; j < how->k; j++) w[j] /= *sum;
}

tx_status tx__ref_route_fwd(tx_ctx *c, const tx_route_fwd_args *a, void *scratch)
{
    (void)c;
    int64_t rows = a->logits.dim[0], n = a->logits.dim[1], k = a->router.k;
    int32_t *choice = a->choice.data, *chosen = a->chosen.data;
    for (int64_t e = 0; e < n; e++) chosen[e] = 0;
    for (int64_t e = 0; e <= n; e++) tx__ref_store(a->stats, e, 0);
    double squares = 0;
    for (int64_t t = 0; t < rows; t++) {
        scores s = scores_of(&a->router, a->logits, t);
        choose(a, &s, choice + t * k);
        for (int64_t j = 0; j < (a->router.load_of_first ? 1 : k); j++) chosen[choice[t * k + j]]++;
        for (int64_t e = 0; e < n; e++) tx__ref_store(a->probs, at2(a->probs, t, e), score(&s, e) / s.sum);
        squares += s.lse * s.lse;
    }
    for (int64_t e = 0; e < n; e++) {
        double sum = 0;
        for (int64_t t = 0; t < rows; t++) sum += tx__ref_load(a->probs, at2(a->probs, t, e));
        tx__ref_store(a->stats, e, sum);
    }
    tx__ref_store(a->stats, n, squares);
    if (a->router.capacity) drop(a, scratch);
    for (int64_t t = 0; t < rows; t++) {
        scores s = scores_of(&a->router, a->logits, t);
        double w[TX_MAX_CHOICES], sum;
        weights_of(&a->router, &s, choice + t * k, w, &sum);
        for (int64_t j = 0; j < k; j++)
            tx__ref_store(a->weight, t * k + j, choice[t * k + j] < 0 ? 0 : a->router.scale * w[j]);
    }
    return TX_OK;
}

/* From the gradient of token t's weights to that of its scores, or with softmax_after of its logits, in d [E]. */
static void weights_bwd(const tx_route_bwd_args *a, const scores *s, tx_tensor d)
{
    const tx_router *how = &a->router;
    int64_t k = how->k, t = s->t;
    const int32_t *choice = (const int32_t *)a->choice.data + t * k;
    double w[TX_MAX_CHOICES], g[TX_MAX_CHOICES], sum, mean = 0;
    weights_of(how, s, choice, w, &sum);
    bool divided = how->softmax_after || (how->renormalise && sum > EPSILON);
    for (int64_t j = 0; j < k; j++) {
        g[j] = choice[j] < 0 ? 0 : how->scale * tx__ref_load(a->dweight, t * k + j);
        mean += divided ? w[j] * g[j] : 0;
    }
    for (int64_t j = 0; j < k; j++) {
        if (choice[j] < 0 && !how->softmax_after) continue;
        tx__ref_store(d, at2(d, t, expert_of(choice[j])),
                      how->softmax_after ? w[j] * (g[j] - mean) : (g[j] - mean) / sum);
    }
}

tx_status tx__ref_route_bwd(tx_ctx *c, const tx_route_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    const tx_router *how = &a->router;
    int64_t rows = a->logits.dim[0], n = a->logits.dim[1];
    tx_tensor d = a->dlogits;
    const int32_t *chosen = a->chosen.data;
    bool sigmoid = how->score == TX_ROUTER_SIGMOID;
    for (int64_t t = 0; t < rows; t++) {
        scores s = scores_of(how, a->logits, t);
        double mean = 0, aux = 0;
        for (int64_t e = 0; e < n; e++) tx__ref_store(d, at2(d, t, e), 0);
        weights_bwd(a, &s, d);
        for (int64_t e = 0; e < n; e++) {
            double p = score(&s, e), g = tx__ref_load(d, at2(d, t, e));
            if (!how->softmax_after) mean += p * g;
            aux += p / s.sum * a->aux * chosen[e];
        }
        for (int64_t e = 0; e < n; e++) {
            double p = score(&s, e), g = tx__ref_load(d, at2(d, t, e)), load = (a->aux * chosen[e] - aux) / s.sum;
            double z = tx__ref_load(a->logits, at2(a->logits, t, e));
            if (!how->softmax_after) g = sigmoid ? g * p * (1 - p) : p * (g - mean);
            g += load * p * (sigmoid ? 1 - p : 1) + 2 * a->z * s.lse * exp(z - s.lse);
            tx__ref_store(d, at2(d, t, e), g);
        }
    }
    return TX_OK;
}

tx_status tx__ref_route_sums(tx_ctx *c, const tx_route_sums_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t n = a->chosen.dim[0];
    const int32_t *choice = a->choice.data;
    float *sums = a->sums.data;
    double aux = 0;
    for (int64_t e = 0; e < n; e++) aux += tx__ref_load(a->stats, e) * tx__ref_load(a->chosen, e);
    sums[0] += (float)(a->aux * aux);
    sums[1] += (float)(a->z * tx__ref_load(a->stats, n));
    for (int64_t i = 0; i < tx_numel(a->choice); i++) {
        sums[2] += choice[i] < 0;
        sums[3 + expert_of(choice[i])]++;
    }
    return TX_OK;
}

tx_status tx__ref_expert_order(tx_ctx *c, const tx_expert_order_args *a, void *scratch)
{
    (void)c, (void)scratch;
    const int32_t *choice = a->choice.data;
    int32_t *row = a->row.data, *source = a->source.data, *count = a->count.data, n = 0;
    for (int64_t e = 0; e < a->count.dim[0]; e++) {
        count[e] = 0;
        for (int64_t i = 0; i < tx_numel(a->choice); i++) {
            if (choice[i] != e) continue;
            if (n == a->source.dim[0])
                return TX_FAIL(TX_ERR_SHAPE, "expert_order: more than %lld pairs are not dropped", (long long)n);
            source[n] = (int32_t)i;
            row[i] = n++;
            count[e]++;
        }
    }
    for (int64_t i = 0; i < tx_numel(a->choice); i++)
        if (choice[i] < 0) row[i] = -1;
    for (int64_t i = n; i < a->source.dim[0]; i++) source[i] = -1;
    return TX_OK;
}

tx_status tx__ref_gather_rows(tx_ctx *c, const tx_gather_rows_args *a, void *scratch)
{
    (void)c, (void)scratch;
    const int32_t *index = a->index.data;
    for (int64_t i = 0; i < a->y.dim[0]; i++)
        for (int64_t k = 0; k < a->y.dim[1]; k++)
            tx__ref_store(a->y, at2(a->y, i, k),
                          index[i] < 0 ? 0 : tx__ref_load(a->x, at2(a->x, index[i] / a->div, k)));
    return TX_OK;
}

tx_status tx__ref_combine_fwd(tx_ctx *c, const tx_combine_fwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    const int32_t *row = a->row.data;
    int64_t k = a->row.dim[0] / a->y.dim[0];
    for (int64_t t = 0; t < a->y.dim[0]; t++)
        for (int64_t i = 0; i < a->y.dim[1]; i++) {
            double sum = a->accumulate ? tx__ref_load(a->y, at2(a->y, t, i)) : 0;
            for (int64_t j = 0; j < k; j++)
                if (row[t * k + j] >= 0)
                    sum += (a->weight.data ? tx__ref_load(a->weight, t * k + j) : 1) *
                           tx__ref_load(a->z, at2(a->z, row[t * k + j], i));
            tx__ref_store(a->y, at2(a->y, t, i), sum);
        }
    return TX_OK;
}

tx_status tx__ref_combine_bwd(tx_ctx *c, const tx_combine_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    const int32_t *row = a->row.data;
    int64_t k = a->row.dim[0] / a->dy.dim[0];
    for (int64_t p = 0; p < a->row.dim[0]; p++) {
        double sum = 0, weight = tx__ref_load(a->weight, p);
        for (int64_t i = 0; i < a->dy.dim[1] && row[p] >= 0; i++) {
            double dy = tx__ref_load(a->dy, at2(a->dy, p / k, i));
            sum += dy * tx__ref_load(a->z, at2(a->z, row[p], i));
            tx__ref_store(a->dz, at2(a->dz, row[p], i), weight * dy);
        }
        tx__ref_store(a->dweight, p, sum);
    }
    return TX_OK;
}
