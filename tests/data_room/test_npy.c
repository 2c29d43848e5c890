/* labels: unit golden */
/* .npy files: headers as NumPy 1 and 2 write them, and what is refused. */
#include "data/npy.h"
#include "support.h"

/* A file of version `v` with that header's text and n_data bytes 0, 1, 2, ... */
static const char *npy(int v, const char *header, size_t n_data)
{
    unsigned char file[512] = "\x93NUMPY";
    size_t n = strlen(header), at = v == 1 ? 10 : 12;
    file[6] = (unsigned char)v;
    file[8] = (unsigned char)n;
    memcpy(file + at, header, n);
    for (size_t i = 0; i < n_data; i++) file[at + n + i] = (unsigned char)i;
    return write_file(in_scratch("x.npy"), file, at + n + n_data);
}

static void numbers_are_read_in_place(void **state)
{
    (void)state;
    tx_npy a;
    ASSERT_OK(tx_npy_open(&a, npy(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }   \n", 12)));
    assert_int_equal(a.n_dims, 1);
    assert_int_equal(a.dim[0], 3);
    assert_int_equal(tx_ints_at(&a.ints, 1), 0x07060504);
    tx_npy_close(&a);
    ASSERT_OK(tx_npy_open(&a, npy(2, "{\"shape\":(2,1),\"descr\":\"<i8\",\"fortran_order\":False}", 16)));
    assert_int_equal(a.n_dims, 2);
    assert_int_equal(tx_ints_at(&a.ints, 1), 0x0f0e0d0c0b0a0908);
    tx_npy_close(&a);
    ASSERT_OK(tx_npy_open(&a, npy(3, "{'descr': '<u4', 'fortran_order': False, 'shape': (0, 2)}\n", 0)));
    assert_int_equal(a.ints.n, 0);
    tx_npy_close(&a);
}

static void numbers_keep_their_sign(void **state)
{
    (void)state;
    const uint32_t all_ones = UINT32_MAX;
    assert_int_equal(tx_ints_at(&(tx_ints){ &all_ones, 1, TX_INT_I32 }, 0), -1);
    assert_int_equal(tx_ints_at(&(tx_ints){ &all_ones, 1, TX_INT_U32 }, 0), UINT32_MAX);
}

static void refuses_what_is_no_index(void **state)
{
    (void)state;
    const struct {
        tx_status code;
        const char *says, *header;
    } bad[] = {
        { TX_ERR_UNSUPPORTED, "type '<f8'", "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }" },
        { TX_ERR_UNSUPPORTED, "type '>i4'", "{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }" },
        { TX_ERR_UNSUPPORTED, "Fortran order", "{'descr': '<i4', 'fortran_order': True, 'shape': (2,), }" },
        { TX_ERR_UNSUPPORTED, "two dimensions", "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 1, 2), }" },
        { TX_ERR_FORMAT, "shape", "{'descr': '<i4', 'fortran_order': False, 'shape': (), }" },
        { TX_ERR_FORMAT, "shape", "{'descr': '<i4', 'fortran_order': False, 'shape': (2), }" },
        { TX_ERR_FORMAT, "shape", "{'descr': '<i4', 'fortran_order': False, 'shape': (-2,), }" },
        { TX_ERR_FORMAT, "shape", "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,), }" },
        { TX_ERR_FORMAT, "8 bytes follow", "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }" },
        { TX_ERR_FORMAT, "8 bytes follow",
          "{'descr': '<i8', 'fortran_order': False, 'shape': (9000000000000000000, 9), }" },
        { TX_ERR_FORMAT, "header", "{'descr': '<i4', 'shape': (2,), }" },
        { TX_ERR_FORMAT, "header", "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), 'more': 1}" },
        { TX_ERR_FORMAT, "header", "{'descr': '<i4' 'fortran_order': False, 'shape': (2,), }" },
        { TX_ERR_FORMAT, "header", "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), } x" },
        { TX_ERR_FORMAT, "header", "" },
    };
    tx_npy a;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path = npy(1, bad[i].header, 8);
        ASSERT_FAILS(tx_npy_open(&a, path), bad[i].code, bad[i].says);
        ASSERT_CONTAINS(tx_last_error(), "x.npy");
    }
    ASSERT_FAILS(tx_npy_open(&a, npy(4, bad[0].header, 8)), TX_ERR_UNSUPPORTED, "version 4.0");
    ASSERT_FAILS(tx_npy_open(&a, write_text(in_scratch("x.npy"), "")), TX_ERR_FORMAT, "is no .npy file");
    ASSERT_FAILS(tx_npy_open(&a, write_text(in_scratch("x.npy"), "PK is another kind")), TX_ERR_FORMAT,
                 "is no .npy file");
    ASSERT_FAILS(tx_npy_open(&a, write_file(in_scratch("x.npy"), "\x93NUMPY\1\0\xff\xff{}", 12)), TX_ERR_FORMAT,
                 "its header of 65535 bytes");
    ASSERT_FAILS(tx_npy_open(&a, in_scratch("nothere")), TX_ERR_NOTFOUND, "nothere");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(numbers_are_read_in_place),
        cmocka_unit_test(numbers_keep_their_sign),
        SCRATCH_TEST(refuses_what_is_no_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
