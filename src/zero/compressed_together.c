/* compressed_together.c - an average that is sent as signs of all tensors side by side, with one size.
 *
 *      bundle     | word embeddings | a layer's matrices ... | biases and norms ... |    matrices first, which decay
 *      servers    | 0                | 1                | 2                 | 3     |    parts of equal size
 *      signs      a tensor's of a server begin with a word of their own
 *
 *  So that a tensor with large numbers does not decide how far others move, each is multiplied by a scale of its own
 * before. Several ranks may have the same tensor, which must have the same average on each: what tensor ranks divide is
 * one bundle, what each of them has whole another, and the matrix of both ends of the pipeline one by itself. */
#include <math.h>

#include "base/alloc.h"
#include "base/exact.h"
#include "zero/compressed.h"

static const char what[] = "what compression leaves out";

enum { WHOLE, DIVIDED, TIED };

static int kind_of(const tx_zero *z, int range)
{
    const tx_param *p = &z->ps->param[z->fragment[range].row];
    if (p->tied && tx_comm_size(tx_grid_group(z->grid, TX_GROUP_ENDS)) > 1) return TIED;
    return p->n_tp > 1 ? DIVIDED : WHOLE;
}

/* ---- the layout ---- */

static int64_t run_in(const tx_zero *z, const tx_compressed_bundle *b, int range, int r, int64_t *first)
{
    int64_t begin = z->compressed.begin[range], n = z->range[range].n_real;
    int64_t lo = r * b->part - begin, hi = lo + b->part;
    lo = lo < 0 ? 0 : lo > n ? n : lo;
    hi = hi < lo ? lo : hi > n ? n : hi;
    *first = lo;
    return hi - lo;
}

/* Of units, which lie otherwise in memory: the order of Megatron's modules, which decides what a server has. */
enum { FIRST_PLACE, LAST_PLACE = 3 };

static int place_of(const tx_zero *z, int range)
{
    switch (z->ps->unit[z->ps->param[z->fragment[range].row].unit].kind) {
    case TX_UNIT_WORDS:
        return FIRST_PLACE;
    case TX_UNIT_EMBEDDING:
        return FIRST_PLACE + 1;
    case TX_UNIT_LAYER:
        return FIRST_PLACE + 2;
    case TX_UNIT_HEAD:
        break;
    }
    return LAST_PLACE;
}

/* The tensors of a kind that decay, or do not, and have a place. */
static void add_tensors(tx_zero *z, int kind, bool decay, int place)
{
    tx_compressed *m = &z->compressed;
    tx_compressed_bundle *b = &m->bundle[m->n_bundles];
    for (int i = 0; i < z->n_ranges; i++) {
        if (kind_of(z, i) != kind || z->range[i].decay != decay || place_of(z, i) != place) continue;
        m->begin[i] = b->n;
        m->bundle_of[i] = m->n_bundles;
        m->order[b->end++] = i;
        b->n += z->range[i].n_real;
    }
}

static void add_bundle(tx_zero *z, int kind)
{
    tx_compressed *m = &z->compressed;
    tx_compressed_bundle *b = &m->bundle[m->n_bundles];
    *b = (tx_compressed_bundle){ .first = m->n_bundles ? b[-1].end : 0, .word = m->most.words, .served = m->served };
    b->end = b->first;
    for (int decay = 1; decay >= 0; decay--)
        for (int place = FIRST_PLACE; place <= LAST_PLACE; place++) add_tensors(z, kind, decay != 0, place);
    if (b->end == b->first) return;
    b->part = tx__compressed_part(z, b->n);
    int64_t words = 0;
    for (int r = 0; r < tx_zero_n_workers(z); r++) {
        int64_t of_r = 0, first;
        for (int k = b->first; k < b->end; k++) of_r += tx__sign_words(run_in(z, b, m->order[k], r, &first));
        if (of_r > words) words = of_r;
    }
    m->most.words += words;
    m->served += b->part;
    m->most.tensors = ++m->n_bundles;
}

