/* indexed.h - Megatron's memory-mapped token files: <prefix>.bin with the ids, <prefix>.idx with where they are.
 *
 *      .bin   | item 0 | item 1    | item 2 | ...       ids back to back, one integer type throughout
 *      .idx   magic, version, type, N items, M = documents + 1
 *             sizes    i32[N]   ids in each item
 *             pointers i64[N]   byte where it begins in .bin
 *             doc_idx  i64[M]   item at which each document begins; the last entry is N
 *
 *  An item is a document for GPT and a sentence for BERT. Nothing in the files is trusted: opening walks the whole
 *  index once, so that every later access can do without checks of its own. */
#ifndef TX_DATA_INDEXED_H
#define TX_DATA_INDEXED_H

#include <stdint.h>
#include <string.h>

#include "base/file.h"

/* ---- reading ---- */

typedef struct tx_indexed {
    char *prefix; /* as given; owned */
    tx_map idx, bin;
    int dtype;         /* code of the file: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16 */
    size_t item_bytes; /* of one id */
    int64_t n_items, n_docs, n_tokens;
    const unsigned char *sizes, *pointers, *doc_idx; /* into idx; not aligned, hence the functions below */
    struct {
        unsigned char *index; /* in the place of idx, owned; NULL: there are files */
        int64_t vocab_size;
        int32_t eod;
    } mock;
} tx_indexed;

/* Whether both files of a prefix are there: Megatron's message when not (TX_ERR_NOTFOUND). */
tx_status tx_indexed_exists(const char *prefix);

/* Opens and checks the pair. Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT (names file, place and remedy). */
tx_status tx_indexed_open(tx_indexed *out, const char *prefix);
void tx_indexed_close(tx_indexed *ix); /* a zeroed one is fine */

/* The same without files: the documents of mock_documents.h. TX_ERR_ARG: the vocabulary is not known or has no end of
 * a document. */
tx_status tx_indexed_open_mock(tx_indexed *out, int64_t vocab_size, int32_t eod);

/* Number of ids in item i; 0 <= i < n_items. */
static inline int32_t tx_indexed_size(const tx_indexed *ix, int64_t i)
{
    int32_t n;
    memcpy(&n, ix->sizes + i * 4, 4);
    return n;
}

/* First item of document d; for d == n_docs it is n_items. */
static inline int64_t tx_indexed_doc_begin(const tx_indexed *ix, int64_t d)
{
    int64_t i;
    memcpy(&i, ix->doc_idx + d * 8, 8);
    return i;
}

/* The document that item i belongs to (the last one that begins at or before it). */
int64_t tx_indexed_doc_of(const tx_indexed *ix, int64_t i);

/* ids[0..n) = ids [offset, offset + n) of item i. Errors: TX_ERR_ARG outside the item; TX_ERR_FORMAT for an id that
 * does not fit 32 bits. */
tx_status tx_indexed_get(const tx_indexed *ix, int32_t *ids, int64_t i, int64_t offset, int64_t n);

/* Whether all n ids, read from item i at `offset`, are below vocab_size. Errors: TX_ERR_FORMAT names document and id.
 */
tx_status tx_indexed_check_vocab(const tx_indexed *ix, const int32_t *ids, int64_t i, int64_t offset, int64_t n,
                                 int64_t vocab_size);

/* ---- writing ---- */

typedef struct tx_indexed_builder tx_indexed_builder;

/* Starts <prefix>.bin/.idx. The id type follows from the vocabulary as in Megatron: uint16 below 65500 entries, else
 * int32. Nothing appears under the final names before tx_indexed_commit. */
tx_status tx_indexed_create(tx_indexed_builder **out, const char *prefix, int64_t vocab_size);

/* Starts <prefix>.bin/.idx as the datasets part[0..n), n > 0, one after the other: .bin bytes as they are, items and
 * documents counted on, as Megatron's merge_datasets.py does. Only tx_indexed_seal, _commit and _destroy may follow;
 * the parts stay open until then. Memory does not grow with the datasets. Errors: TX_ERR_ARG when the id types differ
 * (names both files); TX_ERR_FORMAT, TX_ERR_UNSUPPORTED for parts that cannot be joined without harm; TX_ERR_IO. */
tx_status tx_indexed_join(tx_indexed_builder **out, const char *prefix, const tx_indexed *part, size_t n);

/* "uint16", ...: the id type of an open dataset as NumPy calls it. */
const char *tx_indexed_dtype_name(const tx_indexed *ix);

/* Appends an item of the current document. Errors: TX_ERR_ARG for an id the type cannot hold, TX_ERR_IO. */
tx_status tx_indexed_add_item(tx_indexed_builder *b, const int32_t *ids, int64_t n);

/* Ends the document; the items since the last end are its items. */
tx_status tx_indexed_end_document(tx_indexed_builder *b);

/* Makes both files complete and durable under temporary names; what can fail for want of space fails here. Optional:
 * for callers who publish several datasets and want all or none. Nothing can be added afterwards. */
tx_status tx_indexed_seal(tx_indexed_builder *b);

/* Seals, then puts both files under their names, replacing an older pair: a crash leaves the old pair, the new pair or
 * (between two renames) none, never a mixture. The builder must still be destroyed. */
tx_status tx_indexed_commit(tx_indexed_builder *b);

/* Ends a builder; what was not committed is removed. NULL allowed. */
void tx_indexed_destroy(tx_indexed_builder *b);

/* Counts so far. */
int64_t tx_indexed_builder_docs(const tx_indexed_builder *b);
int64_t tx_indexed_builder_tokens(const tx_indexed_builder *b);

#endif
