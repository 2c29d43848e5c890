/* train_bpe.c - learns byte-level BPE merges from text.
 *
 *  feed counts the distinct pieces ("words") of the text. finish lays them out once, one place per byte, and then keeps
 *  for every pair of neighbouring tokens how often it occurs (weighted by its words' counts) and where:
 *
 *      place    0  1  2  3  4  5  6              pair record        count   occurrences
 *      symbol   l  o  w  l  o  g  o              (l,o)              w0+w1   0 -> 3
 *      word     0  0  0  1  1  1  1              (o,w)              w0      1
 *
 *  A merge visits only the occurrences of its pair and adjusts the counts of the neighbours' pairs, so all merges
 *  together cost about text + n log n, however long the words are. An occurrence whose place has changed since is
 *  recognized by its symbols and skipped; a heap entry whose count has changed is put back with the true one.
 *
 *  Ids are those of the files that save writes: the bytes in GPT-2's order, then the merged tokens. Hugging Face's
 *  trainer numbers its tokens in the same order, so equal counts are decided alike.
 *  Source: Sennrich et al., arXiv:1508.07909. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "token/pairs.h"
#include "token/unicode_split.h"
#include "token/utf8.h"
#include "token/vocab.h"
#include "triax/token.h"

#define NONE UINT32_MAX

struct tx_bpe_trainer {
    tx__strings word; /* distinct pieces of the text, until finish */
    int64_t *count;   /* [word] how often */
    size_t cap_count;
    int finished;
    tx__strings token; /* number = id; <|endoftext|> is not in here */
    uint64_t *merge;   /* pairs of ids in the order learned */
    size_t n_merges, cap_merges;
};

/* ---- counting words ---- */

tx_status tx_bpe_trainer_create(tx_bpe_trainer **out)
{
    return tx_alloc(out, 1, sizeof **out, "a BPE trainer");
}

void tx_bpe_trainer_free(tx_bpe_trainer *t)
{
    if (!t) return;
    tx__strings_free(&t->word);
    tx__strings_free(&t->token);
    tx_free(t->count);
    tx_free(t->merge);
    tx_free(t);
}

/* Room for one more element in an array from tx_realloc. */
static tx_status grow(void *array, size_t n, size_t *cap, size_t size, const char *what)
{
    if (n < *cap) return TX_OK;
    size_t more = *cap ? *cap + *cap / 2 : 1024;
    TX_TRY(tx_realloc(array, more, size, what));
    *cap = more;
    return TX_OK;
}

tx_status tx_bpe_trainer_feed(tx_bpe_trainer *t, const char *text, size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    if (t->finished) return TX_FAIL(TX_ERR_STATE, "this BPE trainer has finished and takes no more text");
    for (size_t at = 0, len; at < n_bytes; at += len) {
        uint32_t word;
        int fresh;
        len = tx__split_next(p + at, n_bytes - at);
        TX_TRY(grow(&t->count, t->word.n, &t->cap_count, sizeof *t->count, "word counts"));
        TX_TRY(tx__strings_add(&t->word, p + at, len, &word, &fresh));
        if (fresh) t->count[word] = 0;
        t->count[word]++;
    }
    return TX_OK;
}

/* ---- pairs and where they are ---- */

typedef struct pair_record {
    uint64_t pair;
    int64_t count;
    uint32_t first, last; /* its occurrences, in order; NONE: none */
    int queued;           /* has got an occurrence since the heap was last updated */
} pair_record;

typedef struct occurrence {
    uint32_t place, next;
} occurrence;

typedef struct heap_entry {
    int64_t count;
    uint32_t record;
} heap_entry;

typedef struct learner {
    const int64_t *count; /* [word] */
    int32_t *symbol;      /* [place] token id, -1: swallowed by the left neighbour */
    uint32_t *prev, *next, *word;
    tx__pairs index; /* pair -> record */
    pair_record *record;
    size_t n_records, cap_records;
    occurrence *occurrence;
    size_t n_occurrences, cap_occurrences;
    uint32_t unused; /* list of occurrences free for use again */
    uint32_t *queue; /* records with .queued */
    size_t n_queue, cap_queue;
    heap_entry *heap; /* most frequent first, then the smaller pair */
    size_t n_heap, cap_heap;
} learner;

static void learner_deinit(learner *l)
{
    tx_free(l->symbol);
    tx_free(l->prev);
    tx_free(l->next);
    tx_free(l->word);
    tx__pairs_free(&l->index);
    tx_free(l->record);
    tx_free(l->occurrence);
    tx_free(l->queue);
    tx_free(l->heap);
}

