/* labels: unit golden */
/* Lines of conversations to ids and masks: those of TRL's SFTTrainer, how templates are found, and what is no
 * conversation. */
#include "data/conversation.h"
#include "data/pack_rows.h"
#include "support.h"

enum { N = 58 }; /* stored conversations */

static tx_tokenizer *tok;

static int open_tokenizer(void **state)
{
    (void)state;
    return tx_tokenizer_open_json(&tok, data_path("finetune/tokenizer.json")) ? -1 : 0;
}

static int close_tokenizer(void **state)
{
    (void)state;
    tx_tokenizer_close(tok);
    return 0;
}

/* ---- TRL's ids and masks ---- */

static json_t *load(const char *name)
{
    json_error_t e;
    json_t *all = json_load_file(data_path(name), 0, &e);
    if (!all) fail_msg("%s: %s", name, e.text);
    return all;
}

static void assert_as_expected(const tx_ids *got, const json_t *expected, int line)
{
    const json_t *ids = json_object_get(expected, "ids"), *mask = json_object_get(expected, "mask");
    assert_int_equal(json_array_size(mask), json_array_size(ids));
    for (size_t i = 0; i < got->n && i < json_array_size(ids); i++) {
        json_int_t id = json_integer_value(json_array_get(ids, i)), m = json_integer_value(json_array_get(mask, i));
        if (got->id[i] != 2 * id + m)
            fail_msg("line %d, token %zu: %d of %d, expected %lld of %lld", line, i, got->id[i] >> 1, got->id[i] & 1,
                     (long long)id, (long long)m);
    }
    if (got->n != json_array_size(ids))
        fail_msg("line %d: %zu tokens, expected %zu", line, got->n, json_array_size(ids));
}

static void ids_and_masks_are_trls(void **state)
{
    (void)state;
    const char *const file[] = { data_path("finetune/conversations.jsonl") };
    FILE *expected = fopen(data_path("finetune/expected.jsonl"), "r");
    tx_corpus *corpus;
    tx_record r;
    tx_ids ids = { 0 };
    bool more;
    int n = 0;
    assert_non_null(expected);
    ASSERT_OK(tx_corpus_open(&corpus, &(tx_corpus_opts){ .inputs = file, .n_inputs = 1 }));
    for (;; n++) {
        ASSERT_OK(tx_corpus_next(corpus, &r, &more));
        if (!more) break;
        json_t *e = json_loadf(expected, JSON_DISABLE_EOF_CHECK, NULL);
        assert_non_null(e);
        const char *name = json_string_value(json_object_get(e, "template"));
        tx_config cfg = { .chat_template = (char *)(name ? name : "none") };
        tx_conversations c;
        ids.n = 0;
        ASSERT_OK(tx_conversations_open(&c, &cfg, tok));
        ASSERT_OK(tx_conversation_encode(&c, &r, &ids));
        assert_as_expected(&ids, e, n + 1);
        tx_conversations_close(&c);
        json_decref(e);
    }
    assert_int_equal(n, N);
    tx_ids_free(&ids);
    tx_corpus_close(corpus);
    fclose(expected);
}

/* ---- tokens that are written otherwise ---- */

/* Where blanks are marks that the decoder strips, or text has a normal form, the loss is still of the answer alone. */
static void answers_are_found_in_other_tokenizers(void **state)
{
    (void)state;
    static const char *const kinds[] = { "llama2", "mistral", "gemma", "unigram-bytes" };
    static const char line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"the end of a b the\"}, "
                               "{\"role\": \"assistant\", \"content\": \"and the answer is e\\u0301 here\"}]}";
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[96];
        tx_tokenizer *t;
        tx_corpus *corpus;
        tx_record r;
        bool more;
        tx_conversations c;
        tx_ids ids = { 0 }, answer = { 0 };
        tx_bytes text = { 0 };
        tx_config cfg = { .chat_template = (char *)"chatml" };
        const char *const file[] = { write_text(in_scratch("one.jsonl"), line) };
        snprintf(path, sizeof path, "token/json_kinds/%s.json", kinds[k]);
        ASSERT_OK(tx_tokenizer_open_json(&t, data_path(path)));
        ASSERT_OK(tx_corpus_open(&corpus, &(tx_corpus_opts){ .inputs = file, .n_inputs = 1 }));
        ASSERT_OK(tx_corpus_next(corpus, &r, &more));
        ASSERT_OK(tx_conversations_open(&c, &cfg, t));
        ASSERT_OK(tx_conversation_encode(&c, &r, &ids));
        assert_true(ids.n > 0);
        answer.id = ids.id;
        for (size_t i = 0; i < ids.n; i++)
            if (ids.id[i] & 1) answer.id[answer.n++] = ids.id[i] >> 1;
        ASSERT_OK(tx_tokenizer_decode(t, answer.id, answer.n, &text));
        if (!strstr(text.data, "and the answer is") || strstr(text.data, "end of"))
            fail_msg("%s: the loss is of \"%s\"", kinds[k], text.data);
        tx_bytes_free(&text);
        tx_ids_free(&ids);
        tx_conversations_close(&c);
        tx_corpus_close(corpus);
        tx_tokenizer_close(t);
    }
}

