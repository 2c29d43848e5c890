/* labels: unit threads */
/* test_ulysses.c - ranks that exchange heads compute what one rank computes of all of them: heads that do not divide,
 * and fewer key and value heads than ranks, with all that a layer's attention may have; also chunk by chunk. */
#include "support.h"

#include "numbers.h"

#include "nn/context_attention.h"
#include "parallel/grid.h"

enum { B = 2, D = 8, MAX_S = 24, MAX_HEADS = 16, MAX_WIDTH = 3 * MAX_HEADS * D, MAX_RANKS = 8 };

typedef struct shape {
    int n, g, ranks, s; /* heads, groups; s: of all ranks */
} shape;

/* What a rank reads, of all positions; and writes, of its own. */
typedef struct numbers {
    unsigned char qkv[4 * MAX_S * B * MAX_WIDTH], d_o[4 * MAX_S * B * MAX_WIDTH];
} numbers;
typedef struct results {
    unsigned char o[4 * MAX_S * B * MAX_WIDTH], d[4 * MAX_S * B * MAX_WIDTH];
    float dsink[MAX_HEADS], largest[MAX_HEADS];
} results;

typedef struct job {
    shape is;
    int chunk; /* positions of a chunk; 0: all at once */
    tx_attention w;
    tx_dtype t;
    const numbers *in;
    const int32_t *first_key; /* [s, b] */
    float *sink;
    results *out; /* [ranks] */
} job;

static int64_t width(const job *j)
{
    return (j->is.n + 2 * j->is.g) * D;
}

/* Of [s, b, groups, r + 2, d] from one head on: queries, or what is one a group. */
static tx_tensor view(const job *j, const void *data, int64_t rows, int64_t head, bool one)
{
    int64_t r = j->is.n / j->is.g;
    tx_tensor x = { .data = (char *)data + (size_t)(head * D) * tx_dtype_size(j->t),
                    .dtype = j->t,
                    .n_dims = 5,
                    .dim = { rows, B, j->is.g, r, D },
                    .stride = { B * width(j), width(j), (r + 2) * D, D, 1 } };
    if (!one) return x;
    x.n_dims = 4;
    x.dim[3] = D;
    x.stride[3] = 1;
    return x;
}

static tx_tensor outputs(const job *j, const void *data, int64_t rows)
{
    const int64_t dim[] = { rows, B, j->is.g, j->is.n / j->is.g, D };
    return tx_tensor_of((void *)data, j->t, 5, dim);
}

/* So many positions from `at` on, as the rank's rows from `row` on. */
typedef struct part {
    int64_t at, row, n;
    bool back; /* backward, too */
} part;

