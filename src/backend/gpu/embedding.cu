/* embedding.cu - sums of embeddings, and back: a row of a table gets the gradients of all tokens that are of it.
 *
 *  Backward sorts the tokens of a table by row, keeping their order, and then adds gradients that lie side by side in
 *  that order:
 *
 *      row       3 3 3 7 | 7 7 7 7 | 7 9 9 12 | ...     CHUNK tokens are a block's
 *      sums      3  7..    ..7..     ..7 9 12..         a row that is whole in a chunk is added to the table there;
 *                                                       what goes on is a part, and the parts are added, in order
 *  So a row that half of all tokens are of (padding, the end of documents) is no thread's long way, and the bits are
 *  those of every other run. */
#include "backend/gpu/gpu.h"

/* Rows of a table, looked up by index: `here` rows from `first` on are here, of `whole`. */
struct lookup {
    const int32_t *index;
    const void *table; /* NULL: there is none */
    int64_t first, here, whole;
    tx__fault *fault;
    int fault_kind;
    float scale; /* of its numbers, forward and backward */
};

/* The table's row of token i; -1: another rank's, or none, which is a fault. */
__device__ static inline int64_t row_of(const lookup &l, int64_t i)
{
    int64_t row = l.index[i];
    if (row < 0 || row >= l.whole) {
        tx__gpu_fault(l.fault, l.fault_kind, i, row, l.whole);
        return -1;
    }
    row -= l.first;
    return row >= 0 && row < l.here ? row : -1;
}

/* ---- forward ---- */

template <int N, class T>
__device__ static inline void add_row(float *v, const lookup &l, int64_t i, int64_t j, int64_t h)
{
    float w[N];
    if (!l.table) return;
    int64_t row = row_of(l, i);
    if (row < 0) return;
    load_floats<N>((const T *)l.table + row * h + j, w);
    for (int k = 0; k < N; k++) v[k] += l.scale * w[k];
}

/* N columns a thread. */
template <int N, class Y, class T>
__global__ void embedding_fwd_kernel(Y *y, lookup word, lookup pos, lookup kind, int64_t n, int64_t h)
{
    int64_t each = h / N;
    for (int64_t t = grid_thread(); t < n * each; t += grid_threads()) {
        int64_t i = t / each, j = (t - i * each) * N;
        float v[N] = { 0 };
        add_row<N, T>(v, word, i, j, h);
        add_row<N, T>(v, pos, i, j, h);
        add_row<N, T>(v, kind, i, j, h);
        store_floats<N>(y + i * h + j, v);
    }
}

static lookup lookup_of(const tx_ctx *c, int fault_kind, tx_tensor index, tx_tensor table, tx_table_shard shard)
{
    lookup l;
    l.index = (const int32_t *)index.data;
    l.table = table.data;
    l.first = shard.first;
    l.here = table.dim[0];
    l.whole = shard.whole ? shard.whole : table.dim[0];
    l.fault = tx__gpu_of(c)->fault;
    l.fault_kind = fault_kind;
    l.scale = 1;
    return l;
}

template <class Y, class T> static void embedding_fwd(const tx_ctx *c, const tx_embedding_fwd_args *a)
{
    const tx_table_shard all = { 0, 0 };
    int64_t n = tx_numel(a->token), h = a->y.dim[2];
    lookup word = lookup_of(c, TX__FAULT_TOKEN, a->token, a->word, a->shard),
           pos = lookup_of(c, TX__FAULT_POSITION, a->position, a->pos, all);
    lookup kind = lookup_of(c, TX__FAULT_KIND, a->type, a->kind, all);
    word.scale = (float)tx__scale_or_1(a->scale);
    gpuStream_t s = tx__gpu_compute(c);
    if (h % 8 == 0 && aligned16(a->y.data) && aligned16(a->word.data) && aligned16(a->pos.data) &&
        aligned16(a->kind.data))
        GPU_LAUNCH(s, tx__gpu_blocks(c, n * h / 8, 256), 256, 0, (embedding_fwd_kernel<8, Y, T>), (Y *)a->y.data, word,
                   pos, kind, n, h);
    else
        GPU_LAUNCH(s, tx__gpu_blocks(c, n * h, 256), 256, 0, (embedding_fwd_kernel<1, Y, T>), (Y *)a->y.data, word, pos,
                   kind, n, h);
}

