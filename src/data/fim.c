/* fim.c - a sample is taken apart at its ends of documents, each document is permuted or not, and the sample is put
 * together again. Steps and their order are upstream's: see fim.h. */
#include "data/fim.h"

#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/utf8.h"

/* ---- opening ---- */

/* Length of what two lists of ids have in common at their beginning. */
static size_t common(const tx_ids *a, const tx_ids *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->id[n] == b->id[n]) n++;
    return n;
}

/* A tokenizer.json may add ids at the ends of every text, as Llama 3's does. Pieces of a document are to have none. */
static tx_status find_ends(tx_fim *f)
{
    tx_ids none = { 0 }, some = { 0 };
    tx_status st;
    TX_GOTO(tx_tokenizer_encode(f->tok, "", 0, &none));
    if (!none.n) goto out;
    TX_GOTO(tx_tokenizer_encode(f->tok, "x", 1, &some));
    f->n_before = (int32_t)common(&none, &some);
    f->n_after = (int32_t)none.n - f->n_before;
out:
    tx_ids_free(&none);
    tx_ids_free(&some);
    return st;
}

/* Appends the ids of a text, without those of its ends. */
static tx_status encode(const tx_fim *f, const char *text, size_t n, tx_ids *out)
{
    size_t at = out->n, before = (size_t)f->n_before, after = (size_t)f->n_after;
    TX_TRY(tx_tokenizer_encode(f->tok, text, n, out));
    if (!before && !after) return TX_OK;
    memmove(out->id + at, out->id + at + before, (out->n - at - before - after) * sizeof *out->id);
    out->n -= before + after;
    return TX_OK;
}

/* A special token, or any that a text of this name becomes, as in a tokenizer.json where such tokens are added but not
 * special. */
static tx_status find_token(int32_t *id, const tx_fim *f, const char *flag, const char *name)
{
    tx_ids ids = { 0 };
    *id = tx_tokenizer_special(f->tok, name);
    if (*id >= 0) return TX_OK;
    /* the words of a null tokenizer that are no numbers do not encode: no token either */
    if (!encode(f, name, strlen(name), &ids) && ids.n == 1) {
        tx_bytes text = { 0 };
        tx_status st = tx_tokenizer_decode(f->tok, ids.id, 1, &text);
        if (!st && text.n == strlen(name) && !memcmp(text.data, name, text.n)) *id = ids.id[0];
        tx_bytes_free(&text);
    }
    tx_ids_free(&ids);
    if (*id >= 0) return TX_OK;
    return TX_FAIL(TX_ERR_ARG,
                   "%s %s: the vocabulary has no such token; name one that it has, or take a tokenizer that was made "
                   "with it (train-tokenizer --special-tokens, a tokenizer.json that adds it)",
                   flag, name);
}

tx_status tx_fim_init(tx_fim *out, const tx_config *cfg, const tx_tokenizer *tok)
{
    tx_status st;
    *out = (tx_fim){ .tok = tok,
                     .seed = (uint64_t)cfg->seed,
                     .rate = cfg->fim_rate,
                     .spm_rate = cfg->fim_spm_rate,
                     .fragment_rate = cfg->fim_fragment_rate,
                     .split = -1 };
    TX_GOTO(find_ends(out));
    TX_GOTO(find_token(&out->prefix, out, "--fim-prefix-token", cfg->fim_prefix_token));
    TX_GOTO(find_token(&out->middle, out, "--fim-middle-token", cfg->fim_middle_token));
    TX_GOTO(find_token(&out->suffix, out, "--fim-suffix-token", cfg->fim_suffix_token));
    TX_GOTO(find_token(&out->pad, out, "--fim-pad-token", cfg->fim_pad_token));
    TX_GOTO(find_token(&out->eod, out, "--fim-eod-token", cfg->fim_eod_token));
    if (cfg->fim_split_sample) TX_GOTO(find_token(&out->split, out, "--fim-split-sample", cfg->fim_split_sample));
    if (!cfg->fim_no_prefix) return TX_OK;
    size_t n = strlen(cfg->fim_no_prefix) + 1;
    TX_GOTO(tx_alloc(&out->no_prefix, n, 1, "--fim-no-prefix"));
    memcpy(out->no_prefix, cfg->fim_no_prefix, n);
out:
    if (st) tx_fim_deinit(out);
    return st;
}

void tx_fim_deinit(tx_fim *f)
{
    tx_free(f->no_prefix);
    *f = (tx_fim){ 0 };
}

/* ---- one sample ---- */

/* A sample in the making. */
typedef struct job {
    const tx_fim *f;
    tx_rng rng;
    uint64_t high;  /* of the sample's number: the upper half of the counter */
    uint32_t drawn; /* numbers of this sample */
    tx_ids out;
    tx_ids piece; /* scratch: a piece's ids, a fragment's text */
    tx_bytes text;
} job;

static double draw(job *j)
{
    return tx_rng_uniform(&j->rng, j->high << 32 | j->drawn++);
}

