/* measure.c - what is measured, in which order, and the numbers that a file has of it. */
#include "predict/measure.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/gpu_module.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/scratch_file.h"
#include "base/system_memory.h"
#include "comm/comm.h"
#include "predict/machine_rows.h"

#define NET_GB_PER_S 1.0

#define LLAMA                                                                                                  \
    "--swiglu --normalization rmsnorm --use-rotary-position-embeddings --untie-embeddings-and-output-weights " \
    "--disable-bias-linear"
#define ALL_OPS "--log-num-zeros-in-grad --log-params-norm"

/* Models in which each size is met at least once: tokens of a micro-batch, hidden size, vocabulary, head dimension,
 * both families of layers, what some flags add. Weights and activations of most do not fit into a cache, as those of
 * the runs to be predicted. Layers, hidden, heads, sequence, micro-batch, vocabulary, micro-batches, ... */
static const tx_step_model host_models[] = {
    { 6, 256, 8, 128, 1, 16384, 1, ALL_OPS, true, true },
    { 6, 256, 4, 512, 4, 16384, 1, "", false, false },
    { 4, 512, 8, 256, 2, 50304, 2, LLAMA, true, false },
    { 4, 512, 8, 1024, 2, 8192, 1, "", false, false },
    { 3, 768, 12, 512, 1, 50304, 1, "", true, true },
    { 3, 768, 12, 1024, 4, 8192, 1, LLAMA, false, false },
    { 2, 1024, 16, 128, 1, 50304, 1, "--optimizer sgd", true, false },
    { 2, 1024, 16, 1024, 2, 8192, 1, "", true, false },
    { 1, 1024, 8, 256, 4, 8192, 1, LLAMA, false, false },
};
/* A GPU's are larger. */
static const tx_step_model device_models[] = {
    { 4, 1024, 16, 1024, 1, 50304, 1, ALL_OPS, false, false }, { 4, 1024, 16, 2048, 8, 50304, 1, "", false, false },
    { 2, 2048, 16, 2048, 4, 50304, 2, LLAMA, false, true },    { 2, 4096, 32, 2048, 2, 32768, 1, LLAMA, false, false },
    { 1, 8192, 64, 2048, 1, 32768, 1, "", false, false },      { 1, 8192, 64, 4096, 2, 8192, 1, LLAMA, false, false },
};
#define N_OF(a) ((int)(sizeof(a) / sizeof *(a)))

static const int rank_counts[] = { 1, 2, 4 };
static const double call_bytes[] = { 4096, 65536, 1 << 20, 1 << 23, 1 << 25, 1 << 28 }; /* the last in no cache */
static const tx_measure_sizes host_sizes = { host_models,      call_bytes, N_OF(host_models),
                                             N_OF(call_bytes), 1.5,        256 << 20 };
static const tx_measure_sizes device_sizes = { device_models,    call_bytes, N_OF(device_models),
                                               N_OF(call_bytes), 1.5,        256 << 20 };

typedef struct measuring {
    tx_machine *m;
    const tx_config *cfg;
    const tx_measure_sizes *sizes;
    const char *device; /* "cpu", "gpu" */
    int n_cores;        /* threads of a rank alone */
    int n_devices;      /* GPUs; 0: the host computes */
} measuring;

/* ---- what there is ---- */

static void take_defaults(tx_machine *m)
{
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++)
        if (!isnan(row->otherwise)) *tx__machine_number_at(m, row) = row->otherwise * row->unit;
}

static double peak_of(const tx_ctx *c, tx_dtype t)
{
    return tx_peak_flops(c, &t);
}

static tx_status find_machine(measuring *g, tx_ctx *c)
{
    tx_machine *m = g->m;
    tx_bandwidth b = { 0 };
    size_t free_bytes, all = tx_system_memory(&(const char *){ NULL });
    if (c->device) TX_TRY(tx_device_memory(c->device, &free_bytes, &all));
    m->ranks_per_node = g->n_devices ? g->n_devices : g->n_cores;
    m->cores = g->n_devices ? 0 : g->n_cores;
    m->memory = (double)all / (g->n_devices ? 1 : g->n_cores);
    if (c->backend->bandwidth) TX_TRY(c->backend->bandwidth(c, &b));
    m->bandwidth = fmax(b.read, fmax(b.copy, b.triad));
    m->fp32_peak = peak_of(c, TX_F32);
    m->bf16_peak = peak_of(c, TX_BF16);
    m->fp16_peak = peak_of(c, TX_F16);
    m->launch_seconds = m->op_seconds = m->overhead = 0;
    tx_info(
        "  %d ranks of %.1f GiB; memory moves %.1f GB/s; multiply-adds run at up to %.3f TFLOP/s in fp32, %.3f in bf16",
        (int)m->ranks_per_node, m->memory / 1073741824.0, m->bandwidth * 1e-9, m->fp32_peak * 1e-12,
        m->bf16_peak * 1e-12);
    return TX_OK;
}

