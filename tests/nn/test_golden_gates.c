/* labels: golden */
/* What DeepSpeed's top1gating, top2gating and topkgating choose, drop and weigh in 200 drawn cases
 * (tests/data/golden/gates/make.py), against route_fwd and tx_moe_capacity.
 *
 *      test_golden_gates           what CTest runs
 *      test_golden_gates FILE      other cases, of make.py SEED (tests/peer/test_gates.sh) */
#include "support.h"

#include "backend/ops.h"
#include "nn/moe.h"

static const char *other_cases;

enum { MOST_TOKENS = 32, MOST_EXPERTS = 12, MOST_CHOICES = 5 };

/* make.py's. */
static float drawn(uint32_t of, uint32_t i)
{
    uint32_t u = (of * 7919u + i) * 2654435761u;
    u ^= u >> 16;
    u *= 2246822519u;
    u ^= u >> 13;
    u *= 3266489917u;
    u ^= u >> 16;
    return (float)(6 * ((double)u / 0x1p32 - 0.5));
}

typedef struct gate {
    int64_t tokens, experts, k;
    bool drops;
    float logits[MOST_TOKENS * MOST_EXPERTS], probs[MOST_TOKENS * MOST_EXPERTS], stats[MOST_EXPERTS + 1];
    float weight[MOST_TOKENS * MOST_CHOICES];
    int32_t choice[MOST_TOKENS * MOST_CHOICES], chosen[MOST_EXPERTS];
} gate;

static int64_t integer(const json_t *j, const char *key)
{
    return json_integer_value(json_object_get(j, key));
}

static int64_t capacity_of(const gate *g, const json_t *j)
{
    double factor = json_number_value(json_object_get(j, "factor"));
    return g->drops ? tx_moe_capacity(g->tokens, g->experts, factor * (double)g->k, integer(j, "least")) : 0;
}

static void choose(tx_ctx *c, gate *g, uint32_t number, int64_t capacity)
{
    tx_route_fwd_args a = {
        .probs = tx_tensor2(g->probs, TX_F32, g->tokens, g->experts),
        .choice = tx_tensor2(g->choice, TX_I32, g->tokens, g->k),
        .weight = tx_tensor2(g->weight, TX_F32, g->tokens, g->k),
        .chosen = tx_tensor1(g->chosen, TX_I32, g->experts),
        .stats = tx_tensor1(g->stats, TX_F32, g->experts + 1),
        .logits = tx_tensor2(g->logits, TX_F32, g->tokens, g->experts),
        .router = { .k = g->k,
                    .renormalise = g->k > 1,
                    .load_of_first = g->k == 2,
                    .capacity = capacity,
                    .drop = g->k == 1   ? TX_DROP_LATER
                            : g->k == 2 ? TX_DROP_SECONDS
                                        : TX_DROP_SMALL, /* none is random */
                    .scale = 1 },
    };
    for (int64_t i = 0; i < g->tokens * g->experts; i++) g->logits[i] = drawn(number, (uint32_t)i);
    ASSERT_OK(tx_op_route_fwd(c, &a)); /* dry */
    ASSERT_OK(tx_ctx_take_memory(c));
    ASSERT_OK(tx_op_route_fwd(c, &a));
}

/* Load: of all choices, as DeepSpeed returns it. */
static void check_load(const gate *g, const json_t *j)
{
    int64_t load[MOST_EXPERTS] = { 0 };
    double aux = 0;
    for (int64_t i = 0; i < g->tokens * g->k; i++) load[g->choice[i] < 0 ? -1 - g->choice[i] : g->choice[i]]++;
    for (int64_t e = 0; e < g->experts; e++) {
        assert_int_equal(load[e], json_integer_value(json_array_get(json_object_get(j, "chosen"), (size_t)e)));
        aux += (double)g->stats[e] * g->chosen[e];
    }
    aux *= (double)g->experts / (double)(g->k == 2 ? 1 : g->k) / (double)(g->tokens * g->tokens);
    ASSERT_NEAR(aux, json_number_value(json_object_get(j, "aux")), 1e-6 * fmax(1, aux), "auxiliary loss");
}

