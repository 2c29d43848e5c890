/* labels: fault threads */
/* --async-save: the checkpoints of a run that saves beside its steps are those of one that stops for them; steps do go
 * on; what cannot be written is told, tried again, and at the end an error. Ranks are threads. The disk's fsync is
 * replaced by one that can fail and wait. */
#include "support.h"

#include <errno.h>
#include <omp.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "train/loop.h"
#include "train/metrics.h"

static atomic_int n_failing;     /* fsyncs of shards still to fail */
static const char *failing_name; /* of shards whose names have this */
static atomic_long steps_done;   /* of the run under way */
static atomic_long
    waits_for_steps; /* that of a shard of iteration 4 or 8 returns when so many more are done; 0: at once */
static atomic_bool slow_steps;
static atomic_int n_overtaken; /* fsyncs that steps did overtake */

static void wait_for_steps(long n)
{
    long begin = atomic_load(&steps_done);
    double start = tx_clock();
    while (atomic_load(&steps_done) < begin + n && tx_clock() - start < 20) usleep(1000);
    atomic_fetch_add(&n_overtaken, atomic_load(&steps_done) >= begin + n);
}

int fsync(int fd)
{
    char link[64], path[1024] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "shard_")) {
        long n = atomic_load(&waits_for_steps);
        if (n && (strstr(path, "iter_0000004") || strstr(path, "iter_0000008"))) wait_for_steps(n);
        if ((!failing_name || strstr(path, failing_name)) && atomic_fetch_sub(&n_failing, 1) > 0) {
            errno = EIO;
            return -1;
        }
    }
    return (int)syscall(SYS_fsync, fd);
}

/* ---- a run ---- */

typedef struct run {
    const tx_config *cfg;
    int tp;
    size_t copy; /* bytes of rank 0's copy, as planned */
} run;

static void count_step(void *user, const tx_step_record *r)
{
    (void)user;
    (void)r;
    atomic_fetch_add(&steps_done, 1);
    if (atomic_load(&slow_steps)) usleep(100000); /* longer than what is saved takes to be written */
}

static tx_status open_data(tx_train_data **data, const tx_config *cfg, const tx_grid *grid)
{
    int64_t n[TX_N_SPLITS];
    tx_train_sample_counts(cfg, n);
    return tx_comm_agree(grid->world, tx_train_data_open(data, cfg, n, 512, NULL));
}

static tx_status run_rank(tx_world *w, void *user)
{
    run *r = user;
    tx_grid grid;
    tx_trainer *t = NULL;
    tx_train_data *data = NULL;
    tx_metrics metrics = { 0 };
    tx_status st;
    omp_set_num_threads(1);
    tx_world_set_timeout(w, 100);
    tx_log_rank(tx_world_rank(w), NULL);
    TX_TRY(tx_grid_open(&grid, w, r->tp, 1, r->cfg->sequence_parallel, NULL));
    TX_GOTO(tx_trainer_create(&t, r->cfg, 512, 511, true, &grid));
    TX_GOTO(open_data(&data, r->cfg, &grid));
    if (grid.rank == 0) tx_metrics_watch(&metrics, count_step, NULL);
    if (grid.rank == 0) r->copy = tx_trainer_memory(t).saving;
    st = tx_train_loop(t, &(tx_loop_data){ .sets = data }, &metrics, tx_clock(), NULL);
out:
    tx_train_data_close(data);
    tx_trainer_destroy(t);
    tx_grid_close(&grid);
    tx_log_rank(-1, NULL);
    return st;
}