/* ---- TRL's rows ---- */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* How full rows are, sorted: TRL deals equally long ones in another order. */
static void rows_are_as_full_as_trls(void **state)
{
    (void)state;
    json_t *all = load("finetune/packed.json"), *lengths = json_object_get(all, "lengths");
    json_t *rows = json_object_get(all, "rows");
    int64_t len[N], got[N] = { 0 }, trl[N] = { 0 }, row = json_integer_value(json_object_get(all, "row"));
    bool seen[N] = { false };
    tx_packed_rows p;
    assert_int_equal(json_array_size(lengths), N);
    for (size_t i = 0; i < N; i++) len[i] = json_integer_value(json_array_get(lengths, i));
    ASSERT_OK(tx_pack_rows(&p, len, N, row, false));
    assert_int_equal(p.n_rows, json_array_size(rows));
    for (int64_t r = 0; r < p.n_rows; r++) {
        const json_t *one = json_array_get(rows, (size_t)r);
        for (size_t k = 0; k < json_array_size(one); k++) trl[r] += json_integer_value(json_array_get(one, k));
        for (int64_t k = p.begin[r]; k < p.begin[r + 1]; k++) {
            assert_false(seen[p.item[k]]);
            seen[p.item[k]] = true;
            got[r] += len[p.item[k]];
        }
        assert_in_range(got[r], 1, row);
    }
    assert_int_equal(p.begin[0], 0);
    assert_int_equal(p.begin[p.n_rows], N);
    qsort(got, (size_t)p.n_rows, sizeof *got, by_size);
    qsort(trl, (size_t)p.n_rows, sizeof *trl, by_size);
    assert_memory_equal(got, trl, (size_t)p.n_rows * sizeof *got);
    tx_packed_rows_free(&p);
    json_decref(all);
}

static void rows_can_be_of_one_each(void **state)
{
    (void)state;
    const int64_t len[] = { 3, 5, 1 };
    tx_packed_rows p;
    ASSERT_OK(tx_pack_rows(&p, len, 3, 64, true));
    assert_int_equal(p.n_rows, 3);
    for (int64_t i = 0; i < 3; i++) {
        assert_int_equal(p.begin[i], i);
        assert_int_equal(p.item[i], i);
    }
    tx_packed_rows_free(&p);
    ASSERT_OK(tx_pack_rows(&p, (const int64_t[]){ 60, 64, 4, 63, 1, 2, 2 }, 7, 64, false));
    assert_int_equal(p.n_rows, 4); /* 64, 63 1, 60 4, 2 2 */
    static const int64_t item[] = { 1, 3, 4, 0, 2, 5, 6 };
    assert_memory_equal(p.item, item, sizeof item);
    tx_packed_rows_free(&p);
}

/* ---- lines ---- */

/* A line with a template's name or file; the answer's tokens as text. */
static tx_status encode(const char *line, const char *template, char *answer)
{
    tx_config cfg = { .chat_template = (char *)template, .tokenizer_type = TX_TOKENIZER_HF };
    const tx_record r = { .data = line, .n = strlen(line), .file = "f.jsonl", .line = 7, .json = true };
    tx_conversations c;
    tx_ids ids = { 0 };
    tx_bytes bytes = { 0 };
    ASSERT_OK(tx_conversations_open(&c, &cfg, tok));
    tx_status st = tx_conversation_encode(&c, &r, &ids);
    for (size_t i = 0; i < ids.n && answer; i++)
        if (ids.id[i] & 1) ASSERT_OK(tx_tokenizer_decode(tok, (const int32_t[]){ ids.id[i] / 2 }, 1, &bytes));
    if (answer) snprintf(answer, 200, "%s", bytes.data ? bytes.data : "");
    tx_bytes_free(&bytes);
    tx_ids_free(&ids);
    tx_conversations_close(&c);
    return st;
}