static tx_status find_device(measuring *g)
{
    const tx_gpu_module *module;
    tx_gpu_info gpu[TX_GPU_MAX];
    g->device = tx_device_choice_word(g->cfg->device);
    if (!strcmp(g->device, "auto")) g->device = tx_backend_auto();
    if (!strcmp(g->device, "gpu")) {
        TX_TRY(tx_gpu_module_get(&module));
        TX_TRY(module->list(gpu, &g->n_devices));
    }
    g->n_cores = (int)g->cfg->threads;
    return g->n_cores ? TX_OK : tx_default_threads(&g->n_cores);
}

/* ---- storage ---- */

enum { STORAGE_PIECE = 1 << 20 };

static tx_status move_file(const tx_scratch_file *f, char *piece, size_t bytes, bool writes, double *seconds)
{
    double start = tx_clock();
    for (off_t at = 0; at < (off_t)bytes; at += STORAGE_PIECE) {
        ssize_t n = writes ? pwrite(f->fd, piece, STORAGE_PIECE, at) : pread(f->fd, piece, STORAGE_PIECE, at);
        if (n != STORAGE_PIECE)
            return TX_FAIL(TX_ERR_IO, "--machine-file: cannot %s the folder's disk: %m", writes ? "write to" : "read");
    }
    if (writes && fdatasync(f->fd)) return TX_FAIL(TX_ERR_IO, "--machine-file: cannot write to the folder's disk: %m");
    *seconds = tx_clock() - start;
    return TX_OK;
}

/* The slower of writing and reading. */
static tx_status measure_storage(tx_machine *m, const char *dir, size_t bytes)
{
    tx_scratch_file f;
    char name[64], *piece = NULL;
    double writing, reading;
    snprintf(name, sizeof name, ".triax-storage-%ld", (long)getpid());
    TX_TRY(tx_scratch_open(&f, dir, name, bytes, true));
    tx_status st;
    TX_GOTO(tx_alloc(&piece, STORAGE_PIECE + TX_DISK_BLOCK, 1, "a piece of a file"));
    char *aligned = piece + (TX_DISK_BLOCK - (uintptr_t)piece % TX_DISK_BLOCK) % TX_DISK_BLOCK;
    memset(aligned, 1, STORAGE_PIECE);
    TX_GOTO(move_file(&f, aligned, bytes, true, &writing));
    if (!f.direct) posix_fadvise(f.fd, 0, 0, POSIX_FADV_DONTNEED);
    TX_GOTO(move_file(&f, aligned, bytes, false, &reading));
    m->storage = (double)bytes / fmax(writing, reading);
    tx_info("  storage of %s: writes %.2f GB/s, reads %.2f GB/s", dir, (double)bytes * 1e-9 / writing,
            (double)bytes * 1e-9 / reading);
out:
    tx_free(piece);
    tx_scratch_close(&f);
    return st;
}

/* ---- ops ---- */

static const char *word_of(tx_dtype t)
{
    return t == TX_F32 ? "fp32" : t == TX_BF16 ? "bf16" : "fp16";
}

static int threads_of(const measuring *g, int n_ranks)
{
    return g->n_devices || g->n_cores < n_ranks ? 1 : g->n_cores / n_ranks;
}

/* What lies between the ops of a step: of the first model, which is the smallest, when least disturbed it. */
static void take_between(tx_machine *m, const tx__step_result *r)
{
    double between = (r->iteration - r->ops) / r->n_ops;
    if (between > 0 && (m->op_seconds == 0 || between < m->op_seconds)) m->op_seconds = between;
}

static tx_status measure_model(measuring *g, tx_op_times *times, tx__step_job *job)
{
    const tx_step_model *model = job->model;
    tx__step_result r;
    TX_TRY(tx__measure_steps(times, &r, job));
    if (job->n_ranks == 1 && job->plain) take_between(g->m, &r);
    tx_info("  %s, %d rank%s: %d layers of %d, %d tokens of %d: %.1f ms", word_of(job->dtype), job->n_ranks,
            job->n_ranks > 1 ? "s at once" : "", model->layers, model->hidden, model->seq * model->batch, model->vocab,
            1e3 * r.iteration);
    return TX_OK;
}

