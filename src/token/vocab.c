/* vocab.c - reads vocab.json and merges.txt, and the same out of tokenizer.json. They are a user's files, so everything
 * in them is checked: after this, no two tokens share an id, all bytes have a token, and every merge joins two tokens
 * to a third with the same bytes. */
#include "token/vocab.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "token/byte_symbols.h"
#include "token/file_kind.h"

/* GPT-2's files have 1 and 0.5 MB, the largest vocabularies in use below 40, and a quarter of a million tokens */
#define MAX_FILE_BYTES ((size_t)128 << 20)
#define MAX_IDS        ((size_t)4 << 20)

/* ---- names in messages ---- */

tx__shown tx__show(const char *bytes, size_t n)
{
    tx__shown s = { { 0 } };
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

/* What differs between the two kinds of files. */
typedef struct source {
    const char *file;
    bool json;  /* tokenizer.json */
    bool plain; /* tokens are text, not byte symbols */
} source;

/* key_of[id] = token, for ids that turn out to be below n, each once. */
static tx_status order_by_id(const char **key_of, size_t n, json_t *root, const char *file)
{
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        tx__shown token = tx__show(key, strlen(key));
        if (!json_is_integer(value))
            return TX_FAIL(TX_ERR_FORMAT, "%s: the id of token \"%s\" is not a whole number", file, token.text);
        json_int_t id = json_integer_value(value);
        if (id < 0 || (uint64_t)id >= n)
            return TX_FAIL(TX_ERR_FORMAT, "%s: token \"%s\" has id %lld, but %zu tokens must have the ids 0 to %zu",
                           file, token.text, (long long)id, json_object_size(root), n - 1);
        if (key_of[id])
            return TX_FAIL(TX_ERR_FORMAT, "%s: tokens \"%s\" and \"%s\" both have id %lld", file,
                           tx__show(key_of[id], strlen(key_of[id])).text, token.text, (long long)id);
        key_of[id] = key;
    }
    return TX_OK;
}

static tx_status add_token(tx__vocab *v, int32_t id, const char *key, tx_str *bytes, const source *src)
{
    size_t n = strlen(key);
    int64_t wrong;
    uint32_t number;
    int fresh;
    bytes->len = 0;
    if (n == 0 && src->plain) return tx__strings_add_hidden(&v->token, "", 0); /* no text has it */
    if (n == 0) return TX_FAIL(TX_ERR_FORMAT, "%s: the token with id %d is empty", src->file, id);
    if (src->plain) {
        TX_TRY(tx__strings_add(&v->token, key, n, &number, &fresh));
        TX_ASSERT(fresh && number == (uint32_t)id); /* keys are distinct */
        return TX_OK;
    }
    TX_TRY(bytes_of_symbols(bytes, key, n, &wrong));
    if (wrong >= 0 && !src->json && (n < 3 || key[0] != '<' || key[n - 1] != '>'))
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: token \"%s\" has the character U+%04X, which is none of GPT-2's byte symbols: "
                       "this is not the vocabulary of a byte-level BPE",
                       src->file, tx__show(key, n).text, (unsigned)wrong);
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

static tx_status add_tokens(tx__vocab *v, json_t *root, const source *src)
{
    tx_status st;
    tx_str bytes = { 0 };
    const char **key_of = NULL;
    const char *key;
    json_t *value;
    size_t n = json_object_size(root);
    v->eod = -1;
    for (int b = 0; b < 256; b++) v->byte_id[b] = -1;
    if (src->json) json_object_foreach(root, key, value)
        {
            json_int_t id = json_integer_value(value);
            if (id >= (json_int_t)n) n = id < (json_int_t)MAX_IDS ? (size_t)id + 1 : MAX_IDS;
        }
    TX_GOTO(tx_alloc(&key_of, n, sizeof *key_of, "a vocabulary"));
    TX_GOTO(order_by_id(key_of, n, root, src->file));
    for (size_t id = 0; id < n; id++)
        TX_GOTO(key_of[id] ? add_token(v, (int32_t)id, key_of[id], &bytes, src)
                           : tx__strings_add_hidden(&v->token, "", 0));
    if (!src->plain) TX_GOTO(check_bytes(v, src->file));
out:
    tx_free(key_of);
    tx_str_free(&bytes);
    return st;
}

