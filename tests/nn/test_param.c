/* labels: unit */
/* test_param.c - the parameter table: shapes, offsets, binding, initial values. */
#include "support.h"

#include "param_cut.h"
#include "whole_table.h"

#include <omp.h>

#include "base/rng.h"
#include "nn/param.h"

typedef struct layer {
    tx_weight table, qkv, bias, gain;
} layer;

static const tx_param_decl decl[] = {
    { "table.weight", "V,h", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, offsetof(layer, table), 0 },
    { "qkv.weight", "3h,h", TX_INIT_SCALED, TX_DECAY, TX_SETS, offsetof(layer, qkv), 0 },
    { "up.bias", "f", TX_INIT_ZERO, TX_NO_DECAY, TX_ADDS, offsetof(layer, bias), 0 },
    { "norm.weight", "h", TX_INIT_ONE, TX_NO_DECAY, TX_ADDS, offsetof(layer, gain), 0 },
};

/* Rows stand for parameters that a model may be without. */
static void declares_what_the_traits_ask_for(void **state)
{
    (void)state;
    static const tx_param_decl rows[] = {
        { "always", "h", TX_INIT_ONE, TX_NO_DECAY, TX_ADDS, offsetof(layer, gain), 0 },
        { "bias", "h", TX_INIT_ONE, TX_NO_DECAY, TX_ADDS, offsetof(layer, bias), 2 },
        { "both", "h", TX_INIT_ONE, TX_NO_DECAY, TX_ADDS, offsetof(layer, qkv), 3 },
    };
    for (unsigned traits = 0; traits < 4; traits++) {
        layer l = { 0 };
        tx_params ps = { 0 };
        float value[64];
        ASSERT_OK(tx_params_declare(&ps, "", rows, 3, &l, &(tx_dims){ .h = 3, .traits = traits }));
        tx_params_bind(&ps, value, TX_F32, NULL);
        assert_int_equal(ps.n, 1 + (traits >= 2) + (traits == 3));
        assert_true(l.gain.value.data && !l.bias.value.data == (traits < 2) && !l.qkv.value.data == (traits < 3));
        tx_params_deinit(&ps);
    }
}

static const tx_dims dims = { .h = 6, .f = 20, .V = 16, .v_logical = 11, .P = 8, .q = 18 };

static void declares_shapes_and_offsets(void **state)
{
    (void)state;
    layer l[2];
    tx_params ps = { 0 };
    ASSERT_OK(tx_params_declare(&ps, "a.", decl, 4, &l[0], &dims));
    ASSERT_OK(tx_params_declare(&ps, "b.", decl, 4, &l[1], &dims));
    assert_int_equal(ps.n, 8);
    const tx_param *table = tx_params_find(&ps, "a.table.weight"), *qkv = tx_params_find(&ps, "b.qkv.weight");
    assert_non_null(table);
    assert_non_null(qkv);
    assert_null(tx_params_find(&ps, "table.weight"));
    assert_true(table->n_dims == 2 && table->dim[0] == 16 && table->dim[1] == 6 && table->rows_logical == 11);
    assert_true(qkv->dim[0] == 18 && qkv->rows_logical == 18 && qkv->numel == 108 && qkv->decay == TX_DECAY);
    assert_ptr_equal(qkv->weight, &l[1].qkv);
    int64_t expect = 0;
    for (int i = 0; i < ps.n; i++) {
        assert_int_equal(ps.param[i].offset, expect);
        expect += (ps.param[i].numel + TX_PARAM_ALIGN - 1) / TX_PARAM_ALIGN * TX_PARAM_ALIGN;
    }
    assert_int_equal(ps.numel, expect);
    assert_int_equal(tx_params_count(&ps), 2 * (11 * 6 + 108 + 20 + 6));
    tx_params_deinit(&ps);
    assert_int_equal(ps.n, 0);
}