#define USER "{\"role\": \"user\", \"content\": \"hi\"}"

static void a_line_that_is_no_conversation_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *line, *part;
    } cases[] = {
        { "{\"text\": \"x\"}", "f.jsonl: line 7: has neither \"messages\" nor \"prompt\" and \"completion\"" },
        { "{\"prompt\": \"x\"}", "f.jsonl: line 7: has neither" },
        { "{\"prompt\": \"x\", \"completion\": \"\"}", "f.jsonl: line 7: the completion is empty" },
        { "{\"prompt\": \"x\", \"completion\": \"<|endoftext|>\"}", "f.jsonl: line 7: the completion is empty" },
        { "{\"prompt\": [], \"completion\": \"x\"}",
          "f.jsonl: line 7: \"prompt\" and \"completion\" are not two texts, nor two arrays of messages" },
        { "{\"prompt\": [], \"completion\": []}", "f.jsonl: line 7: the prompt has no message" },
        { "{\"prompt\": [" USER "], \"completion\": [" USER "]}",
          "f.jsonl: line 7: message 2, which the completion begins with, is not of the assistant" },
        { "{\"prompt\": \"\", \"messages\": []}", "give one of the two forms" },
        { "{\"prompt\": \"x\",", "f.jsonl: line 7, column" },
        { "[1]", "f.jsonl: line 7: is an array, not a JSON object" },
        { "{\"messages\": []}", "f.jsonl: line 7: \"messages\" is not an array of messages" },
        { "{\"messages\": [" USER "]}", "f.jsonl: line 7: no message is of the assistant" },
        { "{\"messages\": [" USER ", {\"role\": \"tool\", \"content\": \"x\"}]}",
          "f.jsonl: line 7: message 2 has the role \"tool\": there are system, user and assistant" },
        { "{\"messages\": [" USER ", {\"role\": \"assistant\", \"content\": \"\"}]}",
          "f.jsonl: line 7: message 2, an answer, is empty" },
        { "{\"messages\": [" USER ", {\"role\": \"assistant\", \"content\": [\"x\"]}]}",
          "f.jsonl: line 7: message 2 has no \"content\" that is a text" },
        { "{\"messages\": [" USER ", {\"role\": \"system\", \"content\": \"x\"}]}",
          "f.jsonl: line 7: message 2 is of the system" },
        { "{\"prompt\": \"\\ud800\", \"completion\": \"x\"}", "f.jsonl: line 7: has an unpaired surrogate" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ASSERT_FAILS(encode(cases[i].line, "chatml", NULL), TX_ERR_FORMAT, cases[i].part);
    const tx_record text = { .data = "x", .n = 1, .file = "f.txt", .line = 1 };
    json_t *object;
    ASSERT_FAILS(tx_record_object(&text, &object), TX_ERR_FORMAT, "f.txt: line 1: does not begin with {");
}

/* ---- templates ---- */

#define TALK "{\"messages\": [" USER ", {\"role\": \"assistant\", \"content\": \"so be it\"}]}"

static const char *written(const char *name, const char *text)
{
    return write_file(in_scratch("%s", name), text, strlen(text));
}

static void a_file_has_texts_around_each_role(void **state)
{
    (void)state;
    char answer[200];
    const char *file = written("t.json", "{\"user\": {\"prefix\": \"User: \", \"suffix\": \"\\n\"}, \"assistant\": "
                                         "{\"prefix\": \"Bot:\", \"end\": \"!{eos}\", \"suffix\": \"\\n\"}}");
    ASSERT_OK(encode(TALK, file, answer));
    assert_string_equal(answer, "so be it!<|endoftext|>");
    ASSERT_FAILS(encode("{\"messages\": [{\"role\": \"system\", \"content\": \"x\"}," USER "]}", file, NULL),
                 TX_ERR_FORMAT, "has the role \"system\", which the chat template");
    ASSERT_FAILS(encode(TALK, written("a.json", "{\"user\": {}}"), NULL), TX_ERR_FORMAT, "there is no \"assistant\"");
    ASSERT_FAILS(encode(TALK, written("b.json", "{\"assistant\": {\"begin\": \"x\"}}"), NULL), TX_ERR_FORMAT,
                 "assistant has \"begin\", which a template here has not");
    ASSERT_FAILS(encode(TALK, written("c.json", "{\"assistant\": {\"prefix\": 1}}"), NULL), TX_ERR_FORMAT,
                 "\"prefix\" is not a text");
    ASSERT_FAILS(encode(TALK, written("d.json", "{\"trim\": 1, \"assistant\": {}}"), NULL), TX_ERR_FORMAT,
                 "\"trim\" is not true or false");
    ASSERT_FAILS(encode(TALK, written("e.json", "{% for m in messages %}"), NULL), TX_ERR_FORMAT, "not Jinja");
    ASSERT_FAILS(
        encode(TALK, "nowhere", NULL), TX_ERR_NOTFOUND,
        "--chat-template nowhere: there is no such file, nor a template of that name: give --chat-template one "
        "of chatml, qwen2.5, llama2, llama3, zephyr, alpaca");
}

static void the_words_of_the_help_are_the_tables(void **state)
{
    (void)state;
    char words[200] = "";
#define ADD(constant, word, ...) snprintf(words + strlen(words), sizeof words - strlen(words), ", %s", word);
    TX_CHAT_TEMPLATES(ADD)
#undef ADD
    assert_string_equal(words + 2, TX_CHAT_TEMPLATES_HELP);
}

/* The name of what a tokenizer_config.json with this chat_template is recognised as. */
static tx_status recognised(const char *jinja, char name[300])
{
    tx_chat_template t;
    json_t *config = jinja ? json_pack("{s:s}", "chat_template", jinja) : json_object();
    assert_int_equal(json_dump_file(config, in_scratch("tokenizer_config.json"), 0), 0);
    json_decref(config);
    written("tokenizer.json", "{}");
    tx_config cfg = { .tokenizer_type = TX_TOKENIZER_HF, .tokenizer_model = (char *)in_scratch("tokenizer.json") };
    TX_TRY(tx_chat_template_open(&t, &cfg));
    snprintf(name, 300, "%s", t.name);
    tx_chat_template_close(&t);
    return TX_OK;
}

static void a_tokenizers_template_is_recognised(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
          "+ "
          "'\n'}}{% endfor %}",
          "chatml" },
        { "{%- if tools %}...{{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
          "assistant.<|im_end|>\n' }}",
          "qwen2.5" },
        { "{% set content = '<<SYS>>\n' + system_message %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}",
          "llama2" },
        { "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | "
          "trim + "
          "'<|eot_id|>' %}",
          "llama3" },
        { "{{ '<|user|>\n' + message['content'] + eos_token }}{{ '<|assistant|>\n'  + message['content'] + eos_token "
          "}}",
          "zephyr" },
    };
    char name[300];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ASSERT_OK(recognised(cases[i][0], name));
        assert_string_equal(name, cases[i][1]);
    }
    ASSERT_FAILS(recognised("{{ '<|im_start|>system\nYou are a bird<|im_end|>' }}", name), TX_ERR_ARG,
                 "its chat_template is of no kind that is known here: give --chat-template one of chatml, qwen2.5");
    ASSERT_FAILS(recognised("{{ '<|im_start|>' }}{{ '<think>' }}", name), TX_ERR_ARG, "of no kind");
    ASSERT_FAILS(recognised(NULL, name), TX_ERR_ARG, "tokenizer_config.json has none: give --chat-template one of");
    written("chat_template.jinja", cases[3][0]);
    ASSERT_OK(recognised(NULL, name));
    assert_string_equal(name, "llama3");
    ASSERT_FAILS(encode(TALK, NULL, NULL), TX_ERR_ARG,
                 "\"messages\" need a chat template: give --chat-template one of");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_masks_are_trls),          cmocka_unit_test(rows_are_as_full_as_trls),
        cmocka_unit_test(rows_can_be_of_one_each),         cmocka_unit_test(a_line_that_is_no_conversation_is_named),
        SCRATCH_TEST(a_file_has_texts_around_each_role),   cmocka_unit_test(the_words_of_the_help_are_the_tables),
        SCRATCH_TEST(a_tokenizers_template_is_recognised), SCRATCH_TEST(answers_are_found_in_other_tokenizers),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
