/* tokenizer_json.c - byte-level BPE from Hugging Face's tokenizer.json:
 *
 *      text - added tokens found -> normal form - added tokens found -> cuts -> byte-level BPE -> ids
 *
 *  and the post-processor's tokens at both ends.
 *
 *  The order, and what each step sees, are those of the tokenizers library (TokenizerImpl::encode). */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "token/added_tokens.h"
#include "token/file_kind.h"
#include "token/pipeline.h"
#include "token/tokenizer.h"
#include "token/unicode_split.h"

typedef struct json_tokenizer {
    tx_tokenizer base;
    tx__byte_bpe bpe;
    tx__pipeline pipe;
    uint64_t rules;      /* hash of how it cuts text; 0: as GPT-2 does */
    tx__strings content; /* of the added tokens, in the file's order */
    tx__added_token *added;
    int32_t *added_of;             /* [id] its number among the added tokens, -1: none */
    tx__added_set raw, normalized; /* looked for before and after the normal form is made */
} json_tokenizer;

/* ---- text to ids ---- */

typedef struct encoding {
    const json_tokenizer *t;
    tx_ids *out;
    tx_str form[2]; /* the text in a normal form, and the one before it */
    tx_str prefixed;
} encoding;

static tx_status encode_cut(encoding *e, size_t k, const unsigned char *text, size_t n)
{
    const tx__pipeline *p = &e->t->pipe;
    if (k + 1 < p->n_cuts) {
        for (size_t at = 0, len; at < n; at += len) {
            len = p->cut[k](text + at, n - at);
            TX_TRY(encode_cut(e, k + 1, text + at, len));
        }
        return TX_OK;
    }
    if (p->prefix_space && text[0] != ' ') {
        e->prefixed.len = 0;
        TX_TRY(tx_str_append(&e->prefixed, " ", 1));
        TX_TRY(tx_str_append(&e->prefixed, text, n));
        text = (const unsigned char *)e->prefixed.data;
        n = e->prefixed.len;
    }
    return tx__byte_bpe_encode(&e->t->bpe, text, n, e->out);
}

static tx_status encode_normal(void *user, const unsigned char *text, size_t n)
{
    return encode_cut(user, 0, text, n);
}

static tx_status encode_raw(void *user, const unsigned char *text, size_t n)
{
    encoding *e = user;
    for (size_t i = 0; i < e->t->pipe.n_forms; i++) {
        tx_str *to = &e->form[i % 2];
        to->len = 0;
        TX_TRY(tx__normalize(to, text, n, e->t->pipe.form[i]));
        text = (const unsigned char *)to->data;
        n = to->len;
    }
    return tx__added_split(&e->t->normalized, text, n, e->out, encode_normal, e);
}

static tx_status append_ends(tx_ids *out, const tx__ends *ends)
{
    if (!ends->n) return TX_OK;
    TX_TRY(tx__ids_reserve(out, ends->n));
    memcpy(out->id + out->n, ends->id, ends->n * sizeof *out->id);
    out->n += ends->n;
    return TX_OK;
}

static tx_status json_encode(const tx_tokenizer *t, const unsigned char *text, size_t n, tx_ids *out)
{
    encoding e = { .t = (const json_tokenizer *)t, .out = out };
    tx_status st = append_ends(out, &e.t->pipe.before);
    if (!st) st = tx__added_split(&e.t->raw, text, n, out, encode_raw, &e);
    if (!st) st = append_ends(out, &e.t->pipe.after);
    tx_str_free(&e.form[0]);
    tx_str_free(&e.form[1]);
    tx_str_free(&e.prefixed);
    return st;
}

static void json_ends(const tx_tokenizer *t, size_t *n_before, size_t *n_after)
{
    const json_tokenizer *j = (const json_tokenizer *)t;
    *n_before = j->pipe.before.n;
    *n_after = j->pipe.after.n;
}

/* ---- ids to text, facts ---- */

static const char *token_at(const json_tokenizer *j, int32_t id, size_t *n)
{
    *n = 0;
    if (j->added_of[id] >= 0) return tx__strings_at(&j->content, (uint32_t)j->added_of[id], n);
    return (uint32_t)id < j->bpe.vocab.token.n ? tx__strings_at(&j->bpe.vocab.token, (uint32_t)id, n) : NULL;
}

static tx_status json_decode(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *bytes = token_at((const json_tokenizer *)t, ids[i], &len);
        if (!len)
            return TX_FAIL(TX_ERR_ARG, "token id %d (number %zu of %zu) is not in the vocabulary, which has holes",
                           ids[i], i + 1, n);
        TX_TRY(tx__bytes_append(out, bytes, len));
    }
    return TX_OK;
}

