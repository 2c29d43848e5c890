/* answers.c - writes the answers to a client. */
#include "serve/answers.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"

/* ---------------------------------------------------------------- JSON */

static tx_status escaped(tx_str *out, const char *p, size_t n)
{
    TX_TRY(tx_str_append(out, "\"", 1));
    for (size_t i = 0, from = 0; i <= n; i++) {
        unsigned char c = i < n ? (unsigned char)p[i] : 0;
        if (i < n && c >= 0x20 && c != '"' && c != '\\') continue;
        TX_TRY(tx_str_append(out, p + from, i - from));
        from = i + 1;
        if (i == n) break;
        if (c == '"' || c == '\\')
            TX_TRY(tx_str_printf(out, "\\%c", c));
        else if (c == '\n')
            TX_TRY(tx_str_puts(out, "\\n"));
        else
            TX_TRY(tx_str_printf(out, "\\u%04x", c));
    }
    return tx_str_append(out, "\"", 1);
}

tx_status tx__answer_string(tx_str *out, const char *bytes, size_t n)
{
    tx_bytes text = { 0 };
    tx_status st = tx_text_replace_invalid(bytes ? bytes : "", n, &text);
    if (!st) st = escaped(out, text.data ? text.data : "", text.n);
    tx_bytes_free(&text);
    return st;
}

static tx_status number(tx_str *out, double v)
{
    return isfinite(v) ? tx_str_printf(out, "%.9g", v) : tx_str_puts(out, "null");
}

/* Before the i-th of a list. */
static tx_status comma(tx_str *out, size_t i)
{
    return i ? tx_str_append(out, ",", 1) : TX_OK;
}

/* A token by itself. With `exact` one that is no whole characters is "bytes:\xe2\x82", as OpenAI spells it. *n_chars
 * goes up by the characters that begin in it. */
static tx_status token_string(tx_str *out, const tx_tokenizer *tok, int32_t id, bool exact, int64_t *n_chars)
{
    tx_bytes raw = { 0 };
    tx_str spelt = { 0 };
    bool whole = true;
    tx_status st;
    TX_GOTO(tx_tokenizer_decode_next(tok, -1, id, &raw));
    for (size_t i = 0; i < raw.n; i++)
        if (n_chars && ((unsigned char)raw.data[i] & 0xC0) != 0x80) ++*n_chars;
    for (size_t i = 0; i < raw.n && whole;) {
        uint32_t c;
        i += tx__utf8_next((const unsigned char *)raw.data + i, raw.n - i, &c);
        whole = c != TX__NO_CHAR;
    }
    if (whole || !exact) {
        TX_GOTO(tx__answer_string(out, raw.data, raw.n));
    } else {
        TX_GOTO(tx_str_puts(&spelt, "bytes:"));
        for (size_t i = 0; i < raw.n; i++) TX_GOTO(tx_str_printf(&spelt, "\\x%02x", (unsigned char)raw.data[i]));
        TX_GOTO(escaped(out, spelt.data, spelt.len));
    }
out:
    tx_bytes_free(&raw);
    tx_str_free(&spelt);
    return st;
}

tx_status tx__answer_error(tx_str *out, bool is_megatron, unsigned code, const char *message)
{
    if (is_megatron) {
        TX_TRY(tx__answer_string(out, message, strlen(message)));
        return tx_str_puts(out, "\n");
    }
    const char *type = code == 401   ? "authentication_error"
                       : code == 404 ? "not_found_error"
                       : code < 500  ? "invalid_request_error"
                                     : "server_error";
    TX_TRY(tx_str_puts(out, "{\"error\":{\"message\":"));
    TX_TRY(tx__answer_string(out, message, strlen(message)));
    return tx_str_printf(out, ",\"type\":\"%s\",\"param\":null,\"code\":%u}}\n", type, code);
}

/* ---------------------------------------------------------------- Megatron's */

/* The bytes of a prompt and of what follows it. */
static tx_status whole_text(tx_str *out, const tx_tokenizer *tok, const tx_ids *prompt, const char *more, size_t n)
{
    tx_bytes raw = { 0 };
    tx_str all = { 0 };
    tx_status st;
    TX_GOTO(tx_tokenizer_decode(tok, prompt->id, prompt->n, &raw));
    TX_GOTO(tx_str_append(&all, raw.data, raw.n));
    TX_GOTO(tx_str_append(&all, more ? more : "", n));
    TX_GOTO(tx__answer_string(out, all.data, all.len));
out:
    tx_bytes_free(&raw);
    tx_str_free(&all);
    return st;
}

static tx_status segments(tx_str *out, const tx_tokenizer *tok, const tx_ids *prompt, const tx__choice *c,
                          const tx_hypothesis *h)
{
    size_t n = 0;
    TX_TRY(tx_str_puts(out, "["));
    for (size_t i = 0; i < prompt->n; i++) {
        TX_TRY(comma(out, n++));
        TX_TRY(token_string(out, tok, prompt->id[i], false, NULL));
    }
    for (size_t i = 0; c && i < c->n_made; i++) {
        if (c->made[i].of_prompt) continue;
        TX_TRY(comma(out, n++));
        TX_TRY(token_string(out, tok, c->made[i].id, false, NULL));
    }
    for (int64_t i = 0; h && i < h->n; i++) {
        TX_TRY(comma(out, n++));
        TX_TRY(token_string(out, tok, h->token[i], false, NULL));
    }
    return tx_str_puts(out, "]");
}

