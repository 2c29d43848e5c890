/* peft_sink.c - the adapters of a source as PEFT's; the model that they are beside is not written. */
#include <string.h>

#include "base/alloc.h"
#include "checkpoint/peft_folder.h"
#include "convert/sink.h"
#include "model/peft_format.h"

static tx_status fetch(void *user, const tx_hf_tensor *tensor, float *x)
{
    tx_conversion *c = user;
    const tx_hf_part *part = tensor->source;
    const float *whole;
    TX_TRY(tx_conversion_fetch(c, 0, (int)(part->param - c->m->params.param), &whole));
    tx_hf_copy(c->m, part, x, (float *)whole, true);
    return TX_OK;
}

static tx_status config_of(const tx_conversion *c, const tx_hf_format *format, json_t **out)
{
    const tx_config *cfg = c->cfg;
    unsigned targets = tx_config_lora_targets(cfg);
    json_t *modules = json_array();
    bool bad = !modules;
    const char *last = "";
    for (int k = 0; k < TX_N_LORA_TARGETS; k++) {
        const char *name = targets & TX_LORA_BIT(k) ? tx_peft_module(format, k) : NULL;
        if (!name || !strcmp(name, last)) continue; /* a GPT-2's c_proj is two */
        bool ends_alone = strcmp(name, "c_proj") != 0 ||
                          (targets & TX_LORA_BIT(TX_LORA_DENSE) && targets & TX_LORA_BIT(TX_LORA_4H_H));
        const char *exact = ends_alone ? name : k == TX_LORA_DENSE ? "attn.c_proj" : "mlp.c_proj";
        bool known = false;
        for (size_t i = 0; i < json_array_size(modules); i++)
            known = known || !strcmp(json_string_value(json_array_get(modules, i)), exact);
        if (!known) bad = bad || json_array_append_new(modules, json_string(exact));
        last = name;
    }
    *out = json_pack("{ss ss sI sf sf so sb ss ss* sb sn sb sb sb s{} s{}}", "peft_type", "LORA", "task_type",
                     "CAUSAL_LM", "r", (json_int_t)cfg->lora_rank, "lora_alpha", cfg->lora_alpha, "lora_dropout",
                     cfg->lora_dropout, "target_modules", modules, "fan_in_fan_out", tx_peft_is_transposed(format),
                     "bias", "none", "base_model_name_or_path", cfg->lora_base, "inference_mode", 1, "modules_to_save",
                     "init_lora_weights", 1, "use_rslora", 0, "use_dora", 0, "rank_pattern", "alpha_pattern");
    bad = bad || !*out;
    return bad ? TX_FAIL(TX_ERR_NOMEM, "not enough memory for " TX_PEFT_CONFIG) : TX_OK;
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
    TX_ASSERT(c->cfg->lora_rank); /* api/convert.c */
    TX_TRY(tx_hf_format_of(&format, c->m));
    TX_GOTO(tx_alloc(&tensor, (size_t)ps->n, sizeof *tensor, "a list of tensors"));
    TX_GOTO(tx_alloc(&part, (size_t)ps->n, sizeof *part, "a list of tensors"));
    for (int i = 0, layer; i < ps->n; i++) {
        if (tx_lora_target_of(ps->param[i].name, &layer) < 0) continue;
        TX_GOTO(tx_peft_part(format, c->m, &ps->param[i], &part[n]));
        tensor[n] = (tx_hf_tensor){ .spec = { part[n].name, c->dtype, 2, { part[n].dim[0], part[n].dim[1] } },
                                    .source = &part[n] };
        n++;
    }
    TX_GOTO(config_of(c, format, &config));
    st = tx_peft_write(c->out, config, &(tx_hf_tensors){ tensor, n, fetch, c });
out:
    json_decref(config);
    tx_free(tensor);
    tx_free(part);
    return st;
}

static unsigned change(const tx_conversion *c, const tx_param *p)
{
    (void)c, (void)p;
    return TX_CHANGE_NONE;
}

const tx_sink_type tx_sink_peft = { .format = TX_FORMAT_PEFT, .write = write, .change = change };
