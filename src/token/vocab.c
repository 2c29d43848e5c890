/* vocab.c - reads vocab.json and merges.txt. Both are a user's files, so nothing in them is believed: after this, ids
 * are 0..n-1, all bytes have a token, and every merge joins two tokens to a third with the same bytes. */
#include "token/vocab.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "token/utf8.h"

#define MAX_FILE_BYTES \
    ((size_t)64 << 20) /* GPT-2's files have 1 and 0.5 MB, the largest vocabularies in use below 20 */

/* ---- names in messages ---- */

/* A token or line as it can stand in a one-line message: cut after 60 bytes, control bytes as '?'. */
typedef struct shown {
    char text[72];
} shown;

static shown show(const char *bytes, size_t n)
{
    shown s = { { 0 } };
    size_t k = n < 60 ? n : 60;
    while (k < n && k > 0 && ((unsigned char)bytes[k] & 0xC0) == 0x80) k--; /* not in the middle of a character */
    for (size_t i = 0; i < k; i++) s.text[i] = (unsigned char)bytes[i] < 0x20 || bytes[i] == 0x7F ? '?' : bytes[i];
    if (k < n) memcpy(s.text + k, "...", 4);
    return s;
}

/* Appends the bytes that symbols[0..n) spell. *wrong is the first character that is no symbol, -1 if all are. */
static tx_status bytes_of_symbols(tx_str *out, const char *symbols, size_t n, int64_t *wrong)
{
    *wrong = -1;
    for (size_t i = 0; i < n;) {
        uint32_t c;
        i += tx__utf8_next((const unsigned char *)symbols + i, n - i, &c);
        int byte = tx__byte_of_symbol(c);
        if (byte < 0) {
            *wrong = c;
            return TX_OK;
        }
        char b = (char)byte;
        TX_TRY(tx_str_append(out, &b, 1));
    }
    return TX_OK;
}

/* ---- vocab.json ---- */

/* key_of[id] = token, for ids that turn out to be 0..n-1, each once. */
static tx_status order_by_id(const char **key_of, json_t *root, const char *file)
{
    size_t n = json_object_size(root);
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        shown token = show(key, strlen(key));
        if (!json_is_integer(value))
            return TX_FAIL(TX_ERR_FORMAT, "%s: the id of token \"%s\" is not a whole number", file, token.text);
        json_int_t id = json_integer_value(value);
        if (id < 0 || (uint64_t)id >= n)
            return TX_FAIL(TX_ERR_FORMAT, "%s: token \"%s\" has id %lld, but %zu tokens must have the ids 0 to %zu",
                           file, token.text, (long long)id, n, n - 1);
        if (key_of[id])
            return TX_FAIL(TX_ERR_FORMAT, "%s: tokens \"%s\" and \"%s\" both have id %lld", file,
                           show(key_of[id], strlen(key_of[id])).text, token.text, (long long)id);
        key_of[id] = key;
    }
    return TX_OK;
}

static tx_status add_token(tx__vocab *v, int32_t id, const char *key, tx_str *bytes, const char *file)
{
    size_t n = strlen(key);
    int64_t wrong;
    uint32_t number;
    int fresh;
    bytes->len = 0;
    if (n == 0) return TX_FAIL(TX_ERR_FORMAT, "%s: the token with id %d is empty", file, id);
    TX_TRY(bytes_of_symbols(bytes, key, n, &wrong));
    if (wrong >= 0 && (n < 3 || key[0] != '<' || key[n - 1] != '>'))
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: token \"%s\" has the character U+%04X, which is none of GPT-2's byte symbols: "
                       "this is not the vocabulary of a byte-level BPE",
                       file, show(key, n).text, (unsigned)wrong);
    if (!strcmp(key, TX__EOD_TOKEN)) v->eod = id;
    if (wrong >= 0) return tx__strings_add_hidden(&v->token, key, n); /* special: stands for its spelling */
    TX_TRY(tx__strings_add(&v->token, bytes->data, bytes->len, &number, &fresh));
    TX_ASSERT(fresh && number == (uint32_t)id); /* symbols and bytes are one to one, and keys are distinct */
    if (bytes->len == 1) v->byte_id[(unsigned char)bytes->data[0]] = id;
    return TX_OK;
}

static tx_status check_bytes(const tx__vocab *v, const char *file)
{
    for (unsigned b = 0; b < 256; b++) {
        if (v->byte_id[b] >= 0) continue;
        return TX_FAIL(
            TX_ERR_FORMAT,
            "%s: the symbol of byte 0x%02X (U+%04X) is missing: this is not the vocabulary of a byte-level BPE", file,
            b, tx__symbol_of_byte(b));
    }
    return TX_OK;
}

