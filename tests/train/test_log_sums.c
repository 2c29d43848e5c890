/* labels: resume threads */
/* A line of the log whose interval was cut by a save, an end and a resume is that of a run which went through: means of
 * losses, steps skipped and not finite. Ranks are threads. */
#include "support.h"

#include <omp.h>
#include <unistd.h>

#include "base/clock.h"
#include "train/loop.h"
#include "train/metrics.h"

enum { SLEEP_MS = 20, BAD = 5, CUT = 6, ITERATIONS = 12 };

typedef struct line {
    int64_t iteration, skipped, nan;
    double loss[2]; /* nats; NaN where no step was taken */
    double elapsed_ms;
} line;

typedef struct run {
    const tx_config *cfg;
    const char *load; /* NULL: from fresh weights */
    int n_ranks;
    void (*change)(json_t *run); /* of what is loaded; NULL: nothing */
    tx_trainer *t;               /* rank 0's */
    line step[ITERATIONS], interval[ITERATIONS];
    int n_steps, n_intervals;
} run;

/* Rank 0's records. A weight is bad during iteration BAD, which is skipped then with a loss that is not finite. */
static void take(void *user, const tx_step_record *r)
{
    run *own = user;
    line l = { r->iteration, r->skipped, r->nan, { r->loss, r->n_other_losses ? r->other_loss[0].value : NAN }, 0 };
    l.elapsed_ms = r->elapsed_ms;
    if (r->kind == TX_RECORD_INTERVAL) own->interval[own->n_intervals++] = l;
    if (r->kind == TX_RECORD_STEP) own->step[own->n_steps++] = l;
    if (r->kind == TX_RECORD_STEP) usleep(SLEEP_MS * 1000);
}

/* Every rank's copy of a value, in whatever type it has: not finite, and as it was. */
static void spoil(void *user, const tx_step_record *r)
{
    static _Thread_local unsigned char kept[4];
    tx_trainer *t = user;
    tx_tensor v = t->model->params.param[0].weight->value;
    size_t n = tx_dtype_size(v.dtype);
    if (r->kind != TX_RECORD_STEP) return;
    ASSERT_OK(tx_zero_settle(&t->zero));
    if (r->iteration == BAD - 1) {
        memcpy(kept, v.data, n);
        memset(v.data, 0xff, n); /* a NaN in fp32, fp16 and bf16 */
    } else if (r->iteration == BAD) {
        memcpy(v.data, kept, n);
    }
}

static tx_status load(run *r, tx_trainer *t, const tx_grid *grid)
{
    tx_source from;
    TX_TRY(tx_source_open(&from, r->load, NULL, tx_grid_group(grid, TX_GROUP_WORLD)));
    if (r->change) r->change(from.run);
    tx_status st = tx_trainer_load(t, &from);
    tx_source_close(&from);
    return st;
}

/* An index of a BERT's samples is made by the first rank and read by the others. */
static tx_status open_data(tx_train_data **data, const tx_config *cfg, const tx_grid *grid, const tx_tokenizer *tok)
{
    int64_t n[TX_N_SPLITS];
    tx_status st = TX_OK;
    tx_train_sample_counts(cfg, n);
    if (grid->rank == 0) st = tx_train_data_open(data, cfg, n, tok ? 0 : 512, -1, tok);
    TX_TRY(tx_comm_agree(tx_grid_group(grid, TX_GROUP_WORLD), st));
    if (grid->rank) st = tx_train_data_open(data, cfg, n, tok ? 0 : 512, -1, tok);
    return tx_comm_agree(tx_grid_group(grid, TX_GROUP_WORLD), st);
}

