/* quantized.c - parameters and gradients that are sent as integers of a few bits, and copies of parameters nearby. */
#include "zero/quantized.h"

#include "zero/loco.h"

#include "base/alloc.h"

enum { VALUE_BITS = 8, GRAD_BITS = 4 };

static const char what[] = "quantized parameters and gradients";

static bool moves(const tx_zero *z, int k)
{
    return z->stage == 3 && !z->flat.bucket[k].persistent;
}

/* Those that have a second copy among them; with MiCS near ranks have the first one. */
static tx_comm *near_of(const tx_zero *z)
{
    return z->mics ? &tx_comm_self : tx_grid_group(z->grid, TX_GROUP_NEAR);
}

static int64_t words_of(const tx_zero *z, int k, int bits)
{
    return tx_quantized_words(tx_bucket_part(&z->flat, &z->flat.bucket[k]), bits);
}

/* ---- values ---- */

/* What this rank has in the second copy: of a bucket, and where. */
static int64_t second_numel(const tx_zero *z, int k)
{
    return z->flat.bucket[k].numel / tx_comm_size(near_of(z));
}

static tx_tensor second_of(const tx_zero *z, int k)
{
    int64_t before = 0;
    for (int i = 0; i < k; i++)
        if (moves(z, i)) before += second_numel(z, i);
    return tx_tensor1((char *)z->quantized.second + (size_t)before * tx_dtype_size(z->dtype), z->dtype,
                      second_numel(z, k));
}

static tx_tensor its_place(const tx_zero *z, int k, tx_tensor all)
{
    return tx_slice1(all, tx_comm_rank(near_of(z)) * second_numel(z, k), second_numel(z, k));
}

/* The blocks of all ranks, while they are gathered. */
static tx_tensor words_there(const tx_zero *z, int k)
{
    int64_t n = tx_comm_size(tx__bucket_owners(z, k)) * words_of(z, k, VALUE_BITS);
    return tx_tensor1(z->quantized.words.buffer[z->now[k].words].data, TX_I32, n);
}

/* A buffer for a bucket's blocks. Where gathers are under way in all of them, the first one is waited for. */
static tx_status take_words(tx_zero *z, int k)
{
    tx_pool *t = &z->quantized.words;
    int kind = z->flat.bucket[k].kind, found = tx__pool_find(t, kind);
    if (found < 0 && z->c->dry) {
        int64_t most = 0;
        for (int i = 0; i < z->flat.n_buckets; i++)
            if (z->flat.bucket[i].kind == kind && words_of(z, i, VALUE_BITS) > most) most = words_of(z, i, VALUE_BITS);
        TX_TRY(tx__pool_add(t, kind, tx_comm_size(tx__bucket_owners(z, k)) * most, &found));
    }
    for (int i = 0; found < 0 && i < t->n; i++)
        if (t->buffer[i].kind == kind) {
            TX_TRY(tx__zero_gather_wait(z, t->buffer[i].bucket));
            found = i;
        }
    t->buffer[found].bucket = k;
    z->now[k].words = found;
    return TX_OK;
}

tx_status tx__quantized_gather_start(tx_zero *z, int k, tx_tensor all)
{
    tx_bucket_now *n = &z->now[k];
    tx_comm *owners = tx__bucket_owners(z, k);
    if (n->second) {
        tx_tensor own = its_place(z, k, all);
        TX_RUN(z->c, copy, .y = own, .x = second_of(z, k));
        return tx_all_gather_start(z->c, near_of(z), all, own, &n->gather);
    }
    int64_t part = tx_bucket_part(&z->flat, &z->flat.bucket[k]), each = words_of(z, k, VALUE_BITS);
    TX_TRY(take_words(z, k));
    tx_tensor words = words_there(z, k), own = tx_slice1(words, tx_comm_rank(owners) * each, each);
    TX_RUN(z->c, quantize, .words = own, .x = tx_slice1(all, tx_comm_rank(owners) * part, part), .bits = VALUE_BITS);
    return tx_all_gather_start(z->c, owners, words, own, &n->gather);
}

static tx_tensor row_of(tx_tensor words, int64_t at, int64_t each)
{
    return tx_tensor2((int32_t *)words.data + at, TX_I32, 1, each);
}

