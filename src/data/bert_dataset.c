/* bert_dataset.c - from a file of sentences to masked samples. Source: Megatron-LM megatron/data/bert_dataset.py and
 * dataset_utils.py. Every draw of the generator is upstream's, in upstream's order, the ones without effect too. */
#include "data/bert_dataset.h"

#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/numpy_rng.h"
#include "kinds/tokenizers.h"

enum { N_ADDED = 3 /* [CLS], [SEP], [SEP] */ };

struct tx_bert_dataset {
    const tx_bert_data *data;
    tx_bert_mapping map;
};

struct tx_bert_data {
    tx_indexed ix;
    int64_t seq_length, seed;
    double mask_prob;
    bool binary_head, always_masked;
    int32_t cls, sep, mask, pad, vocab_size;
    unsigned char *goes_on; /* [vocab_size] whether an id is a "##" piece of the word before it */
    int max_ngrams;
    double ngram_p[TX_BERT_MAX_NGRAMS]; /* of masking 1, 2, ... words in a row */
    tx_bert_dataset split[TX_N_SPLITS];
};

/* ---- opening ---- */

static tx_status check_opts(const tx_bert_data_opts *o)
{
    if (o->seq_length < N_ADDED + 2 || o->seq_length > INT32_MAX)
        return TX_FAIL(TX_ERR_ARG, "--seq-length %lld: must be %d to %d for BERT", (long long)o->seq_length,
                       N_ADDED + 2, INT32_MAX);
    if (o->seed < 0 || o->seed > INT32_MAX)
        return TX_FAIL(TX_ERR_ARG, "--seed %lld: must be 0 to %d for BERT", (long long)o->seed, INT32_MAX);
    if (!(o->mask_prob >= 0 && o->mask_prob <= 1))
        return TX_FAIL(TX_ERR_ARG, "--mask-prob %g: must be 0 to 1", o->mask_prob);
    if (!(o->short_seq_prob >= 0 && o->short_seq_prob <= 1))
        return TX_FAIL(TX_ERR_ARG, "--short-seq-prob %g: must be 0 to 1", o->short_seq_prob);
    if (o->max_ngrams < 1 || o->max_ngrams > TX_BERT_MAX_NGRAMS)
        return TX_FAIL(TX_ERR_ARG, "--bert-max-ngrams %d: must be 1 to %d", o->max_ngrams, TX_BERT_MAX_NGRAMS);
    return TX_OK;
}

/* p(n) in proportion to 1/n. Upstream divides by the sum twice, which moves the last bit. */
static void ngram_probabilities(double *p, int most)
{
    for (int n = 0; n < most; n++) p[n] = 1.0 / (n + 1);
    for (int twice = 0; twice < 2; twice++) {
        double sum = tx_numpy_sum(p, most);
        for (int n = 0; n < most; n++) p[n] /= sum;
    }
}

static tx_status read_vocabulary(tx_bert_data *data, const tx_tokenizer *tok, int64_t vocab_size)
{
    tx_bytes word = { 0 };
    tx_status st;
    data->vocab_size = tx_tokenizer_vocab_size(tok);
    if (vocab_size && vocab_size < data->vocab_size) data->vocab_size = (int32_t)vocab_size;
    data->cls = tx_tokenizer_special(tok, "[CLS]");
    data->sep = tx_tokenizer_special(tok, "[SEP]");
    data->mask = tx_tokenizer_special(tok, "[MASK]");
    data->pad = tx_tokenizer_special(tok, "[PAD]");
    if (data->cls < 0 || data->sep < 0 || data->mask < 0 || data->pad < 0)
        return TX_FAIL(TX_ERR_ARG, "the tokenizer has no [CLS], [SEP], [MASK] and [PAD]: BERT needs "
                                   "--tokenizer-type " TX_TOKENIZERS_WORDPIECE);
    TX_GOTO(tx_alloc(&data->goes_on, (size_t)data->vocab_size, 1, "the vocabulary"));
    for (int32_t id = 0; id < data->vocab_size; id++) {
        word.n = 0;
        TX_GOTO(tx_tokenizer_decode(tok, &id, 1, &word)); /* alone it keeps its marks */
        data->goes_on[id] = word.n >= 2 && word.data[0] == '#' && word.data[1] == '#';
    }
out:
    tx_bytes_free(&word);
    return st;
}

