/* hf_format.c - the families, names, shapes and row orders from a format's table. */
#include "model/hf_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "config/config.h"
#include "nn/lora.h"

/* clang-format off */
/* A model is the first of these that has its options. Of one model_type in a row, those with a sign first. */
#define FAMILIES(F)                                                                                                  \
    F(gpt2) F(llama) F(qwen2) F(qwen3) F(mixtral) F(qwen2_moe) F(qwen3_moe) F(olmoe) F(mistral) F(seed_oss) F(helium) \
    F(granite) F(smollm3) F(stablelm) F(phi3) F(arcee) F(nemotron) F(olmo2) F(olmo3) F(exaone4) F(gemma) F(gemma2)    \
    F(gemma3) F(cohere) F(cohere2) F(gpt_neox) F(gptj) F(phi) F(falcon_two) F(falcon) F(bloom) F(mpt) F(opt)          \
    F(gpt_bigcode) F(starcoder2) F(bert) F(bert_masked) F(megatron_bert) F(megatron_bert_masked)
/* clang-format on */
#define DECLARE(name) extern const tx_hf_format tx_hf_##name;
#define LIST(name)    &tx_hf_##name,
FAMILIES(DECLARE)
static const tx_hf_format *const formats[] = { FAMILIES(LIST) };
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

const tx_hf_format *tx_hf_format_at(int i)
{
    return i >= 0 && i < N_FORMATS ? formats[i] : NULL;
}

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
    tx_status st = TX_FAIL(TX_ERR_UNSUPPORTED, "config.json: model_type \"%.60s\" is not built yet (there are: %s)",
                           model_type ? model_type : "", names.data);
    tx_str_free(&names);
    return st;
}

/* ---- config.json ---- */

tx_status tx_hf_options(const tx_hf_format *f, json_t **out, const json_t *config)
{
    json_t *o, *meant = NULL;
    int64_t vocab;
    if (!json_is_object(config)) return TX_FAIL(TX_ERR_FORMAT, "config.json: is no object");
    TX_TRY(tx_config_shape(&o));
    tx_status st;
    json_object_del(o, "position_embedding_type"); /* two other options say it */
    TX_GOTO(tx_hf_put(o, "model_type", json_string(f->model)));
    TX_GOTO(tx_hf_keys_read(f->keys, f->model_type, o, config));
    TX_GOTO(tx_hf_get_size(config, "vocab_size", &vocab));
    TX_GOTO(tx_config_shape_meant(o, &meant));
    if (json_object_set_new(meant, "vocab_size", json_integer(vocab)) ||
        json_object_set_new(meant, "hf_model_type", json_string(f->model_type))) {
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json");
        goto out;
    }
    *out = meant;
    meant = NULL;
out:
    json_decref(o);
    json_decref(meant);
    return st;
}

/* What its options are. */
static tx_status plain_config(const tx_hf_format *f, json_t **out, const tx_model *m)
{
    json_t *o = json_pack("{ss sI}", "model_type", f->model_type, "vocab_size", (json_int_t)m->n_valid);
    tx_status st = o ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for config.json");
    if (!st && f->architecture) st = tx_hf_say(o, "architectures", json_pack("[s]", f->architecture));
    if (!st) st = tx_hf_keys_write(f->keys, o, m->shape->options);
    if (st)
        json_decref(o);
    else
        *out = o;
    return st;
}

tx_status tx_hf_config(const tx_hf_format *f, json_t **out, const tx_model *m)
{
    json_t *o;
    TX_TRY(plain_config(f, &o, m));
    tx_status st = f->more ? f->more(o, m) : TX_OK;
    if (st)
        json_decref(o);
    else
        *out = o;
    return st;
}

/* ---- which one a model is ---- */

/* Whether the table has a tensor for every parameter. */
static bool has_names(const tx_hf_format *f, const tx_model *m)
{
    tx_hf_part part[TX_HF_MAX_PARTS];
    int layer;
    for (int i = 0; i < m->params.n; i++)
        if (tx_lora_target_of(m->params.param[i].name, &layer) < 0 && !tx_hf_parts(f, m, &m->params.param[i], part))
            return false;
    return true;
}

#define NO_MEMORY "not enough memory to compare a model with Hugging Face's"

/* How many of the model's options are not what they would be after a way there and back, and which; a large number:
 * config.json has no words for them at all; -1: not enough memory.   @why appended to */
static int differences(const tx_hf_format *f, const tx_model *m, tx_str *why)
{
    enum { ALL = 1000 };
    json_t *config = NULL, *back = NULL;
    int n = ALL;
    tx_status st = plain_config(f, &config, m);
    if (!st) st = tx_hf_options(f, &back, config);
    if (!st) {
        json_object_del(back, "vocab_size");
        json_object_del(back, "hf_model_type");
        n = tx_config_shapes_differ(m->shape->options, back, why);
    } else if (st == TX_ERR_NOMEM || tx_str_puts(why, tx_last_error())) {
        n = -1;
    }
    json_decref(config);
    json_decref(back);
    return n ? n : has_names(f, m) ? 0 : ALL;
}

