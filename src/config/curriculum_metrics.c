/* curriculum_metrics.c - from JSON to the metrics by which samples are drawn. */
#include "config/curriculum_metrics.h"

#include <string.h>

#include "base/alloc.h"
#include "config/option_table.h"

enum { MOST_METRICS = 16, MOST_LISTED = 1000, MOST_TEXT = 4000 };
static const int64_t MOST_DIFFICULTY = 1000000000000000, MOST_STEP = 1000000000;

/* A metric while it is read: its name is in every message. */
typedef struct source {
    const char *name;
    const json_t *value, *config; /* config: schedule_config */
} source;

static tx_status take_integer(const source *s, int64_t *out, const json_t *in, const char *key, const int64_t *bound)
{
    const json_t *v = json_object_get(in, key);
    if (!v) return TX_FAIL(TX_ERR_ARG, "%.60s has no %s: give a whole number", s->name, key);
    double real = json_is_real(v) ? json_real_value(v) : -1; /* 2e8 is whole */
    *out = bound[0] - 1;
    if (json_is_integer(v))
        *out = json_integer_value(v);
    else if (real >= 0 && real <= (double)MOST_DIFFICULTY && real == (double)(int64_t)real)
        *out = (int64_t)real;
    if (*out >= bound[0] && *out <= bound[1]) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%.60s: %s is a whole number from %lld to %lld", s->name, key, (long long)bound[0],
                   (long long)bound[1]);
}

static tx_status take_text(const source *s, char **out, const char *key)
{
    const json_t *v = json_object_get(s->value, key);
    const char *text = json_string_value(v);
    if (!v || !text || !*text || strlen(text) > MOST_TEXT)
        return TX_FAIL(TX_ERR_ARG,
                       "%.60s has no %s: give the path, without .bin and .idx, that triax analyze-data has written",
                       s->name, key);
    return tx_memdup0(out, text, strlen(text), "a metric's path");
}

/* Which of two words a member is. */
static tx_status take_word(const source *s, bool *out, const char *key, const char *no, const char *yes)
{
    const char *text = json_string_value(json_object_get(s->value, key));
    *out = text && !strcmp(text, yes);
    if (*out || (text && !strcmp(text, no))) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%.60s: %s is %s or %s", s->name, key, no, yes);
}

static tx_status take_keys(const source *s, const json_t *in, const char *allowed, const char *where)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)in, key, v) if (!tx__word_in(allowed, key)) return TX_FAIL(
        TX_ERR_ARG, "%.60s: %.60s is no member of %s: leave it out", s->name, key, where);
    return TX_OK;
}

static tx_status take_list(const source *s, int64_t **out, const char *key, size_t n, const int64_t *bound)
{
    const json_t *list = json_object_get(s->config, key);
    if (json_array_size(list) != n || !n || n > MOST_LISTED)
        return TX_FAIL(TX_ERR_ARG,
                       "%.60s: schedule_config has a list difficulty of 2 to %d numbers, and a list max_step of one "
                       "less",
                       s->name, MOST_LISTED);
    TX_TRY(tx_alloc(out, n, sizeof **out, "a metric's schedule"));
    for (size_t i = 0; i < n; i++) {
        json_t *one = json_pack("{s:O}", key, json_array_get(list, i));
        tx_status st = one ? take_integer(s, &(*out)[i], one, key, bound) : TX_FAIL(TX_ERR_NOMEM, "not enough memory");
        json_decref(one);
        TX_TRY(st);
    }
    return TX_OK;
}

static tx_status take_listed(const source *s, tx_curriculum *c)
{
    const int64_t step[] = { 1, MOST_STEP }, difficulty[] = { 0, MOST_DIFFICULTY };
    size_t n = json_array_size(json_object_get(s->config, "max_step"));
    TX_TRY(take_list(s, &c->max_step, "max_step", n, step));
    TX_TRY(take_list(s, &c->difficulty, "difficulty", n + 1, difficulty));
    c->n = (int)n;
    for (int i = 1; i < c->n; i++)
        if (c->max_step[i] <= c->max_step[i - 1])
            return TX_FAIL(TX_ERR_ARG, "%.60s: max_step: %lld comes after %lld, and is not more", s->name,
                           (long long)c->max_step[i], (long long)c->max_step[i - 1]);
    return TX_OK;
}

