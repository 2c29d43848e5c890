/* tokenizer_tiktoken.c - tiktoken's byte-level BPE: a merge is whatever makes a token, and the token with the smallest
 * rank is made first. It is read from
 *
 *  - lines "BASE64 RANK", as OpenAI, Meta and Alibaba publish them: a rank is an id, and special tokens have others;
 *  - the JSON list [{"rank": 0, "token_bytes": BASE64, "token_str": ...}, ...] of Megatron Core's TikTokenizer, whose
 * ids begin after the special tokens.
 *
 *  Every pair of tokens that makes a third is listed when the file is opened; then it is bpe.c's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "token/added_tokens.h"
#include "token/base64.h"
#include "token/byte_bpe.h"
#include "token/file_kind.h"
#include "token/json_part.h"
#include "token/split_pattern.h"
#include "token/tokenizer.h"

#define MAX_FILE_BYTES ((size_t)256 << 20)
#define MAX_RANK       ((int64_t)1 << 21)

enum { CORE_IDS = 131072 };

typedef struct tiktoken_tokenizer {
    tx_tokenizer base;
    tx__byte_bpe bpe;    /* vocab.token: special tokens are hidden and stand for their spelling */
    tx__strings name;    /* of the special tokens */
    int32_t *special_id; /* [number of the name] */
    tx__added_set found; /* special tokens in a text */
    enum tx_tiktoken_pattern pattern;
} tiktoken_tokenizer;

/* ---- text to ids and back ---- */

typedef struct encoding {
    const tiktoken_tokenizer *t;
    tx_ids *out;
} encoding;

static tx_status encode_part(void *user, const unsigned char *text, size_t n)
{
    const encoding *e = user;
    return tx__byte_bpe_encode(&e->t->bpe, text, n, e->out);
}

static tx_status tiktoken_encode(const tx_tokenizer *t, const unsigned char *text, size_t n, tx_ids *out)
{
    encoding e = { (const tiktoken_tokenizer *)t, out };
    return tx__added_split(&e.t->found, text, n, out, encode_part, &e);
}

static tx_status tiktoken_decode(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out)
{
    const tx__strings *token = &((const tiktoken_tokenizer *)t)->bpe.vocab.token;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *bytes = tx__strings_at(token, (uint32_t)ids[i], &len);
        if (!len)
            return TX_FAIL(TX_ERR_ARG, "token id %d (number %zu of %zu) is not in the vocabulary, which has holes",
                           ids[i], i + 1, n);
        TX_TRY(tx__bytes_append(out, bytes, len));
    }
    return TX_OK;
}

static int32_t tiktoken_special(const tx_tokenizer *t, const char *name)
{
    const tiktoken_tokenizer *k = (const tiktoken_tokenizer *)t;
    int64_t i = tx__strings_find(&k->name, name, strlen(name));
    return i >= 0 ? k->special_id[i] : -1;
}

static void tiktoken_hash(const tx_tokenizer *t, XXH3_state_t *s)
{
    const tiktoken_tokenizer *k = (const tiktoken_tokenizer *)t;
    static const char kind[] = "tiktoken";
    uint32_t pattern = (uint32_t)k->pattern;
    for (uint32_t id = 0; id < k->bpe.vocab.token.n; id++) {
        size_t n;
        const char *token = tx__strings_at(&k->bpe.vocab.token, id, &n);
        tx__hash_token(s, token, n);
    }
    for (uint32_t i = 0; i < k->name.n; i++) XXH3_128bits_update(s, &k->special_id[i], sizeof k->special_id[i]);
    XXH3_128bits_update(s, kind, sizeof kind);
    XXH3_128bits_update(s, &pattern, sizeof pattern);
}

static void tiktoken_close(tx_tokenizer *t)
{
    tiktoken_tokenizer *k = (tiktoken_tokenizer *)t;
    tx__byte_bpe_free(&k->bpe);
    tx__strings_free(&k->name);
    tx_free(k->special_id);
    tx__added_set_free(&k->found);
    tx_free(k);
}

/* ---- the tokens of a file: ranks and bytes, in the order of ranks ---- */

typedef struct token_list {
    const char *file;
    tx_str bytes;
    struct token_entry {
        int64_t rank;
        size_t start, n; /* of its bytes */
        size_t place;    /* line, or number in the list */
    } * entry;
    size_t n, cap;
} token_list;

