/* boxes.h - cuts fragments of shards into boxes, and checks that boxes cover a tensor. Shared inside the checkpoint
 * room.
 *
 *      a fragment of a shard in memory order            is of a matrix up to three boxes of each of its pieces
 *
 *          . . . . . # # #                                 . . . . . 1 1 1      the rest of a row
 *          # # # # # # # #                                 2 2 2 2 2 2 2 2      whole rows
 *          # # # # # # # #                                 2 2 2 2 2 2 2 2
 *          # # # . . . . .                                 3 3 3 . . . . .      the beginning of a row */
#ifndef TX_CHECKPOINT_BOXES_H
#define TX_CHECKPOINT_BOXES_H

#include "checkpoint/checkpoint.h"

/* ---- a saved tensor and its boxes ---- */

typedef struct tx__saved_piece {
    size_t shard;
    const char *key;           /* tensor's name inside the shard */
    int64_t start[2], size[2]; /* a box in global coordinates; unused dimensions are 0 and 1 */
} tx__saved_piece;

typedef struct tx__saved {
    const char *name;
    int n_dims; /* 1 or 2 */
    int64_t dim[2];
    tx__saved_piece *piece; /* sorted by start when they have been read */
    size_t n_pieces;
} tx__saved;

/* ---- cutting and covering ---- */

enum { TX__CUT_MAX = 3 };

/* The boxes of elements [first, end) of p's shard inside one of its pieces, in memory order; their number, which may be
 * 0. Elements that pad are in no piece. */
int tx__piece_cut(tx_param_piece box[TX__CUT_MAX], const tx_param *p, const tx_param_piece *piece, int64_t first,
                  int64_t end);

/* The rows of a part, and the fragments of them. */
static inline const tx_params *tx__part_rows(const tx_ckpt_part *part, const tx_params *ps)
{
    return part->rows ? part->rows : ps;
}
static inline const tx_fragments *tx__part_kept(const tx_ckpt_part *part, const tx_fragments *kept)
{
    return part->rows ? part->kept : kept;
}

/* The fragments that a rank keeps; kept NULL: the whole of every row. */
int tx__fragment_count(const tx_params *ps, const tx_fragments *kept);
tx_fragment tx__fragment_at(const tx_params *ps, const tx_fragments *kept, int i);

/* Where element i of the shard, one of the fragment's, lies in part->flat. */
float *tx__fragment_element(const tx_ckpt_part *part, const tx_params *ps, const tx_fragment *s, int64_t i);

/* Whether s->piece, boxes inside the tensor, do not overlap and leave nothing out. Sorts them by start. TX_ERR_NOMEM */
tx_status tx__pieces_cover(tx__saved *s, bool *covered);

#endif