/* Of every token but the first. */
static tx_status log_probabilities(tx_str *out, const tx__choice *c)
{
    TX_TRY(tx_str_puts(out, "["));
    for (size_t i = 1; i < c->n_made; i++) {
        TX_TRY(comma(out, i - 1));
        TX_TRY(number(out, c->made[i].logprob));
    }
    return tx_str_puts(out, "]");
}

/* The text by which ids go on after token `last`. */
static tx_status continuation(tx_bytes *out, const tx_tokenizer *tok, int32_t last, const int32_t *id, int64_t n)
{
    for (int64_t i = 0; i < n; last = id[i++]) TX_TRY(tx_tokenizer_decode_next(tok, last, id[i], out));
    return TX_OK;
}

static tx_status beams(tx_str *out, const tx__generation *g, const tx_tokenizer *tok)
{
    int n = g->request.beam_width;
    const tx_hypothesis *h = g->hypothesis;
    const tx_ids *prompt = &g->prompt[0];
    TX_TRY(tx_str_puts(out, "{\"text\":["));
    for (int i = 0; i < n; i++) {
        tx_bytes raw = { 0 };
        TX_TRY(comma(out, (size_t)i));
        tx_status st = continuation(&raw, tok, prompt->n ? prompt->id[prompt->n - 1] : -1, h[i].token, h[i].n);
        if (!st) st = whole_text(out, tok, prompt, raw.data, raw.n);
        tx_bytes_free(&raw);
        TX_TRY(st);
    }
    TX_TRY(tx_str_puts(out, "],\"segments\":["));
    for (int i = 0; i < n; i++) {
        TX_TRY(comma(out, (size_t)i));
        TX_TRY(segments(out, tok, prompt, NULL, &h[i]));
    }
    TX_TRY(tx_str_puts(out, "],\"scores\":["));
    for (int i = 0; i < n; i++) {
        TX_TRY(comma(out, (size_t)i));
        TX_TRY(number(out, h[i].score));
    }
    return tx_str_puts(out, "]}\n");
}

tx_status tx__answer_megatron(tx_str *out, const tx__generation *g, const tx_tokenizer *tok)
{
    if (g->hypothesis) return beams(out, g, tok);
    TX_TRY(tx_str_puts(out, "{\"text\":["));
    for (int i = 0; i < g->n_choices; i++) {
        const tx__choice *c = &g->choice[i];
        TX_TRY(comma(out, (size_t)i));
        TX_TRY(whole_text(out, tok, &g->prompt[c->prompt], c->stream.text.data, c->stream.text.len));
    }
    TX_TRY(tx_str_puts(out, "],\"segments\":["));
    for (int i = 0; i < g->n_choices; i++) {
        TX_TRY(comma(out, (size_t)i));
        TX_TRY(segments(out, tok, &g->prompt[g->choice[i].prompt], &g->choice[i], NULL));
    }
    TX_TRY(tx_str_puts(out, "],\"logprobs\":"));
    if (!g->request.logprobs) return tx_str_puts(out, "null}\n");
    TX_TRY(tx_str_puts(out, "["));
    for (int i = 0; i < g->n_choices; i++) {
        TX_TRY(comma(out, (size_t)i));
        TX_TRY(log_probabilities(out, &g->choice[i]));
    }
    return tx_str_puts(out, "]}\n");
}

/* ---------------------------------------------------------------- completions */

/* What a token could have been, with its log-probabilities. */
static tx_status alternatives(tx_str *out, const tx__alternative *row, int k, const tx_tokenizer *tok)
{
    if (row[0].id < 0) return tx_str_puts(out, "null");
    for (int j = 0; j < k && row[j].id >= 0; j++) {
        TX_TRY(tx_str_puts(out, j ? "," : "{"));
        TX_TRY(token_string(out, tok, row[j].id, true, NULL));
        TX_TRY(tx_str_puts(out, ":"));
        TX_TRY(number(out, row[j].logprob));
    }
    return tx_str_puts(out, "}");
}