static void binds_views(void **state)
{
    (void)state;
    layer l;
    tx_params ps = { 0 };
    float value[4 * TX_PARAM_ALIGN], grad[4 * TX_PARAM_ALIGN];
    ASSERT_OK(tx_params_declare(&ps, "", decl, 4, &l, &dims));
    assert_true(ps.numel <= 4 * TX_PARAM_ALIGN);
    tx_params_bind(&ps, value, TX_F32, grad);
    const tx_param *bias = tx_params_find(&ps, "up.bias");
    assert_ptr_equal(l.bias.value.data, value + bias->offset);
    assert_ptr_equal(l.bias.grad.data, grad + bias->offset);
    assert_true(l.bias.value.n_dims == 1 && l.bias.value.dim[0] == 20 && l.qkv.grad.dim[1] == 6);
    assert_int_equal(l.table.value.dim[0], 16); /* padding rows are part of the tensor */
    tx_params_bind(&ps, value, TX_F32, NULL);
    assert_null(l.qkv.grad.data);
    assert_non_null(l.qkv.value.data);
    tx_params_deinit(&ps);
}

static void first_gradients_add_to_zeros_or_write(void **state)
{
    (void)state;
    layer l;
    tx_ctx c;
    tx_params ps = { 0 };
    float value[4 * TX_PARAM_ALIGN], grad[4 * TX_PARAM_ALIGN];
    for (int i = 0; i < 4 * TX_PARAM_ALIGN; i++) grad[i] = 7;
    ASSERT_OK(tx_params_declare(&ps, "", decl, 4, &l, &dims));
    tx_params_bind(&ps, value, TX_F32, grad);
    ASSERT_OK(tx_ctx_init(&c, "ref", 1));
    ASSERT_OK(tx_ctx_take_memory(&c));
    ASSERT_OK(tx_params_zero_grad(&c, &ps, 0, ps.n));
    assert_true(l.qkv.fresh && !l.table.fresh && !l.bias.fresh && !l.gain.fresh);
    for (int k = 0; k < ps.n; k++)
        for (int64_t i = 0; i < ps.param[k].numel; i++)
            assert_true(grad[ps.param[k].offset + i] == (ps.param[k].weight->fresh ? 7 : 0));
    grad[0] = 3;
    tx_params_contributed(&ps, 0, ps.n);
    assert_true(!l.qkv.fresh && grad[0] == 3);
    tx_params_deinit(&ps);
    tx_ctx_deinit(&c);
}

static void table_without_layers(void **state)
{
    (void)state;
    tx_params ps = { 0 };
    ASSERT_OK(tx_params_declare(&ps, "", decl, 4, NULL, &dims));
    tx_params_bind(&ps, NULL, TX_F32, NULL); /* nothing to point at: a plan counts without a model */
    assert_null(ps.param[0].weight);
    tx_params_deinit(&ps);
}

static void init_values(void **state)
{
    (void)state;
    layer l;
    tx_params ps = { 0 };
    static float value[4 * TX_PARAM_ALIGN];
    for (int i = 0; i < 4 * TX_PARAM_ALIGN; i++) value[i] = 7; /* init writes padding rows too */
    ASSERT_OK(tx_params_declare(&ps, "m.", decl, 4, &l, &dims));
    tx_params_bind(&ps, value, TX_F32, NULL);
    init_whole(&ps, value, 1234, (tx_init_method){ .std = 0.02, .n_layers = 8 });
    const float *table = l.table.value.data, *qkv = l.qkv.value.data, *bias = l.bias.value.data,
                *gain = l.gain.value.data;
    tx_rng rt = { .seed = 1234, .stream = tx_rng_stream("m.table.weight") };
    tx_rng rq = { .seed = 1234, .stream = tx_rng_stream("m.qkv.weight") };
    for (int i = 0; i < 66; i++) assert_true(table[i] == (float)(0.02 * tx_rng_normal(&rt, (uint64_t)i)));
    for (int i = 66; i < 96; i++) assert_true(table[i] == 0);
    for (int i = 0; i < 108; i++) assert_true(qkv[i] == (float)(0.005 * tx_rng_normal(&rq, (uint64_t)i)));
    for (int i = 0; i < 20; i++) assert_true(bias[i] == 0);
    for (int i = 0; i < 6; i++) assert_true(gain[i] == 1);
    init_whole(&ps, value, 1234, (tx_init_method){ .xavier_uniform = true });
    double largest = 0, bound = sqrt(6.0 / (18 + 6));
    for (int i = 0; i < 66; i++) assert_true(fabs((double)table[i]) < sqrt(6.0 / (11 + 6)));
    for (int i = 66; i < 96; i++) assert_true(table[i] == 0);
    for (int i = 0; i < 108; i++) largest = fmax(largest, fabs((double)qkv[i]));
    assert_true(largest < bound && largest > 0.9 * bound && gain[0] == 1 && bias[0] == 0);
    tx_params_deinit(&ps);
}

