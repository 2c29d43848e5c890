/* mock_documents.c - lengths of NumPy's default generator, and ids that count. */
#include "data/mock_documents.h"

#include "data/numpy_generator.h"

void tx_mock_lengths(int32_t *length, int64_t n)
{
    tx_np_generator g;
    tx_np_generator_seed(&g, 0);
    for (int64_t i = 0; i < n; i++) length[i] = 1 + (int32_t)tx_np_generator_below(&g, TX_MOCK_LONGEST);
}

void tx_mock_ids(int32_t *ids, int64_t length, int64_t offset, int64_t n, int64_t vocab_size, int32_t eod)
{
    for (int64_t i = 0; i < n; i++) ids[i] = offset + i == length - 1 ? eod : (int32_t)((offset + i + 1) % vocab_size);
}
