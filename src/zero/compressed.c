/* compressed.c - averages that are sent as signs. */
#include "zero/compressed.h"

#include <math.h>

#include "base/alloc.h"

static const char what[] = "what compression leaves out";

bool tx_zero_compresses(const tx_zero *z)
{
    return z->compressed.on && tx_optim_signs_of(&z->optim).own;
}

/* ---- sizes: without ZeRO a range is a tensor; what pads the vocabulary stays as it is ---- */

tx_comm *tx__compressed_workers(const tx_zero *z)
{
    return tx_grid_group(z->grid, z->grid->near ? TX_GROUP_FAR : TX_GROUP_DATA);
}

static tx_comm *own_worker(const tx_zero *z)
{
    return tx_grid_group(z->grid, TX_GROUP_NEAR);
}

int tx_zero_n_workers(const tx_zero *z)
{
    return tx_comm_size(tx__compressed_workers(z));
}

int tx_zero_worker(const tx_zero *z)
{
    return tx_comm_rank(tx__compressed_workers(z));
}

int64_t tx__compressed_part(const tx_zero *z, int64_t n)
{
    int64_t workers = tx_zero_n_workers(z), each = (n + workers - 1) / workers;
    return (each + 7) / 8 * 8;
}

int64_t tx__compressed_run(const tx_zero *z, int64_t n, int r, int64_t *first)
{
    int64_t part = tx__compressed_part(z, n);
    *first = r * part < n ? r * part : n;
    return n - *first < part ? n - *first : part;
}

tx_compressed_size tx_zero_compressed_size(const tx_zero *z, int k)
{
    const tx_compressed *m = &z->compressed;
    if (m->together) return k ? (tx_compressed_size){ 0, 0 } : (tx_compressed_size){ m->most.words, m->n_bundles };
    tx_compressed_size size = { .tensors = z->first_range[k + 1] - z->first_range[k] };
    for (int i = z->first_range[k]; i < z->first_range[k + 1]; i++)
        size.words += tx__sign_words(tx__compressed_part(z, z->range[i].n_real));
    int64_t near = tx_comm_size(own_worker(z));
    size.words = (size.words + near - 1) / near * near;
    return size;
}

/* ---- memory ---- */

tx_status tx__compressed_plan(tx_zero *z)
{
    tx_compressed *m = &z->compressed;
    if (!m->on) return TX_OK;
    TX_TRY(tx_alloc(&m->rows, (size_t)tx_zero_n_workers(z), sizeof *m->rows, what));
    for (int i = 0; i < z->n_ranges; i++) /* the table's order is that of what is kept */
        TX_ASSERT(z->fragment[i].at == z->ps->param[z->fragment[i].row].offset);
    m->together = tx_optim_type_of(z->cfg->optimizer)->together;
    if (m->together) TX_TRY(tx__together_plan(z));
    for (int i = 0; i < z->n_ranges && !m->together; i++) m->served += tx__compressed_part(z, z->range[i].n_real);
    for (int k = 0; k < z->flat.n_buckets && !m->together; k++) {
        tx_compressed_size of = tx_zero_compressed_size(z, k);
        if (of.words > m->most.words) m->most.words = of.words;
        if (of.tensors > m->most.tensors) m->most.tensors = of.tensors;
    }
    m->worker = m->server = TX_DRY_ADDRESS;
    m->sent = m->got = TX_DRY_ADDRESS;
    m->size = m->sizes = TX_DRY_ADDRESS;
    m->blocks = TX_DRY_ADDRESS;
    m->squares = TX_DRY_ADDRESS;
    return TX_OK;
}

/* Of each array the address, and bytes. */
enum { N_ARRAYS = 9 };

static void arrays_of(tx_zero *z, void **at[N_ARRAYS], size_t bytes[N_ARRAYS])
{
    tx_compressed *m = &z->compressed;
    int64_t workers = tx_zero_n_workers(z), most = 0;
    for (int i = 0; i < z->n_ranges; i++)
        if (z->range[i].n_real > most) most = z->range[i].n_real;
    void **const all[N_ARRAYS] = { (void **)&m->worker, (void **)&m->server,  (void **)&m->sent,
                                   (void **)&m->got,    (void **)&m->size,    (void **)&m->sizes,
                                   (void **)&m->blocks, (void **)&m->squares, (void **)&m->average };
    const int64_t n[N_ARRAYS] = { z->flat.kept.numel * 4,
                                  m->served * 4,
                                  workers * m->most.words * 4,
                                  workers * m->most.words * 4,
                                  (m->most.tensors + 2) * 8,
                                  workers * m->most.tensors * 8,
                                  tx_sumsq_blocks(most) * 8,
                                  TX_EXACT_WORDS * 8,
                                  m->together ? z->flat.kept.numel * 4 : 0 };
    for (int i = 0; i < N_ARRAYS; i++) {
        at[i] = all[i];
        bytes[i] = (size_t)n[i];
    }
}

