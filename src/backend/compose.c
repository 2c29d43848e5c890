/* compose.c - ops that are made of other ops. Their rows run in a dry run too, so that the parts count their scratch.
 */
#include "backend/backend.h"

/* Logits that exist at a time, in bytes, and the fewest rows worth a matrix product. W is read and dW read and written
 * once for each chunk, so fewer rows cost bandwidth and more cost memory. bench/op_bench.c, v = 50304, h = 768, two
 * cores: 16 MiB 287, 32 MiB 345, 64 MiB 367, all at once 390 GFLOP/s. */
#define HEAD_BYTES    ((int64_t)64 << 20)
#define HEAD_MIN_ROWS 256 /* each chunk reads and writes the gradient of W */

/* A GPU needs more to be busy, and whole tiles: one H200, v = 50304, h = 768, bf16: 331 rows 247 TFLOP/s. */
#define HEAD_DEVICE_BYTES ((int64_t)512 << 20)
#define HEAD_DEVICE_ROWS  256 /* a multiple of these */

/* Rows of a chunk; the last is hardly shorter than the others. */
static int64_t head_chunk(int64_t rows, int64_t v, tx_dtype t, bool on_device)
{
    int64_t fit = (on_device ? HEAD_DEVICE_BYTES : HEAD_BYTES) / (v * (int64_t)tx_dtype_size(tx_wide(t)));
    if (fit < HEAD_MIN_ROWS) fit = HEAD_MIN_ROWS;
    if (on_device) fit -= fit % HEAD_DEVICE_ROWS;
    int64_t most = (rows + fit - 1) / fit, each = (rows + most - 1) / most;
    if (on_device) each += (HEAD_DEVICE_ROWS - each % HEAD_DEVICE_ROWS) % HEAD_DEVICE_ROWS;
    return each < rows ? each : rows;
}

int64_t tx_head_loss_chunks(int64_t rows, int64_t v, tx_dtype t, bool on_device)
{
    int64_t each = head_chunk(rows, v, t, on_device);
    return each ? (rows + each - 1) / each : 0;
}

static int64_t chunk_of(const tx_ctx *c, const tx_head_loss_args *a)
{
    return head_chunk(a->x.dim[0], a->w.dim[0], a->x.dtype, c->device != NULL);
}

/* Logits are kept beside their gradient, which asks for them: how far each is from the cap. */
static bool keeps_logits(const tx_head_loss_args *a)
{
    return a->weight.data && a->form.cap > 0;
}

/* The scratch of a chunk: logits, a teacher's, the capped ones once more, what gradients are rounded to, and the
 * statistics of all parts and of this one. */
typedef struct head_room {
    size_t taught, capped, rounded, all, mine, end; /* offsets in bytes */
} head_room;

/* Numbers of a row's statistics: the teacher's are more, and are there in one part, too. */
enum { N_STATS = 4, N_TAUGHT = 5 };

static head_room head_layout(const tx_ctx *c, const tx_head_loss_args *a)
{
    tx_dtype t = a->x.dtype, wide = tx_wide(t);
    size_t chunk = (size_t)chunk_of(c, a), wide_size = tx_dtype_size(wide), n = chunk * (size_t)a->w.dim[0];
    bool split = a->n_parts > 1, taught = a->teacher.loss.data;
    size_t stats = taught ? N_TAUGHT : split ? N_STATS : 0;
    head_room r = { .taught = n * wide_size };
    r.capped = r.taught + (taught ? n * wide_size : 0);
    r.rounded = r.capped + (keeps_logits(a) ? n * wide_size : 0);
    r.all = r.rounded + (a->weight.data && t != wide ? n * tx_dtype_size(t) : 0);
    r.all = (r.all + wide_size - 1) / wide_size * wide_size;
    r.mine = r.all + (split ? (size_t)a->n_parts * chunk * stats * wide_size : 0);
    r.end = r.mine + chunk * stats * wide_size;
    return r;
}

static size_t head_loss_scratch(const tx_ctx *c, const tx_head_loss_args *a)
{
    return head_layout(c, a).end;
}

/* Rows first .. first + n, their logits, and what the gradient of these is written to, if it is not theirs. */
typedef struct logits {
    int64_t first, n;
    tx_tensor z, rounded;
} logits;

/* z = x Wᵀ + bias, formed */
static tx_status make_logits(tx_ctx *c, tx_tensor z, tx_tensor x, tx_tensor w, tx_tensor bias, tx_logit_form form)
{
    TX_RUN(c, gemm, .c = z, .a = x, .b = w, .bias = bias, .trans_b = true);
    if (tx_logits_change(form)) TX_RUN(c, softcap_fwd, .y = z, .x = z, .form = form);
    return TX_OK;
}

/* This part's classes. */
static tx_classes classes_of(const tx_head_loss_args *a)
{
    int64_t v = a->w.dim[0], part = a->n_parts > 1 ? a->part : 0, left = a->n_valid - part * v;
    return (tx_classes){ .first = part * v, .n_here = left < 0 ? 0 : left < v ? left : v, .n_valid = a->n_valid };
}

