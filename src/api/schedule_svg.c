/* schedule_svg.c - a pipeline in time as an SVG picture.
 *
 *      title                                             TOP
 *      about
 *      [F] forward  [B] backward ...
 *      stage 0  |F0|F1|        |B0|F2|  ...  |B7|        waits 27 %
 *      stage 1     |F0|F1|  |B0|F1|     ...
 *      LEFT     |-----|-----|-----|        0  50 ms      RIGHT */
#include "api/schedule_svg.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 84, RIGHT = 92, TOP = 84, LEAST = 900, MOST = 2400, GAP = 40, N_SHADES = 4, SHOWN = 64 };

/* A chunk's colours: of forwards, with black text, and of backwards, with white text. What a backward has put off has
 * one, with black text, as such schedules have one chunk. */
static const char *const light[N_SHADES] = { "#cfe0f5", "#d5ecd6", "#e6dcf6", "#f8e6bd" };
static const char *const dark[N_SHADES] = { "#1d5596", "#22692c", "#5a3a9e", "#7d5200" };
static const char weights_fill[] = "#f3b183";

/* Lines over a box, so that chunks differ without colours as well. */
static const char *const pattern[N_SHADES] = { "", "M0 6L6 0", "M0 0L6 6", "M3 0V6" };

typedef struct sheet {
    tx_str *out;
    const tx_pp_drawing *d;
    tx_pp_cut cut;
    double width, row, tail_x; /* of all times that are shown; the height of a stage; where the tail begins */
    double digit;              /* width of a letter in a box */
    int font;
} sheet;

/* ---------------------------------------------------------------- places */

static bool is_cut(const sheet *s)
{
    return s->cut.tail > s->cut.head;
}

static double x_of(const sheet *s, double time)
{
    if (is_cut(s) && time > s->cut.head)
        return time < s->cut.tail ? s->tail_x - GAP : s->tail_x + (time - s->cut.tail) * s->cut.scale;
    return LEFT + time * s->cut.scale;
}

/* The rows that there are: a stage each, and one for those that are left out. */
static int n_rows(const sheet *s)
{
    return s->d->t->p > SHOWN ? SHOWN + 1 : s->d->t->p;
}

/* Of the last row of a picture that leaves out stages, this one is in the middle. */
static double y_of(const sheet *s, int stage)
{
    int p = s->d->t->p, row = p > SHOWN && stage >= SHOWN / 2 ? stage - (p - SHOWN) + 1 : stage;
    return TOP + row * s->row;
}

static bool is_shown(const sheet *s, int stage)
{
    int p = s->d->t->p;
    return p <= SHOWN || stage < SHOWN / 2 || stage >= p - SHOWN / 2;
}

static double bottom_of(const sheet *s)
{
    return TOP + n_rows(s) * s->row;
}

static const char *unit_of(const sheet *s)
{
    return s->d->ms > 0 ? "ms" : "units";
}

static double scaled(const sheet *s, double time)
{
    return s->d->ms > 0 ? time * s->d->ms : time;
}

/* ---------------------------------------------------------------- text */

static tx_status put_escaped(tx_str *out, const char *text)
{
    for (; *text; text++) {
        const char *as = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        if (as)
            TX_TRY(tx_str_puts(out, as));
        else if ((unsigned char)*text >= ' ')
            TX_TRY(tx_str_append(out, text, 1));
    }
    return TX_OK;
}

static tx_status put_element(tx_str *out, const char *start, const char *text, const char *end)
{
    TX_TRY(tx_str_puts(out, start));
    TX_TRY(put_escaped(out, text));
    return tx_str_puts(out, end);
}

static double waits(const sheet *s, int stage)
{
    return 100 * tx_pp_waits(s->d, stage);
}

/* "104700 ms" */
static const char *time_text(const sheet *s, char buf[48], double time)
{
    double t = scaled(s, time);
    snprintf(buf, 48, t < 100 ? "%.3g %s" : "%.0f %s", t, unit_of(s));
    return buf;
}