tx_status tx__quantized_gathered(tx_zero *z, int k, tx_tensor all)
{
    tx_bucket_now *n = &z->now[k];
    if (n->words >= 0) {
        int64_t part = tx_bucket_part(&z->flat, &z->flat.bucket[k]), each = words_of(z, k, VALUE_BITS);
        for (int r = 0; r < tx_comm_size(tx__bucket_owners(z, k)); r++)
            TX_RUN(z->c, dequantize_sum, .y = tx_slice1(all, r * part, part),
                   .words = row_of(words_there(z, k), r * each, each), .bits = VALUE_BITS);
        tx__pool_release(&z->quantized.words, &n->words);
    }
    if (tx_comm_size(near_of(z)) == 1 || n->second) return TX_OK;
    TX_RUN(z->c, copy, .y = second_of(z, k), .x = its_place(z, k, all));
    n->second = true;
    return TX_OK;
}

void tx__quantized_forget(tx_zero *z)
{
    for (int k = 0; k < z->flat.n_buckets; k++) z->now[k].second = false;
}

/* ---- gradients ---- */

bool tx__quantizes_sum(const tx_zero *z, int k)
{
    return z->quantized.gradients && moves(z, k) && tx_comm_size(tx__bucket_owners(z, k)) > 1;
}

/* The hops of a sum: n ranks in a row, f rows. */
typedef struct hops {
    int n, f;
    tx_comm *across;
} hops;

static hops hops_of(const tx_zero *z, int k)
{
    int n = tx_comm_size(near_of(z)), all = tx_comm_size(tx__bucket_owners(z, k));
    return (hops){ n, all / n, n == 1 ? tx__bucket_owners(z, k) : tx_grid_group(z->grid, TX_GROUP_FAR) };
}

/* From `sent` to `got`, as many words from each rank to each. */
static tx_status exchange(const tx_zero *z, tx_comm *g, int64_t each)
{
    const tx_quantized *q = &z->quantized;
    int ranks = tx_comm_size(g);
    for (int r = 0; r < ranks; r++) q->rows[r] = each;
    const tx_all_to_all_rows rows = { q->rows, q->rows, ranks * ranks * each };
    return tx_all_to_all(z->c, g, tx_tensor1(q->got, TX_I32, ranks * each), tx_tensor1(q->sent, TX_I32, ranks * each),
                         &rows);
}

/* Hop 1: f sums, which are left in z->quantized.sum, or the only one in `to`. */
static tx_status sum_in_row(tx_zero *z, int k, tx_tensor to, tx_tensor x, bool added)
{
    const hops h = hops_of(z, k);
    const tx_quantized *q = &z->quantized;
    int64_t part = tx_numel(to), each = tx_quantized_words(part, GRAD_BITS);
    for (int i = 0; i < h.n; i++)
        for (int j = 0; j < h.f; j++)
            TX_TRY(tx__loco_pack(z, &(tx__loco_piece){ k, 0, GRAD_BITS, (j * h.n + i) * part },
                                 tx_tensor1(q->sent + (i * h.f + j) * each, TX_I32, each),
                                 tx_slice1(x, (j * h.n + i) * part, part)));
    TX_TRY(exchange(z, near_of(z), h.f * each));
    for (int j = 0; j < h.f; j++) {
        tx_tensor words = tx_tensor2(q->got + j * each, TX_I32, h.n, each);
        words.stride[0] = h.f * each;
        TX_RUN(z->c, dequantize_sum, .y = h.f == 1 ? to : tx_tensor1(q->sum + j * part, TX_F32, part), .words = words,
               .bits = GRAD_BITS, .accumulate = h.f == 1 && added);
    }
    return TX_OK;
}

