/* tokenizer_sentencepiece.c - Megatron's three tokenizers over a SentencePiece model:
 *
 *      GPTSentencePieceTokenizer   the model's ids alone; </s> ends a document
 *      Llama2Tokenizer             the same, with <s> before every text
 *      SentencePieceTokenizer      <CLS> <SEP> <EOD> <MASK> <PAD> <BOS> <EOS> and <extra_id_N> after the model's
 * pieces, where it does not have them; they are found in text; <EOD> ends a document
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "token/added_tokens.h"
#include "token/sentencepiece.h"
#include "token/tokenizer.h"

typedef struct sp_tokenizer {
    tx_tokenizer base;
    tx__sp sp;
    int32_t first; /* id before every text, -1: none */
    /* of SentencePieceTokenizer */
    tx__strings added;      /* pieces beyond the model's: number = id - number of the model's */
    tx__strings special;    /* all that are found in text */
    int32_t *special_id;    /* [number of special] */
    tx__added_set in_text;  /* the same, to be found */
    unsigned char *is_mark; /* [id] one of them; NULL: there are none */
} sp_tokenizer;

static const sp_tokenizer *of(const tx_tokenizer *t)
{
    return (const sp_tokenizer *)t;
}

static int32_t n_pieces(const sp_tokenizer *s)
{
    return (int32_t)s->sp.model.piece.n;
}

/* ---- text to ids ---- */

typedef struct encoding {
    const sp_tokenizer *s;
    tx_ids *out;
} encoding;

static tx_status encode_part(void *user, const unsigned char *text, size_t n)
{
    const encoding *e = user;
    return tx__sp_encode(&e->s->sp, text, n, e->out);
}

static tx_status sp_encode(const tx_tokenizer *t, const unsigned char *text, size_t n, tx_ids *out)
{
    encoding e = { of(t), out };
    if (e.s->first >= 0) {
        TX_TRY(tx__ids_reserve(out, 1));
        out->id[out->n++] = e.s->first;
    }
    if (!e.s->is_mark) return encode_part(&e, text, n);
    return tx__added_split(&e.s->in_text, text, n, out, encode_part, &e);
}

static void sp_ends(const tx_tokenizer *t, size_t *n_before, size_t *n_after)
{
    *n_before = of(t)->first >= 0;
    *n_after = 0;
}

/* ---- ids to text ---- */

static const char *spelling(const sp_tokenizer *s, int32_t id, size_t *n)
{
    if (id < n_pieces(s)) return tx__strings_at(&s->sp.model.piece, (uint32_t)id, n);
    return tx__strings_at(&s->added, (uint32_t)(id - n_pieces(s)), n);
}

/* Megatron's: a blank before each mark and one after it. */
static tx_status sp_decode(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out)
{
    const sp_tokenizer *s = of(t);
    size_t from = 0, len;
    for (size_t i = 0; i < n && s->is_mark; i++) {
        if (!s->is_mark[ids[i]]) continue;
        const char *mark = spelling(s, ids[i], &len);
        TX_TRY(tx__sp_decode(&s->sp, ids + from, i - from, out));
        TX_TRY(tx__bytes_append(out, " ", 1));
        TX_TRY(tx__bytes_append(out, mark, len));
        TX_TRY(tx__bytes_append(out, " ", 1));
        from = i + 1;
    }
    return tx__sp_decode(&s->sp, ids + from, n - from, out);
}

static tx_status sp_next(const tx_tokenizer *t, int32_t id, tx_bytes *out)
{
    const sp_tokenizer *s = of(t);
    return s->is_mark && s->is_mark[id] ? sp_decode(t, &id, 1, out) : tx__sp_decode_next(&s->sp, id, out);
}

/* ---- facts ---- */

static int32_t sp_special(const tx_tokenizer *t, const char *name)
{
    const sp_tokenizer *s = of(t);
    int64_t id = tx__strings_find(&s->special, name, strlen(name));
    if (id >= 0) return s->special_id[id];
    id = tx__strings_find(&s->sp.model.piece, name, strlen(name));
    if (id < 0) return -1;
    unsigned char type = s->sp.model.type[id];
    return type == TX__SP_CONTROL || type == TX__SP_USER_DEFINED || type == TX__SP_UNKNOWN ? (int32_t)id : -1;
}

