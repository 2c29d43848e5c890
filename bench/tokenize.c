/* tokenize.c - how fast text becomes ids: MB/s (10⁶ bytes) of GPT-2's tokenizer over a text file, first from a cold
 * start and then once more, and where the time goes.
 *
 *      tokenize VOCAB MERGES TEXT [THREADS]          `make bench` in the build folder builds it
 *      tokenize MODEL - TEXT [THREADS]               the same of a SentencePiece model, without the splitting
 *
 *  The text is cut into documents of at least 64 KiB that end where a line does; tokenize_peers.py cuts alike and runs
 * the same documents through other tokenizers. Each thread's ids go to one array with room for them, as those of
 * preprocess-data do; its pages are fetched while encoding. A cold start is a fresh process: no page of the output and
 * nothing that a tokenizer may remember of earlier text is there yet. Splitting is timed in a pass of its own, after
 * the two. One line of JSON on standard output, for that program; a table on standard error, for people. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "token/unicode_split.h"
#include "triax/token.h"

#define DOCUMENT ((size_t)64 << 10) /* bytes, at least */

typedef struct document {
    const char *text;
    size_t n, n_ids;
} document;

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "tokenize: %s\n", tx_last_error());
    exit(1);
}

static document *cut(const tx_str *text, size_t *n_docs)
{
    document *docs = NULL;
    check(tx_alloc(&docs, text->len / DOCUMENT + 1, sizeof *docs, "documents"));
    *n_docs = 0;
    for (size_t at = 0, n; at < text->len; at += n) {
        n = text->len - at;
        if (n > DOCUMENT) {
            const char *end = memchr(text->data + at + DOCUMENT - 1, '\n', n - DOCUMENT + 1);
            if (end) n = (size_t)(end - (text->data + at)) + 1;
        }
        docs[(*n_docs)++] = (document){ text->data + at, n, 0 };
    }
    return docs;
}

/* Seconds that all documents take. Each thread appends to an array of its own. */
static double encode(const tx_tokenizer *t, document *docs, size_t n_docs, tx_ids *of_thread, int threads)
{
    double start = tx_clock();
#pragma omp parallel num_threads(threads)
    {
        tx_ids *ids = &of_thread[omp_get_thread_num()];
        ids->n = 0;
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < n_docs; i++) {
            size_t before = ids->n;
            check(tx_tokenizer_encode(t, docs[i].text, docs[i].n, ids));
            docs[i].n_ids = ids->n - before;
        }
    }
    return tx_clock() - start;
}

static double split(const document *docs, size_t n_docs, int threads, size_t *n_pieces)
{
    size_t n = 0;
    double start = tx_clock();
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(+ : n)
    for (size_t i = 0; i < n_docs; i++)
        for (size_t at = 0; at < docs[i].n; n++)
            at += tx__split_next((const unsigned char *)docs[i].text + at, docs[i].n - at);
    *n_pieces = n;
    return tx_clock() - start;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: tokenize VOCAB MERGES TEXT [THREADS], or tokenize MODEL - TEXT [THREADS]\n");
        return 2;
    }
    int threads = argc > 4 ? atoi(argv[4]) : 1;
    if (threads < 1) threads = 1;
    tx_tokenizer *t;
    tx_str text = { 0 };
    size_t n_docs, n_pieces = 0, n_ids = 0;
    bool model = !strcmp(argv[2], "-");

    double start = tx_clock();
    check(model ? tx_tokenizer_open_sentencepiece(&t, argv[1], TX_SENTENCEPIECE_GPT, 0)
                : tx_tokenizer_open_gpt2(&t, argv[1], argv[2]));
    double open_s = tx_clock() - start;
    start = tx_clock();
    check(tx_file_read(argv[3], (size_t)1 << 36, &text));
    document *docs = cut(&text, &n_docs);
    double read_s = tx_clock() - start;
    tx_ids *of_thread;
    check(tx_alloc(&of_thread, (size_t)threads, sizeof *of_thread, "ids"));
    for (int i = 0; i < threads; i++) {
        of_thread[i].cap = text.len / 2 + DOCUMENT;
        check(tx_realloc(&of_thread[i].id, of_thread[i].cap, sizeof *of_thread[i].id, "ids"));
    }
    double cold_s = encode(t, docs, n_docs, of_thread, threads), again_s = encode(t, docs, n_docs, of_thread, threads);
    double split_s = model ? 0 : split(docs, n_docs, threads, &n_pieces);
    for (size_t i = 0; i < n_docs; i++) n_ids += docs[i].n_ids;

    double mb = (double)text.len / 1e6, all = read_s + cold_s;
    fprintf(stderr,
            "%.1f MB, %zu documents, %zu pieces, %zu ids, %d thread%s; the vocabulary opens in %.0f ms\n"
            "  cold  %8.1f MB/s\n  again %8.1f MB/s\n"
            "  of reading and encoding: reading %.1f %%, splitting %.1f %%, looking up and merging %.1f %%\n",
            mb, n_docs, n_pieces, n_ids, threads, threads > 1 ? "s" : "", open_s * 1e3, mb / cold_s, mb / again_s,
            100 * read_s / all, 100 * split_s / all, 100 * (cold_s - split_s) / all);
    printf("{\"mb\": %.6f, \"ids\": %zu, \"open_s\": %.6f, \"read_s\": %.6f, \"split_s\": %.6f, \"cold_s\": %.6f, "
           "\"again_s\": %.6f}\n",
           mb, n_ids, open_s, read_s, split_s, cold_s, again_s);
    for (int i = 0; i < threads; i++) tx_ids_free(&of_thread[i]);
    tx_free(of_thread);
    tx_free(docs);
    tx_str_free(&text);
    tx_tokenizer_close(t);
    return 0;
}
