/* inspect.c - the job inspect: recognises what a path names by its files, and tells and checks what they hold. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/report.h"
#include "base/alloc.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/huggingface.h"
#include "convert/meant_folder.h"
#include "convert/source.h"
#include "data/indexed_meant.h"
#include "data/saved_dataset.h"
#include "model/hf_format.h"
#include "triax/jobs.h"

/* ---- tensors ---- */

typedef struct tensors {
    int64_t n, numbers;   /* all of them */
    int64_t checked, bad; /* numbers read, and those that are not finite */
} tensors;

static bool is_float(tx_st_dtype t)
{
    return t == TX_ST_F16 || t == TX_ST_BF16 || t == TX_ST_F32 || t == TX_ST_F64;
}

/* Counts the numbers of one tensor that are not finite; integers and 8-bit floats are left out. */
static tx_status count_bad(const tx_st_tensor *t, int64_t *checked, int64_t *bad)
{
    size_t n = t->bytes / tx_st_dtype_size(t->dtype);
    float *x;
    if (!is_float(t->dtype)) return TX_OK;
    TX_TRY(tx_alloc(&x, n, sizeof *x, "a tensor"));
    tx_status st = tx_st_read_f32(t, x, false);
    for (size_t i = 0; !st && i < n; i++) *bad += !isfinite(x[i]);
    *checked += (int64_t)n;
    tx_free(x);
    tx_map_forget(&(tx_map){ t->data, t->bytes }, 0, t->bytes);
    return st;
}

/* One tensor: its line, unless `quiet`, and with `verify` its numbers. */
static tx_status take_tensor(tx__report *r, tensors *sum, const tx_st_tensor *t, bool quiet, bool verify)
{
    char shape[128];
    int64_t bad = 0;
    sum->n++;
    sum->numbers += (int64_t)(t->bytes / tx_st_dtype_size(t->dtype));
    if (verify) TX_TRY(count_bad(t, &sum->checked, &bad));
    sum->bad += bad;
    if (!quiet) TX_TRY(tx__report_line(r, "  %-64s %s", t->name, tx_st_describe(t, shape, sizeof shape)));
    return bad ? tx__report_line(r, "  %s: %lld numbers are not finite", t->name, (long long)bad) : TX_OK;
}

/* The verdict of --verify. */
static tx_status finish_tensors(tx__report *r, const tensors *sum, const char *path, bool verify)
{
    if (!verify) return TX_OK;
    if (sum->bad)
        return TX_FAIL(TX_ERR_NUMERIC, "%s: %lld of %lld numbers are not finite", path, (long long)sum->bad,
                       (long long)sum->checked);
    return tx__report_line(r, "verified: %lld of %lld numbers were read, all of which are finite",
                           (long long)sum->checked, (long long)sum->numbers);
}

/* The bytes of .pt files against their checksums, before the numbers. */
static tx_status tell_verified(tx__report *r, uint64_t bytes, size_t n_files)
{
    if (!n_files) return TX_OK;
    return tx__report_line(r, "verified: %llu bytes in %zu .pt files agree with their checksums",
                           (unsigned long long)bytes, n_files);
}

/* ---- native checkpoints ---- */

static tx_status show_members(tx__report *r, const char *title, const json_t *object)
{
    const char *key;
    json_t *value;
    TX_TRY(tx__report_line(r, "%s:", title));
    json_object_foreach((json_t *)object, key, value)
    {
        if (json_is_null(value)) continue; /* unset */
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        if (!text) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for \"%s\"", key);
        tx_status st = tx__report_line(r, "  %-40s %s", key, text);
        free(text);
        TX_TRY(st);
    }
    return TX_OK;
}

