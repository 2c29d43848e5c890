/* labels: unit threads parallel resume */
/* What a client's own loop tells: DeepSpeed's lines every steps_per_print, its timers, and its events in CSV files and
 * TensorBoard's; from rank 0 alone, added to by a run that goes on. And the same CSV files of a whole run. */
#include <math.h>

#include "base/str.h"
#include "client_runs.h"
#include "triax/run.h"

typedef struct told {
    int n;
    const char *json, *flags, *load, *save;
    bool whole, run; /* global batches as a whole; tx_run_train */
    int until;
    double loss[STEPS], lr[STEPS], scale[STEPS]; /* lr, scale: behind the step */
} told;

static tx_status by_hand(reader *r)
{
    r->first = 4 * tx_engine_iteration(r->e);
    for (int64_t k = 0; k < 4 / tx_engine_data_parallel_size(r->e); k++) {
        const void *batch;
        double loss;
        TX_TRY(read_batch(r, k, &batch));
        TX_TRY(tx_engine_forward(r->e, batch, &loss));
        TX_TRY(tx_engine_backward(r->e));
        TX_TRY(tx_engine_step(r->e));
    }
    return TX_OK;
}

/* A tx_read_fn of a run, whose engine is r's. */
static tx_status read_of_run(void *user, int64_t micro, const void **batch)
{
    reader *r = user;
    r->first = 4 * tx_engine_iteration(r->e);
    return read_batch(r, micro, batch);
}

static tx_status tell_loop(told *j, reader *r)
{
    while (tx_engine_iteration(r->e) < (j->until ? j->until : STEPS)) {
        int64_t i = tx_engine_iteration(r->e);
        TX_TRY(j->whole ? iteration(r->e, r, false) : by_hand(r));
        if (tx_engine_global_rank(r->e)) continue;
        j->loss[i] = tx_engine_loss(r->e);
        j->lr[i] = tx_engine_lr(r->e);
        j->scale[i] = tx_engine_cur_scale(r->e);
    }
    return TX_OK;
}

static tx_status tell_rank(tx_world *world, void *user)
{
    told *j = user;
    tx_config *cfg = NULL;
    char flags[4096];
    reader r = { .e = NULL };
    tx_run *run = NULL;
    tx_status st;
    omp_set_num_threads(1);
    snprintf(flags, sizeof flags,
             "--micro-batch-size 2 --global-batch-size 8 --lr 1e-2 --lr-decay-style linear --train-iters 6 --threads 1 "
             "--seed 3 --eval-iters 0 --world-size %d --deepspeed_config %s %s",
             j->n, in_scratch("ds.json"), j->flags ? j->flags : "");
    TX_GOTO(tx_config_parse_string(&cfg, "engine", flags));
    const tx_engine_args args = { .size = sizeof args, .config = cfg, .model = &model, .world = world };
    if (j->run) TX_GOTO(tx_run_open(&run, cfg, world));
    TX_GOTO(tx_engine_initialize(&r.e, &args));
    if (j->load) TX_GOTO(tx_engine_load_checkpoint(r.e, j->load, NULL, NULL, NULL));
    if (j->run)
        st = tx_run_train(run, r.e, &(tx_run_data){ .size = sizeof(tx_run_data), .train = read_of_run, .user = &r });
    else
        st = tell_loop(j, &r);
    if (!st && j->save) st = tx_engine_save_checkpoint(r.e, j->save, NULL, NULL);
out:
    tx_engine_destroy(r.e);
    if (run) st = tx_run_close(run, st);
    tx_config_free(cfg);
    return st;
}

static tx_status try_tell(told *j)
{
    write_text(in_scratch("ds.json"), j->json);
    return tx_world_threads(j->n, tell_rank, j);
}

static told tell(told j)
{
    log_begin();
    tx_status st = try_tell(&j);
    log_end();
    if (st) fail_msg("%s: %s", j.json, tx_last_error());
    return j;
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *p = strstr(text, part); p; p = strstr(p + 1, part)) n++;
    return n;
}

