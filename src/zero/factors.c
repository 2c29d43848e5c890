/* factors.c - averages of rows and columns, and the factors that they make. */
#include "zero/factors.h"

#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "base/alloc.h"
#include "zero/state_table.h"

static const char what[] = "the factors of matrices";

enum { ROWS, COLUMNS, SIDES }; /* also the numbers of their buffers of state */
enum { AT_A_TIME = 4096 };     /* gradients that are not fp32 */

static const int groups[] = { TX_GROUP_DATA, TX_GROUP_EXPERT_DATA };
enum { N_GROUPS = sizeof groups / sizeof *groups };

static bool is_factored(const tx_param *p)
{
    return p->n_dims == 2 && !p->frozen;
}

/* Whether tensor ranks have parts of a side's sums: they divide the other one. */
static bool has_parts(const tx_param *p, int side)
{
    return p->n_tp > 1 && p->split_dim != side;
}

/* Elements that are summed for a row, or a column, over all ranks. */
static int64_t summed(const tx_param *p, int side)
{
    return side == ROWS ? p->whole[1] : p->whole_logical;
}

/* Those of this rank that are real. */
static int64_t real_of(const tx_param *p, int side)
{
    return side == ROWS ? p->rows_logical : p->dim[1];
}

/* ---- places: a group's side by side, first what tensor ranks have parts of ---- */

static int64_t place_sides(tx_zero *z, int group, bool parts, int64_t next)
{
    for (int row = 0; row < z->ps->n; row++) {
        const tx_param *p = &z->ps->param[row];
        if (p->reduce_group != group || !is_factored(p)) continue;
        for (int side = 0; side < SIDES; side++) {
            if (has_parts(p, side) != parts) continue;
            z->factors.at[SIDES * row + side] = next;
            next += p->dim[side];
        }
    }
    return next;
}

tx_status tx__factors_plan(tx_zero *z)
{
    tx_factors *f = &z->factors;
    int64_t next = 0;
    if (!f->on) return TX_OK;
    TX_TRY(tx_alloc(&f->at, SIDES * (size_t)z->ps->n + 1, sizeof *f->at, what));
    for (int k = 0; k < N_GROUPS; k++) {
        f->group[k].first = next;
        f->group[k].whole = next = place_sides(z, groups[k], true, next);
        f->group[k].end = next = place_sides(z, groups[k], false, next);
    }
    f->n = next;
    f->limit = f->sum = TX_DRY_ADDRESS;
    return TX_OK;
}

tx_status tx__factors_take(tx_zero *z)
{
    tx_factors *f = &z->factors;
    f->limit = f->sum = NULL;
    if (!f->on) return TX_OK;
    TX_TRY(tx_alloc(&f->limit, (size_t)f->n + 1, sizeof *f->limit, what));
    return tx_alloc(&f->sum, (size_t)f->n + 1, sizeof *f->sum, what);
}

void tx__factors_close(tx_zero *z)
{
    tx_factors *f = &z->factors;
    tx_free(f->at);
    if (f->limit == TX_DRY_ADDRESS) return;
    tx_free(f->limit);
    tx_free(f->sum);
}

size_t tx__factors_bytes(const tx_zero *z)
{
    return 2 * (size_t)z->factors.n * sizeof(double);
}

void tx__factors_point(const tx_zero *z, const tx_fragment *s, tx_optim_range *r)
{
    const tx_factors *f = &z->factors;
    const tx_param *p = &z->ps->param[s->row];
    r->n_whole = p->whole_logical * (p->n_dims == 2 ? p->whole[1] : 1);
    if (!f->on || !is_factored(p) || !f->limit) return;
    r->columns = p->dim[1];
    r->row_scale = f->limit + f->at[SIDES * s->row + ROWS];
    r->column_scale = f->limit + f->at[SIDES * s->row + COLUMNS];
}

/* ---- sums ---- */

/* Elements of one row of a matrix, where their row and columns are. */
typedef struct stretch {
    double *row, *column; /* of limit */
    double *row_sum, *column_sum;
    const float *grad;
    int64_t n;
} stretch;

typedef void stretch_fn(const stretch *x);

static void find_limits(const stretch *x)
{
    double most = *x->row;
    for (int64_t i = 0; i < x->n; i++) {
        double g = fabs((double)x->grad[i]);
        most = g > most ? g : most;
        x->column[i] = g > x->column[i] ? g : x->column[i];
    }
    *x->row = most;
}

/* limit is 1.5 * 2^52 times the step of the grid: adding it to a smaller number rounds that to the grid. */
static void add_squares(const stretch *x)
{
    const double grid = *x->row;
    double sum = *x->row_sum;
    for (int64_t i = 0; i < x->n; i++) {
        double g = (double)x->grad[i], square = g * g;
        const double of_row = square + grid, of_column = square + x->column[i];
        sum += of_row - grid;
        x->column_sum[i] += of_column - x->column[i];
    }
    *x->row_sum = sum;
}

