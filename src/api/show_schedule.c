/* show_schedule.c - the pipeline's schedule as a picture, and how much of the time its stages wait. */
#include "api/show_schedule.h"

#include <stdio.h>
#include <string.h>

#include "api/schedule_svg.h"
#include "base/alloc.h"
#include "base/file.h"
#include "model/model.h"

/* A wider picture loses its middle, in which a pipeline does the same again and again. */
enum { WIDTH = 200, TAIL = 75, MAX_UNITS = 1 << 22 };
static const char gap[] = " ... ";

/* Backward takes twice as long as forward, and once more where it computes all layers again. */
static int backward_cost(const tx_config *cfg)
{
    tx_recompute again = tx_config_recompute(cfg);
    return again.n_layers && again.n_layers == cfg->num_layers ? 3 : 2;
}

static tx_pp_shape shape_of(const tx_config *cfg)
{
    int64_t m = cfg->global_batch_size / (cfg->micro_batch_size * tx_config_data_parallel(cfg));
    return (tx_pp_shape){ .kind = tx_pp_training_kind(cfg),
                          .p = (int)cfg->pipeline_model_parallel_size,
                          .m = (int)m,
                          .n_chunks = tx_config_chunks(cfg) };
}

/* The weights' part of a backward takes as long as a forward. */
static tx_pp_units units_of(const tx_pp_shape *s, int backward)
{
    int wgt = s->kind == TX_PP_ZBH1 ? 1 : 0;
    return (tx_pp_units){ .fwd = 1, .bwd = backward - wgt, .wgt = wgt };
}

static bool is_too_large(const tx_pp_shape *s)
{
    return (int64_t)s->m * s->p * s->n_chunks > MAX_UNITS;
}

/* "interleaved 1F1B, 4 stages with 2 runs of layers each, 8 micro-batches" */
static void describe(const tx_pp_shape *s, char text[160])
{
    char chunks[48] = "";
    const char *kind = s->kind == TX_PP_GPIPE  ? "GPipe"
                       : s->kind == TX_PP_ZBH1 ? "ZB-H1"
                       : s->n_chunks > 1       ? "interleaved 1F1B"
                                               : "1F1B";
    if (s->n_chunks > 1) snprintf(chunks, sizeof chunks, " with %d runs of layers each", s->n_chunks);
    snprintf(text, 160, "%s, %d stage%s%s, %d micro-batches", kind, s->p, s->p > 1 ? "s" : "", chunks, s->m);
}

/* What letters stand for. */
static const char *letters_of(const tx_pp_shape *s)
{
    return s->kind == TX_PP_ZBH1 ? "F forward, B gradient of the input, W gradients of weights"
                                 : "F forward, B backward";
}

static tx_status show_heading(tx__report *r, const tx_pp_shape *s, int backward)
{
    static const char *const times[] = { "", "as long", "twice as long", "three times as long" };
    char schedule[160], note[48];
    tx_pp_units u = units_of(s, backward);
    describe(s, schedule);
    snprintf(note, sizeof note, "%s%s", times[u.bwd], u.wgt && u.bwd > u.wgt ? " and as long" : "");
    return tx__report_line(r, "schedule: %s; the bubble is %.1f %% of the ideal time (%s, %s, .. waits):", schedule,
                           100 * tx_pp_bubble(s, u), letters_of(s), note);
}

/* The longest of the picture's lines. */
static size_t width_of(const char *picture)
{
    size_t longest = 0, n;
    for (; *picture; picture += n + 1) {
        n = strcspn(picture, "\n");
        if (n > longest) longest = n;
    }
    return longest;
}

static tx_status show_lines(tx__report *r, const char *picture)
{
    size_t width = width_of(picture), head = WIDTH - TAIL - (sizeof gap - 1), n;
    for (const char *line = picture; *line; line += n + 1) {
        n = strcspn(line, "\n");
        size_t tail_at = width - TAIL, n_tail = n > tail_at ? n - tail_at : 0;
        if (width <= WIDTH)
            TX_TRY(tx__report_line(r, "    %.*s", (int)n, line));
        else
            TX_TRY(tx__report_line(r, "    %-*.*s%s%.*s", (int)head, (int)(n < head ? n : head), line, gap, (int)n_tail,
                                   n_tail ? line + tail_at : ""));
    }
    if (width <= WIDTH) return TX_OK;
    return tx__report_line(r, "    (%zu of %zu columns, the middle, are left out)", width - head - TAIL, width);
}