static int32_t json_special(const tx_tokenizer *t, const char *name)
{
    const json_tokenizer *j = (const json_tokenizer *)t;
    int64_t i = tx__strings_find(&j->content, name, strlen(name));
    return i >= 0 && j->added[i].special ? j->added[i].id : -1;
}

static void json_hash(const tx_tokenizer *t, XXH3_state_t *s)
{
    const json_tokenizer *j = (const json_tokenizer *)t;
    uint64_t merges = tx__merges_hash(&j->bpe.merges);
    for (int32_t id = 0; id < t->vocab_size; id++) {
        size_t n;
        const char *token = token_at(j, id, &n);
        tx__hash_token(s, token ? token : "", n);
    }
    XXH3_128bits_update(s, &merges, sizeof merges);
    if (j->rules) XXH3_128bits_update(s, &j->rules, sizeof j->rules);
}

static void json_close(tx_tokenizer *t)
{
    json_tokenizer *j = (json_tokenizer *)t;
    tx__byte_bpe_free(&j->bpe);
    tx__strings_free(&j->content);
    tx_free(j->added);
    tx_free(j->added_of);
    tx__added_set_free(&j->raw);
    tx__added_set_free(&j->normalized);
    tx_free(j);
}

/* ---- model ---- */

/* For text in which every byte has a token, unk_token, fuse_unk and byte_fallback mean nothing. */
static tx_status read_model(json_tokenizer *j, json_t *model, const char *file)
{
    static const char *const keys[] = { "type",
                                        "dropout",
                                        "unk_token",
                                        "continuing_subword_prefix",
                                        "end_of_word_suffix",
                                        "fuse_unk",
                                        "byte_fallback",
                                        "ignore_merges",
                                        "vocab",
                                        "merges",
                                        NULL };
    static const char *const empty[] = { "continuing_subword_prefix", "end_of_word_suffix", "dropout" };
    json_t *type = json_object_get(model, "type");
    json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    const char *name = type ? json_string_value(type) : "BPE"; /* old files do not say */
    if (!json_is_object(model))
        return TX_FAIL(TX_ERR_FORMAT, "%s: has no object \"model\": is this a tokenizer.json?", file);
    if (!name || strcmp(name, "BPE") != 0)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: model.type is %s; triax reads byte-level BPE%s", file,
                       tx__json_show(type).text,
                       name && !strcmp(name, "WordPiece") ? ", and WordPiece from a vocab.txt: --tokenizer-type "
                                                            "BertWordPieceLowerCase or BertWordPieceCase"
                                                          : "");
    TX_TRY(tx__json_only(model, file, "model", keys));
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        json_t *value = json_object_get(model, empty[i]);
        bool nothing = !value || json_is_null(value) || (json_is_string(value) && !json_string_length(value)) ||
                       (json_is_number(value) && json_number_value(value) == 0);
        if (!nothing)
            return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: model.%s is %s; triax reads models without it", file, empty[i],
                           tx__json_show(value).text);
    }
    if (!json_is_object(vocab) || !json_is_array(merges))
        return TX_FAIL(TX_ERR_FORMAT, "%s: model.%s is missing or not %s", file,
                       json_is_object(vocab) ? "merges" : "vocab", json_is_object(vocab) ? "a list" : "an object");
    TX_TRY(tx__json_bool(&j->bpe.ignore_merges, model, "ignore_merges", false, file, "model"));
    return tx__vocab_from_json(&j->bpe.vocab, vocab, merges, file);
}

/* ---- added tokens ---- */

/* The id that the library gives: the model's, if that has the token, else the next after as many as the model has and
 * those before it. It only warns of a file that says something else, whose ids would not be those of the model's rows.
 */
static tx_status check_id(const json_tokenizer *j, json_t *vocab, json_int_t *next, json_t *item, const char *file,
                          const char *place)
{
    const char *content = json_string_value(json_object_get(item, "content"));
    json_t *id = json_object_get(item, "id"), *in_model = json_object_get(vocab, content);
    json_int_t expect = in_model ? json_integer_value(in_model) : (*next)++;
    if (!json_is_integer(id) || json_integer_value(id) != expect)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s.id is %s, but the token \"%s\" is number %lld%s", file, place,
                       id ? tx__json_show(id).text : "missing", tx__show(content, strlen(content)).text,
                       (long long)expect, in_model ? " in model.vocab" : ": added tokens go on where model.vocab ends");
    if (!in_model && expect < j->bpe.vocab.token.n) {
        size_t n;
        tx__strings_at(&j->bpe.vocab.token, (uint32_t)expect, &n);
        if (n)
            return TX_FAIL(TX_ERR_FORMAT, "%s: %s.id is %lld, which model.vocab has given to another token", file,
                           place, (long long)expect);
    }
    return TX_OK;
}

