/* pp_picture.c - a pipeline's timeline as lines of text. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "parallel/pp_picture.h"

static int n_digits(int n)
{
    return snprintf(NULL, 0, "%d", n);
}

static tx_status fill(tx_str *out, const char *with, int n)
{
    for (int i = 0; i < n; i++) TX_TRY(tx_str_puts(out, with));
    return TX_OK;
}

char tx_pp_letter(const tx_pp_span *b)
{
    return b->op == TX_PP_FWD ? 'F' : b->op == TX_PP_BWD ? 'B' : 'W';
}

/* What takes several units is drawn out: B3----. */
static tx_status draw_stage(const tx_pp_timeline *t, int at, tx_str *out)
{
    const tx_pp_lane *s = &t->stage[at];
    int column = 2 + n_digits(t->m - 1) + (t->n_chunks > 1 ? 1 + n_digits(t->n_chunks - 1) : 0), now = 0;
    TX_TRY(tx_str_printf(out, "stage %-*d   ", n_digits(t->p - 1), at));
    for (int k = 0; k < s->n; k++) {
        const tx_pp_span *b = &s->span[k];
        int cost = (int)(b->end - b->start);
        for (bool begun = now > 0; now < (int)b->start; now++)
            TX_TRY(tx_str_printf(out, "%-*s", column, begun ? ".." : ""));
        size_t from = out->len;
        TX_TRY(tx_str_printf(out, "%c%d", tx_pp_letter(b), b->micro));
        if (t->n_chunks > 1) TX_TRY(tx_str_printf(out, ".%d", b->chunk));
        TX_TRY(fill(out, cost > 1 ? "-" : " ", column * cost - 1 - (int)(out->len - from)));
        TX_TRY(tx_str_puts(out, " "));
        now += cost;
    }
    while (out->data[out->len - 1] == ' ') out->data[--out->len] = 0;
    return tx_str_puts(out, "\n");
}

tx_status tx_pp_draw_units(const tx_pp_timeline *t, tx_str *out)
{
    for (int i = 0; i < t->p; i++) TX_TRY(draw_stage(t, i, out));
    return TX_OK;
}

/* ---------------------------------------------------------------- which part is shown */

/* How long forwards take; false: none takes any time. */
static bool measure_forwards(const tx_pp_timeline *t, double *least, double *mean)
{
    double sum = 0, n = 0;
    *least = INFINITY;
    for (int i = 0; i < t->p; i++)
        for (int k = 0; k < t->stage[i].n; k++) {
            const tx_pp_span *b = &t->stage[i].span[k];
            if (b->op != TX_PP_FWD || b->end <= b->start) continue;
            *least = fmin(*least, b->end - b->start);
            sum += b->end - b->start;
            n++;
        }
    *mean = sum / n;
    return n > 0;
}

/* When all stages are at work. */
static double last_to_begin(const tx_pp_timeline *t)
{
    double start = 0;
    for (int i = 0; i < t->p; i++)
        if (t->stage[i].n) start = fmax(start, t->stage[i].span[0].start);
    return start;
}

double tx_pp_end_of(const tx_pp_drawing *d)
{
    double end = d->t->makespan;
    for (int i = 0; i < d->n_extras; i++) end = fmax(end, d->extra[i].end);
    return end;
}

double tx_pp_waits(const tx_pp_drawing *d, int stage)
{
    double busy = d->t->stage[stage].busy, end = tx_pp_end_of(d);
    for (int k = 0; k < d->n_extras; k++)
        if (d->extra[k].stage == stage) busy += d->extra[k].end - d->extra[k].start;
    return end > 0 ? fmax(0, 1 - busy / end) : 0;
}

tx_pp_cut tx_pp_cut_of(const tx_pp_drawing *d, const tx_pp_room *room)
{
    double end = tx_pp_end_of(d), least, forward;
    tx_pp_cut c = { .scale = end > 0 ? room->least / end : 1, .head = end, .tail = end, .end = end };
    if (!measure_forwards(d->t, &least, &forward)) return c;
    c.scale = fmax(c.scale, room->label / least);
    if (c.scale * end <= room->most) return c;
    if (forward * room->most / end >= room->narrow) {
        c.scale = room->most / end;
        return c;
    }
    c.scale = room->label / forward;
    double left = room->most - room->gap, filled = last_to_begin(d->t);
    if (filled * c.scale > 0.45 * left) c.scale = fmax(0.45 * left / filled, room->narrow / 2 / forward);
    double after = (end - d->t->makespan) * c.scale + left / 4, tail = fmin(fmax(after, 0.4 * left), 0.75 * left);
    c.head = (left - tail) / c.scale;
    c.tail = end - tail / c.scale;
    return c;
}

double tx_pp_mark_step(double least)
{
    double step = pow(10, floor(log10(least)));
    if (step >= least) return step;
    return 2 * step >= least ? 2 * step : 5 * step >= least ? 5 * step : 10 * step;
}

int tx_pp_mark_digits(double step)
{
    double digits = -floor(log10(step) + 1e-9);
    return digits > 0 ? (int)digits : 0;
}

/* ---------------------------------------------------------------- to scale */

enum { LEAST = 120, MOST = 180, SHOWN = 16, LABEL = 32 };
static const char gap[] = " ... ";

