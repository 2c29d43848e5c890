/* engine.c - the public engine over one trainer. */
#include "triax/engine.h"

#include "api/engine_internal.h"
#include "api/run_common.h"
#include "base/alloc.h"
#include "base/log.h"
#include "convert/source.h"
#include "train/hf_export.h"

tx_status tx__engine_restore(tx_engine *e, tx_source *src)
{
    tx_trainer *t = e->trainer;
    if (src->type && src->type->resumes) {
        TX_TRY(tx_trainer_load(t, src));
        tx_info("  successfully loaded checkpoint from %s at iteration %lld", src->path, (long long)t->iteration);
    } else if (src->type) {
        TX_TRY(tx__trainer_take_weights(t, src));
        TX_TRY(tx_trainer_set_origin(t, src->dir));
        tx_info("  successfully loaded weights from %s; the run starts at iteration 0", src->dir);
    }
    return TX_OK;
}

tx_status tx__engine_create(tx_engine **out, tx_config *cfg, tx_source *src, int64_t vocab_size, int64_t least,
                            int32_t eod, const tx_grid *grid)
{
    TX_TRY(tx_source_options(src, cfg, true));
    bool resumes = src->type && src->type->resumes;
    int64_t known = resumes ? src->state.vocab_size : src->vocab_size;
    if (known && known == least) vocab_size = least;
    if (known && known != vocab_size && resumes)
        return TX_FAIL(
            TX_ERR_SHAPE,
            "--load %s: the model has %lld tokens, the tokenizer %lld: name the tokenizer it was trained with",
            src->dir, (long long)known, (long long)vocab_size);
    if (src->vocab_size && src->vocab_size < vocab_size)
        return TX_FAIL(TX_ERR_SHAPE, "--load %s: the model has %lld tokens, fewer than the tokenizer's %lld", src->dir,
                       (long long)src->vocab_size, (long long)vocab_size);
    tx_engine *e;
    TX_TRY(tx_alloc(&e, 1, sizeof *e, "the engine"));
    tx_status st;
    e->cfg = cfg;
    TX_GOTO(tx_trainer_create(&e->trainer, cfg, known ? known : vocab_size, eod, true, grid));
    TX_GOTO(tx__engine_restore(e, src));
    *out = e;
out:
    if (st) tx_engine_destroy(e);
    return st;
}

tx_status tx_engine_create(tx_engine **out, tx_config *cfg, int64_t vocab_size)
{
    tx_source src;
    if (vocab_size < 1)
        return TX_FAIL(TX_ERR_ARG, "a vocabulary needs at least one token, not %lld", (long long)vocab_size);
    if (cfg->world_size > 1)
        return TX_FAIL(
            TX_ERR_UNSUPPORTED,
            "an engine trains on one rank yet, and this process is one of %lld: triax pretrain-gpt trains on "
            "all of them; else give --world-size 1",
            (long long)cfg->world_size);
    TX_TRY(tx_source_open_for_run(&src, cfg, &tx_comm_self));
    tx_status st = tx__engine_create(out, cfg, &src, vocab_size, vocab_size, -1, NULL);
    tx_source_close(&src);
    return st;
}

void tx_engine_destroy(tx_engine *e)
{
    if (!e) return;
    tx_trainer_destroy(e->trainer);
    tx_free(e);
}

tx_status tx_engine_forward(tx_engine *e, const int32_t *tokens, double *loss)
{
    return tx_trainer_forward(e->trainer, tokens, loss);
}

tx_status tx_engine_backward(tx_engine *e)
{
    return tx_trainer_backward(e->trainer);
}

tx_status tx_engine_step(tx_engine *e)
{
    return tx_trainer_step(e->trainer);
}

bool tx_engine_is_gradient_accumulation_boundary(const tx_engine *e)
{
    return tx_trainer_at_boundary(e->trainer);
}

tx_status tx_engine_evaluate(tx_engine *e, const int32_t *tokens, double *loss)
{
    tx_loss_sum sum[TX_MAX_LOSSES];
    TX_TRY(tx_trainer_evaluate(e->trainer, tokens, e->trainer->b, sum));
    *loss = 0;
    for (int k = 0; k < e->trainer->model->n_losses; k++) *loss += sum[k].n ? sum[k].sum / (double)sum[k].n : 0;
    return TX_OK;
}

tx_status tx_engine_save_checkpoint(tx_engine *e, const char *dir)
{
    return tx_trainer_save(e->trainer, dir);
}

tx_status tx_engine_load_checkpoint(tx_engine *e, const char *dir)
{
    tx_source src = { 0 };
    tx_config *cfg = e->cfg; /* nothing is filled in: it stays as it is */
    tx_status st;
    TX_GOTO(tx_trainer_require_idle(e->trainer, "loaded"));
    TX_GOTO(tx_source_open(&src, dir, NULL, &tx_comm_self));
    if (!src.native)
        st = TX_FAIL(TX_ERR_UNSUPPORTED,
                     "%s: a checkpoint of another program is named as --load when the engine is made", dir);
    else if (!(st = tx_config_from_json(cfg, tx_checkpoint_config(src.native), TX_KEPT_SHAPE | TX_KEPT_ALL_GIVEN)))
        st = tx__engine_restore(e, &src);
out:
    tx_source_close(&src);
    return st;
}

tx_status tx_engine_export(tx_engine *e, const char *dir)
{
    float *weights = e->trainer->zero.master;
    if (!weights) return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: weights that are offloaded are not exported", dir);
    float *x, *owned;
    TX_TRY(tx_zero_see_whole(&e->trainer->zero, weights, &x, &owned));
    tx_status st = tx_hf_export_model(e->trainer->model, x, dir, &tx_comm_self);
    tx_free(owned);
    return st;
}

int64_t tx_engine_iteration(const tx_engine *e)
{
    return e->trainer->iteration;
}

double tx_engine_lr(const tx_engine *e)
{
    return e->trainer->lr_override >= 0 ? e->trainer->lr_override : e->trainer->lr;
}

double tx_engine_loss(const tx_engine *e)
{
    return e->trainer->iteration_loss;
}

double tx_engine_grad_norm(const tx_engine *e)
{
    return e->trainer->grad_norm;
}

int64_t tx_engine_n_params(const tx_engine *e)
{
    return tx_params_count(&e->trainer->model->params);
}

int64_t tx_engine_memory_bytes(const tx_engine *e)
{
    tx_memory m = tx_trainer_memory(e->trainer);
    return (int64_t)(m.params + m.grads + m.optimizer + m.activations + m.workspace);
}

void tx_engine_set_lr(tx_engine *e, double lr)
{
    e->trainer->lr_override = lr;
}
