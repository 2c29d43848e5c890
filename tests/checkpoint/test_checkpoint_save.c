/* labels: unit fault */
/* test_checkpoint_save.c - saving: what comes back, which bytes, what is left after a failure. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint_fixture.h"

static void round_trip(void **state)
{
    (void)state;
    model a, b;
    tx_checkpoint *c;
    model_create(&a, 2, 8, 50, 1);
    model_create(&b, 2, 8, 50, -1);
    ASSERT_OK(model_save(&a, in_scratch("run/deep"), 10, 1));
    ASSERT_OK(tx_checkpoint_open(&c, in_scratch("run/deep"), &tx_comm_self));
    const tx_ckpt_state *s = tx_checkpoint_state(c);
    assert_true(s->iteration == 10 && s->consumed_train_samples == 80 && s->consumed_valid_samples == 20 &&
                s->optim_step == 9);
    assert_true(s->schedule_samples == 70 && s->skipped == 1 && s->vocab_size == 50);
    assert_true(s->seed == UINT64_MAX - 10);
    assert_true(json_real_value(json_object_get(tx_checkpoint_config(c), "lr")) == 0.1);
    assert_string_equal(json_string_value(json_object_get(tx_checkpoint_config(c), "name")), "\xc3\xa9t\xc3\xa9");
    assert_string_equal(tx_checkpoint_path(c), in_scratch("run/deep/iter_0000010"));
    ASSERT_OK(tx_checkpoint_read(c, &b.ps, NULL, ALL_PARTS(b)));
    assert_same_numbers(&a, &b, 3);
    tx_checkpoint_close(c);
    tx_str latest = read_file(in_scratch("run/deep/latest"));
    assert_string_equal(latest.data, "iter_0000010\n");
    tx_str_free(&latest);
    model_destroy(&a);
    model_destroy(&b);
}

/* The size of the padding is a matter of the layout, not of the checkpoint. */
static void other_padding(void **state)
{
    (void)state;
    model a, b;
    tx_checkpoint *c;
    model_create(&a, 1, 4, 33, 1);
    model_create(&b, 1, 4, 33, -1);
    tx_params_deinit(&b.ps);
    static const tx_param_decl decl[] = {
        { "word_embeddings.weight", "V,h", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, 0, 0 },
        { "dense.weight", "f,h", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, sizeof(tx_weight), 0 },
        { "dense.bias", "f", TX_INIT_ZERO, TX_NO_DECAY, TX_ADDS, 2 * sizeof(tx_weight), 0 }
    };
    tx_dims d = { .h = 4, .f = 12, .V = 40, .v_logical = 33, .P = 4, .q = 12 };
    ASSERT_OK(tx_params_declare(&b.ps, "layers.0.", decl, 3, &b.layer[0], &d));
    ASSERT_OK(model_save(&a, scratch_dir, 1, 0));
    ASSERT_OK(tx_checkpoint_open(&c, scratch_dir, &tx_comm_self));
    ASSERT_OK(tx_checkpoint_read(c, &b.ps, NULL, WEIGHTS(b.buf[0])));
    assert_same_numbers(&a, &b, 1);
    tx_checkpoint_close(c);
    model_destroy(&a);
    model_destroy(&b);
}

static void assert_file_holds(const char *path, const char *text)
{
    tx_str all = { 0 };
    ASSERT_OK(tx_file_read(path, 4096, &all));
    assert_string_equal(all.data, text);
    tx_str_free(&all);
}

static void twice_the_same_bytes(void **state)
{
    (void)state;
    model a;
    model_create(&a, 2, 8, 50, 1);
    ASSERT_OK(model_save(&a, in_scratch("a"), 7, 1));
    ASSERT_OK(model_save(&a, in_scratch("b"), 7, 1));
    ASSERT_OK(model_save(&a, in_scratch("b"), 7, 1)); /* over itself */
    assert_same_file(in_scratch("a/latest"), in_scratch("b/latest"));
    assert_same_file(in_scratch("a/iter_0000007/manifest.json"), in_scratch("b/iter_0000007/manifest.json"));
    assert_same_file(in_scratch("a/iter_0000007/shard_00000.safetensors"),
                     in_scratch("b/iter_0000007/shard_00000.safetensors"));
    assert_n_files(in_scratch("b"), 3); /* nothing else is left */
    assert_file_holds(in_scratch("b/latest_checkpointed_iteration.txt"), "7");
    assert_n_files(in_scratch("b/iter_0000007"), 2);
    model_destroy(&a);
}

