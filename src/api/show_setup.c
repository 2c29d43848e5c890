/* show_setup.c - what a run says of its engine before it starts. */
#include "api/show_setup.h"

#include "api/show_layout.h"
#include "backend/backend.h"
#include "base/alloc.h"
#include "base/cores.h"
#include "base/log.h"
#include "train/metrics.h"

/* Megatron's line for each rank of a model, which the first ones show. */
static tx_status log_params(const tx_trainer *t)
{
    enum { MAX_SHOWN = 64 };
    const tx_grid *g = t->grid;
    int64_t all = 0, *every;
    for (int i = 0; i < t->model->params.n; i++) all += t->model->params.param[i].numel;
    int n = tx_comm_size(tx_grid_group(g, TX_GROUP_MODEL));
    TX_TRY(tx_alloc(&every, (size_t)n, sizeof *every, "the ranks' numbers of parameters"));
    tx_status st = tx_comm_gather(tx_grid_group(g, TX_GROUP_MODEL), every, &all, sizeof all);
    for (int i = 0; i < n && i < MAX_SHOWN && !st; i++)
        tx_info(" > number of parameters on (tensor, pipeline) model parallel rank (%d, %d): %lld",
                i % tx_grid_size(g, TX_AXIS_TENSOR), i / tx_grid_size(g, TX_AXIS_TENSOR), (long long)every[i]);
    tx_free(every);
    return st;
}

static tx_status log_model(const tx_trainer *t)
{
    const tx_model *m = t->model;
    tx_memory mem = tx_trainer_memory(t);
    tx_zero_formula formula = tx__plan_formula(&t->zero);
    int64_t padding = 0;
    for (int i = 0; i < m->params.n; i++) {
        const tx_param *p = &m->params.param[i];
        padding += p->numel - p->numel / p->dim[0] * p->rows_logical;
    }
    if (m->vocab_padded != m->vocab_size)
        tx_info(" > padded vocab (size: %lld) with %lld dummy tokens (new size: %lld)", (long long)m->vocab_size,
                (long long)(m->vocab_padded - m->vocab_size), (long long)m->vocab_padded);
    TX_TRY(log_params(t));
    if (padding) tx_info(" > %lld of them pad the vocabulary: they are zero and not trained", (long long)padding);
    tx_memory_table(&mem, &formula, NULL, NULL);
    if (!tx_trainer_counts_steps(t))
        tx_info("> learning rate decay style: %s", tx_lr_decay_style_word(t->cfg->lr_decay_style));
    return TX_OK;
}

static void to_log(void *user, const char *line)
{
    (void)user;
    tx_info("%s%s", line[0] == ' ' ? "" : " > ", line);
}

static tx_status log_division(const tx_trainer *t)
{
    tx__report r = { .line = to_log };
    tx_volume_sizes sizes = { .zero = t->zero.stage, .p = 1, .r = tx_grid_sharers(t->grid) }; /* of a client's model */
    if (!t->client->model) sizes = tx__plan_volume_sizes(t->model, t->cfg, t->grid, t->n_micro, t->length, &t->zero);
    tx_status st = tx__show_zero(&r, &sizes);
    tx_str_free(&r.text);
    return st;
}

static tx_status log_backend(const tx_ctx *c, const tx_ranks *ranks)
{
    char threads[400];
    tx_threads_describe(threads, sizeof threads, c->n_threads);
    tx_info("backend: %s", c->backend->describe());
    tx_info("threads: %s", threads);
    return tx_ranks_show(ranks, threads, c->device);
}

static void log_batch_size(const tx_config *cfg, const tx_trainer *t)
{
    char *const *ramp = cfg->rampup_batch_size.item;
    if (cfg->rampup_batch_size.n)
        tx_info("will use batch size rampup starting from global batch size %s to global batch size %lld with batch "
                "size increments %s over %s samples.",
                ramp[0], (long long)cfg->global_batch_size, ramp[1], ramp[2]);
    else
        tx_info("setting number of micro-batches to constant %lld", (long long)t->n_micro);
    if (cfg->given.train_samples) tx_info("setting training iterations to %lld", (long long)cfg->train_iters);
}

tx_status tx__show_setup(const tx_engine *e)
{
    const tx_trainer *t = e->trainer;
    TX_TRY(tx_config_print(t->cfg, NULL, NULL));
    log_batch_size(t->cfg, t);
    TX_TRY(log_backend(&t->ctx, &e->ranks));
    TX_TRY(log_division(t));
    return log_model(t);
}
