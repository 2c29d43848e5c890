/* hf_export.c - flat buffers as Hugging Face files. */
#include "train/hf_export.h"

#include "base/alloc.h"
#include "checkpoint/huggingface.h"
#include "model/hf_format.h"

typedef struct export
{
    const tx_model *m;
    const tx_hf_format *format;
    float *flat;
    double factor;
    tx_hf_tensor *tensor; /* [n]; source is the tx_hf_part */
    tx_hf_part *part;     /* [n] */
    size_t n;
}
export;

static tx_status fetch(void *user, const tx_hf_tensor *tensor, float *x)
{
    const export *e = user;
    const tx_hf_part *part = tensor->source;
    tx_hf_copy(e->m, part, x, e->flat + part->param->offset, true);
    if (e->factor == 1) return TX_OK;
    for (int64_t i = 0, n = part->n_dims == 2 ? part->dim[0] * part->dim[1] : part->dim[0]; i < n; i++)
        x[i] = (float)((double)x[i] * e->factor);
    return TX_OK;
}

tx_status tx_hf_export_check(const tx_model *m, const tx_comm *group)
{
    const tx_hf_format *format;
    TX_TRY(tx_hf_format_of(&format, m));
    if (tx_comm_size(group) == 1) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED,
                   "a Hugging Face model is written by one rank and this one lies on %d: save a checkpoint and export "
                   "or --dump-step from a run that loads it with --tensor-model-parallel-size 1 and "
                   "--pipeline-model-parallel-size 1",
                   tx_comm_size(group));
}

static tx_status list_tensors(export *e, const tx_comm *group)
{
    const tx_params *ps = &e->m->params;
    TX_TRY(tx_hf_export_check(e->m, group));
    TX_TRY(tx_hf_format_of(&e->format, e->m));
    TX_TRY(tx_alloc(&e->tensor, (size_t)ps->n * TX_HF_MAX_PARTS, sizeof *e->tensor, "an export"));
    TX_TRY(tx_alloc(&e->part, (size_t)ps->n * TX_HF_MAX_PARTS, sizeof *e->part, "an export"));
    for (int i = 0; i < ps->n; i++) e->n += (size_t)tx_hf_parts(e->format, e->m, &ps->param[i], e->part + e->n);
    for (size_t i = 0; i < e->n; i++) {
        const tx_hf_part *part = &e->part[i];
        e->tensor[i] = (tx_hf_tensor){
            .spec = { .name = part->name,
                      .dtype = TX_ST_F32,
                      .n_dims = part->n_dims,
                      .dim = { part->dim[0], part->dim[1] } },
            .source = part,
        };
    }
    return TX_OK;
}

static void free_list(export *e)
{
    tx_free(e->tensor);
    tx_free(e->part);
}

tx_status tx_hf_export_tensors(const tx_model *m, float *flat, double factor, const char *path, const tx_comm *group)
{
    export e = { .m = m, .flat = flat, .factor = factor };
    tx_status st;
    TX_GOTO(list_tensors(&e, group));
    TX_GOTO(tx_huggingface_write_tensors(path, &(tx_hf_tensors){ e.tensor, e.n, fetch, &e }));
out:
    free_list(&e);
    return st;
}

tx_status tx_hf_export_model(const tx_model *m, float *flat, const char *dir, const tx_comm *group)
{
    export e = { .m = m, .flat = flat, .factor = 1 };
    json_t *config = NULL;
    tx_status st;
    TX_GOTO(list_tensors(&e, group));
    TX_GOTO(tx_hf_config(e.format, &config, m));
    TX_GOTO(tx_huggingface_write(dir, config, &(tx_hf_tensors){ e.tensor, e.n, fetch, &e }, 0));
out:
    json_decref(config);
    free_list(&e);
    return st;
}