tx_status tx__compressed_take(tx_zero *z)
{
    void **at[N_ARRAYS];
    size_t bytes[N_ARRAYS];
    if (!z->compressed.on) return TX_OK;
    arrays_of(z, at, bytes);
    for (int i = 0; i < N_ARRAYS; i++) *at[i] = NULL;
    for (int i = 0; i < N_ARRAYS; i++)
        if (bytes[i]) TX_TRY(tx_device_take(z->c->device, at[i], bytes[i], true, what));
    return TX_OK;
}

void tx__compressed_close(tx_zero *z)
{
    void **at[N_ARRAYS];
    size_t bytes[N_ARRAYS];
    tx_free(z->compressed.rows);
    tx__together_close(z);
    if (!z->compressed.on || !z->compressed.worker || z->compressed.worker == TX_DRY_ADDRESS) return;
    arrays_of(z, at, bytes);
    for (int i = 0; i < N_ARRAYS; i++) tx_device_give(z->c->device, *at[i]);
    tx_free(z->compressed.parts);
}

size_t tx__compressed_bytes(const tx_zero *z)
{
    void **at[N_ARRAYS];
    size_t bytes[N_ARRAYS], sum = 0;
    if (!z->compressed.on) return 0;
    arrays_of((tx_zero *)z, at, bytes);
    for (int i = 0; i < N_ARRAYS; i++) sum += bytes[i];
    return sum;
}

/* ---- the steps ---- */

/* The tensor's |x| / sqrt(n); of nothing 0. What clip says besides is written over by the next tensor's. */
static tx_status size_of(const tx_zero *z, int tensor, float *x, int64_t n)
{
    const tx_compressed *m = &z->compressed;
    tx_tensor squares = tx_tensor1(m->squares, TX_I64, TX_EXACT_WORDS);
    tx_tensor size = tx_tensor1(m->size + tensor, TX_F64, 3);
    int64_t blocks = tx_sumsq_blocks(n);
    static const tx_exact zero;
    if (!z->c->dry) TX_TRY(tx_device_copy(z->c->device, TX_STREAM_COMPUTE, m->squares, &zero, sizeof zero));
    if (n) {
        TX_RUN(z->c, sumsq, .out = tx_tensor1(m->blocks, TX_F64, blocks), .x = tx_tensor1(x, TX_F32, n));
        TX_RUN(z->c, exact_add, .sum = squares, .x = tx_tensor1(m->blocks, TX_F64, blocks));
    }
    TX_RUN(z->c, clip, .out = size, .sum = squares, .loss_scale = sqrt((double)(n ? n : 1)));
    return TX_OK;
}

/* Where a tensor begins. */
typedef struct place {
    int tensor;         /* of the bucket */
    int64_t at, served; /* of a worker's words; of the errors of the parts that it is the server of */
} place;

/* Words of a bucket: a rank of a worker sends and gets a slice of what its worker does, and the slices of all workers
 * that are of the same rank lie side by side:
 *
 *      near rank 0's   worker 0 | worker 1 | ...    near rank 1's   worker 0 | worker 1 | ... */
typedef struct words {
    int64_t all, slice, block; /* of one worker; of these in a slice; of a near rank's slices */
} words;

static words words_in(const tx_zero *z, int k)
{
    int64_t all = tx_zero_compressed_size(z, k).words, slice = all / tx_comm_size(own_worker(z));
    return (words){ all, slice, slice * tx_zero_n_workers(z) };
}

/* Of a worker's words those from `at` on, of n elements, begin at `word` of a slice of worker 0; n of these are in it.
 */
typedef struct piece {
    int64_t word, n;
} piece;

static piece piece_at(const words *w, int64_t at, int64_t n)
{
    int64_t in = at % w->slice, room = (w->slice - in) * 32;
    return (piece){ at / w->slice * w->block + in, n < room ? n : room };
}

