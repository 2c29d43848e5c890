/* generate.c - how fast a decoder goes on with text, of GPT-2 124M's shapes with random weights:
 *
 *      one stream    a token at a time, which reads all weights once; in turns with threads that read them and do
 *                    nothing else
 *      16 streams    one token of each at a time
 *      prefill       a prompt of 512 tokens, beside the training's forward over as many (which makes all logits)
 *
 *      generate [THREADS] [ROUNDS, 5] [LAYERSxHIDDENxHEADSxVOCABULARY, 12x768x12x50257] [BACKEND, cpu]
 *
 *  Of each the fastest run and the median of all rounds, which take turns. On a device without training's forward.
 * `make bench` in the build folder builds it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/run_common.h"
#include "backend/cpu/cpu.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "infer/decoder.h"

enum { STREAMS = 16, PAST = 128, PROMPT = 512, STEPS = 12, MAX_RUNS = 4096 };

/* Of the model. */
static struct {
    int layers, hidden, heads, vocab;
} size = { 12, 768, 12, 50257 };

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "generate: %s\n", tx_last_error());
    exit(1);
}

/* Seconds of runs. */
typedef struct times {
    double x[MAX_RUNS];
    int n;
} times;

static void add(times *t, double since)
{
    if (t->n < MAX_RUNS) t->x[t->n++] = tx_clock() - since;
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort(times *t)
{
    qsort(t->x, (size_t)t->n, sizeof *t->x, by_time);
}

typedef struct rig {
    tx_config *cfg;
    tx_model *model;
    void *value;
    tx_device *device; /* where the weights are; NULL: the host */
    tx_decoder *d;
    tx_ctx fwd; /* of the training's forward */
    tx_batch batch;
    int32_t token[PROMPT], position[PROMPT];
    float loss[PROMPT];
    times one, many, prefill, forward, read;
} rig;

static void make_model(rig *r, const char *dtype)
{
    char flags[1024];
    float *x;
    snprintf(flags, sizeof flags,
             "--num-layers %d --hidden-size %d --num-attention-heads %d --seq-length 1024 "
             "--max-position-embeddings 1024 --micro-batch-size 1 --train-iters 1 --lr 1 --hidden-dropout 0 "
             "--attention-dropout 0 --data-path none --tokenizer-type NullTokenizer --vocab-size %d %s",
             size.layers, size.hidden, size.heads, size.vocab - 1, dtype);
    check(tx_config_parse_string(&r->cfg, "pretrain-gpt", flags));
    check(tx_model_type_of(r->cfg)->create(&r->model, r->cfg, size.vocab, NULL));
    const tx_model *m = r->model;
    check(tx_alloc(&x, (size_t)m->params.numel, sizeof *x, "weights"));
    const tx_rng rng = { .seed = 1 };
    for (int64_t i = 0; i < m->params.numel; i++) {
        enum { PERIOD = 4194304 };
        x[i] = i < PERIOD ? ((float)tx_rng_u16(&rng, (uint64_t)i) / 65536 - 0.5f) / 16 : x[i - PERIOD];
    }
    r->value = x;
    if (m->dtype != TX_F32) {
        check(tx_alloc(&r->value, (size_t)m->params.numel, tx_dtype_size(m->dtype), "weights"));
        tx_params_round(r->value, m->dtype, x, m->params.numel);
        tx_free(x);
    }
    tx_params_bind(&r->model->params, r->value, m->dtype, NULL);
}

static void open_rig(rig *r, const char *dtype, int threads, const char *backend)
{
    const tx_decoder_opts opts = { .backend = backend, .n_threads = threads, .n_slots = STREAMS, .max_len = 1024 };
    make_model(r, dtype);
    check(tx_decoder_create(&r->d, r->model, NULL, &opts));
    r->device = tx_decoder_device(r->d);
    check(tx__model_move(r->model, &r->value, r->device));
    check(tx_ctx_init(&r->fwd, backend, threads));
    for (int i = 0; i < PROMPT; i++) {
        r->token[i] = i * 97 % size.vocab;
        r->position[i] = i;
    }
    r->batch = (tx_batch){ .token = tx_tensor2(r->token, TX_I32, PROMPT, 1),
                           .position = tx_tensor2(r->position, TX_I32, PROMPT, 1),
                           .label = tx_tensor1(r->token, TX_I32, PROMPT),
                           .loss = tx_tensor1(r->loss, TX_F32, PROMPT) };
    if (r->device) return;
    check(tx_model_fwd(&r->fwd, r->model, &r->batch, false));
    check(tx_ctx_take_memory(&r->fwd));
}

static void close_rig(rig *r)
{
    tx_ctx_deinit(&r->fwd);
    tx_device_give(r->device, r->value);
    tx_decoder_destroy(r->d);
    r->model->type->destroy(r->model);
    tx_config_free(r->cfg);
}

/* What a token of one stream reads: all but the positions' rows. */
static int64_t bytes_read(const rig *r)
{
    const tx_model *m = r->model;
    return (m->params.numel - m->max_positions * m->hidden) * (int64_t)tx_dtype_size(m->dtype);
}

static void read_weights(rig *r)
{
    const tx__cpu_kernels *k = tx__cpu_best_kernels();
    int64_t n = bytes_read(r) / (int64_t)sizeof(float);
    int parts = r->fwd.n_threads;
    double start = tx_clock();
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range at = tx__cpu_part(n, 1024, parts, t);
        k->sum((const float *)r->value + at.lo, at.hi - at.lo);
    }
    add(&r->read, start);
}

