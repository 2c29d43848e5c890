/* matrices.c - the directions of a bucket's matrices, made orthogonal. */
#include "zero/matrices.h"

#include <math.h>

static const char what[] = "the directions of matrices";

/* ---- which, and whose turn ---- */

bool tx_zero_is_matrix(const tx_zero *z, int row)
{
    const tx_param *p = &z->ps->param[row];
    return z->matrices.on && p->n_dims == 2 && !p->frozen && z->ps->unit[p->unit].kind == TX_UNIT_LAYER;
}

bool tx_zero_has_matrix(const tx_zero *z, int k)
{
    for (int row = 0; row < z->ps->n; row++)
        if (z->flat.of_row[row] == k && tx_zero_is_matrix(z, row)) return true;
    return false;
}

/* A matrix's turn is that of its number in the table, so that the matrices of neighbouring layers are different ranks',
 * however few a bucket has. Tensor ranks have the same tables, so they take the same turns. */
static bool is_mine(const tx_zero *z, int row, int turn)
{
    tx_comm *owners = tx__bucket_owners(z, z->flat.of_row[row]);
    return turn % tx_comm_size(owners) == tx_comm_rank(owners);
}

/* ---- pieces: what is made orthogonal by itself ---- */

/* Rows of a matrix: n_runs stretches of `run` elements, `stride` apart; all of it is one run. */
typedef struct piece {
    int64_t first, n_runs, run, stride;
    int64_t rows, columns; /* of this tensor rank */
} piece;

enum { MAX_PIECES = 3 };

static int pieces_of(const tx_zero *z, const tx_param *p, piece of[MAX_PIECES])
{
    int64_t rows = p->dim[0], columns = p->dim[1], first = 0, group = p->fused[0] + p->fused[1] + p->fused[2];
    of[0] = (piece){ 0, 1, rows * columns, rows * columns, rows, columns };
    if (!p->fused[0] || !z->cfg->muon_split_qkv) return 1;
    TX_ASSERT(rows % group == 0);
    for (int i = 0; i < MAX_PIECES; i++) {
        int64_t n = p->fused[i];
        of[i] = (piece){ first * columns, rows / group, n * columns, group * columns, rows / group * n, columns };
        first += n;
    }
    return MAX_PIECES;
}

static bool has_parts(const tx_zero *z, const tx_param *p)
{
    return p->n_tp > 1 && z->cfg->muon_tp_mode != TX_MUON_BLOCKWISE;
}

static bool is_gathered(const tx_zero *z, const tx_param *p)
{
    return has_parts(z, p) && z->cfg->muon_tp_mode == TX_MUON_DUPLICATED;
}

/* Sides of the whole of it; blockwise, a part is the whole. */
static void sides_of(const tx_zero *z, const tx_param *p, const piece *of, int64_t side[2])
{
    side[0] = of->rows;
    side[1] = of->columns;
    if (has_parts(z, p)) side[p->split_dim] *= p->n_tp;
}

/* Sides of what this rank makes orthogonal. */
static void sides_here(const tx_zero *z, const tx_param *p, const piece *of, int64_t side[2])
{
    sides_of(z, p, of, side);
    if (has_parts(z, p) && !is_gathered(z, p)) side[p->split_dim] /= p->n_tp;
}

/* Whether A is of the columns: they are fewer, or rows are what ranks have parts of. */
static bool is_of_columns(const tx_zero *z, const tx_param *p, const int64_t side[2])
{
    return has_parts(z, p) && !is_gathered(z, p) ? p->split_dim == 0 : side[0] > side[1];
}

/* Whether the piece lies in the buffer as it is needed. */
static bool is_in_place(const tx_zero *z, const tx_param *p, const piece *of)
{
    return of->n_runs == 1 && !is_gathered(z, p);
}

static double scale_of(const tx_zero *z, const int64_t side[2])
{
    double rows = (double)side[0], columns = (double)side[1], square = 0;
    switch (z->cfg->muon_scale_mode) {
    case TX_MUON_SPECTRAL:
        square = fmax(rows, columns);
        break;
    case TX_MUON_UNIT_RMS_NORM:
        square = rows / columns;
        break;
    case TX_MUON_SHAPE_SCALING:
        square = fmax(1, rows / columns);
        break;
    }
    return sqrt(square) * z->cfg->muon_extra_scale_factor;
}

/* ---- memory ---- */

static void at_most(int64_t *most, int64_t n)
{
    if (n > *most) *most = n;
}

