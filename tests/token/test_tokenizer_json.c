/* labels: unit golden */
/* tokenizer.json: ids as the library's, and each thing that triax does not read named by its place. */
#include "token_test.h"

#include "token/byte_symbols.h"

/* A tokenizer.json with byte b as id b, "th" as 256, and `parts` before the model. */
static const char *json_file(const char *parts, const char *tokens, const char *merges, const char *more)
{
    tx_str s = { 0 };
    ASSERT_OK(tx_str_printf(&s, "{%s \"model\": {\"type\": \"BPE\", \"vocab\": {", parts));
    for (unsigned b = 0; b < 256; b++)
        ASSERT_OK(tx_str_printf(&s, "%s\"\\u%04x\": %u", b ? ", " : "", tx__symbol_of_byte(b), b));
    ASSERT_OK(tx_str_printf(&s, ", \"th\": 256%s}, \"merges\": [%s]%s}}", tokens, merges, more));
    const char *path = write_file(in_scratch("tokenizer.json"), s.data, s.len);
    tx_str_free(&s);
    return path;
}

#define AROUND                                                                                            \
    "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"decoder\": {\"type\": " \
    "\"ByteLevel\"},"
#define ADDED(id, content)                                                                                  \
    "{\"id\": " id ", \"content\": \"" content "\", \"single_word\": false, \"lstrip\": true, \"rstrip\": " \
    "true, \"normalized\": false, \"special\": true}"

static tx_tokenizer *open_json(const char *path)
{
    tx_tokenizer *t = NULL;
    ASSERT_OK(tx_tokenizer_open_json(&t, path));
    return t;
}

static tx_status try_open(const char *path)
{
    tx_tokenizer *t = NULL;
    tx_status st = tx_tokenizer_open_json(&t, path);
    tx_tokenizer_close(t);
    return st;
}

static void assert_ids(const tx_tokenizer *t, const char *text, size_t n, const int32_t *ids)
{
    tx_ids got = { 0 };
    ASSERT_OK(tx_tokenizer_encode(t, text, strlen(text), &got));
    assert_int_equal(got.n, n);
    assert_memory_equal(got.id, ids, n * sizeof *ids);
    tx_ids_free(&got);
}

static void stored_ids(void **state)
{
    (void)state;
    tx_tokenizer *t = open_json(data_path("token/small-tokenizer.json"));
    tx_str file = read_file(data_path("token/small_ids.jsonl"));
    int n_lines = 0;
    for (char *line = strtok(file.data, "\n"); line; line = strtok(NULL, "\n"), n_lines++) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL), *text = json_object_get(row, "text");
        json_t *ids = json_object_get(row, "ids");
        tx_ids got = { 0 };
        ASSERT_OK(tx_tokenizer_encode(t, json_string_value(text), json_string_length(text), &got));
        bool same = got.n == json_array_size(ids);
        for (size_t i = 0; same && i < got.n; i++) same = got.id[i] == json_integer_value(json_array_get(ids, i));
        if (!same) fail_msg("other ids for %s", line);
        tx_ids_free(&got);
        json_decref(row);
    }
    assert_true(n_lines > 200);
    tx_str_free(&file);
    tx_tokenizer_close(t);
}

