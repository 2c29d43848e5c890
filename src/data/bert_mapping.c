/* bert_mapping.c - the two passes over the sentences, and the shuffle. */
#include "data/bert_mapping.h"

#include <math.h>

#include "base/alloc.h"
#include "base/log.h"
#include "data/npy.h"
#include "data/numpy_rng.h"

enum { LONG_SENTENCE = 512 }; /* tokens; a document with a longer one is left out, as upstream does */

/* ---- MT19937-64 (Nishimura, Matsumoto 2000): std::mt19937_64, which upstream shuffles by ---- */

enum { N64 = 312, M64 = 156 };

typedef struct mt64 {
    uint64_t state[N64];
    int used;
} mt64;

static void mt64_seed(mt64 *r, uint64_t seed)
{
    uint64_t *x = r->state;
    x[0] = seed;
    for (uint64_t i = 1; i < N64; i++) x[i] = 6364136223846793005u * (x[i - 1] ^ (x[i - 1] >> 62)) + i;
    r->used = N64;
}

static uint64_t mt64_next(mt64 *r)
{
    uint64_t *x = r->state;
    if (r->used == N64) {
        for (int i = 0; i < N64; i++) {
            uint64_t y = (x[i] & 0xffffffff80000000u) | (x[(i + 1) % N64] & 0x7fffffffu);
            x[i] = x[(i + M64) % N64] ^ (y >> 1) ^ (y & 1 ? 0xb5026f5aa96619e9u : 0);
        }
        r->used = 0;
    }
    uint64_t y = x[r->used++];
    y ^= (y >> 29) & 0x5555555555555555u;
    y ^= (y << 17) & 0x71d67fffeda60000u;
    y ^= (y << 37) & 0xfff7eee000000000u;
    return y ^ (y >> 43);
}

static void shuffle(tx_bert_mapping *m, int32_t seed)
{
    mt64 rng;
    mt64_seed(&rng, (uint64_t)((int64_t)seed + 1));
    for (int64_t i = m->n_samples - 1; i > 0; i--) {
        uint64_t j = mt64_next(&rng) % ((uint64_t)i + 1);
        tx_bert_row t = m->row[i];
        m->row[i] = m->row[j];
        m->row[j] = t;
    }
}

/* ---- the passes ---- */

typedef struct pass {
    const tx_bert_mapping_opts *o;
    tx_np_rng rng; /* std::mt19937 has NumPy's seeding */
    uint32_t short_ratio;
    tx_bert_row *row; /* NULL: count only */
    int64_t n_rows;
    int64_t n_epochs;
    int64_t n_empty, n_single, n_long; /* documents of the first epoch */
} pass;

static int32_t draw_target(pass *p)
{
    uint32_t max = (uint32_t)p->o->max_tokens, r;
    if (!p->short_ratio) return p->o->max_tokens;
    r = tx_np_rng_u32(&p->rng);
    return (int32_t)(r % p->short_ratio ? max : 2 + r % (max - 1));
}

static bool has_long_sentence(const tx_indexed *ix, int64_t first, int64_t end)
{
    for (int64_t i = first; i < end; i++)
        if (tx_indexed_size(ix, i) > LONG_SENTENCE) return true;
    return false;
}

static void map_document(pass *p, int64_t first, int64_t end)
{
    const tx_indexed *ix = p->o->ix;
    int64_t n_tokens = 0, begin = first;
    bool first_epoch = !p->n_epochs, is_long = end - first > 1 && has_long_sentence(ix, first, end);
    p->n_empty += first_epoch && first == end;
    p->n_single += first_epoch && end - first == 1;
    p->n_long += first_epoch && is_long;
    if (is_long || end - first < p->o->min_sentences) return;
    int32_t target = draw_target(p);
    for (int64_t i = first; i < end; i++) {
        int64_t left = end - i - 1;
        n_tokens += tx_indexed_size(ix, i);
        if (left && (n_tokens < target || left == 1 || i + 1 - begin < p->o->min_sentences)) continue;
        if (p->row) p->row[p->n_rows] = (tx_bert_row){ begin, (int32_t)(i + 1 - begin), target };
        p->n_rows++;
        begin = i + 1;
        n_tokens = 0;
        target = draw_target(p); /* also after the last one: upstream's stream */
    }
}

/* Both passes draw the same numbers; the first tells how many rows the second writes. */
static void run_pass(pass *p)
{
    const tx_bert_mapping_opts *o = p->o;
    tx_np_rng_seed(&p->rng, (uint32_t)o->seed);
    p->n_rows = p->n_epochs = p->n_empty = p->n_single = p->n_long = 0;
    for (; !p->n_epochs || (p->n_rows && p->n_rows < o->n_samples); p->n_epochs++)
        for (int64_t d = o->first_doc; d < o->end_doc; d++)
            map_document(p, tx_indexed_doc_begin(o->ix, d), tx_indexed_doc_begin(o->ix, d + 1));
}

static tx_status check_limits(const tx_bert_mapping_opts *o)
{
    if (o->n_samples > UINT32_MAX)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %lld samples of BERT are asked for, at most %lu can be mapped",
                       o->ix->prefix, (long long)o->n_samples, (unsigned long)UINT32_MAX);
    for (int64_t d = o->first_doc; d < o->end_doc; d++) {
        int64_t n = tx_indexed_doc_begin(o->ix, d + 1) - tx_indexed_doc_begin(o->ix, d);
        if (n > INT32_MAX)
            return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: document %lld has %lld sentences, at most %d can be sampled",
                           o->ix->prefix, (long long)d, (long long)n, INT32_MAX);
    }
    return TX_OK;
}

