/* labels: unit */
/* The batch sizes of DeepSpeed's JSON against a search of all small ones. */
#include "support.h"

#include "config/deepspeed_json.h"

static double change(int64_t from, int64_t to)
{
    return !from || from == to ? 0 : 0.25 + fabs(log((double)to / (double)from));
}

static double distance(const tx__batch_sizes *b, const tx__batch_sizes *c)
{
    return change(b->train, c->train) + change(b->micro, c->micro) + change(b->accumulation, c->accumulation);
}

/* Completion against the equation, and the nearest solution against a search of all small ones. */
static void small_batches_all_of_them(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 25 * 7 * 7 * 3; i++) {
        tx__batch_sizes b = { i % 25, i / 25 % 7, i / 25 / 7 % 7, 1 + i / 25 / 49 }, c = b, near[3];
        if (!b.train && !b.micro) {
            assert_false(tx__batch_complete(&c));
            continue;
        }
        bool given_alone = !b.accumulation && (!b.train || !b.micro), any = false;
        double best = INFINITY;
        for (int64_t m = 1; m <= 25; m++)
            for (int64_t a = 1; a <= (given_alone ? 1 : 25); a++) {
                tx__batch_sizes s = { m * a * b.ranks, m, a, b.ranks };
                double d = distance(&b, &s);
                any |= d == 0;
                if (d < best) best = d;
            }
        if (tx__batch_complete(&c) != any) fail_msg("case %lld", (long long)i);
        if (any) {
            assert_true(distance(&b, &c) == 0 && c.train == c.micro * c.accumulation * c.ranks);
            continue;
        }
        int n = tx__batch_nearest(&b, 3, near);
        assert_int_equal(n, 3);
        ASSERT_NEAR(distance(&b, &near[0]), best, 1e-12, "the nearest solution");
        for (int k = 0; k < n; k++) {
            assert_true(near[k].train == near[k].micro * near[k].accumulation * b.ranks && near[k].ranks == b.ranks);
            assert_true(!k || distance(&b, &near[k - 1]) <= distance(&b, &near[k]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(small_batches_all_of_them) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
