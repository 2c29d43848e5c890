/* labels: unit */
#include "launch/hostfile.h"
#include "support.h"

/* "a:0,1 b:0" */
static const char *shown(const tx_hosts *h)
{
    static char text[512];
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < h->n; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s:", i ? " " : "", h->host[i].name);
        for (int k = 0; k < h->host[i].n_slots; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", k ? "," : "", h->host[i].slot[k]);
    }
    return text;
}

static tx_status parse(tx_hosts *h, const char *text)
{
    return tx__hostfile_parse(h, "hosts", text, strlen(text));
}

static void hostfiles(void **state)
{
    (void)state;
    tx_hosts h = { 0 };
    assert_int_equal(parse(&h, "# nodes\n\n a slots=2 \r\nb\tslots=1# x\nfe80::1 slots=1"), TX_OK);
    assert_string_equal(shown(&h), "a:0,1 b:0 fe80::1:0");
    tx__hosts_free(&h);
}

static void bad_hostfiles(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "a slots=2\nb slot=3\n", "hosts:2: \"b slot=3\" is not \"host slots=N\" with N from 1 to 4096" },
        { "a slots=0\n", "hosts:1: \"a slots=0\" is not" },
        { "a slots=5000\n", "hosts:1: \"a slots=5000\" is not" },
        { "a slots=2x\n", "hosts:1: " },
        { "a slots=2 b\n", "hosts:1: " },
        { "a\n", "hosts:1: " },
        { "-oProxyCommand=x slots=1\n", "hosts:1: \"-oProxyCommand=x\" is no host's name" },
        { "a;b slots=1\n", "is no host's name" },
        { "a slots=1\nb slots=1\n\na slots=2\n", "hosts:4: host a stands there twice" },
        { "", "hosts: names no host" },
        { "# only\n\n", "hosts: names no host" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_hosts h = { 0 };
        assert_int_equal(parse(&h, cases[i].text), TX_ERR_FORMAT);
        assert_non_null(strstr(tx_last_error(), cases[i].says));
        assert_int_equal(h.n, 0);
    }
}

static void filters(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool include;
        const char *left;
    } cases[] = {
        { "b", true, "b:0,1,2" },
        { "c:0@a:1,0", true, "a:0,1 c:0" }, /* the file's order */
        { "b:1", false, "a:0,1 b:0,2 c:0" },
        { "a@b:0,1,2", false, "c:0" },
        { "b:1@b:0,1", true, "b:0,1" }, /* a union, as in DeepSpeed's tests/unit/launcher/test_run.py */
        { "b:2@a:1@b:0", true, "a:1 b:0,2" },
        { "b:1,1", true, "b:1" },
        { "a@a:1", true, "a:0,1" },
        { "a:1@a", true, "a:0,1" },
        { "b:0@b:2", false, "a:0,1 b:1 c:0" },
        { "a:0@a", false, "b:0,1,2 c:0" },
        { "a@a:2", true, NULL },
        { "d", true, NULL },
        { "a:2", true, NULL },
        { "a:", true, NULL },
        { "a:x", true, NULL },
        { "", true, NULL },
        { "a@@b", true, NULL },
        { "a@b@c", false, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_hosts h = { 0 };
        assert_int_equal(parse(&h, "a slots=2\nb slots=3\nc slots=1\n"), TX_OK);
        tx_status st = tx__hosts_filter(&h, cases[i].text, cases[i].include);
        assert_int_equal(st, cases[i].left ? TX_OK : TX_ERR_ARG);
        if (cases[i].left)
            assert_string_equal(shown(&h), cases[i].left);
        else
            assert_non_null(strstr(tx_last_error(), cases[i].include ? "--include" : "--exclude"));
        tx__hosts_free(&h);
    }
}

static void limits(void **state)
{
    (void)state;
    tx_hosts h = { 0 };
    assert_int_equal(parse(&h, "a slots=2\nb slots=3\n"), TX_OK);
    assert_int_equal(tx__hosts_limit(&h, 3, 0), TX_ERR_ARG);
    assert_int_equal(tx__hosts_limit(&h, -1, 4), TX_OK);
    assert_string_equal(shown(&h), "a:0,1,2,3 b:0,1,2,3");
    assert_int_equal(tx__hosts_limit(&h, 1, -1), TX_OK);
    assert_string_equal(shown(&h), "a:0,1,2,3");
    tx__hosts_free(&h);
}

static void without_memory(void **state)
{
    (void)state;
    for (int64_t n = 0;; n++) {
        tx_hosts h = { 0 };
        allocation_fails_at(n);
        tx_status st = parse(&h, "a slots=2\nb slots=3\n");
        if (!st) st = tx__hosts_filter(&h, "a:0@b@a:1", true);
        allocations_succeed();
        tx__hosts_free(&h);
        if (!st) break;
        assert_int_equal(st, TX_ERR_NOMEM);
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostfiles), cmocka_unit_test(bad_hostfiles),  cmocka_unit_test(filters),
        cmocka_unit_test(limits),    cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