static void assert_holds(const char *dir, const model *expect, int n_groups)
{
    model got;
    tx_checkpoint *c;
    model_create(&got, expect->ps.n / 3, expect->ps.param[0].dim[1], expect->ps.param[0].rows_logical, -1);
    ASSERT_OK(tx_checkpoint_open(&c, dir, &tx_comm_self));
    const tx_ckpt_part part[] = { whole_part(TX_CKPT_MODEL, got.buf[0]), whole_part("exp_avg", got.buf[1]),
                                  whole_part("exp_avg_sq", got.buf[2]) };
    ASSERT_OK(tx_checkpoint_read(c, &got.ps, NULL, part, n_groups));
    assert_same_numbers(expect, &got, n_groups);
    tx_checkpoint_close(c);
    model_destroy(&got);
}

static void same_iteration_is_replaced(void **state)
{
    (void)state;
    model a, b;
    model_create(&a, 1, 8, 50, 1);
    model_create(&b, 1, 8, 50, 2);
    ASSERT_OK(model_save(&a, scratch_dir, 3, 1));
    write_text(in_scratch("iter_0000003/note.txt"), "mine");
    ASSERT_OK(model_save(&b, scratch_dir, 3, 0));
    assert_holds(scratch_dir, &b, 1);
    assert_false(tx_path_exists(in_scratch("iter_0000003/note.txt")));
    ASSERT_OK(model_save(&a, scratch_dir, 4, 1));
    assert_holds(scratch_dir, &a, 3);
    assert_holds(in_scratch("iter_0000003"), &b, 1);
    assert_holds(in_scratch("iter_0000003/"), &b, 1);
    model_destroy(&a);
    model_destroy(&b);
}

static void stale_temporaries_go(void **state)
{
    (void)state;
    model a;
    model_create(&a, 1, 8, 50, 1);
    pid_t gone = fork();
    if (gone == 0) _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    char dead[64], alive[64];
    snprintf(dead, sizeof dead, ".tmp-iter_0000002-%ld", (long)gone);
    snprintf(alive, sizeof alive, ".tmp-iter_0000002-%ld", (long)getppid());
    ASSERT_OK(tx_make_dirs(in_scratch("%s/sub", dead)));
    write_text(in_scratch("%s/shard_00000.safetensors.tmp-1", dead), "half");
    ASSERT_OK(tx_make_dirs(in_scratch(".tmp-iter_0000009-%ld", (long)getpid())));
    ASSERT_OK(tx_make_dirs(in_scratch("%s", alive)));
    ASSERT_OK(tx_make_dirs(in_scratch(".tmp-iter_mine")));
    ASSERT_OK(model_save(&a, scratch_dir, 3, 1));
    assert_false(tx_path_exists(in_scratch("%s", dead)));
    assert_false(tx_path_exists(in_scratch(".tmp-iter_0000009-%ld", (long)getpid())));
    assert_true(tx_path_exists(in_scratch("%s", alive)));
    assert_true(tx_path_exists(in_scratch(".tmp-iter_mine")));
    model_destroy(&a);
}

/* What a crash between two renames leaves on a file system without exchange. */
static void set_aside_is_found_and_settled(void **state)
{
    (void)state;
    model a, b;
    model_create(&a, 1, 8, 50, 1);
    model_create(&b, 1, 8, 50, 2);
    ASSERT_OK(model_save(&a, scratch_dir, 3, 1));
    assert_int_equal(rename(in_scratch("iter_0000003"), in_scratch(".old-iter_0000003")), 0);
    assert_holds(scratch_dir, &a, 3); /* loading finds it */
    ASSERT_OK(model_save(&b, scratch_dir, 4, 1));
    assert_holds(in_scratch("iter_0000003"), &a, 3); /* saving puts it back */
    assert_false(tx_path_exists(in_scratch(".old-iter_0000003")));
    ASSERT_OK(tx_make_dirs(in_scratch(".old-iter_0000004"))); /* replaced, not yet removed */
    ASSERT_OK(model_save(&b, scratch_dir, 5, 1));
    assert_false(tx_path_exists(in_scratch(".old-iter_0000004")));
    model_destroy(&a);
    model_destroy(&b);
}

