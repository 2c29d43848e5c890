/* show_schedule.c - the pipeline's schedule as a picture, and how much of the time its stages wait. */
#include <stdio.h>
#include <string.h>

#include "api/report.h"
#include "parallel/pp_schedule.h"

/* A wider picture loses its middle, in which a pipeline does the same again and again. */
enum { WIDTH = 200, TAIL = 75, MAX_UNITS = 1 << 22 };
static const char gap[] = " ... ";

/* Backward takes twice as long as forward, and once more where it computes all layers again. */
static int backward_cost(const tx_config *cfg)
{
    tx_recompute again = tx_config_recompute(cfg);
    return again.n_layers && again.n_layers == cfg->num_layers ? 3 : 2;
}

static tx_status show_heading(tx__report *r, const tx_pp_shape *s, int backward)
{
    char chunks[48] = "";
    const char *kind = s->kind == TX_PP_GPIPE ? "GPipe" : s->n_chunks > 1 ? "interleaved 1F1B" : "1F1B";
    if (s->n_chunks > 1) snprintf(chunks, sizeof chunks, " with %d runs of layers each", s->n_chunks);
    return tx__report_line(r,
                           "schedule: %s, %d stage%s%s, %d micro-batches; the bubble is %.1f %% of the ideal time (F "
                           "forward, B backward, %s as long, .. waits):",
                           kind, s->p, s->p > 1 ? "s" : "", chunks, s->m, 100 * tx_pp_bubble(s),
                           backward == 2 ? "twice" : "three times");
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
    int64_t m = cfg->global_batch_size / (cfg->micro_batch_size * tx_config_data_parallel(cfg));
    tx_pp_shape shape = { .kind = cfg->pipeline_schedule == TX_PIPELINE_GPIPE ? TX_PP_GPIPE : TX_PP_1F1B,
                          .p = (int)cfg->pipeline_model_parallel_size,
                          .m = (int)m,
                          .n_chunks = tx_config_chunks(cfg) };
    int backward = backward_cost(cfg);
    tx_str picture = { 0 };
    tx_status st;
    TX_TRY(show_heading(r, &shape, backward));
    if (m * shape.p * shape.n_chunks > MAX_UNITS)
        return tx__report_line(r, "    (too large a picture to draw: lower --global-batch-size)");
    TX_GOTO(tx_pp_simulate(&shape, 1, backward, NULL, &picture));
    TX_GOTO(show_lines(r, picture.data));
out:
    tx_str_free(&picture);
    return st;
}
