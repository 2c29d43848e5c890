/* labels: unit threads */
/* test_context_attention.c - attention of ranks that divide positions, all ways to see the others', against that of one
 * rank that has all: with every mask, also those that no option leads to yet. In fp64, so that only a wrong result is
 * far off. Whole models are in tests/parallel/test_layouts.c. */
#include "support.h"

#include "nn/context_attention.h"
#include "parallel/cp.h"

enum { S = 32, B = 2, G = 4, R = 2, D = 3, MOST = 4 };

/* What a rank is given, and how far off it was. */
typedef struct task {
    const char *name;
    enum tx_cp_comm how;
    int n_ranks, heads;
    bool zigzag, causal, padded, documents, alibi, sink;
    int window;
    double drop;
} task;

static const task tasks[] = {
    { "ring", TX_CP_COMM_P2P, 2, .zigzag = true, .causal = true },
    { "ring, window", TX_CP_COMM_P2P, 4, .zigzag = true, .causal = true, .window = 5, .sink = true, .drop = 0.3 },
    { "ring, small window", TX_CP_COMM_P2P, 4, .zigzag = true, .causal = true, .window = 1, .alibi = true },
    { "ring, documents", TX_CP_COMM_P2P, 4, .zigzag = true, .causal = true, .documents = true, .drop = 0.2 },
    { "ring, all keys", TX_CP_COMM_P2P, 4, .drop = 0.2, .sink = true },
    { "ring, halves, all keys", TX_CP_COMM_P2P, 4, .zigzag = true },
    { "ring, padded", TX_CP_COMM_P2P, 4, .padded = true, .drop = 0.2 },
    { "ring in a row", TX_CP_COMM_P2P, 4, .causal = true, .alibi = true, .sink = true },
    { "gathered", TX_CP_COMM_ALLGATHER, 4, .zigzag = true, .causal = true, .window = 7, .sink = true, .drop = 0.3 },
    { "gathered, documents", TX_CP_COMM_ALLGATHER, 2, .zigzag = true, .causal = true, .documents = true,
      .alibi = true },
    { "gathered, padded", TX_CP_COMM_ALLGATHER, 4, .padded = true, .drop = 0.2, .sink = true },
    { "heads", TX_CP_COMM_A2A, 4, .causal = true, .window = 7, .sink = true, .drop = 0.3, .alibi = true },
    { "heads, padded", TX_CP_COMM_A2A, 2, .padded = true, .drop = 0.2 },
    { "both", TX_CP_COMM_A2A_P2P, 4, .heads = 2, .zigzag = true, .causal = true, .documents = true, .drop = 0.2 },
    { "both, window", TX_CP_COMM_A2A_P2P, 4, .heads = 2, .zigzag = true, .causal = true, .window = 6, .sink = true },
    { "both, padded", TX_CP_COMM_A2A_P2P, 4, .heads = 2, .padded = true },
};

/* A rank's tensors, until it is done. */
static _Thread_local void *kept[128];
static _Thread_local int n_kept;

static tx_tensor made(int n_dims, const int64_t *dim, uint64_t seed)
{
    tx_tensor x = tx_tensor_of(NULL, TX_F64, n_dims, dim);
    const tx_rng rng = { .seed = seed };
    double *to = malloc((size_t)tx_numel(x) * sizeof *to);
    TX_ASSERT(to && n_kept < 128);
    kept[n_kept++] = to;
    for (int64_t i = 0; i < tx_numel(x); i++) to[i] = seed ? tx_rng_normal(&rng, (uint64_t)i) : 0;
    x.data = to;
    return x;
}
#define MADE(seed, ...) \
    made((int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]){ __VA_ARGS__ }, seed)

/* Rows of x that a rank has, or their place in it. */
static tx_tensor own_rows(const tx_grid *g, tx_tensor x)
{
    int64_t n = tx_cp_rows(g, S), width = tx_numel(x) / S, dim[TX_MAX_DIMS];
    const tx_position_runs at = tx_cp_positions(g, S);
    memcpy(dim, x.dim, sizeof dim);
    dim[0] = n;
    tx_tensor y = made(x.n_dims, dim, 0);
    for (int64_t i = 0; i < n; i++)
        memcpy((double *)y.data + i * width, (const double *)x.data + tx_position_of(&at, i) * width,
               (size_t)width * sizeof(double));
    return y;
}

enum { Q, K, V, O, D_O, DQ, DK, DV, N_TENSORS };

/* @x those of a rank or of all */
static tx_core_attention core_of(const tx_attention *w, const tx_attention_call *call, const tx_tensor *x)
{
    return (tx_core_attention){ .w = w,
                                .call = call,
                                .q = x[Q],
                                .k = x[K],
                                .v = x[V],
                                .o = x[O],
                                .d_o = x[D_O],
                                .dq = x[DQ],
                                .dk = x[DK],
                                .dv = x[DV],
                                .lse = MADE(0, B, G, R, x[Q].dim[0]) };
}

