/* labels: unit */
/* Memory that is a file: its content stays when it is settled, and the process has its pages no longer. */
#include "support.h"

#include <unistd.h>

#include "base/arena.h"

enum { MIB = 1 << 20, SIZE = 64 * MIB };

/* Pages of the process, as bytes. */
static size_t resident(void)
{
    tx_str text = read_file("/proc/self/statm");
    size_t all, there;
    assert_int_equal(sscanf(text.data, "%zu %zu", &all, &there), 2);
    tx_str_free(&text);
    return there * (size_t)sysconf(_SC_PAGESIZE);
}

static tx_arena file_arena(size_t bytes)
{
    tx_arena a;
    tx_arena_init(&a, "a file");
    a.in_host = true;
    a.dir = scratch_dir;
    ASSERT_OK(tx_arena_reserve(&a, bytes));
    return a;
}

static void what_is_settled_takes_no_memory(void **state)
{
    (void)state;
    tx_arena a = file_arena(SIZE);
    unsigned char *p = tx_arena_push(&a, SIZE);
    for (size_t i = 0; i < SIZE; i++) p[i] = (unsigned char)(i >> 12 ^ i);
    size_t before = resident();
    tx_arena_settle(&a, p, SIZE);
    assert_true(resident() + SIZE / 2 < before);
    tx_arena_expect(&a, p + 100, SIZE - 100);
    for (size_t i = 0; i < SIZE; i++) assert_int_equal(p[i], (unsigned char)(i >> 12 ^ i));
    tx_arena_deinit(&a);
    assert_true(a.counting && a.dir == scratch_dir); /* as before memory was taken */
}

/* Pages that are another's in part stay. */
static void parts_of_pages_are_left_alone(void **state)
{
    (void)state;
    tx_arena a = file_arena(3 * MIB);
    unsigned char *p = tx_arena_push(&a, 3 * MIB);
    memset(p, 7, 3 * MIB);
    for (size_t n = 0; n < 3 * MIB; n = 2 * n + 1)
        for (size_t from = 0; from + n <= 3 * MIB; from += MIB - 1) {
            tx_arena_settle(&a, p + from, n);
            tx_arena_expect(&a, p + from, n);
        }
    for (size_t i = 0; i < 3 * MIB; i++) assert_int_equal(p[i], 7);
    tx_arena_deinit(&a);
    tx_arena none = file_arena(0);
    tx_arena_deinit(&none);
}

static void a_folder_that_is_none_is_named(void **state)
{
    (void)state;
    tx_arena a;
    tx_arena_init(&a, "a file");
    a.dir = "/dev/null";
    ASSERT_FAILS(tx_arena_reserve(&a, MIB), TX_ERR_IO, "/dev/null");
    tx_arena_deinit(&a);
}

int main(void)
{
    setenv("TX_AIO_IN_MEMORY", "1", 1); /* the scratch folder may be no disk's */
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(what_is_settled_takes_no_memory),
        SCRATCH_TEST(parts_of_pages_are_left_alone),
        cmocka_unit_test(a_folder_that_is_none_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