/* Whole tensors, in global coordinates, as the manifest has them. */
static tx_status show_saved(tx__report *r, const json_t *saved)
{
    const char *name;
    json_t *tensor;
    int64_t params = 0, optimizer = 0;
    tx_str line = { 0 };
    tx_status st = TX_OK;
    TX_TRY(tx__report_line(r, "tensors: %zu", json_object_size(saved)));
    json_object_foreach((json_t *)saved, name, tensor)
    {
        const json_t *shape = json_object_get(tensor, "shape");
        int64_t numel = 1;
        line.len = 0;
        TX_GOTO(tx_str_printf(&line, "  %-64s %s[", name, json_string_value(json_object_get(tensor, "dtype"))));
        for (size_t i = 0; i < json_array_size(shape); i++) {
            json_int_t dim = json_integer_value(json_array_get(shape, i));
            numel *= dim; /* the manifest's reader has bounded it */
            TX_GOTO(tx_str_printf(&line, "%s%lld", i ? "," : "", (long long)dim));
        }
        *(strncmp(name, "model.", 6) == 0 ? &params : &optimizer) += numel;
        TX_GOTO(tx__report_line(r, "%s]", line.data));
    }
    TX_GOTO(tx__report_line(r, "total parameters: %lld", (long long)params));
    if (optimizer)
        st = tx__report_line(r, "optimizer state: %lld numbers", (long long)optimizer);
    else
        st = tx__report_line(r, "optimizer state: none (saved with --no-save-optim)");
out:
    tx_str_free(&line);
    return st;
}

/* Reads every number of the shards, which the checkpoint's checksums have vouched for already. */
static tx_status verify_shards(tx__report *r, const char *dir, const json_t *shards)
{
    const char *file;
    json_t *shard;
    tensors sum = { 0 };
    json_object_foreach((json_t *)shards, file, shard)
    {
        char path[4096];
        tx_safetensors *f;
        TX_TRY(tx_path_join(path, sizeof path, dir, file));
        TX_TRY(tx_safetensors_open(&f, path));
        tx_status st = TX_OK;
        for (size_t i = 0; !st && i < tx_safetensors_count(f); i++)
            st = take_tensor(r, &sum, tx_safetensors_at(f, i), true, true);
        tx_safetensors_close(f);
        TX_TRY(st);
    }
    return finish_tensors(r, &sum, dir, true);
}

/* A tx_ckpt_tell. */
static tx_status tell(void *user, const char *line)
{
    return tx__report_line(user, "%s", line);
}

/* The shards of a checkpoint: all bytes against their checksums, then all numbers. */
static tx_status verify_checkpoint(tx__report *r, const tx_checkpoint *c, int64_t bytes)
{
    const json_t *shards = json_object_get(tx_checkpoint_manifest(c), "shards");
    TX_TRY(tx_checkpoint_verify(c, tell, r));
    TX_TRY(tx__report_line(r, "verified: all %lld bytes of %zu shards agree with their checksums", (long long)bytes,
                           json_object_size(shards)));
    return verify_shards(r, tx_checkpoint_path(c), shards);
}

static tx_status inspect_checkpoint(tx__report *r, const tx_config *cfg, const char *dir)
{
    tx_checkpoint *c;
    tx_status st;
    TX_TRY(tx_checkpoint_open_manifest(&c, dir));
    const json_t *manifest = tx_checkpoint_manifest(c), *shards = json_object_get(manifest, "shards");
    const char *file;
    json_t *shard;
    int64_t bytes = 0;
    json_object_foreach((json_t *)shards, file, shard) bytes += json_integer_value(json_object_get(shard, "bytes"));
    TX_GOTO(tx__report_line(r, "%s: a checkpoint of triax", tx_checkpoint_path(c)));
    TX_GOTO(show_members(r, "state", json_object_get(manifest, "state")));
    TX_GOTO(show_members(r, "config", tx_checkpoint_config(c)));
    TX_GOTO(show_saved(r, json_object_get(manifest, "tensors")));
    TX_GOTO(tx__report_line(r, "shards: %zu, %lld bytes", json_object_size(shards), (long long)bytes));
    if (cfg->verify) {
        st = verify_checkpoint(r, c, bytes);
    } else {
        TX_GOTO(tx_checkpoint_verify_sizes(c, tell, r));
        st =
            tx__report_line(r, "every file is there in its length, and the manifest agrees with its checksum; --verify "
                               "reads the shards");
    }
out:
    tx_checkpoint_close(c);
    return st;
}