/* The weight of expert e for a token; 0: it was not chosen, or dropped. */
static double weight_of(const gate *g, int64_t t, int64_t e)
{
    for (int64_t i = 0; i < g->k; i++)
        if (g->choice[t * g->k + i] == e) return (double)g->weight[t * g->k + i];
    return 0;
}

/* Likewise of DeepSpeed.   @row its pairs of an expert and a weight */
static double their_weight_of(const json_t *row, int64_t e)
{
    for (size_t i = 0; i < json_array_size(row); i++)
        if (json_integer_value(json_array_get(json_array_get(row, i), 0)) == e)
            return json_number_value(json_array_get(json_array_get(row, i), 1));
    return 0;
}

/* Where tokens of equal rights are dropped, torch.topk's order of equal numbers decides which ones are kept. What is
 * kept is then a first choice all the same, here and there, with the weight that it has wherever it is kept; and here
 * those before the last one are. */
static void check_one_of_equals(const gate *g, int64_t t, int64_t e, double theirs, bool *over)
{
    double ours = weight_of(g, t, e), p = (double)g->probs[t * g->experts + e];
    bool chosen = g->choice[t] == e || g->choice[t] == -1 - e;
    if (ours > 0) ASSERT_NEAR(ours, p, 1e-6, "weight of what is kept");
    if (theirs > 0) ASSERT_NEAR(theirs, p, 1e-6, "DeepSpeed's weight of what it keeps");
    assert_true(chosen || !(theirs > 0));
    assert_false(*over && ours > 0);
    *over |= chosen && !(ours > 0);
}

static void check_kept(const gate *g, const json_t *kept, int64_t capacity)
{
    for (int64_t e = 0; e < g->experts; e++) {
        int n = 0, theirs = 0;
        bool over = false;
        for (int64_t t = 0; t < g->tokens; t++) n += weight_of(g, t, e) > 0;
        bool equal_rights = g->k == 1 && capacity && n == capacity;
        for (int64_t t = 0; t < g->tokens; t++) {
            double w = their_weight_of(json_array_get(kept, (size_t)t), e);
            theirs += w > 0;
            if (equal_rights)
                check_one_of_equals(g, t, e, w, &over);
            else
                ASSERT_NEAR(weight_of(g, t, e), w, 1e-6, "weight");
        }
        assert_int_equal(n, theirs);
    }
}

static void gates_choose_as_deepspeed(void **state)
{
    static const char *const backends[] = { "ref", "cpu" };
    json_t *cases = load_json(other_cases ? other_cases : data_path("golden/gates/result.json"));
    int n_dropping = 0;
    (void)state;
    assert_int_equal(json_array_size(cases), 200);
    for (size_t i = 0; i < 400; i++) {
        const json_t *j = json_array_get(cases, i / 2), *number = json_object_get(j, "drawn");
        gate g = { .tokens = integer(j, "tokens"),
                   .experts = integer(j, "experts"),
                   .k = integer(j, "k"),
                   .drops = json_is_true(json_object_get(j, "drops")) };
        tx_ctx c;
        int64_t capacity = capacity_of(&g, j);
        if (g.drops) assert_int_equal(capacity, integer(j, "capacity"));
        n_dropping += g.drops;
        ASSERT_OK(tx_ctx_init(&c, backends[i % 2], 1));
        choose(&c, &g, number ? (uint32_t)json_integer_value(number) : (uint32_t)i / 2, capacity);
        check_load(&g, j);
        check_kept(&g, json_object_get(j, "kept"), capacity);
        tx_ctx_deinit(&c);
    }
    assert_true(n_dropping > 200);
    json_decref(cases);
}

int main(int argc, char **argv)
{
    if (argc > 1) other_cases = argv[1];
    const struct CMUnitTest tests[] = { cmocka_unit_test(gates_choose_as_deepspeed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
