/* sample.c - temperature, top-k, top-p and the draw. */
#include "infer/sample.h"

#include <math.h>
#include <string.h>

#define FEW 1024 /* of the largest, for which a heap is faster than quickselect */

/* The smallest of a heap's k numbers gives way to v. */
static void replace_smallest(double *heap, int64_t k, double v)
{
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < k; at = child) {
        if (child + 1 < k && heap[child + 1] < heap[child]) child++;
        if (!(heap[child] < v)) break;
        heap[at] = heap[child];
    }
    heap[at] = v;
}

/* The same for a small k, in one pass: the k largest so far are a heap, and few of a vocabulary get into it. */
static double kth_largest_of_few(const double *x, int64_t n, int64_t k, double *heap)
{
    for (int64_t i = 0; i < k; i++) heap[i] = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (x[i] > heap[0]) replace_smallest(heap, k, x[i]);
    return heap[0];
}

/* The k-th largest of x[0..n), k >= 1, by quickselect (Hoare 1961) in `work`: a vocabulary is too long to sort per
 * token. */
static double kth_largest(const double *x, int64_t n, int64_t k, double *work)
{
    if (k <= FEW) return kth_largest_of_few(x, n, k, work);
    memcpy(work, x, (size_t)n * sizeof *x);
    int64_t lo = 0, hi = n - 1;
    while (lo < hi) {
        double pivot = work[lo + (hi - lo) / 2];
        int64_t i = lo, j = hi;
        while (i <= j) { /* larger ones to the left */
            while (work[i] > pivot) i++;
            while (work[j] < pivot) j--;
            if (i > j) break;
            double swap = work[i];
            work[i++] = work[j];
            work[j--] = swap;
        }
        if (k - 1 <= j)
            hi = j;
        else if (k - 1 >= i)
            lo = i;
        else
            break; /* between j and i all equal the pivot */
    }
    return work[k - 1];
}

/* exp(x - max) / Σ; entries of -infinity become 0. */
static void softmax(double *x, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int64_t i = 0; i < n; i++) sum += x[i] = x[i] == -INFINITY ? 0 : exp(x[i] - max);
    double scale = 1 / sum;
    for (int64_t i = 0; i < n; i++) x[i] *= scale;
}

/* Of x[0..n), in ascending order, as many are dropped as sum up to at most `limit`. Returns the first value that is not
 * dropped whole, and how many of those equal to it are; infinity: all are. By three-way quickselect, x is reordered:
 * a vocabulary is too long to sort per token. */
static double drop_tail(double *x, int64_t n, double limit, int64_t *n_equal_dropped)
{
    int64_t lo = 0, hi = n;
    double below = 0, kept = INFINITY; /* sum of what is known to be dropped; the least that is known not to be */
    while (lo < hi) {
        double pivot = x[lo + (hi - lo) / 2], sum = 0;
        int64_t less = lo, i = lo, more = hi; /* smaller | equal | not looked at | larger */
        while (i < more) {
            double v = x[i];
            if (v < pivot) {
                x[i++] = x[less];
                x[less++] = v;
                sum += v;
            } else if (v > pivot) {
                x[i] = x[--more];
                x[more] = v;
            } else {
                i++;
            }
        }
        int64_t n_equal = more - less, k = 0;
        if (below + sum > limit) {
            hi = less;
            kept = pivot;
            continue;
        }
        while (k < n_equal && below + sum + (double)(k + 1) * pivot <= limit) k++;
        *n_equal_dropped = k;
        if (k < n_equal) return pivot;
        below += sum + (double)n_equal * pivot;
        lo = more;
    }
    *n_equal_dropped = 0;
    return kept;
}

/* Drops, from the least likely on, every token whose tail (itself and all less likely) has at most 1 - p; the
 * likeliest stays. Of equally likely ones the lower ids go first, as in PyTorch's sort. */
static void keep_nucleus(double *prob, int64_t n, double p, double *work)
{
    int64_t n_kept = 0, n_equal = 0, best = 0;
    double few = (1 - p) / (double)n, dropped = 0; /* all of so little are no more than 1 - p together */
    for (int64_t i = 0; i < n; i++) {
        if (prob[i] > few)
            work[n_kept++] = prob[i];
        else
            dropped += prob[i];
    }
    double least = drop_tail(work, n_kept, 1 - p - dropped, &n_equal), sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (prob[i] >= prob[best]) best = i;
    for (int64_t i = 0; i < n; i++) {
        bool drop = prob[i] < least || (prob[i] == least && n_equal-- > 0);
        if (drop && (i != best || least < INFINITY)) prob[i] = 0;
        sum += prob[i];
    }
    for (int64_t i = 0; i < n; i++) prob[i] /= sum;
}

