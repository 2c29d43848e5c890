/* labels: unit parallel. Groups of ranks whose tensors lie in a device's memory: each rank has an emulated GPU, in
 * which work is done as late as possible and whose memory the host cannot read. With TX_TEST_GPU_MODULE on a real one.
 */
#include "support.h"

#include "backend/gpu_module.h"
#include "comm_body.h"

static tx_status everything(tx_world *w, void *user)
{
    (void)user;
    tx_ctx c = { 0 };
    tx_status st;
    TX_TRY(tx_ctx_init(&c, "gpu", 1));
    c.dry = false;
    TX_GOTO(body_all_on(&c, w, false));
out:
    tx_ctx_deinit(&c);
    return st;
}

static void test_ranks_agree_with_a_serial_loop(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) ASSERT_OK(tx_world_threads(n, everything, NULL));
}

/* ---- between ops, which nobody waits for ---- */

#define FILL(c, tensor, number) tx_run_fill((c), &(tx_fill_args){ .x = (tensor), .value = (number) })

enum { N_OPS = 5000, ROUNDS = 20 };

/* x is written by an op, summed, and read by calls behind it, while an op overwrites what has been sent. */
static tx_status rounds(tx_ctx *c, tx_comm *g, float *x, float *y)
{
    int rank = tx_comm_rank(g), n = tx_comm_size(g);
    for (int k = 0; k < ROUNDS; k++) {
        tx_request sum = { 0 }, all = { 0 }, sent = { 0 };
        tx_tensor a = tx_tensor1(x, TX_F32, N_OPS), b = tx_tensor1(x + N_OPS, TX_F32, N_OPS),
                  whole = tx_tensor1(y, TX_F32, (int64_t)n * N_OPS), got = tx_tensor1(x + 2 * N_OPS, TX_F32, N_OPS);
        TX_TRY(FILL(c, a, rank + k));
        TX_TRY(tx_all_reduce_start(c, g, a, &sum));
        TX_TRY(FILL(c, b, rank * k));
        TX_TRY(tx_all_gather_start(c, g, whole, b, &all));
        TX_TRY(tx_wait(c, &sum));
        TX_TRY(tx_send_start(c, g, a, (rank + 1) % n, k, &sent));
        TX_TRY(FILL(c, got, -1));
        TX_TRY(tx_recv(c, g, got, (rank + n - 1) % n, k));
        TX_TRY(tx_wait(c, &sent));
        TX_TRY(FILL(c, a, -1));
        TX_TRY(tx_wait(c, &all));
        TX_TRY(FILL(c, b, -1));
        TX_TRY(tx_reduce_scatter(c, g, a, whole)); /* n ranks' same numbers */
        static _Thread_local float host[3 * N_OPS];
        TX_TRY(tx_device_read(c->device, host, x, sizeof host));
        for (int i = 0; i < N_OPS; i++) {
            EXPECT(host[i] == (float)(n * rank * k), "round %d, reduce-scatter: %g", k, (double)host[i]);
            EXPECT(host[N_OPS + i] == -1, "round %d, what was gathered: %g", k, (double)host[N_OPS + i]);
            EXPECT(host[2 * N_OPS + i] == (float)(n * (n - 1) / 2 + n * k), "round %d, the message: %g", k,
                   (double)host[2 * N_OPS + i]);
        }
    }
    return TX_OK;
}

static tx_status among_ops(tx_world *w, void *user)
{
    (void)user;
    tx_ctx c = { 0 };
    float *x = NULL, *y = NULL;
    size_t part = sizeof(float) * N_OPS;
    tx_status st;
    TX_TRY(tx_ctx_init(&c, "gpu", 1));
    c.dry = false;
    TX_GOTO(tx_device_take(c.device, &x, 3 * part, false, "a test"));
    TX_GOTO(tx_device_take(c.device, &y, (size_t)tx_world_size(w) * part, false, "a test"));
    TX_GOTO(rounds(&c, tx_world_comm(w), x, y));
out:
    tx_device_give(c.device, x);
    tx_device_give(c.device, y);
    tx_ctx_deinit(&c);
    return st;
}

static void test_calls_among_ops(void **state)
{
    (void)state;
    ASSERT_OK(tx_world_threads(2, among_ops, NULL));
    ASSERT_OK(tx_world_threads(3, among_ops, NULL));
}

/* ---- memory ---- */