/* A line: all columns of the picture, of which those that are left out have no place. */
typedef struct canvas {
    const tx_pp_drawing *d;
    tx_pp_cut cut;
    int n_head, n_tail; /* columns */
    long tail_at;       /* the first column of the tail, counted from the begin of the time */
    char line[MOST + 1];
} canvas;

static long column_of(const canvas *c, double time)
{
    return lround(time * c->cut.scale);
}

static void put(canvas *c, long at, char letter)
{
    if (at >= 0 && at < c->n_head) c->line[at] = letter;
    if (c->n_tail && at >= c->tail_at && at < c->tail_at + c->n_tail) c->line[c->n_head + at - c->tail_at] = letter;
}

/* The longest of "F3.1", "F3" and "F" that fits into n columns. */
static void label_of(const canvas *c, const tx_pp_span *b, long n, char *label)
{
    const tx_pp_timeline *t = c->d->t;
    if ((double)n > (b->end - b->start) * c->cut.scale + 0.5) n--; /* wider than others of its time by rounding alone */
    int plain = snprintf(label, LABEL, "%c%d", tx_pp_letter(b), b->micro), all = plain;
    if (t->n_chunks > 1) all += snprintf(label + plain, (size_t)(LABEL - plain), ".%d", b->chunk);
    label[all <= n ? all : plain <= n ? plain : 1] = 0;
}

/* A blank ends it where there is room. */
static void put_box(canvas *c, long from, long to, const char *label)
{
    long n = (long)strlen(label);
    for (long at = from; at < to; at++) put(c, at, at < from + n ? label[at - from] : at + 1 < to ? '-' : ' ');
}

static tx_status draw_lane(canvas *c, int at, tx_str *out)
{
    const tx_pp_timeline *t = c->d->t;
    const tx_pp_lane *s = &t->stage[at];
    char label[LABEL];
    memset(c->line, ' ', sizeof c->line);
    double end = s->end;
    for (int k = 0; k < c->d->n_extras; k++)
        if (c->d->extra[k].stage == at) end = fmax(end, c->d->extra[k].end);
    for (long k = s->n ? column_of(c, s->span[0].start) : 0; k < column_of(c, end); k++) put(c, k, '.');
    for (int k = 0; k < s->n; k++) {
        long from = column_of(c, s->span[k].start), to = column_of(c, s->span[k].end);
        label_of(c, &s->span[k], to - from, label);
        put_box(c, from, to, label);
    }
    for (int k = 0; k < c->d->n_extras; k++) {
        const tx_pp_extra *e = &c->d->extra[k];
        if (e->stage != at) continue;
        snprintf(label, sizeof label, "%c", toupper((unsigned char)e->name[0]));
        put_box(c, column_of(c, e->start), column_of(c, e->end), label);
    }
    return tx_str_printf(out, "stage %-*d   ", n_digits(t->p - 1), at);
}

static tx_status end_line(canvas *c, tx_str *out)
{
    TX_TRY(tx_str_append(out, c->line, (size_t)c->n_head));
    if (c->n_tail) TX_TRY(tx_str_printf(out, "%s%.*s", gap, c->n_tail, c->line + c->n_head));
    while (out->data[out->len - 1] == ' ') out->data[--out->len] = 0;
    return tx_str_puts(out, "\n");
}

static tx_status draw_axis(canvas *c, tx_str *out)
{
    double ms = c->d->ms > 0 ? c->d->ms : 1, step = tx_pp_mark_step(12 / c->cut.scale * ms);
    memset(c->line, ' ', sizeof c->line);
    for (double mark = 0; mark <= c->cut.end * ms; mark += step) {
        char text[LABEL];
        int n = snprintf(text, sizeof text, "|%.*f", tx_pp_mark_digits(step), mark);
        long at = column_of(c, mark / ms);
        bool fits = at + n <= c->n_head || (at >= c->tail_at && at + n <= c->tail_at + c->n_tail);
        for (int k = 0; k < n && fits; k++) put(c, at + k, text[k]);
    }
    TX_TRY(tx_str_printf(out, "%-*s", 9 + n_digits(c->d->t->p - 1), c->d->ms > 0 ? "ms" : ""));
    return end_line(c, out);
}

tx_status tx_pp_draw_to_scale(const tx_pp_drawing *d, tx_str *out)
{
    const tx_pp_timeline *t = d->t;
    int label = 2 + n_digits(t->m - 1) + (t->n_chunks > 1 ? 1 + n_digits(t->n_chunks - 1) : 0), p = t->p;
    canvas c = { .d = d };
    c.cut = tx_pp_cut_of(
        d, &(tx_pp_room){ .least = LEAST, .most = MOST, .label = label, .narrow = 2, .gap = sizeof gap - 1 });
    bool whole = c.cut.head >= c.cut.tail;
    c.n_head = (int)fmin((double)column_of(&c, c.cut.head), MOST);
    c.tail_at = column_of(&c, c.cut.tail);
    c.n_tail = whole ? 0 : (int)fmin((double)(column_of(&c, c.cut.end) - c.tail_at), MOST - c.n_head);
    for (int i = 0; i < p; i++) {
        if (p > SHOWN && i == SHOWN / 2) {
            TX_TRY(tx_str_printf(out, "%-*s (%d stages between them)\n", 8 + n_digits(p - 1), "...", p - SHOWN));
            i = p - SHOWN / 2;
        }
        TX_TRY(draw_lane(&c, i, out));
        TX_TRY(end_line(&c, out));
    }
    return draw_axis(&c, out);
}
