/* conversation.c - from a line to ids. */
#include "data/conversation.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

tx_status tx_conversations_open(tx_conversations *c, const tx_config *cfg, const tx_tokenizer *tok)
{
    *c = (tx_conversations){ .cfg = cfg, .tok = tok };
    if (tx_tokenizer_eod(tok) >= 0) return TX_OK;
    return TX_FAIL(TX_ERR_ARG,
                   "--finetune-data: the tokenizer has no end-of-document token, such as <|endoftext|>, to end "
                   "answers with");
}

void tx_conversations_close(tx_conversations *c)
{
    if (c->has_chat) tx_chat_template_close(&c->chat);
    tx_marked_free(&c->text);
    tx_ids_free(&c->ids);
    tx_ids_free(&c->prompt);
    tx_bytes_free(&c->bytes);
    *c = (tx_conversations){ .cfg = NULL };
}

/* ---------------------------------------------------------------- ids with their marks */

static tx_status put_id(tx_ids *out, int32_t id, bool answer)
{
    if (out->n == out->cap) {
        size_t cap = 2 * out->cap + 64;
        TX_TRY(tx_realloc(&out->id, cap, sizeof *out->id, "token ids"));
        out->cap = cap;
    }
    out->id[out->n++] = 2 * id + answer;
    return TX_OK;
}

/* The ids of a text alone, without what is added to every text. */
static tx_status encode_bare(const tx_tokenizer *tok, const char *text, size_t n, tx_ids *ids)
{
    size_t before, after;
    ids->n = 0;
    if (!n) return TX_OK;
    TX_TRY(tx_tokenizer_encode(tok, text, n, ids));
    tx_tokenizer_ends(tok, &before, &after);
    ids->n -= before + after;
    memmove(ids->id, ids->id + before, ids->n * sizeof *ids->id);
    return TX_OK;
}

static bool has_answer(const char *mark, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (mark[i] & TX_MARK_ANSWER) return true;
    return false;
}

/* By how many bytes token number i makes the text longer: with SentencePiece's blanks that depends on whether a token
 * is before it. */
static tx_status token_length(tx_conversations *c, size_t i, size_t *n)
{
    const int32_t *id = c->ids.id + i;
    c->bytes.n = 0;
    TX_TRY(i ? tx_tokenizer_decode_next(c->tok, id[-1], *id, &c->bytes)
             : tx_tokenizer_decode(c->tok, id, 1, &c->bytes));
    *n = c->bytes.n;
    return TX_OK;
}

/* Whether the tokens are the text byte by byte: a tokenizer may change it first, as to a normal form. */
static tx_status is_the_text(tx_conversations *c, const char *text, size_t n, bool *same)
{
    size_t sum = 0, len;
    c->bytes.n = 0;
    TX_TRY(tx_tokenizer_decode(c->tok, c->ids.id, c->ids.n, &c->bytes));
    *same = c->bytes.n == n && !memcmp(c->bytes.data, text, n);
    for (size_t i = 0; *same && i < c->ids.n; i++) {
        TX_TRY(token_length(c, i, &len));
        sum += len;
    }
    *same &= sum == n;
    return TX_OK;
}

/* A stretch without an end-of-document token. Where tokens are not its bytes it is cut where answers begin and end. */
static tx_status put_stretch(tx_conversations *c, const char *text, const char *mark, size_t n, tx_ids *out)
{
    bool same;
    size_t at = 0;
    TX_TRY(encode_bare(c->tok, text, n, &c->ids));
    TX_TRY(is_the_text(c, text, n, &same));
    if (!same) {
        while (at < n && mark[at] == mark[0]) at++;
        if (at < n) {
            TX_TRY(put_stretch(c, text, mark, at, out));
            return put_stretch(c, text + at, mark + at, n - at, out);
        }
    }
    for (size_t i = 0; i < c->ids.n; i++) {
        size_t len = 0;
        if (same) TX_TRY(token_length(c, i, &len));
        TX_TRY(put_id(out, c->ids.id[i], same ? has_answer(mark + at, len) : mark[0] & TX_MARK_ANSWER));
        at += len;
    }
    return TX_OK;
}

/* ---------------------------------------------------------------- messages */

/* A model that has learnt it may go on after it. */
static void warn_of_end(const tx_conversations *c)
{
    const char *end = c->chat.is.assistant.end;
    if (!end || !*end || strstr(end, TX_CHAT_EOS) || tx_tokenizer_special(c->tok, end) >= 0) return;
    tx_warn_once(
        "chat template %s: the tokenizer has no token \"%s\", so what ends an answer is spelled; let generation "
        "stop at that text (--stop)",
        c->chat.name, end);
}

/* The messages as marked text into c->text. */
static tx_status render(tx_conversations *c, const json_t *messages, size_t n_prompt)
{
    c->text.text.len = c->text.mark.len = 0;
    if (!c->has_chat) {
        TX_TRY(tx_chat_template_open(&c->chat, c->cfg));
        c->has_chat = true;
        warn_of_end(c);
    }
    return tx_chat_render(&c->chat, messages, n_prompt, &c->text);
}

/* The first n bytes of c->text. */
static tx_status encode_text(tx_conversations *c, size_t n, tx_ids *out)
{
    const char *text = c->text.text.data, *mark = c->text.mark.data;
    for (size_t at = 0, end; at < n; at = end + 1) {
        for (end = at; end < n && !(mark[end] & TX_MARK_EOD);) end++;
        TX_TRY(put_stretch(c, text + at, mark + at, end - at, out));
        if (end < n) TX_TRY(put_id(out, tx_tokenizer_eod(c->tok), mark[end] & TX_MARK_ANSWER));
    }
    return TX_OK;
}

