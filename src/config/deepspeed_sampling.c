/* deepspeed_sampling.c - data_efficiency.data_sampling, whose metrics have names of their own and so no rows in
 * deepspeed_keys.def. Source: DeepSpeed, runtime/data_pipeline/config.py, constants.py. */
#include "config/deepspeed_sampling.h"

#include <stdlib.h>
#include <string.h>

#include "config/curriculum_metrics.h"
#include "config/deepspeed_values.h"
#include "config/option_table.h"

static tx_status put_text(const tx__ds_sampling_to *to, const char *flag, const char *text)
{
    return to->put(to->user, flag, &text, 1);
}

static tx_status known(const json_t *of, const char *where, const char *members)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)of, key, v) if (!tx__word_in(members, key)) return TX_FAIL(
        TX_ERR_ARG, "%s%.60s: there is no such key; docs/deepspeed-keys.md lists the keys", where, key);
    return TX_OK;
}

/* A member of the type, NULL where it is left out. */
static tx_status member(const json_t **out, const json_t *of, const char *key, tx__ds_type type)
{
    static const char *const takes[] = { "true or false", "a number", "a string", "a list", "an object { ... }", "" };
    *out = json_object_get(of, key);
    if (tx__ds_is_auto(*out)) *out = NULL;
    if (!*out || tx__ds_fits(*out, type)) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s is %s; it takes %s", key, tx__ds_is(*out), takes[type]);
}

static tx_status put_list(const tx__ds_sampling_to *to, const char *flag, const json_t *list)
{
    enum { MOST = 1000 };
    const char *text[MOST];
    char buf[MOST][40];
    int n = (int)json_array_size(list);
    TX_ASSERT(n && n <= MOST); /* of a metric that could be read */
    for (int i = 0; i < n; i++) text[i] = tx__ds_text(buf[i], json_array_get(list, (size_t)i));
    return to->put(to->user, flag, text, n);
}

/* seqlen_truncate cuts samples, which is what the options of lengths do. */
static tx_status put_lengths(const tx__ds_sampling_to *to, const json_t *metric, const tx_curriculum *c)
{
    static const char *const numbers[][2] = { { "total_curriculum_step", "curriculum-total-step" },
                                              { "difficulty_step", "curriculum-difficulty-step" },
                                              { "root_degree", "curriculum-root-degree" } };
    const json_t *config = json_object_get(metric, "schedule_config");
    const char *takes = tx__curriculum_takes(c->kind);
    char buf[40];
    TX_TRY(put_text(to, "curriculum-schedule", tx_curriculum_kind_word(c->kind)));
    TX_TRY(put_text(to, "curriculum-min-difficulty", tx__ds_text(buf, json_object_get(metric, "min_difficulty"))));
    TX_TRY(put_text(to, "curriculum-max-difficulty", tx__ds_text(buf, json_object_get(metric, "max_difficulty"))));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (tx__word_in(takes, numbers[i][0]))
            TX_TRY(put_text(to, numbers[i][1], tx__ds_text(buf, json_object_get(config, numbers[i][0]))));
    if (!tx__word_in(takes, "max_step")) return TX_OK;
    TX_TRY(put_list(to, "curriculum-difficulty", json_object_get(config, "difficulty")));
    return put_list(to, "curriculum-max-step", json_object_get(config, "max_step"));
}

