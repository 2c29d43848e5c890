/* hf_export.c - flat buffers as Hugging Face files. */
#include "train/hf_export.h"

#include "base/alloc.h"
#include "checkpoint/huggingface.h"

typedef struct export
{
    const tx_model *m;
    float *flat;
    tx_hf_tensor *tensor;           /* [n]; source is the tx_param */
    char(*name)[TX_PARAM_NAME_MAX]; /* [n] */
}
export;

static void fetch(void *user, const tx_hf_tensor *tensor, float *x)
{
    const export *e = user;
    const tx_param *p = tensor->source;
    int64_t dim[2];
    e->m->type->hf_layout(e->m, p, x, e->flat + p->offset, true, dim);
}

static tx_status list_tensors(export *e)
{
    const tx_params *ps = &e->m->params;
    TX_TRY(tx_alloc(&e->tensor, (size_t)ps->n, sizeof *e->tensor, "an export"));
    TX_TRY(tx_alloc(&e->name, (size_t)ps->n, sizeof *e->name, "an export"));
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        int64_t dim[2];
        TX_TRY(e->m->type->hf_name(e->name[i], sizeof e->name[i], e->m, p));
        e->m->type->hf_layout(e->m, p, NULL, NULL, true, dim);
        e->tensor[i] = (tx_hf_tensor){
            .spec = { .name = e->name[i], .dtype = TX_ST_F32, .n_dims = p->n_dims, .dim = { dim[0], dim[1] } },
            .source = p,
        };
    }
    return TX_OK;
}

static void free_list(export *e)
{
    tx_free(e->tensor);
    tx_free(e->name);
}

tx_status tx_hf_export_tensors(const tx_model *m, float *flat, const char *path)
{
    export e = { .m = m, .flat = flat };
    tx_status st;
    TX_GOTO(list_tensors(&e));
    TX_GOTO(tx_huggingface_write_tensors(path, e.tensor, (size_t)m->params.n, fetch, &e));
out:
    free_list(&e);
    return st;
}

tx_status tx_hf_export_model(const tx_model *m, float *flat, const char *dir)
{
    export e = { .m = m, .flat = flat };
    json_t *config = NULL;
    tx_status st;
    TX_GOTO(list_tensors(&e));
    TX_GOTO(m->type->hf_config(&config, m));
    TX_GOTO(tx_huggingface_write(dir, config, e.tensor, (size_t)m->params.n, fetch, &e));
out:
    json_decref(config);
    free_list(&e);
    return st;
}
