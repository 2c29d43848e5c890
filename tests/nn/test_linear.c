/* labels: unit op */
/* test_linear.c - y = x W^T + b alone: backward against differences on ref, cpu in each type against ref, a gradient
 * that is the first of an iteration, and the parts that tensor ranks have of it beside the whole. */
#include "support.h"

#include "numbers.h"

#include "nn/linear.h"
#include "parallel/grid.h"

enum { ROWS = 7, IN = 12, OUT = 20 };
#define BEFORE 0.25 /* what the gradients are that backward adds to */

typedef struct rig {
    tx_ctx c;
    tx_linear l;
    tx_tensor x, dx, y, dy;
} rig;

static void begin(rig *r, const char *backend, tx_dtype t, int64_t out, int64_t in, bool bias)
{
    tx_dtype g = tx_wide(t);
    *r = (rig){
        .x = make(t, ROWS, in, 0), .dx = make(t, ROWS, in, 0), .y = make(t, ROWS, out, 0), .dy = make(t, ROWS, out, 0)
    };
    r->l.w = (tx_weight){ .value = make(t, out, in, 0), .grad = make(g, out, in, 0) };
    if (bias) r->l.b = (tx_weight){ .value = make(t, out, 0, 0), .grad = make(g, out, 0, 0) };
    ASSERT_OK(tx_ctx_init(&r->c, backend, 2));
    fill_drawn(r->x, 1), fill_drawn(r->dy, 2), fill_drawn(r->l.w.value, 3);
    if (bias) fill_drawn(r->l.b.value, 4);
    ASSERT_OK(tx_linear_fwd(&r->c, &r->l, r->y, r->x)); /* dry */
    ASSERT_OK(tx_linear_bwd(&r->c, &r->l, r->dx, r->dy, r->x));
    ASSERT_OK(tx_ctx_take_memory(&r->c));
}

static void finish(rig *r)
{
    void *all[] = { r->x.data,         r->dx.data,       r->y.data,         r->dy.data,
                    r->l.w.value.data, r->l.w.grad.data, r->l.b.value.data, r->l.b.grad.data };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    tx_ctx_deinit(&r->c);
}

static void forward_backward(rig *r)
{
    for (int64_t i = 0; i < tx_numel(r->l.w.grad); i++) set(r->l.w.grad, i, r->l.w.fresh ? NAN : BEFORE);
    for (int64_t i = 0; r->l.b.grad.data && i < tx_numel(r->l.b.grad); i++) set(r->l.b.grad, i, BEFORE);
    ASSERT_OK(tx_linear_fwd(&r->c, &r->l, r->y, r->x));
    ASSERT_OK(tx_linear_bwd(&r->c, &r->l, r->dx, r->dy, r->x));
}

static void backward_is_what_differences_say(void **state)
{
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        rig r;
        begin(&r, "ref", TX_F64, OUT, IN, bias);
        forward_backward(&r);
        const struct {
            tx_tensor value, grad;
            double before;
        } leaf[] = { { r.x, r.dx, 0 }, { r.l.w.value, r.l.w.grad, BEFORE }, { r.l.b.value, r.l.b.grad, BEFORE } };
        for (int k = 0; k < 2 + bias; k++) { /* y is linear in each: any step is as good */
            tx_tensor v = leaf[k].value;
            double slope = 0, f[2];
            for (int64_t i = 0; i < tx_numel(v); i++) slope += (get(leaf[k].grad, i) - leaf[k].before) * draw(9, i);
            for (int side = 0; side < 2; side++) {
                for (int64_t i = 0; i < tx_numel(v); i++) set(v, i, get(v, i) + (side ? 0.5 : -0.25) * draw(9, i));
                ASSERT_OK(tx_linear_fwd(&r.c, &r.l, r.y, r.x));
                f[side] = dot(r.dy, r.y);
            }
            if (!(fabs((f[1] - f[0]) / 0.5 - slope) <= 1e-10 * fabs(slope)))
                fail_msg("leaf %d: by its gradient %.12g, by differences %.12g", k, slope, (f[1] - f[0]) / 0.5);
            for (int64_t i = 0; i < tx_numel(v); i++) set(v, i, get(v, i) - 0.25 * draw(9, i));
        }
        finish(&r);
    }
}

static void assert_near(tx_tensor got, tx_tensor want, double bound, const char *what)
{
    double d = distance(got, want);
    if (!(d <= bound))
        fail_msg("%s in %s is off by %.2e of its size, allowed %.1e", what, tx_dtype_name(got.dtype), d, bound);
}

