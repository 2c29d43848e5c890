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

/* One of the likeliest next tokens after a filter. id -1: the filter left fewer tokens. */
typedef struct tx_top_token {
    int32_t id;
    double logprob; /* nats */
} tx_top_token;

/* Names of the filters, in the order in which they apply; NULL past the last. Static. */
TX_API const char *tx_sample_stage_name(int stage);

/* A sample. Its text is valid UTF-8: invalid bytes become U+FFFD. All pointers are borrowed for the duration of the
 * call. */
typedef struct tx_sample {
    int64_t prompt_index, sample_index; /* from 0 */
    const char *prompt;                 /* n_prompt bytes and a NUL */
    size_t n_prompt;
    const int32_t *prompt_ids;
    size_t n_prompt_ids;
    const char *text; /* the continuation, without the prompt: n_text bytes and a NUL */
    size_t n_text;
    const int32_t *ids; /* of the continuation; the token that ended it is not included, but the tokens of a stop
                         * text are */
    size_t n_ids;
    const double *logprob;   /* [n_ids] by the model's unfiltered logits, in nats; NULL: not requested */
    const tx_top_token *top; /* [n_ids][number of filters][n_top], likeliest first; NULL: not requested */
    int n_top;
    const char *finish; /* why it ended: "eod", "stop" or "length". NULL: it is not finished */
    bool is_scored;     /* it comes from beam search, with this score */
    double score;
    const tx_tokenizer *tok;
} tx_sample;

/* Receives the samples. Each member may be NULL. */
typedef struct tx_generate_sink {
    /* text[0..n) is new; `s` is the sample so far. The pieces of a sample arrive in order, followed by one call of
     * `sample`. */
    void (*piece)(void *user, const tx_sample *s, const char *text, size_t n);
    void (*sample)(void *user, const tx_sample *s);
    /* Returns the next prompt if the options name none: text that stays valid until the next call, or NULL at the end.
     * If `ask` is NULL, prompts are read from standard input. */
    const char *(*ask)(void *user);
    void *user;
} tx_generate_sink;

/* How the options say samples are to be printed. */
typedef struct tx_generate_form {
    bool json;   /* one JSON object per line */
    bool tokens; /* ids instead of text */
} tx_generate_form;
TX_API tx_generate_form tx_generate_form_of(const tx_config *cfg);

/* Whether to print each text with its number among those of its prompt, as Hugging Face's examples do. */
TX_API bool tx_generate_numbers(const tx_config *cfg);

/* Continues every prompt of `cfg` (command "generate" or "generate-samples-gpt") --num-samples times, or finds the
 * likeliest continuations by beam search. The sink gets the samples in order. With --genfile and --sample-input-file
 * they go to a file instead. Collective with several ranks: only the first rank reads prompts and calls the sink. */
TX_API tx_status tx_generate(tx_config *cfg, const tx_generate_sink *sink);

/* Writes a sample as one line of JSON, without a line end: prompt (with_text), prompt_index, sample_index, text
 * (with_text), tokens, finish_reason, and logprobs, top_logprobs and score if the sample has them. Freed with
 * tx_text_free. */
TX_API tx_status tx_sample_json(char **out, const tx_sample *s, bool with_text);

#ifdef __cplusplus
}
#endif
#endif
