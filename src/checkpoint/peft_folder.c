/* peft_folder.c - the two files of an adapter. */
#include "checkpoint/peft_folder.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/json_text.h"

enum { MAX_CONFIG = 1 << 24, PATH_CAP = 4096 };

/* Members that make of an adapter something else, unless they are null, false, empty or this text. */
static const struct {
    const char *key, *text;
} plain[] = {
    { "use_rslora", NULL },        { "use_dora", NULL },      { "modules_to_save", NULL },
    { "rank_pattern", NULL },      { "alpha_pattern", NULL }, { "bias", "none" },
    { "layer_replication", NULL }, { "lora_bias", NULL },     { "trainable_token_indices", NULL },
    { "target_parameters", NULL }, { "use_qalora", NULL },    { "use_bdlora", NULL },
};
enum { N_PLAIN = sizeof plain / sizeof *plain };

static bool is_plain(const json_t *v, const char *text)
{
    if (!v || json_is_null(v) || json_is_false(v)) return true;
    if (json_is_array(v)) return !json_array_size(v);
    if (json_is_object(v)) return !json_object_size(v);
    return text && json_is_string(v) && !strcmp(json_string_value(v), text);
}

static tx_status check_config(const json_t *config, const char *path)
{
    const json_t *type = json_object_get(config, "peft_type");
    if (!json_is_string(type) || strcmp(json_string_value(type), "LORA"))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: peft_type is not LORA, and no other kind of adapter is built", path);
    for (int i = 0; i < N_PLAIN; i++)
        if (!is_plain(json_object_get(config, plain[i].key), plain[i].text))
            return TX_FAIL(TX_ERR_UNSUPPORTED,
                           "%s: an adapter with %s is not built; only A and B are, of one rank and alpha", path,
                           plain[i].key);
    return TX_OK;
}

tx_status tx_peft_open(json_t **config, tx_safetensors **file, const char *dir)
{
    char path[PATH_CAP];
    *config = NULL;
    *file = NULL;
    tx_status st = tx_path_join(path, sizeof path, dir, TX_PEFT_CONFIG);
    if (!st) st = tx__json_load(config, path, MAX_CONFIG);
    if (!st) st = check_config(*config, path);
    if (!st) st = tx_path_join(path, sizeof path, dir, TX_PEFT_WEIGHTS);
    if (!st) st = tx_safetensors_open(file, path);
    if (!st) return TX_OK;
    json_decref(*config);
    *config = NULL;
    return st;
}

tx_status tx_peft_write(const char *dir, const json_t *config, const tx_hf_tensors *tensors)
{
    char path[PATH_CAP];
    tx_writer file = { 0 };
    TX_TRY(tx_path_join(path, sizeof path, dir, TX_PEFT_WEIGHTS));
    TX_TRY(tx_huggingface_write_tensors(path, tensors));
    TX_TRY(tx_path_join(path, sizeof path, dir, TX_PEFT_CONFIG));
    char *text = json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS);
    if (!text) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s", path);
    tx_status st = tx_writer_open(&file, path);
    if (!st) st = tx_writer_put(&file, text, strlen(text));
    if (!st) st = tx_writer_put(&file, "\n", 1);
    free(text); /* Jansson's */
    if (!st) return tx_writer_commit(&file);
    tx_writer_abort(&file);
    return st;
}
