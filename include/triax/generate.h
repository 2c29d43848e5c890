/* generate.h - text from a checkpoint.
 *
 *      static void print(void *user, const tx_sample *s) { puts(s->text); }
 *      ...
 *      tx_config *cfg = NULL;
 *      tx_config_parse_string(&cfg, "generate", "--load model --prompt Hello --greedy")
 *      tx_generate(cfg, &(tx_generate_sink){ .sample = print })                              */
#ifndef TRIAX_GENERATE_H
#define TRIAX_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "triax/config.h"
#include "triax/token.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One of the likeliest next tokens after a filter; id -1: the filter has left fewer. */
typedef struct tx_top_token {
    int32_t id;
    double logprob; /* nats */
} tx_top_token;

/* The filters, in their order; NULL past the last. Static. */
TX_API const char *tx_sample_stage_name(int stage);

/* A sample. Text is valid UTF-8: bytes that are not are shown as U+FFFD. All borrowed for the call. */
typedef struct tx_sample {
    int64_t prompt_index, sample_index; /* from 0 */
    const char *prompt;                 /* n_prompt bytes and a NUL */
    size_t n_prompt;
    const int32_t *prompt_ids;
    size_t n_prompt_ids;
    const char *text; /* the continuation, without the prompt: n_text bytes and a NUL */
    size_t n_text;
    const int32_t *ids; /* of the continuation; a token that ended it is not among them, but those of a stop text are */
    size_t n_ids;
    const double *logprob;   /* [n_ids] by the model's own logits, nats; NULL: not asked for */
    const tx_top_token *top; /* [n_ids][number of filters][n_top], likeliest first; NULL: not asked for */
    int n_top;
    const char *finish; /* why it ended: "eod", "stop" or "length". NULL: it is being made */
    bool is_scored;     /* by beam search, with this score */
    double score;
    const tx_tokenizer *tok;
} tx_sample;

/* Where samples go. Each member may be NULL. */
typedef struct tx_generate_sink {
    /* text[0..n) has come; `s` is the sample so far. Pieces of one sample follow each other, and `sample` is the last
     * of it. */
    void (*piece)(void *user, const tx_sample *s, const char *text, size_t n);
    void (*sample)(void *user, const tx_sample *s);
    /* The next prompt, where the options name none: text that stays until the next call, or NULL for the end. Without
     * this function standard input is read. */
    const char *(*ask)(void *user);
    void *user;
} tx_generate_sink;

/* How the options want samples to be printed. */
typedef struct tx_generate_form {
    bool json;   /* an object a line */
    bool tokens; /* ids instead of text */
} tx_generate_form;
TX_API tx_generate_form tx_generate_form_of(const tx_config *cfg);

/* Whether texts begin with their number among those of their prompt, as Hugging Face's examples show them. */
TX_API bool tx_generate_numbers(const tx_config *cfg);

/* Continues every prompt of `cfg` (command "generate" or "generate-samples-gpt") --num-samples times, or finds the
 * likeliest continuations by beam search; the sink is told in order. --genfile and --sample-input-file: into a file
 * instead. With several ranks: collective, only the first reads prompts and calls the sink. */
TX_API tx_status tx_generate(tx_config *cfg, const tx_generate_sink *sink);

/* One line of JSON, without its end: prompt (with_text), prompt_index, sample_index, text (with_text), tokens,
 * finish_reason, and logprobs, top_logprobs and score where there are such. Freed with tx_text_free. */
TX_API tx_status tx_sample_json(char **out, const tx_sample *s, bool with_text);

#ifdef __cplusplus
}
#endif
#endif
