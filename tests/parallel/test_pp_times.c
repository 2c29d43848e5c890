/* labels: unit */
/* A pipeline in time: when each forward and backward begins, and that the quick makespan is that of all instructions.
 */
#include "support.h"

#include "base/rng.h"
#include "parallel/pp_picture.h"

enum { FWD, BWD, WGT };

/* Random times of a shape, and what tx_pp_times points to. */
typedef struct drawn {
    tx_pp_times t;
    double *room;
    int n;
} drawn;

/* In [0, 1); *seed counts. */
static double draw(uint64_t *seed)
{
    const tx_rng rng = { .seed = sample_seed() };
    uint32_t w[4];
    tx_rng_u32x4(&rng, (*seed)++, w);
    return w[0] / 4294967296.0;
}

/* @spread 0: all stages alike   @messages their time, at most   @last whether the last backward takes longer */
static drawn draw_times(const tx_pp_shape *s, uint64_t *seed, double spread, double messages, bool last)
{
    drawn d = { .n = s->p * s->n_chunks };
    d.room = calloc((size_t)d.n * 7, sizeof *d.room);
    assert_non_null(d.room);
    for (int v = 0; v < d.n; v++) {
        d.room[v] = 1 + spread * draw(seed);
        d.room[d.n + v] = 2 + spread * draw(seed);
        d.room[2 * d.n + v] = d.room[d.n + v] + draw(seed);
        d.room[3 * d.n + v] = spread > 0 ? messages * draw(seed) : messages;
        d.room[4 * d.n + v] = spread > 0 ? messages * draw(seed) : messages;
        d.room[5 * d.n + v] = 1 + spread * draw(seed);
        d.room[6 * d.n + v] = d.room[5 * d.n + v] + draw(seed);
    }
    d.t = (tx_pp_times){ .fwd = d.room, .bwd = d.room + d.n, .wgt = d.room + 5 * d.n };
    if (last) {
        d.t.bwd_last = d.room + 2 * d.n;
        d.t.wgt_last = d.room + 6 * d.n;
    }
    for (int k = 0; k < 2; k++) d.t.message[k] = messages > 0 ? d.room + (3 + k) * d.n : NULL;
    return d;
}

static const char *name(const tx_pp_shape *s)
{
    static char text[80];
    static const char *const kinds[] = { "1f1b", "gpipe", "zbh1", "forward" };
    snprintf(text, sizeof text, "%s, p %d, m %d, %d chunks", kinds[s->kind], s->p, s->m, s->n_chunks);
    return text;
}

/* ---------------------------------------------------------------- each computation begins when it can */

static int part_of(const tx_pp_span *b)
{
    return b->op == TX_PP_FWD ? FWD : b->op == TX_PP_BWD ? BWD : WGT;
}

/* When the message that a computation waits for has arrived; 0: it waits for none. ends[d][v m + micro] */
static double arrival(const tx_pp_shape *s, const drawn *d, double *const *ends, int v, const tx_pp_span *b)
{
    int direction = part_of(b), from = direction == BWD ? v + 1 : v - 1;
    if (from < 0 || from >= d->n || direction == WGT) return 0;
    double sent = ends[direction][from * s->m + b->micro];
    return sent + (d->t.message[direction] ? d->t.message[direction][from] : 0);
}

static double cost_of(const tx_pp_shape *s, const drawn *d, int v, const tx_pp_span *b)
{
    const double *usual[] = { d->t.fwd, d->t.bwd, d->t.wgt }, *last[] = { d->t.fwd, d->t.bwd_last, d->t.wgt_last };
    return (b->micro == s->m - 1 && last[part_of(b)] ? last : usual)[part_of(b)][v];
}

static void check_lane(const tx_pp_shape *s, const drawn *d, double *const *ends, int stage, const tx_pp_lane *l)
{
    double now = 0, busy = 0;
    assert_int_equal(l->n, s->m * s->n_chunks * (s->kind == TX_PP_FORWARD ? 1 : s->kind == TX_PP_ZBH1 ? 3 : 2));
    for (int k = 0; k < l->n; k++) {
        const tx_pp_span *b = &l->span[k];
        int v = b->chunk * s->p + stage;
        double cost = cost_of(s, d, v, b);
        ASSERT_NEAR(b->start, fmax(now, arrival(s, d, ends, v, b)), 0, name(s));
        ASSERT_NEAR(b->end, b->start + cost, 0, name(s));
        now = b->end;
        busy += cost;
    }
    ASSERT_NEAR(l->end, now, 0, name(s));
    ASSERT_NEAR(l->busy, busy, 1e-9 * busy, name(s));
}

