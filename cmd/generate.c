/* generate.c - triax generate: samples as text while they are made, as token ids, or as JSON lines. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "triax/generate.h"

typedef struct shown {
    tx_generate_form form;
    bool numbered;
    bool asks;  /* on a terminal, which has the prompt already */
    bool begun; /* the current sample is */
    char *line; /* the last answer */
    size_t cap;
    tx_status st;
} shown;

/* A line between samples, or with their numbers between prompts, and the prompt that the text goes on from. */
static void begin(shown *out, const tx_sample *s)
{
    if (out->begun) return;
    out->begun = true;
    if (s->sample_index ? !out->numbered : s->prompt_index > 0) printf("----\n");
    if (out->numbered) printf("%lld: ", (long long)s->sample_index);
    if (!out->asks || out->numbered) fwrite(s->prompt, 1, s->n_prompt, stdout);
}

static void print_piece(void *user, const tx_sample *s, const char *text, size_t n)
{
    begin(user, s);
    fwrite(text, 1, n, stdout);
    fflush(stdout);
}

/* "  -0.2177     198  "\n"", without the first number where there is none. */
static void print_token(const tx_sample *s, int32_t id, const double *logprob)
{
    tx_bytes raw = { 0 }, text = { 0 };
    if (!tx_tokenizer_decode(s->tok, &id, 1, &raw)) tx_text_replace_invalid(raw.data ? raw.data : "", raw.n, &text);
    if (logprob) printf("%9.4f ", *logprob);
    printf("%7d  \"", id);
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '\n')
            printf("\\n");
        else if (c < ' ' || c == 0x7f)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    printf("\"\n");
    tx_bytes_free(&raw);
    tx_bytes_free(&text);
}

/* A new token, and what else was likely: filter by filter. */
static void print_top(const tx_sample *s, size_t i, int n_stages)
{
    for (int stage = 0; stage < n_stages; stage++) {
        const tx_top_token *top = s->top + (i * (size_t)n_stages + (size_t)stage) * (size_t)s->n_top;
        printf("    %s\n", tx_sample_stage_name(stage));
        for (int k = 0; k < s->n_top && top[k].id >= 0; k++) print_token(s, top[k].id, &top[k].logprob);
    }
}

static void print_tokens(const tx_sample *s)
{
    int n_stages = 0;
    while (tx_sample_stage_name(n_stages)) n_stages++;
    for (size_t i = 0; i < s->n_ids && (s->logprob || s->top); i++) {
        print_token(s, s->ids[i], s->logprob ? &s->logprob[i] : NULL);
        if (s->top) print_top(s, i, n_stages);
    }
    if (s->is_scored) printf("score %.6f\n", s->score);
}

static void print_ids(const tx_sample *s)
{
    printf("[");
    for (size_t i = 0; i < s->n_ids; i++) printf("%s%d", i ? ", " : "", s->ids[i]);
    printf("]\n");
}

static void print_sample(void *user, const tx_sample *s)
{
    shown *out = user;
    char *line;
    if (out->form.json) {
        if (!out->st) out->st = tx_sample_json(&line, s, !out->form.tokens);
        if (!out->st) {
            puts(line);
            tx_text_free(line);
        }
    } else if (out->form.tokens) {
        print_ids(s);
        print_tokens(s);
    } else {
        begin(out, s);
        printf("\n");
        print_tokens(s);
    }
    out->begun = false;
    fflush(stdout);
}

/* The next prompt; an empty line is none. */
static const char *ask(void *user)
{
    shown *out = user;
    ssize_t n;
    out->asks = true;
    do {
        fprintf(stderr, "prompt (stop to exit) >>> ");
        n = getline(&out->line, &out->cap, stdin);
        if (n > 0 && out->line[n - 1] == '\n') out->line[--n] = 0;
    } while (n == 0);
    return n < 0 || !strcmp(out->line, "stop") ? NULL : out->line;
}

tx_status cmd_generate(tx_config *cfg)
{
    shown out = { .form = tx_generate_form_of(cfg), .numbered = tx_generate_numbers(cfg) };
    tx_generate_sink sink = { .sample = print_sample, .user = &out };
    if (!out.form.json && !out.form.tokens) sink.piece = print_piece;
    if (isatty(STDIN_FILENO)) sink.ask = ask;
    tx_status st = tx_generate(cfg, &sink);
    free(out.line);
    return st ? st : out.st;
}
