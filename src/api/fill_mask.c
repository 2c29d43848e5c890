/* fill_mask.c - the whole of `triax fill-mask`: texts with [MASK], and the words that a BERT would put there. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/inference.h"
#include "api/masked_text.h"
#include "api/prompts.h"
#include "base/alloc.h"
#include "eval/masked.h"
#include "triax/jobs.h"

enum { AT_ONCE = 16 }; /* texts of a micro-batch */

typedef struct job {
    tx_inference f;
    tx_prompts prompts;
    tx_masked_text *text; /* [prompts.n] */
    int32_t *word;        /* [n_words] of --words */
    int64_t n_words;
    int64_t longest; /* ids of a text */
    tx_masked *m;
    tx_line_fn *line;
    void *user;
} job;

/* ---- what is asked ---- */

static tx_status read_words(job *j)
{
    const tx_list *list = &j->f.cfg->words;
    int32_t unknown = tx_tokenizer_special(j->f.tok, "[UNK]");
    tx_ids ids = { 0 };
    tx_status st = tx_alloc(&j->word, (size_t)list->n, sizeof *j->word, "--words");
    for (int i = 0; i < list->n && !st; i++) {
        ids.n = 0;
        st = tx_tokenizer_encode(j->f.tok, list->item[i], strlen(list->item[i]), &ids);
        if (!st && (ids.n != 1 || ids.id[0] == unknown))
            st = TX_FAIL(TX_ERR_ARG, "--words %.60s is no token of the vocabulary by itself: a [MASK] is one token",
                         list->item[i]);
        if (!st) j->word[j->n_words++] = ids.id[0];
    }
    tx_ids_free(&ids);
    return st;
}

static tx_status read_text(job *j, int64_t i)
{
    const tx_prompt *p = &j->prompts.item[i];
    int64_t most = j->f.model->max_positions, n;
    TX_TRY(tx__masked_text_read(&j->text[i], j->f.tok, p->text, p->n_text));
    n = (int64_t)j->text[i].ids.n;
    if (!j->text[i].n_masks)
        return TX_FAIL(TX_ERR_ARG, "there is no [MASK] in it: write [MASK] where a word is to be found");
    if (n > most)
        return TX_FAIL(TX_ERR_ARG, "%lld tokens, the model has %lld positions: shorten it", (long long)n,
                       (long long)most);
    if (n > j->longest) j->longest = n;
    return TX_OK;
}

/* The leader's: everything that can be wrong before the model takes its memory. */
static tx_status prepare(job *j)
{
    const tx_config *cfg = j->f.cfg;
    if (tx_tokenizer_special(j->f.tok, "[MASK]") < 0 || tx_tokenizer_special(j->f.tok, "[CLS]") < 0 ||
        tx_tokenizer_special(j->f.tok, "[SEP]") < 0)
        return TX_FAIL(TX_ERR_ARG, "the tokenizer has no [MASK], [CLS] and [SEP]: fill-mask needs BERT's, --vocab-file "
                                   "vocab.txt with --tokenizer-type " TX_TOKENIZERS_WORDPIECE);
    TX_TRY(tx__prompts_read(&j->prompts, cfg, NULL, 0));
    TX_TRY(tx_alloc(&j->text, (size_t)j->prompts.n, sizeof *j->text, "the prompts"));
    for (int64_t i = 0; i < j->prompts.n; i++) {
        tx_status st = read_text(j, i);
        if (st) {
            tx_fail_prefix(st, "prompt %lld", (long long)i + 1);
            return st;
        }
    }
    return read_words(j);
}