static tx_status open_file(tx_bert_data *data, const char *prefix)
{
    tx_info(" > building dataset index ...");
    double start = tx_clock();
    TX_TRY(tx_indexed_open(&data->ix, prefix));
    tx_info(" > finished creating indexed dataset in %.6f seconds", tx_clock() - start);
    tx_info(" > indexed dataset stats:");
    tx_info("    number of documents: %lld", (long long)data->ix.n_docs);
    tx_info("    number of sentences: %lld", (long long)data->ix.n_items);
    if (!data->ix.n_tokens)
        return TX_FAIL(TX_ERR_FORMAT, "%s: has no token; repeat preprocess-data with a text that is not empty", prefix);
    return TX_OK;
}

static void log_split(const tx_indexed *ix, const tx_split_docs *b, const tx_bert_data_opts *o)
{
    static const char *const title[] = { "train", "validation", "test" };
    tx_info(" > dataset split:");
    for (int k = 0; k < TX_N_SPLITS; k++) {
        if (!o->split && k != (int)o->range_for) continue;
        int64_t first = tx_indexed_doc_begin(ix, b->first[k]), end = tx_indexed_doc_begin(ix, b->end[k]);
        tx_info("    %s:", title[k]);
        tx_info("     document indices in [%lld, %lld) total of %lld documents", (long long)b->first[k],
                (long long)b->end[k], (long long)(b->end[k] - b->first[k]));
        tx_info("     sentence indices in [%lld, %lld) total of %lld sentences", (long long)first, (long long)end,
                (long long)(end - first));
    }
}

static tx_status build_split(tx_bert_data *data, const tx_bert_data_opts *o, tx_split k, int64_t first, int64_t end)
{
    tx_bert_dataset *ds = &data->split[k];
    bool wanted = o->n_samples[k] > 0;
    ds->data = data;
    if (first == end && k == (o->split ? TX_SPLIT_TRAIN : o->range_for) && wanted)
        return TX_FAIL(TX_ERR_ARG, "%s: %s%s gives none of its %lld documents to %s", data->ix.prefix,
                       o->split ? "--split " : "", o->split ? o->split : o->range, (long long)data->ix.n_docs,
                       k == TX_SPLIT_TRAIN ? "training" : tx_split_name(k));
    if (first == end) return TX_OK;
    const tx_bert_mapping_opts m = { .ix = &data->ix,
                                     .first_doc = first,
                                     .end_doc = end,
                                     .n_samples = o->n_samples[k],
                                     .max_tokens = (int32_t)o->seq_length - N_ADDED,
                                     .min_sentences = o->binary_head ? 2 : 1,
                                     .short_seq_prob = o->short_seq_prob,
                                     .seed = (int32_t)o->seed };
    if (o->index_path && k == TX_SPLIT_TRAIN) return tx_bert_mapping_open(&ds->map, &m, o->index_path);
    tx_info(" > building samples index mapping for %s ...", tx_split_name(k));
    tx_status st = tx_bert_mapping_build(&ds->map, &m);
    if (st == TX_ERR_ARG && !wanted) return TX_OK; /* no sample there, and none is missed */
    TX_TRY(st);
    tx_info("    total number of samples: %lld", (long long)ds->map.n_samples);
    return TX_OK;
}

tx_status tx_bert_data_open(tx_bert_data **out, const tx_bert_data_opts *o)
{
    tx_split_docs b;
    tx_bert_data *data = NULL;
    tx_status st;
    TX_TRY(check_opts(o));
    /* a wrong --split is told before a large file is read */
    TX_TRY(tx_split_documents(&b, o->split, o->range, o->range_for, 0));
    TX_GOTO(tx_alloc(&data, 1, sizeof *data, "a dataset"));
    data->seq_length = o->seq_length;
    data->seed = o->seed;
    data->mask_prob = o->mask_prob;
    data->binary_head = o->binary_head;
    data->always_masked = o->always_masked;
    data->max_ngrams = o->max_ngrams;
    ngram_probabilities(data->ngram_p, o->max_ngrams);
    TX_GOTO(read_vocabulary(data, o->tok, o->vocab_size));
    TX_GOTO(open_file(data, o->path));
    TX_GOTO(tx_split_documents(&b, o->split, o->range, o->range_for, data->ix.n_docs));
    log_split(&data->ix, &b, o);
    for (int k = 0; k < TX_N_SPLITS; k++) TX_GOTO(build_split(data, o, (tx_split)k, b.first[k], b.end[k]));
    *out = data;
    return TX_OK;
out:
    tx_bert_data_close(data);
    return st;
}

