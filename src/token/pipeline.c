/* pipeline.c - reads the parts of a tokenizer.json around its model. */
#include "token/pipeline.h"

#include <string.h>

#include "token/split_pattern.h"

/* ---- post_processor ---- */

static tx_status ends_add(tx__part *p, tx__ends *to, json_t *id, const char *place)
{
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value > INT32_MAX || to->n == TX__MAX_ENDS)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %s has no id for one of its tokens, or more than %d tokens", p->file, place,
                       TX__MAX_ENDS);
    to->id[to->n++] = (int32_t)value;
    return TX_OK;
}

/* "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], and the ids of "<s>" in "special_tokens". */
static tx_status template_ends(tx__part *p, json_t *step, const char *place)
{
    json_t *single = json_object_get(step, "single"), *special = json_object_get(step, "special_tokens");
    tx__pipeline *to = p->to;
    size_t texts = 0;
    for (size_t i = 0; i < json_array_size(single); i++) {
        json_t *piece = json_array_get(single, i), *token = json_object_get(piece, "SpecialToken");
        const char *name = json_string_value(json_object_get(token, "id"));
        json_t *ids = name ? json_object_get(json_object_get(special, name), "ids") : NULL;
        if (json_object_get(piece, "Sequence"))
            texts++;
        else if (!ids)
            return TX_FAIL(TX_ERR_FORMAT, "%s: %s.single[%zu] is neither the text nor one of its special_tokens",
                           p->file, place, i);
        for (size_t k = 0; k < json_array_size(ids); k++)
            TX_TRY(ends_add(p, texts ? &to->after : &to->before, json_array_get(ids, k), place));
    }
    if (texts != 1)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: %s.single has the text %zu times; triax reads templates that have it once", p->file, place,
                       texts);
    return TX_OK;
}

/* What Hugging Face's encode(text), and so Megatron, puts at the ends of a text. */
static tx_status post_processor_step(tx__part *p, json_t *step, const char *type, const char *place)
{
    tx__pipeline *to = p->to;
    if (!strcmp(type, "ByteLevel")) return TX_OK; /* moves offsets */
    bool template = !strcmp(type, "TemplateProcessing");
    if (!template && strcmp(type, "BertProcessing") != 0 && strcmp(type, "RobertaProcessing") != 0)
        return tx__part_unknown(p, step, place);
    if (to->before.n || to->after.n) /* a second one would treat the first one's tokens as texts */
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %s is a second step that adds tokens; triax reads one", p->file, place);
    if (template) return template_ends(p, step, place);
    TX_TRY(ends_add(p, &to->before, json_array_get(json_object_get(step, "cls"), 1), place)); /* "cls": ["<s>", 0] */
    return ends_add(p, &to->after, json_array_get(json_object_get(step, "sep"), 1), place);
}

static tx_status read_post_processor(tx__pipeline *out, json_t *root, const char *file)
{
    tx__part p = { .file = file, .name = "post_processor", .list = "processors", .step = post_processor_step };
    p.known = "ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing and a Sequence of them";
    p.to = out;
    return tx__part_read(&p, root);
}

/* ---- all parts ---- */

/* Whether the steps give bytes to the model, in symbols: then texts that are not UTF-8 keep all their bytes. */
static bool makes_symbols(const tx__pipeline *p)
{
    bool found = false;
    for (size_t i = 0; i < p->normalizer.n; i++) found |= p->normalizer.step[i].kind == TX__N_SYMBOLS;
    for (size_t i = 0; i < p->cuts.n; i++) found |= p->cuts.step[i].kind == TX__C_SYMBOLS;
    return found;
}

/* Whether symbols are made once, last, and read by the decoder: then a model of byte symbols can work on bytes. */
static bool ends_in_bytes(const tx__pipeline *p)
{
    const tx__cuts *c = &p->cuts;
    bool decodes = !p->decoder.n || (p->decoder.n == 1 && p->decoder.step[0].kind == TX__D_BYTE_LEVEL);
    if (!decodes || !c->n || c->step[c->n - 1].kind != TX__C_SYMBOLS) return false;
    for (size_t i = 0; i + 1 < c->n; i++)
        if (c->step[i].kind == TX__C_SYMBOLS) return false;
    for (size_t i = 0; i < p->normalizer.n; i++)
        if (p->normalizer.step[i].kind == TX__N_SYMBOLS) return false;
    return true;
}

tx_status tx__pipeline_read(tx__pipeline *out, json_t *root, const char *file)
{
    TX_TRY(tx__normalizer_read(&out->normalizer, root, file));
    TX_TRY(tx__cuts_read(&out->cuts, root, file));
    TX_TRY(read_post_processor(out, root, file));
    TX_TRY(tx__decoder_read(&out->decoder, root, file));
    out->symbols = makes_symbols(out);
    out->bytes = ends_in_bytes(out);
    return TX_OK;
}

tx__split_fn *tx__pipeline_take_split(tx__pipeline *p)
{
    tx__cuts *c = &p->cuts;
    c->n--; /* the symbols */
    const tx__cut_step *last = c->n ? &c->step[c->n - 1] : NULL;
    if (!last || last->kind != TX__C_SPLIT || last->drop_white) return tx__split_nothing;
    c->n--;
    return last->split;
}

void tx__pipeline_free(tx__pipeline *p)
{
    tx__normalizer_free(&p->normalizer);
    tx__cuts_free(&p->cuts);
    tx__decoder_free(&p->decoder);
}