static tx_status read_vocab(tx__vocab *v, const char *file)
{
    tx_status st;
    tx_str text = { 0 }, bytes = { 0 };
    json_t *root = NULL;
    const char **key_of = NULL;
    json_error_t at;

    v->eod = -1;
    for (int b = 0; b < 256; b++) v->byte_id[b] = -1;
    TX_GOTO(tx_file_read(file, MAX_FILE_BYTES, &text));
    root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &at);
    if (!root) {
        st = TX_FAIL(TX_ERR_FORMAT, "%s:%d:%d: not JSON: %s", file, at.line, at.column,
                     show(at.text, strlen(at.text)).text);
        goto out;
    }
    if (!json_is_object(root)) {
        st = TX_FAIL(TX_ERR_FORMAT, "%s: not a JSON object of tokens and their ids: {\"token\": 0, ...}", file);
        goto out;
    }
    size_t n = json_object_size(root);
    TX_GOTO(tx_alloc(&key_of, n, sizeof *key_of, "a vocabulary"));
    TX_GOTO(order_by_id(key_of, root, file));
    for (size_t id = 0; id < n; id++) TX_GOTO(add_token(v, (int32_t)id, key_of[id], &bytes, file));
    TX_GOTO(check_bytes(v, file));
out:
    tx_free(key_of);
    json_decref(root);
    tx_str_free(&bytes);
    tx_str_free(&text);
    return st;
}

/* ---- merges.txt ---- */

typedef struct merge_reader {
    tx__vocab *v;
    const char *vocab_file, *file;
    size_t line; /* from 1 */
    tx_str bytes;
} merge_reader;

static tx_status bad_line(const merge_reader *r, const char *line, size_t n, const char *why)
{
    return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"%s\" %s", r->file, r->line, show(line, n).text, why);
}

/* Id of the token that symbols[0..n) spell; r->bytes gets its bytes appended. */
static tx_status find_token(merge_reader *r, const char *symbols, size_t n, int32_t *id)
{
    int64_t wrong;
    size_t before = r->bytes.len;
    TX_TRY(bytes_of_symbols(&r->bytes, symbols, n, &wrong));
    int64_t found = wrong >= 0 ? -1 : tx__strings_find(&r->v->token, r->bytes.data + before, r->bytes.len - before);
    *id = (int32_t)found;
    if (found >= 0) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT,
                   "%s:%zu: \"%s\" is not in %s: merges and vocabulary do not fit, give two files of one model",
                   r->file, r->line, show(symbols, n).text, r->vocab_file);
}

static tx_status read_merge(merge_reader *r, const char *line, size_t n)
{
    const char *blank = memchr(line, ' ', n);
    size_t n_left = blank ? (size_t)(blank - line) : 0;
    if (!blank || n_left == 0 || n_left + 1 == n || memchr(blank + 1, ' ', n - n_left - 1))
        return bad_line(r, line, n, "is not a merge: two tokens with one blank between them");
    int32_t left, right;
    r->bytes.len = 0;
    TX_TRY(find_token(r, line, n_left, &left));
    TX_TRY(find_token(r, blank + 1, n - n_left - 1, &right));
    int64_t merged = tx__strings_find(&r->v->token, r->bytes.data, r->bytes.len);
    if (merged < 0) {
        tx_str spelled = { 0 }; /* the two parts without the blank, for the message */
        TX_TRY(tx_str_printf(&spelled, "%.*s%.*s", (int)n_left, line, (int)(n - n_left - 1), blank + 1));
        tx_status st = TX_FAIL(TX_ERR_FORMAT,
                               "%s:%zu: the merged token \"%s\" is not in %s: merges and vocabulary do not fit, "
                               "give two files of one model",
                               r->file, r->line, show(spelled.data, spelled.len).text, r->vocab_file);
        tx_str_free(&spelled);
        return st;
    }
    uint32_t *rank;
    TX_TRY(tx__pairs_at(&r->v->rank, tx__pair(left, right), &rank));
    if (*rank != TX__NO_PAIR) return bad_line(r, line, n, "is there a second time: each merge must be there once");
    *rank = (uint32_t)r->v->rank.n - 1;
    r->v->merged[*rank] = (int32_t)merged;
    return TX_OK;
}

static tx_status read_merges(tx__vocab *v, const char *file, const char *vocab_file)
{
    tx_status st;
    tx_str text = { 0 };
    merge_reader r = { .v = v, .vocab_file = vocab_file, .file = file };
    TX_GOTO(tx_file_read(file, MAX_FILE_BYTES, &text));

    size_t n_lines = 1;
    for (size_t i = 0; i < text.len; i++) n_lines += text.data[i] == '\n';
    TX_GOTO(tx_alloc(&v->merged, n_lines, sizeof *v->merged, "merges"));
    for (size_t i = 0; i < text.len;) {
        const char *line = text.data + i, *end = memchr(line, '\n', text.len - i);
        size_t n = end ? (size_t)(end - line) : text.len - i;
        i += n + 1;
        if (n && line[n - 1] == '\r') n--;
        if (++r.line == 1 && n >= 8 && !memcmp(line, "#version", 8)) continue;
        TX_GOTO(read_merge(&r, line, n));
    }
out:
    tx_str_free(&r.bytes);
    tx_str_free(&text);
    return st;
}

/* ---- both ---- */

tx_status tx__vocab_load(tx__vocab *out, const char *vocab_file, const char *merge_file)
{
    tx_status st;
    TX_GOTO(read_vocab(out, vocab_file));
    TX_GOTO(read_merges(out, merge_file, vocab_file));
    return TX_OK;
out:
    tx__vocab_free(out);
    return st;
}

void tx__vocab_free(tx__vocab *v)
{
    tx__strings_free(&v->token);
    tx__pairs_free(&v->rank);
    tx_free(v->merged);
    *v = (tx__vocab){ 0 };
}