/* ---------------------------------------------------------------- in time */

/* A timeline, what else its stages do, and what is said of it. */
typedef struct drawn {
    tx_pp_timeline t;
    tx_pp_extra *extra; /* owned */
    tx_pp_drawing d;    /* of both */
    char title[256], about[384];
} drawn;

static void forget(drawn *d)
{
    tx_pp_timeline_free(&d->t);
    tx_free(d->extra);
}

/* A forward takes one unit. */
static tx_status time_in_units(drawn *d, const tx_pp_shape *s, int backward)
{
    size_t n = (size_t)s->p * (size_t)s->n_chunks;
    tx_pp_units u = units_of(s, backward);
    char schedule[160];
    double *time;
    TX_TRY(tx_alloc(&time, 3 * n, sizeof *time, "the times of a pipeline"));
    for (size_t v = 0; v < n; v++) {
        time[v] = u.fwd;
        time[n + v] = u.bwd;
        time[2 * n + v] = u.wgt;
    }
    tx_status st = tx_pp_simulate_times(s, &(tx_pp_times){ .fwd = time, .bwd = time + n, .wgt = time + 2 * n }, &d->t);
    tx_free(time);
    describe(s, schedule);
    snprintf(d->about, sizeof d->about,
             "%s; the bubble is %.1f %% of the ideal time (a forward takes 1 unit of time, a backward %d)", schedule,
             100 * tx_pp_bubble(s, u), backward);
    return st;
}

/* All of it begins so much later. */
static void shift(tx_pp_timeline *t, double by)
{
    for (int i = 0; i < t->p; i++) {
        for (int k = 0; k < t->stage[i].n; k++) {
            t->stage[i].span[k].start += by;
            t->stage[i].span[k].end += by;
        }
        t->stage[i].end += by;
    }
    t->makespan += by;
}

/* Nothing stands for what takes no time. Returns when it has ended. */
static double add_extra(drawn *d, const char *name, int stage, double start, double takes)
{
    if (takes > 0) d->extra[d->d.n_extras++] = (tx_pp_extra){ name, stage, start, start + takes };
    return start + takes;
}

static double mean_wait(const drawn *d)
{
    double sum = 0;
    for (int i = 0; i < d->t.p; i++) sum += tx_pp_waits(&d->d, i);
    return sum / d->t.p;
}

/* "1F1B, 4 stages, 8 micro-batches on a100-80g: 512.3 ms; a stage waits 27.3 % of them on average" */
static void describe_time(drawn *d, const tx_plan_time *time)
{
    char schedule[160], rest[96] = "";
    double ms = 1e3 * tx_pp_end_of(&d->d), left = 1e3 * time->time.iteration - ms;
    describe(&time->work.shape, schedule);
    if (left > 1e-3 * ms) snprintf(rest, sizeof rest, ", besides %.1f ms for stragglers and overhead", left);
    snprintf(d->about, sizeof d->about, "%s on %s: %.1f ms%s; a stage waits %.1f %% of them on average", schedule,
             time->machine.name, ms, rest, 100 * mean_wait(d));
}

static tx_status time_on_machine(drawn *d, const tx_plan_time *time)
{
    tx_pipeline_time q = { 0 };
    tx_status st;
    TX_GOTO(tx_predict_pipeline(&q, &time->work, &time->machine));
    TX_GOTO(tx_pp_simulate_times(&time->work.shape, &q.times, &d->t));
    TX_GOTO(tx_alloc(&d->extra, 3 * (size_t)d->t.p, sizeof *d->extra, "the times of a pipeline"));
    shift(&d->t, q.begin);
    for (int i = 0; i < d->t.p; i++) {
        add_extra(d, "preparation", i, 0, q.begin);
        double summed = add_extra(d, "sums of gradients", i, d->t.stage[i].end, q.finish[i]);
        add_extra(d, "update", i, summed, q.update[i]);
    }
    d->d.ms = 1e3;
out:
    tx_pipeline_time_free(&q);
    return st;
}

