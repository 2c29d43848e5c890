/* draws.c - clusters of samples, and batches that are drawn from them. */
#include "data/draws.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "config/curriculum_metrics.h"
#include "data/metric_index.h"
#include "data/numpy_generator.h"

/* The samples of a cluster in the order in which they come, mapped. */
typedef struct cluster {
    uint32_t *sample; /* [n] */
    int64_t n, at;
} cluster;

/* A metric's files, and the difficulty of the last batch; before the first, less than all. */
typedef struct metric {
    const tx_curriculum_metric *is;
    tx_metric_index samples, values; /* values: unless percentiles count */
    int64_t difficulty, before;      /* before: of the batch before it */
} metric;

struct tx_draws {
    tx_curriculum_metrics metrics;
    metric *metric; /* [metrics.n] */
    const tx_config *cfg;
    int64_t length; /* of the last batch's samples */
    int64_t n_samples, batch_size, seed;
    int64_t iteration; /* of the batch that is there; 0: none */
    uint32_t *batch;   /* [batch_size] */
    cluster *cluster;
    int n_clusters;
    double *upto;                          /* [n_clusters] the shares of clusters, added up */
    int64_t *taken;                        /* [n_clusters] by a batch */
    unsigned char *drawn, *allowed, *easy; /* a bit a sample, where several metrics count: in a cluster; easy enough for
                                              all metrics so far, for one */
    tx_np_generator rng;
};

/* ---- opening ---- */

static tx_status check_samples(const metric *m, int64_t n_samples, const char *name)
{
    const tx_metric_index *ix = &m->samples;
    if (ix->n_values != n_samples)
        return TX_FAIL(TX_ERR_ARG,
                       "%s: is of %lld samples, and %s has %lld: repeat triax analyze-data with this run's data, "
                       "--split, --seq-length and --seed",
                       ix->prefix, (long long)ix->n_values, name, (long long)n_samples);
    for (int64_t k = 0; k < n_samples; k++) {
        int64_t i = tx_metric_index_at(ix, k);
        if (i < 0 || i >= n_samples)
            return TX_FAIL(TX_ERR_FORMAT,
                           "%s.bin: names a sample %lld, and there are %lld: is it an index_to_sample? "
                           "repeat triax analyze-data",
                           ix->prefix, (long long)i, (long long)n_samples);
    }
    if (m->is->percentile || (m->values.n_rows == ix->n_rows && m->values.n_values == ix->n_rows)) return TX_OK;
    return TX_FAIL(TX_ERR_ARG,
                   "%s has %lld rows and %s %lld: index_to_sample_path and index_to_metric_path are not of one metric, "
                   "or the first is ..._percentile_merged, which takes \"difficulty_type\": \"percentile\"",
                   m->values.prefix, (long long)m->values.n_rows, ix->prefix, (long long)ix->n_rows);
}

static tx_status open_metrics(tx_draws *d, const char *name)
{
    TX_TRY(tx_alloc(&d->metric, (size_t)d->metrics.n + 1, sizeof *d->metric, "the metrics"));
    for (int i = 0; i < d->metrics.n; i++) {
        metric *m = &d->metric[i];
        m->is = &d->metrics.metric[i];
        TX_TRY(tx_metric_index_open(&m->samples, m->is->index_to_sample));
        if (!m->is->percentile) TX_TRY(tx_metric_index_open(&m->values, m->is->index_to_metric));
        TX_TRY(check_samples(m, d->n_samples, name));
    }
    if (d->metrics.n < 2) return TX_OK;
    size_t bytes = ((size_t)d->n_samples + 7) / 8;
    TX_TRY(tx_alloc(&d->drawn, bytes, 1, "the samples that are drawn"));
    TX_TRY(tx_alloc(&d->allowed, bytes, 1, "the samples that are drawn"));
    return tx_alloc(&d->easy, bytes, 1, "the samples that are drawn");
}

static tx_status check_length(const tx_config *cfg, int64_t n_samples)
{
    double all = (double)n_samples * (double)cfg->data_sampling_num_epochs,
           run = (double)cfg->train_iters * (double)cfg->global_batch_size;
    if (run <= all) return TX_OK;
    return TX_FAIL(TX_ERR_ARG,
                   "--data-sampling-num-epochs %lld of %lld samples end before %lld iterations of %lld: raise it",
                   (long long)cfg->data_sampling_num_epochs, (long long)n_samples, (long long)cfg->train_iters,
                   (long long)cfg->global_batch_size);
}