static void added_and_holes(void **state)
{
    (void)state;
    const char *parts = AROUND "\"added_tokens\": [" ADDED("258", "<e>") "],";
    tx_tokenizer *t = open_json(json_file(parts, ", \"he\": 300", "\"t h\"", ""));
    tx_bytes text = { 0 };
    assert_int_equal(tx_tokenizer_vocab_size(t), 301);
    assert_int_equal(tx_tokenizer_special(t, "<e>"), 258);
    assert_int_equal(tx_tokenizer_special(t, "th"), -1);
    assert_int_equal(tx_tokenizer_eod(t), -1);
    assert_ids(t, "th \t<e> th", 3, (int32_t[]){ 256, 258, 256 });
    ASSERT_OK(tx_tokenizer_decode(t, (int32_t[]){ 256, 258, 300 }, 3, &text));
    assert_string_equal(text.data, "th<e>he");
    ASSERT_FAILS(tx_tokenizer_decode(t, (int32_t[]){ 257 }, 1, &text), TX_ERR_ARG, "holes");
    tx_bytes_free(&text);
    tx_tokenizer_close(t);

    write_text(in_scratch("tokenizer_config.json"),
               "{\"eos_token\": {\"content\": \"<e>\"}, \"model_max_length\": 1000000000000000019884624838656}");
    parts = AROUND "\"added_tokens\": [" ADDED("257", "<e>") "],";
    t = open_json(json_file(parts, "", "[\"t\", \"h\"]", ""));
    assert_int_equal(tx_tokenizer_eod(t), 257);
    tx_tokenizer_close(t);
    write_text(in_scratch("tokenizer_config.json"), "{\"eos_token\": \"<no>\"}");
    ASSERT_FAILS(try_open(json_file(AROUND, "", "", "")), TX_ERR_FORMAT, "eos_token \"<no>\" is not in");
}

/* A file with bytes as ids, "th" and the token <e>, 257, whose post_processor is that. */
static const char *with_ends(const char *post_processor)
{
    char parts[2048];
    snprintf(parts, sizeof parts, AROUND "\"added_tokens\": [" ADDED("257", "<e>") "], \"post_processor\": %s,",
             post_processor);
    return json_file(parts, "", "\"t h\"", "");
}

#define SPECIAL(name, id) "\"" name "\": {\"id\": \"" name "\", \"ids\": [" id "], \"tokens\": [\"" name "\"]}"
#define TOKEN(name)       "{\"SpecialToken\": {\"id\": \"" name "\", \"type_id\": 0}}"
#define TEXT_A            "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"
#define TEMPLATE(single, special) \
    "{\"type\": \"TemplateProcessing\", \"single\": [" single "], \"pair\": [], \"special_tokens\": {" special "}}"

