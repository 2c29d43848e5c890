/* save_vocab.c - the files of a learned vocabulary: GPT-2's vocab.json and merges.txt or BERT's vocab.txt, and the same
 * tokenizer as Hugging Face's tokenizer.json. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "token/byte_symbols.h"
#include "token/vocab_trainer.h"

enum { PLAIN, JSON, ASCII_JSON }; /* GPT-2's own vocab.json is ASCII */

/* Appends a token: BPE's as the symbols of its bytes, WordPiece's as it is. */
static tx_status put_token(tx_str *s, const tx_vocab_trainer *t, uint32_t id, int form)
{
    size_t n;
    const char *bytes = tx__strings_at(&t->token, id, &n);
    for (size_t i = 0; i < n; i++) {
        uint32_t c = t->learner->bytes ? tx__symbol_of_byte((unsigned char)bytes[i]) : (unsigned char)bytes[i];
        char two[2] = { (char)(0xC0 | c >> 6), (char)(0x80 | (c & 0x3F)) };
        if (form != PLAIN && (c == '"' || c == '\\')) TX_TRY(tx_str_puts(s, "\\"));
        if (c < 0x80 || !t->learner->bytes)
            TX_TRY(tx_str_append(s, &bytes[i], 1));
        else if (form == ASCII_JSON)
            TX_TRY(tx_str_printf(s, "\\u%04x", c));
        else
            TX_TRY(tx_str_append(s, two, 2));
    }
    return TX_OK;
}

/* {"token": id, ...} */
static tx_status put_ids(tx_str *s, const tx_vocab_trainer *t, int form)
{
    for (uint32_t id = 0; id < t->token.n; id++) {
        TX_TRY(tx_str_puts(s, id ? "\"" : "{\""));
        TX_TRY(put_token(s, t, id, form));
        TX_TRY(tx_str_printf(s, "\": %u%s", id, id + 1 < t->token.n ? ", " : "}"));
    }
    return TX_OK;
}

/* Every pair between `before` and `after`. */
static tx_status put_merges(tx_str *s, const tx_vocab_trainer *t, int form, const char *before, const char *after)
{
    for (size_t i = 0; i < t->n_merges; i++) {
        TX_TRY(tx_str_puts(s, i && form != PLAIN ? ", " : ""));
        TX_TRY(tx_str_puts(s, before));
        TX_TRY(put_token(s, t, (uint32_t)(t->merge[i] >> 32), form));
        TX_TRY(tx_str_puts(s, " "));
        TX_TRY(put_token(s, t, (uint32_t)t->merge[i], form));
        TX_TRY(tx_str_puts(s, after));
    }
    return TX_OK;
}

tx_status tx__put_vocab_json(tx_str *s, const tx_vocab_trainer *t)
{
    return put_ids(s, t, ASCII_JSON);
}

tx_status tx__put_merges_txt(tx_str *s, const tx_vocab_trainer *t)
{
    TX_TRY(tx_str_puts(s, "#version: 0.2\n"));
    return put_merges(s, t, PLAIN, "", "\n");
}

tx_status tx__put_vocab_txt(tx_str *s, const tx_vocab_trainer *t)
{
    for (uint32_t id = 0; id < t->token.n; id++) {
        TX_TRY(put_token(s, t, id, PLAIN));
        TX_TRY(tx_str_puts(s, "\n"));
    }
    return TX_OK;
}

/* The beginning of a tokenizer.json, with the special tokens, which have the ids from `first` on. */
static tx_status put_added_tokens(tx_str *s, const tx_vocab_trainer *t, uint32_t first)
{
    TX_TRY(tx_str_puts(s, "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": ["));
    for (uint32_t id = first; id < first + t->special.n; id++) {
        TX_TRY(tx_str_printf(s, "%s{\"id\": %u, \"content\": \"", id > first ? ", " : "", id));
        TX_TRY(put_token(s, t, id, JSON));
        TX_TRY(tx_str_puts(s, "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                              "\"normalized\": false, \"special\": true}"));
    }
    return TX_OK;
}

tx_status tx__put_bpe_tokenizer_json(tx_str *s, const tx_vocab_trainer *t)
{
    TX_TRY(put_added_tokens(s, t, t->token.n - t->special.n));
    TX_TRY(tx_str_puts(
        s, "],\n\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
           "\"trim_offsets\": true, \"use_regex\": true}, \"post_processor\": null, \"decoder\": {\"type\": "
           "\"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true},\n"
           "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
           "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": false, "
           "\"byte_fallback\": false, \"vocab\": "));
    TX_TRY(put_ids(s, t, JSON));
    TX_TRY(tx_str_puts(s, ",\n\"merges\": ["));
    TX_TRY(put_merges(s, t, JSON, "\"", "\""));
    return tx_str_puts(s, "]}}\n");
}

tx_status tx__put_wordpiece_tokenizer_json(tx_str *s, const tx_vocab_trainer *t)
{
    TX_TRY(put_added_tokens(s, t, 0));
    /* 200 characters at most in a word, as in triax and Megatron */
    TX_TRY(
        tx_str_printf(s,
                      "],\n\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, "
                      "\"handle_chinese_chars\": true, \"strip_accents\": null, \"lowercase\": %s}, "
                      "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"post_processor\": {\"type\": "
                      "\"BertProcessing\", \"sep\": [\"[SEP]\", 3], \"cls\": [\"[CLS]\", 2]}, \"decoder\": {\"type\": "
                      "\"WordPiece\", \"prefix\": \"##\", \"cleanup\": true},\n\"model\": {\"type\": \"WordPiece\", "
                      "\"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": \"##\", "
                      "\"max_input_chars_per_word\": 200, \"vocab\": ",
                      t->learner->lower_case ? "true" : "false"));
    TX_TRY(put_ids(s, t, JSON));
    return tx_str_puts(s, "}}\n");
}

tx_status tx_vocab_trainer_save(const tx_vocab_trainer *t, const char *dir)
{
    enum { N = TX__MAX_VOCAB_FILES };
    const tx__vocab_file *file = t->learner->file;
    if (!t->finished) return TX_FAIL(TX_ERR_STATE, "this vocabulary's trainer has not finished: nothing to save yet");
    tx_status st = TX_OK;
    tx_str text = { 0 };
    tx_writer writer[N] = { 0 };
    for (int i = 0; i < N && file[i].name; i++) {
        char path[4096];
        text.len = 0;
        TX_GOTO(tx_path_join(path, sizeof path, dir, file[i].name));
        TX_GOTO(tx_writer_open(&writer[i], path));
        TX_GOTO(file[i].put(&text, t));
        TX_GOTO(tx_writer_put(&writer[i], text.data, text.len));
        TX_GOTO(tx_writer_seal(&writer[i]));
    }
    /* All are complete now. Older ones go first, so that a crash leaves no two vocabularies mixed. */
    for (int i = 0; i < N; i++)
        if (writer[i].path) unlink(writer[i].path); /* what stays cannot be replaced either, and then commit fails */
    for (int i = 0; i < N; i++)
        if (writer[i].path) TX_GOTO(tx_writer_commit(&writer[i]));
out:
    for (int i = 0; i < N; i++) tx_writer_abort(&writer[i]);
    tx_str_free(&text);
    return st;
}
