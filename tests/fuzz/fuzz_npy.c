/* fuzz_npy.c - a hostile .npy file: first as an array, all of whose numbers can be read; then as each of the three
 * files of a sample index next to good ones, which must be refused or name only what the dataset has. */
#include "data/sample_index.h"
#include "fuzz.h"

enum { SEQ = 4 };
static const int32_t sizes[5] = { 5, 3, 7, 4, 6 };

/* A good file: `rows` of n numbers. */
static const char *good(const char *name, const int32_t *number, int rows, int columns)
{
    unsigned char file[512] = "\x93NUMPY\x01";
    char header[119];
    int n =
        snprintf(header, sizeof header, "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,%d)}", rows, columns);
    if (columns == 1)
        n = snprintf(header, sizeof header, "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,)}", rows);
    memset(file + 10, ' ', 118);
    memcpy(file + 10, header, (size_t)n);
    file[8] = 118;
    memcpy(file + 128, number, (size_t)(rows * columns) * 4);
    return fuzz_file(name, file, 128 + (size_t)(rows * columns) * 4);
}

static void read_index(const char *const *path)
{
    tx_sample_index x = { 0 };
    const tx_sample_index_opts o = { .sizes = { sizes, 5, TX_INT_I32 }, .seq_length = SEQ };
    if (!fuzz_ok(tx_sample_index_open(&x, &o, path))) return;
    FUZZ_CHECK(x.n_samples > 0 && x.shuffle_idx.n == x.n_samples && x.sample_idx.n == 2 * x.n_samples + 2);
    for (int64_t i = 0; i < x.n_samples; i++) {
        int64_t k = tx_ints_at(&x.shuffle_idx, i);
        FUZZ_CHECK(k >= 0 && k < x.n_samples);
        int64_t place = tx_ints_at(&x.sample_idx, 2 * k), token = tx_ints_at(&x.sample_idx, 2 * k + 1);
        for (int64_t missing = SEQ + 1; missing > 0; place++, token = 0) { /* as a sample is read */
            FUZZ_CHECK(place >= 0 && place < x.doc_idx.n && token >= 0);
            int64_t d = tx_ints_at(&x.doc_idx, place);
            FUZZ_CHECK(d >= 0 && d < 5 && token <= sizes[d]);
            missing -= sizes[d] - token;
        }
    }
    tx_sample_index_free(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int32_t doc[] = { 2, 0 }, cut[] = { 0, 0, 0, 4, 1, 1 }, shuffle[] = { 1, 0 };
    tx_npy a = { 0 };
    int64_t sum = 0;
    fuzz_log_on();
    const char *bad = fuzz_file("bad.npy", data, size);
    if (fuzz_ok(tx_npy_open(&a, bad))) {
        FUZZ_CHECK(a.n_dims >= 1 && a.n_dims <= 2 && a.ints.n == a.dim[0] * a.dim[1]);
        for (int64_t i = 0; i < a.ints.n; i++) sum ^= tx_ints_at(&a.ints, i);
    }
    tx_npy_close(&a);
    const char *path[3] = { good("doc", doc, 2, 1), good("cut", cut, 3, 2), good("shuffle", shuffle, 2, 1) };
    for (int k = 0; k < 3; k++) {
        const char *one[3] = { path[0], path[1], path[2] };
        one[k] = bad;
        read_index(one);
    }
    return (int)(sum & 0);
}