static tx_status take_schedule(source *s, tx_curriculum *c)
{
    const int64_t step[] = { 1, MOST_STEP }, difficulty[] = { 0, MOST_DIFFICULTY }, unit[] = { 1, MOST_DIFFICULTY };
    const char *type = json_string_value(json_object_get(s->value, "schedule_type"));
    c->kind = type ? tx_curriculum_kind_of(type) : (enum tx_curriculum_kind)0;
    if (!c->kind)
        return TX_FAIL(TX_ERR_ARG, "%.60s: schedule_type is fixed_linear, fixed_root or fixed_discrete", s->name);
    TX_TRY(take_integer(s, &c->min, s->value, "min_difficulty", difficulty));
    TX_TRY(take_integer(s, &c->max, s->value, "max_difficulty", difficulty));
    if (c->min > c->max)
        return TX_FAIL(TX_ERR_ARG, "%.60s: min_difficulty %lld is more than max_difficulty %lld", s->name,
                       (long long)c->min, (long long)c->max);
    s->config = json_object_get(s->value, "schedule_config");
    const char *takes = tx__curriculum_takes(c->kind);
    char where[80];
    snprintf(where, sizeof where, "the schedule_config of %s", tx_curriculum_kind_word(c->kind));
    TX_TRY(take_keys(s, s->config, takes, where));
    if (tx__word_in(takes, "max_step")) return take_listed(s, c);
    TX_TRY(take_integer(s, &c->total_step, s->config, "total_curriculum_step", step));
    TX_TRY(take_integer(s, &c->step, s->config, "difficulty_step", unit));
    if (!tx__word_in(takes, "root_degree")) return TX_OK;
    const json_t *degree = json_object_get(s->config, "root_degree");
    c->root_degree = json_number_value(degree);
    if (json_is_number(degree) && c->root_degree >= 0.01 && c->root_degree <= 1000) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%.60s: root_degree is a number from 0.01 to 1000", s->name);
}

static tx_status take_metric(tx_curriculum_metric *m, source *s)
{
    if (!json_is_object(s->value) || !*s->name || strlen(s->name) > 200)
        return TX_FAIL(TX_ERR_ARG, "\"%.60s\" is no metric: a metric is a name with an object { ... }", s->name);
    TX_TRY(take_keys(s, s->value,
                     "index_to_sample_path|index_to_metric_path|difficulty_type|clustering_type|min_difficulty|"
                     "max_difficulty|schedule_type|schedule_config",
                     "a metric"));
    TX_TRY(tx_memdup0(&m->name, s->name, strlen(s->name), "a metric's name"));
    TX_TRY(take_word(s, &m->percentile, "difficulty_type", "value", "percentile"));
    TX_TRY(take_word(s, &m->clusters, "clustering_type", "single_cluster", "schedule_based"));
    TX_TRY(take_schedule(s, &m->schedule));
    if (!m->clusters) return TX_OK;
    if (m->percentile && !m->schedule.max)
        return TX_FAIL(TX_ERR_ARG, "%.60s: max_difficulty is 0, of percentiles it is at least 1", s->name);
    TX_TRY(take_text(s, &m->index_to_sample, "index_to_sample_path"));
    return m->percentile ? TX_OK : take_text(s, &m->index_to_metric, "index_to_metric_path");
}

tx_status tx_curriculum_metrics_read(tx_curriculum_metrics *out, const json_t *value)
{
    tx_curriculum_metrics all = { 0 };
    const char *name;
    json_t *v;
    tx_status st;
    if (!json_is_object(value) || json_object_size(value) > MOST_METRICS)
        return TX_FAIL(TX_ERR_ARG, "it takes an object of at most %d metrics, {\"NAME\": { ... }, ...}", MOST_METRICS);
    TX_GOTO(tx_alloc(&all.metric, json_object_size(value) + 1, sizeof *all.metric, "the metrics"));
    json_object_foreach((json_t *)value, name, v)
    {
        source s = { .name = name, .value = v };
        TX_GOTO(take_metric(&all.metric[all.n++], &s));
    }
    *out = all;
    return TX_OK;
out:
    tx_curriculum_metrics_free(&all);
    return st;
}

tx_status tx_curriculum_metrics_parse(tx_curriculum_metrics *out, const char *text)
{
    json_error_t error;
    *out = (tx_curriculum_metrics){ 0 };
    if (!text) return TX_OK;
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!value)
        return TX_FAIL(TX_ERR_ARG, "it is no JSON object {\"NAME\": { ... }, ...}: column %d: %.100s", error.column,
                       error.text);
    tx_status st = tx_curriculum_metrics_read(out, value);
    json_decref(value);
    return st;
}

void tx_curriculum_metrics_free(tx_curriculum_metrics *m)
{
    for (int i = 0; i < m->n; i++) {
        tx_free(m->metric[i].name);
        tx_free(m->metric[i].index_to_sample);
        tx_free(m->metric[i].index_to_metric);
        tx_free(m->metric[i].schedule.difficulty);
        tx_free(m->metric[i].schedule.max_step);
    }
    tx_free(m->metric);
    *m = (tx_curriculum_metrics){ 0 };
}
