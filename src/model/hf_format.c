/* hf_format.c - names, shapes and row orders from a format's table. */
#include "model/hf_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "nn/lora.h"

extern const tx_hf_format tx_hf_gpt2, tx_hf_llama, tx_hf_qwen2, tx_hf_qwen3, tx_hf_mixtral, tx_hf_qwen2_moe,
    tx_hf_qwen3_moe, tx_hf_bert, tx_hf_bert_masked, tx_hf_megatron_bert, tx_hf_megatron_bert_masked;

/* Of one model_type in a row, those with a sign first. */
static const tx_hf_format *const formats[] = { &tx_hf_gpt2,
                                               &tx_hf_llama,
                                               &tx_hf_qwen2,
                                               &tx_hf_qwen3,
                                               &tx_hf_mixtral,
                                               &tx_hf_qwen2_moe,
                                               &tx_hf_qwen3_moe,
                                               &tx_hf_bert,
                                               &tx_hf_bert_masked,
                                               &tx_hf_megatron_bert,
                                               &tx_hf_megatron_bert_masked };
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

tx_status tx_hf_format_find(const tx_hf_format **out, const char *model_type, tx_hf_has *has, const void *user)
{
    tx_str names = { 0 };
    for (int i = 0; i < N_FORMATS; i++) {
        const tx_hf_format *f = formats[i];
        if (model_type && !strcmp(f->model_type, model_type) && (!f->sign || has(user, f->sign))) {
            *out = f;
            tx_str_free(&names);
            return TX_OK;
        }
        if (i && !strcmp(f->model_type, formats[i - 1]->model_type)) continue;
        TX_TRY(tx_str_printf(&names, "%s%s", i ? ", " : "", f->model_type));
    }
    tx_status st = TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: model_type \"%s\" is not built yet (there are: %s)",
                           model_type ? model_type : "", names.data);
    tx_str_free(&names);
    return st;
}

tx_status tx_hf_format_of(const tx_hf_format **out, const tx_model *m)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (!strcmp(formats[i]->model, m->type->name) && formats[i]->fits(m)) {
            *out = formats[i];
            return TX_OK;
        }
    if (m->type->samples->masked)
        return TX_FAIL(
            TX_ERR_UNSUPPORTED,
            "Hugging Face has no BERT with these options: MegatronBertForPreTraining is the model without any "
            "of the model's options, BertForPreTraining has --post-layernorm; with --bert-no-binary-head they are "
            "MegatronBertForMaskedLM and BertForMaskedLM");
    if (m->positions == TX_POSITIONS_ALIBI)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "--position-embedding-type alibi cannot be written as Hugging Face's GPT-2 or Llama, whose "
                       "config.json has no word for it; BLOOM's format, which has ALiBi, is not built: convert to "
                       "megatron or deepspeed, which BigScience's program reads");
    return TX_FAIL(
        TX_ERR_UNSUPPORTED,
        "Hugging Face has no model with these options: GPT2LMHeadModel is the model without any of the "
        "model's options, LlamaForCausalLM has --normalization rmsnorm, --swiglu, "
        "--use-rotary-position-embeddings and --disable-bias-linear; then Qwen2 has --add-qkv-bias, Qwen3 "
        "--qk-layernorm; with as many experts in each layer that has some they are Mixtral (all layers), Qwen2-MoE "
        "(with --moe-shared-expert-intermediate-size and --moe-shared-expert-gate) and Qwen3-MoE");
}

/* ---- config.json ---- */

tx_status tx_hf_set(json_t *o, json_t *values)
{
    int bad = !values || json_object_update(o, values);
    json_decref(values);
    return bad ? TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json") : TX_OK;
}

static tx_status set_size(json_t *o, const char *option, int64_t n)
{
    return tx_hf_set(o, json_pack("{sI}", option, (json_int_t)n));
}

static int64_t size_in(const json_t *o, const char *option)
{
    return json_integer_value(json_object_get(o, option));
}

static tx_status read_sizes(const tx_hf_format *f, json_t *o, const json_t *config)
{
    int64_t n;
    for (const tx_hf_size *s = f->sizes; s->option; s++) {
        if (s->optional) continue;
        bool other = s->also && !json_object_get(config, s->theirs) && json_object_get(config, s->also);
        TX_TRY(tx_hf_get_size(config, other ? s->also : s->theirs, &n));
        TX_TRY(set_size(o, s->option, n));
    }
    int64_t hidden = size_in(o, "hidden_size"), heads = size_in(o, "num_attention_heads");
    if (!size_in(o, "ffn_hidden_size")) TX_TRY(set_size(o, "ffn_hidden_size", 4 * hidden));
    if (!size_in(o, "num_key_value_heads")) TX_TRY(set_size(o, "num_key_value_heads", heads));
    if (!size_in(o, "kv_channels")) TX_TRY(set_size(o, "kv_channels", hidden / heads));
    for (const tx_hf_size *s = f->sizes; s->option; s++) {
        if (!s->optional) continue;
        TX_TRY(tx_hf_get_size_or(config, s->theirs, size_in(o, s->option), &n));
        TX_TRY(set_size(o, s->option, n));
    }
    return TX_OK;
}

