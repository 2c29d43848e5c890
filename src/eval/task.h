/* task.h - evaluation tasks: a file is read as spans of tokens, some of which are to be predicted, and their
 * log-probabilities are summed up.
 *
 *      text, WIKITEXT103    windows of seq_length targets; each begins `overlap` tokens after the one before, and only
 *                           what that one has not counted counts: every token after a document's first one, once
 *                               |c c c c c c|            c counts
 *                                   |. . . . c c|        . is context
 *                                       |. . . . c c|
 *                           For a masked language model (`masked`): windows of seq_length one after the other;
 *                           each token is predicted from all others of its window
 *      LAMBADA              a text's last token, or, strict, all tokens of its last word; the context is the text
 *                           before it
 *      multiple-choice      each of the choices after the context
 *
 *  WIKITEXT103 and LAMBADA follow Megatron-LM's tasks/zeroshot_gpt, multiple choice follows lm-evaluation-harness
 *  (EleutherAI; `acc` and `acc_norm`). All tokens of the file are kept in memory. */
#ifndef TX_EVAL_TASK_H
#define TX_EVAL_TASK_H

#include <jansson.h>

#include "base/step_record.h"
#include "config/config.h"
#include "data/corpus.h"
#include "eval/score.h"
#include "triax/token.h"

typedef struct tx_task_opts {
    enum tx_task_kind kind; /* kinds/tasks.h */
    const char *file;
    int64_t seq_length; /* tokens that the model sees at once */
    int64_t overlap;    /* of windows: 1 to seq_length. 0: 32, or seq_length where that is less */
    bool masked;        /* text: for a masked language model; seq_length is without [CLS] and [SEP] */
    bool strict;        /* LAMBADA: the whole last word */
    enum tx_detokenizer_choice detokenizer; /* WIKITEXT103: the rules; unset, auto: as the file's path says */
} tx_task_opts;

/* Tokens ids[begin, end), of which [first, end) are predicted. */
typedef struct tx_task_span {
    int64_t begin, first, end;
    int64_t n_chars; /* of a choice, as the file has it */
} tx_task_span;

/* What counts as one: a window, a text, or a question with its choices. */
typedef struct tx_task_item {
    int64_t span; /* number of its first span */
    int n_spans;
    int answer;
    int64_t document; /* from 0 */
    bool begins;      /* it is the first of its document: the token at its `begin` is never a target */
} tx_task_item;

typedef struct tx_task {
    tx_task_opts opts;
    tx_ids ids;
    tx_task_span *span;
    int64_t n_spans, cap_spans;
    tx_task_item *item;
    int64_t n_items, cap_items;
    int64_t n_documents, n_bytes; /* bytes: of the targets' text; text only */
    int64_t n_words, n_tokens;    /* WIKITEXT103: "original" tokens, what stands between blanks, and tokenizer tokens */
    int64_t n_cut;                /* items that are longer than seq_length, so that their beginning was left out */
    tx_token_score *score;        /* [most targets of a span] */
} tx_task;

/* Reads the file. Errors name the file, and the line where there are lines. TX_ERR_ARG: overlap is more than
 * seq_length. */
tx_status tx_task_open(tx_task *t, const tx_task_opts *opts, const tx_tokenizer *tok);
void tx_task_close(tx_task *t); /* a zeroed one is fine */

/* The function that is called with each token of a text, in order. */
typedef struct tx_task_listener {
    /* score NULL: the first of a document, which is not predicted. NULL: none is called */
    tx_status (*token)(void *user, int64_t document, int32_t id, const tx_token_score *score);
    void *user;
} tx_task_listener;

/* Counts, which add up over parts of a task. */
typedef struct tx_task_sums {
    double n_items, n_correct, n_correct_norm;
    double n_targets, nats; /* of choices: the right ones' */
} tx_task_sums;

/* Scores items part, part + n_parts, ...; called by the decoder's leader. A slot has seq_length tokens.
 * @each NULL allowed; with several parts it is called for the tokens of this one */