/* @to whose slice gets them */
static tx_status pack(const tx_zero *z, const words *w, place p, int to, tx_tensor x)
{
    const tx_compressed *m = &z->compressed;
    for (int64_t i = 0; i < x.dim[0];) {
        piece s = piece_at(w, p.at + i / 32, x.dim[0] - i);
        TX_RUN(z->c, sign_pack, .bits = tx_tensor1(m->sent + s.word + to * w->slice, TX_I32, tx__sign_words(s.n)),
               .x = tx_slice1(x, i, s.n), .scale = tx_tensor1(m->size + p.tensor, TX_F64, 1));
        i += s.n;
    }
    return TX_OK;
}

tx_status tx__gather_sizes(const tx_zero *z, int64_t tensors)
{
    const tx_compressed *m = &z->compressed;
    tx_tensor all = tx_tensor1(m->sizes, TX_F64, tx_zero_n_workers(z) * tensors);
    return tx_all_gather(z->c, tx__compressed_workers(z), all, tx_tensor1(m->size, TX_F64, tensors));
}

static place next_of(const tx_zero *z, place p, int64_t n)
{
    int64_t part = tx__compressed_part(z, n);
    return (place){ p.tensor + 1, p.at + tx__sign_words(part), p.served + part };
}

/* What is averaged, and its average. */
static float *averaged(const tx_zero *z, const tx_optim_range *r)
{
    return r->state[z->optim.type->averaged];
}

/* Step 1, of a tensor. */
static tx_status work(const tx_zero *z, const tx_optim_range *r, place p, const words *w)
{
    const tx_compressed *m = &z->compressed;
    float *error = m->worker + (r->state[0] - z->state[0]);
    tx_tensor b = tx_tensor1(error, TX_F32, r->n_real);
    if (r->n_real) TX_RUN(z->c, add, .y = b, .a = tx_tensor1(averaged(z, r), TX_F32, r->n_real), .b = b);
    TX_TRY(size_of(z, p.tensor, error, r->n_real));
    for (int to = 0; to < tx_zero_n_workers(z); to++) {
        int64_t first, n = tx__compressed_run(z, r->n_real, to, &first);
        TX_TRY(pack(z, w, p, to, tx_slice1(b, first, n)));
    }
    return TX_OK;
}

tx_tensor tx__sign_rows(int32_t *word, int64_t rows, int64_t n, int64_t stride)
{
    tx_tensor t = tx_tensor2(word, TX_I32, rows, tx__sign_words(n));
    t.stride[0] = stride;
    return t;
}

/* Step 3: of all workers' signs in `got` the mean's, in this worker's slices of `sent`. */
static tx_status serve(const tx_zero *z, const tx_optim_range *r, place p, const words *w, int64_t tensors)
{
    const tx_compressed *m = &z->compressed;
    int workers = tx_zero_n_workers(z);
    int64_t first, n = tx__compressed_run(z, r->n_real, tx_zero_worker(z), &first);
    tx_tensor error = tx_tensor1(m->server + p.served, TX_F32, n);
    tx_tensor scale = tx_tensor2(m->sizes + p.tensor, TX_F64, workers, 1);
    scale.stride[0] = tensors;
    for (int64_t i = 0; i < n;) {
        piece s = piece_at(w, p.at + i / 32, n - i);
        TX_RUN(z->c, sign_sum, .y = tx_slice1(error, i, s.n),
               .bits = tx__sign_rows(m->got + s.word, workers, s.n, w->slice), .scale = scale,
               .factor = 1 / (double)workers, .accumulate = true);
        i += s.n;
    }
    TX_TRY(size_of(z, p.tensor, m->server + p.served, n));
    return pack(z, w, p, tx_zero_worker(z), error);
}

/* Step 4, of a tensor: what the servers have sent is its average. No sign says 0: what never had a gradient, whose
 * second buffer of state is 0, has no average. */
static tx_status take(const tx_zero *z, const tx_optim_range *r, place p, const words *w, int64_t tensors)
{
    const tx_compressed *m = &z->compressed;
    for (int from = 0; from < tx_zero_n_workers(z); from++) {
        int64_t first, n = tx__compressed_run(z, r->n_real, from, &first);
        for (int64_t i = 0; i < n;) {
            piece s = piece_at(w, p.at + i / 32, n - i);
            TX_RUN(z->c, sign_sum, .y = tx_tensor1(averaged(z, r) + first + i, TX_F32, s.n),
                   .bits = tx__sign_rows(m->sent + s.word + from * w->slice, 1, s.n, w->slice),
                   .scale = tx_tensor2(m->sizes + from * tensors + p.tensor, TX_F64, 1, 1), .factor = 1,
                   .mask = tx_tensor1(r->state[1] + first + i, TX_F32, s.n));
            i += s.n;
        }
    }
    return TX_OK;
}

