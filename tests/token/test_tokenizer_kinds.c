/* labels: unit */
/* Every row of kinds/tokenizers.h opens what its traits name, and a checkpoint knows the names of its files. */
#include "token/tokenizer_kinds.h"

#include "support.h"

/* The files of the type with this name in a model's folder. */
static const char *path_of(const char *name)
{
    static const char *const of_name[][2] = {
        { "vocab.json", "tiny/tiny-vocab.json" },           { "merges.txt", "tiny/tiny-merges.txt" },
        { "vocab.txt", "tiny/tiny-bert-vocab.txt" },        { "tokenizer.model", "token/sp-char.model" },
        { "tokenizer.json", "token/small-tokenizer.json" }, { "tiktoken.model", "token/tiktoken/small.tiktoken" }
    };
    for (size_t i = 0; name && i < sizeof of_name / sizeof *of_name; i++)
        if (!strcmp(name, of_name[i][0])) return strdup(data_path(of_name[i][1]));
    return NULL;
}

static void each_type_opens(void **state)
{
    (void)state;
#define TYPE(constant, word, kind, ...) constant,
    static const enum tx_tokenizer_type type[] = { TX_TOKENIZERS(TYPE) };
    int n_built = 0;
    for (size_t i = 0; i < sizeof type / sizeof *type; i++) {
        const tx_tokenizer_traits t = tx_tokenizer_traits_of(type[i]);
        tx_tokenizer *tok = NULL;
        tx_tokenizer_files f = { .vocab_file = path_of(t.vocab_file),
                                 .merge_file = path_of(t.merge_file),
                                 .model_file = path_of(t.model_file),
                                 .n_ids = 41 };
        if (!tx_tokenizer_is_built(type[i])) {
            ASSERT_FAILS(tx_tokenizer_open_type(&tok, type[i], &f), TX_ERR_UNSUPPORTED,
                         tx_tokenizer_type_word(type[i]));
            continue;
        }
        ASSERT_OK(tx_tokenizer_open_type(&tok, type[i], &f));
        assert_int_equal(tx_tokenizer_special(tok, "[MASK]") >= 0, t.wordpiece);
        if (t.numbers) assert_int_equal(tx_tokenizer_vocab_size(tok), 42);
        tx_tokenizer_close(tok);
        free((char *)f.vocab_file);
        free((char *)f.merge_file);
        free((char *)f.model_file);
        n_built++;
    }
    assert_int_equal(n_built, 10);
}

static void each_name_once(void **state)
{
    (void)state;
    static const char *const names[] = { "vocab.json",      "merges.txt",     "vocab.txt",
                                         "tokenizer.model", "tokenizer.json", "tokenizer_config.json",
                                         "tiktoken.model" };
    for (int i = 0; i < 7; i++) assert_string_equal(tx_tokenizer_file_name(i), names[i]);
    assert_null(tx_tokenizer_file_name(7));
}

static void learned_vocabularies(void **state)
{
    (void)state;
    assert_int_equal(tx_tokenizer_vocab_kind(TX_TOKENIZER_GPT2_BPE), TX_VOCAB_BPE);
    assert_int_equal(tx_tokenizer_vocab_kind(TX_TOKENIZER_BERT_LOWER_CASE), TX_VOCAB_WORDPIECE_LOWER_CASE);
    assert_int_equal(tx_tokenizer_vocab_kind(TX_TOKENIZER_BERT_CASE), TX_VOCAB_WORDPIECE_CASE);
    assert_int_equal(tx_tokenizer_vocab_kind(TX_TOKENIZER_LLAMA2), TX_VOCAB_SENTENCEPIECE_BPE);
    assert_int_equal(tx_tokenizer_vocab_kind(TX_TOKENIZER_GPT_SENTENCE_PIECE), TX_VOCAB_SENTENCEPIECE_UNIGRAM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_opens),
        cmocka_unit_test(each_name_once),
        cmocka_unit_test(learned_vocabularies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
