/* labels: unit */
/* What a client's layers may ask of the context that they are called with. */
#include "backend/op_test.h"

#include "triax/model.h"

static void tensors_are_read(void **state)
{
    (void)state;
    tx_ctx c = open_ctx("cpu", 3);
    tx_tensor x = RAND(TX_F32, 4, 6), part = x;
    float got[24] = { 0 };
    assert_int_equal(tx_ctx_threads(&c), 3);
    ASSERT_OK(tx_ctx_read(&c, got, x));
    assert_memory_equal(got, x.data, sizeof got);
    part.dim[1] = 3; /* the left half of each row */
    ASSERT_FAILS(tx_ctx_read(&c, got, part), TX_ERR_SHAPE, "that is not contiguous is not read");
    memset(got, 0, sizeof got);
    c.dry = true; /* there are no numbers */
    assert_true(tx_ctx_is_dry(&c));
    ASSERT_OK(tx_ctx_read(&c, got, x));
    for (int i = 0; i < 24; i++) assert_true(got[i] == 0);
    c.dry = false;
    tx_ctx_deinit(&c);
    pool_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(tensors_are_read) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
