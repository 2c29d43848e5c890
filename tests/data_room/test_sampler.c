/* labels: unit golden */
/* `single` as Megatron's own sampler deals it to ranks; `cyclic` next to torch.randperm of PyTorch 2 and upstream's
 * arithmetic around it. */
#include "data/sampler.h"
#include "support.h"

enum { MAX_BATCH = 8 };

static int64_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void single_deals_as_megatron_does(void **state)
{
    (void)state;
    json_t *all = json_load_file(data_path("dataset/blend_sampler.json"), 0, NULL), *one;
    size_t i;
    int64_t compared = 0;
    json_array_foreach(json_object_get(all, "sampler"), i, one)
    {
        tx_order s = { .n_samples = number(one, "total"),
                       .micro_batch = number(one, "micro_batch_size"),
                       .rank = number(one, "rank"),
                       .n_ranks = number(one, "dp") };
        json_t *batches = json_object_get(one, "batches");
        int64_t sample[MAX_BATCH], consumed = number(one, "consumed"), all_ranks = s.micro_batch * s.n_ranks;
        ASSERT_OK(tx_order_open(&s));
        assert_int_equal(json_array_size(batches), (s.n_samples - consumed) / all_ranks); /* the tail is dropped */
        for (size_t k = 0; k < json_array_size(batches); k++, consumed += all_ranks) {
            ASSERT_OK(tx_order_get(&s, sample, consumed));
            for (int64_t j = 0; j < s.micro_batch; j++, compared++)
                assert_int_equal(sample[j], json_integer_value(json_array_get(json_array_get(batches, k), (size_t)j)));
        }
        tx_order_close(&s);
    }
    assert_true(compared > 150);
    json_decref(all);
}

static void single_goes_around(void **state)
{
    (void)state;
    tx_order s = { .n_samples = 5, .micro_batch = 3, .n_ranks = 1 };
    int64_t sample[3];
    ASSERT_OK(tx_order_open(&s));
    ASSERT_OK(tx_order_get(&s, sample, 13));
    assert_int_equal(sample[0], 3);
    assert_int_equal(sample[1], 4);
    assert_int_equal(sample[2], 0);
    tx_order_close(&s);
}

static void assert_cyclic(tx_order s, int64_t consumed, const int64_t *want, int n_batches)
{
    int64_t sample[MAX_BATCH];
    s.n_samples = 26;
    s.cyclic = true;
    ASSERT_OK(tx_order_open(&s));
    for (int back = 0; back < 2; back++) /* and once more from the last to the first: nothing depends on the past */
        for (int i = 0; i < n_batches; i++) {
            int64_t k = back ? n_batches - 1 - i : i;
            ASSERT_OK(tx_order_get(&s, sample, consumed + k * s.micro_batch * s.n_ranks));
            for (int64_t j = 0; j < s.micro_batch; j++) assert_int_equal(sample[j], want[k * s.micro_batch + j]);
        }
    tx_order_close(&s);
}

static void cyclic_shuffles_as_torch_does(void **state)
{
    (void)state;
    static const int64_t one_rank[] = { 20, 5,  3,  12, 7,  2,  13, 17, 4, 1,  19, 22, 9,  18, 11,
                                        8,  16, 10, 0,  14, 15, 23, 21, 6, 13, 2,  18, 20, 7,  6 };
    static const int64_t sharded[] = { 17, 21, 19, 16, 14, 22, 15, 13, 23, 18, 13, 16, 18, 20, 23, 12 };
    static const int64_t dealt_0[] = { 20, 24, 11, 12, 2, 19, 19, 14, 7, 17, 4, 10, 24, 1, 5, 11 };
    static const int64_t dealt_1[] = { 21, 6, 17, 10, 25, 18, 15, 0, 18, 25, 2, 20, 12, 21, 23, 16 };
    assert_cyclic((tx_order){ .micro_batch = 3, .n_ranks = 1, .sharded = true }, 0, one_rank, 10);
    assert_cyclic((tx_order){ .micro_batch = 2, .rank = 1, .n_ranks = 2, .sharded = true }, 4, sharded, 8);
    assert_cyclic((tx_order){ .micro_batch = 2, .rank = 0, .n_ranks = 2 }, 12, dealt_0, 8);
    assert_cyclic((tx_order){ .micro_batch = 2, .rank = 1, .n_ranks = 2 }, 12, dealt_1, 8);

    static const int64_t head[] = { 3411, 1555, 16365, 40130, 23042, 44310 }; /* randperm(50000), seed 5 */
    tx_order s = { .n_samples = 50000, .micro_batch = 1, .n_ranks = 1, .cyclic = true, .sharded = true };
    ASSERT_OK(tx_order_open(&s));
    for (int64_t i = 0, got; i < 6; i++) {
        ASSERT_OK(tx_order_get(&s, &got, 250000 + i));
        assert_int_equal(got, head[i]);
    }
    tx_order_close(&s);
}

static void ranks_share_an_epoch(void **state)
{
    (void)state;
    for (int sharded = 0; sharded < 2; sharded++) {
        int seen[50] = { 0 }, n = 0;
        for (int64_t rank = 0; rank < 4; rank++) {
            tx_order s = {
                .n_samples = 50, .micro_batch = 3, .rank = rank, .n_ranks = 4, .cyclic = true, .sharded = sharded
            };
            int64_t sample[3];
            ASSERT_OK(tx_order_open(&s));
            for (int64_t consumed = 96; consumed < 144; consumed += 12) {
                ASSERT_OK(tx_order_get(&s, sample, consumed));
                for (int j = 0; j < 3; j++) n += seen[sample[j]]++ == 0;
            }
            tx_order_close(&s);
        }
        assert_int_equal(n, 48); /* 4 micro-batches of 12, none twice */
    }
}

static void cyclic_refuses_what_it_cannot_cut(void **state)
{
    (void)state;
    tx_order s = { .n_samples = 7, .micro_batch = 4, .n_ranks = 2, .cyclic = true };
    int64_t sample[4];
    ASSERT_FAILS(tx_order_open(&s), TX_ERR_ARG, "7 samples are fewer than one micro-batch of 8");
    s = (tx_order){ .n_samples = INT64_C(1) << 40, .micro_batch = 4, .n_ranks = 2, .cyclic = true };
    ASSERT_FAILS(tx_order_open(&s), TX_ERR_UNSUPPORTED, "use single");
    s = (tx_order){ .n_samples = 20, .micro_batch = 4, .n_ranks = 2, .cyclic = true };
    ASSERT_OK(tx_order_open(&s));
    ASSERT_FAILS(tx_order_get(&s, sample, 20), TX_ERR_ARG, "after 4 samples of an epoch");
    tx_order_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_deals_as_megatron_does),     cmocka_unit_test(single_goes_around),
        cmocka_unit_test(cyclic_shuffles_as_torch_does),     cmocka_unit_test(ranks_share_an_epoch),
        cmocka_unit_test(cyclic_refuses_what_it_cannot_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