static tx_status run_rank(tx_world *w, void *user)
{
    run *r = user;
    bool bert = r->cfg->vocab_file;
    tx_grid grid;
    tx_trainer *t = NULL;
    tx_train_data *data = NULL;
    tx_tokenizer *tok = NULL;
    tx_metrics metrics = { 0 };
    tx_status st;
    omp_set_num_threads(1);
    tx_world_set_timeout(w, 100);
    tx_log_rank(tx_world_rank(w), NULL);
    TX_TRY(tx_grid_open(&grid, w, &(tx_layout){ 0 }, NULL));
    if (bert) TX_GOTO(tx_tokenizer_open_wordpiece(&tok, r->cfg->vocab_file, true));
    TX_GOTO(tx_trainer_create(&t, r->cfg, bert ? tx_tokenizer_vocab_size(tok) : 512, bert ? -1 : 511, true, &grid));
    if (r->load) TX_GOTO(load(r, t, &grid));
    TX_GOTO(open_data(&data, r->cfg, &grid, tok));
    if (grid.rank == 0) r->t = t;
    if (grid.rank == 0) tx_metrics_watch(&metrics, take, r);
    tx_metrics_watch(&metrics, spoil, t);
    st = tx_train_loop(t, &(tx_loop_data){ .sets = data }, &metrics, tx_clock(), NULL);
out:
    tx_train_data_close(data);
    tx_trainer_destroy(t);
    tx_tokenizer_close(tok);
    tx_grid_close(&grid);
    tx_log_rank(-1, NULL);
    return st;
}

/* Gradients overflow now and then: the scale doubles after every two steps that were taken. */
#define COMMON                                                                                                      \
    "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --micro-batch-size 2 --global-batch-size 4 --lr 1e-2 " \
    "--eval-iters 0 --threads 1 --train-iters 12 --save %s --save-interval 6 --world-size %d --fp16 "               \
    "--initial-loss-scale 4194304 --loss-scale-window 2 --hysteresis 1 --zero-stage 1 "
#define GPT                                                                                                     \
    "--seq-length 16 --max-position-embeddings 16 --tokenizer-type NullTokenizer --vocab-size 511 --data-path " \
    "%s --split 1,0,0 "
#define BERT "--seq-length 64 --max-position-embeddings 64 --data-path %s --split 1,0,0 --vocab-file %s "

static tx_status train(run *r, bool bert, const char *in, const char *more)
{
    char flags[6000], model[4000];
    tx_config *cfg;
    if (bert)
        snprintf(model, sizeof model, BERT, data_path("dataset/tinybert_text_document"),
                 data_path("tiny/tiny-bert-vocab.txt"));
    else
        snprintf(model, sizeof model, GPT, data_path("dataset/tiny_text_document"));
    snprintf(flags, sizeof flags, COMMON "%s %s", in_scratch("%s", in), r->n_ranks, model, more);
    r->n_steps = r->n_intervals = 0;
    TX_TRY(tx_config_parse_string(&cfg, bert ? "pretrain-bert" : "pretrain-gpt", flags));
    r->cfg = cfg;
    tx_status st = tx_world_threads(r->n_ranks, run_rank, r);
    tx_config_free(cfg);
    return st;
}

/* Equal, a NaN being one. */
static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void assert_same_line(const line *a, const line *b)
{
    assert_int_equal(a->iteration, b->iteration);
    assert_int_equal(a->skipped, b->skipped);
    assert_int_equal(a->nan, b->nan);
    for (int k = 0; k < 2; k++) assert_true(same(a->loss[k], b->loss[k]));
}

/* The line shows the n steps. */
static void assert_line_of(const line *l, const line *step, int n)
{
    double sum[2] = { 0 };
    int64_t skipped = 0, nan = 0;
    for (int i = 0; i < n; i++) {
        skipped += step[i].skipped;
        nan += step[i].nan;
        for (int k = 0; k < 2 && !step[i].skipped; k++) sum[k] += step[i].loss[k];
    }
    assert_int_equal(l->iteration, step[n - 1].iteration);
    assert_int_equal(l->skipped, skipped);
    assert_int_equal(l->nan, nan);
    for (int k = 0; k < 2; k++) assert_true(same(l->loss[k], sum[k] / (double)(n - skipped)));
}

