/* task_lines.c - JSON lines: LAMBADA's texts, and questions with choices. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "eval/detokenizer.h"
#include "eval/task.h"

typedef struct reading {
    tx_task *t;
    const tx_tokenizer *tok;
    tx_str text;          /* of a choice behind its context; scratch */
    char where[TX_WHERE]; /* the line at hand */
} reading;

typedef tx_status line_fn(reading *r, const json_t *line);

tx_status tx__task_line(json_t **out, const tx_record *record, char *where)
{
    json_error_t e;
    snprintf(where, TX_WHERE, "%.280s: line %lld", record->file, (long long)record->line);
    if (!record->json) return TX_FAIL(TX_ERR_FORMAT, "%s: is no JSON object", where);
    *out = tx_json_load(record->data, record->n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    return *out ? TX_OK : TX_FAIL(TX_ERR_FORMAT, "%s, column %d: %s; correct the line", where, e.column, e.text);
}

tx_status tx__task_member(const json_t *line, const char *name, const char *where, const char **text, size_t *n)
{
    const json_t *v = json_object_get(line, name);
    if (!v) return TX_FAIL(TX_ERR_FORMAT, "%s: has no member \"%s\"", where, name);
    if (!json_is_string(v)) return TX_FAIL(TX_ERR_FORMAT, "%s: \"%s\" is not a string", where, name);
    *text = json_string_value(v);
    *n = json_string_length(v);
    return TX_OK;
}

static tx_status read_lines(tx_task *t, const tx_tokenizer *tok, line_fn *take)
{
    const tx_corpus_opts opts = { .inputs = &t->opts.file, .n_inputs = 1, .text_split = TX_TEXT_LINE };
    reading r = { .t = t, .tok = tok };
    tx_corpus *c = NULL;
    tx_record record;
    bool more;
    tx_status st;
    TX_GOTO(tx_corpus_open(&c, &opts));
    for (;;) {
        TX_GOTO(tx_corpus_next(c, &record, &more));
        if (!more) break;
        json_t *line;
        TX_GOTO(tx__task_line(&line, &record, r.where));
        st = take(&r, line);
        json_decref(line);
        if (st) goto out;
        t->n_documents++;
    }
    if (!t->n_items) st = TX_FAIL(TX_ERR_FORMAT, "%s: holds no line, so there is nothing to score", t->opts.file);
out:
    tx_corpus_close(c);
    tx_str_free(&r.text);
    return st;
}

/* ---- LAMBADA ---- */

/* Where the last word of text[0..n) begins, and where it ends; upstream's text.split()[-1]. */
static void last_word(const char *text, size_t n, size_t *begin, size_t *end)
{
    const char *p = text;
    size_t len = n, at = 0;
    tx_strip(&p, &len);
    *begin = *end = (size_t)(p - text);
    for (size_t white; at < len; at += white ? white : 1) {
        white = tx_white_at(p + at, len - at);
        if (white) *begin = (size_t)(p - text) + at + white;
    }
    *end += len;
}

/* The text before the word, without the white space at its ends; then a blank and the word. */
static tx_status add_word(reading *r, const char *text, size_t begin, size_t end, int64_t *first)
{
    const char *context = text;
    size_t n = begin;
    tx_strip(&context, &n);
    TX_TRY(tx_tokenizer_encode(r->tok, context, n, &r->t->ids));
    *first = (int64_t)r->t->ids.n;
    r->text.len = 0;
    TX_TRY(tx_str_puts(&r->text, " "));
    TX_TRY(tx_str_append(&r->text, text + begin, end - begin));
    return tx_tokenizer_encode(r->tok, r->text.data, r->text.len, &r->t->ids);
}

static tx_status add_text(reading *r, const json_t *line)
{
    tx_task *t = r->t;
    int64_t begin = (int64_t)t->ids.n, first = begin;
    const char *text;
    size_t n, word, end;
    TX_TRY(tx__task_member(line, "text", r->where, &text, &n));
    last_word(text, n, &word, &end);
    if (word == end) return TX_FAIL(TX_ERR_FORMAT, "%s: \"text\" has no word", r->where);
    if (t->opts.strict) {
        TX_TRY(add_word(r, text, word, end, &first));
    } else {
        TX_TRY(tx_tokenizer_encode(r->tok, text, n, &t->ids));
        first = (int64_t)t->ids.n - 1;
    }
    TX_TRY(tx__task_add_item(t, (tx_task_item){ .span = t->n_spans, .n_spans = 1, .document = t->n_documents }));
    return tx__task_add_span(t, (tx_task_span){ .begin = begin, .first = first, .end = (int64_t)t->ids.n }, r->where);
}

tx_status tx__task_read_lambada(tx_task *t, const tx_tokenizer *tok)
{
    return read_lines(t, tok, add_text);
}

/* ---- multiple choice ---- */

static int64_t count_chars(const char *text, size_t n)
{
    int64_t chars = 0;
    for (size_t i = 0; i < n; i++) chars += ((unsigned char)text[i] & 0xC0) != 0x80;
    return chars;
}

/* What a choice without a context comes after. */
static tx_status add_eod(reading *r)
{
    tx_ids *ids = &r->t->ids;
    if (tx_tokenizer_eod(r->tok) < 0)
        return TX_FAIL(TX_ERR_FORMAT, "%s: \"context\" is empty, and the vocabulary has no <|endoftext|> to begin with",
                       r->where);
    if (ids->n == ids->cap) {
        TX_TRY(tx_realloc(&ids->id, ids->cap + 256, sizeof *ids->id, "the tokens of a task"));
        ids->cap += 256;
    }
    ids->id[ids->n++] = tx_tokenizer_eod(r->tok);
    return TX_OK;
}

/* The choice's tokens are those of both together that are not of the context alone. White space at the context's end
 * is the choice's, because tokenizers put it before a word. */
static tx_status add_choice(reading *r, const char *context, size_t n_context, const char *choice, size_t n)
{
    tx_ids *ids = &r->t->ids;
    int64_t begin = (int64_t)ids->n, first, end;
    const char *inner = context;
    size_t n_inner = n_context;
    if (!n) return TX_FAIL(TX_ERR_FORMAT, "%s: a choice is empty", r->where);
    tx_strip(&inner, &n_inner);
    size_t n_before = n_inner ? (size_t)(inner - context) + n_inner : 0;
    r->text.len = 0;
    TX_TRY(tx_str_append(&r->text, context, n_context));
    if (n_context && n_before == n_context && !tx_white_at(choice, n)) TX_TRY(tx_str_puts(&r->text, " "));
    TX_TRY(tx_str_append(&r->text, choice, n));
    if (n_before) {
        TX_TRY(tx_tokenizer_encode(r->tok, context, n_before, ids));
        first = (int64_t)ids->n;
        ids->n = (size_t)begin;
    } else {
        TX_TRY(add_eod(r));
        first = begin + 1;
    }
    TX_TRY(tx_tokenizer_encode(r->tok, r->text.data, r->text.len, ids));
    end = (int64_t)ids->n;
    return tx__task_add_span(
        r->t,
        (tx_task_span){
            .begin = begin, .first = first < end ? first : end, .end = end, .n_chars = count_chars(choice, n) },
        r->where);
}

static tx_status add_question(reading *r, const json_t *line)
{
    const json_t *choices = json_object_get(line, "choices"), *answer = json_object_get(line, "answer"), *one;
    const char *context;
    size_t n_context, i;
    TX_TRY(tx__task_member(line, "context", r->where, &context, &n_context));
    if (!json_is_array(choices) || json_array_size(choices) < 2 || json_array_size(choices) > 1000)
        return TX_FAIL(TX_ERR_FORMAT, "%s: \"choices\" is not an array of 2 to 1000 strings", r->where);
    if (!json_is_integer(answer)) return TX_FAIL(TX_ERR_FORMAT, "%s: \"answer\" is not a number of a choice", r->where);
    if (json_integer_value(answer) < 0 || json_integer_value(answer) >= (json_int_t)json_array_size(choices))
        return TX_FAIL(TX_ERR_FORMAT, "%s: \"answer\" is %lld, the choices are 0 to %zu", r->where,
                       (long long)json_integer_value(answer), json_array_size(choices) - 1);
    TX_TRY(tx__task_add_item(r->t, (tx_task_item){ .span = r->t->n_spans,
                                                   .n_spans = (int)json_array_size(choices),
                                                   .answer = (int)json_integer_value(answer),
                                                   .document = r->t->n_documents }));
    json_array_foreach((json_t *)choices, i, one)
    {
        if (!json_is_string(one)) return TX_FAIL(TX_ERR_FORMAT, "%s: choice %zu is not a string", r->where, i);
        TX_TRY(add_choice(r, context, n_context, json_string_value(one), json_string_length(one)));
    }
    return TX_OK;
}

tx_status tx__task_read_choices(tx_task *t, const tx_tokenizer *tok)
{
    return read_lines(t, tok, add_question);
}
