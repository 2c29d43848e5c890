/* mock_documents.h - the documents of --mock-data, which stand in for a dataset: Megatron Core's
 * MockGPTLowLevelDataset (megatron/core/datasets/gpt_dataset.py), id for id.
 *
 *  100000 documents of 1 to 4095 ids: 1, 2, 3, ... modulo the vocabulary's size, and an end-of-document id. Their
 * lengths are default_rng(0).integers(1, 4096) of NumPy, whatever --seed says; that gives the order of samples, as of
 * any dataset. */
#ifndef TX_DATA_MOCK_DOCUMENTS_H
#define TX_DATA_MOCK_DOCUMENTS_H

#include <stdint.h>

#define TX_MOCK_NAME "--mock-data" /* in the place of a dataset's path */

enum { TX_MOCK_DOCUMENTS = 100000, TX_MOCK_LONGEST = 4095 };

/* Lengths of the first n documents. */
void tx_mock_lengths(int32_t *length, int64_t n);

/* ids[0..n) = ids [offset, offset + n) of a document of so many. */
void tx_mock_ids(int32_t *ids, int64_t length, int64_t offset, int64_t n, int64_t vocab_size, int32_t eod);

#endif
