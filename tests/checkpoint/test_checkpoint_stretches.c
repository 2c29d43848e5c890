/* labels: unit fault resume threads */
/* test_checkpoint_stretches.c - ranks that keep fragments of their shards, each in a buffer of its own kind, save what
 * any others load, bit for bit. */
#include "checkpoint/safetensors.h"

#include "stretch_fixture.h"

/* clang-format off */
static const tx_param_decl rows[] = {
    { "word.weight",     "V/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
    { "position.weight", "P,h",   TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
    { "norm.weight",     "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, 0, 0 },
    { "qkv.weight",      "q/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
    { "qkv.bias",        "q/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, 0, 0 },
    { "dense.weight",    "h,a/t", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
    { "gated.weight",    "u/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
    { "gated.bias",      "u/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, 0, 0 },
    { "columns.weight",  "h,u/t", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
    { "one.weight",      "1h,f",  TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, 0, 0 },
};
/* clang-format on */
enum { N_ROWS = sizeof rows / sizeof rows[0], N_CUTS = 6 };

typedef struct task {
    const table *table;
    const cut *cut;
    const char *dir;
    int fails_at;  /* moves before the one that fails on rank 1; < 0: none does */
    bool lose_one; /* rank 1 forgets a fragment */
    bool all_save; /* also where every rank has all */
    outcome seen[MAX_RANKS];
} task;

/* Without cuts only the first of the data-parallel ranks save. */
static tx_status save_rank(tx_world *w, void *user)
{
    task *t = user;
    keeper k;
    tx_comm *group;
    int rank = tx_world_rank(w);
    bool saves = t->cut->max_cuts || rank < t->cut->tp || t->all_save;
    TX_TRY(tx_comm_split(&group, tx_world_comm(w), saves, "save"));
    TX_TRY(keeper_create(&k, t->table, t->cut, rank));
    tx_status st = keeper_numbers(&k, true);
    if (t->lose_one && rank == 1) k.kept.n--;
    if (rank == 1) k.moves_left = t->fails_at;
    if (!st && saves) note_outcome(&t->seen[rank], keeper_save(&k, t->dir, 3, group));
    keeper_destroy(&k);
    tx_comm_close(group);
    return st;
}

static tx_status load_rank(tx_world *w, void *user)
{
    task *t = user;
    keeper k;
    int rank = tx_world_rank(w);
    TX_TRY(keeper_create(&k, t->table, t->cut, rank));
    if (rank == 1) k.moves_left = t->fails_at;
    tx_status st = keeper_load(&k, t->dir, tx_world_comm(w));
    if (!st) st = keeper_numbers(&k, false);
    note_outcome(&t->seen[rank], st);
    keeper_destroy(&k);
    return TX_OK;
}

static void run(tx_rank_fn *fn, task *t)
{
    int n = t->cut->tp * t->cut->dp;
    ASSERT_OK(tx_world_threads(n, fn, t));
}

static void assert_all_good(const task *t, const char *what)
{
    for (int i = 0; i < t->cut->tp * t->cut->dp; i++)
        if (t->seen[i].st) fail_msg("%s: rank %d: %s", what, i, t->seen[i].message);
}

static task save(const table *t, const cut *c, const char *dir)
{
    task k = { .table = t, .cut = c, .dir = dir, .fails_at = -1 };
    run(save_rank, &k);
    return k;
}

static task load(const table *t, const cut *c, const char *dir)
{
    task k = { .table = t, .cut = c, .dir = dir, .fails_at = -1 };
    run(load_rank, &k);
    return k;
}

/* Sizes that all tensor-parallel ranks of the cuts divide. */
static table random_table(draw *d)
{
    int64_t h = 1 + below(d, 19), v = 12 + below(d, 90), f = 1 + below(d, 30), p = 1 + below(d, 5);
    int64_t q = 12 * (1 + below(d, 3)), a = 12 * (1 + below(d, 2)), u = 24 * (1 + below(d, 2));
    return (table){ rows, N_ROWS, { .h = h, .f = f, .v_logical = v, .P = p, .q = q, .a = a, .u = u, .u_parts = 2 } };
}

static void any_cut_loads_in_any_other(void **state)
{
    (void)state;
    draw d = { .rng = { .seed = 5 + sample_seed() } };
    for (int round = 0; round < as_many(4, 1); round++) {
        table t = random_table(&d);
        cut cuts[N_CUTS] = { { 1, 1, 0, 0 },  { 2, 2, 0, 0 }, { 4, 2, 5, 0 },
                             { 1, 7, 12, 0 }, { 3, 2, 2, 0 }, { 2, 3, 9, 0 } };
        for (int a = 0; a < N_CUTS; a++) cuts[a].seed = (uint64_t)below(&d, 1 << 20);
        for (int a = 0; a < N_CUTS; a++) {
            const char *dir = in_scratch("%d-%d", round, a);
            task saved = save(&t, &cuts[a], dir);
            assert_all_good(&saved, dir);
            for (int b = 0; b < N_CUTS; b++) {
                task loaded = load(&t, &cuts[b], dir);
                assert_all_good(&loaded, in_scratch("round %d, cut %d in cut %d", round, a, b));
            }
        }
    }
}

/* A parameter of several windows, whose shards are two blocks of columns. */
static void large_fragments_are_moved_window_by_window(void **state)
{
    (void)state;
    const table t = { &rows[8], 1, { .h = 1300, .v_logical = 12, .u = 2400, .u_parts = 2 } };
    const cut cuts[] = { { 1, 1, 0, 1 }, { 2, 1, 0, 2 }, { 1, 3, 3, 3 } };
    for (int i = 0; i < 3; i++) {
        task saved = save(&t, &cuts[i], scratch_dir), loaded = load(&t, &cuts[(i + 1) % 3], scratch_dir);
        assert_all_good(&saved, "save");
        assert_all_good(&loaded, "load");
    }
}

/* ---- bytes ---- */

/* The whole of every row, listed. */
static void whole_fragments_write_what_none_do(void **state)
{
    (void)state;
    const layout l = { 1, 1, 1, 512, 0 };
    shard s;
    tx_fragment fragment[64];
    tx_fragments kept = { .fragment = fragment };
    tx_ckpt_state at = { .iteration = 3, .vocab_size = VOCAB, .seed = 7 };
    json_t *config = json_pack("{s:i}", "num_layers", N_LAYERS);
    ASSERT_OK(shard_create(&s, &l, 0));
    ASSERT_OK(for_each_number(&s, true));
    for (; kept.n < s.ps.n; kept.n++) {
        const tx_param *p = &s.ps.param[kept.n];
        fragment[kept.n] = (tx_fragment){ .row = kept.n, .numel = p->numel, .at = p->offset };
    }
    ASSERT_OK(tx_checkpoint_save(
        &(tx_ckpt_save_args){ in_scratch("listed"), &at, config, &s.ps, &kept, ALL_PARTS(s), &tx_comm_self }));
    ASSERT_OK(tx_checkpoint_save(
        &(tx_ckpt_save_args){ in_scratch("none"), &at, config, &s.ps, NULL, ALL_PARTS(s), &tx_comm_self }));
    assert_same_file(in_scratch("listed/iter_0000003/manifest.json"), in_scratch("none/iter_0000003/manifest.json"));
    json_decref(config);
    shard_destroy(&s);
}

/* By hand: a matrix [5,4] in fragments of three, thirteen and four elements, a vector of four in one and three. */
static void keys_are_as_the_format_says(void **state)
{
    (void)state;
    static const tx_param_decl decl[] = { { "m", "f,h", TX_INIT_ZERO, TX_DECAY, TX_ADDS, 0, 0 },
                                          { "v", "h", TX_INIT_ZERO, TX_DECAY, TX_ADDS, 0, 0 } };
    static const char *const expect[] = { "model.m@0,0 [1,3]", "model.m@0,3 [1,1]", "model.m@1,0 [3,4]",
                                          "model.m@4,0 [1,4]", "model.v@0 [1]",     "model.v@1 [3]" };
    tx_fragment fragment[] = { { 0, 0, 3, 0 }, { 0, 3, 13, 3 }, { 0, 16, 4, 16 }, { 1, 0, 1, 20 }, { 1, 1, 3, 21 } };
    const tx_fragments kept = { fragment, 5, 24 };
    tx_dims d = { .h = 4, .f = 5 };
    tx_params ps = { 0 };
    float x[24] = { 0 };
    tx_ckpt_part part = { .name = TX_CKPT_MODEL, .flat = x };
    tx_ckpt_state s = { .iteration = 3 };
    json_t *config = json_object();
    tx_safetensors *f;
    ASSERT_OK(tx_params_declare(&ps, "", decl, 2, NULL, &d));
    ASSERT_OK(tx_checkpoint_save(&(tx_ckpt_save_args){ scratch_dir, &s, config, &ps, &kept, &part, 1, &tx_comm_self }));
    ASSERT_OK(tx_safetensors_open(&f, in_scratch("iter_0000003/shard_00000.safetensors")));
    assert_int_equal(tx_safetensors_count(f), 6);
    for (size_t i = 0; i < 6; i++) {
        char text[64], shape[40];
        const tx_st_tensor *t = tx_safetensors_at(f, i);
        snprintf(text, sizeof text, "%s %s", t->name, tx_st_describe(t, shape, sizeof shape) + 3);
        assert_string_equal(text, expect[i]);
    }
    tx_safetensors_close(f);
    json_decref(config);
    tx_params_deinit(&ps);
}

/* ---- what goes wrong ---- */

static void assert_all_failed(const task *t, int rank, tx_status st, const char *message)
{
    for (int i = 0; i < t->cut->tp * t->cut->dp; i++)
        if (t->seen[i].st != (i == rank ? st : TX_ERR_COMM) || !strstr(t->seen[i].message, message))
            fail_msg("rank %d: %d, \"%s\"; expected \"%s\"", i, t->seen[i].st, t->seen[i].message, message);
}

/* Stretches that leave something out or overlap never become a checkpoint. */
static void fragments_have_to_fit(void **state)
{
    (void)state;
    draw d = { .rng = { .seed = 6 } };
    table t = random_table(&d);
    const cut apart = { 1, 3, 6, 3 }, same = { 1, 3, 0, 3 };
    for (int i = 0; i < 2; i++) {
        task k = { .table = &t, .cut = i ? &same : &apart, .dir = scratch_dir, .fails_at = -1 };
        k.lose_one = i == 0;
        k.all_save = i == 1;
        run(save_rank, &k);
        assert_all_failed(&k, 0, TX_ERR_FORMAT, "overlap or leave a part out");
        assert_n_files(scratch_dir, 0);
    }
}

static void numbers_cannot_be_moved(void **state)
{
    (void)state;
    draw d = { .rng = { .seed = 7 } };
    table t = random_table(&d);
    const cut c = { 1, 3, 6, 4 };
    for (int n = 0; n < 4; n++) {
        task k = { .table = &t, .cut = &c, .dir = scratch_dir, .fails_at = n };
        run(save_rank, &k);
        assert_all_failed(&k, 1, TX_ERR_IO, "the disk is gone");
        assert_n_files(scratch_dir, 0);
    }
    task good = save(&t, &c, scratch_dir);
    assert_all_good(&good, "save");
    task k = { .table = &t, .cut = &c, .dir = scratch_dir, .fails_at = 2 };
    run(load_rank, &k);
    assert_all_failed(&k, 1, TX_ERR_IO, "the disk is gone");
}

/* Weights without the optimizer's state, and the other way round. */
static void parts_are_read_by_name(void **state)
{
    (void)state;
    draw d = { .rng = { .seed = 8 } };
    table t = random_table(&d);
    const cut c = { 1, 1, 3, 5 };
    keeper k;
    tx_checkpoint *from;
    task saved = save(&t, &c, scratch_dir);
    assert_all_good(&saved, "save");
    ASSERT_OK(keeper_create(&k, &t, &c, 0));
    ASSERT_OK(tx_checkpoint_open(&from, scratch_dir, &tx_comm_self));
    ASSERT_OK(tx_checkpoint_read(from, &k.ps, &k.kept, k.part, 1));
    for (size_t i = 0; i < k.n_store[1]; i++) assert_true(isnan(k.store[1][i]));
    ASSERT_OK(tx_checkpoint_read(from, &k.ps, &k.kept, k.part + 1, 2));
    tx_ckpt_part other = k.part[1];
    other.name = "momentum_buffer";
    ASSERT_FAILS(tx_checkpoint_read(from, &k.ps, &k.kept, &other, 1), TX_ERR_NOTFOUND, "another optimizer");
    tx_checkpoint_close(from);
    keeper_destroy(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(any_cut_loads_in_any_other),
        SCRATCH_TEST(large_fragments_are_moved_window_by_window),
        SCRATCH_TEST(whole_fragments_write_what_none_do),
        SCRATCH_TEST(keys_are_as_the_format_says),
        SCRATCH_TEST(fragments_have_to_fit),
        SCRATCH_TEST(numbers_cannot_be_moved),
        SCRATCH_TEST(parts_are_read_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