tx_status tx_hf_options(const tx_hf_format *f, json_t **out, const json_t *config)
{
    /* How a run pads the vocabulary is its own; how positions are known follows from two flags of the shape. */
    static const char *const always[] = { "megatron_padded_logits", "position_embedding_type" };
    json_t *o;
    TX_TRY(tx_config_shape(&o));
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) json_object_del(o, always[i]);
    for (const char *const *name = f->unsaid; *name; name++) json_object_del(o, *name);
    tx_status st = tx_hf_set(o, json_pack("{ss}", "model_type", f->model));
    if (!st) st = read_sizes(f, o, config);
    if (!st) st = f->read(o, config);
    if (st)
        json_decref(o);
    else
        *out = o;
    return st;
}

tx_status tx_hf_config(const tx_hf_format *f, json_t **out, const tx_model *m)
{
    json_t *o = json_object();
    tx_status st = o ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json");
    for (const tx_hf_size *s = f->sizes; s->option && !st; s++) {
        int64_t n = *(const int64_t *)((const char *)m + s->at);
        st = set_size(o, s->theirs, n);
        if (!st && s->also) st = set_size(o, s->also, n);
    }
    if (!st) st = tx_hf_set(o, json_pack("{ss}", "model_type", f->model_type));
    if (!st) st = f->write(o, m);
    if (st)
        json_decref(o);
    else
        *out = o;
    return st;
}

/* ---- tensors ---- */

/* Sizes there, of a tensor that holds `rows` of our matrix. */
static int64_t rows_of(const tx_model *m, const tx_param *p, tx_hf_rows rows)
{
    switch (rows) {
    case TX_HF_Q:
        return m->n_heads * m->head_dim;
    case TX_HF_K:
    case TX_HF_V:
        return m->n_groups * m->head_dim;
    case TX_HF_FIRST:
    case TX_HF_SECOND:
        return p->whole[0] / 2;
    case TX_HF_VOCAB:
        return m->n_valid;
    case TX_HF_SEGMENTS:
        return 2;
    case TX_HF_ALL:
    case TX_HF_QKV:
        break;
    }
    return p->whole[0];
}

/* Where row r of that tensor lies in ours. */
static int64_t our_row(const tx_model *m, const tx_param *p, tx_hf_rows rows, int64_t r)
{
    int64_t d = m->head_dim, per = m->n_heads / m->n_groups, wide = (per + 2) * d, n_q = m->n_heads * d;
    switch (rows) {
    case TX_HF_QKV:
        if (r < n_q) return our_row(m, p, TX_HF_Q, r);
        r -= n_q;
        if (r < m->n_groups * d) return our_row(m, p, TX_HF_K, r);
        return our_row(m, p, TX_HF_V, r - m->n_groups * d);
    case TX_HF_Q:
        return r / (per * d) * wide + r % (per * d);
    case TX_HF_K:
        return r / d * wide + per * d + r % d;
    case TX_HF_V:
        return r / d * wide + (per + 1) * d + r % d;
    case TX_HF_SECOND:
        return p->whole[0] / 2 + r;
    case TX_HF_ALL:
    case TX_HF_VOCAB:
    case TX_HF_FIRST:
    case TX_HF_SEGMENTS:
        break;
    }
    return r;
}

/* Whether a row of a table is about our parameter; *number: what '#' stands for.   @name without its layer's prefix */
static bool is_about(const tx_hf_name *row, const char *name, int64_t *number)
{
    const char *mark = strchr(row->ours, '#');
    size_t n = mark ? (size_t)(mark - row->ours) : 0;
    char *end;
    if (!mark) return !strcmp(row->ours, name);
    if (strncmp(row->ours, name, n) != 0) return false;
    *number = strtoll(name + n, &end, 10);
    return end > name + n && !strcmp(mark + 1, end);
}

/* Appends their name, with its number. */
static void put_name(char name[TX_PARAM_NAME_MAX], const char *theirs, int64_t number)
{
    const char *mark = strchr(theirs, '#');
    size_t at = strlen(name), room = TX_PARAM_NAME_MAX - at;
    if (mark)
        snprintf(name + at, room, "%.*s%lld%s", (int)(mark - theirs), theirs, (long long)number, mark + 1);
    else
        snprintf(name + at, room, "%s", theirs);
}

