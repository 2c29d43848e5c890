/* rules_curriculum.c - rules across options: lengths of samples that grow, and samples that are drawn by their
 * difficulty (curriculum.c). */
#include <string.h>

#include "config/curriculum_metrics.h"
#include "config/rules.h"
#include "kinds/sample_metrics.h"

static const char *key_of(const char *flag)
{
    static const char *const keys[][2] = {
        { "curriculum-min-difficulty", "min_difficulty" },
        { "curriculum-max-difficulty", "max_difficulty" },
        { "curriculum-total-step", "schedule_config.total_curriculum_step" },
        { "curriculum-difficulty-step", "schedule_config.difficulty_step" },
        { "curriculum-root-degree", "schedule_config.root_degree" },
        { "curriculum-difficulty", "schedule_config.difficulty" },
        { "curriculum-max-step", "schedule_config.max_step" },
    };
    size_t i = 0;
    while (strcmp(keys[i][0], flag) != 0) i++;
    return keys[i][1];
}

/* Whether an option of the group is of the schedule: the range is of all of them. */
static bool is_taken(const tx_config *c, const char *flag)
{
    const char *key = key_of(flag), *dot = strchr(key, '.');
    return !dot || tx__word_in(tx__curriculum_takes(c->curriculum_schedule), dot + 1);
}

static bool is_parameter(const tx_option *o)
{
    return tx__has_member(o) && !strncmp(o->flag, "curriculum-", 11) && strcmp(o->flag, "curriculum-schedule") != 0 &&
           strcmp(o->flag, "curriculum-metrics") != 0;
}

/* Whether any option of it is given, whose rows stand together: advice.c asks a million times. */
static bool names_any(const tx_config_given *g)
{
    const bool *first = &g->curriculum_schedule, *last = &g->curriculum_max_step;
    while (first < last && !*first) first++;
    return *first;
}

static void rule_curriculum_has_what_it_needs(const tx__check *k)
{
    const tx_config *c = k->c;
    if (k->bad->curriculum_schedule || !names_any(k->g)) return;
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (!is_parameter(o)) continue;
        bool given = tx__is_given(c, o);
        if (given && !c->curriculum_schedule)
            tx__violate(k->v, "--%s needs --curriculum-schedule", o->flag);
        else if (c->curriculum_schedule && given && !is_taken(c, o->flag))
            tx__violate(k->v, "--%s is none of --curriculum-schedule %s's: leave it out", o->flag,
                        tx_curriculum_kind_word(c->curriculum_schedule));
        else if (c->curriculum_schedule && !given && is_taken(c, o->flag))
            tx__violate(k->v, "--curriculum-schedule %s needs --%s (curriculum_learning.%s)",
                        tx_curriculum_kind_word(c->curriculum_schedule), o->flag, key_of(o->flag));
    }
}

static void rule_curriculum_is_of_a_gpt(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->curriculum_schedule || k->bad->curriculum_schedule) return;
    if (c->command->id == TX_COMMAND_ENGINE)
        tx__violate(k->v,
                    "--curriculum-schedule cuts the samples of a GPT; what is a sample of a user-defined model, its "
                    "own program cuts: leave it out, or \"enabled\": false of curriculum_learning");
    else if (!k->bad->model_type && c->model_type == TX_MODEL_BERT)
        tx__violate(k->v, "--curriculum-schedule: a BERT's samples are not cut, upstream's neither: leave it out, or "
                          "\"enabled\": false of curriculum_learning");
}

/* Numbers that a list must have. */
static bool check_list(const tx__check *k, const tx_list *l, const char *flag)
{
    for (int i = 0; i < l->n; i++)
        if (!tx__curriculum_item(l, i)) {
            tx__violate(k->v, "--%s %.40s: each is a whole number from 1 to 1e9", flag, l->item[i]);
            return false;
        }
    return true;
}

