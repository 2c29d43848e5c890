/* boxes.c - cutting shards into boxes and checking that boxes fit together. Knows no file. */
#include "checkpoint/boxes.h"

#include <stdlib.h>

#include "base/alloc.h"

/* ---- fragments ---- */

static int64_t clamp(int64_t x, int64_t hi)
{
    return x < 0 ? 0 : x < hi ? x : hi;
}

/* Elements of the piece that come before element i of the shard. */
static int64_t elements_before(const tx_param *p, const tx_param_piece *piece, int64_t i)
{
    int64_t width = p->n_dims == 2 ? p->dim[1] : 1, row = i / width - piece->at[0];
    if (row < 0) return 0;
    if (row >= piece->size[0]) return piece->size[0] * piece->size[1];
    return row * piece->size[1] + clamp(i % width - piece->at[1], piece->size[1]);
}

/* Rows and columns of the piece, counted in it, as a box of the tensor. */
static tx_param_piece box_of(const tx_param_piece *piece, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    return (tx_param_piece){ .start = { piece->start[0] + row, piece->start[1] + col },
                             .size = { rows, cols },
                             .at = { piece->at[0] + row, piece->at[1] + col } };
}

/* A piece's elements follow each other in its rows as they do in the shard, so the fragment is one of the piece too. */
int tx__piece_cut(tx_param_piece box[TX__CUT_MAX], const tx_param *p, const tx_param_piece *piece, int64_t first,
                  int64_t end)
{
    int n = 0;
    int64_t from = elements_before(p, piece, first), to = elements_before(p, piece, end), width = piece->size[1];
    if (from >= to) return 0;
    int64_t row = from / width, last = to / width, left = from % width, right = to % width;
    if (row == last) {
        box[n++] = box_of(piece, row, 1, left, right - left);
        return n;
    }
    if (left) box[n++] = box_of(piece, row++, 1, left, width - left);
    if (row < last) box[n++] = box_of(piece, row, last - row, 0, width);
    if (right) box[n++] = box_of(piece, last, 1, 0, right);
    return n;
}

int tx__fragment_count(const tx_params *ps, const tx_fragments *kept)
{
    return kept ? kept->n : ps->n;
}

tx_fragment tx__fragment_at(const tx_params *ps, const tx_fragments *kept, int i)
{
    if (!kept) return (tx_fragment){ .row = i, .numel = ps->param[i].numel, .at = ps->param[i].offset };
    tx_fragment s = kept->fragment[i];
    TX_ASSERT(s.row >= 0 && s.row < ps->n && s.first >= 0 && s.numel >= 0 && s.at >= 0);
    TX_ASSERT(s.first <= ps->param[s.row].numel - s.numel);
    return s;
}

float *tx__fragment_element(const tx_ckpt_part *part, const tx_params *ps, const tx_fragment *s, int64_t i)
{
    return part->flat + (part->whole ? ps->param[s->row].offset + i : s->at + i - s->first);
}

/* ---- coverage ---- */

static int by_place(int64_t row_a, int64_t col_a, int64_t row_b, int64_t col_b)
{
    if (row_a != row_b) return row_a < row_b ? -1 : 1;
    return (col_a > col_b) - (col_a < col_b);
}

static int by_start(const void *a, const void *b)
{
    const tx__saved_piece *x = a, *y = b;
    return by_place(x->start[0], x->start[1], y->start[0], y->start[1]);
}

static int by_end(const void *a, const void *b)
{
    const tx__saved_piece *x = *(const tx__saved_piece *const *)a, *y = *(const tx__saved_piece *const *)b;
    return by_place(x->start[0] + x->size[0], x->start[1], y->start[0] + y->size[0], y->start[1]);
}

/* Edges of boxes in one row of a tensor, one beginning where the other ends. */
typedef struct edge {
    int64_t row, from, to;
} edge;

static bool same_edge(edge a, edge b)
{
    return a.row == b.row && a.from == b.from && a.to == b.to;
}

/* The upper edge of the piece that comes next, joined with those that continue it. */
static edge next_start(const tx__saved *s, size_t *i)
{
    const tx__saved_piece *p = &s->piece[(*i)++], *end = s->piece + s->n_pieces;
    edge e = { p->start[0], p->start[1], p->start[1] + p->size[1] };
    for (p++; p < end && p->start[0] == e.row && p->start[1] == e.to; p++, (*i)++) e.to += p->size[1];
    return e;
}

/* The same of lower edges. */
static edge next_end(const tx__saved_piece *const *piece, size_t n, size_t *i)
{
    const tx__saved_piece *p = piece[(*i)++];
    edge e = { p->start[0] + p->size[0], p->start[1], p->start[1] + p->size[1] };
    for (; *i < n; (*i)++) {
        p = piece[*i];
        if (p->start[0] + p->size[0] != e.row || p->start[1] != e.to) break;
        e.to += p->size[1];
    }
    return e;
}

/* From the first row down: if boxes lie side by side from edge to edge in the row above, they do in this one when those
 * that begin here take exactly the columns of those that ended. So edges are compared, in the order of rows, and boxes
 * never pair by pair. */
tx_status tx__pieces_cover(tx__saved *s, bool *covered)
{
    size_t n = s->n_pieces, begun = 0, ended = 0;
    const tx__saved_piece **ending;
    TX_TRY(tx_alloc(&ending, n, sizeof *ending, "a list of pieces"));
    for (size_t i = 0; i < n; i++) ending[i] = &s->piece[i];
    qsort(s->piece, n, sizeof *s->piece, by_start);
    qsort(ending, n, sizeof *ending, by_end);
    bool good = same_edge(next_start(s, &begun), (edge){ 0, 0, s->dim[1] });
    while (good && begun < n) /* the last edge of all is the tensor's, where nothing begins */
        good = ended < n && same_edge(next_start(s, &begun), next_end(ending, n, &ended));
    *covered = good && ended < n && ending[ended]->start[0] + ending[ended]->size[0] == s->dim[0];
    tx_free(ending);
    return TX_OK;
}