int tx_hf_parts(const tx_hf_format *f, const tx_model *m, const tx_param *p, tx_hf_part out[TX_HF_MAX_PARTS])
{
    int layer = -1, at = 0, n = 0;
    if (tx_lora_target_of(p->name, &layer) >= 0) return 0; /* peft_format.h */
    layer = -1;
    if (sscanf(p->name, "encoder.layers.%d.%n", &layer, &at) != 1 || !at) at = 0, layer = -1;
    for (const tx_hf_name *row = layer < 0 ? f->top : f->layer; row->ours; row++) {
        int64_t number = 0;
        if (!is_about(row, p->name + at, &number)) continue;
        TX_ASSERT(n < TX_HF_MAX_PARTS);
        tx_hf_part *part = &out[n++];
        int64_t rows = rows_of(m, p, row->rows), cols = p->n_dims == 2 ? p->whole[1] : 1;
        *part = (tx_hf_part){ .param = p, .row = row, .n_dims = p->n_dims };
        part->dim[0] = row->transposed ? cols : rows;
        part->dim[1] = row->transposed ? rows : cols;
        if (layer < 0)
            snprintf(part->name, sizeof part->name, "%s%s", row->theirs[0] == '/' ? "" : f->prefix,
                     row->theirs + (row->theirs[0] == '/'));
        else
            snprintf(part->name, sizeof part->name, "%s%s.%d.", f->prefix, f->layers, layer);
        if (layer >= 0) put_name(part->name, row->theirs, number);
    }
    TX_ASSERT(n); /* a format's table has every parameter of the models that fit */
    return n;
}

bool tx_hf_reorders(const tx_hf_part *part)
{
    tx_hf_rows rows = part->row->rows;
    return rows == TX_HF_QKV || rows == TX_HF_Q || rows == TX_HF_K || rows == TX_HF_V;
}

/* Of ours every row is a token's. What is 0 there leaves -0 as it is. */
static void copy_segments(const tx_hf_part *part, float *theirs, float *ours, bool to_hf)
{
    int64_t rows = part->param->whole[0], cols = part->dim[1];
    if (to_hf) memset(theirs, 0, (size_t)(part->dim[0] * cols) * sizeof *theirs);
    for (int64_t r = 0; r < rows && !to_hf; r++)
        for (int64_t k = 0; k < cols; k++)
            if (theirs[k] != 0) ours[r * cols + k] += theirs[k];
}

void tx_hf_copy(const tx_model *m, const tx_hf_part *part, float *theirs, float *ours, bool to_hf)
{
    if (part->row->rows == TX_HF_SEGMENTS) {
        copy_segments(part, theirs, ours, to_hf);
        return;
    }
    const tx_param *p = part->param;
    bool transposed = part->row->transposed;
    int64_t rows = part->dim[transposed], cols = part->dim[!transposed];
    for (int64_t r = 0; r < rows; r++) {
        float *b = ours + our_row(m, p, part->row->rows, r) * cols;
        for (int64_t k = 0; k < cols; k++) {
            float *a = &theirs[transposed ? k * rows + r : r * cols + k];
            if (to_hf)
                *a = b[k];
            else
                b[k] = *a;
        }
    }
}

/* ---- members of config.json ---- */

tx_status tx_hf_get_size(const json_t *config, const char *key, int64_t *out)
{
    const json_t *v = json_object_get(config, key);
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > INT32_MAX)
        return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be a positive whole number below 2^31", key);
    *out = json_integer_value(v);
    return TX_OK;
}

tx_status tx_hf_get_size_or(const json_t *config, const char *key, int64_t fallback, int64_t *out)
{
    const json_t *v = json_object_get(config, key);
    *out = fallback;
    return !v || json_is_null(v) ? TX_OK : tx_hf_get_size(config, key, out);
}

tx_status tx_hf_get_number(const json_t *config, const char *key, double fallback, double *out)
{
    const json_t *v = json_object_get(config, key);
    if (v && !json_is_number(v)) return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be a number", key);
    *out = v ? json_number_value(v) : fallback;
    return TX_OK;
}

tx_status tx_hf_get_bool(const json_t *config, const char *key, bool fallback, bool *out)
{
    const json_t *v = json_object_get(config, key);
    if (v && !json_is_boolean(v)) return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be true or false", key);
    *out = v ? json_is_true(v) : fallback;
    return TX_OK;
}

tx_status tx_hf_get_word(const json_t *config, const char *key, const char *fallback, const char **out)
{
    const json_t *v = json_object_get(config, key);
    if (v && !json_is_string(v)) return TX_FAIL(TX_ERR_FORMAT, "config.json: \"%s\" must be a text", key);
    *out = v ? json_string_value(v) : fallback;
    return TX_OK;
}
