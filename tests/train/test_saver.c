/* labels: fault threads */
/* The checkpoints of a run that saves beside its steps are those of one that stops for them, and steps do go on. What
 * cannot be written is a warning, tried again, and an error after --max-failed-saves and at the end. Ranks are threads.
 * The disk's fsync is replaced by one that can fail and wait, its free space and memory by such as can be short. */
#include "support.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <omp.h>
#include <stdatomic.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "nn/replicas.h"
#include "train/loop.h"
#include "train/metrics.h"
#include "train/saver.h"

static atomic_int n_failing;     /* fsyncs of shards still to fail */
static const char *failing_name; /* of shards whose names have this */
static atomic_long steps_done;   /* of the run under way */
static atomic_long
    waits_for_steps; /* that of a shard of iteration 4 or 8 returns when so many more are done; 0: at once */
static atomic_bool slow_steps;
static atomic_long n_begun;          /* shards whose fsync was called */
static atomic_bool full;             /* the disk has no space */
static atomic_llong free_bytes = -1; /* of the disk; -1: as many as there are */
static atomic_int n_overtaken;       /* fsyncs that steps did overtake */

static void wait_for_steps(long n)
{
    long begin = atomic_load(&steps_done);
    double start = tx_clock();
    while (atomic_load(&steps_done) < begin + n && tx_clock() - start < 20) usleep(1000);
    atomic_fetch_add(&n_overtaken, atomic_load(&steps_done) >= begin + n);
}