void tx_sampler_set_temperature(tx_sampler *s, double t)
{
    bool cold = t < 1e-6; /* logits divided by so little overflow */
    s->temperature = cold ? 1 : t;
    s->greedy = s->greedy || cold;
}

const char *const tx_sample_stage_names[TX_N_STAGES] = { "raw", "repetition penalty", "temperature", "top-k", "top-p" };

/* Every token of the past once: work marks those that have been seen to. */
static void penalize(const tx_sampler *s, const tx_sample_past *past, double *x, int64_t n, double *work)
{
    for (int64_t i = 0; i < n; i++) work[i] = 0;
    for (int64_t i = 0; i < past->n; i++) {
        int32_t id = past->token[i];
        if (work[id] != 0) continue;
        work[id] = 1;
        x[id] = x[id] > 0 ? x[id] / s->repetition_penalty : x[id] * s->repetition_penalty;
    }
}

static bool penalizes(const tx_sampler *s)
{
    return s->repetition_penalty > 0 && s->repetition_penalty != 1;
}

static double top_p_of(const tx_sampler *s, const tx_sample_past *past)
{
    double p = s->top_p;
    if (s->top_p_decay > 0 && past)
        for (int64_t i = 0; i < past->n_new; i++) p = fmax(p * s->top_p_decay, s->top_p_bound);
    return p;
}

/* Logits up to and with the stage temperature, in p->prob. */
static void prepare(tx_token_probs *p, const tx_sampler *s, const tx_sample_past *past, tx_sample_stage last,
                    const float *logits)
{
    double *x = p->prob;
    int64_t n = p->n;
    for (int64_t i = 0; i < n; i++) x[i] = logits[i];
    if (last >= TX_STAGE_PENALTY && past && penalizes(s)) penalize(s, past, x, n, p->work);
    if (last >= TX_STAGE_PENALTY && past)
        for (int64_t i = 0; i < past->n_forbidden; i++) x[past->forbidden[i]] = -INFINITY;
    if (last >= TX_STAGE_TEMPERATURE && !s->greedy)
        for (int64_t i = 0; i < n; i++) x[i] /= s->temperature;
}

void tx_sample_filter(tx_token_probs *out, const tx_sampler *s, const tx_sample_past *past, tx_sample_stage last,
                      const float *logits)
{
    double *prob = out->prob;
    int64_t n = out->n;
    prepare(out, s, past, last, logits);
    if (last >= TX_STAGE_TOP_K && !s->greedy && s->top_k > 0 && s->top_k < n) {
        double threshold = kth_largest(prob, n, s->top_k, out->work);
        for (int64_t i = 0; i < n; i++)
            if (prob[i] < threshold) prob[i] = -INFINITY;
    }
    softmax(prob, n);
    double p = top_p_of(s, past);
    if (last >= TX_STAGE_TOP_P && !s->greedy && p > 0 && p < 1) keep_nucleus(prob, n, p, out->work);
}

static int32_t largest_logit(const float *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return (int32_t)best;
}

static int64_t largest(const double *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

int32_t tx_sample_token(tx_token_probs *p, const tx_sampler *s, const tx_sample_past *past, const float *logits,
                        double u)
{
    if (s->greedy || s->top_k == 1) {
        if (!past || (past->n_forbidden == 0 && !penalizes(s))) return largest_logit(logits, p->n);
        prepare(p, s, past, TX_STAGE_PENALTY, logits);
        return (int32_t)largest(p->prob, p->n);
    }
    tx_sample_filter(p, s, past, TX_STAGE_TOP_P, logits);
    int64_t token = 0;
    double at = 0;
    for (int64_t i = 0; i < p->n; i++) {
        if (p->prob[i] == 0) continue;
        token = i; /* rounding may leave u at or above the sum: then the last token kept */
        at += p->prob[i];
        if (u < at) break;
    }
    return (int32_t)token;
}

double tx_logprob(const float *logits, int64_t n, int32_t token)
{
    float max = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) max = logits[i] > max ? logits[i] : max;
    for (int64_t i = 0; i < n; i++) sum += exp((double)logits[i] - (double)max);
    return (double)logits[token] - (double)max - log(sum);
}

int64_t tx_sample_top(const double *prob, int64_t n, int64_t k, int32_t *id)
{
    int64_t have = 0;
    for (int64_t i = 0; i < n; i++) { /* insertion into the k best so far: k is small */
        if (prob[i] == 0 || (have == k && !(prob[i] > prob[id[k - 1]]))) continue;
        int64_t at = have < k ? have++ : k - 1;
        for (; at > 0 && prob[i] > prob[id[at - 1]]; at--) id[at] = id[at - 1];
        id[at] = (int32_t)i;
    }
    return have;
}
