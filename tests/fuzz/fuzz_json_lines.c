/* fuzz_json_lines.c - a file of JSON lines, and texts out of every line. */
#include "data/corpus.h"
#include "fuzz.h"

/* Where the walk through a record is. */
typedef struct walk {
    int key;
    int64_t item; /* the next one; -1: the key's text is through */
} walk;

static tx_status see_text(void *user, int key, int64_t item, const char *text, size_t n)
{
    walk *w = user;
    FUZZ_CHECK(key >= w->key);
    if (key > w->key) *w = (walk){ key, 0 };
    FUZZ_CHECK(w->item >= 0 && (item == w->item || (item == -1 && !w->item)));
    w->item = item < 0 ? -1 : item + 1;
    fuzz_check_utf8(text, n);
    return TX_OK;
}

/* As a JSON line, whatever the input was taken for. */
static void read_record(tx_record *r)
{
    static const char *const keys[] = { "text", "url" };
    FUZZ_CHECK(r->line > 0);
    r->json = true;
    for (int n_keys = 1; n_keys <= 2; n_keys++) {
        walk w = { 0, 0 };
        bool ok = fuzz_ok(tx_record_items(r, keys, n_keys, see_text, &w));
        FUZZ_CHECK(w.key < n_keys && (ok || (!w.key && !w.item))); /* all or none */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("lines.jsonl", data, size);
    tx_corpus_opts opts = { &path, 1, TX_TEXT_LINE, false };
    tx_corpus *c;
    tx_record r;
    bool more = true;
    fuzz_log_on();
    FUZZ_CHECK(fuzz_ok(tx_corpus_open(&c, &opts)));
    while (fuzz_ok(tx_corpus_next(c, &r, &more)) && more) read_record(&r);
    tx_corpus_close(c);
    return 0;
}