/* ---- Hugging Face folders and single files ---- */

static tx_status verify_huggingface(tx__report *r, const tx_huggingface *hf)
{
    const tx_pt *first;
    uint64_t bytes = 0;
    size_t n_files = 0, n = tx_huggingface_unchecked(hf, &first);
    if (n) tx_warn("%s %s", tx_pt_path(first), tx_pt_unchecked(first));
    TX_TRY(tx_huggingface_verify(hf, &bytes, &n_files));
    return tell_verified(r, bytes, n_files);
}

static bool has_tensor(const void *hf, const char *name)
{
    return tx_huggingface_find(hf, name);
}

/* Which family it is of, and the options that its config.json means; or why none can be had. */
static tx_status show_family(tx__report *r, const tx_huggingface *hf)
{
    const json_t *config = tx_huggingface_config(hf);
    const tx_hf_format *f;
    const char *model_type = json_string_value(json_object_get(config, "model_type"));
    json_t *options = NULL;
    tx_status st = tx_hf_format_find(&f, model_type, has_tensor, hf);
    if (!st) st = tx_hf_options(f, &options, config);
    if (st == TX_ERR_NOMEM) return st;
    if (st) return tx__report_line(r, "family: none that can be loaded: %s", tx_last_error());
    st = tx__report_line(r, "family: %s, a %s with the options that follow", f->model_type, f->model);
    if (!st) st = show_members(r, "options", options);
    json_decref(options);
    return st;
}

static tx_status inspect_huggingface(tx__report *r, const tx_config *cfg, const char *dir)
{
    tx_huggingface *hf;
    tensors sum = { 0 };
    tx_status st;
    TX_TRY(tx_huggingface_open(&hf, dir));
    TX_GOTO(tx__report_line(r, "%s: a Hugging Face folder", dir));
    TX_GOTO(show_members(r, "config", tx_huggingface_config(hf)));
    TX_GOTO(show_family(r, hf));
    TX_GOTO(tx__report_line(r, "tensors: %zu", tx_huggingface_count(hf)));
    if (cfg->verify) TX_GOTO(verify_huggingface(r, hf));
    for (size_t i = 0; i < tx_huggingface_count(hf); i++)
        TX_GOTO(take_tensor(r, &sum, tx_huggingface_at(hf, i), false, cfg->verify));
    TX_GOTO(tx__report_line(r, "total parameters: %lld", (long long)sum.numbers));
    st = finish_tensors(r, &sum, dir, cfg->verify);
out:
    tx_huggingface_close(hf);
    return st;
}

static tx_status inspect_safetensors(tx__report *r, const tx_config *cfg, const char *path)
{
    tx_safetensors *f;
    tensors sum = { 0 };
    tx_status st;
    TX_TRY(tx_safetensors_open(&f, path));
    TX_GOTO(tx__report_line(r, "%s: a safetensors file", path));
    TX_GOTO(tx__report_line(r, "tensors: %zu", tx_safetensors_count(f)));
    for (size_t i = 0; i < tx_safetensors_count(f); i++)
        TX_GOTO(take_tensor(r, &sum, tx_safetensors_at(f, i), false, cfg->verify));
    TX_GOTO(tx__report_line(r, "total numbers: %lld", (long long)sum.numbers));
    st = finish_tensors(r, &sum, path, cfg->verify);
out:
    tx_safetensors_close(f);
    return st;
}

/* ---- Megatron's and DeepSpeed's folders ---- */

