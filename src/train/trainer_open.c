/* trainer_open.c - a trainer is made: declare, plan, take memory, initialise. */
#include <stdlib.h>

#include "base/alloc.h"
#include "train/fit.h"
#include "train/hf_export.h"
#include "train/products.h"
#include "train/trainer.h"

const char *tx_trainer_eod_flag(const tx_config *cfg)
{
    if (cfg->eod_mask_loss) return "--eod-mask-loss";
    if (cfg->reset_position_ids) return "--reset-position-ids";
    return cfg->reset_attention_mask ? "--reset-attention-mask" : NULL;
}

/* What --dump-step needs. */
static tx_status prepare_dump(tx_trainer *t)
{
    if (t->client->model) return TX_FAIL(TX_ERR_UNSUPPORTED, "--dump-step is for GPT and BERT alone");
    TX_TRY(tx_hf_export_check(t->model, tx_grid_group(t->grid, TX_GROUP_WORLD))); /* better now than at the step */
    t->dump_iteration = atoll(t->cfg->dump_step.item[0]);
    return tx_alloc(&t->dump_tokens, (size_t)(t->cfg->global_batch_size * tx_trainer_row_len(t)), sizeof(int32_t),
                    "--dump-step");
}

tx_status tx__trainer_agree_products(tx_trainer *t)
{
    tx_free(t->products);
    return tx_products_agree(&t->ctx, tx_grid_group(t->grid, TX_GROUP_WORLD), &t->products);
}

/* While the memory of a GPU is free. */
static tx_status choose_products(tx_trainer *t)
{
    const char *dir = t->cfg->save;
    if (dir) TX_TRY(tx_products_read(&t->ctx, tx_grid_group(t->grid, TX_GROUP_WORLD), dir));
    TX_TRY(tx_products_choose(&t->ctx, tx_grid_group(t->grid, TX_GROUP_WORLD)));
    TX_TRY(tx__trainer_agree_products(t));
    bool writes = dir && t->products && *t->products && !t->grid->rank;
    return tx_comm_agree(tx_grid_group(t->grid, TX_GROUP_WORLD), writes ? tx_products_write(t->products, dir) : TX_OK);
}

static tx_status take_settings(tx_trainer *t)
{
    size_t n = (size_t)t->client->n_groups + 1;
    TX_TRY(tx_alloc(&t->setting, n, sizeof *t->setting, "the parameter groups' settings"));
    for (size_t i = 0; i < n; i++) t->setting[i].weight_decay = -1;
    tx__trainer_forget_rates(t);
    t->zero.optim.setting = t->setting;
    TX_TRY(tx_alloc(&t->rates, n, sizeof *t->rates, "the parameter groups' settings"));
    t->zero.optim.rates = t->rates;
    t->zero.optim.n_groups = (int)n;
    return TX_OK;
}

/* What the options ask for can be, with what the client brings. */
static tx_status check_args(const tx_trainer_args *args)
{
    const tx_config *cfg = args->cfg;
    const tx_client *client = args->client;
    const char *eod_flag = tx_trainer_eod_flag(cfg);
    const char *logits_flag = cfg->qk_clip                   ? "--qk-clip"
                              : cfg->log_max_attention_logit ? "--log-max-attention-logit"
                                                             : NULL;
    if (args->eod < 0 && eod_flag) return TX_FAIL(TX_ERR_ARG, "%s: the vocabulary has no <|endoftext|>", eod_flag);
    if (logits_flag && client && client->model)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s is for GPT and BERT: which scores of the model %s are meant is not known", logits_flag,
                       client->model->name);
    if (!args->train || !client || tx_save_kind(cfg) == TX_CKPT_NATIVE) return TX_OK;
    if (client->model)
        return TX_FAIL(
            TX_ERR_UNSUPPORTED,
            "--save-format %s: Megatron and DeepSpeed have names for GPT and BERT alone, not for the model %s; "
            "save native",
            tx_checkpoint_format_word(cfg->save_format), client->model->name);
    if (client->optimizer && !cfg->no_save_optim)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "--save-format %s has no place for the state of the optimizer %s; save native, or "
                       "--no-save-optim",
                       tx_checkpoint_format_word(cfg->save_format), client->optimizer->name);
    return TX_OK;
}

/* What follows from the options alone. */
static void read_options(tx_trainer *t, const tx_trainer_args *args)
{
    const tx_config *cfg = args->cfg;
    t->cfg = cfg;
    t->grid = args->grid ? args->grid : &tx_grid_alone;
    t->client = args->client ? args->client : &tx_no_client;
    t->s = t->length = t->kept = cfg->seq_length;
    t->b = cfg->micro_batch_size;
    t->n_micro = args->train ? tx__trainer_n_micro(t) : 1;
    t->train = args->train;
    t->eod = args->eod;
    t->lr_override = -1;
    t->grads_begin = true;
    t->scaler = tx_loss_scaler_from_config(cfg);
    if (!args->train) return;
    t->schedule = tx_schedule_from_config(cfg);
    if (!t->client->lr) t->ds_schedule = tx_ds_schedule_from_config(cfg);
}