/* The model for as many texts as there are, of the length of the longest. Collective. */
static tx_status start(job *j, tx_status st)
{
    tx_comm *world = tx_grid_group(&j->f.ranks.grid, TX_GROUP_WORLD);
    int64_t size[3] = { j->prompts.n, j->longest, j->n_words };
    TX_TRY(tx_comm_agree(world, st));
    TX_TRY(tx_comm_spread(world, size, sizeof size, 0));
    if (!j->word) TX_TRY(tx_alloc(&j->word, (size_t)size[2], sizeof *j->word, "--words"));
    if (size[2]) TX_TRY(tx_comm_spread(world, j->word, (size_t)size[2] * sizeof *j->word, 0));
    const tx_masked_opts opts = { .s = size[1],
                                  .b = size[0] < AT_ONCE ? size[0] : AT_ONCE,
                                  .n_top = j->f.cfg->top,
                                  .word = j->word,
                                  .n_words = size[2] };
    TX_TRY(tx_comm_agree(world, tx_masked_create(&j->m, j->f.model, j->f.cfg, &j->f.ranks.grid, &opts)));
    return tx_inference_move(&j->f, j->m->ctx.device);
}

/* ---- what is told ---- */

/* A token as text: "him", "##ing". */
static tx_status word_of(const job *j, int32_t id, tx_bytes *out)
{
    out->n = 0;
    if (id < tx_tokenizer_vocab_size(j->f.tok)) return tx_tokenizer_decode(j->f.tok, &id, 1, out);
    return TX_OK; /* padding of the vocabulary */
}

/* The text with the likeliest word in each place. */
static tx_status filled(const job *j, const tx_masked_text *t, int64_t at, tx_bytes *out)
{
    int32_t mask = tx_tokenizer_special(j->f.tok, "[MASK]"), *id;
    size_t n = t->ids.n - 2; /* without [CLS] and the last [SEP] */
    TX_TRY(tx_alloc(&id, n, sizeof *id, "a text"));
    for (size_t i = 0; i < n; i++) {
        id[i] = t->ids.id[i + 1];
        if (id[i] == mask) id[i] = j->m->top[at++ * j->m->opts.n_top].id;
    }
    out->n = 0;
    tx_status st = tx_tokenizer_decode(j->f.tok, id, n, out);
    tx_free(id);
    return st;
}

static tx_status tell_word(const job *j, const char *mark, int32_t id, double logprob)
{
    tx_bytes word = { 0 };
    tx_str text = { 0 };
    tx_status st;
    TX_GOTO(word_of(j, id, &word));
    TX_GOTO(tx_str_printf(&text, "%-4s %10.6f  %s", mark, exp(logprob), word.n ? word.data : ""));
    j->line(j->user, text.data);
out:
    tx_bytes_free(&word);
    tx_str_free(&text);
    return st;
}

/* Whether the second segment is one that follows the first: NaN without such a head or segment. */
static double order_of(const job *j, const tx_masked_text *t, int64_t k)
{
    return j->m->pair && t->n_first < (int64_t)t->ids.n ? exp(j->m->pair[k]) : NAN;
}

static tx_status tell_words(const job *j, int64_t i, int64_t k)
{
    const tx_masked_text *t = &j->text[i];
    const tx_masked *m = j->m;
    int64_t at = m->first[k], n_top = m->opts.n_top;
    tx_bytes whole = { 0 };
    tx_str order = { 0 };
    tx_status st;
    if (i) j->line(j->user, "");
    j->line(j->user, j->prompts.item[i].text);
    for (int64_t row = at; row < m->first[k + 1]; row++) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)(row - at + 1));
        for (int64_t n = 0; n < n_top && m->top[row * n_top + n].id >= 0; n++)
            TX_GOTO(tell_word(j, n ? "" : number, m->top[row * n_top + n].id, m->top[row * n_top + n].logprob));
        for (int64_t w = 0; w < j->n_words; w++) TX_GOTO(tell_word(j, "=", j->word[w], m->word[row * j->n_words + w]));
    }
    if (!isnan(order_of(j, t, k))) {
        TX_GOTO(tx_str_printf(&order, "segments in this order: %.6f", order_of(j, t, k)));
        j->line(j->user, order.data);
    }
    TX_GOTO(filled(j, t, at, &whole));
    j->line(j->user, whole.data);