static tx_status show_parameters(tx__report *r, tx_source *src, const tx_model *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->params.n; i++) {
        const tx_param *p = &m->params.param[i];
        char shape[64];
        if (p->n_dims == 2)
            snprintf(shape, sizeof shape, "[%lld,%lld]", (long long)p->whole[0], (long long)p->whole[1]);
        else
            snprintf(shape, sizeof shape, "[%lld]", (long long)p->whole[0]);
        n += tx_param_whole_numel(p);
        TX_TRY(tx__report_line(r, "  %-64s %s", p->name, shape));
    }
    TX_TRY(tx__report_line(r, "total parameters: %lld", (long long)n));
    char state[128] = "none";
    size_t at = 0;
    for (int i = 1; i < src->n_parts && at < sizeof state; i++)
        at += (size_t)snprintf(state + at, sizeof state - at, "%s%s", i > 1 ? ", " : "", src->part[i]);
    return tx__report_line(r, "optimizer state: %s", state);
}

/* All numbers of all parts, as a run that loads them sees them. */
static tx_status verify_source(tx__report *r, tx_source *src, const tx_model *m)
{
    tensors sum = { 0 };
    uint64_t bytes;
    size_t n_files;
    float *x;
    TX_TRY(tx_source_verify(src, &bytes, &n_files));
    TX_TRY(tell_verified(r, bytes, n_files));
    TX_TRY(tx_alloc(&x, (size_t)tx_params_largest_whole(&m->params), sizeof *x, "a tensor"));
    tx_status st = TX_OK;
    for (int part = 0; part < src->n_parts && !st; part++)
        for (int i = 0; i < m->params.n && !st; i++) {
            const tx_param *p = &m->params.param[i];
            int64_t bad = 0, n = tx_param_whole_numel(p);
            st = tx_source_read_whole(src, m, part, p, x);
            for (int64_t k = 0; k < n && !st; k++) bad += !isfinite(x[k]);
            sum.numbers += n;
            sum.checked += n;
            sum.bad += bad;
            if (bad && !st)
                st = tx__report_line(r, "  %s of %s: %lld numbers are not finite", src->part[part], p->name,
                                     (long long)bad);
        }
    tx_free(x);
    return st ? st : finish_tensors(r, &sum, src->path, true);
}

/* The model that its options make, all parameters of which are there in their shapes. */
static tx_status show_model(tx__report *r, tx_source *src, bool verify)
{
    tx_config *cfg = NULL;
    tx_model *m = NULL;
    json_t *all = NULL, *options = NULL;
    tx_status st;
    TX_GOTO(tx_config_parse_string(&cfg, "convert", "--to native in out"));
    TX_GOTO(tx_config_to_json(cfg, &all));
    TX_GOTO(src->type->options(src, all, &options));
    TX_GOTO(show_members(r, "config", options));
    TX_GOTO(tx_config_from_json(cfg, options, TX_KEPT_SHAPE | TX_KEPT_HINT));
    if (!cfg->seq_length) cfg->seq_length = cfg->max_position_embeddings;
    TX_GOTO(tx_config_complete(cfg));
    TX_GOTO(tx_model_type_of(cfg)->create(&m, cfg, src->vocab_size, NULL));
    TX_GOTO(tx_source_check(src, m));
    TX_GOTO(show_parameters(r, src, m));
    if (verify) st = verify_source(r, src, m);
out:
    if (m) m->type->destroy(m);
    json_decref(options);
    json_decref(all);
    tx_config_free(cfg);
    return st;
}

static tx_status inspect_upstream(tx__report *r, const tx_config *cfg, const char *dir)
{
    tx_source src;
    tx_status st;
    TX_TRY(tx_source_open(&src, dir, NULL, &tx_comm_self));
    TX_GOTO(tx__report_line(r, "%s: a %s", src.path, src.type->title));
    TX_GOTO(tx__report_line(r, "iteration %lld, %lld samples consumed, %lld updates of the optimizer",
                            (long long)src.state.iteration, (long long)src.state.consumed_train_samples,
                            (long long)src.state.optim_step));
    st = show_model(r, &src, cfg->verify);
out:
    tx_source_close(&src);
    return st;
}

