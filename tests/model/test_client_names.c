/* labels: unit */
/* test_client_names.c - names of a client's model that has many parameters: each is in the table once, ties find what
 * they name, and a name that comes twice is refused wherever the two are. */
#include "support.h"

#include "model/client/client_model.h"

enum { N = 10000 }; /* layers, of two parameters each */

static char layer_name[N][24], tied_to[N][32];
static tx_param_spec param[N][2];
static tx_layer layer[N];
static tx_client_model model;

static tx_status nothing(tx_ctx *c, const tx_layer_call *a)
{
    (void)c;
    (void)a;
    return TX_OK;
}

/* b of every layer is its own, a of those behind the first hundred one of the first hundred's. */
static void make_model(void)
{
    for (int i = 0; i < N; i++) {
        snprintf(layer_name[i], sizeof layer_name[i], "layer.%d", i);
        snprintf(tied_to[i], sizeof tied_to[i], "layer.%d.a", i % 100);
        param[i][0] = (tx_param_spec){ .name = "a", .dim = { 2, 3 }, .init = TX_INIT_ONE };
        param[i][1] = (tx_param_spec){ .name = "b", .dim = { 3 }, .init = TX_INIT_ZERO };
        if (i >= 100) param[i][0].tied = tied_to[i];
        layer[i] = (tx_layer){ .name = layer_name[i],
                               .param = param[i],
                               .n_params = 2,
                               .forward = nothing,
                               .backward = nothing,
                               .n_dims = 1,
                               .dim = { 3 } };
    }
    model = (tx_client_model){ .size = sizeof model,
                               .name = "many",
                               .input = { { TX_F32, 1, { 3 } } },
                               .n_inputs = 1,
                               .layer = layer,
                               .n_layers = N };
}

static tx_status create(tx_model **m)
{
    tx_config *cfg;
    TX_TRY(tx_config_parse_string(&cfg, "engine", "--micro-batch-size 1 --lr 1 --train-iters 1"));
    tx_status st = tx_client_model_create(m, cfg, &model, &tx_grid_alone);
    tx_config_free(cfg);
    return st;
}

static void each_is_declared_once(void **state)
{
    (void)state;
    tx_model *m;
    char name[40];
    make_model();
    ASSERT_OK(create(&m));
    assert_int_equal(m->params.n, N + 100);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "layer.%d.b", i);
        assert_non_null(tx_params_find(&m->params, name));
        snprintf(name, sizeof name, "layer.%d.a", i);
        assert_true(!tx_params_find(&m->params, name) == (i >= 100));
    }
    const tx_client_net *n = (const tx_client_net *)m;
    for (int i = 0; i < N; i++) {
        assert_int_equal(n->home[2 * i], 2 * (i % 100));
        assert_int_equal(n->home[2 * i + 1], 2 * i + 1);
    }
    m->type->destroy(m);
}

static void what_comes_twice_is_refused(void **state)
{
    (void)state;
    tx_model *m;
    make_model();
    layer[N - 1].name = "layer.7";
    ASSERT_FAILS(create(&m), TX_ERR_ARG, "layers 7 and 9999 of the model many are both called layer.7");
    make_model();
    param[N - 1][1].name = "a";
    ASSERT_FAILS(create(&m), TX_ERR_ARG, "layer layer.9999 has two parameters a");
    make_model();
    layer[N - 1].name = "layer"; /* and "layer.7" has "b" */
    param[N - 1][1].name = "7.b";
    ASSERT_FAILS(create(&m), TX_ERR_ARG, "parameters of the layers layer.7 and layer are both called layer.7.b");
    make_model();
    param[N - 2][0].tied = "layer.9999.a";
    ASSERT_FAILS(create(&m), TX_ERR_ARG, "layer.9998.a is tied to layer.9999.a, which no layer in front has");
    make_model();
    param[N - 1][0].tied = "layer.9998.a";
    ASSERT_FAILS(create(&m), TX_ERR_ARG, "which is tied itself: tie it to layer.98.a");
    make_model();
    param[N - 1][1].tied = "layer.9999.a"; /* nor is it in front of itself */
    ASSERT_FAILS(create(&m), TX_ERR_ARG, "layer.9999.b is tied to layer.9999.a, which no layer in front has");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_declared_once),
        cmocka_unit_test(what_comes_twice_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