static void plan_row(tx_zero *z, int row)
{
    tx_matrices *m = &z->matrices;
    const tx_param *p = &z->ps->param[row];
    piece of[MAX_PIECES];
    int64_t side[2];
    int n = pieces_of(z, p, of);
    at_most(&m->numel, z->flat.bucket[z->flat.of_row[row]].numel);
    for (int i = 0; i < n; i++) {
        sides_here(z, p, &of[i], side);
        at_most(&m->work.most, side[0] * side[1]);
        at_most(&m->work.side, side[is_of_columns(z, p, side)]);
        if (!is_in_place(z, p, &of[i])) at_most(&m->moved, side[0] * side[1]);
    }
}

void tx__matrices_plan(tx_zero *z)
{
    tx_matrices *m = &z->matrices;
    const tx_config *cfg = z->cfg;
    m->work = (tx_newton_schulz){ .coefficients = cfg->muon_coefficient_type,
                                  .steps = (int)cfg->muon_num_ns_steps,
                                  .type = cfg->muon_fp32_matmul_prec == TX_MUON_HIGH ? TX_F32 : TX_BF16,
                                  .ranks = tx_comm_size(tx_grid_group(z->grid, TX_GROUP_TENSOR)) };
    for (int row = 0; row < z->ps->n; row++)
        if (tx_zero_is_matrix(z, row)) plan_row(z, row);
    m->direction = m->room[0] = m->room[1] = TX_DRY_ADDRESS;
    if (m->on) tx_newton_schulz_plan(&m->work);
}

tx_status tx__matrices_take(tx_zero *z)
{
    tx_matrices *m = &z->matrices;
    tx_device *d = z->c->device;
    m->direction = m->room[0] = m->room[1] = NULL;
    if (!m->numel) return TX_OK;
    TX_TRY(tx_device_take(d, &m->direction, (size_t)m->numel * sizeof(float), true, what));
    for (int i = 0; i < 2 && m->moved; i++)
        TX_TRY(tx_device_take(d, &m->room[i], (size_t)m->moved * sizeof(float), true, what));
    return tx_newton_schulz_take(&m->work, d);
}

void tx__matrices_close(tx_zero *z)
{
    tx_matrices *m = &z->matrices;
    tx_device *d = z->c ? z->c->device : NULL;
    if (m->direction == TX_DRY_ADDRESS) return;
    tx_device_give(d, m->direction);
    for (int i = 0; i < 2; i++) tx_device_give(d, m->room[i]);
    tx_newton_schulz_give(&m->work, d);
}

size_t tx__matrices_bytes(const tx_zero *z)
{
    const tx_matrices *m = &z->matrices;
    return m->numel ? (size_t)(m->numel + 2 * m->moved) * sizeof(float) + m->work.bytes : 0;
}

float *tx__matrices_direction(const tx_zero *z, const tx_fragment *s)
{
    if (!tx_zero_is_matrix(z, s->row) || !z->matrices.direction) return NULL;
    return z->matrices.direction + z->ps->param[s->row].offset - z->flat.bucket[z->flat.of_row[s->row]].offset +
           s->first;
}

/* ---- the steps ---- */

/* Part t of what was gathered, to its place in the whole in room[0] or from there: rows of each of the blocks that are
 * split, or columns.   @part [rows, columns] of a tensor rank */
static tx_status place_part(const tx_zero *z, const tx_param *p, const piece *of, int t, float *part, bool back)
{
    int64_t n = p->split_dim == 0 ? p->n_parts : 1, rows = of->rows / n, columns = of->columns, width = columns;
    TX_ASSERT(p->split_dim == 0 || p->n_parts == 1);
    if (p->split_dim == 1) width *= p->n_tp;
    for (int64_t i = 0; i < n; i++) {
        int64_t first = p->split_dim == 0 ? (i * p->n_tp + t) * rows * columns : t * columns;
        tx_tensor here = tx_tensor2(part + i * rows * columns, TX_F32, rows, columns);
        tx_tensor there = tx_tensor2(z->matrices.room[0] + first, TX_F32, rows, columns);
        there.stride[0] = width;
        TX_RUN(z->c, copy, .y = back ? here : there, .x = back ? there : here);
    }
    return TX_OK;
}

/* The piece as it lies in the buffer, and in one run at x. */
static tx_status move_piece(const tx_zero *z, const piece *of, float *direction, float *x, bool back)
{
    tx_tensor there = tx_tensor2(direction + of->first, TX_F32, of->n_runs, of->run);
    tx_tensor here = tx_tensor2(x, TX_F32, of->n_runs, of->run);
    there.stride[0] = of->stride;
    TX_RUN(z->c, copy, .y = back ? there : here, .x = back ? here : there);
    return TX_OK;
}