static tx_status add_entry(token_list *l, int64_t rank, const char *text, size_t n, size_t place)
{
    size_t start = l->bytes.len;
    if (l->n == l->cap) {
        size_t cap = l->cap + l->cap / 2 + 1024;
        TX_TRY(tx_realloc(&l->entry, cap, sizeof *l->entry, "a vocabulary"));
        l->cap = cap;
    }
    tx_status st = tx__base64_read(&l->bytes, text, n);
    if (st == TX_ERR_FORMAT || (!st && l->bytes.len == start))
        return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"%s\" is not a token in base64", l->file, place,
                       tx__show(text, n).text);
    if (!st) l->entry[l->n++] = (struct token_entry){ rank, start, l->bytes.len - start, place };
    return st;
}

static tx_status read_lines(token_list *l, const tx_str *text)
{
    size_t number = 0;
    for (size_t at = 0; at < text->len;) {
        const char *line = text->data + at, *end = memchr(line, '\n', text->len - at);
        size_t n = end ? (size_t)(end - line) : text->len - at;
        at += n + 1;
        number++;
        if (n && line[n - 1] == '\r') n--;
        if (!n) continue;
        const char *blank = memchr(line, ' ', n);
        size_t n_token = blank ? (size_t)(blank - line) : 0, digits = 0;
        int64_t rank = 0;
        for (size_t i = n_token + 1; blank && i < n && line[i] >= '0' && line[i] <= '9' && digits < 9; i++, digits++)
            rank = rank * 10 + (line[i] - '0');
        if (!digits || n_token + 1 + digits != n)
            return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"%s\" is not a token in base64, a blank and its rank", l->file,
                           number, tx__show(line, n).text);
        if (rank >= MAX_RANK)
            return TX_FAIL(TX_ERR_UNSUPPORTED, "%s:%zu: the rank %lld is too large: below %lld", l->file, number,
                           (long long)rank, (long long)MAX_RANK);
        TX_TRY(add_entry(l, rank, line, n_token, number));
    }
    return TX_OK;
}

/* As Megatron Core: only the first `most` tokens count. */
static tx_status read_list(token_list *l, json_t *list, size_t most)
{
    static const char *const keys[] = { "rank", "token_bytes", "token_str", NULL };
    size_t n = json_array_size(list);
    if (json_is_object(list))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: is a JSON object; triax reads the list of tokens (\"vocab\" of Mistral's tekken.json)",
                       l->file);
    for (size_t i = 0; i < n && i < most; i++) {
        char place[48];
        json_t *item = json_array_get(list, i), *rank = json_object_get(item, "rank");
        json_t *bytes = json_object_get(item, "token_bytes");
        snprintf(place, sizeof place, "[%zu]", i);
        TX_TRY(tx__json_only(item, l->file, place, keys));
        if (!json_is_integer(rank) || (size_t)json_integer_value(rank) != i || !json_is_string(bytes))
            return TX_FAIL(TX_ERR_FORMAT, "%s: %s is not {\"rank\": %zu, \"token_bytes\": \"...\", \"token_str\": ...}",
                           l->file, place, i);
        TX_TRY(add_entry(l, (int64_t)i, json_string_value(bytes), json_string_length(bytes), i));
        const struct token_entry *e = &l->entry[i];
        if (i < 256 && (e->n != 1 || (unsigned char)l->bytes.data[e->start] != i))
            return TX_FAIL(TX_ERR_FORMAT, "%s: %s is not the byte %zu, as the first 256 tokens must be", l->file, place,
                           i);
    }
    return TX_OK;
}

