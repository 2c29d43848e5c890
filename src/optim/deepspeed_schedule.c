/* deepspeed_schedule.c - DeepSpeed's formulas. There a schedule holds last_batch_iteration, which is -1 before the
 * first step and counts them from then on; what each kind gives at -1 is a case of its own. */
#include "optim/deepspeed_schedule.h"

#include <math.h>

#include "base/log.h"
#include "base/status.h"

#define PI 3.14159265358979323846

/* ---- from options ---- */

static tx_ds_schedule warmup_of(const tx_config *c, enum tx_ds_schedule_kind kind)
{
    tx_ds_schedule s = { .kind = kind,
                         .log_warmup = c->warmup_type == TX_WARMUP_LOG,
                         .warmup_steps = fmax(2, (double)c->warmup_num_steps) };
    if (kind != TX_DS_WARMUP) s.total_steps = (double)c->total_num_steps;
    if (kind == TX_DS_WARMUP_COSINE) {
        s.base_lr = c->lr;
        s.min_ratio = c->warmup_min_ratio;
        s.cos_min_ratio = c->cos_min_ratio;
        return s;
    }
    const char *flag;
    s.min_lr = c->warmup_min_lr;
    s.max_lr = tx_config_warmup_max_lr(c, &flag);
    return s;
}

static tx_ds_schedule cycle_of(const tx_config *c)
{
    const tx_config_given *g = &c->given;
    bool betas = tx_optimizer_traits(c->optimizer) & TX_OPTIMIZER_BETAS;
    tx_ds_schedule s = {
        .kind = TX_DS_ONE_CYCLE,
        .min_lr = c->cycle_min_lr,
        .max_lr = c->cycle_max_lr,
        .first_steps = (double)c->cycle_first_step_size,
        .second_steps = (double)(g->cycle_second_step_size ? c->cycle_second_step_size : c->cycle_first_step_size),
        .first_stairs = (double)c->cycle_first_stair_count,
        .second_stairs =
            (double)(g->cycle_second_stair_count ? c->cycle_second_stair_count : c->cycle_first_stair_count),
        .decay_steps = (double)c->decay_step_size,
        .decay_lr_rate = c->decay_lr_rate,
        .cycles_momentum = c->cycle_momentum && betas,
    };
    if (s.cycles_momentum == 0) return s;
    s.min_mom = c->cycle_min_mom;
    s.max_mom = c->cycle_max_mom;
    s.decay_mom_rate = c->decay_mom_rate;
    return s;
}

static tx_ds_schedule range_test_of(const tx_config *c)
{
    return (tx_ds_schedule){ .kind = TX_DS_RANGE_TEST,
                             .min_lr = c->lr_range_test_min_lr,
                             .step_rate = c->lr_range_test_step_rate,
                             .step_size = (double)c->lr_range_test_step_size,
                             .staircase = c->lr_range_test_staircase };
}

tx_ds_schedule tx_ds_schedule_from_config(const tx_config *c)
{
    switch (c->lr_schedule) {
    case TX_DS_RANGE_TEST:
        return range_test_of(c);
    case TX_DS_ONE_CYCLE:
        return cycle_of(c);
    case TX_DS_WARMUP:
    case TX_DS_WARMUP_DECAY:
    case TX_DS_WARMUP_COSINE:
        return warmup_of(c, c->lr_schedule);
    }
    return (tx_ds_schedule){ 0 };
}

/* ---- formulas; last: DeepSpeed's last_batch_iteration ---- */

/* How much of the warm-up is done, 0 to 1. */
static double warmed(const tx_ds_schedule *s, double last)
{
    return s->log_warmup != 0 ? log(last + 1) * (1 / log(s->warmup_steps)) : last / s->warmup_steps;
}

static double warmup_lr(const tx_ds_schedule *s, double last)
{
    double gamma = 1;
    if (last < 0) return s->min_lr;
    if (last < s->warmup_steps)
        gamma = warmed(s, last);
    else if (s->kind == TX_DS_WARMUP_DECAY)
        gamma = fmax(0, (s->total_steps - last) / fmax(1, s->total_steps - s->warmup_steps));
    return s->min_lr + (s->max_lr - s->min_lr) * gamma;
}

