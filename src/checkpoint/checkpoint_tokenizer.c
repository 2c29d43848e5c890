/* checkpoint_tokenizer.c - the tokenizer that a model was trained with, in its checkpoint: the files beside the shards,
 * and in the manifest's config what they are.
 *
 *      "tokenizer": {"type": "GPT2BPETokenizer", "vocab_size": 50257, "hash": "<32 hex>",
 *                    "files": {"vocab.json": {"bytes": 1042301, "hash": "<32 hex>"}, ...}} */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "checkpoint/json_text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "token/tokenizer_kinds.h"

#define KEY "tokenizer"

static void hash_of(const void *bytes, size_t n, char hex[33])
{
    XXH128_hash_t h = XXH3_128bits(bytes, n);
    snprintf(hex, 33, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
}

void tx_ckpt_tokenizer_free(tx_ckpt_tokenizer *t)
{
    for (int i = 0; i < t->n_files; i++) tx_str_free(&t->file[i].text);
    *t = (tx_ckpt_tokenizer){ .n_files = 0 };
}

/* ---- saving ---- */

tx_status tx__manifest_set_tokenizer(json_t *m, const tx_ckpt_tokenizer *t)
{
    json_t *config = json_object_get(m, "config");
    json_object_del(config, KEY); /* one that a conversion has taken over */
    if (!t) return TX_OK;
    json_t *files = json_object();
    bool bad = !files;
    for (int i = 0; i < t->n_files; i++) {
        char hex[33];
        const tx_str *text = &t->file[i].text;
        hash_of(text->data, text->len, hex);
        bad |= json_object_set_new(files, t->file[i].name,
                                   json_pack("{s:I, s:s}", "bytes", (json_int_t)text->len, "hash", hex));
    }
    json_t *all = json_pack("{s:s, s:I, s:s, s:O}", "type", t->type, "vocab_size", (json_int_t)t->vocab_size, "hash",
                            t->hash, "files", files);
    bad |= json_object_set_new(config, KEY, all);
    json_decref(files);
    return bad ? TX_FAIL(TX_ERR_NOMEM, "not enough memory for a checkpoint's manifest") : TX_OK;
}

tx_status tx_ckpt_tokenizer_write(const tx_ckpt_tokenizer *t, const char *folder)
{
    for (int i = 0; i < t->n_files; i++) {
        char path[TX__PATH_CAP];
        TX_TRY(tx_path_join(path, sizeof path, folder, t->file[i].name));
        TX_TRY(tx_file_publish(path, t->file[i].text.data, t->file[i].text.len));
    }
    return TX_OK;
}

/* ---- loading ---- */

/* Only the names of tokenizers' files become paths. */
static const char *known_name(const char *name)
{
    const char *known;
    for (int i = 0; (known = tx_tokenizer_file_name(i)) && strcmp(known, name); i++) continue;
    return known;
}

static bool take_hex(char to[33], const json_t *v)
{
    const char *hex = json_string_value(v);
    if (!hex || json_string_length(v) != 32 || strspn(hex, "0123456789abcdef") != 32) return false;
    memcpy(to, hex, 33);
    return true;
}

static bool take_fields(tx_ckpt_tokenizer *out, const json_t *saved)
{
    const char *type = json_string_value(json_object_get(saved, "type"));
    const json_t *files = json_object_get(saved, "files");
    if (!type || strlen(type) >= sizeof out->type || !tx__is_printable(type, sizeof out->type)) return false;
    memcpy(out->type, type, strlen(type) + 1);
    return tx__json_size(json_object_get(saved, "vocab_size"), &out->vocab_size) &&
           take_hex(out->hash, json_object_get(saved, "hash")) && json_is_object(files) &&
           json_object_size(files) <= TX_CKPT_MAX_FILES;
}

/* A file of the checkpoint's folder against what the manifest says; `read`: all of it, not its length alone.
 * @text NULL, or where its bytes go */
static tx_status check_file(const char *folder, const char *name, const json_t *saved, bool read, tx_str *text)
{
    char path[TX__PATH_CAP], want[33], hex[33];
    int64_t bytes;
    if (!tx__json_size(json_object_get(saved, "bytes"), &bytes) || !take_hex(want, json_object_get(saved, "hash")))
        return TX_FAIL(TX_ERR_FORMAT, "%s/%s: \"%s\" in config." KEY " is not what a manifest holds", folder,
                       TX__MANIFEST_FILE, name);
    TX_TRY(tx_path_join(path, sizeof path, folder, name));
    tx_map map;
    TX_TRY(tx_map_open(&map, path));
    tx_status st = TX_OK;
    if (map.size != (uint64_t)bytes)
        st = TX_FAIL(TX_ERR_FORMAT, "%s: %zu bytes long, the manifest says %" PRId64 ": cut off or changed", path,
                     map.size, bytes);
    if (!st && read) {
        hash_of(map.data, map.size, hex);
        if (strcmp(hex, want))
            st = TX_FAIL(TX_ERR_FORMAT, "%s: does not match its checksum: damaged, or another tokenizer's", path);
        else if (text)
            st = tx_str_append(text, map.data, map.size);
    }
    tx_map_close(&map);
    return st;
}

tx_status tx_checkpoint_tokenizer(const tx_checkpoint *c, bool with_files, tx_ckpt_tokenizer *out)
{
    const json_t *saved = json_object_get(tx_checkpoint_config(c), KEY);
    const char *name;
    json_t *file;
    *out = (tx_ckpt_tokenizer){ .n_files = 0 };
    if (!saved) return TX_OK;
    if (!take_fields(out, saved))
        return TX_FAIL(TX_ERR_FORMAT, "%s/%s: config." KEY " is not what a manifest holds", tx_checkpoint_path(c),
                       TX__MANIFEST_FILE);
    tx_status st = TX_OK;
    json_object_foreach(json_object_get(saved, "files"), name, file)
    {
        if (!known_name(name)) continue; /* of a later version's */
        tx_ckpt_file *f = &out->file[out->n_files++];
        f->name = known_name(name);
        if (with_files && (st = check_file(tx_checkpoint_path(c), f->name, file, true, &f->text))) break;
    }
    if (st) tx_ckpt_tokenizer_free(out);
    return st;
}

tx_status tx__tokenizer_verify(const tx_checkpoint *c, bool read, tx_ckpt_tell *tell, void *user, size_t *n_bad)
{
    const json_t *files = json_object_get(json_object_get(tx_checkpoint_config(c), KEY), "files");
    const char *name;
    json_t *file;
    json_object_foreach((json_t *)files, name, file)
    {
        char line[2048];
        if (!known_name(name) || !check_file(tx_checkpoint_path(c), name, file, read, NULL)) continue;
        ++*n_bad;
        snprintf(line, sizeof line, "  %s", tx_last_error());
        TX_TRY(tell(user, line));
    }
    return TX_OK;
}