static void begin(tx_draws *d);

tx_status tx_draws_open(tx_draws **out, const tx_config *cfg, int64_t n_samples, const char *name)
{
    tx_draws *d;
    tx_status st;
    if (n_samples >= UINT32_MAX)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s has %lld samples, and %lu can be drawn from", name, (long long)n_samples,
                       (unsigned long)UINT32_MAX - 1);
    TX_TRY(check_length(cfg, n_samples));
    TX_TRY(tx_alloc(&d, 1, sizeof *d, "the draws of samples"));
    d->cfg = cfg;
    d->n_samples = n_samples;
    d->batch_size = cfg->global_batch_size;
    d->seed = cfg->data_efficiency_seed;
    TX_GOTO(tx_curriculum_metrics_parse(&d->metrics, cfg->curriculum_metrics));
    TX_GOTO(open_metrics(d, name));
    TX_GOTO(tx_alloc(&d->batch, (size_t)d->batch_size, sizeof *d->batch, "a batch"));
    begin(d);
    *out = d;
    return TX_OK;
out:
    tx_draws_close(d);
    return st;
}

static void close_clusters(tx_draws *d)
{
    for (int c = 0; c < d->n_clusters; c++)
        munmap(d->cluster[c].sample, (size_t)d->cluster[c].n * sizeof *d->cluster[c].sample);
    d->n_clusters = 0;
}

void tx_draws_close(tx_draws *d)
{
    if (!d) return;
    close_clusters(d);
    for (int i = 0; d->metric && i < d->metrics.n; i++) {
        tx_metric_index_close(&d->metric[i].samples);
        tx_metric_index_close(&d->metric[i].values);
    }
    tx_free(d->metric);
    tx_curriculum_metrics_free(&d->metrics);
    tx_free(d->batch);
    tx_free(d->cluster);
    tx_free(d->upto);
    tx_free(d->taken);
    tx_free(d->drawn);
    tx_free(d->allowed);
    tx_free(d->easy);
    tx_free(d);
}

/* Before the first iteration. */
static void begin(tx_draws *d)
{
    close_clusters(d);
    tx_np_generator_seed(&d->rng, (uint64_t)d->seed);
    d->iteration = 0;
    for (int i = 0; i < d->metrics.n; i++) d->metric[i].difficulty = d->metric[i].is->percentile ? 0 : INT64_MIN;
    if (d->drawn) memset(d->drawn, 0, ((size_t)d->n_samples + 7) / 8);
}

/* ---- clusters ---- */

/* Memory of n samples: a file without a name in the folder, so that the system can put it out of memory. */
static tx_status map_cluster(cluster *c, const tx_draws *d, int64_t n)
{
    const char *folder = d->cfg->data_cluster_path;
    size_t bytes = (size_t)n * sizeof *c->sample;
    void *p = MAP_FAILED;
    if (!folder) {
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return TX_FAIL(TX_ERR_NOMEM, "not enough memory for a cluster of %lld samples", (long long)n);
    } else {
        char path[4096];
        TX_TRY(tx_make_dirs(folder));
        TX_TRY(tx_path_join(path, sizeof path, folder, "cluster-XXXXXX"));
        int fd = mkstemp(path), error = fd < 0 ? errno : 0;
        if (fd >= 0) {
            unlink(path);
            error = posix_fallocate(fd, 0, (off_t)bytes); /* a full disk would end the run at some later access */
            if (!error) p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (!error && p == MAP_FAILED) error = errno;
            close(fd);
        }
        if (error)
            return TX_FAIL(TX_ERR_IO, "--data-cluster-path %s: a file of %zu bytes cannot be made there: %s", folder,
                           bytes, strerror(error));
    }
    *c = (cluster){ .sample = p, .n = n };
    return TX_OK;
}

