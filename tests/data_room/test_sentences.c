/* labels: unit */
/* Where sentences end. */
#include "data/sentences.h"
#include "support.h"

/* The sentences with '|' behind each. */
static const char *split(const char *text, bool keep_space)
{
    static char out[1024];
    size_t n = strlen(text), end, next, k = 0;
    for (; tx__sentence_next(text, n, keep_space, &end, &next); text += next, n -= next) {
        assert_true(end <= next && next <= n && k + end + 2 < sizeof out);
        memcpy(out + k, text, end);
        k += end;
        out[k++] = '|';
    }
    out[k] = 0;
    return out;
}

static void each_rule(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "", "" },
        { " \n\t ", "" },
        { "No end", "No end|" },
        { "One. Two.", "One.|Two.|" },
        { "One.  Two.\n\n", "One.|Two.|" },
        { " One.\nTwo. three. 4 is.", " One.|Two.|three.|4 is.|" },
        { "A line\nthat goes on.\nNext.", "A line\nthat goes on.|Next.|" },
        /* titles, abbreviations, initials */
        { "He met Dr. Brown. It rained.", "He met Dr. Brown.|It rained.|" },
        { "Mr. And Mrs. Smith vs. The State.", "Mr. And Mrs. Smith vs. The State.|" },
        { "Some, e.g. Cats, i.e. the small ones.", "Some, e.g. Cats, i.e. the small ones.|" },
        { "In the U.S. Senate. In the U.S. He won.", "In the U.S. Senate.|In the U.S.|He won.|" },
        { "J. R. R. Tolkien wrote.", "J. R. R. Tolkien wrote.|" },
        { "So am I. The end.", "So am I.|The end.|" },
        { "Acme Inc. Sells. Acme Inc. The rest.", "Acme Inc. Sells.|Acme Inc.|The rest.|" },
        { "(cf. Smith) and \"etc. etc.\" here", "(cf. Smith) and \"etc. etc.\" here|" },
        { "The end-no. Go on.", "The end-no.|Go on.|" },
        /* numbers */
        { "It is 3.14. Or 1,000. see No. 5. then.", "It is 3.14.|Or 1,000. see No. 5. then.|" },
        { "In 1999. Then.", "In 1999.|Then.|" },
        /* ellipses */
        { "Well... maybe. Well... Yes.", "Well... maybe.|Well...|Yes.|" },
        { "Well . . . maybe. Well . . . Yes.", "Well . . . maybe.|Well . . .|Yes.|" },
        /* ? and ! */
        { "Why? because! Go?! now", "Why?|because!|Go?!|now|" },
        { "a?b !c a!=b", "a?b !c a!=b|" },
        /* quotes and brackets behind the end, and in front of what follows */
        { "\"Why?\" he said. (It is.) 'So.' [Yes.]  {No.}", "\"Why?\"|he said.|(It is.)|'So.'|[Yes.]|{No.}|" },
        { "He left.\") (Then came the U.S. (The end.)", "He left.\")|(Then came the U.S.|(The end.)|" },
        { "\xe2\x80\x9cNo.\xe2\x80\x9d \xe2\x80\x9cYes.\xe2\x80\x9d",
          "\xe2\x80\x9cNo.\xe2\x80\x9d|\xe2\x80\x9cYes.\xe2\x80\x9d|" },
        /* what is no English, and no UTF-8 */
        { "Caf\xc3\xa9.\xc2\xa0\xc3\x89t\xc3\xa9... \xc3\xa9t\xc3\xa9.",
          "Caf\xc3\xa9.|\xc3\x89t\xc3\xa9... \xc3\xa9t\xc3\xa9.|" },
        { "\xff. \xff. \xe2\x80", "\xff.|\xff.|\xe2\x80|" },
        { ". . ! ?", ". . !|?|" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(split(cases[i][0], false), cases[i][1]);
}

static void white_space_can_be_kept(void **state)
{
    (void)state;
    assert_string_equal(split("One.\n\nTwo.  Three.\n", true), "One.\n\n|Two.  |Three.|");
    assert_string_equal(split("\nOne\n two. \n", true), "\nOne\n two.|");
}

static void nul_bytes_are_text(void **state)
{
    (void)state;
    size_t end, next;
    assert_true(tx__sentence_next("a\0. B\0", 6, false, &end, &next));
    assert_int_equal(end, 3);
    assert_int_equal(next, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule),
        cmocka_unit_test(white_space_can_be_kept),
        cmocka_unit_test(nul_bytes_are_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