/* What disturbs a shared machine lasts for minutes. So each model is visited several times, with all others in between,
 * and an op's median is that of all visits. */
enum { VISITS = 3 };

static tx_status measure_models(measuring *g, tx_op_times *times, tx_dtype t, int n_ranks)
{
    double seconds = g->sizes->seconds / VISITS;
    for (int i = 0; i < g->sizes->n_models; i++) {
        const tx_step_model *model = &g->sizes->model[i];
        tx__step_job job = { model, g->device, t, n_ranks, threads_of(g, n_ranks), i == 0, 1, seconds };
        if (n_ranks > 1 && !model->by_several) continue;
        if (t == TX_F16 && !model->in_fp16) continue;
        TX_TRY(measure_model(g, times, &job));
    }
    return TX_OK;
}

/* ---- calls ---- */

/* Bytes a second of the largest call, as formulas of machine.h have it: what a rank sends. */
static double sent_per_s(const tx_machine *m, tx_comm_op op, int n_ranks)
{
    double most = 0, rate = 0;
    for (const tx_measured_op *e = m->op; e < m->op + m->n_ops; e++) {
        if (strcmp(e->op, tx_comm_op_names[op]) || e->ranks != n_ranks || e->dtype != TX_F32 || e->size < most)
            continue;
        most = e->size;
        rate = e->per_s * tx_comm_sent(op, n_ranks, (int64_t)e->size) / e->size;
    }
    return rate;
}

static tx_status measure_groups(measuring *g)
{
    tx_machine *m = g->m;
    m->node_pair = m->node_all = m->bandwidth; /* of a GPU alone: no one asks */
    for (int i = 1; i < N_OF(rank_counts); i++) {
        int n = rank_counts[i];
        tx__call_job job = {
            g->device, n, threads_of(g, n), g->sizes->bytes, g->sizes->n_bytes, g->sizes->seconds / 30
        };
        if (g->n_devices && n > g->n_devices) continue;
        TX_TRY(tx__measure_calls(m, &job));
        if (n == 2) m->node_pair = sent_per_s(m, TX_COMM_SEND, n);
        m->node_all = sent_per_s(m, TX_COMM_ALL_REDUCE, n);
        tx_info("  %d ranks: a rank sends %.2f GB/s in an all-reduce, %.2f GB/s to another rank", n, m->node_all * 1e-9,
                sent_per_s(m, TX_COMM_SEND, n) * 1e-9);
    }
    m->node_share = 1;
    TX_TRY(tx__measure_barrier(&m->node_latency, 2));
    tx_info("  an empty call of 2 ranks takes %.1f us", 1e6 * m->node_latency);
    return TX_OK;
}

/* ---- copies to the host ---- */

enum { COPY_BYTES = 128 << 20 };

static tx_status measure_host(measuring *g, tx_ctx *c)
{
    tx_ctx cpu;
    tx_bandwidth b;
    double best = INFINITY;
    char *there = NULL, *here = NULL;
    TX_TRY(tx_ctx_init(&cpu, "cpu", g->n_cores));
    tx_status st;
    TX_GOTO(cpu.backend->bandwidth(&cpu, &b));
    g->m->host_memory = fmax(b.read, b.copy);
    TX_GOTO(tx_device_take(c->device, &there, COPY_BYTES, false, "a copy"));
    TX_GOTO(tx_device_take_host(c->device, &here, COPY_BYTES, "a copy"));
    for (int i = 0; i < 5; i++) {
        double start = tx_clock();
        TX_GOTO(tx_device_copy(c->device, TX_STREAM_COPY, here, there, COPY_BYTES));
        TX_GOTO(tx_device_sync(c->device, TX_STREAM_COPY));
        best = fmin(best, tx_clock() - start);
    }
    g->m->host_bandwidth = COPY_BYTES / best;
out:
    tx_device_give_host(c->device, here);
    tx_device_give(c->device, there);
    tx_ctx_deinit(&cpu);
    return st;
}

/* ---- what the formulas have, from what was measured ---- */

#define BEYOND_CACHES 64e6 /* bytes */

