/* labels: unit fault resume threads */
/* test_checkpoint_layouts.c - a checkpoint of any layout loads in any other, bit for bit, and what goes wrong on one
 * rank is said by all and harms nothing. */
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>

#include "layout_fixture.h"

static const layout layouts[] = {
    { 1, 1, 1, 509, 0 }, { 2, 1, 1, 512, 0 }, { 4, 1, 1, 1024, 0 }, /* two ranks have nothing but padding */
    { 1, 2, 1, 512, 0 }, { 1, 4, 1, 640, 0 }, { 2, 2, 2, 768, 0 },  { 4, 2, 1, 512, 0 }, { 2, 4, 1, 510, 0 },
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

typedef struct task {
    const layout *l;
    const char *dir;
    int64_t iteration;
    outcome seen[MAX_RANKS];
} task;

/* The ranks with one place on the data axis. */
static tx_status model_group(tx_comm **out, tx_world *w, const layout *l)
{
    return tx_comm_split(out, tx_world_comm(w), tx_world_rank(w) / (l->tp * l->pp), "model");
}

/* Only the first of the data-parallel ranks save. */
static tx_status save_rank(tx_world *w, void *user)
{
    const task *t = user;
    shard s;
    tx_comm *group;
    TX_TRY(model_group(&group, w, t->l));
    TX_TRY(shard_create(&s, t->l, tx_world_rank(w)));
    tx_status st = for_each_number(&s, true);
    if (!st && tx_world_rank(w) < t->l->tp * t->l->pp) st = shard_save(&s, t->dir, t->iteration, group);
    shard_destroy(&s);
    tx_comm_close(group);
    return st;
}

static tx_status load_rank(tx_world *w, void *user)
{
    const task *t = user;
    shard s;
    tx_checkpoint *c = NULL;
    tx_status st;
    TX_GOTO(shard_create(&s, t->l, tx_world_rank(w)));
    TX_GOTO(tx_checkpoint_open(&c, t->dir, tx_world_comm(w)));
    TX_GOTO(tx_checkpoint_read(c, &s.ps, NULL, ALL_PARTS(s)));
    TX_GOTO(for_each_number(&s, false));
    if (tx_checkpoint_state(c)->seed != 7) st = TX_FAIL(TX_ERR_NUMERIC, "another state");
out:
    tx_checkpoint_close(c);
    shard_destroy(&s);
    return st;
}

static tx_status save(const layout *l, const char *dir, int64_t iteration)
{
    task t = { .l = l, .dir = dir, .iteration = iteration };
    return tx_world_threads(n_ranks(l), save_rank, &t);
}

static tx_status load(const layout *l, const char *dir)
{
    task t = { .l = l, .dir = dir };
    return tx_world_threads(n_ranks(l), load_rank, &t);
}

static void any_layout_loads_in_any_other(void **state)
{
    (void)state;
    for (int a = 0; a < N_LAYOUTS; a++) {
        const char *dir = in_scratch("%d", a);
        ASSERT_OK(save(&layouts[a], dir, 3));
        assert_n_files(dir, 3);
        assert_n_files(in_scratch("%d/iter_0000003", a), (size_t)(layouts[a].tp * layouts[a].pp) + 1);
        for (int i = 0; i < as_many(N_LAYOUTS, 3); i++) {
            int b = (int)((sample_seed() + (uint64_t)(2 * a + i)) % N_LAYOUTS);
            tx_status st = load(&layouts[b], dir);
            if (st) fail_msg("layout %d in layout %d: %s", a, b, tx_last_error());
        }
    }
}

/* What is on disk is a function of numbers and layout: no thread, process or order of arrival shows. */
static void same_layout_same_bytes(void **state)
{
    (void)state;
    const layout *l = &layouts[5];
    for (int k = 0; k < 2; k++) ASSERT_OK(save(l, in_scratch("%d", k), 3));
    for (int k = 0; k < l->tp * l->pp; k++)
        assert_same_file(in_scratch("0/iter_0000003/shard_%05d.safetensors", k),
                         in_scratch("1/iter_0000003/shard_%05d.safetensors", k));
    assert_same_file(in_scratch("0/iter_0000003/manifest.json"), in_scratch("1/iter_0000003/manifest.json"));
}

/* Pieces by hand: blocks of a gated matrix have keys of their own, rows that pad are nowhere, the tied copy is saved
 * once. */
static void pieces_are_as_the_format_says(void **state)
{
    (void)state;
    static const struct {
        const char *name, *pieces;
    } expect[] = {
        { "model.layers.4.gated.weight", "[{\"key\":\"model.layers.4.gated.weight.0\",\"shape\":[3,16],\"shard\":"
                                         "\"shard_00004.safetensors\",\"start\":[0,"
                                         "0]},{\"key\":\"model.layers.4.gated.weight.1\",\"shape\":[3,16],\"shard\":"
                                         "\"shard_00004.safetensors\",\"start\":["
                                         "12,0]}" },
        { "exp_avg.layers.0.dense.weight", "[{\"key\":\"exp_avg.layers.0.dense.weight\",\"shape\":[16,4],\"shard\":"
                                           "\"shard_00000.safetensors\",\"start\":[0,"
                                           "0]},{\"key\":\"exp_avg.layers.0.dense.weight\",\"shape\":[16,4],\"shard\":"
                                           "\"shard_00001.safetensors\",\"start\":["
                                           "0,4]}" },
        { "exp_avg_sq.layers.0.norm.weight", "[{\"key\":\"exp_avg_sq.layers.0.norm.weight\",\"shape\":[16],\"shard\":"
                                             "\"shard_00000.safetensors\",\"start\":[0]}]" },
        { "model.word.weight",
          "[{\"key\":\"model.word.weight\",\"shape\":[256,16],\"shard\":\"shard_00000.safetensors\",\"start\":[0,0]},{"
          "\"key\":\"model.word.weight\",\"shape\":[253,16],\"shard\":\"shard_00001.safetensors\",\"start\":[256,0]}"
          "]" },
    };
    const layout l = { 4, 2, 1, 1024, 0 };
    ASSERT_OK(save(&l, scratch_dir, 3));
    json_t *m = load_json(in_scratch("iter_0000003/manifest.json"));
    for (size_t i = 0; i < sizeof expect / sizeof *expect; i++) {
        json_t *v = json_object_get(json_object_get(json_object_get(m, "tensors"), expect[i].name), "pieces");
        char *text = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS);
        assert_non_null(text);
        if (strncmp(text, expect[i].pieces, strlen(expect[i].pieces))) fail_msg("%s: %s", expect[i].name, text);
        free(text);
    }
    json_decref(m);
}

