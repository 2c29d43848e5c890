/* dump.c - --dump-step N DIR: iteration N as files that other programs read.
 *
 *      DIR/config.json, DIR/model.safetensors    the model before the update: a Hugging Face folder
 *      DIR/grads.safetensors                     gradients before clipping, under the same names
 *      DIR/loss.safetensors                      loss, grad_norm, lr, iteration (a number each), input_ids [batch,
 * s+1], or a BERT's samples as data/bert_dataset.h has them in a row, or conversations as data/finetune_dataset.h has
 * them
 *
 *  So a golden case can be made from any run, and any run can be compared with one. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/safetensors.h"
#include "train/hf_export.h"
#include "train/trainer.h"

static tx_status write_loss(tx_trainer *t, const char *path, double grad_norm)
{
    int64_t batch = t->n_micro * t->b, row = tx_trainer_samples(t)->row_len(t->length);
    const tx_st_spec spec[] = {
        { .name = "loss", .dtype = TX_ST_F64 },
        { .name = "grad_norm", .dtype = TX_ST_F64 },
        { .name = "lr", .dtype = TX_ST_F64 },
        { .name = "iteration", .dtype = TX_ST_I64 },
        { .name = "input_ids", .dtype = TX_ST_I32, .n_dims = 2, .dim = { batch, row } },
    };
    double numbers[3] = { t->iteration_loss, grad_norm, tx_trainer_lr(t) };
    int64_t iteration = t->iteration + 1;
    tx_writer file;
    tx_st_writer w;
    TX_TRY(tx_writer_open(&file, path));
    tx_status st;
    TX_GOTO(tx_st_writer_begin(&w, &file, spec, sizeof spec / sizeof spec[0], NULL, NULL));
    TX_GOTO(tx_st_writer_put(&w, numbers, sizeof numbers));
    TX_GOTO(tx_st_writer_put(&w, &iteration, sizeof iteration));
    TX_GOTO(tx_st_writer_put(&w, t->dump_tokens, (size_t)(batch * row) * sizeof *t->dump_tokens));
    tx_st_writer_end(&w);
out:
    if (!st) return tx_writer_commit(&file);
    tx_writer_abort(&file);
    return st;
}

tx_status tx__trainer_dump(tx_trainer *t, double grad_norm)
{
    const char *dir = t->cfg->dump_step.item[1];
    char path[4096];
    float *x, *owned;
    TX_TRY(tx_zero_see_whole(&t->zero, t->zero.master, TX_F32, &x, &owned));
    tx_status st = tx_hf_export_model(t->model, x, dir, &tx_comm_self);
    tx_free(owned);
    TX_TRY(st);
    TX_TRY(tx_path_join(path, sizeof path, dir, "grads.safetensors"));
    TX_TRY(tx_zero_see_whole(&t->zero, t->zero.grad, t->zero.grad_type, &x, &owned));
    st = tx_hf_export_tensors(t->model, x, 1 / t->scaler.scale, path, &tx_comm_self);
    tx_free(owned);
    TX_TRY(st);
    TX_TRY(tx_path_join(path, sizeof path, dir, "loss.safetensors"));
    TX_TRY(write_loss(t, path, grad_norm));
    tx_info("wrote loss, parameters and gradients of iteration %lld to %s", (long long)(t->iteration + 1), dir);
    return TX_OK;
}
