/* classifier_engine.c - trains the same classifier with triax's engine: what is new beside classifier_plain.c are
 * arguments, initialisation and the training calls.
 *
 *      cc classifier_engine.c classifier_model.c $(pkg-config --cflags --libs triax) -lm -o classifier_engine
 *      ./classifier_engine --steps 200
 *      mpirun -n 4 ./classifier_engine --steps 200 --zero-stage 3 --bf16 --folder checkpoints --every 50
 *
 *  --folder reads the newest checkpoint there is, and with --every n writes one after every n steps. All other options
 * are the engine's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "classifier_model.h"
#include "triax/engine.h"

enum { TEST = 500, FIRST_TEST = 1 << 30 };

/* ---- 1 arguments ---- */

typedef struct options {
    int64_t steps, every;
    const char *folder;
    bool log;
    tx_config *engine;
} options;

/* The library's own lines, which go nowhere without such a function. */
static void show(void *user, tx_log_level level, const char *line)
{
    (void)user, (void)level;
    fprintf(stderr, "%s\n", line);
}

/* Our options and the engine's in one command line; before it what the plain loop has. */
static tx_status parse(options *o, int argc, char **argv)
{
    static const char plain[] = "--micro-batch-size 8 --global-batch-size 32 --lr 3e-3 --weight-decay 0 --clip-grad 0 "
                                "--adam-beta2 0.999";
    const tx_argument own[] = {
        { "steps", TX_ARGUMENT_INT, &o->steps, "N", "Updates in all." },
        { "folder", TX_ARGUMENT_TEXT, &o->folder, "DIR", "Where checkpoints are; the newest is read." },
        { "every", TX_ARGUMENT_INT, &o->every, "N", "Steps between checkpoints; 0: none is written." },
        { "log", TX_ARGUMENT_FLAG, &o->log, NULL, "What the library says of its steps, too." },
        { 0 },
    };
    char *help;
    if (argc == 2 && !strcmp(argv[1], "--help") && !tx_arguments_help(&help, "engine", own)) {
        fputs(help, stdout);
        exit(0);
    }
    return tx_add_config_arguments(&o->engine, "engine", own, argc - 1, argv + 1, plain);
}

/* ---- 2 initialisation: the model as the engine sees it, one layer ---- */

typedef struct layer_saved {
    tx_tensor weight[N_PARAMS]; /* as fp32, which the network computes in */
    classifier_saved of;
} layer_saved;

static int64_t n_right; /* of the last micro-batch that was not trained on */

static tx_status forward(tx_ctx *c, const tx_layer_call *k)
{
    layer_saved *s = k->saved;
    float *weight[N_PARAMS];
    for (int p = 0; p < N_PARAMS; p++) {
        tx_tensor value = k->weight[p].value;
        s->weight[p] = tx_ctx_push(c, TX_F32, value.n_dims, value.dim);
        TX_RUN(c, cast, .y = s->weight[p], .x = value);
        weight[p] = s->weight[p].data;
    }
    s->of.map = tx_ctx_push(c, TX_F32, 2, (int64_t[]){ k->b, CHANNELS * MAP * MAP }).data;
    s->of.feature = tx_ctx_push(c, TX_F32, 2, (int64_t[]){ k->b, FEATURES }).data;
    s->of.probability = tx_ctx_push(c, TX_F32, 2, (int64_t[]){ k->b, CLASSES }).data;
    if (tx_ctx_is_dry(c)) return TX_OK;
    classifier_forward(weight, k->input[0].data, k->input[1].data, k->b, &s->of, k->loss.data);
    if (!k->train) n_right = classifier_right(&s->of, k->input[1].data, k->b);
    return TX_OK;
}

static tx_status backward(tx_ctx *c, const tx_layer_call *k)
{
    const layer_saved *s = k->saved;
    float *weight[N_PARAMS], *grad[N_PARAMS];
    for (int p = 0; p < N_PARAMS; p++) weight[p] = s->weight[p].data, grad[p] = k->weight[p].grad.data;
    if (tx_ctx_is_dry(c)) return TX_OK;
    classifier_backward(weight, k->input[0].data, k->input[1].data, k->b, &s->of, k->loss_weight.data, grad);
    return TX_OK;
}