/* One more cluster of n samples, which the caller writes. */
static tx_status add_cluster(tx_draws *d, cluster **out, int64_t n)
{
    size_t all = (size_t)d->n_clusters + 1;
    TX_TRY(tx_realloc(&d->cluster, all, sizeof *d->cluster, "the clusters"));
    TX_TRY(tx_realloc(&d->upto, all, sizeof *d->upto, "the clusters"));
    TX_TRY(tx_realloc(&d->taken, all, sizeof *d->taken, "the clusters"));
    TX_TRY(map_cluster(&d->cluster[d->n_clusters], d, n));
    *out = &d->cluster[d->n_clusters++];
    return TX_OK;
}

/* Stretches of a metric's samples, as they lie in its file: [first, end) of all. */
typedef struct stretch {
    int64_t first, end;
} stretch;

/* Those of percentiles above `from` up to `to`. The last one ends with what is left over, again and again: where a
 * length changes later, upstream makes one more cluster of that. */
static stretch percentiles(const metric *m, int64_t from, int64_t to)
{
    int64_t n = m->samples.n_values, most = m->is->schedule.max, each = n / most;
    stretch s = { each * from, to == most ? n : each * to };
    if (s.end > n) s.end = n;
    if (s.first > s.end) s.first = s.end;
    return s;
}

/* The next row of values above `from` up to `to`, from *row on, which begins at s->end. */
static bool next_values(const metric *m, stretch *s, int64_t *row, const int64_t *above_to)
{
    while (*row < m->samples.n_rows) {
        int64_t value = tx_metric_index_at(&m->values, *row), n = tx_metric_index_row(&m->samples, (*row)++);
        *s = (stretch){ s->end, s->end + n };
        if (value > above_to[0] && value <= above_to[1]) return true;
    }
    return false;
}

/* Calls fn for all stretches of what is above `from` up to `to`. */
static void each_stretch(const metric *m, int64_t from, int64_t to, void (*fn)(void *user, const metric *m, stretch s),
                         void *user)
{
    const int64_t above_to[] = { from, to };
    stretch s = { 0, 0 };
    int64_t row = 0;
    if (m->is->percentile)
        fn(user, m, percentiles(m, from, to));
    else
        while (next_values(m, &s, &row, above_to)) fn(user, m, s);
}

static void count(void *user, const metric *m, stretch s)
{
    (void)m;
    *(int64_t *)user += s.end - s.first;
}

static void copy(void *user, const metric *m, stretch s)
{
    cluster *c = user;
    for (int64_t k = s.first; k < s.end; k++) c->sample[c->at++] = (uint32_t)tx_metric_index_at(&m->samples, k);
}

static void mark(void *user, const metric *m, stretch s)
{
    unsigned char *easy = user;
    for (int64_t k = s.first; k < s.end; k++) {
        int64_t i = tx_metric_index_at(&m->samples, k);
        easy[i / 8] |= (unsigned char)(1 << i % 8);
    }
}

/* Of one metric: what has come to be easy enough. */
static tx_status cluster_of_one(tx_draws *d)
{
    const metric *m = d->metric;
    cluster *c;
    int64_t n = 0;
    each_stretch(m, m->before, m->difficulty, count, &n);
    if (!n) return TX_OK;
    TX_TRY(add_cluster(d, &c, n));
    each_stretch(m, m->before, m->difficulty, copy, c);
    return TX_OK;
}

/* Of several: what is easy enough for all of them, and in no cluster. */
static tx_status cluster_of_several(tx_draws *d)
{
    size_t bytes = ((size_t)d->n_samples + 7) / 8;
    int64_t n = 0;
    cluster *c;
    for (size_t i = 0; i < bytes; i++) d->allowed[i] = (unsigned char)~d->drawn[i];
    for (int k = 0; k < d->metrics.n; k++) {
        const metric *m = &d->metric[k];
        memset(d->easy, 0, bytes);
        each_stretch(m, m->is->percentile ? 0 : INT64_MIN, m->difficulty, mark, d->easy);
        for (size_t i = 0; i < bytes; i++) d->allowed[i] &= d->easy[i];
    }
    for (size_t i = 0; i < bytes; i++) n += __builtin_popcount(d->allowed[i]);
    if (!n) return TX_OK;
    TX_TRY(add_cluster(d, &c, n));
    for (int64_t i = 0; i < d->n_samples; i++)
        if (d->allowed[i / 8] >> i % 8 & 1) c->sample[c->at++] = (uint32_t)i;
    for (size_t i = 0; i < bytes; i++) d->drawn[i] |= d->allowed[i];
    return TX_OK;
}

