/* labels: unit threads. Numbers that are kept in host memory or in a file come back as they were. */
#include "support.h"

#include "zero/tier.h"

enum { B = TX_TIER_BLOCK, NUMEL = 7 * B + 5, PADDED = 8 * B, ARRAYS = 3 };

static tx_tier *open_tier(tx_tier_kind kind, tx_dtype dtype)
{
    tx_tier *t;
    tx_tier_config c = { .kind = kind, .n_arrays = ARRAYS, .numel = NUMEL, .dtype = dtype, .what = "a test" };
    c.dir = scratch_dir;
    c.name = "tier";
    c.aio = tx_aio_defaults();
    c.aio.in_memory = true;
    c.aio.block_size = 8192;
    assert_int_equal(tx_tier_bytes(&c), (uint64_t)ARRAYS * PADDED * tx_dtype_size(dtype));
    ASSERT_OK(tx_tier_open(&t, &c));
    return t;
}

static void fetch(tx_tier *t, int array, int64_t at, int64_t n, void *buf)
{
    tx_tier_request r = { 0 };
    tx_tier_fetch_start(t, array, at, n, buf, &r);
    ASSERT_OK(tx_tier_wait(&r));
}

/* Element i of an array in round `round`: in all dtypes exactly what it is, as bits. */
static uint32_t value(int array, int64_t i, int round)
{
    return (uint32_t)(array * 20011 + i * 3 + round * 101);
}

static void put(unsigned char *p, int64_t i, size_t size, uint32_t v)
{
    memcpy(p + (size_t)i * size, &v, size);
}

static void assert_values(const unsigned char *p, size_t size, int array, int64_t at, int64_t n, int round)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t v = value(array, at + i, round);
        if (memcmp(p + (size_t)i * size, &v, size)) fail_msg("array %d: element %d", array, (int)(at + i));
    }
}

/* Two buffers to an array, as an optimizer goes through it: the next part comes and the last one goes while this one is
 * worked on. */
static void go_through(tx_tier *t, size_t size, int round, unsigned char *buf)
{
    enum { PART = 2 * B, PARTS = PADDED / PART, SLOT = ARRAYS * PART };
    tx_tier_request in[2][ARRAYS] = { 0 }, out[2][ARRAYS] = { 0 };
    for (int k = -1; k < PARTS; k++) {
        int next = k + 1, slot = next % 2;
        for (int a = 0; a < ARRAYS && next < PARTS; a++) {
            ASSERT_OK(tx_tier_wait(&out[slot][a]));
            tx_tier_fetch_start(t, a, next * PART, PART, buf + (size_t)(slot * SLOT + a * PART) * size, &in[slot][a]);
        }
        slot = 1 - slot;
        for (int a = 0; a < ARRAYS && k >= 0; a++) {
            unsigned char *p = buf + (size_t)(slot * SLOT + a * PART) * size;
            ASSERT_OK(tx_tier_wait(&in[slot][a]));
            if (round) assert_values(p, size, a, k * PART, PART, round - 1);
            for (int64_t i = 0; i < PART; i++) put(p, i, size, value(a, k * PART + i, round));
            tx_tier_store_start(t, a, k * PART, PART, p, &out[slot][a]);
        }
    }
    for (int a = 0; a < 2 * ARRAYS; a++) ASSERT_OK(tx_tier_wait(&out[a / ARRAYS][a % ARRAYS]));
}

static void keeps_numbers(tx_tier_kind kind, tx_dtype dtype)
{
    size_t size = tx_dtype_size(dtype);
    const uint64_t all = (uint64_t)ARRAYS * PADDED * size;
    unsigned char *buf, *zeros;
    tx_tier *t = open_tier(kind, dtype);
    ASSERT_OK(tx_aio_alloc(&buf, (size_t)all, "a test"));
    ASSERT_OK(tx_alloc(&zeros, PADDED, size, "a test"));
    for (int a = 0; a < ARRAYS; a++) {
        memset(buf, 0xee, PADDED * size);
        fetch(t, a, 0, PADDED, buf);
        assert_memory_equal(buf, zeros, PADDED * size);
    }
    for (int round = 0; round < 3; round++) go_through(t, size, round, buf);
    for (int a = 0; a < ARRAYS; a++) {
        fetch(t, a, 3 * B, 5 * B, buf);
        assert_values(buf, size, a, 3 * B, 5 * B, 2);
    }
    tx_tier_close(t);
    tx_aio_free(buf);
    tx_free(zeros);
}

static void test_numbers_come_back(void **state)
{
    (void)state;
    for (int kind = TX_TIER_CPU; kind <= TX_TIER_NVME; kind++) {
        keeps_numbers((tx_tier_kind)kind, TX_F32);
        keeps_numbers((tx_tier_kind)kind, TX_BF16);
    }
}

static void test_host_memory_can_be_computed_in(void **state)
{
    (void)state;
    tx_tier *t = open_tier(TX_TIER_CPU, TX_F32);
    float *buf, *p = tx_tier_direct(t, 2, B);
    ASSERT_OK(tx_aio_alloc(&buf, B * sizeof *buf, "a test"));
    for (int i = 0; i < B; i++) p[i] = (float)i;
    fetch(t, 2, B, B, buf);
    assert_memory_equal(buf, p, B * sizeof *buf);
    tx_tier_close(t);
    tx_aio_free(buf);

    t = open_tier(TX_TIER_NVME, TX_F32);
    assert_null(tx_tier_direct(t, 2, B));
    tx_tier_close(t);
}

static void test_what_cannot_be_had(void **state)
{
    (void)state;
    tx_tier *t = NULL;
    tx_tier_config c = { .n_arrays = 1, .numel = B, .dtype = TX_F32, .what = "the optimizer state" };
    for (int n = 0; n < 2; n++) {
        allocation_fails_at(n);
        tx_status st = tx_tier_open(&t, &c);
        allocations_succeed();
        assert_int_equal(st, TX_ERR_NOMEM);
        ASSERT_CONTAINS(tx_last_error(), "the optimizer state");
    }
    c.kind = TX_TIER_NVME;
    c.dir = in_scratch("no/such");
    c.name = "tier";
    c.aio = tx_aio_defaults();
    ASSERT_FAILS(tx_tier_open(&t, &c), TX_ERR_IO, "no/such: the folder above it does not exist");
    assert_null(t);
    tx_tier_request none = { 0 };
    ASSERT_OK(tx_tier_wait(&none));
    tx_tier_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_numbers_come_back),
        SCRATCH_TEST(test_host_memory_can_be_computed_in),
        SCRATCH_TEST(test_what_cannot_be_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
