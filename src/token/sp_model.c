/* sp_model.c - ModelProto of SentencePiece's sentencepiece_model.proto. Fields of trainer_spec that say how a model was
 * trained mean nothing here and are skipped; so are extensions, which begin at 200. */
#include "token/sp_model.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/utf8.h"
#include "token/file_kind.h"
#include "token/protobuf.h"
#include "token/vocab.h"

/* The largest in use has 15 MB and 256,000 pieces. */
#define MAX_FILE_BYTES ((size_t)256 << 20)
#define MAX_PIECES     ((size_t)4 << 20)

enum { EXTENSIONS = 200 };

typedef struct reader {
    tx__sp_model *m;
    size_t n_pieces, cap_pieces, cap_samples;
} reader;

static tx_status unknown_field(const tx__pb_field *f, const char *message)
{
    if (f->number >= EXTENSIONS) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: byte %zu: %s has a field %u, which triax does not know", f->bytes.file,
                   (size_t)(f->start - f->bytes.begin), message, f->number);
}

static tx_status text_of(const tx__pb_field *f, const char *name, tx__sp_text *out)
{
    tx__pb bytes;
    TX_TRY(tx__pb_bytes(f, name, &bytes));
    *out = (tx__sp_text){ (const char *)bytes.at, (size_t)(bytes.end - bytes.at) };
    return TX_OK;
}

/* ---- pieces ---- */

static tx_status check_piece(const reader *r, const char *file, tx__sp_text piece, float score, int32_t type)
{
    const char *why = NULL;
    if (!piece.n) why = "is empty";
    for (size_t i = 0; i < piece.n && !why;) {
        uint32_t c;
        i += tx__utf8_next((const unsigned char *)piece.bytes + i, piece.n - i, &c);
        if (!c || c == TX__NO_CHAR) why = c ? "is no valid UTF-8" : "contains a NUL";
    }
    if (!why && !isfinite(score)) why = "has a score that is no number";
    if (!why && (type < TX__SP_NORMAL || type > TX__SP_BYTE)) why = "is of no known type";
    if (!why && r->n_pieces >= MAX_PIECES) why = "is one too many: triax reads models of up to 4 million pieces";
    if (!why) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: piece %zu, \"%s\", %s", file, r->n_pieces, tx__show(piece.bytes, piece.n).text,
                   why);
}

static tx_status add_piece(reader *r, const char *file, tx__sp_text piece, float score, int32_t type)
{
    tx__sp_model *m = r->m;
    uint32_t number;
    int fresh;
    TX_TRY(check_piece(r, file, piece, score, type));
    if (r->n_pieces == r->cap_pieces) {
        size_t cap = 2 * r->cap_pieces + 1024;
        TX_TRY(tx_realloc(&m->score, cap, sizeof *m->score, "the pieces of a model"));
        TX_TRY(tx_realloc(&m->type, cap, sizeof *m->type, "the pieces of a model"));
        r->cap_pieces = cap;
    }
    TX_TRY(tx__strings_add(&m->piece, piece.bytes, piece.n, &number, &fresh));
    if (!fresh)
        return TX_FAIL(TX_ERR_FORMAT, "%s: pieces %u and %zu are both \"%s\", but a piece has one id", file, number,
                       r->n_pieces, tx__show(piece.bytes, piece.n).text);
    m->score[r->n_pieces] = score;
    m->type[r->n_pieces++] = (unsigned char)type;
    return TX_OK;
}

static tx_status read_piece(reader *r, tx__pb message)
{
    tx__sp_text piece = { "", 0 };
    tx__pb_field f;
    float score = 0;
    int32_t type = TX__SP_NORMAL;
    for (bool more;;) {
        TX_TRY(tx__pb_next(&message, &f, &more));
        if (!more) return add_piece(r, message.file, piece, score, type);
        switch (f.number) {
        case 1:
            TX_TRY(text_of(&f, "pieces.piece", &piece));
            break;
        case 2:
            TX_TRY(tx__pb_float(&f, "pieces.score", &score));
            break;
        case 3:
            TX_TRY(tx__pb_int32(&f, "pieces.type", &type));
            break;
        default:
            TX_TRY(unknown_field(&f, "a piece"));
        }
    }
}

/* ---- specs ---- */