static tx_status cluster_of_all(tx_draws *d)
{
    cluster *c;
    if (d->n_clusters) return TX_OK;
    TX_TRY(add_cluster(d, &c, d->n_samples));
    while (c->at < c->n) {
        c->sample[c->at] = (uint32_t)c->at;
        c->at++;
    }
    return TX_OK;
}

/* The difficulties of the iteration, and the cluster that a new one makes. */
static tx_status renew_clusters(tx_draws *d)
{
    int64_t length = d->length, last;
    int before = d->n_clusters;
    d->length = tx_config_sample_length(d->cfg, d->iteration, &last);
    bool changes = d->iteration == 1 || d->length != length; /* a length is seqlen_truncate's difficulty */
    for (int i = 0; i < d->metrics.n; i++) {
        metric *m = &d->metric[i];
        m->before = m->difficulty;
        m->difficulty = tx_curriculum_at(&m->is->schedule, d->iteration);
        changes = changes || m->difficulty != m->before;
    }
    if (!changes) return TX_OK;
    TX_TRY(d->metrics.n > 1 ? cluster_of_several(d) : d->metrics.n ? cluster_of_one(d) : cluster_of_all(d));
    if (d->n_clusters > before) {
        cluster *c = &d->cluster[before];
        TX_ASSERT(c->at == c->n);
        c->at = 0;
        tx_np_generator_shuffle(&d->rng, c->sample, c->n);
    }
    if (!d->n_clusters)
        return TX_FAIL(TX_ERR_ARG,
                       "--curriculum-metrics: no sample is easy enough for iteration %lld: of %s the difficulty is "
                       "%lld; begin with a higher min_difficulty",
                       (long long)d->iteration, d->metric[0].is->name, (long long)d->metric[0].difficulty);
    int64_t all = 0;
    double sum = 0;
    for (int c = 0; c < d->n_clusters; c++) all += d->cluster[c].n;
    for (int c = 0; c < d->n_clusters; c++) d->upto[c] = sum += (double)d->cluster[c].n / (double)all;
    for (int c = 0; c < d->n_clusters; c++) d->upto[c] /= sum;
    return TX_OK;
}

/* ---- a batch ---- */

/* choice(n_clusters, batch_size, p=shares), counted */
static void draw_shares(tx_draws *d)
{
    memset(d->taken, 0, (size_t)d->n_clusters * sizeof *d->taken);
    for (int64_t j = 0; j < d->batch_size; j++) {
        double u = tx_np_generator_random(&d->rng);
        int lo = 0, hi = d->n_clusters - 1; /* the first whose upper end is above u */
        while (lo < hi) {
            int middle = (lo + hi) / 2;
            if (d->upto[middle] > u)
                hi = middle;
            else
                lo = middle + 1;
        }
        d->taken[lo]++;
    }
}

/* The cluster's next n samples. */
static void take(tx_draws *d, cluster *c, uint32_t *to, int64_t n)
{
    for (;;) {
        int64_t some = c->n - c->at < n ? c->n - c->at : n;
        memcpy(to, c->sample + c->at, (size_t)some * sizeof *to);
        c->at += some;
        to += some;
        n -= some;
        if (!n) return;
        tx_np_generator_shuffle(&d->rng, c->sample, c->n);
        c->at = 0;
    }
}

static tx_status draw_batch(tx_draws *d)
{
    uint32_t *to = d->batch;
    d->iteration++;
    TX_TRY(renew_clusters(d));
    draw_shares(d);
    for (int c = 0; c < d->n_clusters; c++) {
        take(d, &d->cluster[c], to, d->taken[c]);
        to += d->taken[c];
    }
    tx_np_generator_shuffle(&d->rng, d->batch, d->batch_size);
    return TX_OK;
}

tx_status tx_draws_batch(tx_draws *d, const uint32_t **batch, int64_t iteration)
{
    TX_ASSERT(iteration > 0);
    if (iteration < d->iteration) begin(d);
    while (d->iteration < iteration) TX_TRY(draw_batch(d));
    *batch = d->batch;
    return TX_OK;
}

int tx_draws_clusters(const tx_draws *d)
{
    return d->n_clusters;
}

int64_t tx_draws_cluster_size(const tx_draws *d, int c)
{
    return d->cluster[c].n;
}