/* What the library's encode(text) gives. */
static void tokens_at_the_ends(void **state)
{
    (void)state;
    static const struct {
        const char *post_processor;
        int32_t ids[8];
        size_t n;
    } good[] = {
        { "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": false}", { 256 }, 1 },
        { TEMPLATE(TOKEN("<e>") ", " TEXT_A, SPECIAL("<e>", "257")), { 257, 256 }, 2 },
        { TEMPLATE(TOKEN("b") ", " TEXT_A ", " TOKEN("<e>"), SPECIAL("<e>", "257") ", " SPECIAL("b", "0, 1")),
          { 0, 1, 256, 257 },
          4 },
        { "{\"type\": \"RobertaProcessing\", \"sep\": [\"a\", 2], \"cls\": [\"b\", 3], \"trim_offsets\": true, "
          "\"add_prefix_space\": false}",
          { 3, 256, 2 },
          3 },
        { "{\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\", \"trim_offsets\": false}, " TEMPLATE(
              TEXT_A ", " TOKEN("<e>"), SPECIAL("<e>", "257")) "]}",
          { 256, 257 },
          2 },
    };
    static const struct {
        const char *post_processor;
        tx_status code;
        const char *say;
    } bad[] = {
        { TEMPLATE(TOKEN("<x>") ", " TEXT_A, SPECIAL("<e>", "257")), TX_ERR_FORMAT,
          "post_processor.single[0] is neither" },
        { TEMPLATE(TOKEN("<e>"), SPECIAL("<e>", "257")), TX_ERR_UNSUPPORTED, "single has the text 0 times" },
        { TEMPLATE(TEXT_A ", " TEXT_A, ""), TX_ERR_UNSUPPORTED, "single has the text 2 times" },
        { TEMPLATE(TOKEN("<e>") ", " TEXT_A, SPECIAL("<e>", "258")), TX_ERR_FORMAT,
          "post_processor adds token id 258" },
        { TEMPLATE(TOKEN("<e>") ", " TEXT_A, SPECIAL("<e>", "\"a\"")), TX_ERR_FORMAT,
          "has no id for one of its tokens" },
        { "{\"type\": \"Sequence\", \"processors\": [" TEMPLATE(TOKEN("<e>") ", " TEXT_A,
                                                                SPECIAL("<e>", "257")) ", " TEMPLATE(TEXT_A, "") "]}",
          TX_ERR_UNSUPPORTED, "post_processor.processors[1] is a second step that adds tokens" },
        { "{\"type\": \"BertProcessing\"}", TX_ERR_FORMAT, "has no id for one of its tokens" },
        { TEMPLATE(TEXT_A ", " TOKEN("<e>"), SPECIAL("<e>", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6")),
          TX_ERR_FORMAT, "more than 16 tokens" },
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        tx_tokenizer *t = open_json(with_ends(good[i].post_processor));
        assert_ids(t, "th", good[i].n, good[i].ids);
        tx_tokenizer_close(t);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ASSERT_FAILS(try_open(with_ends(bad[i].post_processor)), bad[i].code, bad[i].say);
}

/* Files that were made for encoding only. */
static void no_decoder(void **state)
{
    (void)state;
    static const char pre[] =
        "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"decoder\": null,";
    tx_bytes text = { 0 };
    tx_tokenizer *t = open_json(json_file(pre, "", "\"t h\"", ""));
    ASSERT_OK(tx_tokenizer_decode(t, (int32_t[]){ 256, 32, 256 }, 3, &text));
    assert_string_equal(text.data, "th th");
    tx_bytes_free(&text);
    tx_tokenizer_close(t);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *parts, *merges, *more;
        tx_status code;
        const char *say;
    } bad[] = {
        { "\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"},", "", "", TX_ERR_UNSUPPORTED,
          "pre_tokenizer.type is \"UnicodeScripts\"; triax reads ByteLevel, Split, Metaspace" },
        { "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"ab\"},", "", "", TX_ERR_FORMAT,
          "pre_tokenizer.replacement is \"ab\", not one character" },
        { "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"maybe\"},", "",
          "", TX_ERR_UNSUPPORTED, "pre_tokenizer.prepend_scheme is \"maybe\"" },
        { "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, \"behavior\": \"Merged\"},", "",
          "", TX_ERR_UNSUPPORTED, "pre_tokenizer.behavior is \"Merged\"; triax reads Isolated" },
        { "\"decoder\": {\"type\": \"CTC\"},", "", "", TX_ERR_UNSUPPORTED,
          "decoder.type is \"CTC\"; triax reads ByteLevel" },
        { "\"normalizer\": {\"type\": \"Replace\", \"pattern\": \"a\", \"content\": \"\"},", "", "", TX_ERR_FORMAT,
          "normalizer.pattern is neither" },
        { "\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"a\"},", "", "", TX_ERR_FORMAT,
          "normalizer.precompiled_charsmap is not base64" },
        { "\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAAAAAAA\"},", "", "", TX_ERR_FORMAT,
          "normalizer.precompiled_charsmap" },
        { "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": "
          "{\"Regex\": \"a+(\"}, \"behavior\": \"Isolated\", \"invert\": false}]},",
          "", "", TX_ERR_UNSUPPORTED,
          "pre_tokenizer.pretokenizers[0].pattern.Regex is not an expression that Oniguruma reads: end pattern" },
        { AROUND "\"normalizer\": {\"type\": \"Uppercase\"},", "", "", TX_ERR_UNSUPPORTED,
          "normalizer.type is \"Uppercase\"" },
        { AROUND "\"post_processor\": {\"type\": \"X\"},", "", "", TX_ERR_UNSUPPORTED, "post_processor.type" },
        { AROUND "\"other\": 1,", "", "", TX_ERR_UNSUPPORTED, "the key \"other\"" },
        { AROUND "\"version\": \"2.0\",", "", "", TX_ERR_UNSUPPORTED, "version is \"2.0\"" },
        { AROUND, "\"t\"", "", TX_ERR_FORMAT, "model.merges[0]: \"t\" is not a merge" },
        { AROUND, "\"t h\", [\"t\", \"h\"]", "", TX_ERR_FORMAT, "model.merges[1]: \"t h\" is there a second time" },
        { AROUND, "\"h e\"", "", TX_ERR_FORMAT, "the merged token \"he\" is not in model.vocab" },
        { AROUND, "", ", \"dropout\": 0.1", TX_ERR_UNSUPPORTED, "model.dropout is 0.1" },
        { AROUND, "", ", \"end_of_word_suffix\": 1", TX_ERR_FORMAT, "model.end_of_word_suffix is 1, not a string" },
        { "", "", ", \"unk_token\": \"<unk>\"", TX_ERR_FORMAT, "model.unk_token is \"<unk>\", which is not in" },
        { AROUND, "", ", \"new\": 1", TX_ERR_UNSUPPORTED, "model has the key \"new\"" },
        { AROUND "\"added_tokens\": [" ADDED("300", "<e>") "],", "", "", TX_ERR_FORMAT,
          "added_tokens[0].id is 300, but the token \"<e>\" is number 257" },
        { AROUND "\"added_tokens\": [" ADDED("257", "<e>") ", " ADDED("258", "<e>") "],", "", "", TX_ERR_FORMAT,
          "added_tokens[1] and added_tokens[0] are the same token" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ASSERT_FAILS(try_open(json_file(bad[i].parts, "", bad[i].merges, bad[i].more)), bad[i].code, bad[i].say);
    static const struct {
        const char *model, *say;
    } models[] = {
        { "{\"type\": \"WordPiece\"}", "model.vocab is missing" },
        { "{\"type\": \"WordPiece\", \"vocab\": {}, \"unk_token\": \"u\"}",
          "model.max_input_chars_per_word is missing" },
        { "{\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}, \"max_input_chars_per_word\": 9, \"unk_token\": \"u\"}",
          "model.unk_token is \"u\"" },
        { "{\"type\": \"WordLevel\", \"vocab\": {\"a\": 0, \"b\": 0}, \"unk_token\": \"u\"}", "both have id 0" },
        { "{\"type\": \"Unigram\", \"vocab\": [[\"a\", 0], [\"a\", 1]]}", "model.vocab[1] and [0] are the same token" },
        { "{\"type\": \"Unigram\", \"vocab\": [[\"a\"]]}", "model.vocab[0] is not [\"token\", score]" },
        { "{\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]], \"unk_id\": 1}", "model.unk_id is 1; model.vocab has 1" },
        { "{\"type\": \"Unigram\", \"vocab\": []}", "model.vocab has 0 tokens" },
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"model\": %s}", models[i].model);
        ASSERT_FAILS(try_open(write_text(in_scratch("w.json"), text)), TX_ERR_FORMAT, models[i].say);
    }
    ASSERT_FAILS(try_open(write_text(in_scratch("w.json"), "{\"model\": {\"type\": \"Other\"}}")), TX_ERR_UNSUPPORTED,
                 "model.type is \"Other\"; triax reads BPE, Unigram, WordPiece and WordLevel");
    ASSERT_FAILS(try_open(write_text(in_scratch("w.json"), "[]")), TX_ERR_FORMAT, "is this a tokenizer.json?");
    ASSERT_FAILS(try_open(in_scratch("none.json")), TX_ERR_NOTFOUND, "none.json");
}

static void out_of_memory(void **state)
{
    (void)state;
    const char *path = data_path("token/small-tokenizer.json");
    tx_status st = TX_ERR_NOMEM;
    for (int n = 0; st; n++) {
        allocation_fails_at(n);
        st = try_open(path);
        allocations_succeed();
        assert_true(st == TX_OK || st == TX_ERR_NOMEM);
    }
    tx_tokenizer *t = open_json(path);
    st = TX_ERR_NOMEM;
    for (int n = 0; st; n++) {
        tx_ids ids = { 0 };
        allocation_fails_at(n);
        st = tx_tokenizer_encode(t, "the cafe\xCC\x81 <x> the", 15, &ids);
        allocations_succeed();
        if (st) assert_int_equal(ids.n, 0);
        tx_ids_free(&ids);
    }
    tx_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_ids), SCRATCH_TEST(added_and_holes), SCRATCH_TEST(tokens_at_the_ends),
        SCRATCH_TEST(no_decoder),     SCRATCH_TEST(refused),         cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