void tx_bert_data_close(tx_bert_data *data)
{
    if (!data) return;
    for (int k = 0; k < TX_N_SPLITS; k++) tx_bert_mapping_free(&data->split[k].map);
    tx_indexed_close(&data->ix);
    tx_free(data->goes_on);
    tx_free(data);
}

const tx_bert_dataset *tx_bert_data_split(const tx_bert_data *data, tx_split split)
{
    const tx_bert_dataset *ds = &data->split[split];
    return ds->map.n_samples ? ds : NULL;
}

int64_t tx_bert_data_documents(const tx_bert_data *data)
{
    return data->ix.n_docs;
}

int64_t tx_bert_dataset_len(const tx_bert_dataset *ds)
{
    return ds->map.n_samples;
}

tx_bert_row tx_bert_dataset_row(const tx_bert_dataset *ds, int64_t i)
{
    TX_ASSERT(i >= 0 && i < ds->map.n_samples);
    return ds->map.row[i];
}

const tx_indexed *tx_bert_dataset_file(const tx_bert_dataset *ds)
{
    return &ds->data->ix;
}

/* ---- samples ---- */

/* Sentences of the file end to end, of which the tokens [begin, end) are kept. */
typedef struct segment {
    int64_t first, n_sentences, begin, end;
} segment;

static segment segment_of(const tx_indexed *ix, int64_t first, int64_t n_sentences)
{
    segment s = { .first = first, .n_sentences = n_sentences };
    for (int64_t i = first; i < first + n_sentences; i++) s.end += tx_indexed_size(ix, i);
    return s;
}

/* Takes tokens off the longer segment, from either end, until both have no more than `target`. */
static bool truncate_segments(segment *a, segment *b, int64_t target, tx_np_rng *rng)
{
    int64_t too_many = a->end - a->begin + b->end - b->begin - target;
    for (int64_t i = 0; i < too_many; i++) {
        segment *longer = a->end - a->begin > b->end - b->begin ? a : b;
        if (tx_np_rng_random(rng) < 0.5)
            longer->begin++;
        else
            longer->end--;
    }
    return too_many > 0;
}

/* Appends a segment's tokens, with their type. */
static tx_status append(const tx_bert_data *data, tx_bert_sample *s, const segment *seg, int32_t type)
{
    int64_t at = 0; /* of the sentence in the segment */
    for (int64_t i = seg->first; i < seg->first + seg->n_sentences; i++) {
        int64_t size = tx_indexed_size(&data->ix, i);
        int64_t from = seg->begin > at ? seg->begin - at : 0, to = seg->end - at < size ? seg->end - at : size;
        at += size;
        if (from >= to) continue;
        int32_t *tokens = s->tokens + s->n_tokens;
        TX_TRY(tx_indexed_get(&data->ix, tokens, i, from, to - from));
        TX_TRY(tx_indexed_check_vocab(&data->ix, tokens, i, from, to - from, data->vocab_size));
        for (int64_t k = 0; k < to - from; k++) s->types[s->n_tokens++] = type;
    }
    return TX_OK;
}

static void append_id(tx_bert_sample *s, int32_t id, int32_t type)
{
    s->tokens[s->n_tokens] = id;
    s->types[s->n_tokens++] = type;
}

/* The positions that may be masked, word by word: word w has position[begin[w] .. begin[w + 1]). A piece "##..." joins
 * the word before it, be that on the other side of a [SEP]. Returns the number of words. */
static int32_t find_words(const tx_bert_data *data, const tx_bert_sample *s, int32_t *position, int32_t *begin)
{
    int32_t n_words = 0, n = 0;
    for (int32_t i = 0; i < s->n_tokens; i++) {
        int32_t id = s->tokens[i];
        if (id == data->cls || id == data->sep) continue;
        if (!n_words || !data->goes_on[id]) begin[n_words++] = n;
        position[n++] = i;
    }
    begin[n_words] = n;
    return n_words;
}