static tx_status read_added(json_tokenizer *j, json_t *vocab, json_int_t *next, json_t *item, const char *file,
                            const char *place)
{
    static const char *const keys[] = { "id",     "content",    "single_word", "lstrip",
                                        "rstrip", "normalized", "special",     NULL };
    json_t *content = json_object_get(item, "content");
    size_t n = json_string_length(content);
    uint32_t number;
    int fresh;
    if (!json_is_string(content) || !n)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s.content is missing or empty", file, place);
    TX_TRY(tx__json_only(item, file, place, keys));
    TX_TRY(check_id(j, vocab, next, item, file, place));
    TX_TRY(tx__strings_add(&j->content, json_string_value(content), n, &number, &fresh));
    if (!fresh)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s and added_tokens[%u] are the same token, but a token has one id", file,
                       place, number);
    tx__added_token *t = &j->added[number];
    t->id = (int32_t)json_integer_value(json_object_get(item, "id"));
    TX_TRY(tx__json_bool(&t->single_word, item, "single_word", -1, file, place));
    TX_TRY(tx__json_bool(&t->lstrip, item, "lstrip", -1, file, place));
    TX_TRY(tx__json_bool(&t->rstrip, item, "rstrip", -1, file, place));
    TX_TRY(tx__json_bool(&t->normalized, item, "normalized", -1, file, place));
    TX_TRY(tx__json_bool(&t->special, item, "special", -1, file, place));

    encoding e = { .t = j };
    const void *spelling = json_string_value(content);
    tx_status st = TX_OK;
    for (size_t i = 0; t->normalized && i < j->pipe.n_forms; i++) {
        e.form[i % 2].len = 0;
        TX_GOTO(tx__normalize(&e.form[i % 2], spelling, n, j->pipe.form[i]));
        spelling = e.form[i % 2].data;
        n = e.form[i % 2].len;
    }
    TX_GOTO(tx__added_set_add(t->normalized ? &j->normalized : &j->raw, spelling, n, t, &fresh));
    if (!fresh) st = TX_FAIL(TX_ERR_FORMAT, "%s: %s is the same as another token once normalized", file, place);
out:
    tx_str_free(&e.form[0]);
    tx_str_free(&e.form[1]);
    return st;
}

static tx_status read_added_tokens(json_tokenizer *j, json_t *root, const char *file)
{
    json_t *list = json_object_get(root, "added_tokens");
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    size_t n = json_array_size(list);
    json_int_t next = (json_int_t)json_object_size(vocab);
    if (list && !json_is_array(list)) return TX_FAIL(TX_ERR_FORMAT, "%s: added_tokens is not a list", file);
    TX_TRY(tx_alloc(&j->added, n + 1, sizeof *j->added, "added tokens"));
    for (size_t i = 0; i < n; i++) {
        char place[48];
        snprintf(place, sizeof place, "added_tokens[%zu]", i);
        TX_TRY(read_added(j, vocab, &next, json_array_get(list, i), file, place));
    }
    j->base.vocab_size = (int32_t)j->bpe.vocab.token.n;
    for (size_t i = 0; i < n; i++)
        if (j->added[i].id >= j->base.vocab_size) j->base.vocab_size = j->added[i].id + 1;
    TX_TRY(tx_alloc(&j->added_of, (size_t)j->base.vocab_size, sizeof *j->added_of, "added tokens"));
    for (int32_t id = 0; id < j->base.vocab_size; id++) j->added_of[id] = -1;
    for (size_t i = 0; i < n; i++) j->added_of[j->added[i].id] = (int32_t)i;
    return TX_OK;
}

static tx_status check_ends(const json_tokenizer *j, const tx__ends *ends, const char *file)
{
    for (size_t i = 0; i < ends->n; i++) {
        size_t n = 0;
        if (ends->id[i] < j->base.vocab_size) token_at(j, ends->id[i], &n);
        if (!n)
            return TX_FAIL(TX_ERR_FORMAT, "%s: post_processor adds token id %d, which is not in the vocabulary", file,
                           ends->id[i]);
    }
    return TX_OK;
}

/* ---- end of document ---- */

/* Id of the token of that spelling, -1: none. */
static int32_t find_id(const json_tokenizer *j, json_t *vocab, const char *spelling)
{
    int64_t i = tx__strings_find(&j->content, spelling, strlen(spelling));
    json_t *id = json_object_get(vocab, spelling);
    return i >= 0 ? j->added[i].id : id ? (int32_t)json_integer_value(id) : -1;
}