static double warmup_cosine_lr(const tx_ds_schedule *s, double last)
{
    if (last < 0) return 0;
    if (last < s->warmup_steps) return s->base_lr * (s->min_ratio + warmed(s, last) * (1 - s->min_ratio));
    double r = (last - s->warmup_steps + 1) / fmax(1, s->total_steps - s->warmup_steps);
    double ratio = (1 + cos(PI * fmin(1, r))) / 2;
    return s->base_lr * fmax(0, s->cos_min_ratio + (1 - s->cos_min_ratio) * ratio);
}

static double range_test_lr(const tx_ds_schedule *s, double last)
{
    double interval = (last + 1) / s->step_size;
    return s->min_lr * (1 + s->step_rate * (s->staircase != 0 ? floor(interval) : interval));
}

/* How far a cycle is up, 0 to 1, and down again; in stairs, if there are any. */
static double cycle_height(const tx_ds_schedule *s, double last)
{
    double all = s->first_steps + s->second_steps, ratio = s->first_steps / all, n = last + 1;
    double x = 1 + n / all - floor(1 + n / all), in_cycle = fmod(n, all);
    bool up = x <= ratio;
    double stairs = up ? s->first_stairs : s->second_stairs;
    if (stairs <= 0) return up ? x / ratio : (x - 1) / (ratio - 1);
    double at =
        in_cycle <= s->first_steps ? in_cycle * stairs / s->first_steps : (all - in_cycle) * stairs / s->second_steps;
    return floor(at) / stairs;
}

/* Whether the cycle is over; *intervals of the decay that follows. */
static bool is_decaying(const tx_ds_schedule *s, double last, double *intervals)
{
    double all = s->first_steps + s->second_steps;
    *intervals = s->decay_steps > 0 ? (last - all + 1) / s->decay_steps : 0;
    return last >= all;
}

static double one_cycle_lr(const tx_ds_schedule *s, double last)
{
    double intervals;
    if (is_decaying(s, last, &intervals)) return s->min_lr / (1 + s->decay_lr_rate * intervals);
    return s->min_lr + (s->max_lr - s->min_lr) * cycle_height(s, last);
}

/* clang-format off */
#define RATE(constant, word, rate) case constant: return rate;
/* clang-format on */

double tx_ds_schedule_lr(const tx_ds_schedule *s, int64_t steps)
{
    double last = (double)steps - 1;
    switch (s->kind) {
        TX_DS_SCHEDULES(RATE)
    }
    TX_ASSERT(false && "a kind of --lr-schedule");
    return 0;
}

/* Before the first step it is the lowest, behind it near the highest: so it is upstream. */
bool tx_ds_schedule_betas(const tx_ds_schedule *s, int64_t steps, double betas[2])
{
    double last = (double)steps - 1, intervals;
    if (s->cycles_momentum == 0) return false;
    betas[1] = 0.99;
    if (steps == 0)
        betas[0] = s->min_mom;
    else if (is_decaying(s, last, &intervals))
        betas[0] = s->max_mom * (1 + s->decay_mom_rate * intervals);
    else
        betas[0] = s->max_mom - (s->max_mom - s->min_mom) * cycle_height(s, last);
    return true;
}

/* ---- in checkpoints ---- */

#define FIELD(name)                           \
    {                                         \
#name, offsetof(tx_ds_schedule, name) \
    }