/* ---- what one rank cannot do ---- */

static tx_status save_and_note(tx_world *w, void *user)
{
    task *t = user;
    note_outcome(&t->seen[tx_world_rank(w)], save_rank(w, user));
    return TX_OK;
}

static tx_status load_and_note(tx_world *w, void *user)
{
    task *t = user;
    note_outcome(&t->seen[tx_world_rank(w)], load_rank(w, user));
    return TX_OK;
}

/* All ranks fail: `rank` of itself with st, and `others` as it, or because of it. */
static void assert_all_failed(const task *t, int rank, tx_status st, tx_status others, const char *message)
{
    for (int i = 0; i < n_ranks(t->l); i++) {
        tx_status expect = i == rank ? st : others;
        if (t->seen[i].st != expect || !strstr(t->seen[i].message, message))
            fail_msg("rank %d: %d, \"%s\"; expected %d, \"%s\"", i, t->seen[i].st, t->seen[i].message, expect, message);
    }
}

/* Its disk is full: a limit that only the larger shard meets. The old checkpoint stays, nothing else does. */
static void a_rank_cannot_write(void **state)
{
    (void)state;
    const layout one = { 1, 1, 1, 509, 0 }, two = { 1, 2, 1, 509, 0 };
    task t = { .l = &two, .dir = scratch_dir, .iteration = 4 };
    struct rlimit old, small;
    ASSERT_OK(save(&one, scratch_dir, 3));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){ 100000, old.rlim_max }; /* shard 0 has the table of the vocabulary */
    setrlimit(RLIMIT_FSIZE, &small);
    tx_status st = tx_world_threads(2, save_and_note, &t);
    setrlimit(RLIMIT_FSIZE, &old);
    ASSERT_OK(st);
    assert_all_failed(&t, 0, TX_ERR_IO, TX_ERR_COMM, "shard_00000.safetensors: cannot write: File too large");
    assert_n_files(scratch_dir, 3);
    ASSERT_OK(load(&one, scratch_dir));
    ASSERT_OK(save(&two, scratch_dir, 4));
    ASSERT_OK(load(&one, scratch_dir));
}

static tx_status save_large(tx_world *w, void *user)
{
    static const tx_param_decl decl = { "w", "f/t,h", TX_INIT_ZERO, TX_DECAY, TX_ADDS, 0, 0 };
    task *t = user;
    tx_params ps = { 0 };
    tx_dims d = { .h = (int64_t)1 << 25, .f = (int64_t)1 << 25, .n_tp = 2, .tp_rank = tx_world_rank(w) };
    tx_ckpt_state s = { .iteration = 12 };
    float unused = 0;
    json_t *config = json_object();
    TX_TRY(tx_params_declare(&ps, "", &decl, 1, NULL, &d));
    note_outcome(&t->seen[tx_world_rank(w)], tx_checkpoint_save(&(tx_ckpt_save_args){
                                                 t->dir, &s, config, &ps, NULL, WEIGHTS(&unused), tx_world_comm(w) }));
    json_decref(config);
    tx_params_deinit(&ps);
    return TX_OK;
}

