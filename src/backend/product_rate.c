/* product_rate.c - a backend's matrix product, timed: for `doctor` and bench/peak. */
#include <math.h>

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/clock.h"

tx_status tx_product_rate(double *out, const char *backend, int n_threads, int64_t n, tx_dtype t)
{
    tx_ctx c;
    char *x = NULL;
    double best = INFINITY;
    TX_TRY(tx_ctx_init(&c, backend, n_threads));
    tx_status st;
    size_t bytes = (size_t)(n * n) * tx_dtype_size(t);
    TX_GOTO(tx_device_take(c.device, &x, 3 * bytes, false, "matrices"));
    tx_gemm_args a = { .c = tx_tensor2(x + 2 * bytes, t, n, n),
                       .a = tx_tensor2(x, t, n, n),
                       .b = tx_tensor2(x + bytes, t, n, n),
                       .trans_b = true };
    TX_GOTO(tx_op_gemm(&c, &a)); /* dry */
    TX_GOTO(tx_ctx_take_memory(&c));
    TX_GOTO(tx_op_fill(&c, &(tx_fill_args){ .x = a.a, .value = 0.5 }));
    TX_GOTO(tx_op_fill(&c, &(tx_fill_args){ .x = a.b, .value = 0.5 }));
    for (int i = 0; i < 10; i++) {
        TX_GOTO(tx_device_sync(c.device, TX_STREAM_COMPUTE));
        double start = tx_clock();
        TX_GOTO(tx_op_gemm(&c, &a));
        TX_GOTO(tx_device_sync(c.device, TX_STREAM_COMPUTE));
        best = fmin(best, tx_clock() - start);
    }
    *out = 2.0 * (double)(n * n * n) / best;
out:
    tx_device_give(c.device, x);
    tx_ctx_deinit(&c);
    return st;
}