static tx_status compare(const task *t, const char *what, tx_tensor got, tx_tensor want)
{
    for (int64_t i = 0; i < tx_numel(want); i++) {
        double a = ((const double *)got.data)[i], b = ((const double *)want.data)[i];
        if (!(fabs(a - b) < 1e-12 * (1 + fabs(b))))
            return TX_FAIL(TX_ERR_NUMERIC, "%s: %s[%lld] is %.17g, not %.17g", t->name, what, (long long)i, a, b);
    }
    return TX_OK;
}

static tx_status one_rank(tx_world *world, void *user)
{
    static const char *const names[] = { "q", "k", "v", "o", "do", "dq", "dk", "dv" };
    const task *t = user;
    tx_grid grid;
    tx_ctx c;
    const tx_layout layout = { .size = { [TX_AXIS_TENSOR] = 1, [TX_AXIS_PIPELINE] = 1, [TX_AXIS_CONTEXT] = t->n_ranks },
                               .heads = t->heads,
                               .zigzag = t->zigzag };
    TX_TRY(tx_grid_open(&grid, world, &layout, NULL));
    TX_TRY(tx_ctx_init(&c, "ref", 1));
    TX_TRY(tx_arena_reserve(&c.scratch, (size_t)4 << 20));
    TX_TRY(tx_arena_reserve(&c.acts, (size_t)1 << 20));
    c.dry = false;

    /* 1  a layer, and what its queries see */
    tx_attention w = { .n_heads = G * R,
                       .n_groups = G,
                       .d = D,
                       .n_heads_whole = G * R,
                       .alibi = t->alibi,
                       .causal = t->causal,
                       .scale = 0.7,
                       .kind = { .window = t->window },
                       .p_drop = t->drop,
                       .context = t->how,
                       .layer = 1 };
    int32_t first[S * B], n[B] = { S, 9 };
    for (int i = 0; i < S * B; i++) first[i] = i / B / (11 + i % B) * (11 + i % B);
    const tx_dropout_key key = { .seed = 5, .iteration = 1, .s_global = S, .b = B, .on = t->drop > 0 };
    tx_attention_call call = { .dropout = &key };
    if (t->documents) call.seen.first = tx_tensor2(first, TX_I32, S, B);
    if (t->padded) call.seen.n = tx_tensor1(n, TX_I32, B);
    tx_tensor dsink[] = { MADE(0, G * R), MADE(0, G * R) };
    if (t->sink) w.sink.value = MADE(9, G * R);

    /* 2  on one rank */
    tx_tensor all[N_TENSORS], own[N_TENSORS];
    for (int i = 0; i < N_TENSORS; i++) {
        bool keys = i == K || i == V || i == DK || i == DV, out = i == O || i > D_O;
        all[i] = keys ? MADE(out ? 0 : (uint64_t)i + 1, S, B, G, D) : MADE(out ? 0 : (uint64_t)i + 1, S, B, G, R, D);
        own[i] = own_rows(&grid, all[i]);
    }
    if (t->sink) w.sink.grad = dsink[0];
    tx_core_attention whole = core_of(&w, &call, all);
    TX_TRY(tx_core_attention_fwd(&c, &whole));
    TX_TRY(tx_core_attention_bwd(&c, &whole));

    /* 3  on several, twice: the same bits */
    c.grid = &grid;
    tx_context_saved saved = { .lse = { 0 } };
    for (int pass = 0; pass < 2; pass++) {
        if (t->sink) memset(dsink[1].data, 0, G * R * sizeof(double)), w.sink.grad = dsink[1];
        tx_tensor before[N_TENSORS];
        for (int i = 0; i < N_TENSORS; i++) before[i] = own[i];
        if (pass)
            for (int i = 0; i < N_TENSORS; i++)
                if (i == O || i > D_O) own[i] = made(own[i].n_dims, own[i].dim, 0);
        tx_core_attention divided = core_of(&w, &call, own);
        size_t mark = tx_arena_mark(&c.acts);
        TX_TRY(tx_context_attention_fwd(&c, &divided, &saved));
        TX_TRY(tx_context_attention_bwd(&c, &divided, &saved));
        tx_arena_pop(&c.acts, mark);
        for (int i = 0; pass && i < N_TENSORS; i++)
            if (memcmp(own[i].data, before[i].data, (size_t)tx_numel(own[i]) * sizeof(double)))
                return TX_FAIL(TX_ERR_NUMERIC, "%s: %s has other bits again", t->name, names[i]);
    }
    for (int i = 0; i < N_TENSORS; i++) TX_TRY(compare(t, names[i], own[i], own_rows(&grid, all[i])));
    TX_TRY(tx_all_reduce(&c, tx_grid_group(&grid, TX_GROUP_CONTEXT), dsink[1], TX_SUM));
    TX_TRY(compare(t, "dsink", dsink[1], dsink[0]));
    tx_ctx_deinit(&c);
    tx_grid_close(&grid);
    while (n_kept) free(kept[--n_kept]);
    return TX_OK;
}

static void all_ways_are_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        ASSERT_OK(tx_world_threads(tasks[i].n_ranks, one_rank, (void *)(uintptr_t)&tasks[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_ways_are_one) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