/* The tokens of a choice that have not been told, in OpenAI's four lists. */
static tx_status logprobs(tx_str *out, tx__choice *c, const tx_tokenizer *tok)
{
    int k = c->generation->request.alternatives;
    size_t first = c->n_told, last = c->n_made;
    tx_str offset = { 0 };
    tx_status st;
    TX_GOTO(tx_str_puts(out, "{\"tokens\":["));
    for (size_t i = first; i < last; i++) {
        TX_GOTO(comma(out, i - first));
        TX_GOTO(tx_str_printf(&offset, "%s%lld", i > first ? "," : "", (long long)c->n_chars));
        TX_GOTO(token_string(out, tok, c->made[i].id, true, &c->n_chars));
    }
    TX_GOTO(tx_str_puts(out, "],\"token_logprobs\":["));
    for (size_t i = first; i < last; i++) {
        TX_GOTO(comma(out, i - first));
        TX_GOTO(number(out, c->made[i].logprob));
    }
    TX_GOTO(tx_str_puts(out, "],\"top_logprobs\":"));
    TX_GOTO(tx_str_puts(out, k ? "[" : "null"));
    for (size_t i = first; k && i < last; i++) {
        TX_GOTO(comma(out, i - first));
        TX_GOTO(alternatives(out, c->alternative + i * (size_t)k, k, tok));
    }
    if (k) TX_GOTO(tx_str_puts(out, "]"));
    TX_GOTO(tx_str_printf(out, ",\"text_offset\":[%s]}", offset.data ? offset.data : ""));
out:
    tx_str_free(&offset);
    return st;
}

static const char *reason(const tx__choice *c)
{
    if (!c->done) return "null";
    return c->seq.finish == TX_FINISH_EOD || c->seq.finish == TX_FINISH_STOP ? "\"stop\"" : "\"length\"";
}

static tx_status head_text(tx_str *out, const tx__answer_head *h)
{
    TX_TRY(tx_str_printf(out, "{\"id\":\"%s\",\"object\":\"text_completion\",\"created\":%lld,\"model\":", h->id,
                         h->created));
    return tx__answer_string(out, h->model, strlen(h->model));
}

static tx_status usage(tx_str *out, const tx__generation *g)
{
    long long in = tx__generation_prompt_tokens(g), made = tx__generation_new_tokens(g);
    return tx_str_printf(out, "\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld}", in,
                         made, in + made);
}

/* What a choice has got since the last time: text, tokens, its end. */
static tx_status news(tx_str *out, tx__choice *c, int index, const tx__answer_head *h)
{
    const tx_text_request *r = &c->generation->request;
    const tx_str *text = &c->stream.text;
    TX_TRY(tx_str_puts(out, "{\"text\":"));
    const char *more = text->data ? text->data + c->n_sent : "";
    size_t n = text->len - c->n_sent;
    if (r->echo && !c->begun)
        TX_TRY(whole_text(out, h->tok, &c->generation->prompt[c->prompt], more, n));
    else
        TX_TRY(tx__answer_string(out, more, n));
    TX_TRY(tx_str_printf(out, ",\"index\":%d,\"logprobs\":", index));
    if (r->logprobs)
        TX_TRY(logprobs(out, c, h->tok));
    else
        TX_TRY(tx_str_puts(out, "null"));
    TX_TRY(tx_str_printf(out, ",\"finish_reason\":%s}", reason(c)));
    c->begun = true;
    c->n_sent = text->len;
    c->n_told = c->n_made;
    c->ended = c->done;
    return TX_OK;
}

tx_status tx__answer_completion(tx_str *out, const tx__generation *g, const tx__answer_head *head)
{
    TX_TRY(head_text(out, head));
    TX_TRY(tx_str_puts(out, ",\"choices\":["));
    for (int i = 0; i < g->n_choices; i++) {
        tx__choice all = g->choice[i];
        TX_TRY(comma(out, (size_t)i));
        TX_TRY(news(out, &all, i, head));
    }
    TX_TRY(tx_str_puts(out, "],"));
    TX_TRY(usage(out, g));
    return tx_str_puts(out, "}\n");
}

static bool has_news(const tx__choice *c)
{
    return !c->ended && (c->done || c->stream.text.len > c->n_sent || c->n_made > c->n_told);
}

tx_status tx__answer_events(tx_str *out, tx__generation *g, const tx__answer_head *head, bool *over)
{
    *over = false;
    for (int i = 0; i < g->n_choices; i++) {
        if (!has_news(&g->choice[i])) continue;
        TX_TRY(tx_str_puts(out, "data: "));
        TX_TRY(head_text(out, head));
        TX_TRY(tx_str_puts(out, ",\"choices\":["));
        TX_TRY(news(out, &g->choice[i], i, head));
        TX_TRY(tx_str_puts(out, "]}\n\n"));
    }
    if (g->end == TX__GOES_ON) return TX_OK;
    *over = true;
    if (g->end != TX__COMPLETE) {
        const char *what = g->end == TX__TIMED_OUT   ? "the request took longer than --request-timeout"
                           : g->end == TX__CANCELLED ? "the server has ended"
                                                     : "the request failed; the server's log says why";
        TX_TRY(tx_str_puts(out, "data: "));
        TX_TRY(tx__answer_error(out, false, g->end == TX__TIMED_OUT ? 504 : 500, what));
        TX_TRY(tx_str_puts(out, "\n"));
    } else if (g->request.stream_usage) {
        TX_TRY(tx_str_puts(out, "data: "));
        TX_TRY(head_text(out, head));
        TX_TRY(tx_str_puts(out, ",\"choices\":[],"));
        TX_TRY(usage(out, g));
        TX_TRY(tx_str_puts(out, "}\n\n"));
    }
    return tx_str_puts(out, "data: [DONE]\n\n");
}
