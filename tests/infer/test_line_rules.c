/* labels: unit */
/* Line ends in a vocabulary: which tokens they are, and which texts end with them. */
#include "support.h"

#include "infer/line_rules.h"

static void gpt2_tokens(void **state)
{
    (void)state;
    tx_tokenizer *tok;
    ASSERT_OK(tx_tokenizer_open_gpt2(&tok, data_path("token/gpt2-vocab.json"), data_path("token/gpt2-merges.txt")));
    tx_line_rules r = { .prevent_newline_after_colon = true, .stop_on_double_eol = true };
    ASSERT_OK(tx_line_rules_find(&r, tok));
    assert_int_equal(r.colon, 25);
    assert_int_equal(r.eol, 198);
    assert_int_equal(r.double_eol, 628);
    assert_true(tx_line_rules_end(&r, 5, 628));
    assert_true(tx_line_rules_end(&r, 198, 198));
    assert_false(tx_line_rules_end(&r, 5, 198));
    assert_false(tx_line_rules_end(&r, 198, 5));
    tx_sequence s = { .n_prompt = 1 };
    tx_line_rules_apply(&r, &s);
    assert_true(s.prevent);
    assert_int_equal(s.after, 25);
    assert_int_equal(s.then, 198);

    tx_line_rules first = { .stop_on_eol = true };
    ASSERT_OK(tx_line_rules_find(&first, tok));
    assert_true(tx_line_rules_end(&first, 5, 198));
    assert_true(tx_line_rules_end(&first, 5, 628));
    assert_false(tx_line_rules_end(&first, 198, 5));

    tx_line_rules none = { 0 };
    ASSERT_OK(tx_line_rules_find(&none, tok));
    assert_false(tx_line_rules_end(&none, 198, 198));
    tx_line_rules_apply(&none, &s);
    assert_false(s.prevent);
    tx_tokenizer_close(tok);
}

static void other_vocabularies(void **state)
{
    (void)state;
    tx_tokenizer *tok;
    ASSERT_OK(tx_tokenizer_open_gpt2(&tok, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt")));
    tx_line_rules r = { .stop_on_double_eol = true };
    ASSERT_OK(tx_line_rules_find(&r, tok));
    assert_int_equal(r.double_eol, 506);
    const tx_line_rules apart = { .stop_on_double_eol = true, .eol = r.eol, .double_eol = -1 }; /* no such token */
    assert_true(tx_line_rules_end(&apart, r.eol, r.eol));
    assert_false(tx_line_rules_end(&apart, 1, r.eol));
    tx_tokenizer_close(tok);
    ASSERT_OK(tx_tokenizer_open_wordpiece(&tok, data_path("tiny/tiny-bert-vocab.txt"),
                                          true)); /* line ends are blanks there */
    ASSERT_FAILS(tx_line_rules_find(&r, tok), TX_ERR_ARG, "no token for a line end");
    tx_tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gpt2_tokens), cmocka_unit_test(other_vocabularies) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