tx_status tx_task_run(tx_task *t, tx_decoder *d, int64_t part, int64_t n_parts, tx_task_sums *out,
                      const tx_task_listener *each);

/* The same of a text for a masked language model: each token is masked in turn, so there are as many samples as
 * tokens. All ranks of the model call; `m` has samples of seq_length + 2 tokens. The leader gets the
 * result and the calls of `each`; the others pass NULL for t. */
struct tx_masked;
tx_status tx_task_run_masked(tx_task *t, struct tx_masked *m, const tx_tokenizer *tok, tx_task_sums *out,
                             const tx_task_listener *each);

/* ---- results ---- */

enum { TX_MAX_TASK_NUMBERS = 8 };

typedef struct tx_task_result {
    double loss;                                 /* mean nats of a target */
    double ppl;                                  /* e^loss, and as upstream's e^20 at most */
    tx_named_number number[TX_MAX_TASK_NUMBERS]; /* "accuracy", ... */
    int n;
} tx_task_result;

tx_task_result tx_task_result_of(const tx_task *t, const tx_task_sums *s);

/* " validation results on ...", in upstream's words where it has such a task. */
tx_status tx_task_result_line(tx_str *out, const tx_task *t, const tx_task_result *r);

/* {"task":"LAMBADA","file":"...","loss":...}: one line of JSON, without its end. */
tx_status tx_task_result_json(tx_str *out, const tx_task *t, const tx_task_result *r);

/* ---- inside the room ---- */

/* A kind of task: a row of the table in task.c. */
typedef struct tx__task_type {
    bool choices; /* an item's spans are choices, of which the likeliest is the answer; else it has one span */
    tx_status (*read)(tx_task *t, const tx_tokenizer *tok);                      /* the file: items and spans */
    void (*figures)(tx_task_result *r, const tx_task *t, const tx_task_sums *s); /* beside loss and targets */
    tx_status (*words)(tx_str *out, const tx_task *t, const tx_task_result *r);  /* upstream's, after the task's name */
} tx__task_type;

const tx__task_type *tx__task_type_of(const tx_task *t);

/* Adds a span, whose tokens the caller has added to t->ids. Drops its beginning if it has more than seq_length tokens
 * of input. TX_ERR_FORMAT, beginning with `where`: there is nothing to predict, nothing before it, or more than
 * seq_length tokens to predict. */
tx_status tx__task_add_span(tx_task *t, tx_task_span s, const char *where);
tx_status tx__task_add_item(tx_task *t, tx_task_item item);

/* task_lines.c: the JSON object of a record, with its place in @where [TX_WHERE] for messages; and its member `name`,
 * a string. */
enum { TX_WHERE = 320 };
tx_status tx__task_line(json_t **out, const tx_record *record, char *where);
tx_status tx__task_member(const json_t *line, const char *name, const char *where, const char **text, size_t *n);

tx_status tx__task_read_text(tx_task *t, const tx_tokenizer *tok); /* task_text.c */
tx_status tx__task_read_wikitext(tx_task *t, const tx_tokenizer *tok);
tx_status tx__task_read_lambada(tx_task *t, const tx_tokenizer *tok); /* task_lines.c */
tx_status tx__task_read_choices(tx_task *t, const tx_tokenizer *tok);

/* task_result.c */
void tx__task_text_figures(tx_task_result *r, const tx_task *t, const tx_task_sums *s);
void tx__task_wikitext_figures(tx_task_result *r, const tx_task *t, const tx_task_sums *s);
void tx__task_lambada_figures(tx_task_result *r, const tx_task *t, const tx_task_sums *s);
void tx__task_choice_figures(tx_task_result *r, const tx_task *t, const tx_task_sums *s);
tx_status tx__task_text_words(tx_str *out, const tx_task *t, const tx_task_result *r);
tx_status tx__task_wikitext_words(tx_str *out, const tx_task *t, const tx_task_result *r);
tx_status tx__task_lambada_words(tx_str *out, const tx_task *t, const tx_task_result *r);
tx_status tx__task_choice_words(tx_str *out, const tx_task *t, const tx_task_result *r);

#endif