static int by_rank(const void *a, const void *b)
{
    const struct token_entry *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* ---- special tokens ---- */

/* Those that published vocabularies of lines have beside their ranks, by the number of ranks. */
static const struct {
    size_t n_ranks;
    int32_t id;
    const char *name; /* "%d": so many, counted from `from` */
    int32_t count, from;
} usual[] = {
    { 50256, 50256, "<|endoftext|>", 1, 0 },
    { 50280, 50256, "<|endoftext|>", 1, 0 },
    { 100256, 100257, "<|endoftext|>", 1, 0 },
    { 100256, 100258, "<|fim_prefix|>", 1, 0 },
    { 100256, 100259, "<|fim_middle|>", 1, 0 },
    { 100256, 100260, "<|fim_suffix|>", 1, 0 },
    { 100256, 100276, "<|endofprompt|>", 1, 0 },
    { 199998, 199999, "<|endoftext|>", 1, 0 },
    { 199998, 200018, "<|endofprompt|>", 1, 0 },
    { 128000, 128000, "<|begin_of_text|>", 1, 0 },
    { 128000, 128001, "<|end_of_text|>", 1, 0 },
    { 128000, 128002, "<|reserved_special_token_%d|>", 4, 0 },
    { 128000, 128006, "<|start_header_id|>", 1, 0 },
    { 128000, 128007, "<|end_header_id|>", 1, 0 },
    { 128000, 128008, "<|reserved_special_token_%d|>", 1, 4 },
    { 128000, 128009, "<|eot_id|>", 1, 0 },
    { 128000, 128010, "<|reserved_special_token_%d|>", 246, 5 },
    { 151643, 151643, "<|endoftext|>", 1, 0 },
    { 151643, 151644, "<|im_start|>", 1, 0 },
    { 151643, 151645, "<|im_end|>", 1, 0 },
    { 151643, 151646, "<|extra_%d|>", 205, 0 },
};

static const char *const core_names[] = { "<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>" };
enum { N_CORE_NAMES = sizeof core_names / sizeof *core_names };

static tx_status add_special(tiktoken_tokenizer *k, const char *name, int32_t id)
{
    uint32_t number = 0;
    int fresh = 0;
    if (*name) TX_TRY(tx__strings_add(&k->name, name, strlen(name), &number, &fresh));
    if (!fresh)
        return TX_FAIL(TX_ERR_ARG, "--tiktoken-special-tokens: \"%s\" is empty or there twice",
                       tx__show(name, strlen(name)).text);
    TX_TRY(tx_realloc(&k->special_id, k->name.n, sizeof *k->special_id, "special tokens"));
    k->special_id[number] = id;
    return TX_OK;
}

/* Ids 0 to n_special - 1, the first of them with names; Core's must be among them. */
static tx_status core_specials(tiktoken_tokenizer *k, const tx_tokenizer_files *from)
{
    const int32_t n = from->tiktoken.n_special;
    size_t n_names = from->tiktoken.special ? from->tiktoken.n_names : N_CORE_NAMES;
    const char *const *names = from->tiktoken.special ? (const char *const *)from->tiktoken.special : core_names;
    if (n_names > (size_t)n)
        return TX_FAIL(TX_ERR_ARG,
                       "--tiktoken-num-special-tokens %d is less than the %zu special tokens that have names", n,
                       n_names);
    for (size_t i = 0; i < n_names; i++) TX_TRY(add_special(k, names[i], (int32_t)i));
    for (size_t i = 0; i < N_CORE_NAMES; i++)
        if (tiktoken_special(&k->base, core_names[i]) < 0)
            return TX_FAIL(TX_ERR_ARG, "--tiktoken-special-tokens has no %s, which Megatron Core's tokenizer needs",
                           core_names[i]);
    for (int32_t i = (int32_t)n_names; i < n; i++) {
        char name[40];
        snprintf(name, sizeof name, "<SPECIAL_%d>", i);
        TX_TRY(add_special(k, name, i));
    }
    return TX_OK;
}

static tx_status line_specials(tiktoken_tokenizer *k, const tx_tokenizer_files *from, const token_list *l)
{
    int32_t next = (int32_t)l->entry[l->n - 1].rank + 1;
    for (size_t i = 0; i < from->tiktoken.n_names; i++, next++) TX_TRY(add_special(k, from->tiktoken.special[i], next));
    if (from->tiktoken.n_names) return TX_OK;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        for (int32_t j = 0; l->n == usual[i].n_ranks && j < usual[i].count; j++) {
            char name[64];
            const char *mark = strstr(usual[i].name, "%d");
            int before = mark ? (int)(mark - usual[i].name) : (int)strlen(usual[i].name);
            snprintf(name, sizeof name, "%.*s", before, usual[i].name);
            if (mark) snprintf(name + before, sizeof name - (size_t)before, "%d%s", usual[i].from + j, mark + 2);
            TX_TRY(add_special(k, name, usual[i].id + j));
        }
    return k->name.n ? TX_OK : add_special(k, TX__EOD_TOKEN, next);
}

/* ---- the vocabulary ---- */

static const char *special_at(const tiktoken_tokenizer *k, const int32_t *number, int32_t id, size_t *n)
{
    return number[id] >= 0 ? tx__strings_at(&k->name, (uint32_t)number[id], n) : NULL;
}

/* Puts tokens and special tokens in the order of their ids: `first` is that of rank 0. */
static tx_status add_tokens(tiktoken_tokenizer *k, const token_list *l, int32_t first)
{
    tx__strings *token = &k->bpe.vocab.token;
    int32_t n_ids = (int32_t)l->entry[l->n - 1].rank + 1 + first, *number = NULL;
    tx_status st;
    for (uint32_t i = 0; i < k->name.n; i++)
        if (k->special_id[i] >= n_ids) n_ids = k->special_id[i] + 1;
    TX_GOTO(tx_alloc(&number, (size_t)n_ids, sizeof *number, "a vocabulary"));
    memset(number, 0xFF, (size_t)n_ids * sizeof *number);
    for (uint32_t i = 0; i < k->name.n; i++) number[k->special_id[i]] = (int32_t)i;
    size_t at = 0;
    for (int32_t id = 0; id < n_ids; id++) {
        const struct token_entry *e = at < l->n && l->entry[at].rank + first == id ? &l->entry[at++] : NULL;
        size_t n = 0;
        uint32_t same;
        int fresh = 1;
        const char *name = special_at(k, number, id, &n);
        if (e && name) {
            st = TX_FAIL(TX_ERR_FORMAT, "%s:%zu: has the rank %lld, which is the id of %s", l->file, e->place,
                         (long long)e->rank, tx__show(name, n).text);
            goto out;
        }
        if (!e) {
            TX_GOTO(tx__strings_add_hidden(token, name ? name : "", n));
            continue;
        }
        TX_GOTO(tx__strings_add(token, l->bytes.data + e->start, e->n, &same, &fresh));
        if (!fresh) {
            st = TX_FAIL(TX_ERR_FORMAT, "%s:%zu: the token is there a second time, as id %u", l->file, e->place, same);
            goto out;
        }
        if (e->n == 1) k->bpe.vocab.byte_id[(unsigned char)l->bytes.data[e->start]] = id;
    }
    k->base.vocab_size = n_ids;
out:
    tx_free(number);
    return st;
}

static tx_status check_ranks(tiktoken_tokenizer *k, token_list *l)
{
    qsort(l->entry, l->n, sizeof *l->entry, by_rank);
    for (size_t i = 1; i < l->n; i++)
        if (l->entry[i].rank == l->entry[i - 1].rank)
            return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: has the rank %lld, as %zu has", l->file, l->entry[i].place,
                           (long long)l->entry[i].rank, l->entry[i - 1].place);
    for (int b = 0; b < 256; b++) k->bpe.vocab.byte_id[b] = -1;
    return TX_OK;
}

