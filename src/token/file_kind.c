/* file_kind.c - tells tokenizers' files apart by what only one of them has. */
#include "token/file_kind.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum { MAX_FILE_BYTES = 64 << 20 };

static const struct {
    const char *name, *reader;
} kinds[] = {
    [TX__FILE_VOCAB_JSON] = { "a vocab.json of byte-level BPE", "GPT2BPETokenizer reads it, with --merge-file" },
    [TX__FILE_MERGES] = { "a merges.txt of byte-level BPE", "it is the --merge-file of GPT2BPETokenizer" },
    [TX__FILE_VOCAB_TXT] = { "a vocab.txt of WordPiece",
                             "--tokenizer-type BertWordPieceLowerCase or BertWordPieceCase reads it" },
    [TX__FILE_TOKENIZER_JSON] = { "a tokenizer.json", "--tokenizer-type HFTokenizer --tokenizer-model FILE reads it" },
    [TX__FILE_SENTENCEPIECE] = { "a SentencePiece model", "--tokenizer-type Llama2Tokenizer, GPTSentencePieceTokenizer "
                                                          "or SentencePieceTokenizer "
                                                          "with --tokenizer-model FILE reads it" },
};

static bool has(const tx_str *text, const char *part)
{
    return memmem(text->data, text->len, part, strlen(part)) != NULL;
}

/* Begins with a piece whose first field is a short text: "<unk>" as a rule. */
static bool is_sentencepiece(const tx_str *text)
{
    const unsigned char *p = (const unsigned char *)text->data;
    return text->len > 8 && p[0] == 0x0A && p[1] < 0x80 && p[2] == 0x0A && p[3] > 0 && p[3] + 2 <= p[1] &&
           text->len > (size_t)p[3] + 4 && (p[3] + 2 == p[1] || p[p[3] + 4] == 0x15 || p[p[3] + 4] == 0x18);
}

static tx__file_kind kind_of(const tx_str *text)
{
    if (!text->len) return TX__FILE_OTHER;
    if (is_sentencepiece(text)) return TX__FILE_SENTENCEPIECE;
    if (*text->data == '{' && (has(text, "\"added_tokens\"") || has(text, "\"merges\"")))
        return TX__FILE_TOKENIZER_JSON;
    if (*text->data == '{') /* a token that begins with the symbol of the blank */
        return has(text, "\"\\u0120") || has(text, "\"\xc4\xa0") ? TX__FILE_VOCAB_JSON : TX__FILE_OTHER;
    if (!strncmp(text->data, "#version", 8)) return TX__FILE_MERGES;
    return !strncmp(text->data, "[UNK]", 5) || has(text, "\n[UNK]\n") || has(text, "\n[UNK]\r") ? TX__FILE_VOCAB_TXT
                                                                                                : TX__FILE_OTHER;
}

tx_status tx__file_is_wrong(tx_status st, const char *file, tx__file_kind wanted)
{
    char why[2048];
    tx_str text = { 0 };
    tx__file_kind kind = TX__FILE_OTHER;
    if (st != TX_ERR_FORMAT && st != TX_ERR_UNSUPPORTED) return st;
    snprintf(why, sizeof why, "%s", tx_last_error());
    if (!tx_file_read(file, MAX_FILE_BYTES, &text)) kind = kind_of(&text);
    tx_str_free(&text);
    if (kind == TX__FILE_OTHER || kind == wanted) return TX_FAIL(st, "%s", why);
    return TX_FAIL(TX_ERR_FORMAT, "%s: is %s, not %s; %s", file, kinds[kind].name, kinds[wanted].name,
                   kinds[kind].reader);
}
