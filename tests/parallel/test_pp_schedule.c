/* labels: unit */
/* Pipeline schedules: that no shape waits for ever, how long each takes and how much it holds; that the simulator which
 * says so finds faults; and which layers go where. */
#include "support.h"

#include "parallel/pp_schedule.h"

static const char *name(const tx_pp_shape *s)
{
    static char text[80];
    static const char *const kinds[] = { "1f1b", "gpipe", "zbh1", "forward" };
    snprintf(text, sizeof text, "%s, p %d, m %d, %d chunks", kinds[s->kind], s->p, s->m, s->n_chunks);
    return text;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* (m n_chunks + p - 1) forwards and backwards one after the other: the ideal time and the papers' bubble. With ZB-H1 W
 * fill a part of that. */
static int expected_time(const tx_pp_shape *s, const tx_pp_units *u)
{
    int each = s->kind == TX_PP_FORWARD ? u->fwd : u->fwd + u->bwd, whole = (s->m * s->n_chunks + s->p - 1) * each;
    if (s->kind != TX_PP_ZBH1) return whole;
    return whole + s->m * u->wgt - least(s->m - 1, s->p - 1) * u->wgt;
}

static int expected_slots(const tx_pp_shape *s, int stage)
{
    int total = s->m * s->n_chunks, n = s->p - stage;
    if (s->kind == TX_PP_FORWARD) return 1;
    if (s->kind == TX_PP_GPIPE) return total;
    if (s->kind == TX_PP_ZBH1) return least(s->p, total); /* in each stage, arXiv:2401.10241 §2.3 */
    if (s->n_chunks > 1) n = 2 * (s->p - stage - 1) + (s->n_chunks - 1) * s->p + 1; /* arXiv:2104.04473 §2.2 */
    return n < total ? n : total;
}

/* The most that a stage holds at the same time, where a micro-batch takes `whole` from its forward to its backward and
 * `rest` until its weights' part has been done. */
static int peak_of(const tx_pp_list *l, int whole, int rest)
{
    int now = 0, most = 0;
    for (int k = 0; k < l->n; k++) {
        tx_pp_op op = l->instr[k].op;
        now += op == TX_PP_FWD ? whole : op == TX_PP_BWD ? rest - whole : op == TX_PP_WGT ? -rest : 0;
        if (now > most) most = now;
    }
    return most;
}

/* ZB-H1 needs no more than 1F1B's first stage, in all stages, and less where W need less than B; once there are enough
 * micro-batches exactly so much. */
static void check_peak(const tx_pp_shape *s, const tx_pp_list *l, int stage)
{
    if (s->kind != TX_PP_ZBH1) return;
    int held = peak_of(l, 1, 1), most = peak_of(l, 5, 3), all = least(s->p, s->m);
    if (held != all || most > 5 * all || (s->m >= s->p && most != 5 * (s->p - stage) + 3 * stage))
        fail_msg("%s, stage %d: %d activations, and %d", name(s), stage, held, most);
}

/* One message in each direction may be on its way: that no stage waits for ever. With two nobody waits for room. */
static void check_room(const tx_pp_shape *s, const tx_pp_list *lists, const tx_pp_units *u)
{
    tx_pp_units few = *u;
    int makespan;
    for (few.outgoing = 1; few.outgoing <= 2; few.outgoing++) {
        if (tx_pp_simulate_lists(s, lists, few, &makespan, NULL))
            fail_msg("%s, %d messages: %s", name(s), few.outgoing, tx_last_error());
        if (makespan < expected_time(s, u) || (few.outgoing == 2 && makespan != expected_time(s, u)))
            fail_msg("%s, %d messages: %d, without that %d", name(s), few.outgoing, makespan, expected_time(s, u));
    }
}

static int takes(const tx_pp_shape *s, const tx_pp_list *lists, const tx_pp_units *u, const char *what)
{
    int makespan = 0;
    if (tx_pp_simulate_lists(s, lists, *u, &makespan, NULL)) fail_msg("%s, %s: %s", name(s), what, tx_last_error());
    return makespan;
}

/* Receives that are posted early need one input more, and no stage waits for ever. Where a message's way begins when
 * its receive is posted they take as long as if it began at once, and never longer than without them. */
static void check_posts(const tx_pp_shape *s, tx_pp_list *lists, const tx_pp_units *u, bool keeps_inputs)
{
    tx_pp_units late = *u, early, meets;
    late.message = u->fwd;
    early = meets = late;
    late.meets = meets.meets = true;
    early.outgoing = meets.outgoing = late.outgoing = 2;
    int at_once = takes(s, lists, &early, "sent early"), without = takes(s, lists, &late, "received late");
    for (int i = 0; i < s->p; i++) {
        int n_slots = lists[i].n_slots;
        if (tx_pp_post(&lists[i], keeps_inputs && s->kind != TX_PP_FORWARD)) fail_msg("%s", tx_last_error());
        if (lists[i].n_inputs > (lists[i].keeps_inputs ? n_slots + 1 : 2))
            fail_msg("%s, stage %d: %d inputs for %d slots", name(s), i, lists[i].n_inputs, n_slots);
    }
    int posted = takes(s, lists, &meets, "posted early");
    if (posted != at_once || posted > without)
        fail_msg("%s: posted early takes %d, late %d; sent early %d", name(s), posted, without, at_once);
    meets = *u;
    for (meets.outgoing = 0; meets.outgoing <= 2; meets.outgoing++) {
        int makespan = takes(s, lists, &meets, "messages posted early");
        if (makespan < expected_time(s, u) || (meets.outgoing != 1 && makespan != expected_time(s, u)))
            fail_msg("%s, %d messages posted early: %d, expected %d", name(s), meets.outgoing, makespan,
                     expected_time(s, u));
    }
}

static void check(const tx_pp_shape *s, const tx_pp_units *u)
{
    tx_pp_list *lists = calloc((size_t)s->p, sizeof *lists);
    int makespan = 0;
    assert_non_null(lists);
    for (int i = 0; i < s->p; i++) {
        if (tx_pp_schedule(&lists[i], s, i)) fail_msg("%s: %s", name(s), tx_last_error());
        if (lists[i].n_slots != expected_slots(s, i))
            fail_msg("%s, stage %d: %d slots, expected %d", name(s), i, lists[i].n_slots, expected_slots(s, i));
        check_peak(s, &lists[i], i);
    }
    if (tx_pp_simulate_lists(s, lists, *u, &makespan, NULL)) fail_msg("%s: %s", name(s), tx_last_error());
    if (makespan != expected_time(s, u))
        fail_msg("%s at %d, %d and %d: takes %d, expected %d", name(s), u->fwd, u->bwd, u->wgt, makespan,
                 expected_time(s, u));
    int each = u->fwd + (s->kind == TX_PP_FORWARD ? 0 : u->bwd) + (s->kind == TX_PP_ZBH1 ? u->wgt : 0);
    double ideal = (double)s->m * s->n_chunks * each;
    ASSERT_NEAR(tx_pp_bubble(s, *u), makespan / ideal - 1, 1e-12, name(s));
    if (s->p <= 12 || s->p % 8 == 0) {
        check_room(s, lists, u);
        check_posts(s, lists, u, s->m % 3 > 0);
    }
    for (int i = 0; i < s->p; i++) tx_pp_list_free(&lists[i]);
    free(lists);
}

/* All kinds and chunks that p and m allow. */
static void check_all(int p, int m, tx_pp_units u)
{
    for (tx_pp_kind kind = TX_PP_1F1B; kind <= TX_PP_FORWARD; kind++)
        for (int chunks = 1; chunks <= 4; chunks++) {
            if (chunks > 1 && (p < 2 || m % p || kind == TX_PP_GPIPE || kind == TX_PP_ZBH1)) continue;
            check(&(tx_pp_shape){ .kind = kind, .p = p, .m = m, .n_chunks = chunks }, &u);
        }
}

static void small_pipelines(void **state)
{
    (void)state;
    for (int p = 1; p <= 12; p++)
        for (int m = 1; m <= 48; m++) {
            if (m <= 2 * p) check_all(p, m, (tx_pp_units){ .fwd = 1, .bwd = 1, .wgt = 1 });
            check_all(p, m, (tx_pp_units){ .fwd = 1, .bwd = 2, .wgt = 1 });
            check_all(p, m, (tx_pp_units){ .fwd = 4, .bwd = 5, .wgt = 3 });
        }
}

static void large_pipelines(void **state)
{
    (void)state;
    static const int few[] = { 1, 2, 3, 7, 31, 64, 100, 127, 128, 255, 256 };
    for (int p = 13; p <= 64; p++) {
        check_all(p, p, (tx_pp_units){ .fwd = 2, .bwd = 3, .wgt = 2 }); /* multiples: interleaved, too */
        check_all(p, 2 * p, (tx_pp_units){ .fwd = 2, .bwd = 3, .wgt = 2 });
        check_all(p, 256 / p * p, (tx_pp_units){ .fwd = 2, .bwd = 3, .wgt = 2 });
        for (size_t i = (size_t)p % 3; i < sizeof few / sizeof *few; i += 3)
            check_all(p, few[i], (tx_pp_units){ .fwd = 1, .bwd = 2, .wgt = 1 });
        check_all(p, p - 1, (tx_pp_units){ .fwd = 1, .bwd = 1, .wgt = 1 });
        check_all(p, p + 1, (tx_pp_units){ .fwd = 1, .bwd = 1, .wgt = 1 });
    }
    for (int p = 1; p <= 12; p++)
        for (size_t i = 0; i < sizeof few / sizeof *few; i++)
            check_all(p, few[i], (tx_pp_units){ .fwd = 1, .bwd = 2, .wgt = 1 });
}

/* Every pipeline of at most 64 stages and 256 micro-batches, or other ones each day. */
static void zero_bubble_of_all_sizes(void **state)
{
    (void)state;
    enum { P = 64, M = 256 };
    for (int i = 0; i < as_many(P * M, 200); i++) {
        int k = (int)((sample_seed() + 6151 * (uint64_t)i) % (P * M));
        check(&(tx_pp_shape){ .kind = TX_PP_ZBH1, .p = 1 + k % P, .m = 1 + k / P, .n_chunks = 1 },
              &(tx_pp_units){ .fwd = 3, .bwd = 5, .wgt = 2 });
    }
}

/* ---------------------------------------------------------------- the lists themselves */

/* Of the third of 4 stages with 3 micro-batches. */
static void check_list(tx_pp_kind kind, const char *expect)
{
    static const char *const ops[] = { "rf", "F", "sf", "rb", "B", "sb", "W" };
    tx_pp_list l;
    tx_str text = { 0 };
    ASSERT_OK(tx_pp_schedule(&l, &(tx_pp_shape){ .kind = kind, .p = 4, .m = 3, .n_chunks = 1 }, 2));
    for (int i = 0; i < l.n; i++)
        ASSERT_OK(tx_str_printf(&text, "%s%d@%d%s%d ", ops[l.instr[i].op], l.instr[i].micro, l.instr[i].slot,
                                l.instr[i].last_of_chunk ? "!" : ":", l.instr[i].peer));
    assert_string_equal(text.data, expect);
    tx_str_free(&text);
    tx_pp_list_free(&l);
}

static void lists_as_the_papers_have_them(void **state)
{
    (void)state;
    check_list(TX_PP_1F1B, "rf0@0:1 F0@0:2 sf0@0:3 "
                           "rf1@1:1 F1@1:2 sf1@1:3 rb0@0:3 B0@0:2 sb0@0:1 "
                           "rf2@0:1 F2@0:2 sf2@0:3 rb1@1:3 B1@1:2 sb1@1:1 "
                           "rb2@0:3 B2@0!2 sb2@0:1 ");
    check_list(TX_PP_ZBH1, "rf0@0:1 F0@0:2 sf0@0:3 "
                           "rf1@1:1 F1@1:2 sf1@1:3 rb0@0:3 B0@0:2 sb0@0:1 "
                           "rf2@2:1 F2@2:2 sf2@2:3 rb1@1:3 B1@1:2 sb1@1:1 "
                           "rb2@2:3 B2@2:2 sb2@2:1 W0@0:2 W1@1:2 W2@2!2 ");
}

static void receives_are_posted_early(void **state)
{
    (void)state;
    static const char *const ops[] = { "rf", "F", "sf", "rb", "B", "sb", "W", "pf", "pb" };
    tx_pp_list l;
    tx_str text = { 0 };
    ASSERT_OK(tx_pp_schedule(&l, &(tx_pp_shape){ .kind = TX_PP_1F1B, .p = 4, .m = 4, .n_chunks = 1 }, 2));
    ASSERT_OK(tx_pp_post(&l, true));
    for (int i = 0; i < l.n; i++) {
        const tx_pp_instr *in = &l.instr[i];
        bool has_input = in->op == TX_PP_POST_FWD || in->op == TX_PP_RECV_FWD;
        ASSERT_OK(tx_str_printf(&text, "%s%d", ops[in->op], in->micro));
        ASSERT_OK(tx_str_printf(&text, has_input ? "@%d " : " ", in->input));
    }
    assert_string_equal(text.data, "pf0@0 pf1@1 rf0@0 pf2@2 F0 sf0 pb0 rf1@1 F1 sf1 pb1 rb0 B0 pf3@0 sb0 "
                                   "rf2@2 F2 sf2 pb2 rb1 B1 sb1 rf3@0 F3 sf3 pb3 rb2 B2 sb2 rb3 B3 sb3 ");
    assert_int_equal(l.n_inputs, 3);
    tx_str_free(&text);
    tx_pp_list_free(&l);
}

static void pictures(void **state)
{
    (void)state;
    tx_str picture = { 0 };
    ASSERT_OK(tx_pp_simulate(&(tx_pp_shape){ .p = 4, .m = 6, .n_chunks = 1 }, (tx_pp_units){ .fwd = 1, .bwd = 1 }, NULL,
                             &picture));
    assert_string_equal(picture.data, "stage 0   F0 F1 F2 F3 .. .. .. B0 F4 B1 F5 B2 .. B3 .. B4 .. B5\n"
                                      "stage 1      F0 F1 F2 .. .. B0 F3 B1 F4 B2 F5 B3 .. B4 .. B5\n"
                                      "stage 2         F0 F1 .. B0 F2 B1 F3 B2 F4 B3 F5 B4 .. B5\n"
                                      "stage 3            F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5\n");
    tx_str_free(&picture);
    ASSERT_OK(tx_pp_simulate(&(tx_pp_shape){ .p = 2, .m = 2, .n_chunks = 2 }, (tx_pp_units){ .fwd = 1, .bwd = 2 }, NULL,
                             &picture));
    assert_string_equal(picture.data,
                        "stage 0   F0.0 F1.0 F0.1 F1.1 ..   ..   B0.1----- ..   B1.1----- B0.0----- B1.0-----\n"
                        "stage 1        F0.0 F1.0 F0.1 B0.1----- F1.1 B1.1----- B0.0----- B1.0-----\n");
    tx_str_free(&picture);
    ASSERT_OK(tx_pp_simulate(&(tx_pp_shape){ .kind = TX_PP_GPIPE, .p = 2, .m = 2, .n_chunks = 1 },
                             (tx_pp_units){ .fwd = 1, .bwd = 1 }, NULL, &picture));
    assert_string_equal(picture.data, "stage 0   F0 F1 .. .. B0 B1\n"
                                      "stage 1      F0 F1 B0 B1\n");
    tx_str_free(&picture);
    ASSERT_OK(tx_pp_simulate(&(tx_pp_shape){ .kind = TX_PP_ZBH1, .p = 4, .m = 6, .n_chunks = 1 },
                             (tx_pp_units){ .fwd = 1, .bwd = 1, .wgt = 1 }, NULL, &picture));
    assert_string_equal(picture.data, "stage 0   F0 F1 F2 F3 .. .. .. B0 W0 F4 B1 W1 F5 B2 W2 B3 W3 B4 W4 B5 W5\n"
                                      "stage 1      F0 F1 F2 .. .. B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 B4 W3 B5 W4 W5\n"
                                      "stage 2         F0 F1 .. B0 F2 B1 F3 B2 W0 F4 B3 W1 F5 B4 W2 B5 W3 W4 W5\n"
                                      "stage 3            F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 W3 W4 W5\n");
    tx_str_free(&picture);
}

static void shapes_that_are_none(void **state)
{
    (void)state;
    tx_pp_list l = { 0 };
    ASSERT_FAILS(tx_pp_schedule(&l, &(tx_pp_shape){ .p = 4, .m = 6, .n_chunks = 2 }, 0), TX_ERR_ARG, "multiple");
    ASSERT_FAILS(tx_pp_schedule(&l, &(tx_pp_shape){ .p = 1, .m = 6, .n_chunks = 2 }, 0), TX_ERR_ARG, "at least 2");
    ASSERT_FAILS(tx_pp_schedule(&l, &(tx_pp_shape){ .kind = TX_PP_GPIPE, .p = 2, .m = 6, .n_chunks = 2 }, 0),
                 TX_ERR_ARG, "GPipe");
    ASSERT_FAILS(tx_pp_schedule(&l, &(tx_pp_shape){ .kind = TX_PP_ZBH1, .p = 2, .m = 6, .n_chunks = 2 }, 0), TX_ERR_ARG,
                 "ZB-H1");
    ASSERT_FAILS(tx_pp_schedule(&l, &(tx_pp_shape){ .p = 2, .m = 0, .n_chunks = 1 }, 0), TX_ERR_ARG, "0 micro-batches");
    ASSERT_FAILS(tx_pp_schedule(&l, &(tx_pp_shape){ .p = 2, .m = 1 << 30, .n_chunks = 1 }, 0), TX_ERR_ARG, "counted");
    ASSERT_FAILS(tx_pp_simulate(&(tx_pp_shape){ .p = 0, .m = 1, .n_chunks = 1 }, (tx_pp_units){ .fwd = 1, .bwd = 1 },
                                NULL, NULL),
                 TX_ERR_ARG, "0 stages");
    assert_null(l.instr);
}

/* ---------------------------------------------------------------- planted faults */

static tx_pp_list *lists_of(const tx_pp_shape *s, bool posts)
{
    tx_pp_list *lists = calloc((size_t)s->p, sizeof *lists);
    assert_non_null(lists);
    for (int i = 0; i < s->p; i++) {
        ASSERT_OK(tx_pp_schedule(&lists[i], s, i));
        if (posts) ASSERT_OK(tx_pp_post(&lists[i], true));
    }
    return lists;
}

static void free_lists(const tx_pp_shape *s, tx_pp_list *lists)
{
    for (int i = 0; i < s->p; i++) tx_pp_list_free(&lists[i]);
    free(lists);
}

/* Whether two instructions that follow each other may change places without a fault: those that neither need each other
 * nor move a slot or a message in time. Sends touch no slot. */
static bool independent(const tx_pp_instr *a, const tx_pp_instr *b)
{
    bool same_unit = a->micro == b->micro && a->chunk == b->chunk, same_kind = a->op == b->op && a->chunk == b->chunk;
    bool send =
        a->op == TX_PP_SEND_FWD || a->op == TX_PP_SEND_BWD || b->op == TX_PP_SEND_FWD || b->op == TX_PP_SEND_BWD;
    return !same_unit && !same_kind && (send || a->slot != b->slot);
}

/* Swapping neighbours: those that depend on each other are found. What may change places makes a list that is still
 * sound, or one that waits for ever: then the simulator says so as well, but no number is wrong. */
static void swapped_instructions_are_found(void **state)
{
    (void)state;
    static const tx_pp_shape shapes[] = {
        { TX_PP_1F1B, 3, 5, 1 }, { TX_PP_1F1B, 2, 4, 2 }, { TX_PP_GPIPE, 3, 4, 1 }, { TX_PP_ZBH1, 3, 5, 1 }
    };
    int n_found = 0, n_waits = 0;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const tx_pp_shape *s = &shapes[k];
        tx_pp_list *lists = lists_of(s, false);
        for (int i = 0; i < s->p; i++)
            for (int j = 0; j + 1 < lists[i].n; j++) {
                tx_pp_instr *at = &lists[i].instr[j], first = at[0];
                bool free_to_move = independent(&at[0], &at[1]);
                at[0] = at[1];
                at[1] = first;
                tx_status st =
                    tx_pp_simulate_lists(s, lists, (tx_pp_units){ .fwd = 1, .bwd = 2, .wgt = 1 }, NULL, NULL);
                if (!free_to_move && st != TX_ERR_STATE)
                    fail_msg("%s, stage %d: instructions %d and %d swapped, and nothing is said", name(s), i, j, j + 1);
                if (free_to_move && st && !strstr(tx_last_error(), "waits for ever"))
                    fail_msg("%s, stage %d, %d: %s", name(s), i, j, tx_last_error());
                n_found += !free_to_move;
                n_waits += free_to_move && st;
                at[1] = at[0];
                at[0] = first;
            }
        ASSERT_OK(tx_pp_simulate_lists(s, lists, (tx_pp_units){ .fwd = 1, .bwd = 2, .wgt = 1 }, NULL, NULL));
        free_lists(s, lists);
    }
    assert_true(n_found > 100);
    assert_true(n_waits > 0);
}