static tx_status put_description(const sheet *s, const tx__svg_words *w)
{
    const tx_pp_timeline *t = s->d->t;
    tx_str *out = s->out;
    int last = t->p - 1;
    char end[48];
    TX_TRY(put_element(out, "<title id=\"title\">", w->title, "</title>\n"));
    TX_TRY(put_element(out, "<desc id=\"about\">", w->about, ""));
    TX_TRY(tx_str_printf(out, ". Each row is a stage of the pipeline, time goes to the right and ends after %s. ",
                         time_text(s, end, s->cut.end)));
    TX_TRY(tx_str_printf(out, "Stage 0 waits %.0f %% of it", waits(s, 0)));
    if (last) TX_TRY(tx_str_printf(out, ", stage %d %.0f %%", last, waits(s, last)));
    return tx_str_puts(out, ".</desc>\n");
}

/* ---------------------------------------------------------------- head */

static tx_status put_patterns(const sheet *s)
{
    for (int k = 0; k < N_SHADES; k++)
        for (int d = 0; d < 2; d++)
            TX_TRY(tx_str_printf(s->out,
                                 "<pattern id=\"%c%d\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path "
                                 "d=\"M0 0H6V6H0Z\" fill=\"%s\"/><path d=\"%s\" stroke=\"%s\" stroke-opacity=\".35\"/>"
                                 "</pattern>\n",
                                 d ? 'b' : 'f', k, d ? dark[k] : light[k], pattern[k], d ? "#fff" : "#000"));
    return tx_str_puts(s->out, "<pattern id=\"x\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\"><path "
                               "d=\"M0 0H5V5H0Z\" fill=\"#fff\"/><path d=\"M0 0L5 5\" stroke=\"#555\"/></pattern>\n");
}

static tx_status put_head(const sheet *s, const tx__svg_words *w)
{
    double width = s->width + LEFT + RIGHT, height = bottom_of(s) + 44;
    tx_str *out = s->out;
    TX_TRY(tx_str_printf(out,
                         "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title about\" "
                         "width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n",
                         width, height, width, height));
    TX_TRY(put_description(s, w));
    TX_TRY(tx_str_printf(
        out,
        "<style>text{font:%dpx system-ui,'DejaVu Sans',sans-serif;fill:#1b1f24}.h{font-size:15px;"
        "font-weight:600}.l{font-size:12px}.q{font-size:11px;fill:#4d5561}.b text{fill:#fff;stroke:#000}"
        ".f text,.b text,.x text{text-anchor:middle;paint-order:stroke;stroke-width:2;stroke-opacity:.6}"
        ".f text,.x text{stroke:#fff}.x text{stroke-width:4;stroke-opacity:.9}rect{stroke:#1b1f24;stroke-width:.6}"
        ".w{fill:#eef0f3;stroke:none}.g{stroke:#9aa4b1;stroke-width:.6;stroke-dasharray:2 3}</style>\n",
        s->font));
    TX_TRY(tx_str_puts(out, "<defs>\n"));
    TX_TRY(put_patterns(s));
    TX_TRY(tx_str_puts(out, "</defs>\n<path d=\"M0 0H99999V99999H0Z\" fill=\"#fff\"/>\n"));
    TX_TRY(put_element(out, "<text class=\"h\" x=\"12\" y=\"24\">", w->title, "</text>\n"));
    return put_element(out, "<text class=\"l\" x=\"12\" y=\"43\">", w->about, "</text>\n");
}

/* A box and what it stands for; *x moves to the right of it. */
static tx_status put_key(const sheet *s, double *x, const char *fill, const char *text)
{
    TX_TRY(tx_str_printf(s->out, "<rect x=\"%.0f\" y=\"56\" width=\"26\" height=\"14\" fill=\"%s\"/>", *x, fill));
    TX_TRY(tx_str_printf(s->out, "<text class=\"l\" x=\"%.0f\" y=\"67\">%s</text>\n", *x + 32, text));
    *x += 56 + 7.2 * (double)strlen(text);
    return TX_OK;
}

static char letter_of(const tx_pp_extra *e)
{
    return (char)toupper((unsigned char)e->name[0]);
}

static bool is_named_before(const sheet *s, int at)
{
    for (int k = 0; k < at; k++)
        if (!strcmp(s->d->extra[k].name, s->d->extra[at].name)) return true;
    return false;
}

static bool has_weights(const sheet *s)
{
    const tx_pp_lane *l = &s->d->t->stage[0];
    for (int k = 0; k < l->n; k++)
        if (l->span[k].op == TX_PP_WGT) return true;
    return false;
}