static void check_timeline(const tx_pp_shape *s, const drawn *d, const tx_pp_timeline *t)
{
    double *ends[3], longest = 0;
    for (int k = 0; k < 3; k++) {
        ends[k] = calloc((size_t)(d->n * s->m), sizeof *ends[k]);
        assert_non_null(ends[k]);
    }
    for (int i = 0; i < s->p; i++)
        for (int k = 0; k < t->stage[i].n; k++) {
            const tx_pp_span *b = &t->stage[i].span[k];
            ends[part_of(b)][(b->chunk * s->p + i) * s->m + b->micro] = b->end;
        }
    for (int i = 0; i < s->p; i++) {
        check_lane(s, d, ends, i, &t->stage[i]);
        longest = fmax(longest, t->stage[i].end);
    }
    ASSERT_NEAR(t->makespan, longest, 0, name(s));
    for (int k = 0; k < 3; k++) free(ends[k]);
}

/* ---------------------------------------------------------------- the quick one */

static void check(const tx_pp_shape *s, const drawn *d)
{
    double makespan, *ends = calloc((size_t)s->p, sizeof *ends);
    tx_pp_timeline t;
    assert_non_null(ends);
    if (tx_pp_simulate_times(s, &d->t, &t)) fail_msg("%s: %s", name(s), tx_last_error());
    check_timeline(s, d, &t);
    ASSERT_OK(tx_pp_makespan(s, &d->t, &makespan, ends));
    ASSERT_NEAR(makespan, t.makespan, 1e-9 * t.makespan, name(s));
    for (int i = 0; i < s->p; i++) ASSERT_NEAR(ends[i], t.stage[i].end, 1e-9 * t.makespan, name(s));
    ASSERT_OK(tx_pp_makespan(s, &d->t, &makespan, NULL));
    ASSERT_NEAR(makespan, t.makespan, 1e-9 * t.makespan, name(s));
    tx_pp_timeline_free(&t);
    free(ends);
}

/* With times of several sorts: all alike, a little different, very; messages that take no time, little, much. */
static void check_sorts(const tx_pp_shape *s, uint64_t *seed)
{
    static const double spread[] = { 0, 0.01, 3 }, messages[] = { 0, 0.05, 4 };
    for (int k = 0; k < 9; k++) {
        drawn d = draw_times(s, seed, spread[k % 3], messages[k / 3], k & 1);
        check(s, &d);
        free(d.room);
    }
}

static void all_kinds(void **state)
{
    (void)state;
    uint64_t seed = 0;
    static const int micros[] = { 1, 2, 3, 5, 8, 24, 61 };
    for (int p = 1; p <= 9; p += p < 4 ? 1 : 2)
        for (size_t k = 0; k < sizeof micros / sizeof *micros; k++)
            for (tx_pp_kind kind = TX_PP_1F1B; kind <= TX_PP_FORWARD; kind++)
                for (int chunks = 1; chunks <= 3; chunks++) {
                    int m = chunks > 1 ? (micros[k] + p - 1) / p * p : micros[k];
                    if (chunks > 1 && (p < 2 || kind == TX_PP_GPIPE || kind == TX_PP_ZBH1)) continue;
                    check_sorts(&(tx_pp_shape){ kind, p, m, chunks }, &seed);
                }
}

static void many_micro_batches(void **state)
{
    (void)state;
    uint64_t seed = 0;
    static const tx_pp_shape shapes[] = { { TX_PP_1F1B, 3, 2000, 1 }, { TX_PP_1F1B, 8, 1000, 1 },
                                          { TX_PP_1F1B, 2, 1000, 3 }, { TX_PP_1F1B, 6, 600, 2 },
                                          { TX_PP_1F1B, 31, 500, 1 }, { TX_PP_GPIPE, 5, 500, 1 },
                                          { TX_PP_ZBH1, 8, 1000, 1 }, { TX_PP_ZBH1, 3, 2000, 1 } };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) check_sorts(&shapes[k], &seed);
}

static void large_pipelines(void **state)
{
    (void)state;
    uint64_t seed = 0;
    static const tx_pp_shape shapes[] = { { TX_PP_1F1B, 64, 512, 1 },
                                          { TX_PP_1F1B, 64, 256, 2 },
                                          { TX_PP_ZBH1, 64, 256, 1 } };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        drawn d = draw_times(&shapes[k], &seed, 0.1, 0.1, true);
        check(&shapes[k], &d);
        free(d.room);
    }
}