/* --hf-model-type's. */
static tx_status format_meant(const tx_model *m, int *out)
{
    tx_str why = { 0 };
    int least = -1;
    bool found = false;
    for (int i = 0; i < N_FORMATS; i++) {
        const tx_hf_format *f = formats[i];
        if (strcmp(f->model_type, m->shape->family) || strcmp(f->model, m->type->name)) continue;
        if (why.data) why.data[why.len = 0] = 0;
        least = differences(f, m, &why);
        *out = i;
        found = true;
        if (least <= 0) break;
    }
    tx_status st = TX_OK;
    if (found && least < 0)
        st = TX_FAIL(TX_ERR_NOMEM, NO_MEMORY);
    else if (!found)
        st = TX_FAIL(TX_ERR_UNSUPPORTED, "--hf-model-type %s: there is no such family of a %s", m->shape->family,
                     m->type->name);
    else if (least)
        st = TX_FAIL(TX_ERR_UNSUPPORTED,
                     "--hf-model-type %s: Hugging Face has no model with these options: %s; give another type, or "
                     "none",
                     m->shape->family, why.data ? why.data : "");
    tx_str_free(&why);
    return st;
}

/* The first that fits; the message is about the one that lacks least. */
static tx_status first_format(const tx_model *m, int *out)
{
    tx_str nearest = { 0 };
    const char *name = "";
    int least = -1;
    tx_status st = TX_OK;
    for (int i = 0; i < N_FORMATS && least && !st; i++) {
        tx_str why = { 0 };
        if (strcmp(formats[i]->model, m->type->name)) continue;
        int n = differences(formats[i], m, &why);
        if (n < 0) st = TX_FAIL(TX_ERR_NOMEM, NO_MEMORY);
        if (least < 0 || n < least) {
            least = n;
            *out = i;
            name = formats[i]->model_type;
            tx_str_free(&nearest);
            nearest = why;
        } else {
            tx_str_free(&why);
        }
    }
    if (!st && least)
        st = TX_FAIL(TX_ERR_UNSUPPORTED,
                     "Hugging Face has no model with these options, as far as triax knows: of the nearest, %s, %s; "
                     "other formats have them (--to native)",
                     name, nearest.data ? nearest.data : "there are none");
    tx_str_free(&nearest);
    return st;
}

tx_status tx_hf_format_of(const tx_hf_format **out, const tx_model *m)
{
    tx_model_shape *shape = m->shape;
    if (!shape)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "Hugging Face has no model with these options: it is of the program's own");
    enum { NO_ROOM = -2 }; /* a comparison that once lacked memory stays so */
    if (shape->format == NO_ROOM) return TX_FAIL(TX_ERR_NOMEM, NO_MEMORY);
    if (shape->format < 0) {
        int i = -1;
        tx_status st = *shape->family ? format_meant(m, &i) : first_format(m, &i);
        shape->format = !st ? i : st == TX_ERR_NOMEM ? NO_ROOM : -1;
        TX_TRY(st);
    }
    *out = formats[shape->format];
    return TX_OK;
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
    case TX_HF_BEHIND_2:
        return p->whole[0] + 2;
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
    case TX_HF_BEHIND_2:
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

static void copy_behind(const tx_hf_part *part, float *theirs, float *ours, bool to_hf)
{
    size_t front = 2 * (size_t)part->dim[1], n = (size_t)(part->param->whole[0] * part->dim[1]);
    if (to_hf) memset(theirs, 0, front * sizeof *theirs);
    memcpy(to_hf ? theirs + front : ours, to_hf ? ours : theirs + front, n * sizeof *ours);
}

enum { BAND = 32 }; /* rows that are transposed together, so that lines of both matrices stay in the cache */

/* Our rows from `first` on. */
static void copy_band(const tx_model *m, const tx_hf_part *part, int64_t first, float *theirs, float *ours, bool to_hf)
{
    bool transposed = part->row->transposed;
    int64_t rows = part->dim[transposed], cols = part->dim[!transposed], n = rows - first < BAND ? rows - first : BAND;
    float *row[BAND];
    for (int64_t r = 0; r < n; r++) row[r] = ours + our_row(m, part->param, part->row->rows, first + r) * cols;
    for (int64_t r = 0; r < n && !transposed; r++) {
        float *a = theirs + (first + r) * cols;
        memcpy(to_hf ? a : row[r], to_hf ? row[r] : a, (size_t)cols * sizeof *a);
    }
    for (int64_t k = 0; k < cols && transposed; k++)
        for (int64_t r = 0; r < n; r++) {
            float *a = &theirs[k * rows + first + r];
            if (to_hf)
                *a = row[r][k];
            else
                row[r][k] = *a;
        }
}

void tx_hf_copy(const tx_model *m, const tx_hf_part *part, float *theirs, float *ours, bool to_hf)
{
    if (part->row->rows == TX_HF_SEGMENTS) {
        copy_segments(part, theirs, ours, to_hf);
        return;
    }
    if (part->row->rows == TX_HF_BEHIND_2) {
        copy_behind(part, theirs, ours, to_hf);
        return;
    }
    int64_t rows = part->dim[part->row->transposed];
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r += BAND) copy_band(m, part, r, theirs, ours, to_hf);
}