static void fill_shares(tx_machine *m)
{
    double product = 0, forward = 0, backward = 0, moved = 0, seconds = 0;
    for (const tx_measured_product *p = m->product; p < m->product + m->n_products; p++)
        if (p->ranks == 1 && p->dtype == TX_F32) product = fmax(product, p->flops_per_s);
    for (const tx_measured_op *e = m->op; e < m->op + m->n_ops; e++) {
        if (e->ranks != 1 || e->dtype != TX_F32) continue;
        if (!strcmp(e->op, "attention_fwd")) forward = fmax(forward, e->per_s);
        if (!strcmp(e->op, "attention_bwd")) backward = fmax(backward, e->per_s);
        if (e->head > 0 || e->size < BEYOND_CACHES) continue;
        moved += e->size;
        seconds += e->size / e->per_s;
    }
    m->matrix_share = product / m->fp32_peak;
    m->attention_share = forward / m->fp32_peak;
    m->attention_bwd_share = backward / m->fp32_peak;
    if (seconds > 0) m->bandwidth_share = moved / seconds / m->bandwidth;
}

/* A machine that is busy with other things, or that only acts as a GPU, may be slower than a file allows. */
static void keep_bounds(tx_machine *m)
{
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++) {
        double *number = tx__machine_number_at(m, row);
        if (!(*number >= row->lo * row->unit)) *number = row->lo * row->unit;
        if (*number > row->hi * row->unit) *number = row->hi * row->unit;
    }
}

/* ---- all of it ---- */

static tx_status describe(tx_str *source, const measuring *g, const tx_ctx *c)
{
    return tx_str_printf(
        source,
        "Measured by triax doctor with backend %s: %s; %d threads. The rates of products and ops are those of "
        "training steps of small models, by ranks that are threads. Not measured, but assumed: "
        "\"network\" (%g GB/s a node), \"straggling\", \"spread\"; correct them for runs on several nodes.",
        c->backend->name, c->backend->describe(), g->n_cores, NET_GB_PER_S);
}

/* Whether so many ranks compute at the same time: GPUs are not shared, and of ranks that take turns on cores each
 * computes as the others do (measured_time.c). */
static bool measures(const measuring *g, tx_dtype t, int n_ranks)
{
    return n_ranks == 1 || (!g->n_devices && n_ranks <= g->n_cores && t != TX_F16);
}

static tx_status measure_ops(measuring *g)
{
    static const tx_dtype dtypes[] = { TX_F32, TX_BF16, TX_F16 };
    tx_op_times times[N_OF(rank_counts)][N_OF(dtypes)] = { 0 };
    tx_status st = TX_OK;
    for (int k = 0; k < VISITS * N_OF(rank_counts) * N_OF(dtypes) && !st; k++) {
        int t = k % N_OF(dtypes), i = k / N_OF(dtypes) % N_OF(rank_counts);
        if (measures(g, dtypes[t], rank_counts[i])) st = measure_models(g, &times[i][t], dtypes[t], rank_counts[i]);
    }
    for (int i = 0; i < N_OF(rank_counts); i++)
        for (int t = 0; t < N_OF(dtypes); t++) {
            if (!st) st = tx_op_times_rates(&times[i][t], rank_counts[i], g->m);
            tx_op_times_free(&times[i][t]);
        }
    return st;
}

tx_status tx_machine_measure(tx_machine *m, tx_str *source, const tx_config *cfg, const char *dir,
                             const tx_measure_sizes *sizes)
{
    measuring g = { .m = m, .cfg = cfg };
    tx_ctx c;
    double start = tx_clock();
    char time[32];
    *m = (tx_machine){ 0 };
    take_defaults(m);
    TX_TRY(find_device(&g));
    g.sizes = sizes ? sizes : g.n_devices ? &device_sizes : &host_sizes;
    tx_info("measuring this machine, which takes some minutes; nothing else should run meanwhile");
    TX_TRY(measure_storage(m, dir, g.sizes->storage));
    TX_TRY(tx_ctx_init(&c, g.device, g.n_cores));
    tx_status st;
    TX_GOTO(tx_ctx_take_memory(&c));
    TX_GOTO(find_machine(&g, &c));
    TX_GOTO(measure_host(&g, &c));
    TX_GOTO(describe(source, &g, &c));
    TX_GOTO(measure_groups(&g));
    TX_GOTO(measure_ops(&g));
    m->net_bandwidth = NET_GB_PER_S * 1e9;
    fill_shares(m);
    keep_bounds(m);
    tx_info("  measured %d products and %d ops and calls in %s", m->n_products, m->n_ops,
            tx_duration_text(time, tx_clock() - start));
out:
    tx_ctx_deinit(&c);
    return st;
}
