/* hf_export.c - writes flat buffers as Hugging Face files. */
#include "train/hf_export.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "checkpoint/safetensors.h"

tx_status tx_hf_export_config(const tx_model *m, const char *dir)
{
    char path[4096];
    json_t *config;
    TX_TRY(tx_path_join(path, sizeof path, dir, "config.json"));
    TX_TRY(m->type->hf_config(&config, m));
    char *text = json_dumps(config, JSON_INDENT(2));
    json_decref(config);
    if (!text) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s", path);
    tx_str all = { 0 };
    tx_status st = tx_str_printf(&all, "%s\n", text);
    if (!st) st = tx_file_publish(path, all.data, all.len);
    tx_str_free(&all);
    free(text);
    return st;
}

/* A tensor of the file and where it comes from; spec first, for tx_st_spec_order. */
typedef struct entry {
    tx_st_spec spec;
    const tx_param *param;
} entry;

static tx_status put_tensors(const tx_model *m, float *flat, const entry *e, int n, float *theirs, tx_writer *file,
                             tx_st_spec *spec)
{
    tx_st_writer w;
    for (int i = 0; i < n; i++) spec[i] = e[i].spec;
    TX_TRY(tx_st_writer_begin(&w, file, spec, (size_t)n, NULL, NULL));
    for (int i = 0; i < n; i++) {
        int64_t dim[2];
        m->type->hf_layout(m, e[i].param, theirs, flat + e[i].param->offset, true, dim);
        TX_TRY(tx_st_writer_put(&w, theirs, (size_t)(dim[0] * dim[1]) * sizeof *theirs));
    }
    tx_st_writer_end(&w);
    return TX_OK;
}

tx_status tx_hf_export_tensors(const tx_model *m, float *flat, const char *path)
{
    const tx_params *ps = &m->params;
    entry *e = NULL;
    char(*name)[TX_PARAM_NAME_MAX] = NULL; /* apart from the entries, which move when they are sorted */
    tx_st_spec *spec = NULL;
    float *theirs = NULL;
    tx_writer file = { .fd = -1 };
    tx_status st;
    int64_t largest = 0;
    TX_GOTO(tx_alloc(&e, (size_t)ps->n, sizeof *e, "an export"));
    TX_GOTO(tx_alloc(&name, (size_t)ps->n, sizeof *name, "an export"));
    TX_GOTO(tx_alloc(&spec, (size_t)ps->n, sizeof *spec, "an export"));
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        int64_t dim[2];
        TX_GOTO(m->type->hf_name(name[i], sizeof name[i], m, p));
        m->type->hf_layout(m, p, NULL, NULL, true, dim);
        e[i].param = p;
        e[i].spec = (tx_st_spec){ .name = name[i], .dtype = TX_ST_F32, .n_dims = p->n_dims, .dim = { dim[0], dim[1] } };
        if (p->numel > largest) largest = p->numel;
    }
    qsort(e, (size_t)ps->n, sizeof *e, tx_st_spec_order);
    TX_GOTO(tx_alloc(&theirs, (size_t)largest, sizeof *theirs, "an export"));
    TX_GOTO(tx_writer_open(&file, path));
    TX_GOTO(put_tensors(m, flat, e, ps->n, theirs, &file, spec));
    st = tx_writer_commit(&file);
out:
    if (st) tx_writer_abort(&file);
    tx_free(theirs);
    tx_free(spec);
    tx_free(name);
    tx_free(e);
    return st;
}
