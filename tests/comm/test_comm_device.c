/* labels: unit parallel. Groups of ranks whose tensors lie in a device's memory: each rank has an emulated GPU, in
 * which work is done as late as possible and whose memory the host cannot read. With TX_TEST_GPU_MODULE on a real one.
 */
#include "support.h"

#include "backend/gpu_module.h"
#include "comm_body.h"

/* How ranks have their GPUs: all the same one, or one each. */
enum { SHARED, APART };

static tx_status open_gpu(tx_ctx *c, tx_world *w, int how)
{
    TX_TRY(tx_ctx_init_on(c, "gpu", 1, how == APART ? tx_world_rank(w) : 0));
    c->dry = false;
    tx_status st = tx_world_use_device(w, c->device);
    bool expect = how == APART && tx_world_size(w) > 1;
    if (!st && tx_comm_has_team(tx_world_comm(w)) != expect) st = TX_FAIL(TX_ERR_COMM, "a team: %d", !expect);
    if (st) tx_ctx_deinit(c);
    return st;
}

static tx_status everything(tx_world *w, void *user)
{
    tx_ctx c = { 0 };
    tx_status st;
    TX_TRY(open_gpu(&c, w, *(int *)user));
    TX_GOTO(body_all_on(&c, w, false));
out:
    tx_ctx_deinit(&c);
    return st;
}

static void test_ranks_agree_with_a_serial_loop(void **state)
{
    (void)state;
    ASSERT_OK(tx_world_threads(1, everything, &(int){ SHARED }));
    ASSERT_OK(tx_world_threads(3, everything, &(int){ SHARED }));
}

static void test_so_do_gpus_among_themselves(void **state)
{
    (void)state;
    ASSERT_OK(tx_world_threads(4, everything, &(int){ APART }));
}

/* ---- between ops, which nobody waits for ---- */

#define FILL(c, tensor, number) tx_op_fill((c), &(tx_fill_args){ .x = (tensor), .value = (number) })

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

/* Rows that an op has written go to all, and an op overwrites them behind the call. */
static tx_status rounds_of_rows(tx_ctx *c, tx_comm *g, float *x, float *y)
{
    static _Thread_local float host[N_OPS];
    int rank = tx_comm_rank(g), n = tx_comm_size(g);
    int64_t each[4] = { 0 }, part = N_OPS / n;
    for (int i = 0; i < n; i++) each[i] = part;
    const tx_all_to_all_rows rows = { each, each, part * n * n };
    tx_tensor from = tx_tensor1(x, TX_F32, N_OPS), to = tx_tensor1(y, TX_F32, N_OPS);
    for (int k = 0; k < ROUNDS; k++) {
        TX_TRY(FILL(c, to, -2));
        TX_TRY(FILL(c, from, rank * ROUNDS + k));
        TX_TRY(tx_all_to_all(c, g, to, from, &rows));
        TX_TRY(FILL(c, from, -1));
        TX_TRY(tx_device_read(c->device, host, y, sizeof host));
        for (int64_t i = 0; i < N_OPS; i++) {
            int expect = i < part * n ? (int)(i / part) * ROUNDS + k : -2;
            EXPECT(host[i] == (float)expect, "round %d, row %lld: %g", k, (long long)i, (double)host[i]);
        }
    }
    return TX_OK;
}

static tx_status among_ops(tx_world *w, void *user)
{
    tx_ctx c = { 0 };
    float *x = NULL, *y = NULL;
    size_t part = sizeof(float) * N_OPS;
    tx_status st;
    TX_TRY(open_gpu(&c, w, *(int *)user));
    TX_GOTO(tx_device_take(c.device, &x, 3 * part, false, "a test"));
    TX_GOTO(tx_device_take(c.device, &y, (size_t)tx_world_size(w) * part, false, "a test"));
    TX_GOTO(rounds(&c, tx_world_comm(w), x, y));
    TX_GOTO(rounds_of_rows(&c, tx_world_comm(w), x, y));
out:
    tx_device_give(c.device, x);
    tx_device_give(c.device, y);
    tx_ctx_deinit(&c);
    return st;
}

