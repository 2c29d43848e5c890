/* show_time.c - how long an iteration and the run take on a machine, for people and as JSON. */
#include "api/show_time.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static const double DAY = 86400, HOUR = 3600;

/* ---- what there is to show ---- */

tx_status tx_plan_time_open(tx_plan_time *out, const tx_config *cfg)
{
    *out = (tx_plan_time){ 0 };
    tx_machine *m = &out->machine;
    TX_TRY(tx_machine_read(m, cfg->machine));
    if (cfg->given.gpus_per_node) m->ranks_per_node = (double)cfg->gpus_per_node;
    if (cfg->given.node_bandwidth) m->net_bandwidth = 1e9 * cfg->node_bandwidth;
    if (cfg->bf16 && m->bf16_peak <= m->fp32_peak && m->fp16_peak > m->fp32_peak)
        tx_warn("%s has no products of bf16 that are faster than those of fp32: --fp16 is faster there", m->name);
    return TX_OK;
}

tx_status tx_plan_time_predict(tx_plan_time *t, const tx_config *cfg, int64_t vocab_size, double tokens)
{
    t->tokens = tokens;
    TX_TRY(tx_run_work_make(&t->work, cfg, vocab_size));
    return tx_predict(&t->time, &t->work, &t->machine);
}

void tx_plan_time_free(tx_plan_time *t)
{
    tx_run_work_free(&t->work);
    tx_machine_free(&t->machine);
    *t = (tx_plan_time){ 0 };
}

static int64_t ranks_per_node(const tx_plan_time *t)
{
    return (int64_t)t->machine.ranks_per_node;
}

static int64_t n_nodes(const tx_plan_time *t)
{
    return (t->work.world_size + ranks_per_node(t) - 1) / ranks_per_node(t);
}

/* Of a rank, as Megatron-DeepSpeed's log has it. */
static double megatron_flops_per_s(const tx_plan_time *t)
{
    return t->work.stage[0].plan.flops_2021 / t->time.iteration / (double)t->work.world_size;
}

/* Seconds of the whole run, of one iteration's. */
static double of_run(const tx_plan_time *t, double iteration)
{
    return t->tokens / (double)t->work.tokens * iteration;
}

static double gpu_hours(const tx_plan_time *t)
{
    return of_run(t, t->time.iteration) / HOUR * (double)t->work.world_size;
}

static double exposed(const tx_time *t)
{
    double s = 0;
    for (int i = 0; i < TX_N_STEP_GROUPS; i++) s += t->exposed[i];
    return s;
}

/* ---- how the ranks lie on the nodes ---- */

enum { MAX_NOTES = 2, NOTE = 256 };

/* What users may not have meant. Returns how many notes there are. */
static int list_notes(char note[MAX_NOTES][NOTE], const tx_plan_time *t)
{
    long long tp = t->work.layout.size[TX_AXIS_TENSOR], node = ranks_per_node(t), world = t->work.world_size;
    int n = 0;
    if (tp > node)
        snprintf(note[n++], NOTE,
                 "tensor parallelism of %lld crosses nodes of %lld ranks: its messages go through the network; "
                 "a --tensor-model-parallel-size of at most %lld stays in a node",
                 tp, node, node);
    else if (world > node && node % tp)
        snprintf(note[n++], NOTE,
                 "tensor parallelism of %lld does not divide nodes of %lld ranks: messages of some groups go through "
                 "the network",
                 tp, node);
    if (world > node && world % node)
        snprintf(note[n++], NOTE, "the last of %lld nodes has %lld of %lld ranks; --world-size %lld fills all of them",
                 (long long)n_nodes(t), world % node, node, (long long)n_nodes(t) * node);
    return n;
}

/* ---- for people ---- */

/* Parts of an iteration have its unit: "2.41" of seconds, or of milliseconds where it takes less than one. */
static const char *in_unit(char buf[32], double s, double iteration)
{
    double unit = iteration < 1 ? 1e-3 : 1, most = iteration / unit;
    snprintf(buf, 32, "%.*f", most >= 100 ? 1 : most >= 10 ? 2 : 3, s / unit);
    return buf;
}

static const char *unit_of(double iteration)
{
    return iteration < 1 ? "ms" : "s";
}

/* Nothing of what is less than a line can show. */
static tx_status show_part(tx__report *r, const tx_time *t, const char *name, double s)
{
    char text[32];
    if (s < 0.0005 * t->iteration) return TX_OK;
    return tx__report_line(r, "        %-34s %10s %-2s %6.1f %%", name, in_unit(text, s, t->iteration),
                           unit_of(t->iteration), 100 * s / t->iteration);
}

static tx_status show_parts(tx__report *r, const tx_time *t)
{
    TX_TRY(show_part(r, t, "matrix products", t->products));
    TX_TRY(show_part(r, t, "attention", t->attention));
    TX_TRY(show_part(r, t, "other ops", t->memory_bound));
    for (int i = 0; i < TX_N_STEP_GROUPS; i++) {
        char name[48];
        snprintf(name, sizeof name, "messages, %s", tx_group_names[i]);
        TX_TRY(show_part(r, t, name, t->exposed[i]));
    }
    TX_TRY(show_part(r, t, "copies to and from the host", t->copies));
    TX_TRY(show_part(r, t, "waiting for other stages (bubble)", t->bubble));
    TX_TRY(show_part(r, t, "optimizer", t->update));
    return show_part(r, t, "other", t->other);
}

/* Tokens a second, with a digit behind the point where they are few. */
static const char *rate_text(char buf[32], double rate)
{
    if (rate >= 1000) return tx__grouped(buf, (int64_t)llround(rate));
    snprintf(buf, 32, "%.*f", rate >= 100 ? 0 : 1, rate);
    return buf;
}

