/* sample_documents.h - which documents samples are made of. */
#ifndef TX_DATA_SAMPLE_DOCUMENTS_H
#define TX_DATA_SAMPLE_DOCUMENTS_H

#include "base/str.h"
#include "data/blend.h"

/* The pieces of a sample. The memory is used again for the next one. */
typedef struct tx_sample_pieces {
    tx_sample_piece *piece; /* [n] */
    int64_t n, cap;
    int dataset; /* of the blend, which they are of */
} tx_sample_pieces;

/* Those of sample i of a blend. TX_ERR_NOMEM */
tx_status tx_sample_pieces_read(tx_sample_pieces *p, const tx_blend *b, int64_t i);
void tx_sample_pieces_free(tx_sample_pieces *p); /* a zeroed one is fine */

/* Appends "documents 3, 18, 40-42 of PREFIX", datasets joined by "; ": those of samples[0..n), ascending. At most
 * TX_DOCUMENTS_SHOWN ranges of numbers of each of TX_DATASETS_SHOWN datasets, the rest as "and 5 more". */
enum { TX_DOCUMENTS_SHOWN = 16, TX_DATASETS_SHOWN = 3 };
tx_status tx_sample_documents(tx_str *out, const tx_blend *b, const int64_t *sample, int64_t n);

#endif