static tx_status encode_messages(tx_conversations *c, const json_t *messages, tx_ids *out)
{
    TX_TRY(render(c, messages, 0));
    return encode_text(c, c->text.text.len, out);
}

/* The completion begins where the tokens of all and those of the prompt alone part. */
static tx_status encode_reply(tx_conversations *c, const json_t *messages, size_t n_prompt, tx_ids *out)
{
    size_t begin = out->n, n = 0, same = 0;
    TX_TRY(render(c, messages, n_prompt));
    while (!(c->text.mark.data[n] & TX_MARK_ANSWER)) n++;
    TX_TRY(encode_text(c, c->text.text.len, out));
    c->prompt.n = 0;
    TX_TRY(encode_text(c, n, &c->prompt));
    while (same < c->prompt.n && begin + same < out->n && c->prompt.id[same] / 2 == out->id[begin + same] / 2) same++;
    for (size_t i = begin + same; i < out->n; i++) out->id[i] |= 1;
    return TX_OK;
}

/* ---------------------------------------------------------------- prompt and completion */

/* What the tokenizer adds before every text. */
static tx_status put_before(tx_conversations *c, tx_ids *out)
{
    size_t before, after;
    tx_tokenizer_ends(c->tok, &before, &after);
    if (!before) return TX_OK;
    c->ids.n = 0;
    TX_TRY(tx_tokenizer_encode(c->tok, "", 0, &c->ids));
    for (size_t i = 0; i < before; i++) TX_TRY(put_id(out, c->ids.id[i], false));
    return TX_OK;
}

/* The completion without the spelling of the token that ends it, which is added in any case. */
static tx_status cut_end(tx_conversations *c, const char *text, size_t *n)
{
    int32_t eod = tx_tokenizer_eod(c->tok);
    c->bytes.n = 0;
    TX_TRY(tx_tokenizer_decode(c->tok, &eod, 1, &c->bytes));
    if (c->bytes.n && *n >= c->bytes.n && !memcmp(text + *n - c->bytes.n, c->bytes.data, c->bytes.n)) *n -= c->bytes.n;
    return TX_OK;
}

/* The completion begins where the tokens of both and those of the prompt alone part. */
static tx_status encode_completion(tx_conversations *c, const json_t *prompt, const json_t *completion, tx_ids *out)
{
    const char *answer = json_string_value(completion);
    size_t n = json_string_length(completion), n_prompt = json_string_length(prompt), same = 0;
    tx_str *both = &c->text.text;
    both->len = 0;
    TX_TRY(cut_end(c, answer, &n));
    if (!n) return TX_FAIL(TX_ERR_FORMAT, "the completion is empty: there is nothing to learn from it");
    TX_TRY(tx_str_append(both, json_string_value(prompt), n_prompt));
    TX_TRY(tx_str_append(both, answer, n));
    TX_TRY(put_before(c, out));
    TX_TRY(encode_bare(c->tok, both->data, n_prompt, &c->prompt));
    TX_TRY(encode_bare(c->tok, both->data, both->len, &c->ids));
    while (same < c->prompt.n && same < c->ids.n && c->prompt.id[same] == c->ids.id[same]) same++;
    for (size_t i = 0; i < c->ids.n; i++) TX_TRY(put_id(out, c->ids.id[i], i >= same));
    return put_id(out, tx_tokenizer_eod(c->tok), true);
}

/* Both as messages. */
static tx_status encode_messages_of_both(tx_conversations *c, const json_t *prompt, const json_t *completion,
                                         tx_ids *out)
{
    if (!json_array_size(prompt) || !json_array_size(completion))
        return TX_FAIL(TX_ERR_FORMAT, "the %s has no message", json_array_size(prompt) ? "completion" : "prompt");
    json_t *all = json_copy((json_t *)prompt);
    tx_status st = all && !json_array_extend(all, (json_t *)completion)
                       ? encode_reply(c, all, json_array_size(prompt), out)
                       : TX_FAIL(TX_ERR_NOMEM, "not enough memory for a conversation");
    json_decref(all);
    return st;
}

/* ---------------------------------------------------------------- a line */

static tx_status encode_object(tx_conversations *c, const json_t *line, tx_ids *out)
{
    const json_t *messages = json_object_get(line, "messages");
    const json_t *prompt = json_object_get(line, "prompt"), *completion = json_object_get(line, "completion");
    if (messages && (prompt || completion))
        return TX_FAIL(TX_ERR_FORMAT, "has \"messages\" and a \"prompt\" or \"completion\": give one of the two forms");
    if (messages) return encode_messages(c, messages, out);
    if (!prompt || !completion)
        return TX_FAIL(TX_ERR_FORMAT, "has neither \"messages\" nor \"prompt\" and \"completion\"");
    if (json_is_array(prompt) && json_is_array(completion)) return encode_messages_of_both(c, prompt, completion, out);
    if (!json_is_string(prompt) || !json_is_string(completion))
        return TX_FAIL(TX_ERR_FORMAT, "\"prompt\" and \"completion\" are not two texts, nor two arrays of messages");
    return encode_completion(c, prompt, completion, out);
}

tx_status tx_conversation_encode(tx_conversations *c, const tx_record *line, tx_ids *out)
{
    json_t *object = NULL;
    size_t before = out->n;
    TX_TRY(tx_record_object(line, &object));
    tx_status st = encode_object(c, object, out);
    json_decref(object);
    if (!st && c->cfg->loss_on_all_tokens)
        for (size_t i = before; i < out->n; i++) out->id[i] |= 1;
    return st == TX_ERR_FORMAT ? tx_fail_prefix(st, "%s: line %lld", line->file, (long long)line->line) : st;
}