static tx_status read_trainer(tx__sp_model *m, tx__pb message)
{
    tx__pb_field f;
    int32_t kind;
    for (bool more;;) {
        TX_TRY(tx__pb_next(&message, &f, &more));
        if (!more) return TX_OK;
        switch (f.number) {
        case 3:
            TX_TRY(tx__pb_int32(&f, "trainer_spec.model_type", &kind));
            if (kind < TX__SP_UNIGRAM || kind > TX__SP_CHAR)
                return TX_FAIL(TX_ERR_UNSUPPORTED,
                               "%s: trainer_spec.model_type is %d; triax reads 1 (unigram), 2 (BPE), 3 (word) and 4 "
                               "(char)",
                               message.file, kind);
            m->kind = (tx__sp_kind)kind;
            break;
        case 24:
            TX_TRY(tx__pb_bool(&f, "trainer_spec.treat_whitespace_as_suffix", &m->whitespace_as_suffix));
            break;
        case 35:
            TX_TRY(tx__pb_bool(&f, "trainer_spec.byte_fallback", &m->byte_fallback));
            break;
        case 44:
            TX_TRY(text_of(&f, "trainer_spec.unk_surface", &m->unk_surface));
            break;
        case 45:
            TX_TRY(text_of(&f, "trainer_spec.unk_piece", &m->unk_piece));
            break;
        case 46:
            TX_TRY(text_of(&f, "trainer_spec.bos_piece", &m->bos_piece));
            break;
        case 47:
            TX_TRY(text_of(&f, "trainer_spec.eos_piece", &m->eos_piece));
            break;
        case 48:
            TX_TRY(text_of(&f, "trainer_spec.pad_piece", &m->pad_piece));
            break;
        default:
            break;
        }
    }
}

static tx_status read_rules(tx__sp_rules *to, tx__pb message, const char *spec)
{
    tx__pb_field f;
    for (bool more;;) {
        TX_TRY(tx__pb_next(&message, &f, &more));
        if (!more) return TX_OK;
        switch (f.number) {
        case 1: /* the name of the rules, and the file of rules that they were compiled from */
        case 6:
            break;
        case 2:
            TX_TRY(text_of(&f, "precompiled_charsmap", &to->charsmap));
            break;
        case 3:
            TX_TRY(tx__pb_bool(&f, "add_dummy_prefix", &to->add_dummy_prefix));
            break;
        case 4:
            TX_TRY(tx__pb_bool(&f, "remove_extra_whitespaces", &to->remove_extra_whitespaces));
            break;
        case 5:
            TX_TRY(tx__pb_bool(&f, "escape_whitespaces", &to->escape_whitespaces));
            break;
        default:
            TX_TRY(unknown_field(&f, spec));
        }
    }
}

static tx_status read_sample(reader *r, tx__pb message)
{
    tx__sp_model *m = r->m;
    tx__pb_field f;
    if (m->n_samples == r->cap_samples) {
        size_t cap = 2 * r->cap_samples + 16;
        TX_TRY(tx_realloc(&m->sample, cap, sizeof *m->sample, "a model's samples"));
        r->cap_samples = cap;
    }
    tx__sp_sample *s = &m->sample[m->n_samples++];
    *s = (tx__sp_sample){ { "", 0 }, { "", 0 } };
    for (bool more;;) {
        TX_TRY(tx__pb_next(&message, &f, &more));
        if (!more) return TX_OK;
        switch (f.number) {
        case 1:
            TX_TRY(text_of(&f, "samples.input", &s->input));
            break;
        case 2:
            TX_TRY(text_of(&f, "samples.expected", &s->expected));
            break;
        default:
            TX_TRY(unknown_field(&f, "a sample of self_test_data"));
        }
    }
}

static tx_status read_self_test(reader *r, tx__pb message)
{
    tx__pb_field f;
    tx__pb inner;
    for (bool more;;) {
        TX_TRY(tx__pb_next(&message, &f, &more));
        if (!more) return TX_OK;
        if (f.number != 1) {
            TX_TRY(unknown_field(&f, "self_test_data"));
            continue;
        }
        TX_TRY(tx__pb_bytes(&f, "self_test_data.samples", &inner));
        TX_TRY(read_sample(r, inner));
    }
}

static tx_status read_model(reader *r, tx__pb message)
{
    static const char *const names[] = {
        NULL, "pieces", "trainer_spec", "normalizer_spec", "self_test_data", "denormalizer_spec"
    };
    tx__sp_model *m = r->m;
    tx__pb_field f;
    tx__pb inner;
    for (bool more;;) {
        TX_TRY(tx__pb_next(&message, &f, &more));
        if (!more) return TX_OK;
        if (f.number > 5) {
            TX_TRY(unknown_field(&f, "the model"));
            continue;
        }
        TX_TRY(tx__pb_bytes(&f, names[f.number], &inner));
        switch (f.number) {
        case 1:
            TX_TRY(read_piece(r, inner));
            break;
        case 2:
            TX_TRY(read_trainer(m, inner));
            break;
        case 3:
            TX_TRY(read_rules(&m->normalizer, inner, names[3]));
            break;
        case 4:
            TX_TRY(read_self_test(r, inner));
            break;
        case 5:
            TX_TRY(read_rules(&m->denormalizer, inner, names[5]));
            break;
        }
    }
}

