/* labels: unit */
/* A pipeline as an SVG picture: that it is XML, that boxes are as long as what they stand for takes, that what is
 * written in them fits, and that nothing lies outside. */
#include "support.h"

#include "api/schedule_svg.h"

/* A picture and what is in it. */
typedef struct picture {
    tx_pp_timeline t;
    tx_pp_extra *extra;
    tx_str text;
} picture;

/* Forwards of 10 and backwards of 20, weights' parts of 5, sums of 4 behind them, an update of 6 for all at the end. */
static picture draw(const tx_pp_shape *s, double ms, const char *title)
{
    size_t n = (size_t)s->p * (size_t)s->n_chunks;
    double *time = calloc(3 * n, sizeof *time);
    picture d = { .extra = calloc((size_t)s->p * 2, sizeof *d.extra) };
    assert_true(time && d.extra);
    for (size_t v = 0; v < n; v++) {
        time[v] = 10;
        time[n + v] = 20;
        time[2 * n + v] = 5;
    }
    ASSERT_OK(tx_pp_simulate_times(s, &(tx_pp_times){ .fwd = time, .bwd = time + n, .wgt = time + 2 * n }, &d.t));
    double end = d.t.makespan + 4;
    for (int i = 0; i < s->p; i++) {
        d.extra[2 * i] = (tx_pp_extra){ "sums of gradients", i, d.t.stage[i].end, d.t.stage[i].end + 4 };
        d.extra[2 * i + 1] = (tx_pp_extra){ "update", i, end, end + 6 };
    }
    const tx_pp_drawing drawing = { .t = &d.t, .extra = d.extra, .n_extras = 2 * s->p, .ms = ms };
    ASSERT_OK(tx__schedule_svg(&d.text, &drawing, &(tx__svg_words){ title, "a schedule" }));
    free(time);
    return d;
}

static void forget(picture *d)
{
    tx_pp_timeline_free(&d->t);
    free(d->extra);
    tx_str_free(&d->text);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) n++;
    return n;
}

/* ---------------------------------------------------------------- XML */

/* Elements are closed in order, values stand in quotes, & begins an entity. */
static void check_xml(const char *text)
{
    char open[16][16];
    int depth = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '&' && strncmp(at, "&amp;", 5) && strncmp(at, "&lt;", 4) && strncmp(at, "&gt;", 4))
            fail_msg("no entity: %.20s", at);
        if (*at != '<') continue;
        const char *end = at + 1 + (at[1] == '/');
        size_t n = strcspn(end, " />");
        assert_true(n > 0 && n < sizeof *open && depth < 15);
        if (at[1] == '/') {
            assert_true(depth > 0);
            if (strlen(open[depth - 1]) != n || strncmp(open[--depth], end, n)) fail_msg("closes another: %.20s", at);
        } else {
            snprintf(open[depth++], sizeof *open, "%.*s", (int)n, end);
        }
        for (end += n; *end && *end != '>'; end++) {
            if (*end == '<') fail_msg("in an element: %.20s", at);
            if (*end == '"') end = strchr(end + 1, '"');
            assert_non_null(end);
        }
        if (end[-1] == '/') depth--;
        at = end;
    }
    assert_int_equal(depth, 0);
}

static void what_is_written_is_xml(void **state)
{
    (void)state;
    picture d = draw(&(tx_pp_shape){ TX_PP_1F1B, 4, 8, 2 }, 1, "h100 <at> \"R&D\"");
    check_xml(d.text.data);
    ASSERT_CONTAINS(d.text.data, "<title id=\"title\">h100 &lt;at&gt; \"R&amp;D\"</title>");
    ASSERT_CONTAINS(d.text.data, "role=\"img\" aria-labelledby=\"title about\"");
    ASSERT_CONTAINS(d.text.data, "<desc id=\"about\">a schedule. Each row is a stage");
    forget(&d);
}

/* ---------------------------------------------------------------- places */