TX_GPU_ROW tx_status tx__gpu_embedding_fwd(tx_ctx *c, const tx_embedding_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("embedding_fwd", a->y));
    TX_TRY(tx__gpu_need_float("embedding_fwd", a->word));
    GPU_FLOAT(a->y.dtype, Y, GPU_FLOAT(a->word.dtype, T, embedding_fwd<Y, T>(c, a)));
    return tx__gpu_launched(c, "embedding_fwd");
}

/* ---- sorting tokens by row: digits of 8 bits, the lowest first, each pass keeping the order of equal ones ---- */

enum { TILE = 256, DIGITS = 256, CHUNK = 64 };

/* Tokens in some order: the row of each, and which token it is. */
struct tokens {
    int32_t *row, *order;
};

/* Rows of the tokens; those that have none here come after all others. */
__global__ void rows_kernel(tokens to, lookup l, int64_t n)
{
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) {
        int64_t r = row_of(l, i);
        to.row[i] = (int32_t)(r < 0 ? l.here : r);
        to.order[i] = (int32_t)i;
    }
}

/* count[tile][digit] */
__global__ void count_kernel(int32_t *count, const int32_t *row, int64_t n, int shift)
{
    __shared__ int mine[DIGITS];
    int64_t i = (int64_t)blockIdx.x * TILE + threadIdx.x;
    mine[threadIdx.x] = 0;
    __syncthreads();
    if (i < n) atomicAdd(&mine[row[i] >> shift & (DIGITS - 1)], 1);
    __syncthreads();
    count[(int64_t)blockIdx.x * DIGITS + threadIdx.x] = mine[threadIdx.x];
}

/* From counts to where each tile's first token of a digit goes. A block. */
__global__ void places_kernel(int32_t *count, int64_t tiles)
{
    __shared__ int before[DIGITS];
    int d = (int)threadIdx.x, all = 0, at = 0;
    for (int64_t t = 0; t < tiles; t++) all += count[t * DIGITS + d];
    before[d] = all;
    __syncthreads();
    for (int k = 0; k < d; k++) at += before[k];
    for (int64_t t = 0; t < tiles; t++) {
        int one = count[t * DIGITS + d];
        count[t * DIGITS + d] = at;
        at += one;
    }
}

__global__ void move_kernel(tokens to, tokens from, const int32_t *place, int64_t n, int shift)
{
    __shared__ int digit[TILE];
    int64_t i = (int64_t)blockIdx.x * TILE + threadIdx.x;
    int mine = i < n ? from.row[i] >> shift & (DIGITS - 1) : -1, before = 0;
    digit[threadIdx.x] = mine;
    __syncthreads();
    if (i >= n) return;
    for (int k = 0; k < (int)threadIdx.x; k++) before += digit[k] == mine;
    int64_t at = place[(int64_t)blockIdx.x * DIGITS + mine] + before;
    to.row[at] = from.row[i];
    to.order[at] = from.order[i];
}

/* ---- backward ---- */

/* What the scratch of one table has in it. */
struct sorted {
    tokens by[2]; /* before a pass and after it */
    int32_t *count;
    float *part; /* [chunks, 2, h]: of a row that began before, and of one that goes on */
};