tx_status tx__vocab_json(json_t **out, const char *file, size_t more_flags)
{
    tx_str text = { 0 };
    json_error_t at;
    TX_TRY(tx_file_read(file, MAX_FILE_BYTES, &text));
    *out = tx_json_load(text.data, text.len, JSON_REJECT_DUPLICATES | more_flags, &at);
    tx_str_free(&text);
    if (*out) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s:%d:%d: not JSON: %s", file, at.line, at.column,
                   tx__show(at.text, strlen(at.text)).text);
}

static tx_status read_vocab(tx__vocab *v, const char *file)
{
    json_t *root;
    TX_TRY(tx__vocab_json(&root, file, 0));
    tx_status st;
    if (json_is_object(root))
        st = add_tokens(v, root, &(source){ .file = file });
    else
        st = TX_FAIL(TX_ERR_FORMAT, "%s: not a JSON object of tokens and their ids: {\"token\": 0, ...}", file);
    json_decref(root);
    return st;
}

/* ---- merges ---- */

typedef struct merge_reader {
    tx__vocab *v;
    const char *file, *vocab; /* vocab: where the tokens come from, and what to do if they do not fit */
    const char *place;        /* of a merge in the file, a format for its number */
    size_t number;
    bool plain;      /* tokens are text */
    size_t n_prefix; /* bytes that a merge drops of its right token, continuing_subword_prefix */
    tx_str bytes;
} merge_reader;

/* <file><place>: "<what>" <why><whose> */
static tx_status bad_merge(const merge_reader *r, const char *what, size_t n, const char *why, const char *whose)
{
    char place[48];
    snprintf(place, sizeof place, r->place, r->number);
    return TX_FAIL(TX_ERR_FORMAT, "%s%s: \"%s\" %s%s", r->file, place, tx__show(what, n).text, why, whose);
}

static tx_status bad_merged(const merge_reader *r, const tx_str *spelled)
{
    char place[48];
    snprintf(place, sizeof place, r->place, r->number);
    return TX_FAIL(TX_ERR_FORMAT, "%s%s: the merged token \"%s\" is not in %s", r->file, place,
                   tx__show(spelled->data, spelled->len).text, r->vocab);
}

/* Id of the token that symbols[0..n) spell; r->bytes gets its bytes appended. */
static tx_status find_token(merge_reader *r, const char *symbols, size_t n, int32_t *id)
{
    int64_t wrong = -1;
    size_t before = r->bytes.len;
    if (r->plain)
        TX_TRY(tx_str_append(&r->bytes, symbols, n));
    else
        TX_TRY(bytes_of_symbols(&r->bytes, symbols, n, &wrong));
    int64_t found = wrong >= 0 ? -1 : tx__strings_find(&r->v->token, r->bytes.data + before, r->bytes.len - before);
    *id = (int32_t)found;
    return found >= 0 ? TX_OK : bad_merge(r, symbols, n, "is not in ", r->vocab);
}