/* More threads and more padding change nothing; the numbers have the asked-for spread. */
static void init_depends_on_seed_and_name_only(void **state)
{
    (void)state;
    enum { ROWS = 1000, H = 16 };
    layer l[3];
    float *value[3];
    tx_params ps[3] = { 0 };
    for (int k = 0; k < 3; k++) {
        tx_dims d = { .h = H, .f = 4, .V = k == 1 ? 1024 : ROWS, .v_logical = ROWS, .P = 1, .q = 3 };
        ASSERT_OK(tx_params_declare(&ps[k], "", decl, 4, &l[k], &d));
        ASSERT_OK(tx_alloc(&value[k], (size_t)ps[k].numel, sizeof(float), "test"));
        tx_params_bind(&ps[k], value[k], TX_F32, NULL);
        omp_set_num_threads(k + 1);
        init_whole(&ps[k], value[k], k == 2 ? 2 : 1, (tx_init_method){ .std = 0.5, .n_layers = 2 });
    }
    assert_memory_equal(l[0].table.value.data, l[1].table.value.data, ROWS * H * sizeof(float));
    assert_memory_equal(l[0].qkv.value.data, l[1].qkv.value.data, 3 * H * H * sizeof(float));
    assert_memory_not_equal(l[0].table.value.data, l[2].table.value.data, ROWS * H * sizeof(float));
    double sum = 0, square = 0;
    const float *x = l[0].table.value.data;
    for (int i = 0; i < ROWS * H; i++) {
        sum += x[i];
        square += (double)x[i] * x[i];
    }
    assert_true(fabs(sum / (ROWS * H)) < 0.02);
    assert_true(fabs(sqrt(square / (ROWS * H)) - 0.5) < 0.02);
    for (int k = 0; k < 3; k++) {
        tx_free(value[k]);
        tx_params_deinit(&ps[k]);
    }
}

/* ---- initial values of a large parameter ---- */

/* A client's own; the number of an element, whoever asks. */
static void own_values(void *user, const char *name, int64_t first, int64_t n, float *x)
{
    assert_string_equal(name, "big.weight");
    for (int64_t i = 0; i < n; i++) x[i] = *(const float *)user * (float)((first + i) % 4099);
}

/* Draws elements [first, first + n) of a shard with so many threads. */
static void draw_part(float *x, const tx_param *p, int64_t first, int64_t n, int n_threads, tx_init_method method)
{
    omp_set_num_threads(n_threads);
    for (int64_t i = 0; i < n; i++) x[i] = NAN;
    tx_param_init(p, x, first, n, 9, method);
}

/* All threads draw, whatever part of whatever shard is asked for and whatever it is drawn from; and the bits are those
 * of one thread that draws the whole. */
static void threads_and_parts_draw_the_same_bits(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        int u_parts;
    } shapes[] = { { "V,h", 0 }, { "h,V/t", 0 }, { "V/t,h", 0 }, { "u/t,h", 2 }, { "f", 0 } };
    static const tx_init init[] = { TX_INIT_NORMAL, TX_INIT_SCALED, TX_INIT_ONE, TX_INIT_ZERO, TX_INIT_OWN };
    float factor = 0.5f;
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < 5; i++)
            for (int uniform = 0; uniform < 2; uniform++) {
                tx_param_decl row = { "big.weight", shapes[k].shape, init[i], TX_DECAY, TX_ADDS, 0, 0 };
                tx_init_method method = {
                    .std = 0.5, .n_layers = 2, .xavier_uniform = uniform, .own = { own_values, &factor }
                };
                tx_params ps[3] = { 0 };
                tx_weight w = { 0 };
                for (int r = 0; r < 3; r++) { /* the whole, and the shards of two ranks */
                    tx_dims d = { .h = 333,
                                  .V = strchr(shapes[k].shape, '/') ? 412 : 411,
                                  .v_logical = 407,
                                  .f = 60001,
                                  .u = 824,
                                  .u_parts = shapes[k].u_parts,
                                  .P = 1,
                                  .q = 3,
                                  .n_tp = r ? 2 : 1,
                                  .tp_rank = r ? r - 1 : 0 };
                    ASSERT_OK(tx_params_declare(&ps[r], "", &row, 1, &w, &d));
                }
                const tx_param *whole = ps[0].param;
                int64_t n = whole->numel;
                float *all = malloc((size_t)n * sizeof *all), *x = malloc((size_t)n * sizeof *x),
                      *shard = malloc((size_t)n * sizeof *shard);
                assert_true(all && x && shard);
                draw_part(all, whole, 0, n, 1, method);
                for (int threads = 1; threads <= 4; threads++) {
                    draw_part(x, whole, 0, n, threads, method);
                    assert_memory_equal(x, all, (size_t)n * sizeof *x);
                    for (int64_t first = 0, end; first < n; first = end) { /* parts of odd sizes */
                        end = first + n / 3 + 7 < n ? first + n / 3 + 7 : n;
                        draw_part(x, whole, first, end - first, threads, method);
                        assert_memory_equal(x, all + first, (size_t)(end - first) * sizeof *x);
                    }
                    for (int r = 1; r < 3; r++) {
                        const tx_param *p = ps[r].param;
                        param_cut(p, shard, all);
                        int64_t first = p->numel / 5 + 1;
                        draw_part(x, p, first, p->numel - first, threads, method);
                        assert_memory_equal(x, shard + first, (size_t)(p->numel - first) * sizeof *x);
                    }
                }
                free(all);
                free(x);
                free(shard);
                for (int r = 0; r < 3; r++) tx_params_deinit(&ps[r]);
            }
}