tx_status tx__together_plan(tx_zero *z)
{
    tx_compressed *m = &z->compressed;
    size_t n = (size_t)z->n_ranges + 1;
    TX_TRY(tx_alloc(&m->begin, n, sizeof *m->begin, what));
    TX_TRY(tx_alloc(&m->order, n, sizeof *m->order, what));
    TX_TRY(tx_alloc(&m->bundle_of, n, sizeof *m->bundle_of, what));
    TX_TRY(tx_alloc(&m->scale, (size_t)z->table[tx_optim_type_of(z->cfg->optimizer)->scaling].numel + 1,
                    sizeof *m->scale, what));
    for (int kind = WHOLE; kind <= TIED; kind++) add_bundle(z, kind);
    m->average = TX_DRY_ADDRESS;
    return TX_OK;
}

void tx__together_close(tx_zero *z)
{
    tx_compressed *m = &z->compressed;
    tx_free(m->begin);
    tx_free(m->order);
    tx_free(m->bundle_of);
    tx_free(m->scale);
}

int64_t tx__together_run(const tx_zero *z, int range, int r, int64_t *first, int64_t *served)
{
    const tx_compressed *m = &z->compressed;
    const tx_compressed_bundle *b = &m->bundle[m->bundle_of[range]];
    int64_t n = run_in(z, b, range, r, first);
    *served = b->served + (n ? m->begin[range] + *first - r * b->part : 0);
    return n;
}

/* ---- scales ---- */

/* Where the scale of a range's tensor is in the buffer of state. */
static int64_t scale_at(const tx_zero *z, int range)
{
    return z->table[z->optim.type->scaling].at[z->fragment[range].row];
}

/* Sums of the squares of all momentums, to z->optim.norms.seen_sums. */
static tx_status sum_momentums(tx_zero *z)
{
    tx_optim *o = &z->optim;
    tx_tensor sums;
    TX_TRY(tx_optim_measure_begin(z->c, o));
    for (int i = 0; i < z->n_ranges; i++) {
        const tx_optim_range *r = &z->range[i];
        tx_optim_norm norm = tx_optim_norm_of(o, r);
        for (int64_t at = 0; at < r->n_real; at += o->slab) {
            int64_t n = r->n_real - at < o->slab ? r->n_real - at : o->slab;
            tx_tensor blocks = tx_tensor1(norm.blocks, TX_F64, tx_sumsq_blocks(n));
            TX_RUN(z->c, sumsq, .out = blocks, .x = tx_tensor1(r->state[0] + at, TX_F32, n));
            TX_RUN(z->c, exact_add, .sum = norm.sum[0], .x = blocks);
        }
    }
    TX_TRY(tx_optim_measure_sums(z->c, o, &sums));
    TX_TRY(tx__zero_add_norms(z, sums));
    return tx_device_read(z->c->device, o->norms.seen_sums, sums.data, (size_t)tx_numel(sums) * sizeof(int64_t));
}

static double momentum_of(const tx_zero *z, int range)
{
    const tx_optim_range *r = &z->range[range];
    const tx_exact *sum = (const tx_exact *)(z->optim.norms.seen_sums + (size_t)r->tensor * 2 * TX_EXACT_WORDS);
    return sqrt(tx_exact_value(sum) / (double)(r->n_whole ? r->n_whole : 1));
}

/* Before the first average: with these all momentums of a bundle are of one size. What has none stays as it is. */
static tx_status make_scales(tx_zero *z)
{
    tx_compressed *m = &z->compressed;
    int k = z->optim.type->scaling;
    TX_TRY(sum_momentums(z));
    for (const tx_compressed_bundle *b = m->bundle; b < m->bundle + m->n_bundles; b++) {
        double sum = 0;
        for (int i = b->first; i < b->end; i++) sum += momentum_of(z, m->order[i]);
        for (int i = b->first; i < b->end; i++) {
            double size = momentum_of(z, m->order[i]);
            m->scale[scale_at(z, m->order[i])] = size > 0 ? (float)(sum / (b->end - b->first) / size) : 1;
        }
    }
    return tx_device_write(z->c->device, z->state[k], m->scale, (size_t)z->table[k].numel * sizeof *m->scale);
}

