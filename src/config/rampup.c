/* rampup.c - the global batch size, which --rampup-batch-size START INCREMENT SAMPLES lets grow with the samples
 * consumed. Megatron's rule, in its own floating-point arithmetic. */
#include "config/option_table.h"

tx__ramp_fault tx__ramp_of(const tx_config *c, tx__ramp *r)
{
    enum { MAX_INCREMENTS = 1000000 };
    *r = (tx__ramp){ .global = c->global_batch_size };
    if (c->rampup_batch_size.n != 3) return TX__RAMP_NONE;
    char *const *item = c->rampup_batch_size.item;
    if (!tx__integer_parse(item[0], &r->start) || !tx__integer_parse(item[1], &r->increment) ||
        !tx__integer_parse(item[2], &r->samples) || r->start < 1 || r->increment < 1 || r->samples < 1 ||
        r->start > 1000000000 || r->increment > 1000000000 || r->samples > 1000000000000000)
        return TX__RAMP_NUMBERS;
    if (r->start > r->global) return TX__RAMP_START;
    r->n_increments = (r->global - r->start) / r->increment;
    if ((r->global - r->start) % r->increment) return TX__RAMP_INTERVAL;
    return r->n_increments > MAX_INCREMENTS ? TX__RAMP_STEPS : TX__RAMP_NONE;
}

static int64_t batch_at(const tx__ramp *r, int64_t consumed)
{
    if (!r->n_increments || consumed > r->samples) return r->global;
    double samples_per_increment = (double)r->samples / (double)r->n_increments;
    int64_t batch = r->start + (int64_t)((double)consumed / samples_per_increment) * r->increment;
    return batch < r->global ? batch : r->global;
}

int64_t tx_config_batch_size(const tx_config *c, int64_t consumed)
{
    tx__ramp r;
    return tx__ramp_of(c, &r) ? c->global_batch_size : batch_at(&r, consumed);
}

/* Upstream counts iteration by iteration; here all of one batch size are taken at once. */
int64_t tx__ramp_iterations(const tx__ramp *r, int64_t train_samples)
{
    int64_t iterations = 0, consumed = 0;
    while (r->n_increments && consumed <= r->samples) {
        int64_t batch = batch_at(r, consumed), step = (batch - r->start) / r->increment;
        double end = (double)r->samples / (double)r->n_increments * (double)(step + 1);
        int64_t n = (int64_t)((end - (double)consumed) / (double)batch);
#define STILL(n) (consumed + (n)*batch <= r->samples && batch_at(r, consumed + (n)*batch) == batch)
        if (n < 1) n = 1;
        while (n > 1 && !STILL(n - 1)) n--;
        while (STILL(n)) n++;
#undef STILL
        iterations += n;
        consumed += n * batch;
    }
    int64_t rest = train_samples - consumed; /* floor, as Python divides: below 0 when the run ends within the ramp */
    return iterations + rest / r->global - (rest % r->global < 0);
}