static tx_status show_speed(tx__report *r, const tx_plan_time *t)
{
    char all[32], each[32], again[80] = "";
    const tx_time *its = &t->time;
    if (t->work.flops_again > 0)
        snprintf(again, sizeof again, "; %.4g with what is computed again", its->hardware_flops_per_s / 1e12);
    TX_TRY(tx__report_line(r, "    tokens/s: %s, %s a rank",
                           rate_text(all, its->tokens_per_s * (double)t->work.world_size),
                           rate_text(each, its->tokens_per_s)));
    return tx__report_line(r, "    TFLOP/s a rank: %.4g by Megatron's formula; %.4g the model's, %.1f %% of the peak%s",
                           megatron_flops_per_s(t) / 1e12, its->flops_per_s / 1e12, 100 * its->peak_share, again);
}

static tx_status show_run(tx__report *r, const tx_plan_time *t)
{
    char hours[32];
    if (t->tokens < 1) return TX_OK;
    double s = of_run(t, t->time.iteration), unit = s >= DAY ? DAY : s >= HOUR ? HOUR : 60, spent = gpu_hours(t);
    const char *name = s >= DAY ? "days" : s >= HOUR ? "hours" : "minutes";
    if (spent >= 100)
        tx__grouped(hours, (int64_t)llround(spent));
    else
        snprintf(hours, sizeof hours, "%.2g", spent);
    return tx__report_line(r, "    the run: %.1f %s (%.1f .. %.1f), %s GPU-hours", s / unit, name,
                           of_run(t, t->time.low) / unit, of_run(t, t->time.high) / unit, hours);
}

tx_status tx__show_time(tx__report *r, const tx_plan_time *t)
{
    char note[MAX_NOTES][NOTE], s[32], low[32], high[32];
    const tx_time *its = &t->time;
    long long n = n_nodes(t), world = t->work.world_size, node = ranks_per_node(t);
    TX_TRY(tx__report_line(r, "time on %s, %lld rank%s on %lld node%s of %lld:", t->machine.name, world,
                           world > 1 ? "s" : "", n, n > 1 ? "s" : "", node));
    TX_TRY(tx__report_line(r, "    %-38s %10s %-2s           (half of the runs: %s .. %s)", "iteration",
                           in_unit(s, its->iteration, its->iteration), unit_of(its->iteration),
                           in_unit(low, its->low, its->iteration), in_unit(high, its->high, its->iteration)));
    TX_TRY(show_parts(r, its));
    TX_TRY(show_speed(r, t));
    TX_TRY(show_run(r, t));
    int n_notes = list_notes(note, t);
    for (int i = 0; i < n_notes; i++) TX_TRY(tx__report_line(r, "    %s", note[i]));
    return TX_OK;
}

/* ---- for programs ---- */

static json_t *exposed_to_json(const tx_time *t)
{
    json_t *all = json_object();
    bool ok = all != NULL;
    for (int i = 0; i < TX_N_STEP_GROUPS && ok; i++)
        ok = !json_object_set_new(all, tx_group_names[i], json_real(t->exposed[i]));
    if (ok) return all;
    json_decref(all);
    return NULL;
}

static json_t *notes_to_json(const tx_plan_time *t)
{
    char note[MAX_NOTES][NOTE];
    json_t *all = json_array();
    int n = list_notes(note, t);
    for (int i = 0; i < n && all; i++) {
        if (!json_array_append_new(all, json_string(note[i]))) continue;
        json_decref(all);
        all = NULL;
    }
    return all;
}

/* A run's length and cost; nulls where it is not given. */
static json_t *run_to_json(const tx_plan_time *t)
{
    const tx_time *its = &t->time;
    if (t->tokens < 1) return json_pack("{s:n, s:n, s:n, s:n}", "run_days", "low_days", "high_days", "gpu_hours");
    return json_pack("{s:f, s:f, s:f, s:f}", "run_days", of_run(t, its->iteration) / DAY, "low_days",
                     of_run(t, its->low) / DAY, "high_days", of_run(t, its->high) / DAY, "gpu_hours", gpu_hours(t));
}

static json_t *speed_to_json(const tx_plan_time *t)
{
    const tx_time *its = &t->time;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "tflops_per_gpu", megatron_flops_per_s(t) / 1e12,
                     "model_tflops_per_gpu", its->flops_per_s / 1e12, "hardware_tflops_per_gpu",
                     its->hardware_flops_per_s / 1e12, "peak_share", its->peak_share, "tokens_per_s_per_gpu",
                     its->tokens_per_s, "tokens_per_s", its->tokens_per_s * (double)t->work.world_size);
}

json_t *tx__time_to_json(const tx_plan_time *t)
{
    const tx_time *its = &t->time;
    json_t *all =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:f, s:s, s:I, s:I, s:o}", "iteration_s",
                  its->iteration, "low_s", its->low, "high_s", its->high, "products_s", its->products, "attention_s",
                  its->attention, "memory_bound_s", its->memory_bound, "exposed_comm_s", exposed(its),
                  "exposed_by_group_s", exposed_to_json(its), "copies_s", its->copies, "bubble_s", its->bubble,
                  "optimizer_s", its->update, "other_s", its->other, "machine", t->machine.name, "nodes",
                  (json_int_t)n_nodes(t), "ranks_per_node", (json_int_t)ranks_per_node(t), "notes", notes_to_json(t));
    json_t *speed = speed_to_json(t), *run = run_to_json(t);
    bool ok = all && speed && run && !json_object_update(all, speed) && !json_object_update(all, run);
    json_decref(speed);
    json_decref(run);
    if (ok) return all;
    json_decref(all);
    return NULL;
}
