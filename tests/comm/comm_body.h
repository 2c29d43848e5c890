/* comm_body.h - what is tested of a group of ranks, whatever moves its numbers: by test_comm.c between threads, by
 * comm_ranks.c between processes. Each rank computes what it must get in a serial loop over all ranks. A failed check
 * is a status, because only the first rank of a test may talk to cmocka. */
#ifndef TX_TESTS_COMM_BODY_H
#define TX_TESTS_COMM_BODY_H

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/rng.h"
#include "base/shared.h"
#include "comm/comm.h"

#define EXPECT(condition, ...)                                        \
    do {                                                              \
        if (!(condition)) return body_wrong(#condition, __VA_ARGS__); \
    } while (0)

__attribute__((format(printf, 2, 3))) static inline tx_status body_wrong(const char *condition, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return TX_FAIL(TX_ERR_NUMERIC, "%s: %s", condition, text);
}

/* Sizes in elements: none, one, odd, above what goes in one step, several chunks and no whole number of them. */
static const int64_t body_sizes[] = { 0, 1, 7, 255, 2049, 100003, 3 * 262144 + 5 };
enum { N_BODY_SIZES = sizeof body_sizes / sizeof body_sizes[0] };

static inline uint64_t body_hash(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

/* Element i of rank r's tensor: magnitudes over eight powers of two, so that the order of a sum is seen in its bits. */
static inline double body_number(int seed, int rank, int64_t i)
{
    uint64_t h = body_hash((uint64_t)seed << 48 ^ (uint64_t)rank << 40 ^ (uint64_t)i);
    double x = (double)(int64_t)(h & 0xffff) - 32768;
    return x / (double)(1 << (h >> 20 & 7)) / 64;
}

static inline void body_put(void *x, tx_dtype t, int64_t i, double v)
{
    switch (t) {
    case TX_F32:
        ((float *)x)[i] = (float)v;
        break;
    case TX_F64:
        ((double *)x)[i] = v / 3;
        break; /* more bits than fp32 has */
    case TX_BF16:
        ((uint16_t *)x)[i] = tx_f32_to_bf16((float)v);
        break;
    case TX_F16:
        ((uint16_t *)x)[i] = tx_f32_to_f16((float)v);
        break;
    case TX_I32:
        ((int32_t *)x)[i] = (int32_t)v;
        break;
    default:
        ((int64_t *)x)[i] = (int64_t)(v * 1e12);
    }
}

static inline void body_fill(void *x, tx_dtype t, int64_t n, int seed, int rank)
{
    for (int64_t i = 0; i < n; i++) body_put(x, t, i, body_number(seed, rank, i));
}

/* The value of rank r's element in the type that is added in. */
static inline double body_wide(tx_dtype t, int seed, int rank, int64_t i)
{
    uint64_t cell;
    body_put(&cell, t, 0, body_number(seed, rank, i));
    switch (t) {
    case TX_F32:
        return tx_f32_of_bits((uint32_t)cell);
    case TX_BF16:
        return tx_bf16_to_f32((uint16_t)cell);
    case TX_F16:
        return tx_f16_to_f32((uint16_t)cell);
    case TX_I32:
        return (int32_t)(uint32_t)cell;
    default:
        break;
    }
    double d;
    memcpy(&d, &cell, 8);
    return t == TX_F64 ? d : (double)(int64_t)cell;
}

/* Element i of the reduction over n ranks, in their order, into `out` (8 bytes). */
static inline void body_reduced(void *out, tx_dtype t, int seed, int n, int64_t i, tx_reduce op)
{
    double wide = body_wide(t, seed, 0, i);
    float f = (float)wide;
    int64_t whole = (int64_t)wide;
    for (int r = 1; r < n; r++) {
        double x = body_wide(t, seed, r, i);
        bool better = op == TX_MAX ? x > wide : x < wide;
        if (op != TX_SUM && better) {
            wide = x;
            f = (float)x;
            whole = (int64_t)x;
        }
        if (op != TX_SUM) continue;
        wide += x;
        f += (float)x;
        whole += (int64_t)x;
    }
    switch (t) {
    case TX_F32:
        memcpy(out, &f, 4);
        break;
    case TX_F64:
        memcpy(out, &wide, 8);
        break;
    case TX_BF16:
        memcpy(out, &(uint16_t){ tx_f32_to_bf16(f) }, 2);
        break;
    case TX_F16:
        memcpy(out, &(uint16_t){ tx_f32_to_f16(f) }, 2);
        break;
    case TX_I32:
        memcpy(out, &(int32_t){ (int32_t)whole }, 4);
        break;
    default:
        memcpy(out, &whole, 8);
    }
}

/* ---- where tensors lie ---- */

/* Buffers of the host's, in which tests fill in and check numbers, and of a device's, in which they are moved; none:
 * the former are moved. */
typedef struct body_mirror {
    char *host, *device;
    size_t bytes;
} body_mirror;
static _Thread_local body_mirror body_mirrors[2];

/* What a call is given for x of the host's. */
static inline void *body_at(const void *x)
{
    for (int i = 0; i < 2; i++) {
        size_t at = (size_t)((uintptr_t)x - (uintptr_t)body_mirrors[i].host);
        if (at < body_mirrors[i].bytes) return body_mirrors[i].device + at;
    }
    return (void *)(uintptr_t)x;
}

static inline tx_tensor body_tensor(const void *x, tx_dtype t, int64_t n)
{
    return tx_tensor1(body_at(x), t, n);
}

/* Before a call, and behind it. */
static inline tx_status body_give(tx_ctx *c, const void *x, int64_t n, size_t size)
{
    return body_at(x) == x ? TX_OK : tx_device_write(c->device, body_at(x), x, (size_t)n * size);
}

static inline tx_status body_get(tx_ctx *c, void *x, int64_t n, size_t size)
{
    return body_at(x) == x ? TX_OK : tx_device_read(c->device, x, body_at(x), (size_t)n * size);
}

static inline tx_status body_mirror_on(tx_ctx *c, int i, void *host, size_t bytes)
{
    void *p;
    if (!c->device) return TX_OK;
    TX_TRY(tx_device_take(c->device, &p, bytes, false, "a test"));
    body_mirrors[i] = (body_mirror){ host, p, bytes };
    return TX_OK;
}

static inline void body_mirrors_off(tx_ctx *c)
{
    for (int i = 0; i < 2; i++) {
        tx_device_give(c->device, body_mirrors[i].device);
        body_mirrors[i] = (body_mirror){ 0 };
    }
}

/* ---- each collective ---- */

static inline tx_status body_all_reduce(tx_ctx *c, tx_comm *g, void *x, tx_dtype t, int64_t n, tx_reduce op)
{
    size_t size = tx_dtype_size(t);
    body_fill(x, t, n, 1, tx_comm_rank(g));
    TX_TRY(body_give(c, x, n, size));
    TX_TRY(tx_all_reduce(c, g, body_tensor(x, t, n), op));
    TX_TRY(body_get(c, x, n, size));
    for (int64_t i = 0; i < n; i++) {
        uint64_t expect;
        body_reduced(&expect, t, 1, tx_comm_size(g), i, op);
        EXPECT(!memcmp((char *)x + (size_t)i * size, &expect, size), "all-reduce %d of %s, element %lld of %lld",
               (int)op, tx_dtype_name(t), (long long)i, (long long)n);
    }
    return TX_OK;
}

static inline tx_status body_reduce_scatter(tx_ctx *c, tx_comm *g, void *x, void *y, tx_dtype t, int64_t n, bool inside)
{
    size_t size = tx_dtype_size(t);
    int rank = tx_comm_rank(g), n_ranks = tx_comm_size(g);
    if (inside) y = (char *)x + (size_t)(rank * n) * size;
    body_fill(x, t, n * n_ranks, 2, rank);
    TX_TRY(body_give(c, x, n * n_ranks, size));
    TX_TRY(tx_reduce_scatter(c, g, body_tensor(y, t, n), body_tensor(x, t, n * n_ranks)));
    TX_TRY(body_get(c, y, n, size));
    for (int64_t i = 0; i < n; i++) {
        uint64_t expect;
        body_reduced(&expect, t, 2, n_ranks, rank * n + i, TX_SUM);
        EXPECT(!memcmp((char *)y + (size_t)i * size, &expect, size), "reduce-scatter of %s, element %lld of %lld",
               tx_dtype_name(t), (long long)i, (long long)n);
    }
    return TX_OK;
}

static inline tx_status body_all_gather(tx_ctx *c, tx_comm *g, void *x, void *y, tx_dtype t, int64_t n, bool inside)
{
    size_t size = tx_dtype_size(t);
    int rank = tx_comm_rank(g), n_ranks = tx_comm_size(g);
    if (inside) x = (char *)y + (size_t)(rank * n) * size;
    body_fill(x, t, n, 3, rank);
    TX_TRY(body_give(c, x, n, size));
    TX_TRY(tx_all_gather(c, g, body_tensor(y, t, n * n_ranks), body_tensor(x, t, n)));
    TX_TRY(body_get(c, y, n * n_ranks, size));
    for (int64_t i = 0; i < n * n_ranks; i++) {
        uint64_t expect = 0;
        body_put(&expect, t, 0, body_number(3, (int)(i / n), i % n));
        EXPECT(!memcmp((char *)y + (size_t)i * size, &expect, size), "all-gather of %s, element %lld of %lld",
               tx_dtype_name(t), (long long)i, (long long)n);
    }
    return TX_OK;
}

static inline tx_status body_broadcast(tx_ctx *c, tx_comm *g, void *x, tx_dtype t, int64_t n, int root)
{
    size_t size = tx_dtype_size(t);
    body_fill(x, t, n, 4, tx_comm_rank(g));
    TX_TRY(body_give(c, x, n, size));
    TX_TRY(tx_broadcast(c, g, body_tensor(x, t, n), root));
    TX_TRY(body_get(c, x, n, size));
    for (int64_t i = 0; i < n; i++) {
        uint64_t expect = 0;
        body_put(&expect, t, 0, body_number(4, root, i));
        EXPECT(!memcmp((char *)x + (size_t)i * size, &expect, size), "broadcast of %s, element %lld of %lld",
               tx_dtype_name(t), (long long)i, (long long)n);
    }
    return TX_OK;
}

/* Rows from one rank to another: none, few or many, some to oneself; all of them to one rank, in shape 1; none at all
 * in shape 2. */
static inline int64_t body_rows(int shape, int from, int to, int64_t most)
{
    int64_t n = (int64_t)(body_hash((uint64_t)(from * 64 + to + 1)) % 4);
    if (shape == 1) return to == 0 ? 1 + from : 0;
    return shape == 2 || n == 0 ? 0 : n == 1 ? n + to : most / n;
}

/* @most rows of `width` elements from one rank to another, at most */
static inline tx_status body_all_to_all(tx_ctx *c, tx_comm *g, void *x, void *y, tx_dtype t, int64_t width,
                                        int64_t most, int shape)
{
    size_t size = tx_dtype_size(t);
    int rank = tx_comm_rank(g), n_ranks = tx_comm_size(g);
    int64_t to[64], from[64], sent = 0, got = 0;
    for (int i = 0; i < n_ranks; i++) {
        sent += to[i] = body_rows(shape, rank, i, most);
        got += from[i] = body_rows(shape, i, rank, most);
    }
    body_fill(x, t, sent * width, 5, rank);
    memset(y, 7, (size_t)((got + 1) * width) * size);
    TX_TRY(body_give(c, x, sent * width, size));
    TX_TRY(body_give(c, y, (got + 1) * width, size));
    TX_TRY(tx_all_to_all(c, g, tx_tensor2(body_at(y), t, got + 1, width), tx_tensor2(body_at(x), t, sent, width),
                         &(tx_all_to_all_rows){ to, from, 0 }));
    TX_TRY(body_get(c, y, (got + 1) * width, size));
    const char *at = y;
    for (int m = 0; m < n_ranks; m++) {
        int64_t first = 0;
        for (int i = 0; i < rank; i++) first += body_rows(shape, m, i, most);
        for (int64_t i = 0; i < from[m] * width; i++, at += size) {
            uint64_t expect = 0;
            body_put(&expect, t, 0, body_number(5, m, first * width + i));
            EXPECT(!memcmp(at, &expect, size), "all-to-all of %s, element %lld of %lld rows from %d", tx_dtype_name(t),
                   (long long)i, (long long)from[m], m);
        }
    }
    for (size_t i = 0; i < (size_t)width * size; i++) EXPECT(at[i] == 7, "byte %zu behind all rows", i);
    return TX_OK;
}

static inline tx_status body_all_to_alls(tx_ctx *c, tx_comm *g, void *x, void *y)
{
    for (int t = 0; t < TX_N_DTYPES; t++)
        for (int shape = 0; shape < 3; shape++) {
            TX_TRY(body_all_to_all(c, g, x, y, (tx_dtype)t, 1, 5, shape));
            TX_TRY(body_all_to_all(c, g, x, y, (tx_dtype)t, 33, 100, shape));
        }
    return body_all_to_all(c, g, x, y, TX_F32, 1021, 3000 / tx_comm_size(g), 0);
}

/* Every operation, type and size. @large buffers of the largest size times the ranks */
static inline tx_status body_collectives(tx_ctx *c, tx_comm *g, void *x, void *y)
{
    int n_ranks = tx_comm_size(g);
    for (int t = 0; t < TX_N_DTYPES; t++)
        for (int i = 0; i < N_BODY_SIZES; i++) {
            int64_t n = body_sizes[i];
            if (n > 200000 && t != TX_F32 && t != TX_BF16) continue;
            for (int op = TX_SUM; op <= (n > (c->device ? 1000 : 200000) ? TX_SUM : TX_MIN); op++)
                TX_TRY(body_all_reduce(c, g, x, (tx_dtype)t, n, (tx_reduce)op));
            TX_TRY(body_reduce_scatter(c, g, x, y, (tx_dtype)t, n / n_ranks, i & 1));
            TX_TRY(body_all_gather(c, g, x, y, (tx_dtype)t, n / n_ranks, i & 1));
            TX_TRY(body_broadcast(c, g, x, (tx_dtype)t, n, (i + t) % n_ranks));
        }
    return TX_OK;
}

/* ---- many requests under way, moved on at odd moments ---- */

enum { N_UNDER_WAY = 100 };

static inline tx_status body_under_way(tx_ctx *c, tx_comm *g, float *x)
{
    tx_request r[N_UNDER_WAY] = { { 0 } };
    int64_t at[N_UNDER_WAY + 1] = { 0 };
    int rank = tx_comm_rank(g);
    for (int k = 0; k < N_UNDER_WAY; k++) {
        int64_t n = k % 10 == 9 ? 300000 : (int64_t)(body_hash((uint64_t)k) % 3000);
        at[k + 1] = at[k] + n;
        body_fill(x + at[k], TX_F32, n, k, rank);
        TX_TRY(body_give(c, x + at[k], n, sizeof *x));
        TX_TRY(tx_all_reduce_start(c, g, body_tensor(x + at[k], TX_F32, n), &r[k]));
        uint64_t dice = body_hash((uint64_t)(k * 16 + rank));
        for (uint64_t i = 0; i < dice % 4; i++) {
            TX_TRY(tx_comm_poll(c, g));
            if (dice & 64) sched_yield();
        }
        if (dice % 8 == 7) TX_TRY(tx_wait(c, &r[dice / 8 % (uint64_t)(k + 1)]));
    }
    for (int k = N_UNDER_WAY - 1; k >= 0; k--) TX_TRY(tx_wait(c, &r[k]));
    TX_TRY(body_get(c, x, at[N_UNDER_WAY], sizeof *x));
    for (int k = 0; k < N_UNDER_WAY; k++)
        for (int64_t i = 0; i < at[k + 1] - at[k]; i++) {
            float expect;
            body_reduced(&expect, TX_F32, k, tx_comm_size(g), i, TX_SUM);
            EXPECT(!memcmp(&x[at[k] + i], &expect, 4), "request %d of many, element %lld", k, (long long)i);
        }
    return TX_OK;
}

/* ---- messages ---- */

/* Everybody to everybody, two with each of several tags, of which the receiver takes the last tag first. */
static inline tx_status body_messages(tx_ctx *c, tx_comm *g, float *x, float *y, int64_t n)
{
    enum { TAGS = 5 };
    int rank = tx_comm_rank(g), n_ranks = tx_comm_size(g);
    tx_request r[2 * TAGS] = { { 0 } };
    for (int step = 1; step < n_ranks; step++) {
        int to = (rank + step) % n_ranks, from = (rank + n_ranks - step) % n_ranks;
        for (int k = 0; k < 2 * TAGS; k++) {
            body_fill(x + k * n, TX_F32, n, k, rank * 16 + to);
            TX_TRY(body_give(c, x + k * n, n, sizeof *x));
            TX_TRY(tx_send_start(c, g, body_tensor(x + k * n, TX_F32, n), to, 65535 - k % TAGS, &r[k]));
        }
        for (int tag = TAGS - 1; tag >= 0; tag--)
            for (int k = tag; k < 2 * TAGS; k += TAGS) {
                TX_TRY(tx_recv(c, g, body_tensor(y, TX_F32, n), from, 65535 - tag));
                TX_TRY(body_get(c, y, n, sizeof *y));
                for (int64_t i = 0; i < n; i++)
                    EXPECT(y[i] == (float)body_number(k, from * 16 + rank, i), "message %d from %d, element %lld", k,
                           from, (long long)i);
            }
        for (int k = 0; k < 2 * TAGS; k++) TX_TRY(tx_wait(c, &r[k]));
    }
    return TX_OK;
}

/* Messages with one tag arrive as they were sent, also when they come while the receiver looks for them, when it has
 * started several receives, and when there are more than the box holds. */
static inline tx_status body_message_order(tx_ctx *c, tx_comm *g, float *x)
{
    enum { BURST = 100, AHEAD = 4 };
    const int n_bursts = c->device ? 3 : 30; /* each copy changes what may be touched of an emulated device */
    int rank = tx_comm_rank(g), n_ranks = tx_comm_size(g), to = (rank + 1) % n_ranks,
        from = (rank + n_ranks - 1) % n_ranks;
    tx_request r[BURST] = { { 0 } }, received[AHEAD] = { { 0 } };
    for (int burst = 0; burst < n_bursts && n_ranks > 1; burst++) {
        for (int k = 0; k < BURST; k++) {
            x[k] = (float)(burst * BURST + k);
            TX_TRY(body_give(c, x + k, 1, sizeof *x));
            TX_TRY(tx_send_start(c, g, body_tensor(x + k, TX_F32, 1), to, 7, &r[k]));
        }
        for (int k = 0, next = 0; k < BURST; k++) {
            float *got = x + BURST + k % AHEAD;
            for (; next < BURST && next < k + AHEAD; next++)
                TX_TRY(tx_recv_start(c, g, body_tensor(x + BURST + next % AHEAD, TX_F32, 1), from, 7,
                                     &received[next % AHEAD]));
            TX_TRY(tx_wait(c, &received[k % AHEAD]));
            TX_TRY(body_get(c, got, 1, sizeof *got));
            EXPECT(*got == (float)(burst * BURST + k), "message %d came as number %d", (int)*got, burst * BURST + k);
        }
        for (int k = 0; k < BURST; k++) TX_TRY(tx_wait(c, &r[k]));
    }
    return TX_OK;
}

/* ---- host calls, groups of groups ---- */

static inline tx_status body_host_calls(tx_comm *g)
{
    int rank = tx_comm_rank(g), n_ranks = tx_comm_size(g);
    int64_t all[64], mine = 1000 + rank;
    TX_TRY(tx_comm_gather(g, all, &mine, sizeof mine));
    for (int i = 0; i < n_ranks; i++) EXPECT(all[i] == 1000 + i, "gathered %lld", (long long)all[i]);
    for (int root = 0; root < n_ranks; root++) {
        char text[5000] = { 0 };
        if (rank == root) memset(text, 'a' + root, sizeof text);
        TX_TRY(tx_comm_spread(g, text, sizeof text, root));
        EXPECT(text[0] == 'a' + root && text[4999] == 'a' + root, "spread from %d", root);
    }
    TX_TRY(tx_comm_barrier(g));
    TX_TRY(tx_comm_agree(g, TX_OK));
    tx_status st = tx_comm_agree(g, rank == n_ranks - 1 ? TX_FAIL(TX_ERR_SHAPE, "the reason") : TX_OK);
    if (rank == n_ranks - 1) {
        EXPECT(st == TX_ERR_SHAPE && !strcmp(tx_last_error(), "the reason"), "%d", (int)st);
    } else {
        char expect[64];
        snprintf(expect, sizeof expect, "rank %d: the reason", tx_comm_world_rank(g, n_ranks - 1));
        EXPECT(st == TX_ERR_COMM && !strcmp(tx_last_error(), expect), "%d", (int)st);
    }
    return TX_OK;
}

/* Rows and columns of the ranks, and one left out; requests of both under way at once. */
static inline tx_status body_split(tx_ctx *c, tx_comm *g, float *x)
{
    int rank = tx_comm_rank(g), n_ranks = tx_comm_size(g), width = n_ranks % 2 ? n_ranks : 2;
    tx_comm *row, *column, *some;
    TX_TRY(tx_comm_split(&row, g, rank / width, "row"));
    TX_TRY(tx_comm_split(&column, g, rank % width, "column"));
    TX_TRY(tx_comm_split(&some, g, rank ? 0 : -1, "some"));
    EXPECT(tx_comm_size(row) == width && tx_comm_rank(row) == rank % width, "%d", tx_comm_size(row));
    EXPECT(tx_comm_size(column) == n_ranks / width && tx_comm_rank(column) == rank / width, "%d", tx_comm_size(column));
    EXPECT(tx_comm_size(some) == (rank ? n_ranks - 1 : 1), "%d", tx_comm_size(some));
    for (int i = 0; i < tx_comm_size(column); i++)
        EXPECT(tx_comm_world_rank(column, i) == tx_comm_world_rank(g, i * width + rank % width), "member %d", i);
    enum { N = 70000 };
    for (int i = 0; i < 2 * N; i++) x[i] = (float)(rank + 1);
    tx_request a = { 0 }, b = { 0 };
    TX_TRY(body_give(c, x, 2 * N, sizeof *x));
    TX_TRY(tx_all_reduce_start(c, row, body_tensor(x, TX_F32, N), &a));
    TX_TRY(tx_all_reduce_start(c, column, body_tensor(x + N, TX_F32, N), &b));
    TX_TRY(tx_wait(c, rank % 2 ? &a : &b)); /* not the same one first: each waits while the other's moves on */
    TX_TRY(tx_wait(c, rank % 2 ? &b : &a));
    TX_TRY(body_get(c, x, 2 * N, sizeof *x));
    float of_row = 0, of_column = 0;
    for (int i = 0; i < width; i++) of_row += (float)(rank / width * width + i + 1);
    for (int i = 0; i < n_ranks / width; i++) of_column += (float)(i * width + rank % width + 1);
    EXPECT(x[0] == of_row && x[N - 1] == of_row, "%g, not %g", (double)x[0], (double)of_row);
    EXPECT(x[N] == of_column && x[2 * N - 1] == of_column, "%g, not %g", (double)x[N], (double)of_column);
    TX_TRY(body_all_to_all(c, row, x, x + 2 * N, TX_F32, 3, 100, 0));
    TX_TRY(body_host_calls(some));
    tx_comm_close(some);
    tx_comm_close(column);
    tx_comm_close(row);
    return TX_OK;
}

static inline tx_status body_each(tx_ctx *c, tx_comm *g, float *x, float *y)
{
    TX_TRY(body_collectives(c, g, x, y));
    TX_TRY(body_all_to_alls(c, g, x, y));
    TX_TRY(body_under_way(c, g, x));
    TX_TRY(body_messages(c, g, x, y, 3));
    TX_TRY(body_message_order(c, g, x));
    TX_TRY(body_messages(c, g, x, y, 150001));
    TX_TRY(body_host_calls(g));
    TX_TRY(body_split(c, g, x));
    return tx_comm_barrier(g);
}

/* All of it, with buffers that others can reach or not, or on the ctx's device. */
static inline tx_status body_all_on(tx_ctx *c, tx_world *w, bool shared)
{
    size_t bytes = ((size_t)4 << 20) * 4;
    float *x = NULL, *y = NULL;
    tx_status st;
    TX_GOTO(shared ? tx_shared_alloc(&x, bytes, "a test") : tx_alloc(&x, 1, bytes, "a test"));
    TX_GOTO(shared ? tx_shared_alloc(&y, bytes, "a test") : tx_alloc(&y, 1, bytes, "a test"));
    TX_GOTO(body_mirror_on(c, 0, x, bytes));
    TX_GOTO(body_mirror_on(c, 1, y, bytes));
    TX_GOTO(body_each(c, tx_world_comm(w), x, y));
out:
    body_mirrors_off(c);
    tx_shared_free(x);
    tx_shared_free(y);
    return st;
}

static inline tx_status body_all(tx_world *w, int n_threads, bool shared)
{
    tx_ctx c = { .n_threads = n_threads };
    return body_all_on(&c, w, shared);
}

#endif