/* eos_token of the tokenizer_config.json beside the file: a string, or an object with "content"; NULL: says nothing. */
static tx_status eos_of_config(json_t **config, const char **eos, const char *file, char *path, size_t cap)
{
    const char *slash = strrchr(file, '/');
    int n = snprintf(path, cap,
                     "%.*s"
                     "tokenizer_config.json",
                     slash ? (int)(slash + 1 - file) : 0, file);
    if (n < 0 || (size_t)n >= cap) return TX_FAIL(TX_ERR_ARG, "%.60s...: the path is too long", file);
    if (!tx_path_exists(path)) return TX_OK;
    /* transformers writes 10^30 for a model_max_length that is not known */
    TX_TRY(tx__vocab_json(config, path, JSON_DECODE_INT_AS_REAL));
    json_t *value = json_object_get(*config, "eos_token");
    if (json_is_object(value)) value = json_object_get(value, "content");
    *eos = json_string_value(value);
    return TX_OK;
}

static tx_status find_eod(json_tokenizer *j, json_t *vocab, const char *file)
{
    static const char *const usual[] = { TX__EOD_TOKEN, "<|end_of_text|>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
                                         "</s>" };
    char path[4096];
    const char *eos = NULL;
    json_t *config = NULL;
    tx_status st;
    j->base.eod = -1;
    TX_GOTO(eos_of_config(&config, &eos, file, path, sizeof path));
    if (eos && (j->base.eod = find_id(j, vocab, eos)) < 0)
        st = TX_FAIL(TX_ERR_FORMAT, "%s: eos_token \"%s\" is not in %s", path, tx__show(eos, strlen(eos)).text, file);
    for (size_t i = 0; !eos && j->base.eod < 0 && i < sizeof usual / sizeof *usual; i++)
        j->base.eod = find_id(j, vocab, usual[i]);
out:
    json_decref(config);
    return st;
}

/* ---- opening ---- */

static tx_status hash_rules(json_tokenizer *j, json_t *root)
{
    static const char *const parts[] = { "normalizer", "pre_tokenizer", "post_processor" };
    const tx__pipeline *p = &j->pipe;
    if (!p->n_forms && p->n_cuts == 1 && p->cut[0] == tx__split_next && !p->before.n && !p->after.n &&
        !p->prefix_space && !j->bpe.ignore_merges)
        return TX_OK;
    j->rules = 1 + j->bpe.ignore_merges;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *part = json_object_get(root, parts[i]);
        char *text = json_dumps(part ? part : json_null(), JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY);
        if (!text) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the hash of a tokenizer");
        j->rules = XXH3_64bits_withSeed(text, strlen(text), j->rules);
        free(text); /* Jansson's */
    }
    return TX_OK;
}

static tx_status read_root(json_tokenizer *j, json_t *root, const char *file)
{
    static const char *const keys[] = { "version",       "truncation",     "padding", "added_tokens", "normalizer",
                                        "pre_tokenizer", "post_processor", "decoder", "model",        NULL };
    json_t *version = json_object_get(root, "version");
    TX_TRY(read_model(j, json_object_get(root, "model"), file));
    TX_TRY(tx__json_only(root, file, "the file", keys));
    if (version && strcmp(json_is_string(version) ? json_string_value(version) : "", "1.0") != 0)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: version is %s; triax reads \"1.0\"", file, tx__json_show(version).text);
    TX_TRY(tx__pipeline_read(&j->pipe, root, file));
    TX_TRY(read_added_tokens(j, root, file));
    TX_TRY(check_ends(j, &j->pipe.before, file));
    TX_TRY(check_ends(j, &j->pipe.after, file));
    TX_TRY(find_eod(j, json_object_get(json_object_get(root, "model"), "vocab"), file));
    TX_TRY(hash_rules(j, root));
    j->bpe.split = j->pipe.cut[j->pipe.n_cuts - 1];
    return tx__byte_bpe_prepare(&j->bpe);
}

tx_status tx_tokenizer_open_json(tx_tokenizer **out, const char *file)
{
    json_t *root = NULL;
    json_tokenizer *j = NULL;
    tx_status st = tx__vocab_json(&root, file, 0);
    if (!st) st = tx_alloc(&j, 1, sizeof *j, "a tokenizer");
    if (!st && (st = read_root(j, root, file))) json_close(&j->base);
    json_decref(root);
    if (st) return tx__file_is_wrong(st, file, TX__FILE_TOKENIZER_JSON);
    j->base.kind = &tx__tokenizer_json;
    *out = &j->base;
    return TX_OK;
}

static tx_status json_open(tx_tokenizer **out, const tx_tokenizer_files *from)
{
    return tx_tokenizer_open_json(out, from->model_file);
}

const tx_tokenizer_kind tx__tokenizer_json = { .open = json_open,
                                               .encode = json_encode,
                                               .ends = json_ends,
                                               .decode = json_decode,
                                               .special = json_special,
                                               .hash = json_hash,
                                               .close = json_close };