static void hash_rules(XXH3_state_t *h, const tx__sp_rules *r)
{
    const unsigned char flags[] = { r->add_dummy_prefix, r->remove_extra_whitespaces, r->escape_whitespaces };
    XXH3_128bits_update(h, flags, sizeof flags);
    tx__hash_token(h, r->charsmap.bytes, r->charsmap.n);
}

static void sp_hash(const tx_tokenizer *t, XXH3_state_t *h)
{
    const sp_tokenizer *s = of(t);
    const tx__sp_model *m = &s->sp.model;
    const unsigned char flags[] = { (unsigned char)m->kind, m->byte_fallback, m->whitespace_as_suffix, !!s->is_mark };
    XXH3_128bits_update(h, "SentencePiece", 13);
    XXH3_128bits_update(h, flags, sizeof flags);
    XXH3_128bits_update(h, &s->first, sizeof s->first);
    for (int32_t id = 0; id < t->vocab_size; id++) {
        size_t n;
        const char *piece = spelling(s, id, &n);
        tx__hash_token(h, piece, n);
    }
    XXH3_128bits_update(h, m->type, m->piece.n);
    XXH3_128bits_update(h, m->score, m->piece.n * sizeof *m->score);
    hash_rules(h, &m->normalizer);
    if (s->is_mark) XXH3_128bits_update(h, s->special_id, s->special.n * sizeof *s->special_id);
}

static void sp_close(tx_tokenizer *t)
{
    sp_tokenizer *s = (sp_tokenizer *)t;
    tx__sp_close(&s->sp);
    tx__strings_free(&s->added);
    tx__strings_free(&s->special);
    tx__added_set_free(&s->in_text);
    tx_free(s->special_id);
    tx_free(s->is_mark);
    tx_free(s);
}

/* ---- opening ---- */

/* A mark of this spelling: the model's piece, or a new id after all others. Of two marks at one place in a text the one
 * that was added first is taken, so a mark that begins with an earlier one is never found. */
static tx_status add_mark(sp_tokenizer *s, const char *mark, size_t n)
{
    uint32_t number;
    int fresh;
    int64_t id = tx__strings_find(&s->sp.model.piece, mark, n);
    TX_TRY(tx__strings_add(&s->special, mark, n, &number, &fresh));
    if (!fresh) return TX_OK;
    if (id < 0) {
        uint32_t added;
        TX_TRY(tx__strings_add(&s->added, mark, n, &added, &fresh));
        id = (int64_t)n_pieces(s) + added;
    }
    TX_TRY(tx_realloc(&s->special_id, (size_t)number + 1, sizeof *s->special_id, "special tokens"));
    s->special_id[number] = (int32_t)id;
    for (uint32_t k = 0; k < number; k++) {
        size_t len;
        const char *earlier = tx__strings_at(&s->special, k, &len);
        if (len < n && !memcmp(earlier, mark, len)) return TX_OK;
    }
    const tx__added_token token = { .id = (int32_t)id };
    return tx__added_set_add(&s->in_text, mark, n, &token, &fresh);
}

/* The model's piece for the beginning, the end, padding, if it has one as a control symbol. */
static tx_status add_model_mark(sp_tokenizer *s, tx__sp_text piece, const char *otherwise)
{
    bool has = tx__sp_find(&s->sp.model, piece, TX__SP_CONTROL) >= 0;
    return has ? add_mark(s, piece.bytes, piece.n) : add_mark(s, otherwise, strlen(otherwise));
}

