/* tokenizer_json.c - Hugging Face's tokenizer.json:
 *
 *      text - added tokens found -> normal form - added tokens found -> words -> model -> ids
 *
 *  and the post-processor's tokens at both ends.
 *
 *  The order, and what each step sees, are those of the tokenizers library (TokenizerImpl::encode). */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/utf8.h"
#include "token/added_tokens.h"
#include "token/file_kind.h"
#include "token/json_model.h"
#include "token/pipeline.h"
#include "token/tokenizer.h"
#include "token/unicode_split.h"

typedef struct json_tokenizer {
    tx_tokenizer base;
    tx__json_model model;
    tx__pipeline pipe;
    json_t *vocab;       /* model.vocab, while the file is read */
    uint64_t rules;      /* hash of how it cuts text; 0: as GPT-2 does */
    tx__strings content; /* of the added tokens, in the file's order */
    tx__strings form;    /* the same, normalized where that is what is looked for: what the decoder is given */
    tx__added_token *added;
    int32_t *added_of;             /* [id] its number among the added tokens, -1: none */
    tx__added_set raw, normalized; /* looked for before and after the normal form is made */
} json_tokenizer;

/* ---- text to ids ---- */

typedef struct encoding {
    const json_tokenizer *t;
    tx_ids *out;
    const unsigned char *begin; /* of the whole text */
    const unsigned char *front; /* where a part begins that begins where the text does; NULL: it does not */
    tx__normal_scratch normal;
    tx__cut_scratch cuts;
    tx__model_scratch model;
} encoding;

static tx_status encode_word(void *user, const unsigned char *word, size_t n)
{
    encoding *e = user;
    return tx__model_encode(&e->t->model, &e->model, word, n, e->out);
}

static tx_status encode_normal(void *user, const unsigned char *text, size_t n)
{
    encoding *e = user;
    tx__cutting c = { &e->t->pipe.cuts, &e->cuts, encode_word, e };
    return tx__cut(&c, text, n, text == e->front);
}

static tx_status encode_raw(void *user, const unsigned char *text, size_t n)
{
    encoding *e = user;
    bool front = text == e->begin;
    TX_TRY(tx__normalizer_run(&e->t->pipe.normalizer, &e->normal, &text, &n, &front));
    e->front = front ? text : NULL;
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

static bool is_utf8(const unsigned char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        uint32_t c = 0;
        at += text[at] < 0x80 ? 1 : tx__utf8_next(text + at, n - at, &c);
        if (c == TX__NO_CHAR) return false;
    }
    return true;
}

static tx_status encode_text(encoding *e, const unsigned char *text, size_t n)
{
    const json_tokenizer *j = e->t;
    e->begin = text;
    TX_TRY(append_ends(e->out, &j->pipe.before));
    TX_TRY(tx__added_split(&j->raw, text, n, e->out, encode_raw, e));
    return append_ends(e->out, &j->pipe.after);
}

static tx_status json_encode(const tx_tokenizer *t, const unsigned char *text, size_t n, tx_ids *out)
{
    encoding e = { .t = (const json_tokenizer *)t, .out = out };
    tx_bytes valid = { 0 };
    tx_status st;
    TX_TRY(tx__model_begin(&e.t->model, &e.model));
    if (!e.t->pipe.symbols && !is_utf8(text, n)) { /* characters are all that these kinds know */
        TX_GOTO(tx_text_replace_invalid((const char *)text, n, &valid));
        text = (const unsigned char *)valid.data;
        n = valid.n;
    }
    st = encode_text(&e, text, n);
out:
    tx__model_end(&e.t->model, &e.model);
    tx__normal_scratch_free(&e.normal);
    tx__cut_scratch_free(&e.cuts);
    tx_bytes_free(&valid);
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
    return (uint32_t)id < tx__model_size(&j->model) ? tx__strings_at(&j->model.bpe.vocab.token, (uint32_t)id, n) : NULL;
}

static tx_status find_token(const tx_tokenizer *t, const int32_t *ids, size_t n, size_t i, tx_str *token)
{
    const char *bytes = token_at((const json_tokenizer *)t, ids[i], &token->len);
    token->data = (char *)(uintptr_t)bytes;
    if (token->len) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "token id %d (number %zu of %zu) is not in the vocabulary, which has holes", ids[i],
                   i + 1, n);
}