/* So many that nobody waits for all of them. */
static void repetitions_are_skipped(void **state)
{
    (void)state;
    static const tx_pp_shape shapes[] = { { TX_PP_1F1B, 4, 300000000, 1 }, { TX_PP_1F1B, 8, 40000000, 8 } };
    uint64_t seed = 0;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const tx_pp_shape *s = &shapes[k];
        drawn d = draw_times(s, &seed, 0, 0, false);
        double makespan, expect = 3.0 * ((double)s->m * s->n_chunks + s->p - 1);
        ASSERT_OK(tx_pp_makespan(s, &d.t, &makespan, NULL));
        ASSERT_NEAR(makespan, expect, 1e-9 * expect, name(s));
        free(d.room);
    }
    /* the slowest stage sets the pace, plus what each micro-batch waits for messages around it */
    const double fwd[] = { 1, 1.5, 1, 1 }, bwd[] = { 2, 2.5, 2, 2 };
    double makespan;
    ASSERT_OK(tx_pp_makespan(&shapes[0], &(tx_pp_times){ .fwd = fwd, .bwd = bwd }, &makespan, NULL));
    ASSERT_NEAR(makespan, 4.0 * 3e8, 100, "the pace");
    const double wgt[] = { 0.5, 1, 0.5, 0.5 };
    ASSERT_OK(tx_pp_makespan(&(tx_pp_shape){ TX_PP_ZBH1, 4, 300000000, 1 },
                             &(tx_pp_times){ .fwd = fwd, .bwd = bwd, .wgt = wgt }, &makespan, NULL));
    ASSERT_NEAR(makespan, 5.0 * 3e8, 100, "the pace with W");
}

/* ---------------------------------------------------------------- to scale */

/* Each stage's sums begin where its last backward ends; all update when the last of them has ended. */
static char *draw_shape(const tx_pp_shape *s, double message, double ms)
{
    int n = s->p * s->n_chunks;
    double *room = calloc((size_t)n * 3, sizeof *room), end = 0;
    tx_pp_extra *extra = calloc((size_t)s->p * 2, sizeof *extra);
    tx_pp_timeline t;
    tx_str text = { 0 };
    assert_true(room && extra);
    for (int v = 0; v < n; v++) {
        room[v] = 10;
        room[n + v] = 20;
        room[2 * n + v] = message;
    }
    ASSERT_OK(tx_pp_simulate_times(
        s, &(tx_pp_times){ .fwd = room, .bwd = room + n, .message = { room + 2 * n, room + 2 * n } }, &t));
    for (int i = 0; i < s->p; i++) {
        extra[2 * i] = (tx_pp_extra){ "sums", i, t.stage[i].end, t.stage[i].end + 4 };
        end = fmax(end, extra[2 * i].end);
    }
    for (int i = 0; i < s->p; i++) extra[2 * i + 1] = (tx_pp_extra){ "update", i, end, end + 6 };
    ASSERT_OK(tx_pp_draw_to_scale(&(tx_pp_drawing){ .t = &t, .extra = extra, .n_extras = 2 * s->p, .ms = ms }, &text));
    tx_pp_timeline_free(&t);
    free(room);
    free(extra);
    return text.data;
}

static void pictures_to_scale(void **state)
{
    (void)state;
    char *text = draw_shape(&(tx_pp_shape){ TX_PP_1F1B, 2, 2, 1 }, 5, 0.5);
    assert_string_equal(text, "stage 0   F0-------- F1-------- .................................B0------------------ "
                              "...........B1------------------- S-- U-----\n"
                              "stage 1                   F0-------- B0------------------- F1-------- "
                              "B1------------------- S-- ...........................U-----\n"
                              "ms        |0                    |10                   |20                  |30          "
                              "         |40                   |50\n");
    tx_free(text);
    text = draw_shape(&(tx_pp_shape){ TX_PP_1F1B, 2, 2, 2 }, 0, 1);
    assert_string_equal(text, "stage 0   F0.0--- F1.0-- F0.1--- F1.1-- ...............B0.1---------- "
                              "........B1.1---------- B0.0---------- B1.0---------- S- U--\n"
                              "stage 1           F0.0-- F1.0--- F0.1-- B0.1---------- F1.1--- B1.1---------- "
                              "B0.0---------- B1.0---------- S- ...............U--\n"
                              "ms        |0             |20            |40            |60            |80            "
                              "|100           |120           |140\n");
    tx_free(text);
}