tx_status tx_bert_mapping_build(tx_bert_mapping *out, const tx_bert_mapping_opts *o)
{
    TX_ASSERT(o->first_doc < o->end_doc && o->max_tokens >= 2 && o->min_sentences >= 1);
    pass p = { .o = o };
    if (o->short_seq_prob > 0) { /* as good as never beyond 32 bits */
        double ratio = round(1.0 / o->short_seq_prob);
        p.short_ratio = ratio < UINT32_MAX ? (uint32_t)ratio : UINT32_MAX;
    }
    TX_TRY(check_limits(o));
    run_pass(&p);
    if (!p.n_rows)
        return TX_FAIL(TX_ERR_ARG,
                       "%s: documents %lld to %lld give no sample (%lld empty, %lld of one sentence, %lld with a "
                       "sentence above %d tokens): BERT needs documents of %d or more sentences, as preprocess-data "
                       "--split-sentences makes them",
                       o->ix->prefix, (long long)o->first_doc, (long long)o->end_doc - 1, (long long)p.n_empty,
                       (long long)p.n_single, (long long)p.n_long, LONG_SENTENCE, o->min_sentences);
    tx_info("    reached %lld samples after %lld epochs ...", (long long)o->n_samples, (long long)p.n_epochs);
    tx_info("   number of empty documents: %lld", (long long)p.n_empty);
    tx_info("   number of documents with one sentence: %lld", (long long)p.n_single);
    tx_info("   number of documents with long sentences: %lld", (long long)p.n_long);
    tx_info("   will create mapping for %lld samples", (long long)p.n_rows);
    tx_bert_mapping m = { .n_samples = p.n_rows };
    TX_TRY(tx_alloc(&m.row, (size_t)m.n_samples, sizeof *m.row, "the samples of a dataset"));
    p.row = m.row;
    run_pass(&p);
    shuffle(&m, o->seed);
    *out = m;
    return TX_OK;
}

/* ---- Megatron's own file ---- */

static tx_status check_row(const tx_bert_mapping_opts *o, int64_t i, int64_t first, int64_t end, int64_t target,
                           const char *path)
{
    const tx_indexed *ix = o->ix;
    int64_t least = tx_indexed_doc_begin(ix, o->first_doc), most = tx_indexed_doc_begin(ix, o->end_doc);
    if (first < least || end > most || first > end || end - first < o->min_sentences || end - first > INT32_MAX)
        return TX_FAIL(
            TX_ERR_FORMAT,
            "%s: row %lld has sentences %lld to %lld; a sample has %d or more of the split's %lld to %lld: the "
            "index was made for another dataset, --split or head",
            path, (long long)i, (long long)first, (long long)end - 1, o->min_sentences, (long long)least,
            (long long)most - 1);
    if (tx_indexed_doc_of(ix, first) != tx_indexed_doc_of(ix, end - 1))
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: row %lld goes over the end of document %lld: the index was made for another "
                       "dataset",
                       path, (long long)i, (long long)tx_indexed_doc_of(ix, first));
    if (target < 2 || target > o->max_tokens)
        return TX_FAIL(TX_ERR_FORMAT, "%s: row %lld has %lld tokens, but --seq-length allows 2 to %d", path,
                       (long long)i, (long long)target, o->max_tokens);
    return TX_OK;
}

tx_status tx_bert_mapping_open(tx_bert_mapping *out, const tx_bert_mapping_opts *o, const char *path)
{
    TX_ASSERT(o->first_doc < o->end_doc && o->max_tokens >= 2 && o->min_sentences >= 1);
    tx_bert_mapping m = { 0 };
    tx_npy file;
    tx_info(" > loading indexed mapping from %s", path);
    TX_TRY(tx_npy_open(&file, path));
    tx_status st = TX_OK;
    m.n_samples = file.dim[0];
    if (file.n_dims != 2 || file.dim[1] != 3)
        st = TX_FAIL(TX_ERR_FORMAT, "%s: has not three columns, as the index of a BERT dataset has", path);
    else if (m.n_samples < 1 || m.n_samples < o->n_samples)
        st = TX_FAIL(TX_ERR_ARG, "%s: has %lld samples, the run needs %lld", path, (long long)m.n_samples,
                     (long long)o->n_samples);
    if (!st) st = tx_alloc(&m.row, (size_t)m.n_samples, sizeof *m.row, "the samples of a dataset");
    for (int64_t i = 0; i < m.n_samples && !st; i++) {
        int64_t v[3];
        for (int k = 0; k < 3; k++) v[k] = tx_ints_at(&file.ints, 3 * i + k);
        st = check_row(o, i, v[0], v[1], v[2], path);
        m.row[i] = (tx_bert_row){ v[0], (int32_t)(v[1] - v[0]), (int32_t)v[2] };
    }
    tx_npy_close(&file);
    if (st)
        tx_bert_mapping_free(&m);
    else
        *out = m;
    return st;
}

void tx_bert_mapping_free(tx_bert_mapping *m)
{
    tx_free(m->row);
    *m = (tx_bert_mapping){ 0 };
}
