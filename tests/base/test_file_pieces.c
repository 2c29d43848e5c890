/* labels: unit */
/* A stretch of a file in pieces: each is looked at once, with its own bytes, and what is wrong is said. */
#include "support.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/file_pieces.h"

enum { SIZE = 100003, PIECE = 1000 };

typedef struct seen {
    atomic_int times[SIZE], bad;
    const char *cut; /* a file that becomes empty when the first piece is looked at */
} seen;

static unsigned char byte_at(uint64_t i)
{
    return (unsigned char)(i * 2654435761u >> 11);
}

static void look(void *user, const unsigned char *bytes, uint64_t at, size_t n)
{
    seen *s = user;
    if (s->cut && truncate(s->cut, 0)) atomic_fetch_add(&s->bad, 1);
    for (size_t i = 0; i < n; i++) {
        atomic_fetch_add(&s->times[at + i], 1);
        if (bytes[i] != byte_at(at + i)) atomic_fetch_add(&s->bad, 1);
    }
}

static void write_bytes(const char *path)
{
    static unsigned char bytes[SIZE];
    for (size_t i = 0; i < SIZE; i++) bytes[i] = byte_at(i);
    ASSERT_OK(tx_file_publish(path, bytes, SIZE));
}

static void every_piece_is_looked_at_once(void **state)
{
    (void)state;
    static const uint64_t stretch[][2] = { { 0, SIZE },    { 0, 1 }, { 5, 5 }, { 999, 1001 }, { 7000, 7000 + PIECE },
                                           { 12345, SIZE } };
    const char *path = in_scratch("bytes");
    write_bytes(path);
    for (size_t k = 0; k < sizeof stretch / sizeof *stretch; k++) {
        static seen s;
        memset(&s, 0, sizeof s);
        ASSERT_OK(tx_file_pieces_read(&(tx_file_pieces){ path, stretch[k][0], stretch[k][1], PIECE, look, &s }));
        assert_int_equal(s.bad, 0);
        for (uint64_t i = 0; i < SIZE; i++) assert_int_equal(s.times[i], i >= stretch[k][0] && i < stretch[k][1]);
    }
}

static void a_file_that_is_missing_or_too_short_is_an_error(void **state)
{
    (void)state;
    static seen s;
    const char *path = in_scratch("short");
    ASSERT_FAILS(tx_file_pieces_read(&(tx_file_pieces){ in_scratch("none"), 0, 1, PIECE, look, &s }), TX_ERR_NOTFOUND,
                 "cannot read");
    write_bytes(path);
    s.cut = path;
    ASSERT_FAILS(tx_file_pieces_read(&(tx_file_pieces){ path, 0, SIZE, PIECE, look, &s }), TX_ERR_IO,
                 "has become shorter");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(every_piece_is_looked_at_once),
        SCRATCH_TEST(a_file_that_is_missing_or_too_short_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