/* Counts the pair that starts at `place`. */
static tx_status add_pair(learner *l, uint32_t place)
{
    uint32_t *r, o;
    uint64_t pair = tx__pair(l->symbol[place], l->symbol[l->next[place]]);
    TX_TRY(tx__pairs_at(&l->index, pair, &r));
    if (*r == TX__NO_PAIR) {
        TX_TRY(grow(&l->record, l->n_records, &l->cap_records, sizeof *l->record, "pairs of tokens"));
        l->record[l->n_records] = (pair_record){ .pair = pair, .first = NONE, .last = NONE };
        *r = (uint32_t)l->n_records++;
    }
    pair_record *rec = &l->record[*r];
    if (l->unused != NONE) {
        o = l->unused;
        l->unused = l->occurrence[o].next;
    } else {
        if (l->n_occurrences >= NONE) return TX_FAIL(TX_ERR_NOMEM, "too much distinct text: give less at once");
        TX_TRY(grow(&l->occurrence, l->n_occurrences, &l->cap_occurrences, sizeof *l->occurrence, "pairs of tokens"));
        o = (uint32_t)l->n_occurrences++;
    }
    l->occurrence[o] = (occurrence){ place, NONE };
    if (rec->first == NONE)
        rec->first = o;
    else
        l->occurrence[rec->last].next = o;
    rec->last = o;
    rec->count += l->count[l->word[place]];
    if (!rec->queued) {
        TX_TRY(grow(&l->queue, l->n_queue, &l->cap_queue, sizeof *l->queue, "pairs of tokens"));
        l->queue[l->n_queue++] = *r;
        rec->queued = 1;
    }
    return TX_OK;
}

/* Takes the pair that starts at `place` out of the count; its occurrence goes stale. */
static void drop_pair(learner *l, uint32_t place)
{
    uint32_t r = tx__pairs_find(&l->index, tx__pair(l->symbol[place], l->symbol[l->next[place]]));
    l->record[r].count -= l->count[l->word[place]];
}

/* Places of the words' bytes and their pairs. */
static tx_status learner_init(learner *l, const tx_bpe_trainer *t)
{
    size_t n = t->word.pool.len, len;
    *l = (learner){ .count = t->count, .unused = NONE };
    TX_TRY(tx_realloc(&l->symbol, n, sizeof *l->symbol, "distinct words"));
    TX_TRY(tx_realloc(&l->prev, n, sizeof *l->prev, "distinct words"));
    TX_TRY(tx_realloc(&l->next, n, sizeof *l->next, "distinct words"));
    TX_TRY(tx_realloc(&l->word, n, sizeof *l->word, "distinct words"));
    int32_t id_of[256];
    for (uint32_t id = 0; id < 256; id++) id_of[(unsigned char)*tx__strings_at(&t->token, id, &len)] = (int32_t)id;
    for (uint32_t w = 0; w < t->word.n; w++)
        for (uint32_t i = t->word.start[w], end = t->word.start[w + 1]; i < end; i++) {
            l->symbol[i] = id_of[(unsigned char)t->word.pool.data[i]];
            l->prev[i] = i > t->word.start[w] ? i - 1 : NONE;
            l->next[i] = i + 1 < end ? i + 1 : NONE;
            l->word[i] = w;
        }
    for (uint32_t i = 0; i < n; i++)
        if (l->next[i] != NONE) TX_TRY(add_pair(l, i));
    return TX_OK;
}

/* ---- the most frequent pair ---- */

static int before(const learner *l, heap_entry a, heap_entry b)
{
    return a.count != b.count ? a.count > b.count : l->record[a.record].pair < l->record[b.record].pair;
}

static tx_status heap_push(learner *l, uint32_t record)
{
    TX_TRY(grow(&l->heap, l->n_heap, &l->cap_heap, sizeof *l->heap, "pairs of tokens"));
    heap_entry x = { l->record[record].count, record };
    size_t i = l->n_heap++;
    for (; i > 0 && before(l, x, l->heap[(i - 1) / 2]); i = (i - 1) / 2) l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = x;
    return TX_OK;
}

static heap_entry heap_pop(learner *l)
{
    heap_entry top = l->heap[0], x = l->heap[--l->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < l->n_heap; i = child) {
        if (child + 1 < l->n_heap && before(l, l->heap[child + 1], l->heap[child])) child++;
        if (!before(l, l->heap[child], x)) break;
        l->heap[i] = l->heap[child];
    }
    l->heap[i] = x;
    return top;
}