static void step(rig *r, int n, times *t)
{
    int slot[STREAMS];
    const float *logits;
    int64_t stride;
    for (int i = 0; i < n; i++) {
        slot[i] = i;
        tx_decoder_truncate(r->d, i, PAST);
    }
    for (int k = 0; k < STEPS; k++) {
        double start = tx_clock();
        check(tx_decoder_step(r->d, slot, r->token, n, &logits, &stride));
        add(t, start);
        if (n == 1 && !r->device) read_weights(r);
    }
}

static tx_status take(void *user, int64_t first, int64_t n_rows, const float *logits, int64_t stride)
{
    (void)user, (void)first, (void)n_rows, (void)logits, (void)stride;
    return TX_OK;
}

/* With logits of the last position, as whoever goes on with it needs. */
static void prefill(rig *r)
{
    tx_decoder_truncate(r->d, 0, 0);
    double start = tx_clock();
    check(tx_decoder_append(r->d, 0, r->token, PROMPT, &(tx_logits_wanted){ PROMPT - 1, take, NULL }));
    add(&r->prefill, start);
    tx_decoder_truncate(r->d, 0, PAST);
    if (r->device) return;
    start = tx_clock();
    check(tx_model_fwd(&r->fwd, r->model, &r->batch, false));
    add(&r->forward, start);
}

static void run_round(rig *r)
{
    for (int i = 0; i < STREAMS; i++) {
        tx_decoder_truncate(r->d, i, 0);
        check(tx_decoder_append(r->d, i, r->token, PAST, NULL));
    }
    step(r, 1, &r->one);
    prefill(r);
    step(r, STREAMS, &r->many);
}

static void report(rig *r, const char *name)
{
    double bytes = (double)bytes_read(r);
    times *t[] = { &r->one, &r->many, &r->prefill, &r->forward, &r->read };
    for (int i = 0; i < 5; i++) sort(t[i]);
    for (int i = 0; i < 2; i++) { /* the fastest, the median */
        double one = r->one.x[i * r->one.n / 2], many = r->many.x[i * r->many.n / 2];
        printf("%s %-7s one stream %6.1f tokens/s, %5.1f GB/s of weights", name, i ? "median" : "fastest", 1 / one,
               bytes / one * 1e-9);
        if (r->read.n > 0) {
            double read = r->read.x[i * r->read.n / 2];
            printf(", %3.0f %% of %.1f", 100 * read / one, bytes / read * 1e-9);
        }
        printf(";  %d streams %7.1f tokens/s, %.1f times one's;  prefill %6.0f tokens/s", STREAMS, STREAMS / many,
               STREAMS * one / many, PROMPT / r->prefill.x[i * r->prefill.n / 2]);
        if (r->forward.n > 0) printf(", training's forward %6.0f", PROMPT / r->forward.x[i * r->forward.n / 2]);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    static rig rigs[2];
    static const char *const dtype[] = { "", "--bf16" }, *const name[] = { "fp32", "bf16" };
    int threads = argc > 1 ? atoi(argv[1]) : 0, rounds = argc > 2 ? atoi(argv[2]) : 5;
    if (rounds < 1 ||
        (argc > 3 && sscanf(argv[3], "%dx%dx%dx%d", &size.layers, &size.hidden, &size.heads, &size.vocab) != 4)) {
        fprintf(stderr, "usage: generate [THREADS] [ROUNDS] [LAYERSxHIDDENxHEADSxVOCABULARY] [BACKEND]\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) open_rig(&rigs[i], dtype[i], threads, argc > 4 ? argv[4] : "cpu");
    printf("%s, %d threads\n", rigs[0].fwd.backend->describe(), rigs[0].fwd.n_threads);
    for (int k = 0; k < rounds; k++)
        for (int i = 0; i < 2; i++) run_round(&rigs[i]);
    for (int i = 0; i < 2; i++) report(&rigs[i], name[i]);
    for (int i = 0; i < 2; i++) close_rig(&rigs[i]);
    return 0;
}