static const struct field {
    const char *key;
    size_t offset;
} fields[] = {
    FIELD(log_warmup),     FIELD(staircase),   FIELD(cycles_momentum), FIELD(min_lr),       FIELD(max_lr),
    FIELD(warmup_steps),   FIELD(total_steps), FIELD(base_lr),         FIELD(min_ratio),    FIELD(cos_min_ratio),
    FIELD(step_rate),      FIELD(step_size),   FIELD(first_steps),     FIELD(second_steps), FIELD(first_stairs),
    FIELD(second_stairs),  FIELD(decay_steps), FIELD(decay_lr_rate),   FIELD(min_mom),      FIELD(max_mom),
    FIELD(decay_mom_rate),
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static double *number_at(tx_ds_schedule *s, const struct field *f)
{
    return (double *)((char *)s + f->offset);
}

tx_status tx_ds_schedule_to_json(const tx_ds_schedule *s, int64_t steps, json_t **out)
{
    tx_ds_schedule copy = *s;
    const char *type = s->kind ? tx_ds_schedule_kind_word(s->kind) : "client";
    json_t *all = json_pack("{s:s, s:I}", "type", type, "last_batch_iteration", (json_int_t)(steps - 1));
    int failed = !all;
    for (size_t i = 0; i < N_FIELDS && !failed && s->kind; i++)
        failed = json_object_set_new(all, fields[i].key, json_real(*number_at(&copy, &fields[i])));
    if (!failed) {
        *out = all;
        return TX_OK;
    }
    json_decref(all);
    return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the schedule of a checkpoint");
}

tx_status tx_ds_schedule_steps(const json_t *saved, int64_t *steps)
{
    const json_t *last = json_object_get(saved, "last_batch_iteration");
    if (!json_is_integer(last) || json_integer_value(last) < -1 || json_integer_value(last) > (json_int_t)1 << 52)
        return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's lr_scheduler has no last_batch_iteration that can be");
    *steps = json_integer_value(last) + 1;
    return TX_OK;
}

tx_status tx_ds_schedule_from_json(tx_ds_schedule *s, const json_t *saved)
{
    const char *type = json_string_value(json_object_get(saved, "type"));
    *s = (tx_ds_schedule){ .kind = type ? tx_ds_schedule_kind_of(type) : 0 };
    for (size_t i = 0; i < N_FIELDS && s->kind; i++) {
        const json_t *v = json_object_get(saved, fields[i].key);
        if (!json_is_number(v) || !isfinite(json_number_value(v)))
            return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's lr_scheduler has no %s that can be", fields[i].key);
        *number_at(s, &fields[i]) = json_number_value(v);
    }
    bool cosine = s->kind == TX_DS_WARMUP_COSINE,
         warms = cosine || s->kind == TX_DS_WARMUP || s->kind == TX_DS_WARMUP_DECAY;
    if ((warms && s->warmup_steps < 2) || (s->kind == TX_DS_RANGE_TEST && s->step_size <= 0) ||
        (s->kind == TX_DS_ONE_CYCLE && (s->first_steps <= 0 || s->second_steps < 0)))
        return TX_FAIL(TX_ERR_FORMAT, "the checkpoint's lr_scheduler contradicts itself");
    return TX_OK;
}

static const char *name_or_none(const tx_ds_schedule *s)
{
    return s->kind ? tx_ds_schedule_kind_word(s->kind) : "none of DeepSpeed's";
}

/* As DeepSpeed keeps it: all else is in the JSON that a run is given again. */
static tx_status resume_place_alone(const tx_ds_schedule *mine, bool own)
{
    if (!mine->kind && !own)
        return TX_FAIL(TX_ERR_ARG, "the scheduler: the run's is none of DeepSpeed's, the checkpoint's is one; give "
                                   "--deepspeed-scheduler to go on with that, or --override-opt_param-scheduler to go "
                                   "on with the run's");
    tx_info(" > the checkpoint's scheduler is one of DeepSpeed's and says only where it stands: all else is the run's");
    return TX_OK;
}

tx_status tx_ds_schedule_resume(tx_ds_schedule *s, const json_t *saved, bool own, bool theirs)
{
    tx_ds_schedule other, mine = *s;
    if (saved && !json_object_get(saved, "type")) return resume_place_alone(s, own);
    TX_TRY(tx_ds_schedule_from_json(&other, saved));
    const struct field *f = fields, *end = fields + N_FIELDS;
    while (mine.kind == other.kind && f < end && *number_at(&mine, f) == *number_at(&other, f)) f++;
    if (mine.kind == other.kind && f == end) return TX_OK;
    char what[256];
    if (mine.kind != other.kind)
        snprintf(what, sizeof what, "the run's is %s, the checkpoint's %s", name_or_none(&mine), name_or_none(&other));
    else
        snprintf(what, sizeof what, "%s of the run's %s is %.10g, of the checkpoint's %.10g", f->key,
                 tx_ds_schedule_kind_word(mine.kind), *number_at(&mine, f), *number_at(&other, f));
    if (!own && !theirs)
        return TX_FAIL(TX_ERR_ARG,
                       "the scheduler: %s; give --override-opt_param-scheduler to go on with the run's, or "
                       "--use-checkpoint-opt_param-scheduler to go on with the checkpoint's",
                       what);
    tx_info(" > %s scheduler: %s", own ? "overriding the checkpoint's" : "using the checkpoint's", what);
    if (theirs && !own) *s = other;
    return TX_OK;
}
