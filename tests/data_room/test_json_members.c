/* labels: unit */
/* The quick look at a JSON line against Jansson: what it takes it reads the same way, and it takes what is usual. */
#include "data/json_members.h"
#include "support.h"

static const char *const keys[] = { "text", "id" };

static void assert_string(tx_json_string s, const json_t *v)
{
    char buf[256];
    assert_non_null(s.data);
    assert_true(s.n <= sizeof buf);
    size_t n = tx__json_unescape(buf, s);
    assert_int_equal(n, json_string_length(v));
    assert_memory_equal(buf, json_string_value(v), n);
    if (!s.escaped) assert_memory_equal(s.data, buf, n);
}

static void assert_member(const char *line, size_t n, const tx_json_member *m, const json_t *v)
{
    if (json_is_string(v)) {
        assert_string(m->text, v);
        return;
    }
    const char *at = m->list;
    tx_json_string s;
    size_t i = 0;
    for (; tx__json_list_next(&at, line + n, &s); i++) assert_string(s, json_array_get(v, i));
    assert_int_equal(i, json_array_size(v));
}

static void taken_lines_are_read_as_jansson_reads_them(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"text\":\"\",\"id\":\"x\"}",
        " {\t\"a\" : [1, -0.5e+3 , {\"b\":[]}, null,true,false,0] ,\"id\":\"\" , \"text\" : \"abc\" } ",
        "{\"text\":\"a\\n\\\"\\\\\\/\\b\\f\\r\\t end\",\"id\":\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\\u0000z\"}",
        "{\"text\":\"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80 \x7f\",\"id\":\"1\"}",
        "{\"text\":\"first\",\"text\":\"last\",\"id\":\"1\"}",
        "{\"text\":1,\"text\":\"last\",\"id\":\"1\"}",
        "{\"id\":[],\"text\":[ \"one\" ,\"t\\u0077o\",\"\"]}",
        "{\"\":\"\",\"id\":\"12345678901234567890\\\\\",\"text\":\"\\\\\"}",
        "{\"id\":\"1234567\\n1234567\\n12345678\\n\",\"text\":\"0123456\xc3\xa9 0123\"}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        tx_json_member m[2];
        size_t n = strlen(lines[i]);
        char *line = malloc(n); /* so that a sanitizer sees a byte too far */
        memcpy(line, lines[i], n);
        if (!tx__json_members(line, n, keys, 2, m)) fail_msg("not taken: %s", lines[i]);
        json_t *o = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
        assert_non_null(o);
        for (int k = 0; k < 2; k++) assert_member(line, n, &m[k], json_object_get(o, keys[k]));
        json_decref(o);
        free(line);
    }
}

static void all_else_is_left_to_jansson(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        " ",
        "null",
        "[]",
        "{}",
        "\"text\"",
        "{",
        "{\"text\":\"a\"}",
        "{\"text\":\"a\",\"id\":1}",
        "{\"text\":\"a\",\"id\":[1]}",
        "{\"text\":\"a\",\"id\":[\"b\",{}]}",
        "{\"text\":\"a\",\"id\":\"b\"} x",
        "{\"text\":\"a\",\"id\":\"b\"",
        "{\"text\":\"a\",\"id\":\"b\",}",
        "{\"text\":\"a\" \"id\":\"b\"}",
        "{\"te\\u0078t\":\"a\",\"id\":\"b\"}",
        "{\"text\":\"\\ud800\",\"id\":\"b\"}",
        "{\"text\":\"\\udc00\",\"id\":\"b\"}",
        "{\"text\":\"\\ud800\\u0041\",\"id\":\"b\"}",
        "{\"text\":\"\\u12\",\"id\":\"b\"}",
        "{\"text\":\"\\x\",\"id\":\"b\"}",
        "{\"text\":\"a\tb\",\"id\":\"b\"}",
        "{\"text\":\"\xff\",\"id\":\"b\"}",
        "{\"text\":\"\xed\xa0\x80\",\"id\":\"b\"}",
        "{\"text\":\"\xc0\x80\",\"id\":\"b\"}",
        "{\"text\":\"a\",\"id\":\"b\",\"v\":NaN}",
        "{\"text\":\"a\",\"id\":\"b\",\"v\":01}",
        "{\"text\":\"a\",\"id\":\"b\",\"v\":1.}",
        "{\"text\":\"a\",\"id\":\"b\",\"v\":-}",
        "{\"text\":\"a\",\"id\":\"b\",\"v\":1e}",
        "{\"text\":\"a\",\"id\":\"b\",\"v\":nul}",
        "{\"text\":\"a\",\"id\":\"b\",\"v\":[1,]}",
        "{\"text\":\"a\",\"id\":\"b\",\"v\":[}",
        "{\"text\":\"a\",\"id\":\"b\",\"v\":}",
        "{\"text\":\"a\",\"id\":\"b\",v:1}",
        "{'text':'a','id':'b'}",
    };
    tx_json_member m[2];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (tx__json_members(lines[i], strlen(lines[i]), keys, 2, m)) fail_msg("taken: %s", lines[i]);
    static const char whole[] = "{\"text\":[\"a\",\"\\ud83d\\ude00\"],\"id\":\"b\",\"v\":[1,{\"w\":true}]}";
    for (size_t n = 0; n < sizeof whole - 1; n++) assert_false(tx__json_members(whole, n, keys, 2, m));
    assert_true(tx__json_members(whole, sizeof whole - 1, keys, 2, m));
    char deep[256]; /* a walk by recursion ends somewhere */
    for (int depth = 1; depth <= 100; depth++) {
        size_t n = (size_t)snprintf(deep, sizeof deep, "{\"text\":\"a\",\"id\":\"b\",\"v\":");
        memset(deep + n, '[', (size_t)depth);
        memset(deep + n + depth, ']', (size_t)depth);
        strcpy(deep + n + 2 * depth, "}");
        assert_int_equal(tx__json_members(deep, strlen(deep), keys, 2, m), depth <= 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_lines_are_read_as_jansson_reads_them),
        cmocka_unit_test(all_else_is_left_to_jansson),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
