/* hf_sink.c - a Hugging Face folder from whatever a source has: model/hf_format.h has the names and the order of rows.
 */
#include <string.h>

#include "base/alloc.h"
#include "checkpoint/huggingface.h"
#include "convert/hf_change.h"
#include "convert/sink.h"
#include "model/hf_format.h"

static tx_status fetch(void *user, const tx_hf_tensor *tensor, float *x)
{
    tx_conversion *c = user;
    const tx_hf_part *part = tensor->source;
    const float *whole;
    TX_TRY(tx_conversion_fetch(c, 0, (int)(part->param - c->m->params.param), &whole));
    tx_hf_copy(c->m, part, x, (float *)whole, true);
    return TX_OK;
}

static const char *dtype_word(tx_st_dtype t)
{
    return t == TX_ST_BF16 ? "bfloat16" : t == TX_ST_F16 ? "float16" : "float32";
}

static tx_status write(tx_conversion *c)
{
    const tx_params *ps = &c->m->params;
    const tx_hf_format *format;
    tx_hf_tensor *tensor = NULL;
    tx_hf_part *part = NULL;
    json_t *config = NULL;
    size_t n = 0;
    tx_status st;
    TX_TRY(tx_hf_format_of(&format, c->m));
    TX_GOTO(tx_alloc(&tensor, (size_t)ps->n * TX_HF_MAX_PARTS, sizeof *tensor, "a list of tensors"));
    TX_GOTO(tx_alloc(&part, (size_t)ps->n * TX_HF_MAX_PARTS, sizeof *part, "a list of tensors"));
    for (int i = 0; i < ps->n; i++) n += (size_t)tx_hf_parts(format, c->m, &ps->param[i], part + n);
    for (size_t i = 0; i < n; i++)
        tensor[i] =
            (tx_hf_tensor){ .spec = { part[i].name, c->dtype, part[i].n_dims, { part[i].dim[0], part[i].dim[1] } },
                            .source = &part[i] };
    TX_GOTO(tx_hf_config(format, &config, c->m));
    if (json_object_set_new(config, "torch_dtype", json_string(dtype_word(c->dtype))))
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json");
    else
        st = tx_huggingface_write(c->out, config, &(tx_hf_tensors){ tensor, n, fetch, c }, c->shard_bytes);
out:
    json_decref(config);
    tx_free(tensor);
    tx_free(part);
    return st;
}

static unsigned change(const tx_conversion *c, const tx_param *p)
{
    const tx_hf_format *format;
    if (tx_hf_format_of(&format, c->m)) return TX_CHANGE_NONE; /* which writing it refuses */
    return tx_hf_change(format, c->m, p, true) | (p->whole_logical < p->whole[0] ? TX_CHANGE_CUT : 0);
}

const tx_sink_type tx_sink_huggingface = { .format = TX_FORMAT_HUGGINGFACE, .write = write, .change = change };
