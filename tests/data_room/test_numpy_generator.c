/* labels: golden unit */
/* numpy.random.default_rng, whose numbers DeepSpeed's batches are drawn with: those of NumPy 2.4.6. test_draws has many
 * more of them. */
#include "support.h"

#include "data/numpy_generator.h"

/* g = default_rng(seed); a = list(range(10)); g.shuffle(a); g.random(3); x = arange(1000); g.shuffle(x); x[:5] */
static void numbers_are_numpys(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        uint32_t list[10];
        double random[3];
        uint32_t array[5];
    } cases[] = {
        { 0,
          { 4, 6, 2, 7, 3, 5, 9, 0, 8, 1 },
          { 0.6066357757671799, 0.7294965609839984, 0.5436249914654229 },
          { 579, 891, 474, 860, 530 } },
        { 1234,
          { 8, 9, 5, 0, 2, 6, 4, 7, 1, 3 },
          { 0.2417662932527851, 0.3185339287822264, 0.9640792451783763 },
          { 665, 427, 254, 797, 768 } },
        { 123456789012345,
          { 5, 2, 8, 3, 0, 9, 4, 7, 1, 6 },
          { 0.05433960353595424, 0.43622899689101635, 0.765140868996163 },
          { 789, 852, 782, 861, 967 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static uint32_t x[1000];
        tx_np_generator g;
        tx_np_generator_seed(&g, cases[i].seed);
        for (uint32_t k = 0; k < 1000; k++) x[k] = k;
        tx_np_generator_shuffle(&g, x, 10);
        assert_memory_equal(x, cases[i].list, sizeof cases[i].list);
        for (int k = 0; k < 3; k++) assert_true(tx_np_generator_random(&g) == cases[i].random[k]);
        for (uint32_t k = 0; k < 1000; k++) x[k] = k;
        tx_np_generator_shuffle(&g, x, 1000);
        assert_memory_equal(x, cases[i].array, sizeof cases[i].array);
        assert_int_equal(tx_np_generator_interval(&g, 0), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_are_numpys) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