static tx_status put(job *j, const int32_t *id, size_t n)
{
    if (n > j->out.cap - j->out.n) {
        size_t cap = 2 * (j->out.n + n) + 64;
        TX_TRY(tx_realloc(&j->out.id, cap, sizeof *id, "a sample"));
        j->out.cap = cap;
    }
    if (n) memcpy(j->out.id + j->out.n, id, n * sizeof *id);
    j->out.n += n;
    return TX_OK;
}

/* Characters of a text. A byte that begins none counts as one: a sample can begin or end within a character, and no
 * byte of it is to be lost. */
static size_t characters(const char *text, size_t n)
{
    size_t count = 0;
    uint32_t c;
    for (size_t i = 0; i < n; count++) i += tx__utf8_next((const unsigned char *)text + i, n - i, &c);
    return count;
}

/* The byte where character `number` begins. */
static size_t byte_of(const char *text, size_t n, size_t number)
{
    size_t i = 0;
    uint32_t c;
    while (number--) i += tx__utf8_next((const unsigned char *)text + i, n - i, &c);
    return i;
}

/* Appends text[begin..end). */
static tx_status put_text(job *j, size_t begin, size_t end)
{
    if (begin == end) return TX_OK; /* there may be no text at all */
    j->piece.n = 0;
    TX_TRY(encode(j->f, j->text.data + begin, end - begin, &j->piece));
    return put(j, j->piece.id, j->piece.n);
}

/* The same with a token before it. */
static tx_status put_piece(job *j, int32_t token, size_t begin, size_t end)
{
    TX_TRY(put(j, &token, 1));
    return put_text(j, begin, end);
}

/* A fragment of n ids, permuted with probability `rate`. */
static tx_status put_fragment(job *j, const int32_t *id, size_t n, double rate)
{
    const tx_fim *f = j->f;
    size_t cut[2];
    if (draw(j) >= rate) return put(j, id, n);
    j->text.n = 0;
    TX_TRY(tx_tokenizer_decode(f->tok, id, n, &j->text));
    size_t bytes = j->text.n, skip = f->no_prefix ? strlen(f->no_prefix) : 0;
    if (f->no_prefix && bytes >= skip && (!skip || !memcmp(j->text.data, f->no_prefix, skip))) return put(j, id, n);
    /* both ends count: a piece can be empty */
    double places = (double)characters(j->text.data, bytes) + 1;
    for (int k = 0; k < 2; k++) cut[k] = byte_of(j->text.data, bytes, (size_t)(draw(j) * places));
    size_t first = cut[0] < cut[1] ? cut[0] : cut[1], second = cut[0] < cut[1] ? cut[1] : cut[0];
    if (draw(j) < f->spm_rate) {
        TX_TRY(put(j, &f->prefix, 1));
        TX_TRY(put_piece(j, f->suffix, second, bytes));
        TX_TRY(put_piece(j, f->middle, 0, first));
        return put_text(j, first, second);
    }
    TX_TRY(put_piece(j, f->prefix, 0, first));
    TX_TRY(put_piece(j, f->suffix, second, bytes));
    return put_piece(j, f->middle, first, second);
}

static size_t find(const int32_t *id, size_t n, int32_t what)
{
    size_t i = 0;
    while (i < n && id[i] != what) i++;
    return i;
}

/* A document, or what a sample has of it: as one fragment, or divided at --fim-split-sample. */
static tx_status put_document(job *j, const int32_t *id, size_t n)
{
    const tx_fim *f = j->f;
    size_t end = f->split < 0 ? n : find(id, n, f->split);
    if (end == n) return put_fragment(j, id, n, f->rate);
    if (draw(j) >= f->rate) return put(j, id, n);
    for (; end < n; id += end + 1, n -= end + 1, end = find(id, n, f->split)) {
        if (!end) continue; /* upstream leaves out the token behind an empty fragment, too */
        TX_TRY(put_fragment(j, id, end, f->fragment_rate));
        TX_TRY(put(j, &f->split, 1));
    }
    return put_fragment(j, id, n, f->fragment_rate);
}

static tx_status put_sample(job *j, const int32_t *id, size_t n)
{
    const tx_fim *f = j->f;
    for (size_t end = find(id, n, f->eod); end < n; id += end + 1, n -= end + 1, end = find(id, n, f->eod)) {
        if (!end) continue;
        TX_TRY(put_document(j, id, end));
        TX_TRY(put(j, &f->eod, 1));
    }
    return put_document(j, id, n);
}

tx_status tx_fim_apply(const tx_fim *f, uint32_t stream, int64_t number, int32_t *ids, int64_t n)
{
    uint64_t at = (uint64_t)number;
    job j = { .f = f, .rng = { f->seed, tx_rng_stream("fim") + stream, (uint32_t)at }, .high = at >> 32 };
    tx_status st;
    TX_GOTO(put_sample(&j, ids, (size_t)n));
    for (int64_t i = 0; i < n; i++) ids[i] = (size_t)i < j.out.n ? j.out.id[i] : f->pad;
out:
    tx_ids_free(&j.out);
    tx_ids_free(&j.piece);
    tx_bytes_free(&j.text);
    return st;
}