/* Free it also after a failure. */
static tx_status take_time(drawn *d, const tx_config *cfg, const tx_plan_time *time)
{
    tx_pp_shape shape = shape_of(cfg);
    d->d = (tx_pp_drawing){ .t = &d->t };
    int n = snprintf(d->title, sizeof d->title, "%s%lld layers, hidden size %lld, sequence length %lld",
                     tx_model_type_of(cfg)->prefix, (long long)cfg->num_layers, (long long)cfg->hidden_size,
                     (long long)cfg->seq_length);
    if (cfg->world_size > 1)
        snprintf(d->title + n, sizeof d->title - (size_t)n, ", %lld ranks", (long long)cfg->world_size);
    TX_TRY(time ? time_on_machine(d, time) : time_in_units(d, &shape, backward_cost(cfg)));
    d->d.extra = d->extra;
    if (time) describe_time(d, time);
    return TX_OK;
}

/* ---------------------------------------------------------------- as text */

static tx_status show_units(tx__report *r, const tx_pp_shape *s, int backward)
{
    tx_str picture = { 0 };
    tx_status st;
    TX_GOTO(tx_pp_simulate(s, units_of(s, backward), NULL, &picture));
    TX_GOTO(show_lines(r, picture.data));
out:
    tx_str_free(&picture);
    return st;
}

/* Whether a stage does that for so long that a column shows it. */
static bool has_extra(const drawn *d, const char *name)
{
    double least = tx_pp_end_of(&d->d) / WIDTH / 2;
    for (int i = 0; i < d->d.n_extras; i++)
        if (!strcmp(d->extra[i].name, name) && d->extra[i].end - d->extra[i].start > least) return true;
    return false;
}

static tx_status show_to_scale(tx__report *r, const tx_config *cfg, const tx_plan_time *time)
{
    drawn d = { 0 };
    tx_str picture = { 0 };
    tx_status st;
    TX_GOTO(take_time(&d, cfg, time));
    TX_GOTO(tx__report_line(r, "schedule: %s (%s%s%s%s, . waits):", d.about, letters_of(&time->work.shape),
                            has_extra(&d, "preparation") ? ", P preparation" : "",
                            has_extra(&d, "sums of gradients") ? ", S sums of gradients" : "",
                            has_extra(&d, "update") ? ", U update" : ""));
    TX_GOTO(tx_pp_draw_to_scale(&d.d, &picture));
    for (const char *line = picture.data; *line; line += strcspn(line, "\n") + 1)
        TX_GOTO(tx__report_line(r, "    %.*s", (int)strcspn(line, "\n"), line));
out:
    tx_str_free(&picture);
    forget(&d);
    return st;
}

tx_status tx__show_schedule(tx__report *r, const tx_config *cfg, const tx_plan_time *time)
{
    tx_pp_shape shape = shape_of(cfg);
    int backward = backward_cost(cfg);
    if (!time || is_too_large(&shape)) TX_TRY(show_heading(r, &shape, backward));
    if (is_too_large(&shape)) return tx__report_line(r, "    (too large a picture to draw: lower --global-batch-size)");
    return time ? show_to_scale(r, cfg, time) : show_units(r, &shape, backward);
}

/* ---------------------------------------------------------------- as a file */

static tx_status publish(tx__report *r, const tx_config *cfg, const tx_str *text)
{
    tx_status st = tx_file_publish(cfg->schedule_svg, text->data, text->len);
    if (st) return TX_FAIL(st, "--schedule-svg %s: %s", cfg->schedule_svg, tx_last_error());
    return cfg->json ? TX_OK : tx__report_line(r, "schedule: drawn in %s", cfg->schedule_svg);
}

tx_status tx__write_schedule(tx__report *r, const tx_config *cfg, const tx_plan_time *time)
{
    tx_pp_shape shape = shape_of(cfg);
    drawn d = { 0 };
    tx_str text = { 0 };
    tx_status st;
    if (is_too_large(&shape))
        return TX_FAIL(TX_ERR_ARG,
                       "--schedule-svg %s: %d micro-batches in %d stages are too large a picture to draw: lower "
                       "--global-batch-size",
                       cfg->schedule_svg, shape.m, shape.p);
    TX_GOTO(take_time(&d, cfg, time));
    TX_GOTO(tx__schedule_svg(&text, &d.d, &(tx__svg_words){ d.title, d.about }));
    TX_GOTO(publish(r, cfg, &text));
out:
    forget(&d);
    tx_str_free(&text);
    return st;
}
