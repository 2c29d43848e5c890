/* generate.c - the whole of `triax generate`: which prompts, how many tokens, and where the samples go.
 *
 *      options                    prompts                       samples go to
 *      --prompt ... or stdin      those                         the sink
 *      nothing, and sink->ask     one after the other           the sink
 *      --sample-input-file        the lines of the file         --sample-output-file   } generate_files.c
 *      --genfile                  end of document, once         --genfile              }                    */
#include "triax/generate.h"

#include <string.h>

#include "api/generate_files.h"
#include "api/sampling.h"
#include "base/alloc.h"
#include "base/log.h"

typedef struct job {
    tx_inference f;
    tx_sampling sampling;
    tx_prompts prompts;
    const tx_generate_sink *sink;
    bool asks;
    tx_samples_file file;
} job;

const char *tx_sample_stage_name(int stage)
{
    return stage >= 0 && stage < TX_N_STAGES ? tx_sample_stage_names[stage] : NULL;
}

tx_generate_form tx_generate_form_of(const tx_config *cfg)
{
    return (tx_generate_form){ .json = cfg->samples_json, .tokens = cfg->output_tokens };
}

bool tx_generate_numbers(const tx_config *cfg)
{
    return cfg->num_return_sequences > 1;
}

/* The number of the longest. */
static int64_t longest(const tx_prompts *p)
{
    int64_t best = 0;
    for (int64_t i = 1; i < p->n; i++)
        if (p->item[i].ids.n > p->item[best].ids.n) best = i;
    return best;
}

/* As many positions as prompt and new tokens may have. Of a length that the user did not ask for as many tokens are
 * made as there is room for. */
static tx_status find_length(job *j)
{
    int64_t number = longest(&j->prompts), n_prompt = (int64_t)j->prompts.item[number].ids.n;
    tx_sampling *s = &j->sampling;
    int64_t room = j->f.model->max_positions;
    if (j->file.kind) /* upstream's: a sequence of the training's length, less one */
        room = (j->f.cfg->seq_length && j->f.cfg->seq_length < room ? j->f.cfg->seq_length : room) - 1;
    if (n_prompt >= room)
        return TX_FAIL(TX_ERR_ARG, "prompt %lld has %lld tokens, the model has %lld positions: shorten it",
                       (long long)number + 1, (long long)n_prompt, (long long)j->f.model->max_positions);
    bool cut = j->file.kind || !j->f.cfg->given.out_seq_length;
    s->max_len = n_prompt + s->max_new;
    if (cut && s->max_len > room) s->max_len = room;
    return TX_OK;
}

/* The leader's: everything that can be wrong before the decoder takes its memory. */
static tx_status prepare(job *j)
{
    const tx_config *cfg = j->f.cfg;
    tx_sampling *s = &j->sampling;
    TX_TRY(tx__sampling_init(s, cfg, j->f.tok, j->f.src.vocab_size));
    if (2 * cfg->beam_width > j->f.src.vocab_size)
        return TX_FAIL(TX_ERR_ARG, "--beam-width %lld: at most half of the %lld tokens of the vocabulary",
                       (long long)cfg->beam_width, (long long)j->f.src.vocab_size);
    if (!s->n_samples) s->n_samples = 1; /* upstream's 0: none for --genfile */
    if (j->asks) {
        s->max_len = j->f.model->max_positions;
        return TX_OK;
    }
    TX_TRY(tx__samples_file_prompts(&j->file, &j->prompts, s, j->f.model->max_positions));
    if (!j->file.kind) TX_TRY(tx__prompts_read(&j->prompts, cfg, j->f.tok, j->f.src.vocab_size));
    return find_length(j);
}

/* Prompts of somebody who waits for the answer. One that is too long is told, and the next asked for. */
static tx_status answer(job *j)
{
    tx_sampling *s = &j->sampling;
    for (const char *text; (text = j->sink->ask(j->sink->user));) {
        TX_TRY(tx__prompts_add(&j->prompts, j->f.tok, text, strlen(text)));
        int64_t n = (int64_t)j->prompts.item[0].ids.n;
        if (n < s->max_len) {
            TX_TRY(tx__samples_run(s, j->f.decoder, &j->prompts, j->sink));
            s->first_sample += (uint64_t)s->n_samples;
        } else {
            tx_warn("the prompt has %lld tokens, the model has %lld positions: shorten it", (long long)n,
                    (long long)s->max_len);
        }
        tx__prompts_free(&j->prompts);
    }
    return TX_OK;
}

static tx_status work(job *j)
{
    if (j->asks) return answer(j);
    if (j->file.kind) return tx__samples_file_write(&j->file, &j->sampling, j->f.decoder, &j->prompts);
    return tx__samples_run(&j->sampling, j->f.decoder, &j->prompts, j->sink);
}

tx_status tx_generate(tx_config *cfg, const tx_generate_sink *sink)
{
    job j = { .sink = sink, .file = tx__samples_file_of(cfg) };
    j.asks = sink->ask && !j.file.kind && !tx__prompts_named(cfg);
    if (cfg->genfile && !j.file.kind) tx_info("--genfile %s is not written: --num-samples is 0", cfg->genfile);
    tx_status st = tx_inference_open(&j.f, cfg, TX_USE_CONTINUES);
    if (!st) {
        tx_status ready = j.f.leads ? prepare(&j) : TX_OK;
        int64_t slots = ready || !j.f.leads ? 1 : tx__sampling_slots(&j.sampling, j.asks ? 1 : j.prompts.n);
        st = tx_inference_start(&j.f, ready, slots, j.sampling.max_len);
    }
    if (!st && j.f.leads) st = work(&j);
    tx__prompts_free(&j.prompts);
    tx__sampling_deinit(&j.sampling);
    return tx_inference_close(&j.f, st);
}
