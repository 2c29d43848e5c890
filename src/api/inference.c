/* inference.c - a trained model on the ranks of a job. */
#include "api/inference.h"

#include "base/alloc.h"
#include "base/log.h"

/* A model without a tokenizer is enough where prompts and answers are ids; then no id ends a text. */
static tx_status open_tokenizer(tx_inference *f)
{
    const tx_config *cfg = f->cfg;
    bool named = cfg->vocab_file || cfg->merge_file || cfg->tokenizer_model || cfg->given.tokenizer_type;
    tx_status st = tx__tokenizer_of(cfg, &f->src, &f->tok);
    if (st == TX_ERR_ARG && !named && cfg->prompt_tokens && cfg->output_tokens) {
        tx_info("there is no tokenizer in %s: texts end at their length or a --stop-id", cfg->load);
        return tx_tokenizer_open_null(&f->tok, (int32_t)f->src.vocab_size);
    }
    return st;
}

/* Whether the model can do it. */
static tx_status check_use(const tx_config *cfg, tx_inference_use use)
{
    const tx_model_type *type = tx_model_type_of(cfg);
    if (use == TX_USE_CONTINUES && !type->decode)
        return TX_FAIL(TX_ERR_ARG,
                       "--load %s is a %s, which goes on with no text: ask it for words with triax fill-mask",
                       cfg->load, type->name);
    if (use == TX_USE_FILLS && !type->samples->masked)
        return TX_FAIL(TX_ERR_ARG,
                       "--load %s is a %s, which goes on with a text and fills nothing in: use triax "
                       "generate",
                       cfg->load, type->name);
    if (!type->decode && cfg->context_parallel_size > 1)
        return TX_FAIL(TX_ERR_ARG,
                       "--context-parallel-size %lld: the ranks that ask a %s have whole samples: leave it out",
                       (long long)cfg->context_parallel_size, type->name);
    return TX_OK;
}

tx_status tx_inference_open(tx_inference *f, tx_config *cfg, tx_inference_use use)
{
    *f = (tx_inference){ .cfg = cfg };
    TX_TRY(tx_ranks_open(&f->ranks, cfg, NULL, NULL));
    const tx_grid *grid = &f->ranks.grid;
    f->leads = tx_comm_rank(tx_grid_samples_group(grid)) == 0;
    if (tx_grid_size(grid, TX_AXIS_DATA) > 1)
        return TX_FAIL(TX_ERR_ARG,
                       "%d ranks, but --tensor-model-parallel-size times --pipeline-model-parallel-size%s is "
                       "%d: start as many",
                       grid->size, tx_grid_size(grid, TX_AXIS_CONTEXT) > 1 ? " times --context-parallel-size" : "",
                       grid->size / tx_grid_size(grid, TX_AXIS_DATA));
    TX_TRY(tx_source_open_options(&f->src, cfg, tx_grid_group(grid, TX_GROUP_WORLD)));
    TX_TRY(tx_source_options(&f->src, cfg, false));
    TX_TRY(check_use(cfg, use));
    TX_TRY(tx_comm_agree(tx_grid_group(grid, TX_GROUP_WORLD), open_tokenizer(f)));
    return tx__model_load(&f->model, &f->value, cfg, &f->src, grid);
}

tx_status tx_inference_start(tx_inference *f, tx_status st, int64_t n_slots, int64_t max_len)
{
    tx_comm *world = tx_grid_group(&f->ranks.grid, TX_GROUP_WORLD);
    int64_t size[2] = { n_slots, max_len };
    TX_TRY(tx_comm_agree(world, st));
    TX_TRY(tx_comm_spread(world, size, sizeof size, 0));
    const tx_decoder_opts opts = { .backend = tx_device_choice_word(f->cfg->device),
                                   .n_threads = (int)f->cfg->threads,
                                   .teams = true,
                                   .n_slots = size[0],
                                   .max_len = size[1] };
    TX_TRY(tx_comm_agree(world, tx_decoder_create(&f->decoder, f->model, &f->ranks.grid, &opts)));
    TX_TRY(tx_inference_move(f, tx_decoder_device(f->decoder)));
    return f->leads ? TX_OK : tx_decoder_follow(f->decoder);
}

tx_status tx_inference_move(tx_inference *f, tx_device *d)
{
    tx_status st = tx__model_move(f->model, &f->value, d);
    if (!st) f->device = d;
    return tx_comm_agree(tx_grid_group(&f->ranks.grid, TX_GROUP_WORLD), st);
}

void tx_inference_give(tx_inference *f)
{
    tx_device_give(f->device, f->value);
    f->value = NULL;
}

tx_status tx_inference_close(tx_inference *f, tx_status st)
{
    if (!st && f->leads && f->decoder) st = tx_decoder_dismiss(f->decoder);
    tx_inference_give(f);
    tx_decoder_destroy(f->decoder);
    if (f->model) f->model->type->destroy(f->model);
    tx_tokenizer_close(f->tok);
    tx_source_close(&f->src);
    return tx_ranks_close(&f->ranks, st);
}