/* 80 % [MASK], 10 % as it is, 10 % any id; or [MASK] always, for which nothing is drawn. */
static void mask_token(const tx_bert_data *data, tx_bert_sample *s, int32_t i, tx_np_rng *rng)
{
    s->labels[i] = s->tokens[i];
    if (data->always_masked || tx_np_rng_random(rng) < 0.8)
        s->tokens[i] = data->mask;
    else if (!(tx_np_rng_random(rng) < 0.5))
        s->tokens[i] = (int32_t)tx_np_rng_randint(rng, 0, data->vocab_size);
}

static bool any_masked(const tx_bert_sample *s, const int32_t *position, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (s->labels[position[i]] >= 0) return true;
    return false;
}

/* Words in shuffled order are masked, each with some that follow it, until the share to predict is reached. */
static void mask_words(const tx_bert_data *data, tx_bert_sample *s, int32_t target, tx_np_rng *rng)
{
    int32_t *position = s->scratch, *order = position + data->seq_length, *begin = order + data->seq_length;
    int32_t n_masked = 0, n_words = find_words(data, s, position, begin);
    double share = fmax(1, rint(s->n_tokens * data->mask_prob));
    double n_to_mask = fmin(data->mask_prob * target, share); /* a fraction is possible, and compared as such */
    if (data->mask_prob == 0) return;
    for (int32_t w = 0; w < n_words; w++) order[w] = w;
    tx_np_rng_shuffle_i32(rng, order, n_words);
    for (int32_t k = 0; k < n_words && n_masked < n_to_mask; k++) {
        int32_t w = order[k], n, n_tokens;
        n = 1 + tx_np_rng_choice(rng, data->ngram_p, data->max_ngrams);
        for (;; n--) {
            int32_t end = w + n < n_words ? w + n : n_words;
            n_tokens = begin[end] - begin[w];
            if (n == 1 || n_masked + n_tokens <= n_to_mask) break;
        }
        if (n_masked + n_tokens > n_to_mask || any_masked(s, position + begin[w], n_tokens)) continue;
        for (int32_t i = 0; i < n_tokens; i++) mask_token(data, s, position[begin[w] + i], rng);
        n_masked += n_tokens;
    }
}

tx_status tx_bert_dataset_get(const tx_bert_dataset *ds, tx_bert_sample *s, int64_t i)
{
    const tx_bert_data *data = ds->data;
    tx_bert_row row = tx_bert_dataset_row(ds, i);
    tx_np_rng rng;
    tx_np_rng_seed(&rng, (uint32_t)((uint64_t)data->seed + (uint64_t)i));
    int64_t n_a = row.n_sentences;
    if (data->binary_head) n_a = row.n_sentences > 2 ? tx_np_rng_randint(&rng, 1, row.n_sentences) : 1;
    segment a = segment_of(&data->ix, row.first, n_a);
    segment b = segment_of(&data->ix, row.first + n_a, row.n_sentences - n_a);
    s->is_random = data->binary_head && tx_np_rng_random(&rng) < 0.5;
    if (s->is_random) {
        segment t = a;
        a = b;
        b = t;
    }
    if (!a.end)
        return TX_FAIL(TX_ERR_FORMAT, "%s: the sentences from %lld on are empty; repeat preprocess-data",
                       data->ix.prefix, (long long)a.first);
    s->truncated = truncate_segments(&a, &b, row.target, &rng);
    s->n_tokens = 0;
    append_id(s, data->cls, 0);
    TX_TRY(append(data, s, &a, 0));
    append_id(s, data->sep, 0);
    TX_TRY(append(data, s, &b, 1));
    if (b.end > b.begin) append_id(s, data->sep, 1);
    for (int64_t k = 0; k < data->seq_length; k++) s->labels[k] = -1;
    mask_words(data, s, row.target, &rng);
    for (int64_t k = s->n_tokens; k < data->seq_length; k++) s->tokens[k] = s->types[k] = data->pad;
    return TX_OK;
}

tx_status tx_bert_dataset_get_row(const tx_bert_dataset *ds, int32_t *scratch, int32_t *row, int64_t i)
{
    tx_bert_ids to = tx_bert_ids_of(row, ds->data->seq_length);
    tx_bert_sample s = { .tokens = to.tokens, .types = to.types, .labels = to.labels, .scratch = scratch };
    TX_TRY(tx_bert_dataset_get(ds, &s, i));
    *to.n_tokens = s.n_tokens;
    *to.is_random = s.is_random;
    return TX_OK;
}