static int64_t chunks_of(int64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static sorted sorted_in(void *scratch, int64_t n)
{
    unsigned char *at = (unsigned char *)scratch;
    size_t each = round_up((size_t)n * sizeof(int32_t));
    sorted s;
    for (int k = 0; k < 2; k++) {
        s.by[k].row = (int32_t *)at;
        s.by[k].order = (int32_t *)(at + each);
        at += 2 * each;
    }
    s.count = (int32_t *)at;
    at += round_up((size_t)((n + TILE - 1) / TILE * DIGITS) * sizeof(int32_t));
    s.part = (float *)at;
    return s;
}

TX_GPU_ROW size_t tx__gpu_embedding_bwd_scratch(const tx_ctx *c, const tx_embedding_bwd_args *a)
{
    (void)c;
    int64_t n = tx_numel(a->token), h = a->dy.dim[2];
    return 4 * round_up((size_t)n * sizeof(int32_t)) +
           round_up((size_t)((n + TILE - 1) / TILE * DIGITS) * sizeof(int32_t)) +
           (size_t)(chunks_of(n) * 2 * h) * sizeof(float);
}

/* The gradient of a table: `rows` rows of h numbers. */
struct table_gradient {
    float *data;
    int64_t h;
    int32_t rows;
    float scale; /* of what is added */
};

/* A chunk's sums. Tokens that have no row here come after all that have one. */
template <class T> __global__ void sum_kernel(table_gradient table, float *part, tokens in, const T *dy, int64_t n)
{
    const int32_t *row = in.row, *order = in.order, rows = table.rows;
    const int64_t h = table.h;
    int64_t first = (int64_t)blockIdx.x * CHUNK, end = first + CHUNK < n ? first + CHUNK : n;
    float *before = part + (int64_t)blockIdx.x * 2 * h, *after = before + h;
    for (int64_t j = threadIdx.x; j < h; j += blockDim.x) {
        float sum = 0;
        bool began = first == 0 || row[first - 1] != row[first]; /* in this chunk */
        for (int64_t p = first; p < end && row[p] < rows; p++) {
            int32_t mine = row[p];
            sum += f32(dy[(int64_t)order[p] * h + j]);
            bool ends = p + 1 == n || row[p + 1] != mine;
            if (!ends && p + 1 < end) continue;
            if (began && ends)
                table.data[(int64_t)mine * h + j] += table.scale * sum;
            else
                (began ? after : before)[j] = sum;
            sum = 0;
            began = true;
        }
    }
}

/* The parts of a row that began in a chunk and goes on after it. */
__global__ void join_kernel(table_gradient table, const float *part, const int32_t *row, int64_t n, int64_t chunks)
{
    const int64_t h = table.h;
    const int32_t rows = table.rows;
    int64_t chunk = blockIdx.x, first = chunk * CHUNK, end = first + CHUNK;
    if (end >= n || row[end] != row[end - 1] || row[end] >= rows) return; /* nothing goes on */
    int32_t mine = row[end];
    if (row[first] == mine && first > 0 && row[first - 1] == mine) return; /* it began before */
    for (int64_t j = threadIdx.x; j < h; j += blockDim.x) {
        double sum = (double)part[(chunk * 2 + 1) * h + j];
        for (int64_t k = chunk + 1; k < chunks && row[k * CHUNK] == mine; k++) sum += (double)part[k * 2 * h + j];
        table.data[(int64_t)mine * h + j] += table.scale * (float)sum;
    }
}

template <class T> static void add_to_table(const tx_ctx *c, void *scratch, tx_tensor table, tx_tensor dy, lookup l)
{
    gpuStream_t stream = tx__gpu_compute(c);
    int64_t n = dy.dim[0] * dy.dim[1], h = dy.dim[2], tiles = (n + TILE - 1) / TILE, chunks = chunks_of(n);
    sorted s = sorted_in(scratch, n);
    table_gradient to = { (float *)table.data, h, (int32_t)l.here, l.scale };
    int from = 0;
    GPU_LAUNCH(stream, tx__gpu_blocks(c, n, 256), 256, 0, rows_kernel, s.by[0], l, n);
    for (int shift = 0; shift < 31 && l.here >> shift; shift += 8, from = !from) {
        GPU_LAUNCH(stream, (unsigned)tiles, TILE, 0, count_kernel, s.count, s.by[from].row, n, shift);
        GPU_LAUNCH(stream, 1, DIGITS, 0, places_kernel, s.count, tiles);
        GPU_LAUNCH(stream, (unsigned)tiles, TILE, 0, move_kernel, s.by[!from], s.by[from], s.count, n, shift);
    }
    GPU_LAUNCH(stream, (unsigned)chunks, tx__gpu_threads(h < 512 ? h : 512), 0, sum_kernel<T>, to, s.part, s.by[from],
               (const T *)dy.data, n);
    GPU_LAUNCH(stream, (unsigned)chunks, tx__gpu_threads(h < 512 ? h : 512), 0, join_kernel, to, s.part, s.by[from].row,
               n, chunks);
}

TX_GPU_ROW tx_status tx__gpu_embedding_bwd(tx_ctx *c, const tx_embedding_bwd_args *a, void *scratch)
{
    const tx_table_shard all = { 0, 0 };
    const tx_tensor table[] = { a->dword, a->dpos, a->dkind }, index[] = { a->token, a->position, a->type };
    const int kind[] = { TX__FAULT_TOKEN, TX__FAULT_POSITION, TX__FAULT_KIND };
    TX_TRY(tx__gpu_need_float("embedding_bwd", a->dy));
    for (int k = 0; k < 3; k++) {
        if (!table[k].data || !table[k].dim[0]) continue;
        lookup l = lookup_of(c, kind[k], index[k], table[k], k ? all : a->shard);
        if (k == 0) l.scale = (float)tx__scale_or_1(a->scale);
        GPU_FLOAT(a->dy.dtype, T, add_to_table<T>(c, scratch, table[k], a->dy, l));
    }
    return tx__gpu_launched(c, "embedding_bwd");
}