typedef void fault(tx_pp_list *l, int at);

static void drop(tx_pp_list *l, int at)
{
    memmove(&l->instr[at], &l->instr[at + 1], (size_t)(l->n - at - 1) * sizeof *l->instr);
    l->n--;
}

static void twice(tx_pp_list *l, int at)
{
    assert_true(l->n < l->cap);
    memmove(&l->instr[at + 1], &l->instr[at], (size_t)(l->n - at) * sizeof *l->instr);
    l->n++;
}

static void other_slot(tx_pp_list *l, int at)
{
    l->instr[at].slot = (l->instr[at].slot + 1) % l->n_slots;
}

static void other_input(tx_pp_list *l, int at)
{
    l->instr[at].input = (l->instr[at].input + 1) % (l->n_inputs + 1);
}

static void other_peer(tx_pp_list *l, int at)
{
    l->instr[at].peer++;
}

static void other_micro(tx_pp_list *l, int at)
{
    l->instr[at].micro++;
}

static void other_mark(tx_pp_list *l, int at)
{
    l->instr[at].last_of_chunk = !l->instr[at].last_of_chunk;
}

static void find_faults(const tx_pp_shape *shape, bool posts)
{
    const struct {
        const char *name;
        fault *plant;
        unsigned ops; /* of which instructions: a bit each */
    } faults[] = { { "left out", drop, 0777 },           { "twice", twice, 0777 },
                   { "another slot", other_slot, 0533 }, /* a send reads no slot, nor the post of an input */
                   { "another peer", other_peer, 0655 }, { "another micro-batch", other_micro, 0777 },
                   { "another mark", other_mark, 0120 }, { "another input", other_input, posts ? 0201 : 0 } };
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        tx_pp_list *lists = lists_of(shape, posts);
        int n = 0;
        for (int i = 0; i < shape->p; i++)
            for (int j = 0; j < lists[i].n; j++) {
                tx_pp_list whole = lists[i];
                if (!(faults[k].ops >> whole.instr[j].op & 1)) continue;
                lists[i].instr = calloc((size_t)whole.n + 1, sizeof *whole.instr);
                assert_non_null(lists[i].instr);
                lists[i].cap = whole.n + 1;
                memcpy(lists[i].instr, whole.instr, (size_t)whole.n * sizeof *whole.instr);
                faults[k].plant(&lists[i], j);
                if (tx_pp_simulate_lists(shape, lists, (tx_pp_units){ .fwd = 1, .bwd = 2, .wgt = 1 }, NULL, NULL) !=
                    TX_ERR_STATE)
                    fail_msg("stage %d, instruction %d: %s, and nothing is said", i, j, faults[k].name);
                free(lists[i].instr);
                lists[i] = whole;
                n++;
            }
        assert_true(n > 30 || !faults[k].ops);
        free_lists(shape, lists);
    }
}