static void space_is_asked_for_all(void **state)
{
    (void)state;
    task t = { .l = &layouts[1], .dir = scratch_dir };
    ASSERT_OK(tx_world_threads(2, save_large, &t));
    assert_all_failed(&t, 0, TX_ERR_IO, TX_ERR_COMM, "iteration 0000012 needs 4503");
    assert_n_files(scratch_dir, 0);
}

/* The N-th allocation of one rank fails, all N: all ranks say so, none waits for ever, the old checkpoint stays. */
static _Thread_local int64_t left = -1; /* allocations of this rank before the one that fails; < 0: none does */

static void *limited_alloc(void *user, size_t bytes)
{
    (void)user;
    return left >= 0 && left-- == 0 ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void *limited_realloc(void *user, void *p, size_t bytes)
{
    (void)user;
    return left >= 0 && left-- == 0 ? NULL : realloc(p, bytes);
}

static void plain_free(void *user, void *p)
{
    (void)user;
    free(p);
}

typedef struct starved {
    task t;
    int rank;
    int64_t n;
    bool saves;
} starved;

static tx_status run_starved(tx_world *w, void *user)
{
    starved *v = user;
    int rank = tx_world_rank(w);
    tx_checkpoint *c = NULL;
    shard s;
    TX_TRY(shard_create(&s, v->t.l, rank));
    TX_TRY(for_each_number(&s, true));
    left = rank == v->rank ? v->n : -1;
    tx_status st = v->saves ? shard_save(&s, v->t.dir, v->t.iteration, tx_world_comm(w))
                            : tx_checkpoint_open(&c, v->t.dir, tx_world_comm(w));
    if (!st && !v->saves) st = tx_checkpoint_read(c, &s.ps, NULL, ALL_PARTS(s));
    left = -1;
    note_outcome(&v->t.seen[rank], st);
    tx_checkpoint_close(c);
    shard_destroy(&s);
    return TX_OK;
}

static void assert_no_temporaries(const char *dir)
{
    tx_names names;
    ASSERT_OK(tx_dir_list(dir, &names));
    for (size_t i = 0; i < names.n; i++)
        if (strncmp(names.name[i], "iter_", 5) && strncmp(names.name[i], "latest", 6))
            fail_msg("%s is left", names.name[i]);
    tx_names_free(&names);
}

static void a_rank_has_no_memory(void **state)
{
    (void)state;
    static const tx_allocator limited = { limited_alloc, limited_realloc, plain_free, NULL };
    const layout l = { 2, 1, 1, 512, 0 };
    for (int k = 0; k < 4; k++) {
        starved v = { .t = { .l = &l, .dir = in_scratch("%d", k), .iteration = 4 }, .rank = k % 2, .saves = k < 2 };
        ASSERT_OK(save(&l, v.t.dir, 3));
        tx_allocator_set(&limited);
        for (;; v.n += v.n < as_many(INT_MAX, 30) ? 1 : 5) {
            ASSERT_OK(tx_world_threads(2, run_starved, &v));
            if (!v.t.seen[0].st) break;
            assert_all_failed(&v.t, v.rank, TX_ERR_NOMEM, TX_ERR_COMM, "memory");
            assert_no_temporaries(v.t.dir);
        }
        tx_allocator_set(NULL);
        assert_true(v.n > 5 && !v.t.seen[1].st);
        ASSERT_OK(load(&l, v.t.dir));
    }
}

/* A damaged block is found by the rank that has it to verify, whichever that is, and said by all. */
static void damage_is_said_by_all(void **state)
{
    (void)state;
    const layout *l = &layouts[6];
    task t = { .l = l, .dir = scratch_dir };
    ASSERT_OK(save(l, scratch_dir, 3));
    for (int k = 0; k < l->tp * l->pp; k++) {
        const char *path = in_scratch("iter_0000003/shard_%05d.safetensors", k);
        tx_str s = read_file(path);
        for (int shift = 0; shift < 2; shift++) { /* in the header, then in the numbers */
            size_t at = shift ? s.len - 5 : 20;
            s.data[at] ^= 4;
            write_file(path, s.data, s.len);
            ASSERT_OK(tx_world_threads(n_ranks(l), load_and_note, &t));
            assert_all_failed(&t, k, TX_ERR_FORMAT, TX_ERR_COMM, strrchr(path, '/'));
            assert_all_failed(&t, k, TX_ERR_FORMAT, TX_ERR_COMM, "block 0");
            s.data[at] ^= 4;
        }
        write_file(path, s.data, s.len - 1);
        ASSERT_OK(tx_world_threads(n_ranks(l), load_and_note, &t));
        assert_all_failed(&t, 0, TX_ERR_FORMAT, TX_ERR_FORMAT, "cut off or changed"); /* all see the length */
        write_file(path, s.data, s.len);
        tx_str_free(&s);
    }
    ASSERT_OK(load(l, scratch_dir));
}

static tx_status open_good_rank(tx_world *w, void *user)
{
    task *t = user;
    tx_checkpoint *c;
    tx_status st = tx_checkpoint_open_newest_good(&c, t->dir, tx_world_comm(w));
    note_outcome(&t->seen[tx_world_rank(w)], st);
    if (st) return TX_OK;
    if (tx_checkpoint_state(c)->iteration != t->iteration) st = TX_FAIL(TX_ERR_NUMERIC, "another iteration");
    tx_checkpoint_close(c);
    return st;
}

static void all_fall_back_to_the_same(void **state)
{
    (void)state;
    const layout *l = &layouts[1];
    task t = { .l = l, .dir = scratch_dir };
    log_begin();
    for (int i = 1; i <= 3; i++) ASSERT_OK(save(l, scratch_dir, i));
    for (t.iteration = 3; t.iteration > 0; t.iteration--) {
        const char *path = in_scratch("iter_%07d/shard_00001.safetensors", (int)t.iteration);
        ASSERT_OK(tx_world_threads(2, open_good_rank, &t));
        assert_true(!t.seen[0].st && !t.seen[1].st);
        tx_str s = read_file(path);
        s.data[s.len / 2] ^= 4;
        write_file(path, s.data, s.len);
        tx_str_free(&s);
    }
    ASSERT_CONTAINS(warned, "loading");
    ASSERT_OK(tx_world_threads(2, open_good_rank, &t));
    assert_all_failed(&t, 1, TX_ERR_FORMAT, TX_ERR_COMM, "iter_0000003/shard_00001");
    log_end();
}

/* A missing tensor is reported by the rank that wants it; one that no rank wants by all. */
static void another_number_of_layers(void **state)
{
    (void)state;
    const layout three = { 1, 1, 1, 509, 3 }, five = { 2, 2, 1, 512, 0 };
    task t = { .l = &five, .dir = scratch_dir };
    ASSERT_OK(save(&three, scratch_dir, 3));
    ASSERT_OK(tx_world_threads(4, load_and_note, &t)); /* the first stage has layers 0 to 2 */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(t.seen[i].st, i < 2 ? TX_ERR_COMM : TX_ERR_SHAPE);
        ASSERT_CONTAINS(t.seen[i].message, "model.layers.*.qkv.weight    absent             [24,16]  x2");
        assert_null(strstr(t.seen[i].message, "word"));
    }
    const layout small = { 1, 2, 1, 512, 3 };
    t = (task){ .l = &small, .dir = in_scratch("more") };
    ASSERT_OK(save(&five, in_scratch("more"), 3));
    ASSERT_OK(tx_world_threads(2, load_and_note, &t));
    assert_all_failed(&t, 0, TX_ERR_SHAPE, TX_ERR_SHAPE, "model.layers.*.gated.weight  [24,16]            absent  x2");
}

/* ---- one rank ---- */

/* One rank writes what version 0.1 wrote: the manifest's hash covers the checksums of all other bytes. */
static void one_rank_writes_what_it_always_has(void **state)
{
    (void)state;
    ASSERT_OK(save(&layouts[0], scratch_dir, 3));
    json_t *m = load_json(in_scratch("iter_0000003/manifest.json"));
    assert_string_equal(json_string_value(json_object_get(m, "hash")), "2953e9caf694c6dedefe282c398e0cf8");
    json_decref(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(any_layout_loads_in_any_other), SCRATCH_TEST(same_layout_same_bytes),
        SCRATCH_TEST(pieces_are_as_the_format_says), SCRATCH_TEST(a_rank_cannot_write),
        SCRATCH_TEST(space_is_asked_for_all),        SCRATCH_TEST(a_rank_has_no_memory),
        SCRATCH_TEST(damage_is_said_by_all),         SCRATCH_TEST(all_fall_back_to_the_same),
        SCRATCH_TEST(another_number_of_layers),      SCRATCH_TEST(one_rank_writes_what_it_always_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
