/* fuzz_text.c - a file of which only the content says what it is: plain text cut in each of the three ways, JSON lines
 * by their first byte, compressed ones by their magic. */
#include "data/corpus.h"
#include "fuzz.h"

typedef struct seen {
    const uint8_t *data; /* of the whole file */
    size_t size, n_records, n_bytes;
} seen;

static tx_status see_text(void *user, int key, int64_t item, const char *text, size_t n)
{
    (void)user;
    FUZZ_CHECK(key == 0 && item >= -1);
    fuzz_check_utf8(text, n);
    return TX_OK;
}

/* 0x28 is '(' as well: a text that only begins like zstd is still text. */
static bool is_compressed(const uint8_t *p, size_t n)
{
    return (n >= 2 && !memcmp(p, "\x1f\x8b", 2)) || (n >= 6 && !memcmp(p, "\xfd\x37zXZ", 6)) ||
           (n >= 4 && !memcmp(p, "\x28\xb5\x2f\xfd", 4));
}

static void check_split(const seen *s, tx_text_split split)
{
    bool bom = s->size >= 3 && !memcmp(s->data, "\xef\xbb\xbf", 3);
    size_t size = s->size - (bom ? 3 : 0), n_ends = 0;
    for (size_t i = 0; i < s->size; i++)
        n_ends += s->data[i] == '\n' ? !i || s->data[i - 1] != '\r' : s->data[i] == '\r';
    bool ended = !s->size || s->data[s->size - 1] == '\n' || s->data[s->size - 1] == '\r';
    FUZZ_CHECK(s->n_bytes <= size);
    if (split == TX_TEXT_FILE) FUZZ_CHECK(s->n_bytes == size && s->n_records == (size > 0));
    if (split == TX_TEXT_LINE && !bom) FUZZ_CHECK(s->n_records == n_ends + !ended);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = { "text" };
    const char *path = fuzz_file("unnamed", data, size);
    fuzz_log_on();
    for (tx_text_split split = TX_TEXT_FILE; split <= TX_TEXT_LINE; split++) {
        tx_corpus_opts opts = { &path, 1, split, false };
        tx_corpus *c;
        tx_record r;
        seen s = { data, size, 0, 0 };
        bool more = true, json = false;
        tx_status st;
        FUZZ_CHECK(fuzz_ok(tx_corpus_open(&c, &opts)));
        while (!(st = tx_corpus_next(c, &r, &more)) && more) {
            s.n_records++;
            s.n_bytes += r.n;
            json |= r.json;
            fuzz_ok(tx_record_items(&r, keys, 1, see_text, NULL));
        }
        fuzz_ok(st);
        if (!st && !json && !is_compressed(data, size)) check_split(&s, split);
        tx_corpus_close(c);
    }
    return 0;
}