static tx_status add_merge(merge_reader *r, const char *left, size_t n_left, const char *right, size_t n_right)
{
    int32_t a, b;
    uint32_t *rank = NULL;
    tx_str spelled = { 0 };
    tx_status st;
    r->bytes.len = 0;
    TX_TRY(find_token(r, left, n_left, &a));
    size_t middle = r->bytes.len;
    TX_TRY(find_token(r, right, n_right, &b));
    if (r->n_prefix) { /* the right token goes on inside a word and has the prefix that says so */
        if (n_right < r->n_prefix)
            return bad_merge(r, right, n_right, "is shorter than model.continuing_subword_prefix", "");
        memmove(r->bytes.data + middle, r->bytes.data + middle + r->n_prefix, r->bytes.len - middle - r->n_prefix);
        r->bytes.len -= r->n_prefix;
    }
    int64_t merged = tx__strings_find(&r->v->token, r->bytes.data, r->bytes.len);
    if (merged >= 0) {
        TX_TRY(tx__pairs_at(&r->v->rank, tx__pair(a, b), &rank));
        if (*rank == TX__NO_PAIR) {
            *rank = (uint32_t)r->v->rank.n - 1;
            r->v->merged[*rank] = (int32_t)merged;
            return TX_OK;
        }
    }
    TX_GOTO(tx_str_printf(&spelled, "%.*s%s%.*s", (int)n_left, left, rank ? " " : "", (int)n_right, right));
    st = rank ? bad_merge(r, spelled.data, spelled.len, "is there a second time: each merge must be there once", "")
              : bad_merged(r, &spelled);
out:
    tx_str_free(&spelled);
    return st;
}

static tx_status read_merge(merge_reader *r, const char *line, size_t n)
{
    const char *blank = memchr(line, ' ', n);
    size_t n_left = blank ? (size_t)(blank - line) : 0;
    if (!blank || n_left == 0 || n_left + 1 == n || memchr(blank + 1, ' ', n - n_left - 1))
        return bad_merge(r, line, n, "is not a merge: two tokens with one blank between them", "");
    return add_merge(r, line, n_left, blank + 1, n - n_left - 1);
}

/* In a list as it is learned, what a merge takes is a byte or what earlier ones have made. Where only a later one makes
 * it the lines have been sorted or shuffled, and every text would come out wrong. Where a later one makes it once more,
 * it matters that OpenAI's rule goes in rounds. */
static tx_status check_order(tx__vocab *v, const char *file, size_t first_line)
{
    enum { FIRST, LAST };
    uint32_t(*maker)[2], n = (uint32_t)v->rank.n, bad = n, missing = 0;
    TX_TRY(tx_alloc(&maker, v->token.n, sizeof *maker, "merges"));
    memset(maker, 0xFF, v->token.n * sizeof *maker);
    for (uint32_t rank = 0; rank < n; rank++) {
        uint32_t *m = maker[v->merged[rank]];
        m[LAST] = rank;
        if (m[FIRST] == TX__NO_PAIR) m[FIRST] = rank;
    }
    for (size_t i = 0; v->rank.slot && i <= v->rank.mask; i++) {
        const tx__pair_slot *s = &v->rank.slot[i];
        for (int side = 32; s->key && side >= 0; side -= 32) {
            const uint32_t *m = maker[(uint32_t)((s->key - 1) >> side)];
            if (m[FIRST] == TX__NO_PAIR) continue;
            v->in_rounds |= m[LAST] > s->value;
            if (m[FIRST] <= s->value || s->value >= bad) continue;
            bad = s->value;
            missing = m[FIRST];
        }
    }
    tx_free(maker);
    if (bad == n) return TX_OK;
    return TX_FAIL(
        TX_ERR_FORMAT,
        "%s:%zu: this merge takes what only line %zu makes: the lines are not in the order in which they were "
        "learned, give the file as it was written",
        file, first_line + bad, first_line + missing);
}

static tx_status read_merges(tx__vocab *v, const char *file, const char *vocab_file)
{
    tx_status st;
    tx_str text = { 0 }, vocab = { 0 };
    merge_reader r = { .v = v, .file = file, .place = ":%zu" };
    TX_GOTO(tx_str_printf(&vocab, "%s: merges and vocabulary do not fit, give two files of one model", vocab_file));
    r.vocab = vocab.data;
    TX_GOTO(tx_file_read(file, MAX_FILE_BYTES, &text));

    size_t n_lines = 1;
    for (size_t i = 0; i < text.len; i++) n_lines += text.data[i] == '\n';
    TX_GOTO(tx_alloc(&v->merged, n_lines, sizeof *v->merged, "merges"));
    for (size_t i = 0; i < text.len;) {
        const char *line = text.data + i, *end = memchr(line, '\n', text.len - i);
        size_t n = end ? (size_t)(end - line) : text.len - i;
        i += n + 1;
        if (n && line[n - 1] == '\r') n--;
        if (++r.number == 1 && n >= 8 && !memcmp(line, "#version", 8)) continue;
        TX_GOTO(read_merge(&r, line, n));
    }
    TX_GOTO(check_order(v, file, r.number + 1 - v->rank.n));
out:
    tx_str_free(&r.bytes);
    tx_str_free(&text);
    tx_str_free(&vocab);
    return st;
}