static tx_status add_marks(sp_tokenizer *s, int32_t n_extra_ids)
{
    static const char *const marks[] = { "<CLS>", "<SEP>", "<EOD>", "<MASK>" };
    const tx__sp_model *m = &s->sp.model;
    for (int i = 0; i < 4; i++) TX_TRY(add_mark(s, marks[i], strlen(marks[i])));
    TX_TRY(add_model_mark(s, m->pad_piece, "<PAD>"));
    TX_TRY(add_model_mark(s, m->bos_piece, "<BOS>"));
    TX_TRY(add_model_mark(s, m->eos_piece, "<EOS>"));
    for (int32_t i = 0; i < n_extra_ids; i++) {
        char mark[32];
        snprintf(mark, sizeof mark, "<extra_id_%d>", i);
        TX_TRY(add_mark(s, mark, strlen(mark)));
    }
    s->base.vocab_size += (int32_t)s->added.n;
    s->base.eod = sp_special(&s->base, "<EOD>");
    TX_TRY(tx_alloc(&s->is_mark, (size_t)s->base.vocab_size, 1, "special tokens"));
    for (uint32_t i = 0; i < s->special.n; i++) s->is_mark[s->special_id[i]] = 1;
    return TX_OK;
}

static tx_status take_first(sp_tokenizer *s, const char *file)
{
    s->first = tx__sp_find(&s->sp.model, s->sp.model.bos_piece, TX__SP_CONTROL);
    if (s->first >= 0) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT,
                   "%s: has no control symbol %.*s, which Llama2Tokenizer puts before every text; use "
                   "--tokenizer-type GPTSentencePieceTokenizer",
                   file, (int)s->sp.model.bos_piece.n, s->sp.model.bos_piece.bytes);
}

tx_status tx_tokenizer_open_sentencepiece(tx_tokenizer **out, const char *file, tx_sentencepiece_use use,
                                          int32_t n_extra_ids)
{
    static const tx_tokenizer_kind *const kinds[] = { [TX_SENTENCEPIECE_GPT] = &tx__tokenizer_sentencepiece_gpt,
                                                      [TX_SENTENCEPIECE_LLAMA2] = &tx__tokenizer_sentencepiece_llama2,
                                                      [TX_SENTENCEPIECE_MARKS] = &tx__tokenizer_sentencepiece };
    tx_status st;
    sp_tokenizer *s;
    TX_TRY(tx_alloc(&s, 1, sizeof *s, "a tokenizer"));
    s->first = -1;
    TX_GOTO(tx__sp_open(&s->sp, file));
    s->base = (tx_tokenizer){ .kind = kinds[use], .vocab_size = n_pieces(s) };
    s->base.eod = tx__sp_find(&s->sp.model, s->sp.model.eos_piece, TX__SP_CONTROL);
    if (use == TX_SENTENCEPIECE_LLAMA2) TX_GOTO(take_first(s, file));
    if (use == TX_SENTENCEPIECE_MARKS) TX_GOTO(add_marks(s, n_extra_ids));
    *out = &s->base;
    return TX_OK;
out:
    sp_close(&s->base);
    return st;
}

static tx_status gpt_open(tx_tokenizer **out, const tx_tokenizer_files *from)
{
    return tx_tokenizer_open_sentencepiece(out, from->model_file, TX_SENTENCEPIECE_GPT, 0);
}

static tx_status llama2_open(tx_tokenizer **out, const tx_tokenizer_files *from)
{
    return tx_tokenizer_open_sentencepiece(out, from->model_file, TX_SENTENCEPIECE_LLAMA2, 0);
}

static tx_status marks_open(tx_tokenizer **out, const tx_tokenizer_files *from)
{
    return tx_tokenizer_open_sentencepiece(out, from->model_file, TX_SENTENCEPIECE_MARKS, from->n_extra_ids);
}

#define SENTENCEPIECE                                                                                  \
    .encode = sp_encode, .ends = sp_ends, .decode = sp_decode, .next = sp_next, .special = sp_special, \
    .hash = sp_hash, .close = sp_close
const tx_tokenizer_kind tx__tokenizer_sentencepiece_gpt = { .open = gpt_open,
                                                            .learner = &tx__learner_sp_unigram,
                                                            SENTENCEPIECE };
const tx_tokenizer_kind tx__tokenizer_sentencepiece_llama2 = { .open = llama2_open,
                                                               .learner = &tx__learner_sp_bpe,
                                                               SENTENCEPIECE };
const tx_tokenizer_kind tx__tokenizer_sentencepiece = { .open = marks_open, SENTENCEPIECE };