static void check_lists(const tx__check *k)
{
    const tx_list *length = &k->c->curriculum_difficulty, *last = &k->c->curriculum_max_step;
    if (!check_list(k, length, "curriculum-difficulty") || !check_list(k, last, "curriculum-max-step")) return;
    if (length->n != last->n + 1)
        tx__violate(
            k->v,
            "--curriculum-difficulty has %d lengths and --curriculum-max-step %d iterations: it takes one less, as "
            "the last length is that of all that follow",
            length->n, last->n);
    for (int i = 1; i < last->n; i++)
        if (tx__curriculum_item(last, i) <= tx__curriculum_item(last, i - 1))
            tx__violate(k->v, "--curriculum-max-step: %s comes after %s, and is not more", last->item[i],
                        last->item[i - 1]);
    for (int i = 0; i < length->n && k->c->seq_length && !k->bad->seq_length; i++)
        if (tx__curriculum_item(length, i) > k->c->seq_length)
            tx__violate(k->v, "--curriculum-difficulty %s is more than --seq-length %lld", length->item[i],
                        (long long)k->c->seq_length);
}

static void rule_curriculum_has_a_range(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->curriculum_schedule || k->bad->curriculum_min_difficulty || k->bad->curriculum_max_difficulty) return;
    if (c->curriculum_schedule == TX_CURRICULUM_DISCRETE) check_lists(k);
    if (!k->g->curriculum_min_difficulty || !k->g->curriculum_max_difficulty) return;
    if (c->curriculum_min_difficulty > c->curriculum_max_difficulty)
        tx__violate(k->v, "--curriculum-min-difficulty %lld is more than --curriculum-max-difficulty %lld",
                    (long long)c->curriculum_min_difficulty, (long long)c->curriculum_max_difficulty);
    else if (!k->bad->seq_length && c->seq_length && c->curriculum_max_difficulty > c->seq_length)
        tx__violate(k->v, "--curriculum-max-difficulty %lld is more than --seq-length %lld",
                    (long long)c->curriculum_max_difficulty, (long long)c->seq_length);
}

bool tx__lengths_next(const tx_config *c, tx__lengths *l)
{
    int64_t until;
    if (l->last >= (c->train_iters ? c->train_iters : 1000000000)) return false;
    l->first = l->last + 1;
    l->sample = tx_config_sample_length(c, l->first, &l->last);
    if (!l->drops) return true;
    l->layers = tx_config_reserved_length(c, l->first, &until);
    if (until < l->last) l->last = until;
    return true;
}

/* The first iteration whose length the tensor-parallel ranks cannot divide. */
static void rule_tensor_ranks_divide_lengths(const tx__check *k)
{
    const tx_config *c = k->c;
    int64_t t = c->tensor_model_parallel_size;
    if (k->bad->tensor_model_parallel_size || t < 2 || !tx__curriculum_is_sound(k)) return;
    bool partitions = !k->bad->hidden_size && tx_config_recompute(c).divided && c->hidden_size % t != 0;
    if (!c->sequence_parallel && !partitions) return;
    for (tx__lengths l = { 0 }; tx__lengths_next(c, &l);) {
        if (l.sample % t) {
            tx__violate_mendable(
                k, TX__TENSOR | TX__NO_SEQUENCE_PARALLEL,
                "%s: --curriculum-schedule has %lld tokens from iteration %lld on, which are not divisible by "
                "--tensor-model-parallel-size %lld",
                c->sequence_parallel ? "--sequence-parallel" : "--partition-activations", (long long)l.sample,
                (long long)l.first, (long long)t);
            return;
        }
    }
}

/* Whether lengths can be computed. */
bool tx__curriculum_is_sound(const tx__check *k)
{
    const tx_config *c = k->c;
    if (!c->curriculum_schedule || k->bad->curriculum_schedule) return false;
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (is_parameter(o) && is_taken(c, o->flag) && (!tx__is_given(c, o) || *tx__given(k->bad, o))) return false;
    }
    const tx_list *length = &c->curriculum_difficulty, *last = &c->curriculum_max_step;
    if (c->curriculum_schedule == TX_CURRICULUM_DISCRETE && length->n != last->n + 1) return false;
    for (int i = 0; i < length->n; i++)
        if (!tx__curriculum_item(length, i)) return false;
    for (int i = 0; i < last->n; i++)
        if (!tx__curriculum_item(last, i) || (i && tx__curriculum_item(last, i) <= tx__curriculum_item(last, i - 1)))
            return false;
    return true;
}

/* ---- samples that are drawn by difficulty ---- */