static tx_status push_queue(learner *l)
{
    for (size_t i = 0; i < l->n_queue; i++) {
        l->record[l->queue[i]].queued = 0;
        if (l->record[l->queue[i]].count > 0) TX_TRY(heap_push(l, l->queue[i]));
    }
    l->n_queue = 0;
    return TX_OK;
}

/* ---- merging ---- */

/* Replaces the pair by `id` wherever it still is. */
static tx_status merge_pair(learner *l, uint32_t record, int32_t id)
{
    uint64_t pair = l->record[record].pair;
    int32_t left = (int32_t)(pair >> 32), right = (int32_t)(uint32_t)pair;
    for (uint32_t o = l->record[record].first; o != NONE; o = l->occurrence[o].next) {
        uint32_t at = l->occurrence[o].place, gone = l->next[at];
        if (l->symbol[at] != left || gone == NONE || l->symbol[gone] != right) continue;
        uint32_t earlier = l->prev[at], later = l->next[gone];
        if (earlier != NONE) drop_pair(l, earlier);
        if (later != NONE) drop_pair(l, gone);
        l->symbol[at] = id;
        l->symbol[gone] = -1;
        l->next[at] = later;
        if (later != NONE) l->prev[later] = at;
        if (earlier != NONE) TX_TRY(add_pair(l, earlier));
        if (later != NONE) TX_TRY(add_pair(l, at));
    }
    pair_record *rec = &l->record[record];
    if (rec->first != NONE) {
        l->occurrence[rec->last].next = l->unused;
        l->unused = rec->first;
    }
    rec->first = rec->last = NONE;
    rec->count = 0;
    return TX_OK;
}

/* The pair becomes a merge, its bytes a token. They are always new: equal stretches of bytes that no merge has crossed
 * have been merged alike, so the first merge to give these bytes has left no other way to them. */
static tx_status add_token(tx_bpe_trainer *t, uint64_t pair, tx_str *bytes, uint32_t *id)
{
    int fresh;
    TX_TRY(grow(&t->merge, t->n_merges, &t->cap_merges, sizeof *t->merge, "merges"));
    t->merge[t->n_merges++] = pair;
    bytes->len = 0;
    for (int side = 32; side >= 0; side -= 32) {
        size_t n;
        const char *part = tx__strings_at(&t->token, (uint32_t)(pair >> side), &n);
        TX_TRY(tx_str_append(bytes, part, n));
    }
    TX_TRY(tx__strings_add(&t->token, bytes->data, bytes->len, id, &fresh));
    TX_ASSERT(fresh);
    return TX_OK;
}

static tx_status learn(tx_bpe_trainer *t, learner *l, tx_str *bytes, uint32_t n_tokens, int64_t min_frequency)
{
    TX_TRY(push_queue(l));
    while (t->token.n < n_tokens && l->n_heap) {
        heap_entry top = heap_pop(l);
        pair_record *rec = &l->record[top.record];
        if (top.count != rec->count) {
            if (rec->count > 0) TX_TRY(heap_push(l, top.record));
            continue;
        }
        if (top.count < 1 || top.count < min_frequency) break;
        uint32_t id;
        TX_TRY(add_token(t, rec->pair, bytes, &id));
        TX_TRY(merge_pair(l, top.record, (int32_t)id));
        TX_TRY(push_queue(l));
    }
    return TX_OK;
}

/* The 256 bytes in the order of their symbols, which is GPT-2's. */
static tx_status add_bytes(tx__strings *token)
{
    for (uint32_t c = 0; c < TX__SYMBOL_END; c++) {
        int byte = tx__byte_of_symbol(c), fresh;
        char b = (char)byte;
        uint32_t id;
        if (byte >= 0) TX_TRY(tx__strings_add(token, &b, 1, &id, &fresh));
    }
    return TX_OK;
}

