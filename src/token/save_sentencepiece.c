/* save_sentencepiece.c - the files of a learned SentencePiece model: its .model, and the same as a tokenizer.json. */
#include <string.h>

#include "token/protobuf.h"
#include "token/sp_model.h"
#include "token/train_sentencepiece.h"

static size_t first_piece(const tx_vocab_trainer *t)
{
    return t->special.n + 256u;
}

/* ---- .model: the numbers of fields are those of sentencepiece_model.proto ---- */

static tx_status put_piece(tx_str *s, const tx_vocab_trainer *t, uint32_t id)
{
    tx_str inner = { 0 };
    size_t n;
    const char *piece = tx__strings_at(&t->token, id, &n);
    tx__sp_type type = !id                   ? TX__SP_UNKNOWN
                       : id < t->special.n   ? TX__SP_CONTROL
                       : id < first_piece(t) ? TX__SP_BYTE
                                             : TX__SP_NORMAL;
    tx_status st;
    TX_GOTO(tx__pb_put_bytes(&inner, 1, piece, n));
    TX_GOTO(tx__pb_put_float(&inner, 2, t->score[id]));
    if (type != TX__SP_NORMAL) TX_GOTO(tx__pb_put_varint(&inner, 3, type));
    TX_GOTO(tx__pb_put_bytes(s, 1, inner.data, inner.len));
out:
    tx_str_free(&inner);
    return st;
}

static tx_status put_model(tx_str *s, const tx_vocab_trainer *t, tx__sp_kind kind)
{
    tx_str inner = { 0 };
    tx_status st = TX_OK;
    for (uint32_t id = 0; id < t->token.n; id++) TX_GOTO(put_piece(s, t, id));
    TX_GOTO(tx__pb_put_varint(&inner, 3, kind));
    TX_GOTO(tx__pb_put_varint(&inner, 4, t->token.n));
    TX_GOTO(tx__pb_put_varint(&inner, 25, 1)); /* split_digits */
    TX_GOTO(tx__pb_put_varint(&inner, 35, 1)); /* byte_fallback */
    TX_GOTO(tx__pb_put_bytes(s, 2, inner.data, inner.len));
    inner.len = 0;
    TX_GOTO(tx__pb_put_bytes(&inner, 1, "identity", 8));
    TX_GOTO(tx__pb_put_varint(&inner, 3, 1)); /* add_dummy_prefix */
    TX_GOTO(tx__pb_put_varint(&inner, 4, 0)); /* remove_extra_whitespaces */
    TX_GOTO(tx__pb_put_varint(&inner, 5, 1)); /* escape_whitespaces */
    TX_GOTO(tx__pb_put_bytes(s, 3, inner.data, inner.len));
out:
    tx_str_free(&inner);
    return st;
}

tx_status tx__put_sp_bpe_model(tx_str *s, const tx_vocab_trainer *t)
{
    return put_model(s, t, TX__SP_BPE);
}

tx_status tx__put_sp_unigram_model(tx_str *s, const tx_vocab_trainer *t)
{
    return put_model(s, t, TX__SP_UNIGRAM);
}

/* ---- tokenizer.json ---- */

static tx_status put_json(tx_str *s, const char *bytes, size_t n)
{
    TX_TRY(tx_str_puts(s, "\""));
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c < 0x20 || c == 0x7F)
            TX_TRY(tx_str_printf(s, "\\u%04x", c));
        else if (c == '"' || c == '\\')
            TX_TRY(tx_str_printf(s, "\\%c", c));
        else
            TX_TRY(tx_str_append(s, &c, 1));
    }
    return tx_str_puts(s, "\"");
}

static tx_status put_token(tx_str *s, const tx_vocab_trainer *t, uint32_t id)
{
    size_t n;
    const char *piece = tx__strings_at(&t->token, id, &n);
    return put_json(s, piece, n);
}

static tx_status put_beginning(tx_str *s, const tx_vocab_trainer *t)
{
    TX_TRY(tx_str_puts(s, "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": ["));
    for (uint32_t id = 0; id < t->special.n; id++) {
        TX_TRY(tx_str_printf(s, "%s{\"id\": %u, \"content\": ", id ? ", " : "", id));
        TX_TRY(put_token(s, t, id));
        TX_TRY(tx_str_puts(s, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                              "\"normalized\": false, \"special\": true}"));
    }
    return tx_str_puts(
        s, "],\n\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": "
           "\"\xE2\x96\x81\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": "
           "\"\xE2\x96\x81\"}]}, \"pre_tokenizer\": null, \"post_processor\": null, \"decoder\": {\"type\": "
           "\"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"\xE2\x96\x81\"}, "
           "\"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", "
           "\"content\": \" \", \"start\": 1, \"stop\": 0}]},\n\"model\": ");
}

/* Every two pieces that make a piece, the strongest piece first. */
static tx_status put_merges(tx_str *s, const tx_vocab_trainer *t)
{
    bool any = false;
    for (uint32_t id = (uint32_t)first_piece(t); id < t->token.n; id++) {
        size_t n;
        const char *piece = tx__strings_at(&t->token, id, &n);
        for (size_t at = 1; at < n; at++) {
            int64_t left, right;
            if (((unsigned char)piece[at] & 0xC0) == 0x80) continue;
            left = tx__strings_find(&t->token, piece, at);
            right = tx__strings_find(&t->token, piece + at, n - at);
            if (left < (int64_t)first_piece(t) || right < (int64_t)first_piece(t)) continue;
            TX_TRY(tx_str_puts(s, any ? ", [" : "["));
            TX_TRY(put_json(s, piece, at));
            TX_TRY(tx_str_puts(s, ", "));
            TX_TRY(put_json(s, piece + at, n - at));
            TX_TRY(tx_str_puts(s, "]"));
            any = true;
        }
    }
    return TX_OK;
}

tx_status tx__put_sp_bpe_tokenizer_json(tx_str *s, const tx_vocab_trainer *t)
{
    TX_TRY(put_beginning(s, t));
    TX_TRY(tx_str_puts(s, "{\"type\": \"BPE\", \"dropout\": null, \"unk_token\": \"<unk>\", "
                          "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": true, "
                          "\"byte_fallback\": true, \"ignore_merges\": false, \"vocab\": {"));
    for (uint32_t id = 0; id < t->token.n; id++) {
        TX_TRY(tx_str_puts(s, id ? ", " : ""));
        TX_TRY(put_token(s, t, id));
        TX_TRY(tx_str_printf(s, ": %u", id));
    }
    TX_TRY(tx_str_puts(s, "},\n\"merges\": ["));
    TX_TRY(put_merges(s, t));
    return tx_str_puts(s, "]}}\n");
}

tx_status tx__put_sp_unigram_tokenizer_json(tx_str *s, const tx_vocab_trainer *t)
{
    TX_TRY(put_beginning(s, t));
    TX_TRY(tx_str_puts(s, "{\"type\": \"Unigram\", \"unk_id\": 0, \"byte_fallback\": true, \"vocab\": ["));
    for (uint32_t id = 0; id < t->token.n; id++) {
        TX_TRY(tx_str_puts(s, id ? ", [" : "["));
        TX_TRY(put_token(s, t, id));
        TX_TRY(tx_str_puts(s, ", "));
        TX_TRY(tx_str_put_f64(s, (double)t->score[id]));
        TX_TRY(tx_str_puts(s, "]"));
    }
    return tx_str_puts(s, "]}}\n");
}