static tx_status initialize(tx_engine **e, tx_config *cfg)
{
    static tx_param_spec param[N_PARAMS];
    static tx_layer layer = { .name = "classifier",
                              .param = param,
                              .n_params = N_PARAMS,
                              .forward = forward,
                              .backward = backward,
                              .saved_size = sizeof(layer_saved) };
    static const tx_client_model model = { .size = sizeof(tx_client_model),
                                           .name = "classifier",
                                           .input = { { TX_F32, 1, { PIXELS } }, { TX_I32, 1, { 1 } } },
                                           .n_inputs = 2,
                                           .layer = &layer,
                                           .n_layers = 1,
                                           .host_only = true,
                                           .initial = classifier_initial };
    for (int p = 0; p < N_PARAMS; p++) {
        const classifier_param *of = &classifier_params[p];
        param[p] = (tx_param_spec){ .name = of->name, .dim = { of->dim[0], of->dim[1] }, .init = TX_INIT_OWN };
    }
    return tx_engine_initialize(e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .config = cfg, .model = &model });
}

/* ---- 3 the training calls ---- */

static float image[TEST * PIXELS];
static int32_t label[TEST];
static const void *const batch[] = { image, label };

/* One global batch: the data-parallel ranks read micro-batches in turn. */
static tx_status train_step(tx_engine *e)
{
    int64_t b = tx_engine_train_micro_batch_size(e), ranks = tx_engine_data_parallel_size(e);
    int64_t step = tx_engine_iteration(e),
            at = step * tx_engine_train_batch_size(e) + tx_engine_data_parallel_rank(e) * b;
    double loss;
    tx_status st = TX_OK;
    for (; !st && tx_engine_iteration(e) == step; at += ranks * b) {
        classifier_samples(at, b, image, label);
        if ((st = tx_engine_forward(e, batch, &loss))) break;
        if ((st = tx_engine_backward(e))) break;
        st = tx_engine_step(e);
    }
    return st;
}

static tx_status save(tx_engine *e, const char *folder, double average)
{
    char state[128];
    snprintf(state, sizeof state, "{\"average_loss\": %.17g}", average);
    return tx_engine_save_checkpoint(e, folder, NULL, state);
}

static tx_status load(tx_engine *e, const char *folder, double *average)
{
    char *path = NULL, *state = NULL;
    tx_status st = tx_engine_load_checkpoint(e, folder, NULL, &path, &state);
    const char *at = state ? strchr(state, ':') : NULL;
    if (at) *average = strtod(at + 1, NULL);
    tx_text_free(path);
    tx_text_free(state);
    return st;
}

/* All ranks look at the same images, so each knows how many are right. */
static tx_status test(tx_engine *e, double *accuracy)
{
    int64_t b = tx_engine_train_micro_batch_size(e), right = 0, n = TEST - TEST % b;
    double loss;
    for (int64_t i = 0; i < n; i += b) {
        classifier_samples(FIRST_TEST + i, b, image, label);
        tx_status st = tx_engine_evaluate(e, batch, &loss);
        if (st) return st;
        right += n_right;
    }
    *accuracy = (double)right / (double)n;
    return TX_OK;
}

static tx_status train(tx_engine *e, const options *o)
{
    bool writes = tx_engine_global_rank(e) == 0;
    double average = 0, accuracy;
    tx_status st = o->folder ? load(e, o->folder, &average) : TX_OK;
    if (st) return st;
    while (tx_engine_iteration(e) < o->steps) {
        if ((st = train_step(e))) return st;
        int64_t step = tx_engine_iteration(e);
        average = step == 1 ? tx_engine_loss(e) : 0.9 * average + 0.1 * tx_engine_loss(e);
        if (writes)
            printf("step %4lld  loss %.9g  average %.17g  scale %g\n", (long long)step, tx_engine_loss(e), average,
                   tx_engine_cur_scale(e));
        fflush(stdout);
        if (o->folder && o->every && step % o->every == 0 && (st = save(e, o->folder, average))) return st;
    }
    if ((st = test(e, &accuracy))) return st;
    if (writes) printf("accuracy %.3f\nmemory %lld bytes a rank\n", accuracy, (long long)tx_engine_memory_of(e).total);
    return TX_OK;
}

int main(int argc, char **argv)
{
    options o = { .steps = 200 };
    tx_engine *e = NULL;
    tx_status st = parse(&o, argc, argv);
    if (o.log) tx_log_set(show, NULL, TX_LOG_INFO);
    if (!st) st = initialize(&e, o.engine);
    if (!st && tx_engine_train_micro_batch_size(e) > TEST) {
        fprintf(stderr, "classifier_engine: --micro-batch-size is at most %d\n", TEST);
        exit(1);
    }
    if (!st) st = train(e, &o);
    if (st) {
        fprintf(stderr, "classifier_engine: %s\n", tx_last_error());
        exit(1); /* not through destroy, which waits for the other ranks */
    }
    tx_engine_destroy(e);
    tx_config_free(o.engine);
    return 0;
}
