/* gpt_names.c - how GPT's parameters are called and laid out in Hugging Face's GPT2LMHeadModel.
 *
 *  Linear weights are [in, out] there (Conv1D), [out, in] here. The fused c_attn has all heads' q, then all k, then
 *  all v; here each head's q, k, v lie together:
 *
 *      here  row (n, part, d)   <->   there  column (part, n, d)                                          */
#include <stdio.h>
#include <string.h>

#include "model/gpt/gpt.h"

typedef struct name_row {
    const char *ours, *theirs;
    bool conv1d, fused_qkv;
} name_row;

/* clang-format off */
static const name_row top_names[] = {
    { "embedding.word_embeddings.weight",     "transformer.wte.weight",  false, false },
    { "embedding.position_embeddings.weight", "transformer.wpe.weight",  false, false },
    { "encoder.final_layernorm.weight",       "transformer.ln_f.weight", false, false },
    { "encoder.final_layernorm.bias",         "transformer.ln_f.bias",   false, false },
};
/* clang-format on */
/* clang-format off */
static const name_row layer_names[] = {
    { "input_layernorm.weight",                "ln_1.weight",        false, false },
    { "input_layernorm.bias",                  "ln_1.bias",          false, false },
    { "self_attention.query_key_value.weight", "attn.c_attn.weight", true,  true },
    { "self_attention.query_key_value.bias",   "attn.c_attn.bias",   false, true },
    { "self_attention.dense.weight",           "attn.c_proj.weight", true,  false },
    { "self_attention.dense.bias",             "attn.c_proj.bias",   false, false },
    { "post_attention_layernorm.weight",       "ln_2.weight",        false, false },
    { "post_attention_layernorm.bias",         "ln_2.bias",          false, false },
    { "mlp.dense_h_to_4h.weight",              "mlp.c_fc.weight",    true,  false },
    { "mlp.dense_h_to_4h.bias",                "mlp.c_fc.bias",      false, false },
    { "mlp.dense_4h_to_h.weight",              "mlp.c_proj.weight",  true,  false },
    { "mlp.dense_4h_to_h.bias",                "mlp.c_proj.bias",    false, false },
};
/* clang-format on */

/* The row of a parameter and its layer (-1: none). */
static const name_row *find_row(const char *name, int *layer)
{
    int at = 0;
    *layer = -1;
    if (sscanf(name, "encoder.layers.%d.%n", layer, &at) == 1 && at) {
        for (size_t i = 0; i < sizeof layer_names / sizeof *layer_names; i++)
            if (!strcmp(layer_names[i].ours, name + at)) return &layer_names[i];
    }
    *layer = -1;
    for (size_t i = 0; i < sizeof top_names / sizeof *top_names; i++)
        if (!strcmp(top_names[i].ours, name)) return &top_names[i];
    return NULL;
}

tx_status tx__gpt_hf_name(char *name, size_t cap, const tx_model *m, const tx_param *p)
{
    (void)m;
    int layer;
    const name_row *row = find_row(p->name, &layer);
    TX_ASSERT(row); /* the tables above and the parameter table are one list */
    if (layer < 0)
        snprintf(name, cap, "%s", row->theirs);
    else
        snprintf(name, cap, "transformer.h.%d.%s", layer, row->theirs);
    return TX_OK;
}

void tx__gpt_hf_layout(const tx_model *m, const tx_param *p, float *theirs, float *ours, bool to_hf, int64_t dim[2])
{
    int layer;
    const name_row *row = find_row(p->name, &layer);
    TX_ASSERT(row);
    bool vocab = !strcmp(p->name, "embedding.word_embeddings.weight");
    int64_t rows = vocab ? m->vocab_size : p->dim[0], cols = p->n_dims == 2 ? p->dim[1] : 1;
    int64_t d = m->hidden / m->n_heads;
    dim[0] = row->conv1d ? cols : rows;
    dim[1] = row->conv1d ? rows : cols;
    if (!ours) return; /* only the shape was asked for */
    for (int64_t r = 0; r < rows; r++) {
        int64_t r2 = r; /* the row's place there */
        if (row->fused_qkv) {
            int64_t n = r / (3 * d), part = r / d % 3;
            r2 = (part * m->n_heads + n) * d + r % d;
        }
        for (int64_t k = 0; k < cols; k++) {
            float *a = &theirs[row->conv1d ? k * rows + r2 : r2 * cols + k], *b = &ours[r * cols + k];
            if (to_hf)
                *a = *b;
            else
                *b = *a;
        }
    }
}