static tx_status train(run *r, const char *name, int ranks, int tp, const char *more)
{
    char flags[3000];
    tx_config *cfg;
    snprintf(flags, sizeof flags,
             "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "
             "--micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --eval-iters 0 --threads 1 --data-order keyed "
             "--tokenizer-type "
             "NullTokenizer "
             "--vocab-size 511 --split 1,0,0 --data-path %s --save %s --world-size %d --tensor-model-parallel-size %d "
             "%s",
             data_path("dataset/tiny_text_document"), in_scratch("%s", name), ranks, tp, more);
    atomic_store(&steps_done, 0);
    TX_TRY(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    *r = (run){ .cfg = cfg, .tp = tp };
    tx_status st = tx_world_threads(ranks, run_rank, r);
    tx_config_free(cfg);
    return st;
}

/* Both hold the same checkpoints, byte for byte, and nothing else. */
static void assert_same_folders(const char *a, const char *b)
{
    tx_names in_a, in_b, files;
    ASSERT_OK(tx_dir_list(in_scratch("%s", a), &in_a));
    ASSERT_OK(tx_dir_list(in_scratch("%s", b), &in_b));
    assert_int_equal(in_a.n, in_b.n);
    assert_true(in_a.n >= 2);
    for (size_t i = 0; i < in_a.n; i++) {
        assert_string_equal(in_a.name[i], in_b.name[i]);
        if (!strcmp(in_a.name[i], "latest")) {
            assert_same_file(in_scratch("%s/latest", a), in_scratch("%s/latest", b));
            continue;
        }
        ASSERT_OK(tx_dir_list(in_scratch("%s/%s", a, in_a.name[i]), &files));
        for (size_t k = 0; k < files.n; k++)
            assert_same_file(in_scratch("%s/%s/%s", a, in_a.name[i], files.name[k]),
                             in_scratch("%s/%s/%s", b, in_a.name[i], files.name[k]));
        tx_names_free(&files);
    }
    tx_names_free(&in_a);
    tx_names_free(&in_b);
}

/* ---- tests ---- */

static void saves_the_same_beside_the_steps(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        int ranks, tp;
    } layout[] = {
        { "", 1, 1 },
        { "--no-save-optim --bf16", 1, 1 },
        { "", 2, 1 },
        { "--bf16", 4, 2 },
        { "--zero-stage 1", 2, 1 },
        { "--zero-stage 2 --bf16", 4, 2 },
        { "--zero-stage 3 --offload-optimizer cpu", 2, 1 },
        { "--zero-stage 3 --bf16 --offload-optimizer nvme --offload-param nvme --zero-sub-group-size 4096", 2, 1 },
    };
    setenv("TX_AIO_IN_MEMORY", "1", 1);
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        char more[1500], disk[600] = "";
        run r;
        if (strstr(layout[i].flags, "nvme"))
            snprintf(disk, sizeof disk, "--offload-optimizer-nvme-path %s --offload-param-nvme-path %s",
                     in_scratch("disk"), in_scratch("disk"));
        snprintf(more, sizeof more, "--train-iters 7 --save-interval 2 %s %s", layout[i].flags, disk);
        ASSERT_OK(train(&r, "stops", layout[i].ranks, layout[i].tp, more));
        assert_int_equal(r.copy, 0);
        strcat(more, " --async-save");
        ASSERT_OK(train(&r, "goes_on", layout[i].ranks, layout[i].tp, more));
        assert_true(r.copy > 0);
        assert_same_folders("stops", "goes_on");
        ASSERT_OK(tx_remove_tree(in_scratch("stops")));
        ASSERT_OK(tx_remove_tree(in_scratch("goes_on")));
    }
    unsetenv("TX_AIO_IN_MEMORY");
}