tx_status tx_bpe_trainer_finish(tx_bpe_trainer *t, int32_t vocab_size, int64_t min_frequency)
{
    if (t->finished) return TX_FAIL(TX_ERR_STATE, "this BPE trainer has finished already");
    if (vocab_size < TX_BPE_MIN_VOCAB)
        return TX_FAIL(TX_ERR_ARG, "vocabulary size %d is too small: 256 bytes and %s need %d", vocab_size,
                       TX__EOD_TOKEN, TX_BPE_MIN_VOCAB);
    if (min_frequency < 0)
        return TX_FAIL(TX_ERR_ARG, "minimum frequency %lld of a pair is negative", (long long)min_frequency);
    tx_status st;
    learner l = { 0 };
    tx_str bytes = { 0 };
    TX_GOTO(add_bytes(&t->token));
    TX_GOTO(learner_init(&l, t));
    TX_GOTO(learn(t, &l, &bytes, (uint32_t)vocab_size - 1, min_frequency));
    t->finished = 1;
    tx__strings_free(&t->word);
    if (tx_bpe_trainer_vocab_size(t) < vocab_size)
        tx_warn(
            "asked for a vocabulary of %d tokens, but the text gives only %d: no more pairs occur %lld times or more",
            vocab_size, tx_bpe_trainer_vocab_size(t), (long long)(min_frequency > 1 ? min_frequency : 1));
out:
    if (st) { /* as before the call: the words are still there */
        tx__strings_free(&t->token);
        t->n_merges = 0;
    }
    learner_deinit(&l);
    tx_str_free(&bytes);
    return st;
}

int32_t tx_bpe_trainer_vocab_size(const tx_bpe_trainer *t)
{
    return t->finished ? (int32_t)t->token.n + 1 : 0;
}

/* ---- the two files ---- */

/* Appends the symbols of a token's bytes: in JSON escaped to ASCII as GPT-2's own file is, else UTF-8. */
static tx_status put_token(tx_str *s, const tx__strings *token, uint32_t id, int json)
{
    size_t n;
    const char *bytes = tx__strings_at(token, id, &n);
    for (size_t i = 0; i < n; i++) {
        uint32_t c = tx__symbol_of_byte((unsigned char)bytes[i]);
        char two[2] = { (char)(0xC0 | c >> 6), (char)(0x80 | (c & 0x3F)) };
        char one = (char)c;
        if (c < 0x80 && json && (c == '"' || c == '\\')) TX_TRY(tx_str_puts(s, "\\"));
        if (c < 0x80)
            TX_TRY(tx_str_append(s, &one, 1));
        else if (json)
            TX_TRY(tx_str_printf(s, "\\u%04x", c));
        else
            TX_TRY(tx_str_append(s, two, 2));
    }
    return TX_OK;
}

static tx_status write_vocab(tx_str *s, const tx_bpe_trainer *t)
{
    TX_TRY(tx_str_puts(s, "{"));
    for (uint32_t id = 0; id < t->token.n; id++) {
        TX_TRY(tx_str_puts(s, "\""));
        TX_TRY(put_token(s, &t->token, id, 1));
        TX_TRY(tx_str_printf(s, "\": %u, ", id));
    }
    return tx_str_printf(s, "\"%s\": %u}", TX__EOD_TOKEN, t->token.n);
}

static tx_status write_merges(tx_str *s, const tx_bpe_trainer *t)
{
    TX_TRY(tx_str_puts(s, "#version: 0.2\n"));
    for (size_t i = 0; i < t->n_merges; i++) {
        TX_TRY(put_token(s, &t->token, (uint32_t)(t->merge[i] >> 32), 0));
        TX_TRY(tx_str_puts(s, " "));
        TX_TRY(put_token(s, &t->token, (uint32_t)t->merge[i], 0));
        TX_TRY(tx_str_puts(s, "\n"));
    }
    return TX_OK;
}

tx_status tx_bpe_trainer_save(const tx_bpe_trainer *t, const char *vocab_file, const char *merge_file)
{
    if (!t->finished) return TX_FAIL(TX_ERR_STATE, "this BPE trainer has not finished: there is nothing to save yet");
    tx_status st;
    tx_str text = { 0 };
    tx_writer vocab = { 0 }, merges = { 0 };
    TX_GOTO(tx_writer_open(&vocab, vocab_file));
    TX_GOTO(tx_writer_open(&merges, merge_file));
    TX_GOTO(write_vocab(&text, t));
    TX_GOTO(tx_writer_put(&vocab, text.data, text.len));
    text.len = 0;
    TX_GOTO(write_merges(&text, t));
    TX_GOTO(tx_writer_put(&merges, text.data, text.len));
    /* both are complete now; a crash between the two leaves a pair that does not fit, which loading says */
    TX_GOTO(tx_writer_commit(&vocab));
    TX_GOTO(tx_writer_commit(&merges));
out:
    tx_writer_abort(&vocab);
    tx_writer_abort(&merges);
    tx_str_free(&text);
    return st;
}