/* ---- what must hold ---- */

/* The byte of "<0x1F>", -1: it is none. */
static int byte_of(const char *piece, size_t n)
{
    static const char hex[] = "0123456789ABCDEF";
    const char *high, *low;
    if (n != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>') return -1;
    high = memchr(hex, piece[3], 16);
    low = memchr(hex, piece[4], 16);
    return high && low ? (int)((high - hex) << 4 | (low - hex)) : -1;
}

static tx_status check_byte(tx__sp_model *m, int32_t id, const char *file)
{
    size_t n;
    const char *piece = tx__strings_at(&m->piece, (uint32_t)id, &n);
    int byte = byte_of(piece, n);
    if (!m->byte_fallback)
        return TX_FAIL(TX_ERR_FORMAT, "%s: piece %d, \"%s\", is a byte, but trainer_spec.byte_fallback is false", file,
                       id, tx__show(piece, n).text);
    if (byte < 0)
        return TX_FAIL(TX_ERR_FORMAT, "%s: piece %d, \"%s\", is a byte, but not spelled as <0x00> to <0xFF>", file, id,
                       tx__show(piece, n).text);
    m->byte_id[byte] = id;
    return TX_OK;
}

static tx_status check_model(tx__sp_model *m, size_t n_pieces, const char *file)
{
    m->unk = -1;
    m->denormalizes = m->denormalizer.charsmap.n > 0;
    for (int i = 0; i < 256; i++) m->byte_id[i] = -1;
    if (!n_pieces) return TX_FAIL(TX_ERR_FORMAT, "%s: has no pieces: is it a SentencePiece model?", file);
    for (int32_t id = 0; id < (int32_t)n_pieces; id++) {
        if (m->type[id] == TX__SP_BYTE) TX_TRY(check_byte(m, id, file));
        if (m->type[id] != TX__SP_UNKNOWN) continue;
        if (m->unk >= 0)
            return TX_FAIL(TX_ERR_FORMAT, "%s: pieces %d and %d are both of the type unknown; it takes one", file,
                           m->unk, id);
        m->unk = id;
    }
    if (m->unk < 0) return TX_FAIL(TX_ERR_FORMAT, "%s: has no piece of the type unknown", file);
    for (int i = 0; m->byte_fallback && i < 256; i++)
        if (m->byte_id[i] < 0)
            return TX_FAIL(TX_ERR_FORMAT, "%s: trainer_spec.byte_fallback is true, but there is no piece <0x%02X>",
                           file, (unsigned)i);
    return TX_OK;
}

tx_status tx__sp_model_read(tx__sp_model *m, const char *file)
{
    reader r = { .m = m };
    const tx__sp_rules defaults = { .add_dummy_prefix = true,
                                    .remove_extra_whitespaces = true,
                                    .escape_whitespaces = true };
    *m = (tx__sp_model){ .kind = TX__SP_UNIGRAM,
                         .unk_piece = { "<unk>", 5 },
                         .bos_piece = { "<s>", 3 },
                         .eos_piece = { "</s>", 4 },
                         .pad_piece = { "<pad>", 5 },
                         .unk_surface = { " \xE2\x81\x87 ", 5 },
                         .normalizer = defaults,
                         .denormalizer = defaults };
    tx_status st = tx_file_read(file, MAX_FILE_BYTES, &m->file);
    if (!st) {
        const unsigned char *data = (const unsigned char *)m->file.data;
        st = read_model(&r, (tx__pb){ file, data, data, data + m->file.len });
        if (!st) st = check_model(m, r.n_pieces, file);
    }
    if (st) tx__sp_model_free(m);
    return tx__file_is_wrong(st, file, TX__FILE_SENTENCEPIECE);
}

void tx__sp_model_free(tx__sp_model *m)
{
    tx_str_free(&m->file);
    tx__strings_free(&m->piece);
    tx_free(m->score);
    tx_free(m->type);
    tx_free(m->sample);
    *m = (tx__sp_model){ 0 };
}

int32_t tx__sp_find(const tx__sp_model *m, tx__sp_text piece, tx__sp_type type)
{
    int64_t id = tx__strings_find(&m->piece, piece.bytes, piece.n);
    return id >= 0 && m->type[id] == type ? (int32_t)id : -1;
}