/* room[0] = the whole, of a part in room[0] on each tensor rank. */
static tx_status gather(const tx_zero *z, const tx_param *p, const piece *of)
{
    const tx_matrices *m = &z->matrices;
    int64_t n = of->rows * of->columns;
    tx_tensor part = tx_tensor1(m->room[0], TX_F32, n), all = tx_tensor1(m->room[1], TX_F32, n * p->n_tp);
    TX_TRY(tx_all_gather(z->c, tx_grid_group(z->grid, TX_GROUP_TENSOR), all, part));
    for (int t = 0; t < p->n_tp; t++) TX_TRY(place_part(z, p, of, t, m->room[1] + t * n, false));
    return TX_OK;
}

static tx_status make_piece(const tx_zero *z, const tx_param *p, const piece *of, float *direction)
{
    const tx_matrices *m = &z->matrices;
    bool in_place = is_in_place(z, p, of), gathered = is_gathered(z, p);
    int64_t here[2], whole[2];
    sides_here(z, p, of, here);
    sides_of(z, p, of, whole);
    if (!in_place) TX_TRY(move_piece(z, of, direction, m->room[0], false));
    if (gathered) TX_TRY(gather(z, p, of));
    const tx_orthogonal o = {
        .m = tx_tensor2(in_place ? direction : m->room[0], TX_F32, here[0], here[1]),
        .of_columns = is_of_columns(z, p, here),
        .parts = has_parts(z, p) && !gathered ? tx_grid_group(z->grid, TX_GROUP_TENSOR) : NULL,
        .scale = scale_of(z, whole),
    };
    TX_TRY(tx_newton_schulz_run(z->c, &m->work, &o));
    if (gathered) TX_TRY(place_part(z, p, of, p->tp_rank, m->room[1], true));
    return in_place ? TX_OK : move_piece(z, of, direction, m->room[gathered], true);
}

static tx_status make_row(const tx_zero *z, int row, int turn)
{
    const tx_param *p = &z->ps->param[row];
    float *direction = tx__matrices_direction(z, &(tx_fragment){ .row = row });
    piece of[MAX_PIECES];
    if (!is_mine(z, row, turn)) {
        TX_RUN(z->c, fill, .x = tx_tensor1(direction, TX_F32, p->numel));
        return TX_OK;
    }
    int n = pieces_of(z, p, of);
    for (int i = 0; i < n; i++) TX_TRY(make_piece(z, p, &of[i], direction));
    return TX_OK;
}

tx_status tx__matrices_step(tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    tx_comm *owners = tx__bucket_owners(z, k);
    int turn = 0;
    if (!tx_zero_has_matrix(z, k)) return TX_OK;
    tx_at_part(z->c, "optimizer.matrices");
    tx_tensor all = tx_tensor1(z->matrices.direction, TX_F32, b->numel), own = all;
    if (z->stage) own = tx_slice1(all, tx_bucket_own_in(&z->flat, b), tx_bucket_part(&z->flat, b));
    if (z->stage) TX_TRY(tx_all_gather(z->c, owners, all, own));
    for (int row = 0; row < z->ps->n; row++) {
        if (!tx_zero_is_matrix(z, row)) continue;
        if (z->flat.of_row[row] == k) TX_TRY(make_row(z, row, turn));
        turn++;
    }
    return z->stage ? tx_reduce_scatter(z->c, owners, own, all) : TX_OK;
}

/* ---- volume ---- */

static void add_volume(tx_comm_volume *v, int64_t calls, int64_t bytes)
{
    v->calls += calls;
    v->bytes += calls * bytes;
}

void tx_zero_matrices_volume(const tx_zero *z, tx_comm_volume *v)
{
    const tx_newton_schulz *work = &z->matrices.work;
    piece of[MAX_PIECES];
    int64_t side[2];
    int turn = 0;
    for (int row = 0; row < z->ps->n; row++) {
        const tx_param *p = &z->ps->param[row];
        if (!tx_zero_is_matrix(z, row)) continue;
        int n = is_mine(z, row, turn++) && has_parts(z, p) ? pieces_of(z, p, of) : 0;
        for (int i = 0; i < n; i++) {
            sides_here(z, p, &of[i], side);
            bool gathered = is_gathered(z, p), of_columns = is_of_columns(z, p, side);
            int64_t gram = side[of_columns], other = side[!of_columns] * p->n_tp;
            add_volume(&v[TX_COMM_ALL_GATHER], 1, gathered ? side[0] * side[1] * 4 : p->n_tp * 8);
            if (!gathered)
                add_volume(&v[TX_COMM_ALL_REDUCE], tx_newton_schulz_sums(work, gram, other),
                           gram * gram * (int64_t)tx_dtype_size(work->type));
        }
    }
}
