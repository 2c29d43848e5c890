/* task_text.c - reads running text as windows. */
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "eval/detokenizer.h"
#include "eval/task.h"

/* Tokens from `begin` on, one document: target number k of n (from 1) is counted in the window
 * max(0, ceil((k - seq_length) / overlap)). */
static tx_status add_windows(tx_task *t, int64_t begin)
{
    int64_t end = (int64_t)t->ids.n, s = t->opts.seq_length, step = t->opts.overlap, counted = begin + 1;
    for (int64_t at = begin; counted < end; at += step) {
        tx_task_span window = { .begin = at, .first = counted, .end = at + s + 1 < end ? at + s + 1 : end };
        TX_TRY(tx__task_add_item(
            t, (tx_task_item){ .span = t->n_spans, .n_spans = 1, .document = t->n_documents, .begins = at == begin }));
        TX_TRY(tx__task_add_span(t, window, t->opts.file));
        counted = window.end;
    }
    t->n_documents++;
    return TX_OK;
}

/* The same for a model that sees both sides: all tokens count, in one window each. */
static tx_status add_masked_windows(tx_task *t, int64_t begin)
{
    int64_t end = (int64_t)t->ids.n, s = t->opts.seq_length;
    for (int64_t at = begin; at < end; at += s) {
        TX_TRY(tx__task_add_item(t, (tx_task_item){ .span = t->n_spans, .n_spans = 1, .document = t->n_documents }));
        TX_TRY(tx__task_add_span(t, (tx_task_span){ .begin = at, .first = at, .end = at + s < end ? at + s : end },
                                 t->opts.file));
    }
    t->n_documents++;
    return TX_OK;
}

static tx_status too_short(const tx_task *t)
{
    return TX_FAIL(TX_ERR_FORMAT, "%s: no text in it has %s, so there is nothing to predict", t->opts.file,
                   t->opts.masked ? "a token" : "two tokens");
}

/* ---- any text ---- */

static tx_status add_document(tx_task *t, const tx_tokenizer *tok, const char *text, size_t n)
{
    int64_t begin = (int64_t)t->ids.n;
    tx_bytes first = { 0 };
    TX_TRY(tx_tokenizer_encode(tok, text, n, &t->ids));
    if (t->opts.masked) {
        t->n_bytes += (int64_t)n;
        return add_masked_windows(t, begin);
    }
    if ((int64_t)t->ids.n - begin < 2) {
        t->n_documents++;
        return TX_OK;
    }
    tx_status st = tx_tokenizer_decode(tok, t->ids.id + begin, 1, &first);
    t->n_bytes += (int64_t)n - (int64_t)first.n;
    tx_bytes_free(&first);
    return st ? st : add_windows(t, begin);
}

/* The text of a JSON line. */
static tx_status add_line(tx_task *t, const tx_tokenizer *tok, const tx_record *record)
{
    char where[TX_WHERE];
    const char *text;
    size_t n;
    json_t *line;
    TX_TRY(tx__task_line(&line, record, where));
    tx_status st = tx__task_member(line, "text", where, &text, &n);
    if (!st) st = add_document(t, tok, text, n);
    json_decref(line);
    return st;
}

tx_status tx__task_read_text(tx_task *t, const tx_tokenizer *tok)
{
    const tx_corpus_opts opts = { .inputs = &t->opts.file, .n_inputs = 1, .text_split = TX_TEXT_FILE };
    tx_corpus *c = NULL;
    tx_record record;
    bool more;
    tx_status st;
    TX_GOTO(tx_corpus_open(&c, &opts));
    for (;;) {
        TX_GOTO(tx_corpus_next(c, &record, &more));
        if (!more) break;
        TX_GOTO(record.json ? add_line(t, tok, &record) : add_document(t, tok, record.data, record.n));
    }
    if (!t->n_items) st = too_short(t);
out:
    tx_corpus_close(c);
    return st;
}

/* ---- WikiText ---- */

static enum tx_detokenizer_choice detokenizer_of(const tx_task_opts *o)
{
    bool named = o->detokenizer && o->detokenizer != TX_DETOKENIZER_AUTO;
    return named ? o->detokenizer : tx_detokenizer_for(o->file);
}

/* "Original tokens": the parts that blanks divide the text into, as Python's text.strip().split(" ") counts them. */
static int64_t count_words(const char *text, size_t n)
{
    int64_t words = 1;
    tx_strip(&text, &n);
    for (size_t i = 0; i < n; i++) words += text[i] == ' ';
    return words;
}

tx_status tx__task_read_wikitext(tx_task *t, const tx_tokenizer *tok)
{
    enum tx_detokenizer_choice which = detokenizer_of(&t->opts);
    tx_str text = { 0 };
    tx_status st;
    TX_GOTO(tx_file_read(t->opts.file, (size_t)1 << 34, &text));
    t->n_words = count_words(text.len ? text.data : "", text.len);
    TX_GOTO(tx_detokenize(which, &text));
    TX_GOTO(tx_tokenizer_encode(tok, text.len ? text.data : "", text.len, &t->ids));
    t->n_tokens = (int64_t)t->ids.n;
    tx_info(" > number of original tokens: %lld, number of detokenized tokens: %lld (rules: %s)", (long long)t->n_words,
            (long long)t->n_tokens, tx_detokenizer_choice_word(which));
    if (t->n_tokens < 2)
        st = too_short(t);
    else if (t->n_words < 2)
        st = TX_FAIL(TX_ERR_FORMAT, "%s: holds no two words, so tokens have no ratio to words", t->opts.file);
    if (!st) st = add_windows(t, 0);
out:
    tx_str_free(&text);
    return st;
}