static tx_status sum(tx_zero *z, int k, tx_tensor to, tx_tensor x, bool added)
{
    const tx_quantized *q = &z->quantized;
    hops h = hops_of(z, k);
    int64_t part = tx_numel(to), each = tx_quantized_words(part, GRAD_BITS);
    if (h.n > 1) {
        TX_TRY(sum_in_row(z, k, to, x, added));
        if (h.f == 1) return TX_OK;
        x = tx_tensor1(q->sum, TX_F32, h.f * part);
    }
    for (int j = 0; j < h.f; j++)
        TX_TRY(tx__loco_pack(z, &(tx__loco_piece){ k, h.n > 1, GRAD_BITS, j * part },
                             tx_tensor1(q->sent + j * each, TX_I32, each), tx_slice1(x, j * part, part)));
    TX_TRY(exchange(z, h.across, each));
    TX_RUN(z->c, dequantize_sum, .y = to, .words = tx_tensor2(q->got, TX_I32, h.f, each), .bits = GRAD_BITS,
           .accumulate = added);
    return TX_OK;
}

tx_status tx__quantized_sum(tx_zero *z, int k, tx_tensor to, tx_tensor x, bool added)
{
    tx__loco_begin(z, k);
    TX_TRY(sum(z, k, to, x, added));
    tx__loco_end(z, k);
    return TX_OK;
}

/* ---- memory ---- */

enum { N_ARRAYS = 4 };

/* Of each array the address, and bytes. */
static void arrays_of(tx_zero *z, void **at[N_ARRAYS], size_t bytes[N_ARRAYS])
{
    tx_quantized *q = &z->quantized;
    int64_t second = 0, words = 0, sum = 0;
    for (int k = 0; k < z->flat.n_buckets; k++) {
        hops h = hops_of(z, k);
        if (moves(z, k) && h.n > 1) second += second_numel(z, k);
        if (!tx__quantizes_sum(z, k)) continue;
        int64_t its_words = h.n * h.f * words_of(z, k, GRAD_BITS);
        if (its_words > words) words = its_words;
        if (h.n > 1 && h.f > 1 && second_numel(z, k) > sum) sum = second_numel(z, k);
    }
    void **const all[N_ARRAYS] = { &q->second, (void **)&q->sent, (void **)&q->got, (void **)&q->sum };
    const int64_t n[N_ARRAYS] = { second * (int64_t)tx_dtype_size(z->dtype), words * 4, words * 4, sum * 4 };
    for (int i = 0; i < N_ARRAYS; i++) {
        at[i] = all[i];
        bytes[i] = (size_t)n[i];
    }
}

tx_status tx__quantized_plan(tx_zero *z)
{
    tx_quantized *q = &z->quantized;
    q->words.size = sizeof(int32_t);
    q->second = q->sent = q->got = TX_DRY_ADDRESS;
    q->sum = TX_DRY_ADDRESS;
    TX_TRY(tx__loco_plan(z));
    return tx_alloc(&q->rows, (size_t)tx_comm_size(tx_grid_group(z->grid, TX_GROUP_DATA)), sizeof *q->rows, what);
}

tx_status tx__quantized_take(tx_zero *z)
{
    void **at[N_ARRAYS];
    size_t bytes[N_ARRAYS];
    arrays_of(z, at, bytes);
    for (int i = 0; i < N_ARRAYS; i++) *at[i] = NULL;
    for (int i = 0; i < N_ARRAYS; i++)
        if (bytes[i]) TX_TRY(tx_device_take(z->c->device, at[i], bytes[i], true, what));
    TX_TRY(tx__loco_take(z));
    return tx__pool_take(&z->quantized.words, z->c->device, what);
}

void tx__quantized_close(tx_zero *z)
{
    tx_quantized *q = &z->quantized;
    tx_device *d = z->c ? z->c->device : NULL;
    void *all[N_ARRAYS] = { q->second, q->sent, q->got, q->sum };
    for (int i = 0; i < N_ARRAYS; i++)
        if (all[i] != TX_DRY_ADDRESS) tx_device_give(d, all[i]);
    tx__loco_close(z);
    tx__pool_close(&q->words, d);
    tx_free(q->rows);
}

size_t tx__quantized_bytes(const tx_zero *z)
{
    void **at[N_ARRAYS];
    size_t bytes[N_ARRAYS], errors[TX_LOCO_HOPS], sum = tx__pool_bytes(&z->quantized.words);
    tx__loco_bytes(z, errors);
    for (int hop = 0; hop < TX_LOCO_HOPS; hop++) sum += errors[hop];
    arrays_of((tx_zero *)z, at, bytes);
    for (int i = 0; i < N_ARRAYS; i++) sum += bytes[i];
    return sum;
}