static void rule_metrics_can_be_read(const tx__check *k)
{
    tx_curriculum_metrics all;
    const char *text = k->c->curriculum_metrics;
    if (!text || k->bad->curriculum_metrics) return;
    tx_status st = tx_curriculum_metrics_parse(&all, text);
    if (st) {
        tx__violate(k->v, "--curriculum-metrics: %.500s", tx_last_error());
        k->bad->curriculum_metrics = true;
        return;
    }
    for (int i = 0; i < all.n; i++)
        if (!all.metric[i].clusters)
            tx__violate(k->v,
                        "--curriculum-metrics: %.60s is of a single cluster, so no sample is drawn by it: leave "
                        "it out; what seqlen_truncate does are --curriculum-schedule and its kin",
                        all.metric[i].name);
    tx_curriculum_metrics_free(&all);
}

static void rule_drawn_samples_have_what_they_need(const tx__check *k)
{
    const tx_config *c = k->c;
    const tx_config_given *g = k->g;
    if (!c->data_efficiency_curriculum_learning) {
        if (g->curriculum_metrics || g->data_cluster_path || g->data_sampling_num_epochs)
            tx__violate(k->v, "--%s needs --data-efficiency-curriculum-learning",
                        g->curriculum_metrics  ? "curriculum-metrics"
                        : g->data_cluster_path ? "data-cluster-path"
                                               : "data-sampling-num-epochs");
        return;
    }
    if (!c->curriculum_metrics && !k->bad->curriculum_metrics)
        tx__violate(k->v, "--data-efficiency-curriculum-learning needs --curriculum-metrics, or an enabled "
                          "data_efficiency.data_sampling in --deepspeed_config: {} draws from all samples");
    if (c->command->id == TX_COMMAND_ENGINE)
        tx__violate(k->v, "--data-efficiency-curriculum-learning draws samples of a dataset; a program of its own has "
                          "its own: leave it out, or \"enabled\": false of data_efficiency");
    if (c->rampup_batch_size.n)
        tx__violate(k->v, "--data-efficiency-curriculum-learning draws batches of one size, DeepSpeed's too: leave "
                          "--rampup-batch-size out");
    if (!k->bad->dataloader_type && c->dataloader_type == TX_DATALOADER_CYCLIC)
        tx__violate(k->v, "--data-efficiency-curriculum-learning is an order of its own: use --dataloader-type single");
    if (c->data_path.n > 1 || c->train_data_path.n > 1 || tx__names_weighted(g))
        tx__violate(k->v, "--data-efficiency-curriculum-learning draws from one dataset, whose samples the metrics' "
                          "files number: join several with triax merge-datasets");
}

/* ---- analyze-data ---- */

static void rule_analysis_has_what_it_needs(const tx__check *k)
{
    const tx_config *c = k->c;
    tx__need(k, c->data_path.n || c->train_data_path.n || c->train_data.n || c->mock_data, "data-path");
    tx__need(k, k->g->seq_length || c->seq_length, "seq-length");
    tx__need(k, c->save, "save");
    tx__need(k, c->analyzing_metric.n, "analyzing-metric");
    if (c->data_path.n > 1 || c->train_data_path.n > 1 || tx__names_weighted(k->g))
        tx__violate(k->v, "analyze-data measures the samples of one dataset: join several with triax merge-datasets");
    for (int i = 0; i < c->analyzing_metric.n; i++) {
        const char *word = c->analyzing_metric.item[i];
        enum tx_sample_metric kind = tx_sample_metric_of(word);
        if (!kind)
            tx__violate(k->v,
                        "--analyzing-metric %.60s: there are total_vocab_freq, vocab_rarity, seqlen and "
                        "seqlen_vocab_rarity",
                        word);
        else if (!tx_sample_metric_is_of_any(kind) && !k->bad->model_type && c->model_type != TX_MODEL_BERT)
            tx__violate(k->v,
                        "--analyzing-metric %s: GPT data has fixed seqlen, thus unnecessary to analyze seqlen "
                        "metric; give --model-type BERT, or leave it out",
                        word);
    }
}

const tx__rule tx__rules_curriculum[] = {
    { "analyze-data", rule_analysis_has_what_it_needs },
    { NULL, rule_metrics_can_be_read },
    { "training", rule_drawn_samples_have_what_they_need },
    { NULL, rule_curriculum_has_what_it_needs },
    { NULL, rule_curriculum_is_of_a_gpt },
    { NULL, rule_curriculum_has_a_range },
    { "training", rule_tensor_ranks_divide_lengths },
    { NULL, NULL },
};