static tx_status merges_from_json(tx__vocab *v, json_t *merges, const char *file, bool plain, size_t n_prefix)
{
    tx_status st = TX_OK;
    merge_reader r = { .v = v, .file = file, .place = ": model.merges[%zu]", .plain = plain, .n_prefix = n_prefix };
    r.vocab = "model.vocab";
    TX_GOTO(tx_alloc(&v->merged, json_array_size(merges) + 1, sizeof *v->merged, "merges"));
    for (; r.number < json_array_size(merges); r.number++) {
        json_t *merge = json_array_get(merges, r.number), *left = json_array_get(merge, 0);
        json_t *right = json_array_get(merge, 1);
        if (json_is_string(merge)) {
            TX_GOTO(read_merge(&r, json_string_value(merge), json_string_length(merge)));
        } else if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right)) {
            TX_GOTO(add_merge(&r, json_string_value(left), json_string_length(left), json_string_value(right),
                              json_string_length(right)));
        } else {
            st = TX_FAIL(TX_ERR_FORMAT, "%s: model.merges[%zu]: is not a merge: \"a b\" or [\"a\", \"b\"]", file,
                         r.number);
            goto out;
        }
    }
out:
    tx_str_free(&r.bytes);
    return st;
}

/* ---- both ---- */

tx_status tx__vocab_load(tx__vocab *out, const char *vocab_file, const char *merge_file)
{
    tx_status st = read_vocab(out, vocab_file);
    if (st) st = tx__file_is_wrong(st, vocab_file, TX__FILE_VOCAB_JSON);
    if (!st && (st = read_merges(out, merge_file, vocab_file))) st = tx__file_is_wrong(st, merge_file, TX__FILE_MERGES);
    if (st) goto out;
    return TX_OK;
out:
    tx__vocab_free(out);
    return st;
}

tx_status tx__vocab_from_json(tx__vocab *out, json_t *tokens, json_t *merges, const char *file)
{
    tx_status st;
    TX_GOTO(add_tokens(out, tokens, &(source){ .file = file, .json = true }));
    TX_GOTO(merges_from_json(out, merges, file, false, 0));
    return TX_OK;
out:
    tx__vocab_free(out);
    return st;
}

tx_status tx__vocab_plain_from_json(tx__vocab *out, json_t *tokens, json_t *merges, size_t n_prefix, const char *file)
{
    tx_status st;
    TX_GOTO(add_tokens(out, tokens, &(source){ .file = file, .json = true, .plain = true }));
    if (merges) TX_GOTO(merges_from_json(out, merges, file, true, n_prefix));
    return TX_OK;
out:
    tx__vocab_free(out);
    return st;
}

bool tx__vocab_has_bytes(json_t *tokens)
{
    for (unsigned b = 0; b < 256; b++) {
        char key[8];
        uint32_t c = tx__symbol_of_byte(b);
        key[0] = (char)(c < 0x80 ? c : 0xC0 | c >> 6);
        key[1] = (char)(c < 0x80 ? 0 : 0x80 | (c & 0x3F));
        key[2] = 0;
        if (!json_object_get(tokens, key)) return false;
    }
    return true;
}

void tx__vocab_free(tx__vocab *v)
{
    tx__strings_free(&v->token);
    tx__pairs_free(&v->rank);
    tx_free(v->merged);
    *v = (tx__vocab){ 0 };
}
