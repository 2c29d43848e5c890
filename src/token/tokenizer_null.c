/* tokenizer_null.c - text that consists of ids: whole numbers between blanks. */
#include <stdio.h>

#include "base/alloc.h"
#include "token/tokenizer.h"

static int is_blank(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static tx_status null_encode(const tx_tokenizer *t, const unsigned char *text, size_t n, tx_ids *out)
{
    for (size_t i = 0; i < n;) {
        if (is_blank(text[i])) {
            i++;
            continue;
        }
        size_t start = i;
        int64_t id = 0;
        int good = 1;
        for (; i < n && !is_blank(text[i]); i++) {
            good = good && text[i] >= '0' && text[i] <= '9';
            if (good) id = id * 10 + (text[i] - '0');
            good = good && id < t->vocab_size;
        }
        if (!good) {
            size_t len = i - start;
            for (size_t k = 0; k < len; k++) /* the message shows it only if it is plain and short */
                if (len > 32 || text[start + k] < 0x20 || text[start + k] > 0x7E) len = 0;
            return TX_FAIL(TX_ERR_ARG,
                           "the null tokenizer's text is ids, whole numbers from 0 to %d, but at byte %zu is \"%.*s\"",
                           t->vocab_size - 1, start, (int)len, (const char *)text + start);
        }
        TX_TRY(tx__ids_reserve(out, 1));
        out->id[out->n++] = (int32_t)id;
    }
    return TX_OK;
}

static tx_status null_decode(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out)
{
    (void)t;
    for (size_t i = 0; i < n; i++) {
        char word[16];
        int len = snprintf(word, sizeof word, i ? " %d" : "%d", ids[i]);
        TX_TRY(tx__bytes_append(out, word, (size_t)len));
    }
    return TX_OK;
}

static int32_t null_special(const tx_tokenizer *t, const char *name)
{
    (void)t;
    (void)name;
    return -1;
}

static void null_hash(const tx_tokenizer *t, XXH3_state_t *s)
{
    tx__hash_token(s, (const char *)&t->vocab_size, sizeof t->vocab_size);
}

static void null_close(tx_tokenizer *t)
{
    tx_free(t);
}

tx_status tx_tokenizer_open_null(tx_tokenizer **out, int32_t vocab_size)
{
    if (vocab_size < 1 || vocab_size == INT32_MAX)
        return TX_FAIL(TX_ERR_ARG, "the null tokenizer's vocabulary size is %d, allowed are 1 to %d", vocab_size,
                       INT32_MAX - 1);
    tx_tokenizer *t;
    TX_TRY(tx_alloc(&t, 1, sizeof *t, "a tokenizer"));
    *t = (tx_tokenizer){ .kind = &tx__tokenizer_null, .vocab_size = vocab_size + 1, .eod = vocab_size };
    *out = t;
    return TX_OK;
}

static tx_status null_open(tx_tokenizer **out, const tx_tokenizer_files *from)
{
    return tx_tokenizer_open_null(out, from->n_ids);
}

const tx_tokenizer_kind tx__tokenizer_null = { .open = null_open,
                                               .encode = null_encode,
                                               .decode = null_decode,
                                               .special = null_special,
                                               .hash = null_hash,
                                               .close = null_close };