static tx_status put_keys(const sheet *s)
{
    int n_chunks = s->d->t->n_chunks, n = n_chunks < N_SHADES ? n_chunks : N_SHADES;
    double x = 12;
    char fill[32], text[64];
    for (int k = 0; k < 2 * n; k++) {
        snprintf(fill, sizeof fill, "url(#%c%d)", k % 2 ? 'b' : 'f', k / 2);
        int at = snprintf(text, sizeof text, "%s", k % 2 ? "B backward" : "F forward");
        if (n_chunks > 1)
            snprintf(text + at, sizeof text - (size_t)at, " of chunk%s %d%s", n_chunks > N_SHADES ? "s" : "", k / 2,
                     n_chunks > k / 2 + N_SHADES ? ", ..." : "");
        TX_TRY(put_key(s, &x, fill, text));
    }
    if (has_weights(s)) TX_TRY(put_key(s, &x, weights_fill, "W gradients of weights"));
    TX_TRY(put_key(s, &x, "#eef0f3", "waits"));
    for (int k = 0; k < s->d->n_extras; k++) {
        const tx_pp_extra *e = &s->d->extra[k];
        if (is_named_before(s, k)) continue;
        snprintf(text, sizeof text, "%c %s", letter_of(e), e->name);
        TX_TRY(put_key(s, &x, "url(#x)", text));
    }
    return TX_OK;
}

/* ---------------------------------------------------------------- rows */

typedef struct box {
    double from, to;
    const char *fill, *label, *short_label;
} box;

/* Its part that is shown, in both windows where it is in both. */
static tx_status put_box(const sheet *s, int stage, const box *b)
{
    double from = x_of(s, b->from), to = x_of(s, b->to), y = y_of(s, stage), width = to - from;
    if (is_cut(s) && b->from >= s->cut.head && b->to <= s->cut.tail) return TX_OK;
    if (is_cut(s) && b->from > s->cut.head) {
        if (b->from < s->cut.tail) from = s->tail_x;
        width = to - from;
    }
    TX_TRY(tx_str_printf(s->out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"/>", from,
                         y + 2, width, s->row - 4, b->fill));
    const char *label = (double)strlen(b->label) * s->digit + 2 <= width ? b->label : b->short_label;
    if ((double)strlen(label) * s->digit + 2 > width) return tx_str_puts(s->out, "\n");
    return tx_str_printf(s->out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", from + width / 2,
                         y + s->row / 2 + s->font * 0.36, label);
}

/* All that a stage does of one sort. */
static tx_status put_sort(const sheet *s, int stage, tx_pp_op op)
{
    const tx_pp_lane *l = &s->d->t->stage[stage];
    char letter = op == TX_PP_BWD ? 'b' : 'f';
    TX_TRY(tx_str_printf(s->out, "<g class=\"%c\">\n", letter));
    for (int k = 0; k < l->n; k++) {
        const tx_pp_span *b = &l->span[k];
        char fill[32], label[32], plain[16];
        if (b->op != op) continue;
        snprintf(fill, sizeof fill, "url(#%c%d)", letter, b->chunk % N_SHADES);
        snprintf(plain, sizeof plain, "%c%d", tx_pp_letter(b), b->micro);
        int n = snprintf(label, sizeof label, "%s", plain);
        if (s->d->t->n_chunks > 1) snprintf(label + n, sizeof label - (size_t)n, ".%d", b->chunk);
        TX_TRY(put_box(s, stage, &(box){ b->start, b->end, op == TX_PP_WGT ? weights_fill : fill, label, plain }));
    }
    return tx_str_puts(s->out, "</g>\n");
}

static tx_status put_row(const sheet *s, int stage)
{
    double y = y_of(s, stage), middle = y + s->row / 2 + 4;
    TX_TRY(tx_str_printf(s->out, "<g><title>stage %d waits %.1f %% of the time</title>\n", stage, waits(s, stage)));
    TX_TRY(tx_str_printf(s->out, "<text class=\"l\" x=\"12\" y=\"%.1f\">stage %d</text>", middle, stage));
    TX_TRY(tx_str_printf(s->out, "<rect class=\"w\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", LEFT, y + 2,
                         s->width, s->row - 4));
    TX_TRY(tx_str_printf(s->out, "<text class=\"q\" x=\"%.1f\" y=\"%.1f\">waits %.1f %%</text>\n", LEFT + s->width + 8,
                         middle, waits(s, stage)));
    TX_TRY(put_sort(s, stage, TX_PP_FWD));
    TX_TRY(put_sort(s, stage, TX_PP_BWD));
    if (has_weights(s)) TX_TRY(put_sort(s, stage, TX_PP_WGT));
    TX_TRY(tx_str_puts(s->out, "<g class=\"x\">\n"));
    for (int k = 0; k < s->d->n_extras; k++) {
        const tx_pp_extra *e = &s->d->extra[k];
        const char letter[2] = { letter_of(e) };
        if (e->stage == stage) TX_TRY(put_box(s, stage, &(box){ e->start, e->end, "url(#x)", e->name, letter }));
    }
    return tx_str_puts(s->out, "</g></g>\n");
}