out:
    tx_bytes_free(&whole);
    tx_str_free(&order);
    return st;
}

/* {"word":"him","id":84,"probability":0.31,"logprob":-1.17}; NULL: out of memory */
static json_t *json_word(const job *j, int32_t id, double logprob)
{
    tx_bytes word = { 0 };
    if (word_of(j, id, &word)) return NULL;
    json_t *o = json_pack("{s:s#, s:i, s:o, s:o}", "word", word.n ? word.data : "", (int)word.n, "id", (int)id,
                          "probability", isnan(logprob) ? json_null() : json_real(exp(logprob)), "logprob",
                          isfinite(logprob) ? json_real(logprob) : json_null());
    tx_bytes_free(&word);
    return o;
}

/* {"top":[...],"words":[...]} of one mask. */
static json_t *json_mask(const job *j, int64_t row)
{
    const tx_masked *m = j->m;
    json_t *o = json_object(), *top = json_array(), *words = json_array();
    for (int64_t n = 0; n < m->opts.n_top && m->top[row * m->opts.n_top + n].id >= 0; n++) {
        const tx_guess *g = &m->top[row * m->opts.n_top + n];
        json_array_append_new(top, json_word(j, g->id, g->logprob));
    }
    for (int64_t w = 0; w < j->n_words; w++)
        json_array_append_new(words, json_word(j, j->word[w], m->word[row * j->n_words + w]));
    json_object_set_new(o, "top", top);
    if (j->n_words)
        json_object_set_new(o, "words", words);
    else
        json_decref(words);
    return o;
}

static tx_status tell_json(const job *j, int64_t i, int64_t k)
{
    const tx_prompt *p = &j->prompts.item[i];
    double order = order_of(j, &j->text[i], k);
    tx_bytes whole = { 0 };
    TX_TRY(filled(j, &j->text[i], j->m->first[k], &whole));
    json_t *masks = json_array();
    for (int64_t row = j->m->first[k]; row < j->m->first[k + 1]; row++) json_array_append_new(masks, json_mask(j, row));
    json_t *o = json_pack("{s:s#, s:I, s:o, s:s#}", "prompt", p->text, (int)p->n_text, "prompt_index", (json_int_t)i,
                          "masks", masks, "text", whole.data, (int)whole.n);
    if (!isnan(order)) json_object_set_new(o, "in_order", json_real(order));
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (text) j->line(j->user, text);
    free(text);
    json_decref(o);
    tx_bytes_free(&whole);
    return text ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for an answer");
}

/* ---- the work ---- */

static tx_status run(job *j)
{
    tx_masked *m = j->m;
    int32_t mask = tx_tokenizer_special(j->f.tok, "[MASK]");
    for (int64_t done = 0, n;; done += n) {
        for (n = 0; n < m->room && done + n < j->prompts.n; n++)
            tx__masked_text_put(&j->text[done + n], mask, tx_masked_row(m, n), m->opts.s);
        TX_TRY(tx_masked_share(m, &n));
        if (!n) return TX_OK;
        TX_TRY(tx_masked_run(m, n));
        for (int64_t k = 0; j->f.leads && k < n; k++)
            TX_TRY(j->f.cfg->samples_json ? tell_json(j, done + k, k) : tell_words(j, done + k, k));
    }
}

tx_status tx_fill_mask(tx_config *cfg, tx_line_fn *line, void *user)
{
    job j = { .line = line, .user = user };
    tx_status st;
    TX_GOTO(tx_inference_open(&j.f, cfg, TX_USE_FILLS));
    TX_GOTO(start(&j, j.f.leads ? prepare(&j) : TX_OK));
    st = run(&j);
out:
    tx_inference_give(&j.f);
    tx_masked_destroy(j.m);
    for (int64_t i = 0; j.text && i < j.prompts.n; i++) tx__masked_text_free(&j.text[i]);
    tx_free(j.text);
    tx_free(j.word);
    tx__prompts_free(&j.prompts);
    return tx_inference_close(&j.f, st);
}
