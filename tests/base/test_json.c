/* labels: unit */
/* A missing comma is named, at its place, and so is a key that is given twice; other mistakes are Jansson's to say. */
#include "support.h"

#include "base/json.h"

static void a_missing_comma_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
        int line, column;
    } row[] = {
        { "{\"a\": 1 \"b\": 2}", "a comma is missing before \"b\"", 1, 8 },
        { "{\"a\": 1\n \"b\": 2}", "a comma is missing before \"b\"", 1, 8 },
        { "{\n  \"a\": {\"x\": \"}\"}\n\n  \"b\": 2}", "a comma is missing before \"b\"", 2, 18 },
        { "{\"\xc3\xa9\xc3\xa9\": \"\xc3\xa9\" \"b\": 2}", "a comma is missing before \"b\"", 1, 11 },
        { "[1 2]", "a comma is missing before 2", 1, 3 },
        { "[1, 2 3.5e2, 4]", "a comma is missing before 3.5e2", 1, 6 },
        { "[[1] [2]]", "a comma is missing before [", 1, 5 },
        { "[true false]", "a comma is missing before false", 1, 6 },
        { "[{} {}]", "a comma is missing before {", 1, 4 },
        { "[\"a\\\"\\\\\" \"b\"]", "a comma is missing before \"b\"", 1, 9 },
        { "[1 \"0123456789012345678901234567890123456789012345678901234567890123456789\"]", "a comma is missing", 1,
          3 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        json_error_t e;
        assert_null(tx_json_load(row[i].text, strlen(row[i].text), 0, &e));
        if (strcmp(e.text, row[i].says) != 0 || e.line != row[i].line || e.column != row[i].column)
            fail_msg("%s: line %d, column %d: %s", row[i].text, e.line, e.column, e.text);
        assert_int_equal(json_error_code(&e), json_error_invalid_syntax);
    }
}

static void other_mistakes_are_as_they_were(void **state)
{
    (void)state;
    static const char *const text[] = { "{",
                                        "{\"a\" 1}",
                                        "{\"a\": 1: 2, \"b\": [1 2]}",
                                        "{\"a\": 1, }",
                                        "[1, 2",
                                        "[1 ",
                                        "[1 ;2]",
                                        "{\"a\": 1 b}",
                                        "{\"a\": 1]",
                                        "[1}",
                                        "[\"a\" \"b",
                                        "{\"a\": 1} 2",
                                        "[1\0002]" };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        json_error_t theirs, ours;
        size_t n = i + 1 < sizeof text / sizeof *text ? strlen(text[i]) : 5;
        assert_null(json_loadb(text[i], n, 0, &theirs));
        assert_null(tx_json_load(text[i], n, 0, &ours));
        assert_string_equal(ours.text, theirs.text);
        assert_true(ours.line == theirs.line && ours.column == theirs.column);
    }
}

static void an_empty_text_is_empty(void **state)
{
    (void)state;
    json_error_t e;
    assert_null(tx_json_load("", 0, 0, &e));
    assert_string_equal(e.text, "it is empty");
    assert_null(tx_json_load(" \n\t", 3, 0, &e));
    assert_string_equal(e.text, "it is empty");
}

static void a_key_that_is_given_twice_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *key;
        int line;
    } row[] = {
        { "{\"a\": 1, \"a\": 2}", "a", 1 },
        { "{\"a\": {\"b\": \"x, {\",\n\"c\": [1, {}],\n\"b\": 2}}", "a.b", 3 },
        { "{\"a\": {\"c\": 1}, \"b\": [1, [2], {\"c\": 1}, {\"c\": \"\\\"\",\n\"c\": 2}]}", "b[3].c", 2 },
        { "[[[[[[[[[[[[[[[[[[{\"a\": 1, \"a\": 1}]]]]]]]]]]]]]]]]]]",
          "[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]", 1 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        json_error_t e;
        char says[160];
        assert_null(tx_json_load(row[i].text, strlen(row[i].text), JSON_REJECT_DUPLICATES, &e));
        snprintf(says, sizeof says, "the key \"%s\" is given twice", row[i].key);
        assert_string_equal(e.text, says);
        assert_int_equal(e.line, row[i].line);
        assert_int_equal(json_error_code(&e), json_error_duplicate_key);
    }
}

static void what_is_json_is_read(void **state)
{
    (void)state;
    json_error_t e;
    json_t *root = tx_json_load("[1, 2]", 6, 0, &e);
    assert_int_equal(json_array_size(root), 2);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_comma_is_named), cmocka_unit_test(other_mistakes_are_as_they_were),
        cmocka_unit_test(an_empty_text_is_empty),   cmocka_unit_test(a_key_that_is_given_twice_is_named),
        cmocka_unit_test(what_is_json_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