static tx_status run(tx_ctx *c, const job *j, results *out, part p, const tx_chunks *chunks)
{
    int64_t r = j->is.n / j->is.g, size = (int64_t)tx_dtype_size(j->t), rows = p.n;
    const unsigned char *qkv = j->in->qkv + p.at * B * width(j) * size,
                        *d_o = j->in->d_o + p.at * B * j->is.n * D * size;
    unsigned char *o = out->o + p.row * B * j->is.n * D * size, *d = out->d + p.row * B * width(j) * size;
    const tx_dropout_key key = { .seed = 9, .iteration = 2, .sample = 5, .s_global = j->is.s, .b = B, .on = true };
    const int64_t dim[] = { B, j->is.g, r, rows };
    tx_attention w = j->w;
    if (j->sink) {
        w.sink.value = tx_tensor1(j->sink, TX_F32, j->is.n);
        w.sink.grad = tx_tensor1(out->dsink, TX_F32, j->is.n);
    }
    tx_attention_call call = { .dropout = &key, .chunks = chunks };
    if (j->first_key) call.seen.first = tx_tensor2((void *)j->first_key, TX_I32, j->is.s, B);
    if (j->first_key && chunks) call.seen.first = tx_slice_rows(call.seen.first, chunks->first, j->chunk);
    call.max_logits = tx_tensor2(out->largest, TX_F32, j->is.g, r);
    tx_context_saved saved;
    size_t mark = tx_arena_mark(&c->acts);
    tx_core_attention k = { .w = &w,
                            .call = &call,
                            .q = view(j, qkv, rows, 0, false),
                            .k = view(j, qkv, rows, r, true),
                            .v = view(j, qkv, rows, r + 1, true),
                            .o = outputs(j, o, rows),
                            .d_o = outputs(j, d_o, rows),
                            .dq = view(j, d, rows, 0, false),
                            .dk = view(j, d, rows, r, true),
                            .dv = view(j, d, rows, r + 1, true) };
    k.lse = tx_tensor_of(tx_push1(&c->acts, TX_F32, B * j->is.n * rows).data, TX_F32, 4, dim);
    bool divided = tx_context_is_divided(c);
    TX_TRY(divided ? tx_context_attention_fwd(c, &k, &saved) : tx_core_attention_fwd(c, &k));
    if (p.back) TX_TRY(divided ? tx_context_attention_bwd(c, &k, &saved) : tx_core_attention_bwd(c, &k));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* A chunk after the other, forward from the first and backward from the last on. */
static tx_status run_chunks(tx_ctx *c, const job *j, results *out, int64_t ranks, int64_t rank)
{
    const tx_context_heads own = tx_context_own_heads(c, &j->w);
    const tx_chunk_shape of = { .dtype = j->t,
                                .s = j->is.s,
                                .n_ranks = ranks,
                                .n_parts = 1,
                                .b = B,
                                .n_heads = own.n,
                                .n_groups = own.n_groups,
                                .d = D };
    tx_chunks a;
    size_t mark = tx_arena_mark(&c->acts), host = tx_arena_mark(&c->host);
    tx_chunks_push(c, &a, (tx_chunking){ .positions = j->chunk, .in_host = true }, &of);
    for (; a.first < a.s; a.first += j->chunk) {
        int64_t n = j->chunk / ranks;
        TX_TRY(run(c, j, out, (part){ a.first + rank * n, a.first / ranks, n, false }, &a));
    }
    tx_chunks_push_gradients(c, &a);
    a.again = true;
    for (a.first -= j->chunk; a.first >= 0; a.first -= j->chunk) {
        int64_t n = j->chunk / ranks;
        TX_TRY(run(c, j, out, (part){ a.first + rank * n, a.first / ranks, n, true }, &a));
    }
    tx_arena_pop(&c->acts, mark);
    tx_arena_pop(&c->host, host);
    return TX_OK;
}

static tx_status run_all(tx_ctx *c, const job *j, results *out, int64_t ranks, int64_t rank)
{
    int64_t rows = j->is.s / ranks;
    return j->chunk ? run_chunks(c, j, out, ranks, rank) : run(c, j, out, (part){ rank * rows, 0, rows, true }, NULL);
}

static tx_status on_rank(tx_world *w, void *user)
{
    const job *j = user;
    tx_grid grid;
    tx_ctx c;
    TX_TRY(tx_grid_open(&grid, w, &(tx_layout){ .size = { [TX_AXIS_CONTEXT] = tx_world_size(w) } }, NULL));
    tx_status st = tx_grid_ctx(&c, &grid, "cpu", 1, false);
    if (st) goto closed;
    int rank = tx_world_rank(w);
    TX_GOTO(run_all(&c, j, &j->out[rank], tx_world_size(w), rank));
    TX_GOTO(tx_ctx_take_memory(&c));
    memset(j->out[rank].dsink, 0, sizeof j->out[rank].dsink);
    TX_GOTO(run_all(&c, j, &j->out[rank], tx_world_size(w), rank));
out:
    tx_ctx_deinit(&c);
closed:
    tx_grid_close(&grid);
    return st;
}

/* n rows from `row` on of a rank's outputs, or gradients, are the one rank's from `at` on. */
static void assert_part(const job *j, const results *one, const results *its, part p, double allowed)
{
    for (int k = 0; k < 2; k++) {
        int64_t each = B * (k ? width(j) : j->is.n * D), size = (int64_t)tx_dtype_size(j->t);
        const unsigned char *a = k ? one->d : one->o, *b = k ? its->d : its->o;
        double off = distance(tx_tensor1((void *)(b + p.row * each * size), j->t, p.n * each),
                              tx_tensor1((void *)(a + p.at * each * size), j->t, p.n * each));
        if (!(off <= allowed))
            fail_msg("%d heads in %d groups on %d ranks, chunks of %d, %s: position %d, %s: off by %g, allowed %g",
                     j->is.n, j->is.g, j->is.ranks, j->chunk, tx_dtype_name(j->t), (int)p.at,
                     k ? "gradients" : "outputs", off, allowed);
    }
}

static void assert_rows(const job *j, const results *one, const results *many, double allowed)
{
    int64_t chunk = j->chunk ? j->chunk : j->is.s, n = chunk / j->is.ranks;
    for (int rank = 0; rank < j->is.ranks; rank++)
        for (int64_t first = 0; first < j->is.s; first += chunk)
            assert_part(j, one, &many[rank], (part){ first + rank * n, first / j->is.ranks, n, true }, allowed);
}

/* Each head's are those of the rank that has it; of others nothing is added. */
static void assert_heads(const job *j, const results *one, const results *many)
{
    for (int i = 0; i < j->is.n; i++) {
        double dsink = 0, largest = 0;
        for (int rank = 0; rank < j->is.ranks; rank++) {
            dsink += (double)many[rank].dsink[i];
            largest = fmax(largest, (double)many[rank].largest[i]);
        }
        ASSERT_NEAR(largest, (double)one->largest[i], 1e-6, "largest score");
        if (j->sink) ASSERT_NEAR(dsink, (double)one->dsink[i], 1e-4, "gradient of a sink");
    }
}

static const shape shapes[] = {
    { 4, 4, 2, 8 },   { 4, 4, 3, 12 }, { 5, 5, 2, 8 },  { 8, 4, 2, 16 }, { 8, 4, 8, 24 },
    { 8, 2, 4, 12 },  { 8, 2, 3, 12 }, { 4, 1, 3, 12 }, { 7, 1, 7, 21 }, { 12, 4, 5, 20 },
    { 12, 3, 8, 24 }, { 6, 3, 4, 8 },  { 3, 3, 3, 3 },  { 16, 4, 6, 6 }, { 15, 5, 4, 16 },
};

static void ranks_equal_one(void **state)
{
    (void)state;
    static numbers in;
    static results one, many[MAX_RANKS];
    static float sink[MAX_HEADS];
    static int32_t first_key[MAX_S * B];
    for (int i = 0; i < MAX_HEADS; i++) sink[i] = (float)draw(3, i);
    for (int i = 0; i < MAX_S * B; i++) first_key[i] = i / B / 5 * 5;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int how = 0; how < 6; how++) {
            const shape is = shapes[i];
            job j = { .is = is, .t = float_types[how == 5].t, .in = &in, .out = &one };
            j.w = (tx_attention){ .n_heads = is.n,
                                  .n_groups = is.g,
                                  .d = D,
                                  .n_heads_whole = 2 * is.n,
                                  .first_head = is.n,
                                  .alibi = how == 1,
                                  .causal = how != 4,
                                  .scale = 0.4,
                                  .p_drop = how == 2 || how == 5 ? 0.2 : 0,
                                  .context = TX_CP_COMM_A2A,
                                  .layer = 3 };
            if (how == 2) j.w.kind.window = 4;
            if (how == 3) j.sink = sink, j.first_key = first_key, j.w.kind.softcap = 2;
            fill_drawn(tx_tensor1(in.qkv, j.t, is.s * B * width(&j)), 1);
            fill_drawn(tx_tensor1(in.d_o, j.t, is.s * B * is.n * D), 2);
            memset(&one, 0, sizeof one);
            memset(many, 0, sizeof many);
            ASSERT_OK(tx_world_threads(1, on_rank, &j));
            j.out = many;
            ASSERT_OK(tx_world_threads(is.ranks, on_rank, &j));
            /* a group's gradient may be rounded once for each rank that has a part of it */
            assert_rows(&j, &one, many, (how == 5 ? 4 : 16) * float_types[how == 5].epsilon);
            assert_heads(&j, &one, many);
            if (how > 3) continue;
            /* chunks of as many positions as there are ranks, or of twice as many */
            j.chunk = is.s % (2 * is.ranks) || i % 2 ? is.ranks : 2 * is.ranks;
            memset(many, 0, sizeof many);
            ASSERT_OK(tx_world_threads(is.ranks, on_rank, &j));
            assert_rows(&j, &one, many, 16 * float_types[0].epsilon);
            assert_heads(&j, &one, many);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_equal_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