/* ---- config.json ---- */

static bool is_true(const json_t *config, const char *key, bool fallback)
{
    const json_t *v = json_object_get(config, key);
    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

static tx_status get_size(const json_t *config, const char *key, json_int_t *out)
{
    const json_t *v = json_object_get(config, key);
    if (!json_is_integer(v) || json_integer_value(v) < 1)
        return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be a positive whole number", key);
    *out = json_integer_value(v);
    return TX_OK;
}

tx_status tx__gpt_hf_options(json_t **out, const json_t *config)
{
    const char *act = json_string_value(json_object_get(config, "activation_function"));
    json_int_t layers, hidden, heads, positions, vocab, inner = 0;
    TX_TRY(get_size(config, "n_layer", &layers));
    TX_TRY(get_size(config, "n_embd", &hidden));
    TX_TRY(get_size(config, "n_head", &heads));
    TX_TRY(get_size(config, "n_positions", &positions));
    TX_TRY(get_size(config, "vocab_size", &vocab));
    inner = 4 * hidden;
    if (json_is_integer(json_object_get(config, "n_inner"))) TX_TRY(get_size(config, "n_inner", &inner));
    if (!act) act = "gelu_new";
    bool tanh_form = !strcmp(act, "gelu_new") || !strcmp(act, "gelu_pytorch_tanh") || !strcmp(act, "gelu_fast");
    if (!tanh_form && strcmp(act, "gelu"))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "config.json: activation_function \"%s\" is not built yet (gelu_new, gelu are)", act);
    if (!is_true(config, "tie_word_embeddings", true))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: tie_word_embeddings false is not built yet");
    if (is_true(config, "scale_attn_by_inverse_layer_idx", false) || !is_true(config, "scale_attn_weights", true))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: only attention scaled by 1/sqrt(head size) is built");
    const json_t *eps = json_object_get(config, "layer_norm_epsilon");
    json_t *o = json_pack("{sI sI sI sI sI sf sb sb sI}", "num_layers", layers, "hidden_size", hidden,
                          "num_attention_heads", heads, "ffn_hidden_size", inner, "max_position_embeddings", positions,
                          "layernorm_epsilon", json_is_number(eps) ? json_number_value(eps) : 1e-5, "bias_gelu_fusion",
                          tanh_form, "openai_gelu", 0, "vocab_size", vocab);
    if (!o) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json");
    *out = o;
    return TX_OK;
}

tx_status tx__gpt_hf_config(json_t **out, const tx_model *m)
{
    json_t *o =
        json_pack("{ss s[s] sI sI sI sI sI sI sI ss sf sb sn sn}", "model_type", "gpt2", "architectures",
                  "GPT2LMHeadModel", "n_layer", (json_int_t)m->n_layers, "n_embd", (json_int_t)m->hidden, "n_head",
                  (json_int_t)m->n_heads, "n_inner", (json_int_t)m->ffn, "n_positions", (json_int_t)m->max_positions,
                  "n_ctx", (json_int_t)m->max_positions, "vocab_size", (json_int_t)m->vocab_size, "activation_function",
                  m->gelu == TX_GELU_TANH ? "gelu_new" : "gelu", "layer_norm_epsilon", m->eps, "tie_word_embeddings", 1,
                  "bos_token_id", "eos_token_id");
    if (!o) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json");
    *out = o;
    return TX_OK;
}
