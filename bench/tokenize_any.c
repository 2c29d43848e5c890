/* tokenize_any.c - how fast text becomes ids on one thread, in MB/s (10⁶ bytes), by a tokenizer.json or a vocabulary of
 * tiktoken: from a cold start and then once more. tokenize_any_peers.py runs the same documents through the original
 * libraries.
 *
 *      tokenize_any TOKENIZER.JSON TEXT              `make bench` in the build folder builds it
 *      tokenize_any FILE.tiktoken TEXT PATTERN
 *
 *  A document is what tokenize.c cuts: at least 64 KiB, to the end of a line. One line of JSON on standard output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "token/tokenizer_kinds.h"
#include "triax/token.h"

#define DOCUMENT ((size_t)64 << 10)

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "tokenize_any: %s\n", tx_last_error());
    exit(1);
}

/* Seconds of all documents. */
static double encode(const tx_tokenizer *t, const tx_str *text, size_t *n_ids)
{
    tx_ids ids = { 0 };
    double start = tx_clock();
    for (size_t at = 0, n; at < text->len; at += n) {
        n = text->len - at;
        if (n > DOCUMENT) {
            const char *end = memchr(text->data + at + DOCUMENT - 1, '\n', n - DOCUMENT + 1);
            if (end) n = (size_t)(end - (text->data + at)) + 1;
        }
        check(tx_tokenizer_encode(t, text->data + at, n, &ids));
    }
    *n_ids = ids.n;
    tx_ids_free(&ids);
    return tx_clock() - start;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: tokenize_any TOKENIZER.JSON TEXT, or tokenize_any FILE.tiktoken TEXT PATTERN\n");
        return 2;
    }
    tx_tokenizer *t;
    tx_str text = { 0 };
    size_t n_ids;
    tx_tokenizer_files files = { .model_file = argv[1] };
    if (argc > 3) files.tiktoken.pattern = tx_tiktoken_pattern_of(argv[3]);
    check(tx_tokenizer_open_type(&t, argc > 3 ? TX_TOKENIZER_TIKTOKEN : TX_TOKENIZER_HF, &files));
    check(tx_file_read(argv[2], (size_t)1 << 36, &text));
    double cold_s = encode(t, &text, &n_ids), again_s = encode(t, &text, &n_ids), mb = (double)text.len / 1e6;
    printf("{\"ids\": %zu, \"cold\": %.2f, \"again\": %.2f}\n", n_ids, mb / cold_s, mb / again_s);
    tx_str_free(&text);
    tx_tokenizer_close(t);
    return 0;
}
