/* labels: unit */
/* How large what the optimizer holds is said to be, against sums written out. */
#include "support.h"

#include "optim/optim.h"

enum { A = 70001, B = 16, N = A + 15 + B }; /* two tensors; between them nothing */

static void assert_magnitude(const char *what, tx_magnitude got, double (*f)(int64_t i))
{
    double squares = 0, sum = 0, most = 0;
    for (int64_t i = 0; i < N; i++) {
        if (i >= A && i < A + 15) continue;
        double x = fabs(f(i));
        squares += x * x;
        sum += x;
        most = fmax(most, x);
    }
    ASSERT_NEAR(got.l2, sqrt(squares), 1e-6 * sqrt(squares), what);
    ASSERT_NEAR(got.l1, sum, 1e-6 * sum, what);
    ASSERT_NEAR(got.abs_max, most, 1e-6 * most, what);
}

static double weight(int64_t i)
{
    return i % 2 ? -0.5 - (double)i / N : 0.25;
}

static double momentum(int64_t i)
{
    return (double)(i % 7) - 3.5;
}

static double variance(int64_t i)
{
    return 1e-4 * (double)(i % 11);
}

static double variance_sqrt(int64_t i)
{
    return sqrt(variance(i));
}

static void states_are_summed_over_all_tensors(void **state)
{
    (void)state;
    static const char *const backends[] = { "ref", "cpu" };
    static float value[N], grad[N], state0[N], state1[N];
    tx_optim_range range[] = { { .numel = A, .n_real = A, .counted = true, .name = "a" },
                               { .numel = B, .n_real = B, .counted = true, .name = "b" } };
    for (int i = 0, at = 0; i < 2; i++, at = A + 15) {
        range[i].value = value + at;
        range[i].grad = tx_tensor1(grad + at, TX_F32, range[i].numel);
        range[i].state[0] = state0 + at;
        range[i].state[1] = state1 + at;
    }
    tx_config *cfg;
    ASSERT_OK(tx_config_new(&cfg, "pretrain-gpt"));
    for (int k = 0; k < 2; k++) {
        tx_ctx c;
        tx_optim o;
        tx_optim_states s;
        ASSERT_OK(tx_ctx_init(&c, backends[k], 2));
        ASSERT_OK(tx_ctx_take_memory(&c));
        ASSERT_OK(
            tx_optim_init(&o, &(tx_optim_args){ .cfg = cfg, .ranks = &tx_comm_self, .range = range, .n_ranges = 2 }));
        for (int64_t i = 0; i < N; i++) {
            value[i] = (float)weight(i);
            state0[i] = (float)momentum(i);
            state1[i] = (float)variance(i);
        }
        ASSERT_OK(tx_optim_states_of(&c, &o, &s));
        assert_magnitude("weight", s.weight, weight);
        assert_magnitude("momentum", s.momentum, momentum);
        assert_magnitude("variance", s.variance, variance);
        assert_magnitude("variance_sqrt", s.variance_sqrt, variance_sqrt);
        tx_optim_deinit(&o);
        tx_ctx_deinit(&c);
    }
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(states_are_summed_over_all_tensors) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