/* The log's line of an iteration without what is of time. */
static void shown_line(char *out, size_t cap, int iteration)
{
    char begin[64];
    snprintf(begin, sizeof begin, "\n iteration %8d/", iteration);
    const char *from = strstr(logged, begin);
    assert_non_null(from);
    const char *time = strstr(from, " elapsed time"), *rate = strstr(from, " learning rate"),
               *speed = strstr(from, " samples per second");
    assert_true(time && rate && speed && time < rate && rate < speed);
    snprintf(out, cap, "%.*s%.*s", (int)(time - from), from, (int)(speed - rate), rate);
    const char *experts = strstr(from, " load balancing loss"), *end = strchr(from + 1, '\n');
    size_t n = strlen(out);
    if (experts && experts < end) snprintf(out + n, cap - n, "%.*s", (int)(end - experts), experts);
}

static const struct {
    bool bert;
    int n_ranks;
    const char *more;
} layout[] = { { false, 1, "" },
               { false, 2, "--async-save" },
               { true, 1, "--async-save" },
               { true, 2, "" },
               { true, 1, "--bert-no-binary-head" },
               { false, 2, "--num-experts 4 --expert-interval 1 --topk 2 --moe-z-loss-coeff 0.01" } };
enum { N_LAYOUTS = sizeof layout / sizeof *layout };

/* With --async-save the checkpoint is written while iteration 7 goes on, which must not be in it. */
static void a_cut_run_logs_what_a_whole_one_does(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYOUTS; i++) {
        static run whole, cut;
        char more[1500], shown[2][1024], from[1024];
        whole = cut = (run){ .n_ranks = layout[i].n_ranks };
        snprintf(more, sizeof more, "%s --log-interval 4", layout[i].more);
        log_begin();
        ASSERT_OK(train(&whole, layout[i].bert, "whole", more));
        log_end();
        assert_int_equal(whole.n_intervals, 3);
        for (int k = 0; k < 3; k++) assert_line_of(&whole.interval[k], &whole.step[4 * k], 4);
        assert_true(whole.interval[1].skipped >= 1 && whole.interval[1].nan == 1); /* there is something to lose */
        assert_true(isfinite(whole.interval[1].loss[0]) && whole.step[BAD - 1].nan && !whole.step[CUT - 1].skipped);
        shown_line(shown[0], sizeof shown[0], 8);

        snprintf(more, sizeof more, "%s --log-interval 4 --exit-interval %d", layout[i].more,
                 strstr(layout[i].more, "async") ? CUT + 1 : CUT);
        ASSERT_OK(train(&cut, layout[i].bert, "cut", more));
        snprintf(from, sizeof from, "%s", in_scratch("cut/iter_%07d", CUT));
        cut.load = from;
        snprintf(more, sizeof more, "%s --log-interval 4", layout[i].more);
        log_begin();
        ASSERT_OK(train(&cut, layout[i].bert, "cut", more));
        log_end();
        assert_int_equal(cut.n_intervals, 2);
        for (int k = 0; k < 2; k++) assert_same_line(&cut.interval[k], &whole.interval[1 + k]);
        assert_true(cut.interval[0].elapsed_ms >= SLEEP_MS); /* of the two steps of this process, not of four */
        shown_line(shown[1], sizeof shown[1], 8);
        assert_string_equal(shown[0], shown[1]);
        for (int k = 0; k < layout[i].n_ranks; k++)
            assert_same_file(in_scratch("whole/iter_0000012/shard_%05d.safetensors", k),
                             in_scratch("cut/iter_0000012/shard_%05d.safetensors", k));
        assert_same_file(in_scratch("whole/iter_0000012/manifest.json"), in_scratch("cut/iter_0000012/manifest.json"));

        /* every iteration is in one line, whichever intervals there are: 5 ... 9, 10 ... 12 */
        snprintf(more, sizeof more, "%s --log-interval 3", layout[i].more);
        ASSERT_OK(train(&cut, layout[i].bert, "cut", more));
        assert_int_equal(cut.n_intervals, 2);
        assert_line_of(&cut.interval[0], &whole.step[4], 5);
        assert_line_of(&cut.interval[1], &whole.step[9], 3);
        ASSERT_OK(tx_remove_tree(in_scratch("whole")));
        ASSERT_OK(tx_remove_tree(in_scratch("cut")));
    }
}