static tx_status put_rows(const sheet *s)
{
    int p = s->d->t->p;
    for (int i = 0; i < p; i++)
        if (is_shown(s, i)) TX_TRY(put_row(s, i));
    if (p <= SHOWN) return TX_OK;
    return tx_str_printf(s->out, "<text class=\"l\" x=\"12\" y=\"%.1f\">... and %d stages between them</text>\n",
                         TOP + (SHOWN / 2 + 0.5) * s->row + 4, p - SHOWN);
}

/* ---------------------------------------------------------------- time */

static tx_status put_axis(const sheet *s)
{
    double bottom = bottom_of(s) + 4, step = tx_pp_mark_step(scaled(s, 70 / s->cut.scale));
    for (double mark = 0; mark <= scaled(s, s->cut.end) * (1 + 1e-9); mark += step) {
        double time = mark / scaled(s, 1), x = x_of(s, time);
        if (is_cut(s) && time > s->cut.head && time < s->cut.tail) continue;
        TX_TRY(tx_str_printf(s->out, "<path class=\"g\" d=\"M%.1f %dV%.1f\"/>", x, TOP, bottom));
        TX_TRY(tx_str_printf(s->out, "<text class=\"q\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.*f</text>\n", x,
                             bottom + 14, tx_pp_mark_digits(step), mark));
    }
    return tx_str_printf(s->out, "<text class=\"q\" x=\"12\" y=\"%.1f\">%s</text>\n", bottom + 14, unit_of(s));
}

/* What is left out is white, between two lines. */
static tx_status put_gap(const sheet *s)
{
    double from = x_of(s, s->cut.head), middle = from + GAP / 2.0, end = bottom_of(s);
    char time[48];
    if (!is_cut(s)) return TX_OK;
    TX_TRY(tx_str_printf(s->out, "<path d=\"M%.1f %dH%.1fV%.1fH%.1fZ\" fill=\"#fff\"/>", from, TOP, s->tail_x, end + 1,
                         from));
    TX_TRY(tx_str_printf(s->out, "<path d=\"M%.1f %dV%.1fM%.1f %dV%.1f\" stroke=\"#1b1f24\" stroke-dasharray=\"4 3\"/>",
                         from, TOP, end, s->tail_x, TOP, end));
    return tx_str_printf(s->out,
                         "<text class=\"q\" transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\">%s "
                         "left out</text>\n",
                         middle + 4, (TOP + end) / 2, time_text(s, time, s->cut.tail - s->cut.head));
}

tx_status tx__schedule_svg(tx_str *out, const tx_pp_drawing *d, const tx__svg_words *words)
{
    int p = d->t->p;
    sheet s = { .out = out, .d = d, .font = p <= 16 ? 11 : 9, .row = p <= 16 ? 26 : 18 };
    s.digit = 0.66 * s.font;
    int letters = snprintf(NULL, 0, "F%d", d->t->m - 1);
    if (d->t->n_chunks > 1) letters += snprintf(NULL, 0, ".%d", d->t->n_chunks - 1);
    s.cut = tx_pp_cut_of(
        d, &(tx_pp_room){ .least = LEAST, .most = MOST, .label = letters * s.digit + 3, .narrow = 6, .gap = GAP });
    s.tail_x = LEFT + s.cut.head * s.cut.scale + GAP;
    s.width = is_cut(&s) ? s.tail_x - LEFT + (s.cut.end - s.cut.tail) * s.cut.scale : s.cut.end * s.cut.scale;
    TX_TRY(put_head(&s, words));
    TX_TRY(put_keys(&s));
    TX_TRY(put_rows(&s));
    TX_TRY(put_axis(&s));
    TX_TRY(put_gap(&s));
    return tx_str_puts(out, "</svg>\n");
}