static int n_threads(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* Until the threads of an attempt are gone: all ranks have started theirs before the step that ends here, so however
 * slow a disk and a machine are, no step passes beside them. */
static void wait_for_threads(int64_t iteration)
{
    static int without; /* an attempt */
    double start = tx_clock();
    if (iteration == 1) without = n_threads();
    while (n_threads() > without && tx_clock() - start < 60) usleep(1000);
}

/* Until both ranks' shards of an attempt wait for steps: these go on only then. */
static void wait_for_begun(long n)
{
    double start = tx_clock();
    while (atomic_load(&n_begun) < n && tx_clock() - start < 60) usleep(1000);
}

static int fsync_of(int fd, const char *path)
{
    if ((!failing_name || strstr(path, failing_name)) && atomic_fetch_sub(&n_failing, 1) > 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

int fsync(int fd)
{
    char link[64], path[1024] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "shard_")) {
        long n = atomic_load(&waits_for_steps);
        atomic_fetch_add(&n_begun, 1);
        if (n && (strstr(path, "iter_0000004") || strstr(path, "iter_0000008"))) wait_for_steps(n);
        return fsync_of(fd, path);
    }
    return (int)syscall(SYS_fsync, fd);
}

int statvfs(const char *path, struct statvfs *v)
{
    int (*real)(const char *, struct statvfs *) = (int (*)(const char *, struct statvfs *))dlsym(RTLD_NEXT, "statvfs");
    int code = real(path, v);
    if (atomic_load(&full)) v->f_bavail = v->f_bfree = 0;
    if (atomic_load(&free_bytes) >= 0) v->f_bavail = (fsblkcnt_t)atomic_load(&free_bytes) / v->f_frsize;
    return code;
}

static _Thread_local int own_rank;
static atomic_size_t no_memory; /* rank 1 gets no memory of exactly so many bytes; 0: any */

static void *scarce(void *user, size_t bytes)
{
    (void)user;
    if (own_rank == 1 && bytes == atomic_load(&no_memory)) return NULL;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void *resize(void *user, void *p, size_t bytes)
{
    (void)user;
    return realloc(p, bytes);
}

/* ---- a run ---- */

typedef struct run {
    const tx_config *cfg;
    int tp;
    size_t copy; /* bytes of rank 0's copy, as planned */
    tx_trainer *t;
} run;

/* Iterations after which the disk is full, one fsync fails, rank 1's memory is short, a weight of rank 0's goes bad. */
static struct {
    int64_t full[2], fsync, no_memory, bad_weight;
} trouble;

static void count_step(void *user, const tx_step_record *r)
{
    const run *own = user;
    const tx_params *ps = &own->t->model->params;
    atomic_fetch_add(&steps_done, 1);
    atomic_store(&full, r->iteration == trouble.full[0] || r->iteration == trouble.full[1]);
    if (r->iteration == trouble.fsync) atomic_store(&n_failing, 1);
    atomic_store(&no_memory, r->iteration == trouble.no_memory ? (size_t)ps->n * sizeof(tx_replica) : 0);
    if (r->iteration == trouble.bad_weight) ((float *)ps->param[0].weight->value.data)[0] = NAN;
    if (atomic_load(&slow_steps) && atomic_load(&waits_for_steps) && r->iteration % 4 == 1)
        wait_for_begun(r->iteration / 4 * 2);
    if (atomic_load(&slow_steps) && !atomic_load(&waits_for_steps)) wait_for_threads(r->iteration);
}

static tx_status open_data(tx_train_data **data, const tx_config *cfg, const tx_grid *grid)
{
    int64_t n[TX_N_SPLITS];
    tx_train_sample_counts(cfg, n);
    return tx_comm_agree(tx_grid_group(grid, TX_GROUP_WORLD), tx_train_data_open(data, cfg, n, 512, -1, NULL));
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
    own_rank = tx_world_rank(w);
    tx_world_set_timeout(w, 100);
    tx_log_rank(tx_world_rank(w), NULL);
    TX_TRY(tx_grid_open(
        &grid, w, &(tx_layout){ .size = { [TX_AXIS_TENSOR] = r->tp }, .sequence = r->cfg->sequence_parallel }, NULL));
    TX_GOTO(tx_trainer_create(&t, r->cfg, 512, 511, true, &grid));
    if (r->cfg->load) {
        tx_source from;
        TX_GOTO(tx_source_open(&from, r->cfg->load, NULL, tx_grid_group(&grid, TX_GROUP_WORLD)));
        st = tx_trainer_load(t, &from);
        tx_source_close(&from);
        if (st) goto out;
    }
    TX_GOTO(open_data(&data, r->cfg, &grid));
    if (grid.rank == 0) r->t = t;
    if (grid.rank == 0) tx_metrics_watch(&metrics, count_step, r);
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
    atomic_store(&n_begun, 0);
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
        if (!strncmp(in_a.name[i], "latest", 6)) {
            assert_same_file(in_scratch("%s/%s", a, in_a.name[i]), in_scratch("%s/%s", b, in_a.name[i]));
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
    ASSERT_CONTAINS(warned, "iteration 2 was never saved, ");
    ASSERT_CONTAINS(
        warned, " failed; the run goes on, and no save of this run has succeeded yet (saves that failed in a row: 1; "
                "--max-failed-saves: 3): ");
    assert_false(tx_path_exists(in_scratch("run/iter_0000002")));
    assert_true(tx_path_exists(in_scratch("run/iter_0000004/manifest.json")));
}

/* The last save fails to the end: so does the run, and leaves what was there before. */
static void the_last_one_decides_how_the_run_ends(void **state)
{
    (void)state;
    static const char *const flags[] = {
        "--train-iters 4 --save-interval 2 --async-save",
        "--train-iters 4 --save-interval 3 --async-save",
        "--train-iters 4 --save-interval 2",
        "--train-iters 4 --save-interval 3 --zero-stage 1",
    };
    for (int i = 0; i < 4; i++) {
        run r;
        tx_names names;
        char in[32];
        snprintf(in, sizeof in, "run%d", i);
        failing_name = "iter_0000004";
        atomic_store(&n_failing, 1000000);
        log_begin();
        ASSERT_FAILS(train(&r, in, i == 3 ? 2 : 1, 1, flags[i]), TX_ERR_IO, "cannot fsync");
        log_end();
        ASSERT_CONTAINS(warned, "iteration 4 is not saved yet, attempt 4 failed: ");
        ASSERT_CONTAINS(tx_last_error(), "iteration 4 is not saved, ");
        ASSERT_CONTAINS(tx_last_error(), " attempts failed; ");
        ASSERT_CONTAINS(tx_last_error(), " is the last good checkpoint: ");
        assert_null(strstr(warned, "never saved"));
        failing_name = NULL;
        atomic_store(&n_failing, 0);
        ASSERT_OK(tx_dir_list(in_scratch("%s", in), &names));
        assert_int_equal(names.n, 3); /* and latest_checkpointed_iteration.txt */
        assert_string_equal(names.name[0], strstr(flags[i], "interval 3") ? "iter_0000003" : "iter_0000002");
        assert_string_equal(names.name[1], "latest");
        tx_names_free(&names);
    }
}

/* One that fails a few times is made in the end. */
static void the_last_one_is_tried_again(void **state)
{
    (void)state;
    run r;
    const char *flags = "--train-iters 3 --save-interval 2 --zero-stage 1";
    ASSERT_OK(train(&r, "whole", 2, 1, flags));
    failing_name = "iter_0000003";
    atomic_store(&n_failing, 2);
    log_begin();
    ASSERT_OK(train(&r, "failed", 2, 1, flags));
    log_end();
    failing_name = NULL;
    ASSERT_CONTAINS(warned, "iteration 3 is not saved yet, attempt 1 failed: ");
    ASSERT_CONTAINS(logged, "  successfully saved checkpoint at iteration       3");
    assert_same_folders("whole", "failed");
}

/* Both hold checkpoint `name`, byte for byte. */
static void assert_same_checkpoint(const char *a, const char *b, const char *name)
{
    tx_names files;
    ASSERT_OK(tx_dir_list(in_scratch("%s/%s", a, name), &files));
    for (size_t k = 0; k < files.n; k++)
        assert_same_file(in_scratch("%s/%s/%s", a, name, files.name[k]),
                         in_scratch("%s/%s/%s", b, name, files.name[k]));
    tx_names_free(&files);
}

static const struct {
    const char *flags;
    int ranks, tp;
    const char *failing; /* shard */
} standing[] = { { "", 1, 1, "shard_00000" },
                 { "--zero-stage 1", 2, 1, "shard_00001" },
                 { "--bf16", 4, 2, "shard_00001" } };
enum { N_STANDING = sizeof standing / sizeof *standing };

static void assert_left(const char *in, const char *const *left, int n)
{
    tx_names names;
    ASSERT_OK(tx_dir_list(in_scratch("%s", in), &names));
    assert_int_equal(names.n, n + 1);
    for (int k = 0; k < n; k++) assert_string_equal(names.name[k], left[k]);
    assert_string_equal(names.name[n], "latest_checkpointed_iteration.txt");
    tx_names_free(&names);
}

/* In mid-run a failed save is a warning that names what is left; the next one comes in its time, and all is as if
 * nothing had been. */
static void a_run_survives_failed_saves(void **state)
{
    (void)state;
    static const char *const left[] = { "iter_0000002", "iter_0000008", "iter_0000009", "latest" };
    for (int i = 0; i < N_STANDING; i++) {
        run r;
        char more[200], text[2048];
        snprintf(more, sizeof more, "--train-iters 9 --save-interval 2 %s", standing[i].flags);
        ASSERT_OK(train(&r, "whole", standing[i].ranks, standing[i].tp, more));
        failing_name = standing[i].failing;
        trouble.full[0] = 4;
        trouble.fsync = 6;
        log_begin();
        ASSERT_OK(train(&r, "failed", standing[i].ranks, standing[i].tp, more));
        log_end();
        trouble.full[0] = trouble.fsync = 0;
        failing_name = NULL;
        for (int n = 1; n <= 2; n++) {
            snprintf(text, sizeof text,
                     "iteration %d was never saved, 1 attempt failed; the run goes on, and %s is the last good "
                     "checkpoint (saves that failed in a row: %d; --max-failed-saves: 3): ",
                     2 * n + 2, in_scratch("failed/iter_0000002"), n);
            ASSERT_CONTAINS(warned, text);
        }
        ASSERT_CONTAINS(warned, " MB are free; make room");
        snprintf(text, sizeof text, "%s.safetensors: cannot fsync: Input/output error", standing[i].failing);
        ASSERT_CONTAINS(warned, text);
        assert_int_equal(times(warned, "\n"), 2);
        ASSERT_CONTAINS(logged, "  successfully saved checkpoint at iteration       8");
        assert_left("failed", left, 4);
        for (int k = 0; k < 3; k++) assert_same_checkpoint("whole", "failed", left[k]);
        ASSERT_OK(tx_remove_tree(in_scratch("whole")));
        ASSERT_OK(tx_remove_tree(in_scratch("failed")));
    }
}

/* The same where a rank's memory is short before anything is written. */
static void a_run_survives_a_lack_of_memory(void **state)
{
    (void)state;
    static const tx_allocator allocator = { scarce, resize, failing_free, NULL };
    for (int i = 0; i < 2; i++) {
        run r;
        const char *flags = i ? "--train-iters 6 --save-interval 2 --async-save" : "--train-iters 6 --save-interval 2";
        tx_allocator_set(&allocator);
        trouble.no_memory = 4;
        log_begin();
        ASSERT_OK(train(&r, "run", 2, 1, flags));
        log_end();
        trouble.no_memory = 0;
        tx_allocator_set(NULL);
        ASSERT_CONTAINS(warned, i ? "iteration 4 is not saved yet, attempt 1 failed" : "iteration 4 was never saved");
        ASSERT_CONTAINS(warned, "not enough memory for hashes of parameters");
        assert_true(tx_path_exists(in_scratch("run/iter_0000006")));
        assert_true(tx_path_exists(in_scratch("run/iter_0000005")) ==
                    (i == 1)); /* the next one that there is room for */
        ASSERT_OK(tx_remove_tree(in_scratch("run")));
    }
}

/* More in a row than allowed end the run, what was good is whole, and the run goes on from there. */
static void the_limit_ends_the_run(void **state)
{
    (void)state;
    static const struct {
        int most;
        int64_t full[2];
        const char *says; /* NULL: the run ends well */
        long steps;
    } c[] = { { 0, { 4, 0 }, "--max-failed-saves 0: 1 save in a row failed, the last one that of iteration 4; ", 4 },
              { 1, { 4, 6 }, "--max-failed-saves 1: 2 saves in a row failed, the last one that of iteration 6; ", 6 },
              { 1, { 4, 8 }, NULL, 9 } };
    static const char *const left[] = { "iter_0000002", "latest" };
    for (int i = 0; i < N_STANDING; i++) {
        run r;
        char flags[200], more[1500], text[2048];
        snprintf(flags, sizeof flags, "--train-iters 9 --save-interval 2 %s", standing[i].flags);
        ASSERT_OK(train(&r, "whole", standing[i].ranks, standing[i].tp, flags));
        for (size_t k = 0; k < sizeof c / sizeof *c; k++) {
            memcpy(trouble.full, c[k].full, sizeof trouble.full);
            snprintf(more, sizeof more, "%s --max-failed-saves %d", flags, c[k].most);
            tx_status st = train(&r, "failed", standing[i].ranks, standing[i].tp, more);
            memset(trouble.full, 0, sizeof trouble.full);
            atomic_store(&full, false);
            assert_int_equal(atomic_load(&steps_done), c[k].steps);
            if (c[k].says) {
                snprintf(text, sizeof text, "%s%s is the last good checkpoint: ", c[k].says,
                         in_scratch("failed/iter_0000002"));
                ASSERT_FAILS(st, TX_ERR_IO, text);
                assert_left("failed", left, 2);
                snprintf(more, sizeof more, "%s --load %s", flags, in_scratch("failed"));
                ASSERT_OK(train(&r, "failed", standing[i].ranks, standing[i].tp, more));
                assert_same_folders("whole", "failed");
            } else {
                ASSERT_OK(st);
            }
            assert_same_checkpoint("whole", "failed", "iter_0000009");
            ASSERT_OK(tx_remove_tree(in_scratch("failed")));
        }
        ASSERT_OK(tx_remove_tree(in_scratch("whole")));
    }
}

/* Beside the steps an iteration has failed when the next one is due. At the end there is no next one that a limit could
 * keep from being saved. */
static void the_limit_is_one_beside_the_steps_too(void **state)
{
    (void)state;
    static const char *const left[] = { "iter_0000003", "latest" };
    const char *flags = "--save-interval 2 --async-save --max-failed-saves 0";
    run r;
    char more[200];
    failing_name = "iter_0000002";
    atomic_store(&n_failing, 1000000);
    snprintf(more, sizeof more, "--train-iters 9 %s", flags);
    ASSERT_FAILS(train(&r, "limit", 1, 1, more), TX_ERR_IO,
                 "--max-failed-saves 0: 1 save in a row failed, the last one that of iteration 2; no save of this "
                 "run has succeeded yet: ");
    assert_int_equal(atomic_load(&steps_done), 4);
    snprintf(more, sizeof more, "--train-iters 3 %s", flags);
    log_begin();
    ASSERT_OK(train(&r, "end", 1, 1, more));
    log_end();
    ASSERT_CONTAINS(warned, "iteration 2 was never saved, ");
    assert_left("end", left, 2);
    failing_name = NULL;
    atomic_store(&n_failing, 0);
}

/* Parameters that went bad are not cured by another attempt. */
static void what_is_not_finite_ends_the_run(void **state)
{
    (void)state;
    static const char *const left[] = { "iter_0000002", "latest" };
    for (int ranks = 1; ranks <= 2; ranks++) {
        run r;
        trouble.bad_weight = 4;
        tx_status st = train(&r, "run", ranks, 1, "--train-iters 9 --save-interval 2");
        trouble.bad_weight = 0;
        ASSERT_FAILS(st, TX_ERR_NUMERIC, "iteration 4 is not saved: ");
        assert_int_equal(atomic_load(&steps_done), 4);
        assert_left("run", left, 2);
        ASSERT_OK(tx_remove_tree(in_scratch("run")));
    }
}

/* Size of the last checkpoint's shards; their headers are small beside the numbers. */
static double shard_megabytes(const char *in)
{
    double sum = 0;
    tx_names names;
    tx_str latest = read_file(in_scratch("%s/latest", in));
    latest.data[strcspn(latest.data, "\n")] = '\0';
    ASSERT_OK(tx_dir_list(in_scratch("%s/%s", in, latest.data), &names));
    for (size_t i = 0; i < names.n; i++) {
        tx_map map;
        if (!strstr(names.name[i], "shard_")) continue;
        ASSERT_OK(tx_map_open(&map, in_scratch("%s/%s/%s", in, latest.data, names.name[i])));
        sum += (double)map.size;
        tx_map_close(&map);
    }
    tx_names_free(&names);
    tx_str_free(&latest);
    return sum / 1e6;
}

/* That a disk is too small for the checkpoints to come is said before the first step, once, in any layout. */
static void too_small_a_disk_is_foreseen(void **state)
{
    (void)state;
    static const struct {
        const char *flags, *keeps;
        int ranks, tp, more;
    } run_of[] = {
        { "", "all of them stay", 1, 1, 5 },
        { "--keep-last 1", "--keep-last 1 and the one being written", 2, 2, 2 },
        { "--zero-stage 1 --keep-last 9 --async-save", "--keep-last 9 and the one being written", 2, 1, 5 },
        { "--zero-stage 3 --bf16 --exit-interval 4", "all of them stay", 2, 1, 2 },
        { "--no-save-optim", "all of them stay", 1, 1, 5 },
    };
    for (size_t i = 0; i < sizeof run_of / sizeof *run_of; i++) {
        run r;
        char more[200], text[1024];
        snprintf(more, sizeof more, "--train-iters 9 --save-interval 2 %s", run_of[i].flags);
        ASSERT_OK(train(&r, "whole", run_of[i].ranks, run_of[i].tp, more));
        double each = shard_megabytes("whole");
        ASSERT_OK(tx_remove_tree(in_scratch("whole")));
        for (int short_of = 1; short_of >= 0; short_of--) {
            atomic_store(&free_bytes, (long long)(1e6 * each * run_of[i].more * (short_of ? 0.9 : 1)) + (1 << 20));
            log_begin();
            (void)train(&r, "short", run_of[i].ranks, run_of[i].tp, more);
            log_end();
            snprintf(text, sizeof text, "--save %s: a checkpoint takes ", in_scratch("short"));
            assert_int_equal(times(warned, text), short_of);
            if (short_of) {
                const char *said = strstr(logged, text);
                double told = strtod(said + strlen(text), NULL);
                assert_true(fabs(told - each) < 0.1);
                snprintf(text, sizeof text, " MB, %d more than now will lie there (%s), ", run_of[i].more,
                         run_of[i].keeps);
                ASSERT_CONTAINS(said, text);
                assert_true(said < strstr(logged, "saving checkpoint at iteration"));
            }
            ASSERT_OK(tx_remove_tree(in_scratch("short")));
        }
        atomic_store(&free_bytes, -1);
    }
}

/* Saves that a run still makes. */
static void saves_to_come_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        int64_t iteration, tokens, n;
    } row[] = {
        { "--train-iters 9 --save-interval 2", 0, 0, 5 },
        { "--train-iters 8 --save-interval 2", 0, 0, 4 },
        { "--train-iters 9 --save-interval 2", 4, 0, 3 },
        { "--train-iters 9 --save-interval 2", 9, 0, 0 },
        { "--train-iters 9 --save-interval 2", 12, 0, 0 },
        { "--train-iters 9 --save-interval 100", 0, 0, 1 },
        { "--train-iters 9 --save-interval 2 --exit-interval 4", 1, 0, 2 },
        { "--train-iters 900 --save-interval 2 --train-tokens 320", 0, 0, 3 }, /* 64 tokens an iteration */
        { "--train-iters 900 --save-interval 2 --train-tokens 320", 3, 192, 2 },
        { "--train-iters 900 --save-interval 2 --train-tokens 320", 5, 320, 0 },
        { "--train-iters 9 --save-interval 2 --skip-train", 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char flags[1024];
        tx_config *cfg;
        snprintf(flags, sizeof flags,
                 "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "
                 "--micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --data-path %s --tokenizer-type NullTokenizer "
                 "--vocab-size 511 --split 1,0,0 --save %s %s",
                 data_path("dataset/tiny_text_document"), in_scratch("run"), row[i].flags);
        ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
        assert_int_equal(tx__saver_to_come(cfg, row[i].iteration, row[i].tokens), row[i].n);
        tx_config_free(cfg);
    }
}

/* A run that goes on where it had ended says so, and leaves its checkpoint alone; another folder gets one. */
static void what_is_saved_is_not_saved_again(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        run r;
        char more[1024], text[1024];
        ASSERT_OK(train(&r, "run", ranks, 1, "--train-iters 4 --save-interval 2"));
        snprintf(more, sizeof more, "--train-iters 4 --save-interval 2 --load %s", in_scratch("run"));
        ASSERT_OK(tx_make_dirs(in_scratch("run/.tmp-iter_0000004-999999999"))); /* a killed save's */
        log_begin();
        ASSERT_OK(train(&r, "run", ranks, 1, more));
        log_end();
        snprintf(text, sizeof text, "%s is at iteration 4, and --train-iters is 4: nothing is left to train; raise ",
                 in_scratch("run/iter_0000004"));
        assert_int_equal(times(warned, text), 1);
        assert_int_equal(times(warned, "\n"), 1);
        assert_null(strstr(logged, "saving checkpoint"));
        assert_false(tx_path_exists(in_scratch("run/.tmp-iter_0000004-999999999")));
        log_begin();
        ASSERT_OK(train(&r, "other", ranks, 1, more));
        log_end();
        ASSERT_CONTAINS(logged, "saving checkpoint at iteration       4");
        assert_same_checkpoint("run", "other", "iter_0000004");
        ASSERT_OK(tx_remove_tree(in_scratch("run")));
        ASSERT_OK(tx_remove_tree(in_scratch("other")));
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
        SCRATCH_TEST(the_last_one_is_tried_again),
        SCRATCH_TEST(a_run_survives_failed_saves),
        SCRATCH_TEST(a_run_survives_a_lack_of_memory),
        SCRATCH_TEST(the_limit_ends_the_run),
        SCRATCH_TEST(the_limit_is_one_beside_the_steps_too),
        SCRATCH_TEST(what_is_not_finite_ends_the_run),
        SCRATCH_TEST(too_small_a_disk_is_foreseen),
        SCRATCH_TEST(saves_to_come_are_counted),
        SCRATCH_TEST(what_is_saved_is_not_saved_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