/* A file-size limit stands in for a full disk: write fails half-way. */
static void write_fails_half_way(void **state)
{
    (void)state;
    model a, b;
    struct rlimit old, small;
    model_create(&a, 1, 8, 50, 1);
    model_create(&b, 1, 256, 4000, 2);
    ASSERT_OK(model_save(&a, scratch_dir, 3, 1));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (rlim_t limit = 1; limit < 8u << 20; limit = limit * 5 + 1) {
        small = (struct rlimit){ limit, old.rlim_max };
        setrlimit(RLIMIT_FSIZE, &small);
        tx_status st = model_save(&b, scratch_dir, 4, 1);
        setrlimit(RLIMIT_FSIZE, &old);
        ASSERT_FAILS(st, TX_ERR_IO, "shard_00000.safetensors: cannot write: File too large");
        assert_n_files(scratch_dir, 3); /* latest, the tracker and iter_0000003 */
        assert_holds(scratch_dir, &a, 3);
    }
    ASSERT_OK(model_save(&b, scratch_dir, 4, 1));
    assert_holds(scratch_dir, &b, 3);
    model_destroy(&a);
    model_destroy(&b);
}

/* Megatron's tracker says what `latest` says, also behind a crash between the two; the folder stays a native one. */
static void the_tracker_follows_latest(void **state)
{
    (void)state;
    static const char *const stale[] = { NULL, "2", "", "release" };
    const char *tracker = "latest_checkpointed_iteration.txt";
    model a;
    model_create(&a, 1, 8, 50, 1);
    ASSERT_OK(model_save(&a, scratch_dir, 3, 1));
    for (size_t i = 0; i < sizeof stale / sizeof *stale; i++) {
        char detail[512];
        tx_ckpt_kind kind;
        ASSERT_OK(tx_remove_tree(in_scratch("%s", tracker)));
        if (stale[i]) ASSERT_OK(tx_file_publish(in_scratch("%s", tracker), stale[i], strlen(stale[i])));
        ASSERT_OK(tx_checkpoint_probe(scratch_dir, &kind, detail, sizeof detail));
        assert_int_equal(kind, TX_CKPT_NATIVE);
        ASSERT_OK(tx_checkpoint_clean_up(scratch_dir));
        assert_file_holds(in_scratch("%s", tracker), "3");
    }
    ASSERT_OK(tx_remove_tree(in_scratch("latest"))); /* a crash before it was written */
    assert_holds(scratch_dir, &a, 3);
    model_destroy(&a);
}

/* Asked before anything is written, so the buffers need not even exist. */
static void too_little_space(void **state)
{
    (void)state;
    tx_params ps = { 0 };
    static const tx_param_decl decl = { "w", "f,h", TX_INIT_ZERO, TX_DECAY, TX_ADDS, 0, 0 };
    tx_dims d = { .h = (int64_t)1 << 25, .f = (int64_t)1 << 25 };
    tx_ckpt_state s = { .iteration = 12 };
    float unused = 0;
    json_t *config = json_object();
    ASSERT_OK(tx_params_declare(&ps, "", &decl, 1, NULL, &d));
    ASSERT_FAILS(
        tx_checkpoint_save(&(tx_ckpt_save_args){ scratch_dir, &s, config, &ps, NULL, WEIGHTS(&unused), &tx_comm_self }),
        TX_ERR_IO, "iteration 0000012 needs 4503");
    ASSERT_CONTAINS(tx_last_error(), "are free");
    json_decref(config);
    tx_params_deinit(&ps);
}

static void folder_cannot_be_made(void **state)
{
    (void)state;
    model a;
    model_create(&a, 1, 8, 50, 1);
    write_text(in_scratch("file"), "");
    ASSERT_FAILS(model_save(&a, in_scratch("file"), 1, 1), TX_ERR_IO, "file");
    ASSERT_FAILS(model_save(&a, in_scratch("file/sub"), 1, 1), TX_ERR_IO, "file");
    model_destroy(&a);
}

static void assert_names(const char *dir, const char *expect)
{
    tx_names names;
    tx_str all = { 0 };
    ASSERT_OK(tx_dir_list(dir, &names));
    for (size_t i = 0; i < names.n; i++) ASSERT_OK(tx_str_printf(&all, "%s%s", i ? " " : "", names.name[i]));
    assert_string_equal(all.data, expect);
    tx_str_free(&all);
    tx_names_free(&names);
}