static tx_status owns(tx_world *w, void *user)
{
    (void)user;
    (void)w;
    tx_ctx c = { 0 };
    char *x[100] = { NULL }, *pinned = NULL, local;
    tx_status st;
    TX_TRY(tx_ctx_init(&c, "gpu", 1));
    for (int i = 0; i < 100; i++) TX_GOTO(tx_device_take(c.device, &x[i], 1000, false, "a test"));
    TX_GOTO(tx_device_take_host(c.device, &pinned, 1000, "a test"));
    for (int i = 0; i < 100 && !st; i++)
        if (!tx_device_owns(c.device, x[i]) || !tx_device_owns(c.device, x[i] + 999)) st = TX_FAIL(TX_ERR_ARG, "%d", i);
    if (tx_device_owns(c.device, pinned) || tx_device_owns(c.device, &local) || tx_device_owns(c.device, NULL) ||
        tx_device_owns(NULL, x[0]))
        st = TX_FAIL(TX_ERR_ARG, "memory of the host's");
    tx_device_give(c.device, x[7]);
    if (tx_device_owns(c.device, x[7]) || !tx_device_owns(c.device, x[99])) st = TX_FAIL(TX_ERR_ARG, "given back");
    x[7] = NULL;
out:
    for (int i = 0; i < 100; i++) tx_device_give(c.device, x[i]);
    tx_device_give_host(c.device, pinned);
    tx_ctx_deinit(&c);
    return st;
}

static void test_what_is_the_devices(void **state)
{
    (void)state;
    ASSERT_OK(tx_world_threads(1, owns, NULL));
}

/* What the second round of the same calls takes from the heap: nothing, pinned memory included. */
static tx_status allocates(tx_world *w, void *user)
{
    _Atomic uint64_t *before = user;
    tx_ctx c = { 0 };
    float *x = NULL;
    tx_comm *g = tx_world_comm(w);
    tx_status st;
    TX_TRY(tx_ctx_init(&c, "gpu", 1));
    c.dry = false;
    TX_GOTO(tx_device_take(c.device, &x, 4 * 300000, false, "a test"));
    for (int k = 0; k < 4; k++) {
        tx_request a = { 0 }, b = { 0 };
        TX_GOTO(tx_comm_barrier(g));
        if (k == 1 && tx_world_rank(w) == 0) *before = tx_alloc_count();
        TX_GOTO(tx_comm_barrier(g));
        TX_GOTO(tx_all_reduce_start(&c, g, tx_tensor1(x, TX_F32, 100000), &a));
        TX_GOTO(tx_send_start(&c, g, tx_tensor1(x + 100000, TX_F32, 70000), tx_world_rank(w) ^ 1, 0, &b));
        TX_GOTO(tx_recv(&c, g, tx_tensor1(x + 200000, TX_F32, 70000), tx_world_rank(w) ^ 1, 0));
        TX_GOTO(tx_wait(&c, &b));
        TX_GOTO(tx_wait(&c, &a));
    }
    TX_GOTO(tx_comm_barrier(g));
    if (tx_alloc_count() != *before) st = TX_FAIL(TX_ERR_NUMERIC, "calls allocate");
    if (!st) TX_GOTO(tx_comm_barrier(g));
out:
    tx_device_give(c.device, x);
    tx_ctx_deinit(&c);
    return st;
}

static void test_calls_allocate_nothing(void **state)
{
    (void)state;
    _Atomic uint64_t before = 0;
    ASSERT_OK(tx_world_threads(2, allocates, &before));
}

/* ---- errors ---- */

static tx_status one_fails(tx_world *w, void *user)
{
    (void)user;
    tx_ctx c = { 0 };
    float *x = NULL;
    tx_request r = { 0 };
    tx_status st;
    TX_TRY(tx_ctx_init(&c, "gpu", 1));
    c.dry = false;
    TX_GOTO(tx_device_take(c.device, &x, 400, false, "a test"));
    TX_GOTO(tx_all_reduce_start(&c, tx_world_comm(w), tx_tensor1(x, TX_F32, 100), &r));
    st = tx_world_rank(w) ? TX_FAIL(TX_ERR_IO, "the disk is full") : tx_wait(&c, &r);
    /* what is still under way does not keep the device from being closed */
out:
    tx_device_give(c.device, x);
    tx_ctx_deinit(&c);
    return st;
}

static void test_a_rank_that_fails_ends_the_others(void **state)
{
    (void)state;
    ASSERT_FAILS(tx_world_threads(2, one_fails, NULL), TX_ERR_IO, "the disk is full");
}

int main(void)
{
    const char *module = getenv("TX_TEST_GPU_MODULE");
    if (!module) module = getenv("TX_GPU_MODULE_32");
    if (!module || !strcmp(module, "none")) return 77;
    setenv("TX_GPU_MODULE", module, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_the_devices),
        cmocka_unit_test(test_ranks_agree_with_a_serial_loop),
        cmocka_unit_test(test_calls_among_ops),
        cmocka_unit_test(test_calls_allocate_nothing),
        cmocka_unit_test(test_a_rank_that_fails_ends_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