static void without_sums(json_t *all)
{
    json_object_del(all, "log_sums");
}

/* A checkpoint that has no sums, a run that counts from 0 and one that begins with weights: lines of their own steps.
 */
static void a_run_without_sums_begins_anew(void **state)
{
    (void)state;
    static run r;
    char from[1024];
    r = (run){ .n_ranks = 1 };
    ASSERT_OK(train(&r, false, "cut", "--log-interval 4 --exit-interval 6"));
    snprintf(from, sizeof from, "%s", in_scratch("cut/iter_0000006"));
    r.load = from;
    r.change = without_sums;
    ASSERT_OK(train(&r, false, "old", "--log-interval 4"));
    assert_int_equal(r.n_intervals, 2);
    assert_line_of(&r.interval[0], r.step, 2);
    assert_line_of(&r.interval[1], r.step + 2, 4);
    r.change = NULL;
    for (int i = 0; i < 2; i++) {
        char more[1500];
        snprintf(more, sizeof more, "--log-interval 4 --load %s --%s", from, i ? "reset-iteration" : "finetune");
        ASSERT_OK(train(&r, false, i ? "reset" : "tuned", more));
        assert_int_equal(r.n_intervals, 3);
        assert_line_of(&r.interval[0], r.step, 4);
    }
    /* after a line nothing is kept */
    ASSERT_OK(train(&r, false, "line", "--log-interval 2 --exit-interval 8"));
    json_t *manifest = load_json(in_scratch("line/iter_0000008/manifest.json"));
    assert_non_null(json_object_get(json_object_get(manifest, "config"), "opt_param_scheduler"));
    assert_null(json_object_get(json_object_get(manifest, "config"), "log_sums"));
    json_decref(manifest);
}

static const char *bad_json; /* of the sums */

static void bad_sums(json_t *all)
{
    json_t *sums = json_loads(bad_json, JSON_DECODE_ANY, NULL);
    assert_non_null(sums);
    json_object_set_new(all, "log_sums", sums);
}

/* Parentheses, which a compiler that looks for a forgotten comma asks for. */
#define SUMS(advanced, skipped, nan, losses)                                                            \
    ("{\"advanced_iterations\":" advanced ",\"skipped_iterations\":" skipped ",\"nan_iterations\":" nan \
     ",\"losses\":" losses "}")

static void sums_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static run r;
    char from[1024];
    static const char *const bad[] = {
        "7",
        "{}",
        "{\"advanced_iterations\":1,\"skipped_iterations\":1,\"nan_iterations\":1}",
        SUMS("1", "1", "1", "{\"sop loss\":1}"),
        SUMS("1", "1", "2", "{\"lm loss\":1}"),
        SUMS("-1", "1", "1", "{\"lm loss\":1}"),
        SUMS("4", "3", "1", "{\"lm loss\":1}"),
        SUMS("1.0", "1", "1", "{\"lm loss\":1}"),
        SUMS("9223372036854775807", "9223372036854775807", "1", "{\"lm loss\":1}"),
        SUMS("1", "1", "1", "{\"lm loss\":\"1\"}"),
    };
    r = (run){ .n_ranks = 1 };
    ASSERT_OK(train(&r, false, "cut", "--log-interval 4 --exit-interval 6"));
    snprintf(from, sizeof from, "%s", in_scratch("cut/iter_0000006"));
    r.load = from;
    r.change = bad_sums;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bad_json = bad[i];
        ASSERT_FAILS(train(&r, false, "other", "--log-interval 4"), TX_ERR_FORMAT,
                     "the checkpoint's log_sums are not the sums of a log line");
    }
    bad_json = SUMS("1", "1", "1", "{\"lm loss\":null}");
    ASSERT_OK(train(&r, false, "other", "--log-interval 4"));
    assert_true(isnan(r.interval[0].loss[0]) && isfinite(r.interval[1].loss[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(a_cut_run_logs_what_a_whole_one_does),
        SCRATCH_TEST(a_run_without_sums_begins_anew),
        SCRATCH_TEST(sums_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