/* The newest ones before the saved one stay; so do what `latest` names, what is spared, later ones, and other things.
 */
static void older_ones_are_removed(void **state)
{
    (void)state;
    model a;
    char spare[1024];
    model_create(&a, 1, 8, 50, 1);
    for (int i = 2; i <= 10; i += 2) ASSERT_OK(model_save(&a, scratch_dir, i, 1));
    ASSERT_OK(tx_make_dirs(in_scratch("iter_0000001"))); /* no manifest: not ours to remove */
    ASSERT_OK(tx_checkpoint_prune(scratch_dir, TX_CKPT_NATIVE, 10, 9, NULL));
    assert_names(scratch_dir, "iter_0000001 iter_0000002 iter_0000004 iter_0000006 iter_0000008 iter_0000010 latest "
                              "latest_checkpointed_iteration.txt");
    snprintf(spare, sizeof spare, "%s/../%s/iter_0000004/", scratch_dir, strrchr(scratch_dir, '/') + 1);
    ASSERT_OK(tx_checkpoint_prune(scratch_dir, TX_CKPT_NATIVE, 10, 3, spare));
    assert_names(
        scratch_dir,
        "iter_0000001 iter_0000004 iter_0000006 iter_0000008 iter_0000010 latest latest_checkpointed_iteration.txt");
    write_text(in_scratch("latest"), "iter_0000006\n");
    ASSERT_OK(tx_checkpoint_prune(scratch_dir, TX_CKPT_NATIVE, 8, 1, NULL));
    assert_names(scratch_dir,
                 "iter_0000001 iter_0000006 iter_0000008 iter_0000010 latest latest_checkpointed_iteration.txt");
    write_text(in_scratch("latest"), "nonsense"); /* then nothing is sure */
    ASSERT_OK(tx_checkpoint_prune(scratch_dir, TX_CKPT_NATIVE, 10, 1, NULL));
    assert_names(scratch_dir,
                 "iter_0000001 iter_0000006 iter_0000008 iter_0000010 latest latest_checkpointed_iteration.txt");
    model_destroy(&a);
}

/* Which of those that lie there make room for the next ones. */
static void older_ones_are_counted(void **state)
{
    (void)state;
    model a;
    int64_t n;
    model_create(&a, 1, 8, 50, 1);
    for (int i = 2; i <= 10; i += 2) ASSERT_OK(model_save(&a, scratch_dir, i, 1));
    ASSERT_OK(tx_make_dirs(in_scratch("iter_0000001")));
    ASSERT_OK(tx_checkpoint_count(scratch_dir, TX_CKPT_NATIVE, 10, NULL, &n));
    assert_int_equal(n, 4);
    ASSERT_OK(tx_checkpoint_count(scratch_dir, TX_CKPT_NATIVE, 11, in_scratch("iter_0000004"), &n));
    assert_int_equal(n, 4);
    ASSERT_FAILS(tx_checkpoint_count(in_scratch("none"), TX_CKPT_NATIVE, 11, NULL, &n), TX_ERR_NOTFOUND, "none");
    model_destroy(&a);
}

/* Checkpoints that are added at the most: counted by the saves themselves, one after the other. */
static void what_saves_add_is_known(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= 6; n++)
        for (int64_t keep = 0; keep <= 4; keep++)
            for (int64_t there = 0; there <= 6; there++) {
                int64_t now = there, most = there;
                for (int64_t k = 0; k < n; k++) {
                    if (++now > most) most = now;
                    if (keep && now > keep) now = keep;
                }
                assert_int_equal(tx_checkpoint_more(n, keep, there), most - there);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(round_trip),
        SCRATCH_TEST(other_padding),
        SCRATCH_TEST(twice_the_same_bytes),
        SCRATCH_TEST(same_iteration_is_replaced),
        SCRATCH_TEST(stale_temporaries_go),
        SCRATCH_TEST(too_little_space),
        SCRATCH_TEST(set_aside_is_found_and_settled),
        SCRATCH_TEST(write_fails_half_way),
        SCRATCH_TEST(the_tracker_follows_latest),
        SCRATCH_TEST(folder_cannot_be_made),
        SCRATCH_TEST(older_ones_are_removed),
        SCRATCH_TEST(older_ones_are_counted),
        SCRATCH_TEST(what_saves_add_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