/* ---- lines ---- */

static void lines_come_every_steps_per_print(void **state)
{
    (void)state;
    told j = tell((told){ .n = 1, .json = "{\"steps_per_print\": 2}" });
    char line[256];
    tx_str lr = { 0 };
    ASSERT_OK(tx_str_put_f64(&lr, j.lr[3]));
    snprintf(line, sizeof line, "\nstep=4, skipped=0, lr=[%s], mom=[(0.9, 0.999)]\n", lr.data);
    tx_str_free(&lr);
    ASSERT_CONTAINS(logged, line);
    assert_int_equal(count(logged, "\nstep="), 3);
    assert_int_equal(count(logged, "RunningAvgSamplesPerSec="), 2); /* the third iteration is the first that counts */
    ASSERT_CONTAINS(logged, "epoch=0/micro_step=24/global_step=6, RunningAvgSamplesPerSec=");
    assert_null(strstr(logged, "time (ms)"));
    tell((told){ .n = 1, .json = "{}" });
    assert_null(strstr(logged, "\nstep="));
    tell((told){ .n = 1, .json = "{}", .flags = "--log-interval 3 --optimizer sgd" });
    assert_int_equal(count(logged, "\nstep="), 2);
    ASSERT_CONTAINS(logged, "], mom=[0.9]\n");
}

static void timers_are_broken_down(void **state)
{
    (void)state;
    double ms[5];
    for (int whole = 0; whole < 2; whole++) {
        tell((told){ .n = 2, .whole = whole, .json = "{\"steps_per_print\": 3, \"wall_clock_breakdown\": true}" });
        const char *line = strstr(logged, "\ntime (ms) | ");
        assert_int_equal(count(logged, "\ntime (ms) | "), 2);
        assert_non_null(line);
        assert_int_equal(sscanf(line,
                                "\ntime (ms) | fwd: %lf | bwd: %lf | bwd_inner: %lf | bwd_allreduce: %lf | step: %lf",
                                &ms[0], &ms[1], &ms[2], &ms[3], &ms[4]),
                         5);
        for (int i = 0; i < 5; i++) assert_true(ms[i] >= 0);
        ASSERT_NEAR(ms[1], ms[2] + ms[3], 0.0151, "bwd is what it is made of");
        assert_int_equal(count(logged, "\nsteps: 3 loss: "), whole);
        assert_int_equal(count(logged, "\nstep=3, skipped="), 1);
    }
}

/* ---- CSV files ---- */

#define CSV "{\"csv_monitor\": {\"enabled\": true, \"output_path\": \"%s\", \"job_name\": \"job\"}%s}"

static const char *csv_json(const char *more)
{
    static char text[1024];
    snprintf(text, sizeof text, CSV, in_scratch("csv"), more);
    return text;
}

static const char *csv_of(const char *event)
{
    return in_scratch("csv/job/Train_Samples_%s.csv", event);
}

/* A header, and a line for each update from the first on with what it had. */
static void assert_csv(const char *event, const double *value, int n)
{
    tx_str want = { 0 }, got = read_file(csv_of(event));
    ASSERT_OK(tx_str_printf(&want, "step,%s\r\n", event));
    for (int i = 0; i < n; i++) {
        ASSERT_OK(tx_str_printf(&want, "%d,", 8 * (i + 1)));
        ASSERT_OK(tx_str_put_f64(&want, value[i]));
        ASSERT_OK(tx_str_puts(&want, "\r\n"));
    }
    assert_string_equal(got.data, want.data);
    tx_str_free(&want);
    tx_str_free(&got);
}

static void events_are_in_csv_files(void **state)
{
    (void)state;
    told j = tell((told){ .n = 2, .flags = "--zero-stage 2", .json = csv_json("") });
    assert_csv("train_loss", j.loss, STEPS);
    assert_csv("lr", j.lr, STEPS);
    assert_n_files(in_scratch("csv/job"), 2);
    assert_true(j.lr[0] != j.lr[1]);
}