static void test_calls_among_ops(void **state)
{
    (void)state;
    for (int how = SHARED; how <= APART; how++) {
        ASSERT_OK(tx_world_threads(2, among_ops, &how));
        ASSERT_OK(tx_world_threads(3, among_ops, &how));
    }
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

typedef struct counting {
    _Atomic uint64_t before;
    int how;
} counting;

/* What the second round of the same calls takes from the heap: nothing, pinned memory included. */
static tx_status allocates(tx_world *w, void *user)
{
    counting *count = user;
    tx_ctx c = { 0 };
    float *x = NULL;
    tx_comm *g = tx_world_comm(w);
    tx_status st;
    TX_TRY(open_gpu(&c, w, count->how));
    TX_GOTO(tx_device_take(c.device, &x, 4 * 300000, false, "a test"));
    for (int k = 0; k < 4; k++) {
        tx_request a = { 0 }, b = { 0 };
        TX_GOTO(tx_comm_barrier(g));
        if (k == 1 && tx_world_rank(w) == 0) count->before = tx_alloc_count();
        TX_GOTO(tx_comm_barrier(g));
        TX_GOTO(tx_all_reduce_start(&c, g, tx_tensor1(x, TX_F32, 100000), &a));
        TX_GOTO(tx_send_start(&c, g, tx_tensor1(x + 100000, TX_F32, 70000), tx_world_rank(w) ^ 1, 0, &b));
        TX_GOTO(tx_recv(&c, g, tx_tensor1(x + 200000, TX_F32, 70000), tx_world_rank(w) ^ 1, 0));
        TX_GOTO(tx_wait(&c, &b));
        TX_GOTO(tx_wait(&c, &a));
        TX_GOTO(tx_device_sync(c.device, TX_STREAM_COMPUTE));
    }
    TX_GOTO(tx_comm_barrier(g));
    if (tx_alloc_count() != count->before) st = TX_FAIL(TX_ERR_NUMERIC, "calls allocate");
    if (!st) TX_GOTO(tx_comm_barrier(g));
out:
    tx_device_give(c.device, x);
    tx_ctx_deinit(&c);
    return st;
}

static void test_calls_allocate_nothing(void **state)
{
    (void)state;
    for (int how = SHARED; how <= APART; how++) ASSERT_OK(tx_world_threads(2, allocates, &(counting){ .how = how }));
}

/* ---- errors ---- */

static tx_status one_fails(tx_world *w, void *user)
{
    tx_ctx c = { 0 };
    float *x = NULL;
    tx_request r = { 0 };
    tx_status st;
    TX_TRY(open_gpu(&c, w, *(int *)user));
    TX_GOTO(tx_device_take(c.device, &x, 400, false, "a test"));
    TX_GOTO(tx_all_reduce_start(&c, tx_world_comm(w), tx_tensor1(x, TX_F32, 100), &r));
    if (tx_world_rank(w)) st = TX_FAIL(TX_ERR_IO, "the disk is full");
    if (!st) st = tx_wait(&c, &r);
    if (!st) st = tx_device_sync(c.device, TX_STREAM_COMPUTE);
    /* what is still under way does not keep the device from being closed */
out:
    tx_device_dismiss(c.device);
    tx_device_give(c.device, x);
    tx_ctx_deinit(&c);
    return st;
}

static void test_a_rank_that_fails_ends_the_others(void **state)
{
    (void)state;
    for (int how = SHARED; how <= APART; how++)
        ASSERT_FAILS(tx_world_threads(2, one_fails, &how), TX_ERR_IO, "the disk is full");
}

/* Rank 1 does not come to the call: the library says so to rank 0, which waits for its own device. */
static tx_status one_stays_away(tx_world *w, void *user)
{
    _Atomic int *release = user;
    tx_ctx c = { 0 };
    float *x = NULL;
    tx_request r = { 0 };
    tx_status st;
    TX_TRY(open_gpu(&c, w, APART));
    TX_GOTO(tx_device_take(c.device, &x, 400, false, "a test"));
    if (tx_world_rank(w)) {
        while (!*release) sched_yield();
        goto out;
    }
    TX_GOTO(tx_all_reduce_start(&c, tx_world_comm(w), tx_tensor1(x, TX_F32, 100), &r));
    TX_GOTO(tx_wait(&c, &r));
    st = tx_device_sync(c.device, TX_STREAM_COMPUTE);
    if (!st) st = TX_FAIL(TX_ERR_NUMERIC, "it has been waited for");
out:
    *release = 1;
    tx_device_give(c.device, x);
    tx_ctx_deinit(&c);
    return st;
}

static void test_what_the_library_says_in_plain_words(void **state)
{
    (void)state;
    _Atomic int release = 0;
    setenv("TX_NCCL_EMULATED_PATIENCE", "1", 1);
    ASSERT_FAILS(tx_world_threads(2, one_stays_away, &release), TX_ERR_COMM,
                 "emulated NCCL: remote process exited or there was a network error: another rank has ended, or the "
                 "network to it is broken: its own message says why. NCCL_DEBUG=INFO shows what it did");
    unsetenv("TX_NCCL_EMULATED_PATIENCE");
}

/* ---- who goes from GPU to GPU ---- */

/* Ranks 0 and 1 share a GPU, 2 and 3 have one each. */
static tx_status some_share(tx_world *w, void *user)
{
    static const int gpu[] = { 0, 0, 1, 2 };
    (void)user;
    tx_ctx c = { 0 };
    tx_comm *g = tx_world_comm(w), *halves = NULL, *odd = NULL;
    float *x = NULL, sum[100];
    int rank = tx_world_rank(w);
    tx_status st;
    TX_TRY(tx_ctx_init_on(&c, "gpu", 1, gpu[rank]));
    c.dry = false;
    TX_GOTO(tx_comm_split(&halves, g, rank / 2, "halves"));
    TX_GOTO(tx_world_use_device(w, c.device));
    TX_GOTO(tx_comm_split(&odd, g, rank % 2, "odd"));
    TX_GOTO(tx_device_take(c.device, &x, sizeof sum, false, "a test"));
    TX_GOTO(FILL(&c, tx_tensor1(x, TX_F32, 100), rank + 1));
    TX_GOTO(tx_all_reduce(&c, halves, tx_tensor1(x, TX_F32, 100), TX_SUM));
    TX_GOTO(tx_all_reduce(&c, odd, tx_tensor1(x, TX_F32, 100), TX_SUM));
    TX_GOTO(tx_device_read(c.device, sum, x, sizeof sum));
    if (sum[0] != 10 || sum[99] != 10) st = TX_FAIL(TX_ERR_NUMERIC, "%g and %g", (double)sum[0], (double)sum[99]);
    if (tx_comm_has_team(g) || tx_comm_has_team(halves) != (rank > 1) || !tx_comm_has_team(odd))
        st = TX_FAIL(TX_ERR_NUMERIC, "of rank %d", rank);
    if (!st && tx_comm_volumes(odd)[TX_COMM_ALL_REDUCE].bytes != 400) st = TX_FAIL(TX_ERR_NUMERIC, "volumes");
    if (!st) TX_GOTO(tx_comm_barrier(g));
out:
    tx_comm_close(odd);
    tx_comm_close(halves);
    tx_device_give(c.device, x);
    tx_ctx_deinit(&c);
    return st;
}

static void test_groups_whose_ranks_have_a_gpu_each(void **state)
{
    (void)state;
    ASSERT_OK(tx_world_threads(4, some_share, NULL));
}

static void test_the_environment_says_how(void **state)
{
    (void)state;
    setenv("TX_GPU_COMM", "nccl", 1);
    ASSERT_OK(tx_world_threads(2, among_ops, &(int){ APART }));
    ASSERT_FAILS(tx_world_threads(2, among_ops, &(int){ SHARED }), TX_ERR_UNSUPPORTED, "ranks 0 and 1 share GPU 0 of ");
    setenv("TX_GPU_COMM", "staged", 1);
    ASSERT_OK(tx_world_threads(2, among_ops, &(int){ SHARED }));
    ASSERT_FAILS(tx_world_threads(2, among_ops, &(int){ APART }), TX_ERR_COMM, "a team: 0");
    setenv("TX_GPU_COMM", "carrier pigeon", 1);
    ASSERT_FAILS(tx_world_threads(2, among_ops, &(int){ APART }), TX_ERR_ARG, "carrier pigeon");
    unsetenv("TX_GPU_COMM");
}

int main(void)
{
    const char *module = getenv("TX_TEST_GPU_MODULE");
    if (!module) module = getenv("TX_GPU_MODULE_32");
    if (!module || !strcmp(module, "none")) return 77;
    setenv("TX_GPU_MODULE", module, 1);
    setenv("TX_GPU_EMULATED_COUNT", "4", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_the_devices),
        cmocka_unit_test(test_ranks_agree_with_a_serial_loop),
        cmocka_unit_test(test_so_do_gpus_among_themselves),
        cmocka_unit_test(test_calls_among_ops),
        cmocka_unit_test(test_calls_allocate_nothing),
        cmocka_unit_test(test_a_rank_that_fails_ends_the_others),
        cmocka_unit_test(test_what_the_library_says_in_plain_words),
        cmocka_unit_test(test_groups_whose_ranks_have_a_gpu_each),
        cmocka_unit_test(test_the_environment_says_how),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