static void faults_are_found(void **state)
{
    (void)state;
    for (int posts = 0; posts < 2; posts++) {
        find_faults(&(tx_pp_shape){ TX_PP_1F1B, 4, 8, 2 }, posts);
        find_faults(&(tx_pp_shape){ TX_PP_ZBH1, 4, 8, 1 }, posts);
    }
}

static void memory_that_is_not_there(void **state)
{
    (void)state;
    const tx_pp_shape shape = { TX_PP_1F1B, 2, 4, 2 };
    tx_status st = TX_ERR_NOMEM;
    int64_t n = 0;
    for (; st == TX_ERR_NOMEM && n < 100; n++) {
        tx_str picture = { 0 };
        allocation_fails_at(n);
        st = tx_pp_simulate(&shape, (tx_pp_units){ .fwd = 1, .bwd = 2 }, NULL, &picture);
        tx_str_free(&picture);
        allocations_succeed();
    }
    ASSERT_OK(st);
    assert_true(n > 15);
}

/* ---------------------------------------------------------------- layers */

/* The least cost of the costliest part, by trying every division. */
static double least_cost(int64_t layers, int parts, int part, double pre, double post)
{
    double best = INFINITY, extra = (part == 0 ? pre : 0) + (part == parts - 1 ? post : 0);
    if (part == parts - 1) return (double)layers + extra;
    for (int64_t n = 1; n <= layers - (parts - 1 - part); n++)
        best = fmin(best, fmax((double)n + extra, least_cost(layers - n, parts, part + 1, pre, post)));
    return best;
}

