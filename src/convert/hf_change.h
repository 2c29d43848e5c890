/* hf_change.h - what a parameter is in a Hugging Face folder. Shared by reading and writing one. */
#ifndef TX_CONVERT_HF_CHANGE_H
#define TX_CONVERT_HF_CHANGE_H

#include "convert/source.h"
#include "model/hf_format.h"

/* An or of tx_tensor_change: TX_CHANGE_SPLIT where it is several there. */
static inline unsigned tx_hf_change(const tx_hf_format *format, const tx_model *m, const tx_param *p, bool to_hf)
{
    tx_hf_part part[TX_HF_MAX_PARTS];
    unsigned all = TX_CHANGE_NONE;
    int n = tx_hf_parts(format, m, p, part), n_pieces = 0;
    for (int i = 0; i < n; i++) {
        bool segments = part[i].row->rows == TX_HF_SEGMENTS;
        all |= (part[i].row->transposed ? TX_CHANGE_TRANSPOSED : 0) |
               (tx_hf_reorders(&part[i]) ? TX_CHANGE_REORDERED : 0) | (segments && !to_hf ? TX_CHANGE_SUMMED : 0);
        n_pieces += !segments;
    }
    return all | (n_pieces > 1 ? TX_CHANGE_SPLIT : 0);
}

#endif
