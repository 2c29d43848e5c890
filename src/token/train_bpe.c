/* train_bpe.c - learns byte-level BPE from counted words. Ids are those of the files: the bytes in GPT-2's order, then
 * the merged tokens, then the special ones. Hugging Face's trainer numbers bytes and merged tokens in the same order,
 * so equal counts are decided alike. */
#include "base/alloc.h"
#include "token/byte_symbols.h"
#include "token/unicode_split.h"
#include "token/vocab.h"
#include "token/vocab_trainer.h"

static tx_status feed(tx_vocab_trainer *t, const char *text, size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t at = 0, len; at < n_bytes; at += len) {
        len = tx__split_next(p + at, n_bytes - at);
        TX_TRY(tx__count_word(t, p + at, len, 1));
    }
    return TX_OK;
}

/* The 256 bytes in the order of their symbols, which is GPT-2's. */
static tx_status add_bytes(tx__strings *token, int32_t id_of[256])
{
    for (uint32_t c = 0; c < TX__SYMBOL_END; c++) {
        int byte = tx__byte_of_symbol(c);
        char b = (char)byte;
        if (byte < 0) continue;
        id_of[byte] = (int32_t)token->n;
        TX_TRY(tx__strings_add_hidden(token, &b, 1));
    }
    return TX_OK;
}

/* The bytes of all words of two and more. */
static tx_status places_of_words(const tx__strings *words, const int32_t id_of[256], tx__word_place **out, size_t *n)
{
    tx__word_place *place = NULL;
    TX_TRY(tx_realloc(&place, words->pool.len + 1, sizeof *place, "distinct words"));
    *n = 0;
    for (uint32_t w = 0; w < words->n; w++) {
        size_t len;
        const char *bytes = tx__strings_at(words, w, &len);
        for (size_t i = 0; len > 1 && i < len; i++)
            place[(*n)++] = (tx__word_place){ id_of[(unsigned char)bytes[i]], w };
    }
    *out = place;
    return TX_OK;
}

static tx_status add_tokens(tx_vocab_trainer *t)
{
    tx_status st = TX_OK;
    tx_str bytes = { 0 };
    size_t n;
    for (size_t i = 0; i < t->n_merges; i++) {
        bytes.len = 0;
        for (int side = 32; side >= 0; side -= 32) {
            const char *part = tx__strings_at(&t->token, (uint32_t)(t->merge[i] >> side), &n);
            TX_GOTO(tx_str_append(&bytes, part, n));
        }
        TX_GOTO(tx__strings_add_hidden(&t->token, bytes.data, bytes.len));
    }
    for (uint32_t i = 0; i < t->special.n; i++) {
        const char *special = tx__strings_at(&t->special, i, &n);
        TX_GOTO(tx__strings_add_hidden(&t->token, special, n));
    }
out:
    tx_str_free(&bytes);
    return st;
}

static tx_status learn(tx_vocab_trainer *t)
{
    tx_status st;
    tx__word_place *place = NULL;
    int32_t id_of[256];
    size_t n;
    tx__learn_opts o = { .n_symbols = 256,
                         .max_merges = t->vocab_size - 256 - (int32_t)t->special.n,
                         .min_frequency = t->min_frequency };
    TX_GOTO(add_bytes(&t->token, id_of));
    TX_GOTO(places_of_words(&t->word, id_of, &place, &n));
    tx__strings_free(&t->word); /* the places are all there is to know */
    o.count = t->count;
    TX_GOTO(tx__learn_merges(place, n, &o, &t->merge, &t->n_merges));
    TX_GOTO(add_tokens(t));
out:
    tx_free(place);
    return st;
}

const tx__vocab_learner tx__learner_bpe = {
    .kind = TX_VOCAB_BPE,
    .special = { TX__EOD_TOKEN },
    .n_smallest = 256,
    .smallest = "256 bytes",
    .bytes = true,
    .feed = feed,
    .learn = learn,
    .file = { { "vocab.json", tx__put_vocab_json },
              { "merges.txt", tx__put_merges_txt },
              { "tokenizer.json", tx__put_bpe_tokenizer_json } },
};