static tx_status find_scales(tx_zero *z)
{
    int k = z->optim.type->scaling;
    float *scale = z->compressed.scale;
    if (z->compressed.step.begins) return make_scales(z);
    return tx_device_read(z->c->device, scale, z->state[k], (size_t)z->table[k].numel * sizeof *scale);
}

static double scale_of(const tx_zero *z, int range)
{
    return (double)z->compressed.scale[scale_at(z, range)];
}

/* ---- the steps (compressed.h) ---- */

static tx_status sizes_begin(const tx_zero *z)
{
    static const tx_exact zero;
    return tx_device_copy(z->c->device, TX_STREAM_COMPUTE, z->compressed.squares, &zero, sizeof zero);
}

static tx_status sizes_add(const tx_zero *z, float *x, int64_t n)
{
    const tx_compressed *m = &z->compressed;
    tx_tensor blocks = tx_tensor1(m->blocks, TX_F64, tx_sumsq_blocks(n));
    if (!n) return TX_OK;
    TX_RUN(z->c, sumsq, .out = blocks, .x = tx_tensor1(x, TX_F32, n));
    TX_RUN(z->c, exact_add, .sum = tx_tensor1(m->squares, TX_I64, TX_EXACT_WORDS), .x = blocks);
    return TX_OK;
}

/* Of n numbers; what clip says besides is written over by the next bundle's. */
static tx_status sizes_end(const tx_zero *z, int bundle, int64_t n)
{
    const tx_compressed *m = &z->compressed;
    TX_RUN(z->c, clip, .out = tx_tensor1(m->size + bundle, TX_F64, 3),
           .sum = tx_tensor1(m->squares, TX_I64, TX_EXACT_WORDS), .loss_scale = sqrt((double)(n > 0 ? n : 1)));
    return TX_OK;
}

/* The worker's errors of a range. */
static float *errors_of(const tx_zero *z, int range)
{
    return z->compressed.worker + z->fragment[range].at;
}

/* The signs of server r's part of a bundle, to its row of `sent`: of this rank's errors as a worker, or as that server.
 */
static tx_status pack_for(const tx_zero *z, int k, int r, bool served)
{
    const tx_compressed *m = &z->compressed;
    const tx_compressed_bundle *b = &m->bundle[k];
    int64_t at = r * m->most.words + b->word, first, place;
    for (int i = b->first; i < b->end; i++) {
        int64_t n = tx__together_run(z, m->order[i], r, &first, &place);
        float *x = served ? m->server + place : errors_of(z, m->order[i]) + first;
        if (n)
            TX_RUN(z->c, sign_pack, .bits = tx_tensor1(m->sent + at, TX_I32, tx__sign_words(n)),
                   .x = tx_tensor1(x, TX_F32, n), .scale = tx_tensor1(m->size + k, TX_F64, 1));
        at += tx__sign_words(n);
    }
    return TX_OK;
}

/* Step 1, of a bundle. */
static tx_status work(const tx_zero *z, int k)
{
    const tx_compressed *m = &z->compressed;
    const tx_compressed_bundle *b = &m->bundle[k];
    TX_TRY(sizes_begin(z));
    for (int i = b->first; i < b->end; i++) {
        const tx_optim_range *r = &z->range[m->order[i]];
        tx_tensor error = tx_tensor1(errors_of(z, m->order[i]), TX_F32, r->n_real);
        if (r->n_real)
            TX_RUN(z->c, blend, .y = error, .x = tx_tensor1(r->direction, TX_F32, r->n_real), .z = error,
                   .alpha = scale_of(z, m->order[i]), .beta = 1);
        TX_TRY(sizes_add(z, error.data, r->n_real));
    }
    TX_TRY(sizes_end(z, k, b->n));
    for (int r = 0; r < tx_zero_n_workers(z); r++) TX_TRY(pack_for(z, k, r, false));
    return TX_OK;
}