/* Real elements of a range, row by row. */
static tx_status over_range(const tx_zero *z, int i, stretch_fn *fn)
{
    const tx_factors *f = &z->factors;
    const tx_optim_range *r = &z->range[i];
    const int64_t *begin = &f->at[SIDES * z->fragment[i].row];
    float room[AT_A_TIME];
    for (int64_t at = 0; at < r->n_real;) {
        int64_t row = (r->first + at) / r->columns, column = (r->first + at) % r->columns;
        int64_t n = r->columns - column < r->n_real - at ? r->columns - column : r->n_real - at;
        if (r->grad.dtype != TX_F32 && n > AT_A_TIME) n = AT_A_TIME;
        stretch x = { .row = f->limit + begin[ROWS] + row,
                      .column = f->limit + begin[COLUMNS] + column,
                      .row_sum = f->sum + begin[ROWS] + row,
                      .column_sum = f->sum + begin[COLUMNS] + column,
                      .grad = room,
                      .n = n };
        if (r->grad.dtype == TX_F32)
            x.grad = (const float *)r->grad.data + at;
        else
            TX_RUN(z->c, cast, .y = tx_tensor1(room, TX_F32, n), .x = tx_slice1(r->grad, at, n));
        fn(&x);
        at += n;
    }
    return TX_OK;
}

static tx_status over_ranks(const tx_zero *z, double *x, tx_reduce how)
{
    const tx_factors *f = &z->factors;
    tx_tensor all = tx_tensor1(x, TX_F64, f->n);
    for (int k = 0; k < N_GROUPS; k++) {
        int64_t first = f->group[k].first, whole = f->group[k].whole, end = f->group[k].end;
        tx_comm *shared = tx_grid_group(z->grid, tx__sharers(z, groups[k])),
                *tensor = tx_grid_group(z->grid, TX_GROUP_TENSOR);
        if (z->stage && end > first && tx_comm_size(shared) > 1)
            TX_TRY(tx_all_reduce(z->c, shared, tx_slice1(all, first, end - first), how));
        if (whole > first && tx_comm_size(tensor) > 1)
            TX_TRY(tx_all_reduce(z->c, tensor, tx_slice1(all, first, whole - first), how));
    }
    return TX_OK;
}

/* Grids whose step is 2^-52 of what all squares together may be at most, or the next power of 2. */
static void make_grids(tx_zero *z)
{
    tx_factors *f = &z->factors;
    for (int row = 0; row < z->ps->n; row++) {
        const tx_param *p = &z->ps->param[row];
        if (!is_factored(p)) continue;
        for (int side = 0; side < SIDES; side++) {
            double *limit = f->limit + f->at[SIDES * row + side], n = (double)summed(p, side);
            for (int64_t i = 0; i < p->dim[side]; i++) {
                int exponent;
                double most = n * limit[i] * limit[i];
                if (most == 0) continue;
                frexp(most, &exponent);
                limit[i] = ldexp(1.5, exponent);
            }
        }
    }
}

/* ---- averages ---- */

static void average_side(const tx_zero *z, int row, int side, double grad_scale, double beta2)
{
    const tx_param *p = &z->ps->param[row];
    const double *sum = z->factors.sum + z->factors.at[SIDES * row + side];
    float *average = z->state[side] + z->table[side].at[row];
    double n = (double)summed(p, side);
    for (int64_t i = 0; i < real_of(p, side); i++) {
        double mean = sum[i] * grad_scale * grad_scale / n + z->cfg->adafactor_eps1;
        average[i] = (float)(beta2 * (double)average[i] + (1 - beta2) * mean);
    }
}

/* The mean of the rows' averages is that of the columns': of a matrix whose rows tensor ranks divide, these are whole
 * on each. */
static double mean_of(const tx_zero *z, int row)
{
    const tx_param *p = &z->ps->param[row];
    int side = p->n_tp > 1 && p->split_dim == 0 ? COLUMNS : ROWS;
    const float *average = z->state[side] + z->table[side].at[row];
    double sum = 0;
    int64_t n = real_of(p, side);
    for (int64_t i = 0; i < n; i++) sum += (double)average[i];
    return sum / (double)n;
}

/* What the update multiplies a gradient with; in the memory of the limits. */
static void make_factors(const tx_zero *z, int row)
{
    const tx_param *p = &z->ps->param[row];
    double mean = mean_of(z, row);
    for (int side = 0; side < SIDES; side++) {
        double *factor = z->factors.limit + z->factors.at[SIDES * row + side];
        const float *average = z->state[side] + z->table[side].at[row];
        for (int64_t i = 0; i < real_of(p, side); i++) factor[i] = sqrt((side == ROWS ? mean : 1) / (double)average[i]);
    }
}

tx_status tx__factors_step(tx_zero *z, const tx_optim_step *s)
{
    tx_factors *f = &z->factors;
    double grad_scale = 1, beta2 = tx_adafactor_beta2(z->cfg, s->t);
    if (!f->on) return TX_OK;
    bool go = !z->c->dry && tx__update_gate(s->gate, &grad_scale);
    tx_at_part(z->c, "optimizer.factors");
    if (!z->c->dry) memset(f->limit, 0, (size_t)f->n * sizeof *f->limit);
    if (!z->c->dry) memset(f->sum, 0, (size_t)f->n * sizeof *f->sum);
    for (int i = 0; i < z->n_ranges && go; i++)
        if (z->range[i].columns) TX_TRY(over_range(z, i, find_limits));
    TX_TRY(over_ranks(z, f->limit, TX_MAX));
    if (go) make_grids(z);
    for (int i = 0; i < z->n_ranges && go; i++)
        if (z->range[i].columns) TX_TRY(over_range(z, i, add_squares));
    TX_TRY(over_ranks(z, f->sum, TX_SUM));
    for (int row = 0; row < z->ps->n && go; row++) {
        if (!is_factored(&z->ps->param[row])) continue;
        for (int side = 0; side < SIDES; side++) average_side(z, row, side, grad_scale, beta2);
        make_factors(z, row);
    }
    return TX_OK;
}
