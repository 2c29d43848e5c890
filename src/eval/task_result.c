/* task_result.c - counts to figures, and the words for them. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/task.h"

/* Upstream's: a perplexity beyond e^20 is told as that. */
static double perplexity(double loss)
{
    return exp(fmin(20, loss));
}

static void put(tx_task_result *r, const char *name, double value)
{
    TX_ASSERT(r->n < TX_MAX_TASK_NUMBERS);
    r->number[r->n++] = (tx_named_number){ name, value };
}

void tx__task_text_figures(tx_task_result *r, const tx_task *t, const tx_task_sums *s)
{
    put(r, "bits_per_byte", s->nats / log(2) / (double)t->n_bytes);
    if (t->opts.masked) put(r, "accuracy", s->n_correct / s->n_targets);
}

void tx__task_wikitext_figures(tx_task_result *r, const tx_task *t, const tx_task_sums *s)
{
    double ratio = (double)(t->n_tokens - 1) / (double)(t->n_words - 1);
    (void)s;
    put(r, "adjusted_ppl", perplexity(r->loss * ratio));
    put(r, "token_ratio", ratio);
}

void tx__task_lambada_figures(tx_task_result *r, const tx_task *t, const tx_task_sums *s)
{
    (void)t;
    put(r, "accuracy", s->n_correct / s->n_items);
    put(r, "correct", s->n_correct);
    put(r, "examples", s->n_items);
}

void tx__task_choice_figures(tx_task_result *r, const tx_task *t, const tx_task_sums *s)
{
    (void)t;
    put(r, "accuracy", s->n_correct / s->n_items);
    put(r, "accuracy_norm", s->n_correct_norm / s->n_items);
    put(r, "correct", s->n_correct);
    put(r, "correct_norm", s->n_correct_norm);
    put(r, "examples", s->n_items);
}

tx_task_result tx_task_result_of(const tx_task *t, const tx_task_sums *s)
{
    double loss = s->nats / s->n_targets;
    tx_task_result r = { .loss = loss, .ppl = perplexity(loss) };
    tx__task_type_of(t)->figures(&r, t, s);
    put(&r, "targets", s->n_targets);
    return r;
}

static double number(const tx_task_result *r, const char *name)
{
    int i = 0;
    while (i < r->n && strcmp(r->number[i].name, name) != 0) i++;
    TX_ASSERT(i < r->n);
    return r->number[i].value;
}

/* The shortest text that is this number, as Python prints it. */
static void shortest(char buf[32], double x)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, 32, "%.*g", digits, x);
        if (strtod(buf, NULL) == x) break;
    }
    if (!strpbrk(buf, ".en")) strcat(buf, ".0");
}

tx_status tx__task_text_words(tx_str *out, const tx_task *t, const tx_task_result *r)
{
    TX_TRY(tx_str_printf(out, "avg loss: %.4E | ppl: %.4E | bits per byte: %.4E |", r->loss, r->ppl,
                         number(r, "bits_per_byte")));
    return t->opts.masked ? tx_str_printf(out, " avg accuracy: %.4E |", number(r, "accuracy")) : TX_OK;
}

tx_status tx__task_wikitext_words(tx_str *out, const tx_task *t, const tx_task_result *r)
{
    char ratio[32];
    (void)t;
    shortest(ratio, number(r, "token_ratio"));
    return tx_str_printf(out, "avg loss: %.4E | ppl: %.4E | adjusted ppl: %.4E | token ratio: %s |", r->loss, r->ppl,
                         number(r, "adjusted_ppl"), ratio);
}

tx_status tx__task_lambada_words(tx_str *out, const tx_task *t, const tx_task_result *r)
{
    (void)t;
    return tx_str_printf(out, "number correct: %.4E | total examples: %.4E | avg accuracy: %.4E", number(r, "correct"),
                         number(r, "examples"), number(r, "accuracy"));
}

tx_status tx__task_choice_words(tx_str *out, const tx_task *t, const tx_task_result *r)
{
    TX_TRY(tx__task_lambada_words(out, t, r));
    return tx_str_printf(out, " | by characters: number correct: %.4E | avg accuracy: %.4E", number(r, "correct_norm"),
                         number(r, "accuracy_norm"));
}

tx_status tx_task_result_line(tx_str *out, const tx_task *t, const tx_task_result *r)
{
    TX_TRY(tx_str_printf(out, " validation results on %s | ", tx_task_kind_word(t->opts.kind)));
    return tx__task_type_of(t)->words(out, t, r);
}

static json_t *json_of(double x)
{
    if (!isfinite(x)) return json_null();
    return x == floor(x) && fabs(x) < 1e15 ? json_integer((json_int_t)x) : json_real(x);
}

tx_status tx_task_result_json(tx_str *out, const tx_task *t, const tx_task_result *r)
{
    tx_bytes file = { 0 };
    TX_TRY(tx_text_replace_invalid(t->opts.file, strlen(t->opts.file), &file));
    json_t *o = json_pack("{s:s, s:s#, s:o, s:o}", "task", tx_task_kind_word(t->opts.kind), "file", file.data,
                          (int)file.n, "loss", json_of(r->loss), "ppl", json_of(r->ppl));
    tx_bytes_free(&file);
    for (int i = 0; i < r->n; i++) json_object_set_new(o, r->number[i].name, json_of(r->number[i].value));
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    tx_status st = text ? tx_str_puts(out, text) : TX_FAIL(TX_ERR_NOMEM, "not enough memory for a result");
    free(text);
    json_decref(o);
    return st;
}
