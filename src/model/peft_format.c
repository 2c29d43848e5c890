/* peft_format.c - a table of PEFT's names. */
#include "model/peft_format.h"

#include <stdio.h>
#include <string.h>

/* A matrix of a layer, as a family of models has it: of GPT-2, or of Llama and its descendants. */
typedef struct peft_row {
    const char *path, *word;
    int target;
    bool gpt2;
    tx_hf_rows rows; /* of B */
} peft_row;

static const peft_row rows[] = {
    { "attn.c_attn", "query_key_value", TX_LORA_QKV, true, TX_HF_QKV },
    { "attn.c_proj", "dense", TX_LORA_DENSE, true, TX_HF_ALL },
    { "mlp.c_fc", "dense_h_to_4h", TX_LORA_H_4H, true, TX_HF_ALL },
    { "mlp.c_proj", "dense_4h_to_h", TX_LORA_4H_H, true, TX_HF_ALL },
    { "self_attn.q_proj", "q_proj", TX_LORA_Q, false, TX_HF_ALL },
    { "self_attn.k_proj", "k_proj", TX_LORA_K, false, TX_HF_ALL },
    { "self_attn.v_proj", "v_proj", TX_LORA_V, false, TX_HF_ALL },
    { "self_attn.o_proj", "dense", TX_LORA_DENSE, false, TX_HF_ALL },
    { "mlp.gate_proj", "gate_proj", TX_LORA_GATE, false, TX_HF_ALL },
    { "mlp.up_proj", "up_proj", TX_LORA_UP, false, TX_HF_ALL },
    { "mlp.down_proj", "dense_4h_to_h", TX_LORA_4H_H, false, TX_HF_ALL },
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const tx_hf_name as_it_is = { "", "", TX_HF_ALL, false }, reordered = { "", "", TX_HF_QKV, false };

bool tx_peft_is_transposed(const tx_hf_format *f)
{
    return !strcmp(f->model_type, "gpt2");
}

/* Whether the family has that matrix: others name theirs in another way, or have several in one. */
static bool has_matrix(const tx_hf_format *f, const char *path)
{
    size_t n = strlen(path);
    for (const tx_hf_name *row = f->layer; row->ours; row++)
        if (!strncmp(row->theirs, path, n) && !strcmp(row->theirs + n, ".weight")) return true;
    return false;
}

static const peft_row *row_of(const tx_hf_format *f, int target)
{
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].target == target && rows[i].gpt2 == tx_peft_is_transposed(f) && has_matrix(f, rows[i].path))
            return &rows[i];
    return NULL;
}

const char *tx_peft_module(const tx_hf_format *f, int target)
{
    const peft_row *row = row_of(f, target);
    return row ? strrchr(row->path, '.') + 1 : NULL;
}

int tx_peft_target_of(const char *name, const char **word)
{
    static const char *const ends[] = { ".lora_A.weight", ".lora_B.weight" };
    for (int i = 0; i < N_ROWS; i++)
        for (int k = 0; k < 2; k++) {
            char end[64];
            size_t n = strlen(name), len = (size_t)snprintf(end, sizeof end, ".%s%s", rows[i].path, ends[k]);
            if (n < len || strcmp(name + n - len, end)) continue;
            *word = rows[i].word;
            return rows[i].target;
        }
    return -1;
}

tx_status tx_peft_part(const tx_hf_format *f, const tx_model *m, const tx_param *p, tx_hf_part *out)
{
    int layer, target = tx_lora_target_of(p->name, &layer);
    TX_ASSERT(target >= 0);
    const peft_row *row = row_of(f, target);
    bool b = strstr(p->name, ".lora_B.") != NULL;
    (void)m;
    if (!row)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: a %s of Hugging Face's has no such matrix, so PEFT has no name for its adapter; "
                       "%s",
                       p->name, f->model_type,
                       tx_peft_is_transposed(f) ? "train with --lora-targets query_key_value"
                                                : "train with --lora-targets q_proj k_proj v_proj");
    *out = (tx_hf_part){ .param = p, .row = b && row->rows == TX_HF_QKV ? &reordered : &as_it_is, .n_dims = 2 };
    out->dim[0] = p->whole[0];
    out->dim[1] = p->whole[1];
    int n = snprintf(out->name, sizeof out->name, "base_model.model.%s%s.%d.%s.lora_%c.weight", f->prefix, f->layers,
                     layer, row->path, b ? 'B' : 'A');
    TX_ASSERT(n > 0 && (size_t)n < sizeof out->name);
    return TX_OK;
}