static tx_status decode_bytes(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out)
{
    for (size_t i = 0; i < n; i++) {
        tx_str token;
        TX_TRY(find_token(t, ids, n, i, &token));
        TX_TRY(tx__bytes_append(out, token.data, token.len));
    }
    return TX_OK;
}

static tx_status json_decode(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out)
{
    const json_tokenizer *j = (const json_tokenizer *)t;
    tx__pieces p = { 0 };
    tx_status st = TX_OK;
    if (j->model.kind == TX__M_BYTE_BPE) return decode_bytes(t, ids, n, out);
    for (size_t i = 0; i < n; i++) {
        tx_str token;
        int32_t added = j->added_of[ids[i]];
        TX_GOTO(find_token(t, ids, n, i, &token));
        if (added >= 0) token.data = (char *)(uintptr_t)tx__strings_at(&j->form, (uint32_t)added, &token.len);
        TX_GOTO(tx__pieces_add(&p, token.data, token.len));
    }
    TX_GOTO(tx__decoder_run(&j->pipe.decoder, &p));
    if (p.bytes.len) st = tx__bytes_append(out, p.bytes.data, p.bytes.len);
out:
    tx__pieces_free(&p);
    return st;
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
    for (int32_t id = 0; id < t->vocab_size; id++) {
        size_t n;
        const char *token = token_at(j, id, &n);
        tx__hash_token(s, token ? token : "", n);
    }
    tx__model_hash(&j->model, s);
    if (j->rules) XXH3_128bits_update(s, &j->rules, sizeof j->rules);
}

static void json_close(tx_tokenizer *t)
{
    json_tokenizer *j = (json_tokenizer *)t;
    tx__model_free(&j->model);
    tx__pipeline_free(&j->pipe);
    tx__strings_free(&j->content);
    tx__strings_free(&j->form);
    tx_free(j->added);
    tx_free(j->added_of);
    tx__added_set_free(&j->raw);
    tx__added_set_free(&j->normalized);
    tx_free(j);
}

/* ---- added tokens ---- */

/* Id of a token of the model by what the file spells, -1: none. */
static int32_t id_in_model(const json_tokenizer *j, const char *spelling)
{
    json_t *id = json_is_object(j->vocab) ? json_object_get(j->vocab, spelling) : NULL;
    if (json_is_object(j->vocab)) return id ? (int32_t)json_integer_value(id) : -1;
    return (int32_t)tx__strings_find(&j->model.bpe.vocab.token, spelling, strlen(spelling));
}

/* The id that the library gives: the model's, if that has the token, else the next after as many as the model has and
 * those before it. It only warns of a file that says something else, whose ids would not be those of the model's rows.
 */
static tx_status check_id(const json_tokenizer *j, json_int_t *next, json_t *item, const char *file, const char *place)
{
    const char *content = json_string_value(json_object_get(item, "content"));
    json_t *id = json_object_get(item, "id");
    int32_t in_model = id_in_model(j, content);
    json_int_t expect = in_model >= 0 ? in_model : (*next)++;
    if (!json_is_integer(id) || json_integer_value(id) != expect)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s.id is %s, but the token \"%s\" is number %lld%s", file, place,
                       id ? tx__json_show(id).text : "missing", tx__show(content, strlen(content)).text,
                       (long long)expect,
                       in_model >= 0 ? " in model.vocab" : ": added tokens go on where model.vocab ends");
    if (in_model < 0 && expect < tx__model_size(&j->model)) {
        size_t n;
        tx__strings_at(&j->model.bpe.vocab.token, (uint32_t)expect, &n);
        if (n)
            return TX_FAIL(TX_ERR_FORMAT, "%s: %s.id is %lld, which model.vocab has given to another token", file,
                           place, (long long)expect);
    }
    return TX_OK;
}

static tx_status read_added(json_tokenizer *j, json_int_t *next, json_t *item, const char *file, const char *place)
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
    TX_TRY(check_id(j, next, item, file, place));
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

    tx__normal_scratch normal = { 0 };
    const unsigned char *spelling = (const unsigned char *)json_string_value(content);
    bool front = true;
    tx_status st = TX_OK;
    if (t->normalized) TX_GOTO(tx__normalizer_run(&j->pipe.normalizer, &normal, &spelling, &n, &front));
    if (n)
        TX_GOTO(tx__added_set_add(t->normalized ? &j->normalized : &j->raw, spelling, n, t, &fresh));
    else
        st = TX_FAIL(TX_ERR_FORMAT, "%s: %s is empty once normalized", file, place);
    if (!st && !fresh) st = TX_FAIL(TX_ERR_FORMAT, "%s: %s is the same as another token once normalized", file, place);
    if (!st) st = tx__strings_add_hidden(&j->form, spelling, n);
