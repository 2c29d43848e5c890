/* zero_bubble.c - how long a pipeline takes with 1F1B and with ZB-H1, of stages that are measured here.
 *
 *      zero_bubble STAGES LAYERS HIDDEN HEADS SEQUENCE BATCH MICRO-BATCHES ITERATIONS [flags of pretrain-gpt]
 *
 *  Ranks are threads that share the machine's cores, so what is measured of each forward, backward and weights' part is
 * the processor time of its thread; medians of them are put into the schedule (pp_times.h) as on a machine with a core
 * for each stage. Messages take no time. LAYERS are a stage's; the vocabulary is small, so that stages are nearly
 * equal.
 *
 *  `make bench` in the build folder builds it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/str.h"
#include "comm/comm.h"
#include "parallel/pp_times.h"
#include "train/trainer.h"
#include "triax/status.h"

enum { N_ARGS = 8, MAX_STAGES = 16, MAX_TIMES = 4096, VOCABULARY = 512 };
enum { FWD, BWD, WGT, N_PARTS };

typedef struct stage_times {
    double begun, all[N_PARTS][MAX_TIMES], median[N_PARTS];
    int n[N_PARTS];
} stage_times;

typedef struct run {
    const tx_config *cfg;
    int p, iterations;
    stage_times stage[MAX_STAGES];
} run;

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "%s\n", tx_last_error());
    exit(1);
}

static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note(void *user, const tx_pp_instr *in, bool begins)
{
    stage_times *s = user;
    int part = in->op == TX_PP_FWD ? FWD : in->op == TX_PP_BWD ? BWD : in->op == TX_PP_WGT ? WGT : N_PARTS;
    if (part == N_PARTS) return;
    if (begins)
        s->begun = processor_time();
    else if (s->n[part] < MAX_TIMES)
        s->all[part][s->n[part]++] = processor_time() - s->begun;
}

static tx_status same_rows(void *user, int64_t micro, const void **rows)
{
    (void)micro;
    *rows = user;
    return TX_OK;
}

static tx_status run_rank(tx_world *w, void *user)
{
    run *r = user;
    tx_grid grid;
    tx_trainer *t = NULL;
    int32_t *rows = NULL;
    tx_status st;
    TX_TRY(tx_grid_open(&grid, w, &(tx_layout){ .size = { [TX_AXIS_PIPELINE] = r->p } }, NULL));
    TX_GOTO(tx_trainer_create(&t, r->cfg, VOCABULARY, VOCABULARY - 1, true, &grid));
    size_t n = (size_t)(t->b * tx_trainer_row_len(t));
    TX_GOTO(tx_alloc(&rows, n, sizeof *rows, "a batch"));
    for (size_t i = 0; i < n; i++) rows[i] = (int32_t)(i * 7 % (VOCABULARY - 1));
    for (int i = 0; i <= r->iterations; i++) { /* the first one warms up */
        t->stage.about = i ? note : NULL;
        t->stage.about_user = &r->stage[grid.rank];
        TX_GOTO(tx_trainer_train(t, same_rows, rows));
    }
out:
    tx_free(rows);
    tx_trainer_destroy(t);
    tx_grid_close(&grid);
    return st;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static tx_pp_shape measure(run *r, char **argv, int argc, bool divides)
{
    tx_str flags = { 0 };
    tx_config *cfg;
    r->p = atoi(argv[1]);
    r->iterations = atoi(argv[8]);
    check(tx_str_printf(&flags,
                        "--num-layers %d --hidden-size %s --num-attention-heads %s --seq-length %s "
                        "--max-position-embeddings %s --micro-batch-size %s --global-batch-size %d --train-iters 1000 "
                        "--lr 1e-4 --hidden-dropout 0 --attention-dropout 0 --data-path none --tokenizer-type "
                        "NullTokenizer --vocab-size %d --threads 1 --world-size %d --pipeline-model-parallel-size %d%s",
                        atoi(argv[2]) * r->p, argv[3], argv[4], argv[5], argv[5], argv[6],
                        atoi(argv[6]) * atoi(argv[7]), VOCABULARY - 1, r->p, r->p,
                        divides ? " --enable-zbh1-pipeline" : ""));
    for (int i = N_ARGS + 1; i < argc; i++) check(tx_str_printf(&flags, " %s", argv[i]));
    check(tx_config_parse_string(&cfg, "pretrain-gpt", flags.data));
    r->cfg = cfg;
    check(tx_world_threads(r->p, run_rank, r));
    for (int i = 0; i < r->p; i++)
        for (int k = 0; k < N_PARTS; k++) {
            stage_times *s = &r->stage[i];
            qsort(s->all[k], (size_t)s->n[k], sizeof(double), by_value);
            s->median[k] = s->n[k] ? s->all[k][s->n[k] / 2] : 0;
        }
    tx_config_free(cfg);
    tx_str_free(&flags);
    return (tx_pp_shape){ .kind = divides ? TX_PP_ZBH1 : TX_PP_1F1B, .p = r->p, .m = atoi(argv[7]), .n_chunks = 1 };
}

/* Prints what was measured; returns how long the schedule takes. */
static double report(const run *r, const tx_pp_shape *shape, const char *name)
{
    double time[N_PARTS][MAX_STAGES], idle = 0;
    tx_pp_timeline t = { 0 };
    printf("%s\n  stage   forward  backward   weights        ms\n", name);
    for (int i = 0; i < r->p; i++) {
        for (int k = 0; k < N_PARTS; k++) time[k][i] = r->stage[i].median[k];
        printf("  %5d %9.3f %9.3f %9.3f\n", i, 1e3 * time[FWD][i], 1e3 * time[BWD][i], 1e3 * time[WGT][i]);
    }
    check(tx_pp_simulate_times(shape, &(tx_pp_times){ .fwd = time[FWD], .bwd = time[BWD], .wgt = time[WGT] }, &t));
    for (int i = 0; i < r->p; i++) idle += (t.makespan - t.stage[i].busy) / r->p;
    printf("  %d micro-batches take %.2f ms, of which a stage waits %.2f ms on average, %.1f %%\n", shape->m,
           1e3 * t.makespan, 1e3 * idle, 100 * idle / t.makespan);
    double makespan = t.makespan;
    tx_pp_timeline_free(&t);
    return makespan;
}

int main(int argc, char **argv)
{
    static run whole, divided;
    if (argc <= N_ARGS || atoi(argv[1]) < 2 || atoi(argv[1]) > MAX_STAGES) {
        fprintf(stderr,
                "usage: %s STAGES LAYERS HIDDEN HEADS SEQUENCE BATCH MICRO-BATCHES ITERATIONS [flags]; 2 to %d "
                "stages\n",
                argv[0], MAX_STAGES);
        return 2;
    }
    tx_pp_shape shape = measure(&whole, argv, argc, false);
    double before = report(&whole, &shape, "1F1B");
    shape = measure(&divided, argv, argc, true);
    double after = report(&divided, &shape, "ZB-H1");
    printf("1F1B over ZB-H1: %.3f\n", before / after);
    return 0;
}
