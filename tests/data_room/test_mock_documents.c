/* labels: unit golden */
/* The documents of --mock-data: Megatron Core's lengths, which NumPy's default_rng(0).integers(1, 4096, 100000, int32)
 * gave (NumPy 2.4), and ids that count; and samples of them, in either order. */
#include "data/gpt_dataset.h"
#include "data/mock_documents.h"
#include "support.h"

static void lengths_are_numpys(void **state)
{
    (void)state;
    static int32_t n[TX_MOCK_DOCUMENTS];
    static const int32_t first[] = { 3484, 2609, 2094, 1105, 1261, 168, 309, 68, 718, 3331 },
                         last[] = { 2815, 2592, 61, 100, 769 };
    int64_t sum = 0, weighted = 0;
    tx_mock_lengths(n, TX_MOCK_DOCUMENTS);
    assert_memory_equal(n, first, sizeof first);
    assert_memory_equal(n + TX_MOCK_DOCUMENTS - 5, last, sizeof last);
    for (int64_t i = 0; i < TX_MOCK_DOCUMENTS; i++) {
        assert_in_range(n[i], 1, TX_MOCK_LONGEST);
        sum += n[i];
        weighted += i * n[i];
    }
    assert_int_equal(sum, 204637097);
    assert_int_equal(weighted, 10235325438683);
}

static void ids_count(void **state)
{
    (void)state;
    static const int32_t whole[] = { 1, 2, 3, 4, 0, 1, 9 }, part[] = { 4, 0 };
    int32_t ids[7];
    tx_mock_ids(ids, 7, 0, 7, 5, 9);
    assert_memory_equal(ids, whole, sizeof whole);
    tx_mock_ids(ids, 7, 3, 2, 5, 9);
    assert_memory_equal(ids, part, sizeof part);
    tx_mock_ids(ids, 1, 0, 1, 5, 9);
    assert_int_equal(ids[0], 9);
}

/* A sample is what its pieces say of those documents. */
static void samples_are_cut_from_them(void **state)
{
    (void)state;
    enum { S = 300, V = 1001, EOD = 1000 };
    for (int keyed = 0; keyed < 2; keyed++) {
        static int32_t length[TX_MOCK_DOCUMENTS];
        const tx_gpt_data_opts o = { .path = TX_MOCK_NAME,
                                     .mock = true,
                                     .eod = EOD,
                                     .split = "969, 30, 1",
                                     .n_samples = { 50, 10, 10 },
                                     .seq_length = S,
                                     .seed = 1234,
                                     .keyed = keyed,
                                     .vocab_size = V };
        tx_gpt_data *data;
        int32_t tokens[S + 1];
        tx_sample_piece piece[S + 1];
        ASSERT_OK(tx_gpt_data_open(&data, &o));
        tx_mock_lengths(length, TX_MOCK_DOCUMENTS);
        for (int k = 0; k < TX_N_SPLITS; k++) {
            const tx_gpt_dataset *ds = tx_gpt_data_split(data, (tx_split)k);
            for (int64_t i = 0; i < 10; i++) {
                ASSERT_OK(tx_gpt_dataset_get(ds, tokens, i));
                int64_t n = tx_gpt_dataset_pieces(ds, piece, S + 1, i), at = 0;
                for (int64_t p = 0; p < n; p++)
                    for (int64_t j = 0; j < piece[p].n_tokens; j++, at++) {
                        int64_t place = piece[p].offset + j;
                        bool ends = place == length[piece[p].item] - 1;
                        assert_int_equal(tokens[at], ends ? EOD : (place + 1) % V);
                    }
                assert_int_equal(at, S + 1);
            }
        }
        tx_gpt_data_close(data);
    }
}

static void refuses_a_vocabulary_without_an_end(void **state)
{
    (void)state;
    tx_indexed ix;
    ASSERT_FAILS(tx_indexed_open_mock(&ix, 0, -1), TX_ERR_ARG, "--mock-data needs a vocabulary: give");
    ASSERT_FAILS(tx_indexed_open_mock(&ix, 100, -1), TX_ERR_ARG, "a vocabulary with an end-of-document token");
    for (int at = 0; at < 2; at++) {
        allocation_fails_at(at);
        tx_status st = tx_indexed_open_mock(&ix, 100, 99);
        allocations_succeed();
        assert_int_equal(st, TX_ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_numpys),
        cmocka_unit_test(ids_count),
        cmocka_unit_test(samples_are_cut_from_them),
        cmocka_unit_test(refuses_a_vocabulary_without_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
