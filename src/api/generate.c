/* generate.c - the whole of `triax generate`: prompts from the options, samples to the caller. */
#include "triax/generate.h"

#include <string.h>

#include "api/run_common.h"
#include "base/alloc.h"
#include "base/file.h"
#include "infer/generator.h"

#define SAMPLES_AT_ONCE 8
#define PROMPT_FILE_MAX ((size_t)1 << 30)

typedef struct prompts {
    char **text; /* owned */
    tx_ids *ids;
    int64_t n;
} prompts;

static void prompts_free(prompts *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        tx_free(p->text[i]);
        tx_ids_free(&p->ids[i]);
    }
    tx_free(p->text);
    tx_free(p->ids);
    *p = (prompts){ 0 };
}

/* Appends one prompt and its tokens. An empty prompt is one end-of-document token: the model starts a text of its own.
 */
static tx_status add_prompt(prompts *p, const tx_tokenizer *tok, const char *text, size_t n)
{
    TX_TRY(tx_realloc(&p->text, (size_t)p->n + 1, sizeof *p->text, "the prompts"));
    TX_TRY(tx_realloc(&p->ids, (size_t)p->n + 1, sizeof *p->ids, "the prompts"));
    p->ids[p->n] = (tx_ids){ 0 };
    TX_TRY(tx_memdup0(&p->text[p->n], text, n, "a prompt"));
    tx_ids *ids = &p->ids[p->n++];
    TX_TRY(tx_tokenizer_encode(tok, text, n, ids));
    if (ids->n) return TX_OK;
    int32_t eod = tx_tokenizer_eod(tok);
    if (eod < 0)
        return TX_FAIL(TX_ERR_ARG, "prompt %lld is empty, and the vocabulary has no <|endoftext|> to start from",
                       (long long)p->n);
    TX_TRY(tx_realloc(&ids->id, 1, sizeof *ids->id, "a prompt"));
    ids->id[0] = eod;
    ids->n = ids->cap = 1;
    return TX_OK;
}

static tx_status read_prompts(prompts *p, const tx_config *cfg, const tx_tokenizer *tok)
{
    for (int i = 0; i < cfg->prompt.n; i++)
        TX_TRY(add_prompt(p, tok, cfg->prompt.item[i], strlen(cfg->prompt.item[i])));
    if (cfg->prompt_file) {
        tx_str file = { 0 };
        TX_TRY(tx_file_read(cfg->prompt_file, PROMPT_FILE_MAX, &file));
        tx_status st = TX_OK;
        for (size_t at = 0; at < file.len && !st;) {
            const char *end = memchr(file.data + at, '\n', file.len - at);
            size_t n = end ? (size_t)(end - file.data) - at : file.len - at;
            st = add_prompt(p, tok, file.data + at, n && file.data[at + n - 1] == '\r' ? n - 1 : n);
            at += n + 1;
        }
        tx_str_free(&file);
        TX_TRY(st);
    }
    if (p->n == 0) return TX_FAIL(TX_ERR_ARG, "there is no prompt: give --prompt TEXT or --prompt-file FILE");
    return TX_OK;
}

static tx_status emit(const tx_tokenizer *tok, tx_sample *sample, void (*each)(void *, const tx_sample *), void *user)
{
    tx_bytes raw = { 0 }, text = { 0 };
    tx_status st;
    TX_GOTO(tx_tokenizer_decode(tok, sample->ids, sample->n_ids, &raw));
    TX_GOTO(tx_text_replace_invalid(raw.data ? raw.data : "", raw.n, &text));
    sample->text = text.data ? text.data : "";
    each(user, sample);
out:
    tx_bytes_free(&raw);
    tx_bytes_free(&text);
    return st;
}

/* All samples of all prompts, up to SAMPLES_AT_ONCE together. */
static tx_status run(tx_generator *g, const tx_config *cfg, const prompts *p, const tx_tokenizer *tok, int32_t *out,
                     int64_t *n_out, void (*each)(void *, const tx_sample *), void *user)
{
    tx_sampler sampler = {
        .temperature = cfg->temperature, .top_k = cfg->top_k, .top_p = cfg->top_p, .greedy = cfg->greedy
    };
    int64_t n_new = cfg->out_seq_length;
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t k = 0; k < cfg->num_samples; k += g->b) {
            TX_TRY(tx_generator_run(g, p->ids[i].id, (int64_t)p->ids[i].n, n_new, tx_tokenizer_eod(tok), &sampler,
                                    (uint64_t)cfg->seed, (uint64_t)(i * cfg->num_samples + k), out, n_out));
            for (int64_t j = 0; j < g->b && k + j < cfg->num_samples; j++) {
                tx_sample sample = { .prompt_index = i,
                                     .sample_index = k + j,
                                     .prompt = p->text[i],
                                     .ids = out + j * n_new,
                                     .n_ids = (size_t)n_out[j],
                                     .finished = n_out[j] < n_new };
                TX_TRY(emit(tok, &sample, each, user));
            }
        }
    }
    return TX_OK;
}

tx_status tx_generate(tx_config *cfg, void (*each)(void *user, const tx_sample *sample), void *user)
{
    tx_source src = { 0 };
    tx_tokenizer *tok = NULL;
    tx_model *model = NULL;
    tx_generator *g = NULL;
    void *value = NULL;
    prompts p = { 0 };
    int32_t *out = NULL;
    int64_t *n_out = NULL, longest = 0;
    tx_status st;
    TX_GOTO(tx_source_open(&src, cfg->load, &tx_comm_self));
    TX_GOTO(tx_source_options(&src, cfg, false));
    TX_GOTO(tx__tokenizer_for(cfg, cfg->load, &tok));
    if (tx_tokenizer_vocab_size(tok) > src.vocab_size) {
        st = TX_FAIL(TX_ERR_SHAPE, "--load %s: the model has %lld tokens, fewer than the tokenizer's %d", cfg->load,
                     (long long)src.vocab_size, tx_tokenizer_vocab_size(tok));
        goto out;
    }
    TX_GOTO(read_prompts(&p, cfg, tok));
    for (int64_t i = 0; i < p.n; i++)
        if ((int64_t)p.ids[i].n > longest) longest = (int64_t)p.ids[i].n;
    TX_GOTO(tx__model_load(&model, &value, cfg, &src));
    int64_t room = model->max_positions - longest;
    if (!cfg->given.out_seq_length && room > 0 && cfg->out_seq_length > room) cfg->out_seq_length = room;
    int64_t b = cfg->num_samples < SAMPLES_AT_ONCE ? cfg->num_samples : SAMPLES_AT_ONCE;
    TX_GOTO(tx_generator_create(&g, model, cfg->backend, (int)cfg->threads, b, longest, longest + cfg->out_seq_length));
    TX_GOTO(tx_alloc(&out, (size_t)(b * cfg->out_seq_length), sizeof *out, "the samples"));
    TX_GOTO(tx_alloc(&n_out, (size_t)b, sizeof *n_out, "the samples"));
    TX_GOTO(run(g, cfg, &p, tok, out, n_out, each, user));
out:
    tx_generator_destroy(g);
    if (model) model->type->destroy(model);
    tx_free(value);
    tx_free(out);
    tx_free(n_out);
    prompts_free(&p);
    tx_tokenizer_close(tok);
    tx_source_close(&src);
    return st;
}
