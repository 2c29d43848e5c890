/* task.h - what a model is measured by: a file read as stretches of tokens of which some are to be predicted, and what
 * is counted of their log-probabilities.
 *
 *      text, WIKITEXT103    windows of seq_length targets; each begins `overlap` tokens after the one before, and only
 *                           what that one has not counted counts: every token behind a document's first one, once
 *                               |c c c c c c|            c counts
 *                                   |. . . . c c|        . is context
 *                                       |. . . . c c|
 *                           and for a model that sees both sides (`masked`), windows of seq_length one behind the
 * other, each token of which is predicted from all others of its window LAMBADA              a text's last token, or,
 * strict, all tokens of its last word; before it, the text multiple-choice      each of the choices behind the context
 *
 *  WIKITEXT103 and LAMBADA do as Megatron-LM's tasks/zeroshot_gpt do, multiple choice as lm-evaluation-harness does
 *  (EleutherAI; `acc` and `acc_norm`). All tokens of the file are in memory. */
#ifndef TX_EVAL_TASK_H
#define TX_EVAL_TASK_H

#include <jansson.h>

#include "base/step_record.h"
#include "data/corpus.h"
#include "eval/score.h"
#include "triax/token.h"

typedef enum tx_task_kind {
    TX_TASK_TEXT,
    TX_TASK_WIKITEXT103,
    TX_TASK_LAMBADA,
    TX_TASK_CHOICE,
    TX_N_TASK_KINDS
} tx_task_kind;
extern const char *const tx_task_names[TX_N_TASK_KINDS]; /* as --task takes them */

typedef struct tx_task_opts {
    tx_task_kind kind;
    const char *file;
    int64_t seq_length;      /* tokens that the model sees at once */
    int64_t overlap;         /* of windows: 1 to seq_length. 0: 32, or seq_length where that is less */
    bool masked;             /* text: the model sees both sides; seq_length is without [CLS] and [SEP] */
    bool strict;             /* LAMBADA: the whole last word */
    const char *detokenizer; /* WIKITEXT103: "wiki", "ptb", "none"; NULL, "auto": as the file's path says */
} tx_task_opts;

/* Tokens ids[begin, end), of which [first, end) are predicted. */
typedef struct tx_task_span {
    int64_t begin, first, end;
    int64_t n_chars; /* of a choice, as it stands in the file */
} tx_task_span;

/* What is counted as one: a window, a text, a question with its choices. */
typedef struct tx_task_item {
    int64_t span; /* the first one's number */
    int n_spans;
    int answer;
    int64_t document; /* from 0 */
    bool begins;      /* it is the first of its document: the token at `begin` was no target before */
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
    int64_t n_cut;                /* items whose beginning was left out because they are longer than seq_length */
    tx_token_score *score;        /* [most targets of a span] */
} tx_task;

/* Reads the file. Errors name the file, and the line where there are lines. TX_ERR_ARG: overlap is more than
 * seq_length. */
tx_status tx_task_open(tx_task *t, const tx_task_opts *opts, const tx_tokenizer *tok);
void tx_task_close(tx_task *t); /* a zeroed one is fine */

/* Who is called with each token of a text, in order. */
typedef struct tx_task_listener {
    /* score NULL: the first of a document, which is not predicted. The function NULL: nobody */
    tx_status (*token)(void *user, int64_t document, int32_t id, const tx_token_score *score);
    void *user;
} tx_task_listener;

/* What is counted: numbers that add up over parts of a task. */
typedef struct tx_task_sums {
    double n_items, n_correct, n_correct_norm;
    double n_targets, nats; /* of choices: the right ones' */
} tx_task_sums;

/* Scores items part, part + n_parts, ...; the decoder's leader calls, which has seq_length tokens a slot.
 * @each NULL allowed; with several parts it is called for the tokens of this one */
tx_status tx_task_run(tx_task *t, tx_decoder *d, int64_t part, int64_t n_parts, tx_task_sums *out,
                      const tx_task_listener *each);

/* The same of a text for a model that sees both sides, of which each token is masked in turn: as many samples as there
 * are tokens. All ranks of the model call; `m` has samples of seq_length + 2 tokens. What comes out, and `each`, is
 * the leader's; the others pass NULL for t. */
struct tx_masked;
tx_status tx_task_run_masked(tx_task *t, struct tx_masked *m, const tx_tokenizer *tok, tx_task_sums *out,
                             const tx_task_listener *each);

/* ---- results ---- */

enum { TX_MAX_TASK_NUMBERS = 8 };

typedef struct tx_task_result {
    double loss;                                 /* mean nats of a target */
    double ppl;                                  /* e^loss; upstream's, so e^20 at most */
    tx_named_number number[TX_MAX_TASK_NUMBERS]; /* "accuracy", ... */
    int n;
} tx_task_result;

tx_task_result tx_task_result_of(const tx_task *t, const tx_task_sums *s);

/* " validation results on ..." in the words of upstream, where it has such a task. */
tx_status tx_task_result_line(tx_str *out, const tx_task *t, const tx_task_result *r);

/* {"task":"LAMBADA","file":"...","loss":...}: one line of JSON, without its end. */
tx_status tx_task_result_json(tx_str *out, const tx_task *t, const tx_task_result *r);

/* ---- inside the room ---- */

/* Tokens of a span are added to t->ids by the caller. Cuts its beginning where it has more than seq_length tokens to
 * see. TX_ERR_FORMAT, beginning with `where`: there is nothing to predict, nothing before it, or more than seq_length
 * of it. */
tx_status tx__task_add_span(tx_task *t, tx_task_span s, const char *where);
tx_status tx__task_add_item(tx_task *t, tx_task_item item);

/* task_lines.c: a record's JSON object, of which @where [TX_WHERE] says where it stands; its member `name`, a string.
 */
enum { TX_WHERE = 320 };
tx_status tx__task_line(json_t **out, const tx_record *record, char *where);
tx_status tx__task_member(const json_t *line, const char *name, const char *where, const char **text, size_t *n);

tx_status tx__task_read_text(tx_task *t, const tx_tokenizer *tok); /* task_text.c */
tx_status tx__task_read_wikitext(tx_task *t, const tx_tokenizer *tok);
tx_status tx__task_read_lambada(tx_task *t, const tx_tokenizer *tok); /* task_lines.c */
tx_status tx__task_read_choices(tx_task *t, const tx_tokenizer *tok);

#endif