static void check_division(int64_t layers, int p, int chunks, double pre, double post)
{
    const tx_pp_division d = { .n_layers = layers, .p = p, .n_chunks = chunks, .pre_cost = pre, .post_cost = post };
    int64_t at = 0;
    double worst = 0;
    for (int v = 0; v < p * chunks; v++) {
        tx_pp_chunk c = tx_pp_layers(&d, v % p, v / p);
        assert_int_equal(c.first, at);
        assert_true(c.end > c.first);
        assert_int_equal(c.pre, v == 0);
        assert_int_equal(c.post, v == p * chunks - 1);
        if (layers % (p * chunks) == 0) assert_int_equal(c.end - c.first, layers / (p * chunks));
        worst = fmax(worst, (double)(c.end - c.first) + (c.pre ? pre : 0) + (c.post ? post : 0));
        at = c.end;
    }
    assert_int_equal(at, layers);
    if (layers % (p * chunks) == 0) return;
    ASSERT_NEAR(worst, least_cost(layers, p * chunks, 0, pre, post), 1e-6, "the costliest part");
}

static void layers_are_divided_by_cost(void **state)
{
    (void)state;
    static const double costs[][2] = { { 0, 0 }, { 0, 1 }, { 0.1, 2.5 }, { 1.5, 0 }, { 3, 3.25 }, { 0.5, 40 } };
    for (size_t k = 0; k < sizeof costs / sizeof *costs; k++)
        for (int p = 1; p <= 5; p++)
            for (int64_t layers = p; layers <= 14; layers++) {
                check_division(layers, p, 1, costs[k][0], costs[k][1]);
                if (p == 2 && layers >= 4) check_division(layers, 2, 2, costs[k][0], costs[k][1]);
            }
    /* as many in front as the costliest part allows */
    static const int64_t ends[] = { 3, 6, 9, 10 };
    const tx_pp_division ten = { .n_layers = 10, .p = 4, .n_chunks = 1, .post_cost = 2 };
    for (int i = 0; i < 4; i++) assert_int_equal(tx_pp_layers(&ten, i, 0).end, ends[i]);
    const tx_pp_division apart = { .n_layers = 10, .p = 4, .n_chunks = 1, .post_cost = 2, .pre_alone = true };
    static const int64_t ends_apart[] = { 0, 4, 8, 10 };
    for (int i = 0; i < 4; i++) {
        tx_pp_chunk c = tx_pp_layers(&apart, i, 0);
        assert_int_equal(c.first, i ? ends_apart[i - 1] : 0);
        assert_int_equal(c.end, ends_apart[i]);
        assert_true(c.pre == !i && c.post == (i == 3));
    }
    const tx_pp_division many = { .n_layers = 9999, .p = 64, .n_chunks = 1, .pre_cost = 0.25, .post_cost = 7.5 };
    assert_int_equal(tx_pp_layers(&many, 63, 0).end, 9999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pipelines),
        cmocka_unit_test(large_pipelines),
        cmocka_unit_test(zero_bubble_of_all_sizes),
        cmocka_unit_test(lists_as_the_papers_have_them),
        cmocka_unit_test(receives_are_posted_early),
        cmocka_unit_test(pictures),
        cmocka_unit_test(shapes_that_are_none),
        cmocka_unit_test(swapped_instructions_are_found),
        cmocka_unit_test(faults_are_found),
        cmocka_unit_test(memory_that_is_not_there),
        cmocka_unit_test(layers_are_divided_by_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