/* Four steps are done while the fsync of a shard takes its time; the numbers are those of before. */
static void steps_go_on(void **state)
{
    (void)state;
    run r;
    const char *flags = "--train-iters 12 --save-interval 4";
    char more[200];
    ASSERT_OK(train(&r, "stops", 2, 1, flags));
    atomic_store(&waits_for_steps, 2);
    atomic_store(&slow_steps, true);
    atomic_store(&n_overtaken, 0);
    snprintf(more, sizeof more, "%s --async-save --zero-stage 1", flags);
    log_begin();
    ASSERT_OK(train(&r, "goes_on", 2, 1, more));
    log_end();
    atomic_store(&waits_for_steps, 0);
    atomic_store(&slow_steps, false);
    assert_true(atomic_load(&n_overtaken) >= 4); /* two shards of iterations 4 and 8 */
    ASSERT_OK(tx_remove_tree(in_scratch("goes_on")));
    snprintf(more, sizeof more, "%s --async-save", flags);
    ASSERT_OK(train(&r, "goes_on", 2, 1, more));
    assert_same_folders("stops", "goes_on");
}

static int times(const char *text, const char *part)
{
    int n = 0;
    for (const char *s = text; (s = strstr(s, part)); s++) n++;
    return n;
}

/* One rank's disk fails twice: all wait for the third attempt. */
static void a_failed_one_is_tried_again(void **state)
{
    (void)state;
    run r;
    const char *flags = "--train-iters 17 --save-interval 8 --zero-stage 1 --async-save";
    ASSERT_OK(train(&r, "whole", 2, 1, flags));
    failing_name = "shard_00001";
    atomic_store(&n_failing, 2);
    atomic_store(&slow_steps, true);
    log_begin();
    ASSERT_OK(train(&r, "failed", 2, 1, flags));
    log_end();
    failing_name = NULL;
    atomic_store(&slow_steps, false);
    assert_int_equal(times(logged, "iteration 8 is not saved yet, attempt 1 failed"), 1);
    assert_int_equal(times(logged, "iteration 8 is not saved yet, attempt 2 failed"), 1);
    assert_int_equal(times(logged, "attempt 3 failed"), 0);
    ASSERT_CONTAINS(logged, "shard_00001.safetensors: cannot fsync: Input/output error");
    assert_int_equal(times(logged, "successfully saved checkpoint at iteration       8"), 1);
    assert_same_folders("whole", "failed");
}

static void one_that_keeps_failing_makes_room_for_the_next(void **state)
{
    (void)state;
    run r;
    failing_name = "iter_0000002";
    atomic_store(&n_failing, 1000000);
    log_begin();
    ASSERT_OK(train(&r, "run", 1, 1, "--train-iters 4 --save-interval 2 --async-save"));
    log_end();
    failing_name = NULL;
    atomic_store(&n_failing, 0);
    ASSERT_CONTAINS(logged, "iteration 2 was never saved");
    assert_false(tx_path_exists(in_scratch("run/iter_0000002")));
    assert_true(tx_path_exists(in_scratch("run/iter_0000004/manifest.json")));
}

/* The last save fails to the end: so does the run, and leaves what was there before. */
static void the_last_one_decides_how_the_run_ends(void **state)
{
    (void)state;
    static const char *const flags[] = { "--train-iters 4 --save-interval 2 --async-save",
                                         "--train-iters 4 --save-interval 3 --async-save" };
    for (int i = 0; i < 2; i++) {
        run r;
        tx_names names;
        char in[32];
        snprintf(in, sizeof in, "run%d", i);
        failing_name = "iter_0000004";
        atomic_store(&n_failing, 1000000);
        ASSERT_FAILS(train(&r, in, 1, 1, flags[i]), TX_ERR_IO, "cannot fsync");
        failing_name = NULL;
        atomic_store(&n_failing, 0);
        ASSERT_OK(tx_dir_list(in_scratch("%s", in), &names));
        assert_int_equal(names.n, 2);
        assert_string_equal(names.name[0], i ? "iter_0000003" : "iter_0000002");
        assert_string_equal(names.name[1], "latest");
        tx_names_free(&names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(saves_the_same_beside_the_steps),
        SCRATCH_TEST(steps_go_on),
        SCRATCH_TEST(a_failed_one_is_tried_again),
        SCRATCH_TEST(one_that_keeps_failing_makes_room_for_the_next),
        SCRATCH_TEST(the_last_one_decides_how_the_run_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