/* Steps 2 and 4: this rank's slices travel between workers, and all slices within each. */
static tx_status trade(const tx_zero *z, const words *w)
{
    tx_compressed m = z->compressed;
    int64_t workers = tx_zero_n_workers(z), near = tx_comm_size(own_worker(z)),
            at = tx_comm_rank(own_worker(z)) * w->block;
    tx_tensor sent = tx_tensor1(m.sent, TX_I32, near * w->block), got = tx_tensor1(m.got, TX_I32, near * w->block);
    const tx_all_to_all_rows rows = { m.rows, m.rows, workers * w->block };
    for (int i = 0; i < workers; i++) m.rows[i] = w->slice;
    TX_TRY(tx_all_to_all(z->c, tx__compressed_workers(z), tx_slice1(got, at, w->block), tx_slice1(sent, at, w->block),
                         &rows));
    return tx_all_gather(z->c, own_worker(z), got, tx_slice1(got, at, w->block));
}

static tx_status spread(const tx_zero *z, const words *w)
{
    tx_comm *near = own_worker(z);
    tx_tensor all = tx_tensor1(z->compressed.sent, TX_I32, tx_comm_size(near) * w->block);
    tx_tensor own = tx_slice1(all, tx_comm_rank(near) * w->block, w->block);
    TX_TRY(tx_all_gather(z->c, tx__compressed_workers(z), own, tx_slice1(own, tx_zero_worker(z) * w->slice, w->slice)));
    return tx_all_gather(z->c, near, all, own);
}

static tx_status average(tx_zero *z, int k)
{
    tx_compressed *m = &z->compressed;
    int first = z->first_range[k], end = z->first_range[k + 1];
    const words w = words_in(z, k);
    const place begin = { .served = m->served_before };
    place p = begin;
    for (int i = first; i < end; p = next_of(z, p, z->range[i++].n_real)) TX_TRY(work(z, &z->range[i], p, &w));
    TX_TRY(trade(z, &w));
    TX_TRY(tx__gather_sizes(z, end - first));
    p = begin;
    for (int i = first; i < end; p = next_of(z, p, z->range[i++].n_real))
        TX_TRY(serve(z, &z->range[i], p, &w, end - first));
    TX_TRY(spread(z, &w));
    TX_TRY(tx__gather_sizes(z, end - first));
    p = begin;
    for (int i = first; i < end; p = next_of(z, p, z->range[i++].n_real))
        TX_TRY(take(z, &z->range[i], p, &w, end - first));
    m->served_before = p.served;
    return TX_OK;
}

static tx_status forget(const tx_zero *z)
{
    TX_RUN(z->c, fill, .x = tx_tensor1(z->compressed.worker, TX_F32, z->flat.kept.numel));
    TX_RUN(z->c, fill, .x = tx_tensor1(z->compressed.server, TX_F32, z->compressed.served));
    return TX_OK;
}

tx_status tx__compressed_step(tx_zero *z, const tx_optim_step *s, int k)
{
    tx_compressed *m = &z->compressed;
    if (m->together || !m->step.averages || !m->goes) return TX_OK;
    if (k == 0) m->served_before = 0;
    if (k == 0 && m->step.forgets) TX_TRY(forget(z));
    tx_at_part(z->c, "optimizer.compressed");
    for (int i = z->first_range[k]; i < z->first_range[k + 1]; i++) {
        tx_optim_step one = tx_optim_step_of(s, &z->range[i]);
        TX_TRY(z->optim.type->direction(z->c, &z->optim, &z->range[i], &one));
    }
    return tx_zero_n_workers(z) > 1 ? average(z, k) : TX_OK;
}

tx_status tx_zero_clip(tx_zero *z, double loss_scale, double max_norm)
{
    tx_compressed *m = &z->compressed;
    tx_optim *o = &z->optim;
    m->step = m->on ? tx_optim_signs_of(o) : (tx_optim_signs){ 0 };
    m->goes = true;
    if (!m->step.own) return tx_optim_clip(z->c, o, loss_scale, max_norm);
    TX_TRY(tx_optim_clip(z->c, o, loss_scale / tx_zero_n_workers(z), max_norm));
    TX_TRY(tx_all_reduce(z->c, tx_grid_group(z->grid, TX_GROUP_DATA), tx_tensor1(o->gate + 2, TX_F64, 1), TX_MIN));
    if (z->c->dry) return TX_OK;
    double go;
    TX_TRY(tx_device_read(z->c->device, &go, o->gate + 2, sizeof go));
    m->goes = go != 0;
    return TX_OK;
}
