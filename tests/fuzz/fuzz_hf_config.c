/* fuzz_hf_config.c - config.json of every family: what is read can be read as a run's options. */
#include "config/config.h"
#include "fuzz.h"
#include "model/hf_format.h"

/* Options of a family that has been read: they mean what they say. */
static void check_options(json_t *o)
{
    json_t *again;
    tx_str differ = { 0 };
    FUZZ_CHECK(json_integer_value(json_object_get(o, "vocab_size")) > 0);
    json_object_del(o, "vocab_size");
    json_object_del(o, "hf_model_type");
    FUZZ_CHECK(!tx_config_shape_meant(o, &again));
    FUZZ_CHECK(tx_config_shapes_differ(o, again, &differ) == 0);
    tx_str_free(&differ);
    json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tx_hf_format *f;
    json_t *config = json_loadb((const char *)data, size, 0, NULL), *o;
    if (!config) return 0;
    const char *own = json_string_value(json_object_get(config, "model_type"));
    for (int i = 0; (f = tx_hf_format_at(i)); i++) {
        if (own && strcmp(own, f->model_type)) continue; /* without one: all of them */
        if (!fuzz_ok(tx_hf_options(f, &o, config))) continue;
        check_options(o);
        json_decref(o);
    }
    json_decref(config);
    return 0;
}
