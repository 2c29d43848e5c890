/* samples.h - what a sample is. A kind of samples (GPT's, BERT's, a user-defined model's) is one struct of functions. A
 * model names its kind (model/model.h), and a GPT that is fine-tuned has another; who reads samples calls these
 * functions and need not know which kind it is.
 *
 *      set      the samples of one split of one dataset
 *      row      one sample as models, the feed and files have it: row_len numbers
 *      piece    the tokens of one item of the dataset that a sample is made of
 *
 *  To add a kind: a file like gpt_samples.c, and a line in TX_SAMPLES. */
#ifndef TX_DATA_SAMPLES_H
#define TX_DATA_SAMPLES_H

#include "base/str.h"
#include "config/config.h"
#include "data/data_groups.h"
#include "data/indexed.h"
#include "triax/token.h"

/* All kinds: X(prefix of tx_<prefix>_samples). kinds/models.h says which model is trained on which. */
#define TX_SAMPLES(X) \
    X(gpt)            \
    X(bert)           \
    X(finetune)       \
    X(user)

/* A dataset to open, and what is wanted of it. */
typedef struct tx_dataset_request {
    const tx_config *cfg;
    const tx_data_group *group;
    const tx_data_set *set;   /* of the group */
    const int64_t *n_samples; /* [TX_N_SPLITS] wanted of each; 0: none */
    int64_t vocab_size;       /* ids are checked against it; 0: they are not */
    int32_t eod;              /* ends the documents of --mock-data; -1: there is none */
    const tx_tokenizer *tok;  /* the model's; NULL unless tx_samples_need_tokenizer */
} tx_dataset_request;

typedef struct tx_sample_piece {
    int64_t item, document; /* of the dataset */
    int64_t offset;         /* of the first token in the item */
    int64_t n_tokens;
} tx_sample_piece;

/* What inspect-samples shows a sample with. */
typedef struct tx_sample_view {
    const tx_config *cfg;
    const tx_tokenizer *tok; /* NULL: ids only */
    const void *set;
    int64_t i;          /* of the set */
    const int32_t *row; /* sample i, and its pieces */
    const tx_sample_piece *piece;
    int64_t n_pieces;
} tx_sample_view;

typedef struct tx_samples {
    const char *name;     /* of the datasets in the log */
    bool needs_tokenizer; /* to open a dataset, always: see tx_samples_need_tokenizer */
    bool sentences; /* an item of the dataset is a sentence or a conversation, a document several; else an item is a
                     * document */
    bool masked;    /* rows are those of tx_bert_ids: some tokens are masked, and the labels are what they were */
    int n_shared;   /* tokens at the end of a sample that are the first of the next: labels only */
    int n_scratch;  /* numbers that `get` needs for each position of a sample */
    int64_t (*row_len)(int64_t s); /* numbers in a row, of samples of s positions */

    /* A dataset with its three splits. NULL: there are no datasets of this kind, and no other function below. */
    tx_status (*open)(void **out, const tx_dataset_request *from);
    void (*close)(void *data);                          /* NULL allowed */
    const void *(*split)(const void *data, tx_split k); /* a set, borrowed; NULL: it has no sample */
    int64_t (*documents)(const void *data);             /* of the whole dataset */

    /* A set. Reading is safe from any number of threads. */
    const tx_indexed *(*file)(const void *set);
    int64_t (*len)(const void *set); /* samples */
    /* A number by which a set in keyed order is recognised wherever its files are; NULL: this kind has no such order.
     */
    uint64_t (*id)(const void *set);
    /* row = sample i.   @scratch [n_scratch * s]   TX_ERR_FORMAT: an id outside the vocabulary */
    tx_status (*get)(const void *set, int32_t *scratch, int32_t *row, int64_t i);
    /* The pieces of sample i in order: the first `cap` of them into piece. Returns how many there are. */
    int64_t (*pieces)(const void *set, tx_sample_piece *piece, int64_t cap, int64_t i);
    /* Appends members of a JSON object: what inspect-samples shows. */
    tx_status (*show)(tx_str *out, const tx_sample_view *v);
} tx_samples;

#define X(kind) extern const tx_samples tx_##kind##_samples;
TX_SAMPLES(X)
#undef X

/* The kind that the model of --model-type reads, and with --finetune-data that of conversations. */
const tx_samples *tx_samples_of(const tx_config *cfg);

/* Whether datasets are opened with a tokenizer, which is kept until they are closed. */
bool tx_samples_need_tokenizer(const tx_config *cfg);

/* Documents of a dataset's file, and the tokens of one of them. */
int64_t tx_samples_documents(const tx_samples *kind, const tx_indexed *ix);
int64_t tx_samples_document_size(const tx_samples *kind, const tx_indexed *ix, int64_t document);

/* A set with its kind. Borrowed. */
typedef struct tx_sample_set {
    const tx_samples *kind;
    const void *set; /* NULL: no sample */
} tx_sample_set;

/* Appends "name":[x[0],...], for `show`. */
tx_status tx_samples_put_ids(tx_str *out, const char *name, const int32_t *x, int64_t n);

#endif