/* Lines fit into 200 columns, and what is left out is the middle: of the time, and of the stages. */
static void large_pictures_are_cut(void **state)
{
    (void)state;
    static const tx_pp_shape shapes[] = { { TX_PP_1F1B, 4, 200, 1 },   { TX_PP_1F1B, 64, 512, 1 },
                                          { TX_PP_1F1B, 8, 64, 4 },    { TX_PP_1F1B, 1, 1000, 1 },
                                          { TX_PP_GPIPE, 3, 4000, 1 }, { TX_PP_1F1B, 17, 17, 1 } };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const tx_pp_shape *s = &shapes[k];
        char *text = draw_shape(s, 1, 1), last[40];
        int n_lines = 0;
        for (char *line = text; *line; line += strcspn(line, "\n") + 1, n_lines++)
            if (strcspn(line, "\n") > 200) fail_msg("%s: a line of %zu columns", name(s), strcspn(line, "\n"));
        assert_int_equal(n_lines, s->p > 16 ? 18 : s->p + 1);
        ASSERT_CONTAINS(text, "stage 0 ");
        snprintf(last, sizeof last, "\nstage %d ", s->p - 1);
        if (s->p > 1) ASSERT_CONTAINS(text, last);
        if (s->m > 100) ASSERT_CONTAINS(text, " ... ");
        if (s->p > 16) {
            snprintf(last, sizeof last, "(%d stages between them)", s->p - 16);
            ASSERT_CONTAINS(text, last);
        }
        tx_free(text);
    }
    char *text = draw_shape(&shapes[0], 1, 1);
    ASSERT_CONTAINS(text, "stage 0   F0-- F1-- F2-- F3-- ...");
    ASSERT_CONTAINS(text, "B199----- ");
    tx_free(text);
}

static void marks_of_an_axis(void **state)
{
    (void)state;
    static const double least[] = { 1, 1.01, 2.5, 5.5, 0.003, 7e5 }, step[] = { 1, 2, 5, 10, 0.005, 1e6 };
    static const int digits[] = { 0, 0, 0, 0, 3, 0 };
    for (int i = 0; i < 6; i++) {
        ASSERT_NEAR(tx_pp_mark_step(least[i]), step[i], 1e-9 * step[i], "the distance of marks");
        assert_int_equal(tx_pp_mark_digits(step[i]), digits[i]);
    }
}

/* ---------------------------------------------------------------- faults */

static void what_is_no_time(void **state)
{
    (void)state;
    const tx_pp_shape shape = { TX_PP_1F1B, 2, 4, 2 };
    uint64_t seed = 0;
    drawn d = draw_times(&shape, &seed, 1, 1, true);
    tx_pp_timeline t = { 0 };
    double makespan;
    static const double wrong[] = { -1, NAN, INFINITY };
    for (int k = 0; k < 7 * d.n; k++) {
        double right = d.room[k];
        d.room[k] = wrong[k % 3];
        char where[40];
        snprintf(where, sizeof where, "stage %d, chunk %d", k % d.n % 2, k % d.n / 2);
        ASSERT_FAILS(tx_pp_simulate_times(&shape, &d.t, &t), TX_ERR_ARG, where);
        ASSERT_FAILS(tx_pp_makespan(&shape, &d.t, &makespan, NULL), TX_ERR_ARG, where);
        d.room[k] = right;
    }
    ASSERT_OK(tx_pp_makespan(&shape, &d.t, &makespan, NULL));
    ASSERT_FAILS(tx_pp_makespan(&(tx_pp_shape){ TX_PP_1F1B, 2, 3, 2 }, &d.t, &makespan, NULL), TX_ERR_ARG, "multiple");
    ASSERT_FAILS(tx_pp_simulate_times(&(tx_pp_shape){ TX_PP_1F1B, 0, 3, 1 }, &d.t, &t), TX_ERR_ARG, "0 stages");
    assert_null(t.stage);
    free(d.room);
}

static void memory_that_is_not_there(void **state)
{
    (void)state;
    const tx_pp_shape shape = { TX_PP_1F1B, 2, 4, 2 };
    uint64_t seed = 0;
    drawn d = draw_times(&shape, &seed, 1, 1, true);
    tx_status st = TX_ERR_NOMEM;
    int64_t n = 0;
    for (; st == TX_ERR_NOMEM && n < 100; n++) {
        tx_pp_timeline t = { 0 };
        double makespan;
        allocation_fails_at(n);
        st = tx_pp_makespan(&shape, &d.t, &makespan, NULL);
        if (!st) st = tx_pp_simulate_times(&shape, &d.t, &t);
        tx_pp_timeline_free(&t);
        allocations_succeed();
    }
    ASSERT_OK(st);
    assert_true(n > 15);
    free(d.room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds),
        cmocka_unit_test(many_micro_batches),
        cmocka_unit_test(large_pipelines),
        cmocka_unit_test(repetitions_are_skipped),
        cmocka_unit_test(pictures_to_scale),
        cmocka_unit_test(large_pictures_are_cut),
        cmocka_unit_test(marks_of_an_axis),
        cmocka_unit_test(what_is_no_time),
        cmocka_unit_test(memory_that_is_not_there),
    };
    return cmocka_run_group_tests_name("parallel/pp_times", tests, NULL, NULL);
}