static void cpu_is_ref(void **state)
{
    (void)state;
    for (int k = 0; k < N_FLOAT_TYPES; k++)
        for (int fresh = 0; fresh < 2; fresh++) {
            rig got, ref;
            begin(&got, "cpu", float_types[k].t, OUT, IN, true);
            begin(&ref, "ref", TX_F64, OUT, IN, true);
            fill_from(ref.x, got.x), fill_from(ref.dy, got.dy), fill_from(ref.l.w.value, got.l.w.value);
            fill_from(ref.l.b.value, got.l.b.value);
            got.l.w.fresh = ref.l.w.fresh = fresh; /* what is there is not read: it is no number */
            forward_backward(&ref);
            forward_backward(&got);
            double bound = 4 * float_types[k].epsilon;
            assert_near(got.y, ref.y, bound, "y");
            assert_near(got.dx, ref.dx, bound, "dx");
            assert_near(got.l.w.grad, ref.l.w.grad, bound, "dW");
            assert_near(got.l.b.grad, ref.l.b.grad, bound, "db");
            size_t bytes = (size_t)tx_numel(got.y) * tx_dtype_size(got.y.dtype);
            void *y = malloc(bytes);
            assert_non_null(y);
            memcpy(y, got.y.data, bytes);
            forward_backward(&got);
            assert_memory_equal(y, got.y.data, bytes);
            free(y);
            finish(&got);
            finish(&ref);
        }
}

/* W by rows: ranks have y's columns of all of x. By columns: what they have sums to y, to which one of them adds b. */
static void parts_of_tensor_ranks_are_the_whole(void **state)
{
    (void)state;
    enum { T = 4 };
    rig all, part;
    begin(&all, "ref", TX_F64, OUT, IN, true);
    forward_backward(&all);
    for (int by_columns = 0; by_columns < 2; by_columns++) {
        int64_t out = by_columns ? OUT : OUT / T, in = by_columns ? IN / T : IN;
        tx_tensor y = make(TX_F64, ROWS, OUT, 0), dx = make(TX_F64, ROWS, IN, 0);
        for (int rank = 0; rank < T; rank++) {
            tx_grid grid = tx_grid_alone;
            int64_t first_out = by_columns ? 0 : rank * out, first_in = by_columns ? rank * in : 0;
            begin(&part, "ref", TX_F64, out, in, true);
            grid.axis[TX_AXIS_TENSOR] = (tx_axis){ T, rank };
            part.c.grid = &grid;
            part.l.summed = by_columns;
            for (int64_t r = 0; r < ROWS; r++) {
                for (int64_t i = 0; i < in; i++) set(part.x, r * in + i, get(all.x, r * IN + first_in + i));
                for (int64_t o = 0; o < out; o++) set(part.dy, r * out + o, get(all.dy, r * OUT + first_out + o));
            }
            for (int64_t o = 0; o < out; o++) {
                set(part.l.b.value, o, get(all.l.b.value, first_out + o));
                for (int64_t i = 0; i < in; i++)
                    set(part.l.w.value, o * in + i, get(all.l.w.value, (first_out + o) * IN + first_in + i));
            }
            forward_backward(&part);
            for (int64_t r = 0; r < ROWS; r++) {
                for (int64_t o = 0; o < out; o++) {
                    int64_t at = r * OUT + first_out + o;
                    set(y, at, get(y, at) + get(part.y, r * out + o));
                }
                for (int64_t i = 0; i < in; i++) {
                    int64_t at = r * IN + first_in + i;
                    set(dx, at, get(dx, at) + get(part.dx, r * in + i));
                }
            }
            for (int64_t o = 0; o < out; o++) {
                ASSERT_NEAR(get(part.l.b.grad, o), get(all.l.b.grad, first_out + o), 1e-12, "db");
                for (int64_t i = 0; i < in; i++)
                    ASSERT_NEAR(get(part.l.w.grad, o * in + i), get(all.l.w.grad, (first_out + o) * IN + first_in + i),
                                1e-12, "dW");
            }
            part.c.grid = NULL;
            finish(&part);
        }
        assert_near(y, all.y, 1e-13, by_columns ? "the sum of y's parts" : "y's columns");
        assert_near(dx, all.dx, 1e-13, by_columns ? "dx's columns" : "the sum of dx's parts");
        free(y.data);
        free(dx.data);
    }
    finish(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backward_is_what_differences_say),
        cmocka_unit_test(cpu_is_ref),
        cmocka_unit_test(parts_of_tensor_ranks_are_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