/* Every box lies inside of the picture, and its text inside of it, at 0.66 of the font's height a letter. */
static void check_boxes(const char *text)
{
    double width, height, font, x, y, w, h, tx, ty;
    assert_int_equal(sscanf(strstr(text, "viewBox=\"0 0"), "viewBox=\"0 0 %lf %lf", &width, &height), 2);
    assert_int_equal(sscanf(strstr(text, "{font:"), "{font:%lfpx", &font), 1);
    for (const char *at = text; (at = strstr(at, "<rect x=")); at++) {
        if (sscanf(at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &x, &y, &w, &h) != 4)
            fail_msg("no box: %.80s", at);
        if (!(x >= 0 && w >= 0 && x + w <= width && y + h <= height)) fail_msg("outside: %.80s", at);
        const char *label = strstr(at, "/><text x=");
        if (!label || label > strchr(at, '\n')) continue;
        if (sscanf(label, "/><text x=\"%lf\" y=\"%lf\">", &tx, &ty) != 2) fail_msg("no text: %.80s", label);
        double half = 0.33 * font * (double)strcspn(strchr(label + 2, '>') + 1, "<");
        if (!(tx - half >= x && tx + half <= x + w && ty > y && ty < y + h)) fail_msg("does not fit: %.200s", at);
    }
}

static void boxes_are_in_place(void **state)
{
    (void)state;
    static const tx_pp_shape shapes[] = { { TX_PP_1F1B, 4, 8, 1 },    { TX_PP_1F1B, 1, 2, 1 },
                                          { TX_PP_1F1B, 4, 8, 6 },    { TX_PP_1F1B, 64, 256, 1 },
                                          { TX_PP_GPIPE, 3, 9, 1 },   { TX_PP_1F1B, 100, 100, 2 },
                                          { TX_PP_1F1B, 8, 4000, 1 }, { TX_PP_ZBH1, 4, 8, 1 } };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const tx_pp_shape *s = &shapes[k];
        picture d = draw(s, 0.25, "a run");
        check_xml(d.text.data);
        check_boxes(d.text.data);
        assert_int_equal(count(d.text.data, "<title>stage "), s->p < 64 ? s->p : 64);
        assert_int_equal(count(d.text.data, " ms left out<"), s->m > 50);
        assert_true(d.text.len < 4000000);
        forget(&d);
    }
}

/* 4 stages, 2 micro-batches: 150 units of the pipeline, 4 of the last sums, 6 of the update. */
static void boxes_are_to_scale(void **state)
{
    (void)state;
    picture d = draw(&(tx_pp_shape){ TX_PP_1F1B, 4, 2, 1 }, 0.5, "a run");
    const char *stage = strstr(d.text.data, "<title>stage 3 ");
    double left, x, w, scale = 900.0 / 160;
    assert_non_null(stage);
    assert_int_equal(sscanf(strstr(stage, "class=\"w\""), "class=\"w\" x=\"%lf\"", &left), 1);
    const char *f0 = strstr(stage, "<g class=\"f\">\n<rect"), *b0 = strstr(stage, "<g class=\"b\">\n<rect");
    assert_true(f0 && b0);
    assert_int_equal(sscanf(f0 + 14, "<rect x=\"%lf\" y=\"%*f\" width=\"%lf\"", &x, &w), 2);
    ASSERT_NEAR(x, left + 30 * scale, 0.01, "the begin of F0 in the last stage");
    ASSERT_NEAR(w, 10 * scale, 0.01, "its length");
    assert_int_equal(sscanf(b0 + 14, "<rect x=\"%lf\" y=\"%*f\" width=\"%lf\"", &x, &w), 2);
    ASSERT_NEAR(x, left + 40 * scale, 0.01, "the begin of B0");
    ASSERT_NEAR(w, 20 * scale, 0.01, "its length");
    assert_int_equal(count(d.text.data, ">F1</text>"), 4);
    assert_int_equal(count(d.text.data, ">B1</text>"), 4);
    assert_int_equal(count(d.text.data, ">U</text>") + count(d.text.data, ">update</text>"), 4);
    ASSERT_CONTAINS(d.text.data, ">S sums of gradients</text>");
    ASSERT_CONTAINS(d.text.data, ">U update</text>");
    ASSERT_CONTAINS(d.text.data, ">stage 3 waits 56.2 % of the time</title>");
    ASSERT_CONTAINS(d.text.data, "ends after 80 ms");
    forget(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_xml),
        cmocka_unit_test(boxes_are_in_place),
        cmocka_unit_test(boxes_are_to_scale),
    };
    return cmocka_run_group_tests_name("api/schedule_svg", tests, NULL, NULL);
}
