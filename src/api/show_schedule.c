/* show_schedule.c - the pipeline's schedule as a picture, and how much of the time its stages wait. */
#include <stdio.h>
#include <string.h>

#include "api/report.h"
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
    return (tx_pp_shape){ .kind = cfg->pipeline_schedule == TX_PIPELINE_GPIPE ? TX_PP_GPIPE : TX_PP_1F1B,
                          .p = (int)cfg->pipeline_model_parallel_size,
                          .m = (int)m,
                          .n_chunks = tx_config_chunks(cfg) };
}

static bool is_too_large(const tx_pp_shape *s)
{
    return (int64_t)s->m * s->p * s->n_chunks > MAX_UNITS;
}

/* "interleaved 1F1B, 4 stages with 2 runs of layers each, 8 micro-batches" */
static void describe(const tx_pp_shape *s, char text[160])
{
    char chunks[48] = "";
    const char *kind = s->kind == TX_PP_GPIPE ? "GPipe" : s->n_chunks > 1 ? "interleaved 1F1B" : "1F1B";
    if (s->n_chunks > 1) snprintf(chunks, sizeof chunks, " with %d runs of layers each", s->n_chunks);
    snprintf(text, 160, "%s, %d stage%s%s, %d micro-batches", kind, s->p, s->p > 1 ? "s" : "", chunks, s->m);
}

static tx_status show_heading(tx__report *r, const tx_pp_shape *s, int backward)
{
    char schedule[160];
    describe(s, schedule);
    return tx__report_line(
        r,
        "schedule: %s; the bubble is %.1f %% of the ideal time (F forward, B backward, %s as long, .. "
        "waits):",
        schedule, 100 * tx_pp_bubble(s), backward == 2 ? "twice" : "three times");
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

tx_status tx__show_schedule(tx__report *r, const tx_config *cfg)
{
    tx_pp_shape shape = shape_of(cfg);
    int backward = backward_cost(cfg);
    tx_str picture = { 0 };
    tx_status st;
    TX_TRY(show_heading(r, &shape, backward));
    if (is_too_large(&shape)) return tx__report_line(r, "    (too large a picture to draw: lower --global-batch-size)");
    TX_GOTO(tx_pp_simulate(&shape, 1, backward, NULL, &picture));
    TX_GOTO(show_lines(r, picture.data));
out:
    tx_str_free(&picture);
    return st;
}

/* ---------------------------------------------------------------- as a file */

/* A forward takes one unit. */
static tx_status time_in_units(const tx_pp_shape *s, int backward, tx_pp_timeline *out)
{
    size_t n = (size_t)s->p * (size_t)s->n_chunks;
    double *time;
    TX_TRY(tx_alloc(&time, 2 * n, sizeof *time, "the times of a pipeline"));
    for (size_t v = 0; v < n; v++) {
        time[v] = 1;
        time[n + v] = backward;
    }
    tx_status st = tx_pp_simulate_times(s, &(tx_pp_times){ .fwd = time, .bwd = time + n }, out);
    tx_free(time);
    return st;
}

static tx_status publish(tx__report *r, const tx_config *cfg, const tx_str *text)
{
    tx_status st = tx_file_publish(cfg->schedule_svg, text->data, text->len);
    if (st) return TX_FAIL(st, "--schedule-svg %s: %s", cfg->schedule_svg, tx_last_error());
    return cfg->json ? TX_OK : tx__report_line(r, "schedule: drawn in %s", cfg->schedule_svg);
}

tx_status tx__write_schedule(tx__report *r, const tx_config *cfg)
{
    tx_pp_shape shape = shape_of(cfg);
    tx_pp_timeline t = { 0 };
    tx_str text = { 0 };
    char title[160], about[320], schedule[160];
    int backward = backward_cost(cfg);
    tx_status st;
    if (is_too_large(&shape))
        return TX_FAIL(TX_ERR_ARG,
                       "--schedule-svg %s: %d micro-batches in %d stages are too large a picture to draw: lower "
                       "--global-batch-size",
                       cfg->schedule_svg, shape.m, shape.p);
    describe(&shape, schedule);
    snprintf(title, sizeof title, "%s%lld layers, hidden size %lld, sequence length %lld",
             tx_model_type_of(cfg)->prefix, (long long)cfg->num_layers, (long long)cfg->hidden_size,
             (long long)cfg->seq_length);
    snprintf(about, sizeof about,
             "%s; the bubble is %.1f %% of the ideal time (a forward takes 1 unit of time, a backward %d)", schedule,
             100 * tx_pp_bubble(&shape), backward);
    TX_GOTO(time_in_units(&shape, backward, &t));
    TX_GOTO(tx__schedule_svg(&text, &(tx_pp_drawing){ .t = &t }, &(tx__svg_words){ title, about }));
    TX_GOTO(publish(r, cfg, &text));
out:
    tx_pp_timeline_free(&t);
    tx_str_free(&text);
    return st;
}