/* The teacher's loss of a chunk, and its gradient by z in t. */
static tx_status teach(tx_ctx *c, const tx_head_loss_args *a, char *scratch, const logits *k, tx_tensor t)
{
    const tx_teacher_head *teacher = &a->teacher;
    const head_room room = head_layout(c, a);
    const int64_t n = k->n, n_here = classes_of(a).n_here;
    tx_tensor mine = tx_tensor2(scratch + room.mine, t.dtype, n, N_TAUGHT);
    tx_tensor all = tx_tensor3(mine.data, t.dtype, 1, n, N_TAUGHT);
    TX_TRY(make_logits(c, t, tx_slice_rows(teacher->x, k->first, n), teacher->w, teacher->bias, teacher->form));
    TX_RUN(c, distill_part, .stats = mine, .t = t, .z = k->z, .n_here = n_here, .temperature = teacher->temperature);
    if (a->n_parts > 1) {
        all = tx_tensor3(scratch + room.all, t.dtype, a->n_parts, n, N_TAUGHT);
        TX_TRY(a->exchange(c, all, mine));
    }
    TX_RUN(c, distill_join, .loss = tx_slice1(teacher->loss, k->first, n), .t = t, .z = k->z, .stats = all,
           .part = a->n_parts > 1 ? a->part : 0, .n_here = n_here, .temperature = teacher->temperature,
           .factor = teacher->factor, .scale = teacher->scale);
    return TX_OK;
}

/* loss and dz of a chunk */
static tx_status chunk_loss(tx_ctx *c, const tx_head_loss_args *a, char *scratch, const logits *k)
{
    int64_t first = k->first, n = k->n;
    tx_tensor z = k->z, rounded = k->rounded;
    bool grad = a->weight.data != NULL;
    tx_tensor loss = tx_slice1(a->loss, first, n), y = tx_slice1(a->y, first, n), weight = { 0 };
    tx_tensor z_loss = a->z_loss.data ? tx_slice1(a->z_loss, first, n) : a->z_loss;
    if (grad) weight = tx_slice1(a->weight, first, n);
    if (a->n_parts <= 1) {
        TX_RUN(c, cross_entropy, .loss = loss, .z = z, .dz = rounded, .y = y, .weight = weight, .n_valid = a->n_valid,
               .smoothing = a->smoothing, .z_weight = a->z_weight, .z_loss = z_loss);
        return TX_OK;
    }
    head_room room = head_layout(c, a);
    const tx_classes classes = classes_of(a);
    tx_tensor mine = tx_tensor2(scratch + room.mine, z.dtype, n, N_STATS);
    tx_tensor all = tx_tensor3(scratch + room.all, z.dtype, a->n_parts, n, N_STATS);
    TX_RUN(c, cross_entropy_part, .stats = mine, .z = z, .y = y, .classes = classes, .keep = grad);
    TX_TRY(a->exchange(c, all, mine));
    TX_RUN(c, cross_entropy_join, .loss = loss, .z = z, .dz = rounded, .stats = all, .y = y, .weight = weight,
           .classes = classes, .part = a->part, .smoothing = a->smoothing, .z_weight = a->z_weight, .z_loss = z_loss);
    return TX_OK;
}

static tx_status head_loss(tx_ctx *c, const tx_head_loss_args *a, void *scratch)
{
    int64_t rows = a->x.dim[0], v = a->w.dim[0], chunk = chunk_of(c, a);
    tx_dtype t = a->x.dtype, wide = tx_wide(t);
    bool grad = a->weight.data != NULL, formed = tx_logits_change(a->form);
    const head_room room = head_layout(c, a);
    for (int64_t first = 0; first < rows; first += chunk) {
        int64_t n = rows - first < chunk ? rows - first : chunk;
        tx_tensor z = tx_tensor2(scratch, wide, n, v), none = { 0 }, rounded = none, x = tx_slice_rows(a->x, first, n);
        if (grad && t != wide) rounded = tx_tensor2((char *)scratch + room.rounded, t, n, v);
        tx_tensor dz = rounded.data ? rounded : z, taught = none, capped = none;
        if (a->teacher.loss.data) taught = tx_tensor2((char *)scratch + room.taught, wide, n, v);
        if (keeps_logits(a)) capped = tx_tensor2((char *)scratch + room.capped, wide, n, v);
        const logits k = { first, n, z, taught.data || formed ? none : rounded };
        tx_at_rows(c, first, n);
        /* 1  z = x Wᵀ + bias, formed */
        TX_TRY(make_logits(c, z, x, a->w, a->bias, a->form));
        if (capped.data) TX_RUN(c, copy, .y = capped, .x = z);
        /* 2  loss, dz; what is taught reads z before its gradient overwrites it, and what is summed is rounded once */
        if (taught.data) TX_TRY(teach(c, a, scratch, &k, taught));
        TX_TRY(chunk_loss(c, a, scratch, &k));
        if (!grad) continue;
        tx_at_backward(c, true);
        if (taught.data) TX_RUN(c, add, .y = formed ? z : dz, .a = z, .b = taught);
        if (formed) TX_RUN(c, softcap_bwd, .dx = dz, .dy = z, .y = capped, .form = a->form);
        /* 3  dx = dz W */
        TX_RUN(c, gemm, .c = tx_slice_rows(a->dx, first, n), .a = dz, .b = a->w);
        /* 4  dW += dzᵀ x, or = for the first rows */
        if (a->dw.data)
            TX_RUN(c, gemm, .c = a->dw, .a = dz, .b = x, .trans_a = true, .accumulate = a->accumulate || first > 0);
        /* 5  dbias += Σ_rows dz */
        if (a->dbias.data) TX_RUN(c, col_sum, .y = a->dbias, .x = dz);
        tx_at_backward(c, false);
    }
    tx_at_rows(c, 0, 0);
    return TX_OK;
}

void tx__compose_ops(tx_ops *ops)
{
    ops->head_loss = (tx_head_loss_row){ .run = head_loss, .scratch = head_loss_scratch, .composed = true };
}