static tx_status check_bytes(const tiktoken_tokenizer *k, const char *file)
{
    for (unsigned b = 0; b < 256; b++)
        if (k->bpe.vocab.byte_id[b] < 0)
            return TX_FAIL(TX_ERR_FORMAT, "%s: the byte 0x%02X has no token: this is not a vocabulary of tiktoken",
                           file, b);
    return TX_OK;
}

/* Each pair of tokens that makes a token, whose rank is the pair's. */
static tx_status add_merges(tiktoken_tokenizer *k, const token_list *l, int32_t first)
{
    tx__vocab *v = &k->bpe.vocab;
    uint32_t *rank;
    TX_TRY(tx_alloc(&v->merged, (size_t)l->entry[l->n - 1].rank + 1, sizeof *v->merged, "merges"));
    for (size_t i = 0; i < l->n; i++) {
        const struct token_entry *e = &l->entry[i];
        const char *bytes = l->bytes.data + e->start;
        v->merged[e->rank] = (int32_t)e->rank + first;
        for (size_t cut = 1; cut < e->n; cut++) {
            int64_t left = tx__strings_find(&v->token, bytes, cut);
            int64_t right = left < 0 ? -1 : tx__strings_find(&v->token, bytes + cut, e->n - cut);
            if (right < 0) continue;
            TX_TRY(tx__pairs_at(&v->rank, tx__pair((int32_t)left, (int32_t)right), &rank));
            *rank = (uint32_t)e->rank;
        }
    }
    return TX_OK;
}

