/* labels: op */
/* What Megatron Core's formulas choose, weigh and drop (its moe_utils.py: topk_routing_with_score_function,
 * apply_router_token_dropping, switch_load_balancing_loss_func), written down once more in plain loops over [T, E],
 * against route_fwd in drawn cases. */
#include "support.h"

#include "backend/ops.h"
#include "nn/moe.h"

enum { T = 24, E = 6, K = 3, DRAWS = 40 };

typedef struct gate_case {
    const char *name;
    bool sigmoid, pre_softmax, bias, by_position;
    int64_t k;
    double factor, scale; /* factor 0: nothing is dropped */
} gate_case;

static const gate_case cases[] = {
    { "softmax of the chosen", .k = 2, .scale = 1 },
    { "softmax of the chosen, scaled", .k = 3, .scale = 2.5 },
    { "softmax of the chosen, later ones dropped", .k = 2, .factor = 0.8, .by_position = true, .scale = 1 },
    { "softmax of all", .pre_softmax = true, .k = 2, .scale = 1 },
    { "softmax of all, small ones dropped", .pre_softmax = true, .k = 2, .factor = 1.1, .scale = 1 },
    { "softmax of all, later ones dropped", .pre_softmax = true, .k = 1, .factor = 1, .by_position = true, .scale = 1 },
    { "sigmoids", .sigmoid = true, .k = 3, .scale = 1.5 },
    { "sigmoids and a bias", .sigmoid = true, .bias = true, .k = 2, .scale = 1 },
    { "one sigmoid, small ones dropped", .sigmoid = true, .k = 1, .factor = 0.7, .scale = 1 },
};

static float logits[T * E], bias[E];

static void draw(uint32_t *state)
{
    for (int i = 0; i < T * E + E; i++) {
        *state = *state * 1664525u + 1013904223u;
        float x = (float)(4 * ((double)*state / 0x1p32 - 0.5));
        i < T *E ? (logits[i] = x) : (bias[i - T * E] = x / 2);
    }
}

/* Core's probs and routing map, and its auxiliary loss. */
typedef struct core {
    double probs[T][E];
    bool map[T][E];
    double aux;
} core;

static void token(const gate_case *g, core *out, int t, double share[E])
{
    double score[E], all = 0, kept = 0;
    for (int e = 0; e < E; e++) {
        double z = (double)logits[t * E + e];
        score[e] = g->sigmoid ? 1 / (1 + exp(-z)) : exp(z);
        all += score[e];
    }
    for (int e = 0; e < E; e++) share[e] = score[e] / all;
    for (int64_t j = 0; j < g->k; j++) {
        int best = -1;
        for (int e = 0; e < E; e++) {
            double by = score[e] + (g->bias ? (double)bias[e] : 0);
            if (!out->map[t][e] && (best < 0 || by > score[best] + (g->bias ? (double)bias[best] : 0))) best = e;
        }
        out->map[t][best] = true;
        kept += score[best];
    }
    double by = g->sigmoid ? (g->k > 1 ? kept : 1) : g->pre_softmax ? all : kept;
    for (int e = 0; e < E; e++) out->probs[t][e] = out->map[t][e] ? score[e] / by * g->scale : 0;
}

/* Of expert e's tokens those that stand behind `capacity` others. */
static void drop(const gate_case *g, core *out, int e, int64_t capacity)
{
    bool gone[T] = { false };
    for (int t = 0; t < T; t++) {
        int64_t before = 0;
        for (int u = 0; u < T; u++)
            before += out->map[u][e] && (g->by_position ? u < t : out->probs[u][e] > out->probs[t][e]);
        gone[t] = out->map[t][e] && before >= capacity;
    }
    for (int t = 0; t < T; t++)
        if (gone[t]) out->probs[t][e] = 0;
}

static core route(const gate_case *g)
{
    core out = { .aux = 0 };
    double sum[E] = { 0 }, share[E];
    for (int t = 0; t < T; t++) {
        token(g, &out, t, share);
        for (int e = 0; e < E; e++) sum[e] += share[e];
    }
    for (int e = 0; e < E; e++) {
        double tokens = 0;
        for (int t = 0; t < T; t++) tokens += out.map[t][e];
        out.aux += sum[e] * tokens * E / (double)(g->k * T * T);
        if (g->factor > 0) drop(g, &out, e, (int64_t)ceil((double)(T * g->k) / E * g->factor));
    }
    return out;
}

static void check(tx_ctx *c, const gate_case *g)
{
    float probs[T * E], weight[T * K], stats[E + 1];
    int32_t choice[T * K], chosen[E];
    tx_route_fwd_args a = { .probs = tx_tensor2(probs, TX_F32, T, E),
                            .choice = tx_tensor2(choice, TX_I32, T, g->k),
                            .weight = tx_tensor2(weight, TX_F32, T, g->k),
                            .chosen = tx_tensor1(chosen, TX_I32, E),
                            .stats = tx_tensor1(stats, TX_F32, E + 1),
                            .logits = tx_tensor2(logits, TX_F32, T, E),
                            .bias = g->bias ? tx_tensor1(bias, TX_F32, E) : (tx_tensor){ 0 },
                            .router = { .score = g->sigmoid ? TX_ROUTER_SIGMOID : TX_ROUTER_SOFTMAX,
                                        .k = g->k,
                                        .softmax_after = !g->sigmoid && !g->pre_softmax,
                                        .renormalise = g->sigmoid && g->k > 1,
                                        .capacity = g->factor > 0 ? tx_moe_wide_capacity(T * g->k, E, g->factor) : 0,
                                        .drop = g->by_position ? TX_DROP_LATER : TX_DROP_SMALL,
                                        .scale = g->scale } };
    const core want = route(g);
    double got[T][E] = { 0 }, aux = 0;
    ASSERT_OK(tx_op_route_fwd(c, &a)); /* dry */
    ASSERT_OK(tx_ctx_take_memory(c));
    ASSERT_OK(tx_op_route_fwd(c, &a));
    for (int64_t i = 0; i < T * g->k; i++)
        if (choice[i] >= 0) got[i / g->k][choice[i]] = (double)weight[i];
    for (int t = 0; t < T; t++)
        for (int e = 0; e < E; e++) ASSERT_NEAR(got[t][e], want.probs[t][e], 1e-6, g->name);
    for (int e = 0; e < E; e++) aux += (double)stats[e] * chosen[e] * E / (double)(g->k * T * T);
    ASSERT_NEAR(aux, want.aux, 1e-5, g->name);
}

static void gates_choose_as_megatron_core(void **state)
{
    static const char *const backends[] = { "ref", "cpu" };
    uint32_t seed = 7;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int n = 0; n < DRAWS; n++) {
            tx_ctx c;
            draw(&seed);
            ASSERT_OK(tx_ctx_init(&c, backends[n % 2], 1));
            check(&c, &cases[i]);
            tx_ctx_deinit(&c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gates_choose_as_megatron_core) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