static tx_status put_metrics(const tx__ds_sampling_to *to, json_t *value)
{
    tx_curriculum_metrics all = { 0 };
    json_t *drawn = json_object();
    char *text = NULL, line[400];
    tx_status st;
    TX_GOTO(tx_curriculum_metrics_read(&all, value));
    for (int i = 0; i < all.n; i++) {
        const tx_curriculum_metric *m = &all.metric[i];
        json_t *v = json_object_get(value, m->name);
        if (!strcmp(m->name, "seqlen_reshape")) {
            st = TX_FAIL(TX_ERR_ARG, "seqlen_reshape is not built, which makes more samples of a micro-batch's: give "
                                     "seqlen_truncate, which cuts them");
            goto out;
        }
        if (!strcmp(m->name, "seqlen_truncate")) TX_GOTO(put_lengths(to, v, &m->schedule));
        if (m->clusters && json_object_set(drawn, m->name, v)) goto memory;
        if (m->clusters || !strcmp(m->name, "seqlen_truncate")) continue;
        snprintf(line, sizeof line,
                 "curriculum_learning.curriculum_metrics.%.200s: accepted, without effect here: it is of a single "
                 "cluster, and not seqlen_truncate",
                 m->name);
        TX_GOTO(to->note(to->user, line));
    }
    text = json_dumps(drawn, JSON_COMPACT);
    if (!text) goto memory;
    TX_GOTO(put_text(to, "curriculum-metrics", text));
out:
    free(text);
    json_decref(drawn);
    tx_curriculum_metrics_free(&all);
    return st;
memory:
    st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for the metrics of DeepSpeed's JSON");
    goto out;
}

static tx_status read_learning(const json_t *value, bool enabled, const tx__ds_sampling_to *to)
{
    const json_t *on, *path, *metrics;
    TX_TRY(known(value, "curriculum_learning.", "enabled|data_cluster_path|curriculum_metrics"));
    TX_TRY(member(&on, value, "enabled", T_BOOL));
    TX_TRY(member(&path, value, "data_cluster_path", T_STRING));
    TX_TRY(member(&metrics, value, "curriculum_metrics", T_OBJECT));
    if (!json_is_true(on)) return TX_OK;
    if (!enabled)
        return TX_FAIL(TX_ERR_ARG, "curriculum_learning is enabled, and data_efficiency or data_sampling is not: give "
                                   "\"enabled\": true to all three, or to none");
    if (!metrics)
        return TX_FAIL(TX_ERR_ARG, "curriculum_learning is enabled and has no curriculum_metrics: give an object of "
                                   "metrics");
    TX_TRY(put_text(to, "data-efficiency-curriculum-learning", "true"));
    if (path) TX_TRY(put_text(to, "data-cluster-path", json_string_value(path)));
    tx_status st = put_metrics(to, (json_t *)metrics);
    if (st != TX_ERR_ARG) return st;
    char text[600];
    snprintf(text, sizeof text, "%s", tx_last_error());
    return TX_FAIL(TX_ERR_ARG, "curriculum_learning.curriculum_metrics: %s", text);
}

tx_status tx__ds_sampling_read(const json_t *value, bool enabled, const tx__ds_sampling_to *to)
{
    const json_t *on, *epochs, *learning, *dynamic, *unused;
    char buf[40];
    TX_TRY(known(value, "", "enabled|num_epochs|num_workers|pin_memory|curriculum_learning|dynamic_batching"));
    TX_TRY(member(&on, value, "enabled", T_BOOL));
    TX_TRY(member(&epochs, value, "num_epochs", T_NUMBER));
    TX_TRY(member(&unused, value, "num_workers", T_NUMBER));
    TX_TRY(member(&unused, value, "pin_memory", T_BOOL));
    TX_TRY(member(&learning, value, "curriculum_learning", T_OBJECT));
    TX_TRY(member(&dynamic, value, "dynamic_batching", T_OBJECT));
    if (json_is_true(json_object_get(dynamic, "enabled")))
        return TX_FAIL(TX_ERR_ARG, "dynamic_batching is not built: a batch has --global-batch-size samples; give "
                                   "\"enabled\": false, or leave it out");
    enabled = enabled && json_is_true(on);
    if (enabled && epochs) TX_TRY(put_text(to, "data-sampling-num-epochs", tx__ds_text(buf, epochs)));
    return learning ? read_learning(learning, enabled, to) : TX_OK;
}