/* Declares the model and runs the step dry. */
static tx_status plan(tx_trainer *t, const tx_trainer_args *args)
{
    tx_memory planned;
    TX_TRY(tx__plan_open(&t->ctx, &t->model, t->cfg, args->vocab_size, t->grid, t->client));
    const tx_dry_step step = { .c = &t->ctx,
                               .m = t->model,
                               .cfg = t->cfg,
                               .client = t->client,
                               .train = args->train,
                               .every_length = true,
                               .stage = &t->stage,
                               .zero = &t->zero };
    TX_TRY(tx__plan_step(&planned, NULL, &step));
    t->gpu_free = planned.gpu_free;
    return args->train ? tx_fit_check(t->cfg, args->vocab_size, !t->client->model, &planned) : TX_OK;
}

/* All that the dry run has counted. */
static tx_status take_memory(tx_trainer *t, bool train)
{
    if (train) TX_TRY(choose_products(t));
    TX_TRY(tx_zero_take(&t->zero));
    int64_t n_copy = tx__plan_copy_numel(&t->zero);
    if (n_copy) TX_TRY(tx_alloc(&t->copy, (size_t)n_copy, sizeof *t->copy, "--async-save's copy of the state"));
    TX_TRY(tx_alloc(&t->all_losses, (size_t)tx_grid_sharers(t->grid) * TX_MAX_LOSSES, sizeof *t->all_losses,
                    "the losses of all ranks"));
    TX_TRY(tx_alloc(&t->part_losses, (size_t)tx_grid_size(t->grid, TX_AXIS_CONTEXT) * TX_MAX_LOSSES,
                    sizeof *t->part_losses, "the losses of all ranks"));
    if (train && t->cfg->given.dump_step) TX_TRY(prepare_dump(t));
    return tx_stage_take(&t->stage);
}

static tx_status initialise(tx_trainer *t)
{
    const tx_config *cfg = t->cfg;
    TX_TRY(tx_zero_init(&t->zero, (uint64_t)cfg->seed,
                        (tx_init_method){ .std = cfg->init_method_std,
                                          .n_layers = (int)t->model->n_layers,
                                          .own = t->model->initial,
                                          .xavier_uniform = cfg->init_method_xavier_uniform }));
    TX_TRY(tx__trainer_read_bias(t, NULL));
    TX_TRY(take_settings(t));
    TX_TRY(tx__trainer_take_losses(t));
    tx__trainer_move_schedule(t);
    return TX_OK;
}

tx_status tx_trainer_open(tx_trainer **out, const tx_trainer_args *args)
{
    tx_trainer *t;
    tx_status st;
    TX_TRY(check_args(args));
    TX_TRY(tx_alloc(&t, 1, sizeof *t, "the trainer"));
    read_options(t, args);
    TX_GOTO(plan(t, args));
    TX_GOTO(take_memory(t, args->train));
    TX_GOTO(tx__trainer_take_experts(t));
    TX_GOTO(tx__trainer_take_logits(t));
    if (args->train) TX_GOTO(initialise(t));
    TX_GOTO(tx_teacher_load(&t->stage.teacher, &t->ctx, t->cfg));
    *out = t;
out:
    if (st) tx_trainer_destroy(t);
    return st;
}

tx_status tx_trainer_create(tx_trainer **out, const tx_config *cfg, int64_t vocab_size, int32_t eod, bool train,
                            const tx_grid *grid)
{
    return tx_trainer_open(
        out, &(tx_trainer_args){ .cfg = cfg, .vocab_size = vocab_size, .eod = eod, .train = train, .grid = grid });
}

void tx_trainer_destroy(tx_trainer *t)
{
    if (!t) return;
    tx_stage_close(&t->stage);
    tx_zero_close(&t->zero);
    if (t->model) t->model->type->destroy(t->model);
    tx_ctx_deinit(&t->ctx);
    tx_free(t->dump_tokens);
    tx_free(t->all_losses);
    tx_free(t->part_losses);
    tx_free(t->setting);
    tx_free(t->rates);
    tx_free(t->own_losses);
    tx_free(t->expert);
    tx_free(t->expert_sums);
    tx_free(t->expert_bias);
    tx_free(t->logits);
    tx_free(t->largest);
    tx_free(t->qk_scale);
    json_decref(t->blend_phase);
    tx_free(t->origin);
    tx_free(t->loaded);
    tx_free(t->copy);
    tx_free(t->products);
    tx_free(t);
}

tx_status tx_trainer_set_weights(tx_trainer *t, tx_weights_fn *fill, void *user)
{
    const tx_params *ps = &t->model->params;
    float *whole;
    TX_TRY(tx_alloc(&whole, (size_t)ps->numel, sizeof *whole, "the weights in fp32"));
    tx_status st = fill(user, ps, whole);
    if (!st) st = tx_zero_set_weights(&t->zero, whole);
    if (!st) st = tx__trainer_read_bias(t, whole);
    tx_free(whole);
    return st;
}

tx_memory tx_trainer_memory(const tx_trainer *t)
{
    size_t peak;
    tx_memory m = tx__plan_memory(&t->zero, tx_stage_stacks(&t->stage, &peak), t->ctx.scratch.cap);
    tx__plan_host_stacks(&m, t->cfg, tx_stage_host_stacks(&t->stage, &peak));
    m.gpu_free = t->gpu_free;
    m.teacher = tx_teacher_bytes(&t->stage.teacher);
    return m;
}
