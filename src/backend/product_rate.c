/* product_rate.c - a backend's matrix product, timed: for `doctor` and bench/peak. */
#include <math.h>

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/clock.h"

tx_status tx_product_rate(double *out, const char *backend, int n_threads, int64_t n)
{
    tx_ctx c;
    float *x = NULL;
    double best = INFINITY;
    TX_TRY(tx_ctx_init(&c, backend, n_threads));
    tx_status st;
    TX_GOTO(tx_alloc(&x, (size_t)(3 * n * n), sizeof *x, "matrices"));
    for (int64_t i = 0; i < 2 * n * n; i++) x[i] = 0.5f;
    tx_gemm_args a = { .c = tx_tensor2(x + 2 * n * n, TX_F32, n, n),
                       .a = tx_tensor2(x, TX_F32, n, n),
                       .b = tx_tensor2(x + n * n, TX_F32, n, n),
                       .trans_b = true };
    TX_GOTO(tx_run_gemm(&c, &a)); /* dry */
    TX_GOTO(tx_ctx_take_memory(&c));
    for (int i = 0; i < 10; i++) {
        double start = tx_clock();
        TX_GOTO(tx_run_gemm(&c, &a));
        best = fmin(best, tx_clock() - start);
    }
    *out = 2.0 * (double)(n * n * n) / best;
out:
    tx_free(x);
    tx_ctx_deinit(&c);
    return st;
}