static void a_run_that_goes_on_adds_to_them(void **state)
{
    (void)state;
    told first = tell((told){ .n = 1, .json = csv_json(""), .until = 3, .save = in_scratch("saved") });
    told rest = tell((told){ .n = 1, .json = csv_json(""), .load = in_scratch("saved") });
    memcpy(rest.loss, first.loss, 3 * sizeof *rest.loss);
    assert_csv("train_loss", rest.loss, STEPS);
    tell((told){ .n = 1, .json = csv_json(", \"wall_clock_breakdown\": true"), .until = 1 });
    assert_n_files(in_scratch("csv/job"), 7);
    assert_true(tx_path_exists(csv_of("elapsed_time_ms_backward_allreduce")));
}

/* fp16: the scale is told, and of a skipped update no loss. */
static void the_loss_scale_is_told(void **state)
{
    (void)state;
    told j =
        tell((told){ .n = 1,
                     .json = csv_json(", \"fp16\": {\"enabled\": true, \"initial_scale_power\": 22, \"hysteresis\": "
                                      "1, \"loss_scale_window\": 1000}") });
    tx_str got = read_file(csv_of("train_loss"));
    assert_csv("loss_scale", j.scale, STEPS);
    assert_true(j.scale[0] < 4194304);
    assert_in_range(count(got.data, "\r\n"), 2, STEPS);
    assert_null(strstr(got.data, "\n8,"));
    tx_str_free(&got);
}

static void tensorboard_has_the_same(void **state)
{
    (void)state;
    static const char *const tag[] = { "Train/Samples/train_loss", "Train/Samples/lr" };
    char json[1024];
    snprintf(json, sizeof json, "{\"tensorboard\": {\"enabled\": true, \"output_path\": \"%s\"}}", in_scratch("tb"));
    tell((told){ .n = 2, .json = json });
    tx_names names;
    ASSERT_OK(tx_dir_list(in_scratch("tb/DeepSpeedJobName"), &names));
    assert_int_equal(names.n, 1);
    tx_str file = read_file(in_scratch("tb/DeepSpeedJobName/%s", names.name[0]));
    for (int k = 0; k < 2; k++) {
        int n = 0;
        for (size_t i = 0; i + strlen(tag[k]) <= file.len; i++) n += !memcmp(file.data + i, tag[k], strlen(tag[k]));
        assert_int_equal(n, STEPS);
    }
    tx_str_free(&file);
    tx_names_free(&names);
}

static void a_whole_run_has_them_too(void **state)
{
    (void)state;
    told loop = tell((told){ .n = 2, .json = csv_json("") });
    ASSERT_OK(tx_remove_tree(in_scratch("csv")));
    tell((told){ .n = 2, .run = true, .json = csv_json("") });
    assert_csv("train_loss", loop.loss, STEPS);
    assert_csv("lr", loop.lr, STEPS);
    assert_n_files(in_scratch("csv/job"), 2);
}

static void a_folder_that_cannot_be_is_an_error(void **state)
{
    (void)state;
    write_text(in_scratch("csv"), "a file");
    told j = { .n = 2, .json = csv_json("") };
    tx_status st = try_tell(&j);
    assert_true(st != TX_OK);
    ASSERT_CONTAINS(tx_last_error(), "--csv-monitor-dir ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(lines_come_every_steps_per_print), SCRATCH_TEST(timers_are_broken_down),
        SCRATCH_TEST(events_are_in_csv_files),          SCRATCH_TEST(a_run_that_goes_on_adds_to_them),
        SCRATCH_TEST(the_loss_scale_is_told),           SCRATCH_TEST(tensorboard_has_the_same),
        SCRATCH_TEST(a_whole_run_has_them_too),         SCRATCH_TEST(a_folder_that_cannot_be_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