/* Step 3: of all workers' signs in `got` the mean's, in this rank's row of `sent`. */
static tx_status serve(const tx_zero *z, int k)
{
    const tx_compressed *m = &z->compressed;
    const tx_compressed_bundle *b = &m->bundle[k];
    int ranks = tx_zero_n_workers(z), rank = tx_zero_worker(z);
    int64_t at = b->word, all = 0, first, place;
    tx_tensor scale = tx_tensor2(m->sizes + k, TX_F64, ranks, 1);
    scale.stride[0] = m->n_bundles;
    TX_TRY(sizes_begin(z));
    for (int i = b->first; i < b->end; i++) {
        int64_t n = tx__together_run(z, m->order[i], rank, &first, &place);
        if (n)
            TX_RUN(z->c, sign_sum, .y = tx_tensor1(m->server + place, TX_F32, n),
                   .bits = tx__sign_rows(m->got + at, ranks, n, m->most.words), .scale = scale,
                   .factor = 1 / (double)ranks, .accumulate = true);
        TX_TRY(sizes_add(z, m->server + place, n));
        at += tx__sign_words(n);
        all += n;
    }
    TX_TRY(sizes_end(z, k, all));
    return pack_for(z, k, rank, true);
}

/* Step 4, as compressed.c's. */
static tx_status take(const tx_zero *z, int k, int from)
{
    const tx_compressed *m = &z->compressed;
    const tx_compressed_bundle *b = &m->bundle[k];
    int64_t at = from * m->most.words + b->word, first, place;
    for (int i = b->first; i < b->end; i++) {
        const tx_optim_range *r = &z->range[m->order[i]];
        int64_t n = tx__together_run(z, m->order[i], from, &first, &place);
        if (n)
            TX_RUN(z->c, sign_sum, .y = tx_tensor1(r->direction + first, TX_F32, n),
                   .bits = tx__sign_rows(m->sent + at, 1, n, m->most.words),
                   .scale = tx_tensor2(m->sizes + from * m->n_bundles + k, TX_F64, 1, 1),
                   .factor = 1 / scale_of(z, m->order[i]), .mask = tx_tensor1(r->state[1] + first, TX_F32, n));
        at += tx__sign_words(n);
    }
    return TX_OK;
}

static tx_status average(tx_zero *z)
{
    tx_compressed *m = &z->compressed;
    tx_comm *g = tx__compressed_workers(z);
    int ranks = tx_comm_size(g);
    int64_t words = m->most.words;
    tx_tensor sent = tx_tensor1(m->sent, TX_I32, ranks * words), got = tx_tensor1(m->got, TX_I32, ranks * words);
    const tx_all_to_all_rows rows = { m->rows, m->rows, ranks * ranks * words };
    for (int k = 0; k < m->n_bundles; k++) TX_TRY(work(z, k));
    for (int r = 0; r < ranks; r++) m->rows[r] = words;
    TX_TRY(tx_all_to_all(z->c, g, got, sent, &rows));
    TX_TRY(tx__gather_sizes(z, m->n_bundles));
    for (int k = 0; k < m->n_bundles; k++) TX_TRY(serve(z, k));
    TX_TRY(tx_all_gather(z->c, g, sent, tx_slice1(sent, tx_comm_rank(g) * words, words)));
    TX_TRY(tx__gather_sizes(z, m->n_bundles));
    for (int k = 0; k < m->n_bundles; k++)
        for (int from = 0; from < ranks; from++) TX_TRY(take(z, k, from));
    return TX_OK;
}

tx_status tx__together_step(tx_zero *z, const tx_optim_step *s)
{
    const tx_compressed *m = &z->compressed;
    if (!m->together || !m->step.averages || !m->goes) return TX_OK;
    tx_at_part(z->c, "optimizer.compressed");
    TX_TRY(find_scales(z));
    for (int i = 0; i < z->n_ranges; i++) {
        tx_optim_step one = tx_optim_step_of(s, &z->range[i]);
        TX_TRY(z->optim.type->direction(z->c, &z->optim, &z->range[i], &one));
    }
    return tx_zero_n_workers(z) > 1 ? average(z) : TX_OK;
}