/* Which threads have drawn. */
static _Atomic unsigned drew;

static void note_thread(void *user, const char *name, int64_t first, int64_t n, float *x)
{
    (void)user, (void)name, (void)first;
    drew |= 1u << omp_get_thread_num();
    for (int64_t i = 0; i < n; i++) x[i] = 0;
}

/* A rank's share of a matrix, as ZeRO divides it, is some of its rows: all threads draw of these. */
static void all_threads_draw_of_a_share(void **state)
{
    (void)state;
    tx_param_decl row = { "big.weight", "h,h", TX_INIT_OWN, TX_DECAY, TX_ADDS, 0, 0 };
    tx_params ps = { 0 };
    tx_weight w = { 0 };
    ASSERT_OK(tx_params_declare(&ps, "", &row, 1, &w, &(tx_dims){ .h = 512 }));
    int64_t n = ps.param->numel / 4;
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int share = 0; share < 4; share++) {
        drew = 0;
        draw_part(x, ps.param, share * n, n, 4,
                  (tx_init_method){ .std = 1, .n_layers = 1, .own = { note_thread, NULL } });
        assert_int_equal(drew, omp_get_max_threads() >= 4 ? 0xf : (1u << omp_get_max_threads()) - 1);
    }
    free(x);
    tx_params_deinit(&ps);
}

/* A table of many rows is made and asked by name; names that differ in their last letter alone are different. */
static void finds_one_of_many(void **state)
{
    (void)state;
    enum { N_LAYERS = 5000 };
    static layer l[N_LAYERS];
    tx_params ps = { 0 };
    char name[64];
    assert_null(tx_params_find(&ps, "0.up.bias"));
    for (int i = 0; i < N_LAYERS; i++) {
        snprintf(name, sizeof name, "%d.", i);
        ASSERT_OK(tx_params_declare(&ps, name, decl, 4, &l[i], &dims));
    }
    assert_int_equal(ps.n, 4 * N_LAYERS);
    for (int i = 0; i < ps.n; i++) {
        assert_ptr_equal(tx_params_find(&ps, ps.param[i].name), &ps.param[i]);
        snprintf(name, sizeof name, "%.*s_", (int)strlen(ps.param[i].name) - 1, ps.param[i].name);
        assert_null(tx_params_find(&ps, name));
    }
    tx_params_deinit(&ps);
    assert_null(tx_params_find(&ps, "0.up.bias"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(declares_shapes_and_offsets),
        cmocka_unit_test(declares_what_the_traits_ask_for),
        cmocka_unit_test(binds_views),
        cmocka_unit_test(first_gradients_add_to_zeros_or_write),
        cmocka_unit_test(finds_one_of_many),
        cmocka_unit_test(threads_and_parts_draw_the_same_bits),
        cmocka_unit_test(all_threads_draw_of_a_share),
        cmocka_unit_test(table_without_layers),
        cmocka_unit_test(init_values),
        cmocka_unit_test(init_depends_on_seed_and_name_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