/* ---- recognising ---- */

static bool ends_in(const char *path, const char *ending)
{
    size_t n = strlen(path), k = strlen(ending);
    return n > k && !strcmp(path + n - k, ending);
}

/* PREFIX, PREFIX.idx and PREFIX.bin all name the dataset. */
static tx_status dataset_prefix(const char *path, char *prefix, size_t cap, bool *found)
{
    char idx[4096];
    size_t n = strlen(path) - (ends_in(path, ".idx") || ends_in(path, ".bin") ? 4 : 0);
    if (n + sizeof ".idx" > cap || cap > sizeof idx) return TX_FAIL(TX_ERR_ARG, "%.60s...: the path is too long", path);
    memcpy(prefix, path, n);
    prefix[n] = 0;
    memcpy(idx, path, n);
    memcpy(idx + n, ".idx", 5);
    *found = tx_path_exists(idx);
    memcpy(idx + n, ".bin", 5);
    *found = *found || tx_path_exists(idx);
    return TX_OK;
}

/* st, with what may have been meant. */
static tx_status name_meant(tx_status st, const char *path)
{
    char why[2048];
    tx_str meant = { 0 };
    snprintf(why, sizeof why, "%s", tx_last_error());
    TX_TRY(tx_indexed_meant(&meant, path));
    st = TX_FAIL(st, "%s%s%s%s", why, meant.len ? "; did you mean " : "", meant.len ? meant.data : "",
                 meant.len ? "?" : "");
    tx_str_free(&meant);
    return st;
}

tx_status tx_inspect(const tx_config *cfg, tx_line_fn *line, void *user)
{
    char prefix[4096], detail[512], path[4096];
    TX_TRY(tx__meant_step(path, sizeof path, cfg->inspect_folder ? cfg->inspect_folder : cfg->inspect_input));
    bool dataset, folder = tx_path_is_dir(path);
    tx_ckpt_kind kind = TX_CKPT_NONE;
    tx__report r = { .line = line, .user = user };
    TX_TRY(dataset_prefix(path, prefix, sizeof prefix, &dataset));
    tx_status st = TX_OK;
    tx_names saved = { 0 };
    if (folder && !dataset) TX_TRY(tx__saved_dataset_files(path, &saved));
    if (folder && !dataset && !saved.n) TX_TRY(tx_checkpoint_probe(path, &kind, detail, sizeof detail));
    if (dataset)
        st = tx__inspect_dataset(&r, cfg, prefix);
    else if (saved.n)
        st = tx__inspect_saved_dataset(&r, path, &saved);
    else if (kind == TX_CKPT_NATIVE)
        st = inspect_checkpoint(&r, cfg, path);
    else if (kind == TX_CKPT_HUGGINGFACE)
        st = inspect_huggingface(&r, cfg, path);
    else if (kind != TX_CKPT_NONE && kind != TX_CKPT_UNKNOWN)
        st = inspect_upstream(&r, cfg, path);
    else if (folder)
        st =
            name_meant(TX_FAIL(TX_ERR_NOTFOUND, "%s, nor is there a dataset %s.bin, %s.idx", detail, path, path), path);
    else if (tx_path_exists(path) && ends_in(path, ".safetensors"))
        st = inspect_safetensors(&r, cfg, path);
    else if (tx_path_exists(path) && (ends_in(path, ".pt") || ends_in(path, ".pth")))
        st = tx__inspect_pt(&r, cfg, path);
    else if (tx_path_exists(path) && (ends_in(path, ".arrow") || ends_in(path, ".feather")))
        st = tx__inspect_arrow(&r, path);
    else
        st = name_meant(
            TX_FAIL(TX_ERR_NOTFOUND,
                    "%s: is no dataset (%s.bin, %s.idx), no folder with a checkpoint and no .safetensors or .pt file",
                    path, path, path),
            path);
    tx_names_free(&saved);
    tx_str_free(&r.text);
    return st;
}