static tx_status find_specials(tiktoken_tokenizer *k)
{
    static const char *const ends[] = { "</s>", TX__EOD_TOKEN, "<|end_of_text|>" };
    for (uint32_t i = 0; i < k->name.n; i++) {
        size_t n;
        int fresh;
        const char *name = tx__strings_at(&k->name, i, &n);
        TX_TRY(tx__added_set_add(&k->found, name, n, &(tx__added_token){ .id = k->special_id[i], .special = true },
                                 &fresh));
    }
    k->base.eod = -1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && k->base.eod < 0; i++)
        k->base.eod = tiktoken_special(&k->base, ends[i]);
    return TX_OK;
}

/* ---- opening ---- */

static tx_status read_json(token_list *l, const tx_tokenizer_files *from, const tx_str *text)
{
    json_error_t at;
    int64_t most = (from->n_ids ? from->n_ids : CORE_IDS) - (int64_t)from->tiktoken.n_special;
    if (most < 256)
        return TX_FAIL(TX_ERR_ARG, "--vocab-size %lld has no room for --tiktoken-num-special-tokens %d and 256 bytes",
                       (long long)most + from->tiktoken.n_special, from->tiktoken.n_special);
    json_t *list = json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &at);
    if (!list)
        return TX_FAIL(TX_ERR_FORMAT, "%s:%d:%d: not JSON: %s", l->file, at.line, at.column,
                       tx__show(at.text, strlen(at.text)).text);
    tx_status st = read_list(l, list, (size_t)most);
    if (!st && from->n_ids && l->n < (size_t)most)
        st = TX_FAIL(TX_ERR_FORMAT, "%s: has %zu tokens, but --vocab-size %d asks for %lld beside %d special ones",
                     l->file, l->n, from->n_ids, (long long)most, from->tiktoken.n_special);
    json_decref(list);
    return st;
}

static tx_status read_all(tiktoken_tokenizer *k, token_list *l, const tx_tokenizer_files *from, const tx_str *text)
{
    size_t at = 0;
    while (at < text->len && strchr(" \t\r\n", text->data[at]) && text->data[at]) at++;
    bool json = at < text->len && (text->data[at] == '[' || text->data[at] == '{');
    int32_t first = json ? from->tiktoken.n_special : 0;
    TX_TRY(json ? read_json(l, from, text) : read_lines(l, text));
    if (!l->n) return TX_FAIL(TX_ERR_FORMAT, "%s: has no tokens", l->file);
    TX_TRY(check_ranks(k, l));
    TX_TRY(json ? core_specials(k, from) : line_specials(k, from, l));
    TX_TRY(add_tokens(k, l, first));
    TX_TRY(check_bytes(k, l->file));
    TX_TRY(add_merges(k, l, first));
    TX_TRY(find_specials(k));
    k->bpe.split = tx__split_of_tiktoken(from->tiktoken.pattern);
    k->bpe.ignore_merges = true; /* a word that is a token is that token */
    return tx__byte_bpe_prepare(&k->bpe);
}

static tx_status tiktoken_open(tx_tokenizer **out, const tx_tokenizer_files *from)
{
    tx_status st;
    tx_str text = { 0 };
    token_list l = { .file = from->model_file };
    tiktoken_tokenizer *k = NULL;
    TX_GOTO(tx_alloc(&k, 1, sizeof *k, "a tokenizer"));
    k->pattern = from->tiktoken.pattern ? from->tiktoken.pattern : TX_TIKTOKEN_V2;
    TX_GOTO(tx_file_read(from->model_file, MAX_FILE_BYTES, &text));
    TX_GOTO(read_all(k, &l, from, &text));
    k->base.kind = &tx__tokenizer_tiktoken;
    *out = &k->base;
out:
    tx_str_free(&text);
    tx_str_free(&l.bytes);
    tx_free(l.entry);
    if (st && k) tiktoken_close(&k->base);
    return st;
}

const tx_tokenizer_kind tx__tokenizer_tiktoken = { .open = tiktoken_open,
                                                   .encode = tiktoken_encode,
                                                   .decode = tiktoken_decode,
                                                   .special = tiktoken_special,
                                                   .hash = tiktoken_hash,
                                                   .close = tiktoken_close };
