/* fuzz_tokenizer_json.c - a hostile tokenizer.json; what opens can encode the file itself, unless a word has no id or
 * an expression takes too long, and every id has a text. */
#include <oniguruma.h>

#include "fuzz.h"
#include "triax/token.h"

/* Whether a call succeeded; if not, it says what a text may lack. */
static bool fuzz_done(tx_status st)
{
    if (fuzz_ok(st)) return true;
    FUZZ_CHECK(st == TX_ERR_ARG);
    FUZZ_CHECK(strstr(tx_last_error(), "takes too long") || strstr(tx_last_error(), "is not in the vocabulary, and"));
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_tokenizer *t;
    tx_ids ids = { 0 };
    tx_bytes back = { 0 };
    char hash[33];
    if (!fuzz_ok(tx_tokenizer_open_json(&t, fuzz_file("tokenizer.json", data, size)))) return 0;
    onig_set_retry_limit_in_search(20000); /* whoever opened it has set another limit */
    for (int turn = 0; turn < 2; turn++) {
        ids.n = back.n = 0;
        if (!fuzz_done(tx_tokenizer_encode(t, (const char *)data, size, &ids))) continue;
        for (size_t i = 0; i < ids.n; i++) FUZZ_CHECK(ids.id[i] >= 0 && ids.id[i] < tx_tokenizer_vocab_size(t));
        fuzz_done(tx_tokenizer_decode(t, ids.id, ids.n, &back));
    }
    FUZZ_CHECK(tx_tokenizer_eod(t) < tx_tokenizer_vocab_size(t));
    FUZZ_CHECK(fuzz_ok(tx_tokenizer_hash(t, hash)));
    tx_bytes_free(&back);
    tx_ids_free(&ids);
    tx_tokenizer_close(t);
    return 0;
}