out:
    tx__normal_scratch_free(&normal);
    return st;
}

static tx_status read_added_tokens(json_tokenizer *j, json_t *root, const char *file)
{
    json_t *list = json_object_get(root, "added_tokens");
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    size_t n = json_array_size(list);
    json_int_t next = (json_int_t)(json_is_array(vocab) ? json_array_size(vocab) : json_object_size(vocab));
    if (list && !json_is_array(list)) return TX_FAIL(TX_ERR_FORMAT, "%s: added_tokens is not a list", file);
    TX_TRY(tx_alloc(&j->added, n + 1, sizeof *j->added, "added tokens"));
    for (size_t i = 0; i < n; i++) {
        char place[48];
        snprintf(place, sizeof place, "added_tokens[%zu]", i);
        TX_TRY(read_added(j, &next, json_array_get(list, i), file, place));
    }
    j->base.vocab_size = (int32_t)tx__model_size(&j->model);
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
static int32_t find_id(const json_tokenizer *j, const char *spelling)
{
    int64_t i = tx__strings_find(&j->content, spelling, strlen(spelling));
    return i >= 0 ? j->added[i].id : id_in_model(j, spelling);
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

static tx_status find_eod(json_tokenizer *j, const char *file)
{
    static const char *const usual[] = { TX__EOD_TOKEN, "<|end_of_text|>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
                                         "</s>" };
    char path[4096];
    const char *eos = NULL;
    json_t *config = NULL;
    tx_status st;
    j->base.eod = -1;
    TX_GOTO(eos_of_config(&config, &eos, file, path, sizeof path));
    if (eos && (j->base.eod = find_id(j, eos)) < 0)
        st = TX_FAIL(TX_ERR_FORMAT, "%s: eos_token \"%s\" is not in %s", path, tx__show(eos, strlen(eos)).text, file);
    for (size_t i = 0; !eos && j->base.eod < 0 && i < sizeof usual / sizeof *usual; i++)
        j->base.eod = find_id(j, usual[i]);
out:
    json_decref(config);
    return st;
}

/* ---- opening ---- */

/* The parts of the file that are not all in the tokens. A decoder of bytes does what it must. */
static tx_status hash_rules(json_tokenizer *j, json_t *root)
{
    static const char *const parts[] = { "normalizer", "pre_tokenizer", "post_processor", "decoder" };
    const tx__pipeline *p = &j->pipe;
    bool bytes = j->model.kind == TX__M_BYTE_BPE;
    if (bytes && !p->normalizer.n && !p->cuts.n && j->model.bpe.split == tx__split_next && !p->before.n &&
        !p->after.n && !j->model.bpe.ignore_merges)
        return TX_OK;
    j->rules = 1 + j->model.bpe.ignore_merges;
    for (size_t i = 0; i < (bytes ? 3 : 4); i++) {
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
    json_t *version = json_object_get(root, "version"), *model = json_object_get(root, "model");
    if (!json_is_object(model))
        return TX_FAIL(TX_ERR_FORMAT, "%s: has no object \"model\": is this a tokenizer.json?", file);
    TX_TRY(tx__json_only(root, file, "the file", keys));
    if (version && strcmp(json_is_string(version) ? json_string_value(version) : "", "1.0") != 0)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: version is %s; triax reads \"1.0\"", file, tx__json_show(version).text);
    TX_TRY(tx__pipeline_read(&j->pipe, root, file));
    TX_TRY(tx__model_read(&j->model, model, j->pipe.bytes, file));
    j->vocab = json_object_get(model, "vocab");
    if (j->model.kind == TX__M_BYTE_BPE) j->model.bpe.split = tx__pipeline_take_split(&j->pipe);
    TX_TRY(read_added_tokens(j, root, file));
    TX_TRY(check_ends(j, &j->pipe.before, file));
    TX_TRY(check_ends(j, &j->pipe.after, file));
    TX_TRY(find_eod(j, file));
    TX_TRY(hash_rules(j, root));
    j->vocab = NULL;
    return tx__model_prepare(&j->model);
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
