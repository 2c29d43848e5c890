/* test_args.c - option structs of clients of older and newer versions. */
#include "base/args.h"

#include "support.h"

typedef struct options { /* this library's: `threads` came with 0.2 */
    size_t size;
    const char *name;
    double rate;
    int64_t threads;
} options;

#define LAST rate /* of 0.1 */

static tx_status take(options *to, const void *from)
{
    return TX_ARGS_TAKE(to, (const options *)from, options, LAST);
}

static options garbage(void)
{
    options o;
    memset(&o, 0xa5, sizeof o);
    return o;
}

static void a_client_of_this_version(void **state)
{
    (void)state;
    const options given = { .size = sizeof given, .name = "a", .rate = 0.5, .threads = 3 };
    options got = garbage();
    ASSERT_OK(take(&got, &given));
    assert_memory_equal(&got, &given, sizeof got);
}

static void an_older_clients_missing_members_are_zero(void **state)
{
    (void)state;
    struct {
        size_t size;
        const char *name;
        double rate;
    } *old = malloc(sizeof *old); /* so that AddressSanitizer sees what is read behind it */
    *old = (typeof(*old)){ .size = sizeof *old, .name = "b", .rate = 0.25 };
    options got = garbage();
    ASSERT_OK(take(&got, old));
    assert_string_equal(got.name, "b");
    assert_true(got.rate == 0.25 && got.threads == 0 && got.size == sizeof got);
    free(old);
}

static void of_a_newer_client_only_zeros_are_left_out(void **state)
{
    (void)state;
    struct {
        options o;
        double newer[2];
    } given = { .o = { .size = sizeof given, .name = "c", .rate = 1, .threads = 2 } };
    options got = garbage();
    ASSERT_OK(take(&got, &given));
    assert_true(got.threads == 2 && got.size == sizeof got);
    for (size_t i = sizeof given.o; i < sizeof given; i++) {
        ((uint8_t *)&given)[i] = 1;
        got = garbage();
        const options before = got;
        ASSERT_FAILS(take(&got, &given), TX_ERR_ARG, "options has members that this library");
        assert_memory_equal(&got, &before, sizeof got);
        ((uint8_t *)&given)[i] = 0;
    }
}

static void less_than_the_first_version_is_a_mistake(void **state)
{
    (void)state;
    options given = { .name = "d" }, got;
    for (size_t size = 0; size < sizeof given; size++) {
        given.size = size;
        if (size < offsetof(options, threads))
            ASSERT_FAILS(take(&got, &given), TX_ERR_ARG, "set it to sizeof(options)");
        else
            ASSERT_OK(take(&got, &given));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_of_this_version),
        cmocka_unit_test(an_older_clients_missing_members_are_zero),
        cmocka_unit_test(of_a_newer_client_only_zeros_are_left_out),
        cmocka_unit_test(less_than_the_first_version_is_a_mistake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
