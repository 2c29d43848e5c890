/* checkpoint_place.c - recognising what a folder holds, from file names alone. Reads no tensor and changes nothing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/json_text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "checkpoint/replay_file.h"

void tx__iter_name(char buf[TX__ITER_CAP], int64_t iteration)
{
    snprintf(buf, TX__ITER_CAP, "iter_%07" PRId64, iteration);
}

tx_status tx_checkpoint_iter_path(char *buf, size_t cap, const char *dir, int64_t iteration)
{
    char name[TX__ITER_CAP];
    tx__iter_name(name, iteration);
    return tx_path_join(buf, cap, dir, name);
}

bool tx__iter_parse(const char *name, int64_t *iteration)
{
    char back[TX__ITER_CAP];
    if (strncmp(name, "iter_", 5)) return false;
    long long i = strtoll(name + 5, NULL, 10);
    tx__iter_name(back, i);
    if (i < 0 || strcmp(name, back)) return false;
    *iteration = i;
    return true;
}

static bool has_file(const char *dir, const char *name)
{
    char path[TX__PATH_CAP];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path && tx_path_exists(path);
}

bool tx__has_manifest(const char *dir, const char *name, char path[TX__PATH_CAP])
{
    int n = snprintf(path, TX__PATH_CAP, "%s/%s", dir, name);
    return n > 0 && n < TX__PATH_CAP && has_file(path, TX__MANIFEST_FILE);
}

/* Without `latest`: a crash came after the first checkpoint was complete and before it was named. It is whole. */
static tx_status take_newest(const char *dir, tx__place *out)
{
    tx_names names = { 0 };
    TX_TRY(tx_dir_list(dir, &names));
    for (size_t i = 0; i < names.n; i++) {
        char path[TX__PATH_CAP];
        int64_t iteration;
        if (!tx__iter_parse(names.name[i], &iteration) || iteration <= out->iteration) continue;
        if (!tx__has_manifest(dir, names.name[i], path)) continue;
        memcpy(out->path, path, sizeof path);
        out->iteration = iteration;
        snprintf(out->note, sizeof out->note,
                 "%.300s has no file `" TX__LATEST "`; taking its newest checkpoint, iteration %" PRId64, dir,
                 iteration);
    }
    tx_names_free(&names);
    return TX_OK;
}

static tx_status follow_latest(const char *dir, const char *file, const char *text, size_t n, tx__place *out)
{
    char name[64] = "", old[64 + sizeof TX__OLD_PREFIX];
    if (n >= 11 && !memcmp(text, "global_step", 11))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: a DeepSpeed checkpoint; reading Megatron/DeepSpeed checkpoints is not built yet", dir);
    if (n > 1 && n < sizeof name && text[n - 1] == '\n') memcpy(name, text, n - 1);
    if (!tx__iter_parse(name, &out->iteration))
        return TX_FAIL(TX_ERR_FORMAT, "%s: must hold one line like iter_0000010, the name of a folder beside it", file);
    if (tx__has_manifest(dir, name, out->path)) return TX_OK;
    snprintf(old, sizeof old, TX__OLD_PREFIX "%s", name);
    if (tx__has_manifest(dir, old, out->path)) {
        snprintf(out->note, sizeof out->note,
                 "%.300s: replacing %s was interrupted; taking the one that it had set aside", dir, name);
        return TX_OK;
    }
    return TX_FAIL(TX_ERR_FORMAT,
                   "%s names %s, where there is no " TX__MANIFEST_FILE
                   "; write another folder's name into it, or give that folder",
                   file, name);
}

tx_status tx__place_find(const char *dir, tx__place *out)
{
    char latest[TX__PATH_CAP];
    *out = (tx__place){ .iteration = -1 };
    TX_TRY(tx_path_join(latest, sizeof latest, dir, TX__LATEST));
    if (tx_path_exists(latest)) {
        tx_str text = { 0 };
        TX_TRY(tx_file_read(latest, 4096, &text));
        tx_status st = follow_latest(dir, latest, text.data ? text.data : "", text.len, out);
        tx_str_free(&text);
        return st;
    }
    if (has_file(dir, TX__MANIFEST_FILE)) {
        snprintf(out->path, sizeof out->path, "%s", dir); /* fits: the longer path did */
        return TX_OK;
    }
    return take_newest(dir, out);
}

/* Files of other programs, in the order in which they decide. */
static tx_status find_foreign(const char *dir, const tx_names *names, tx_ckpt_kind *out)
{
    bool megatron = has_file(dir, "latest_checkpointed_iteration.txt");
    for (size_t i = 0; i < names->n; i++) megatron = megatron || !strncmp(names->name[i], "mp_rank_", 8);
    if (megatron)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: a Megatron checkpoint; reading Megatron/DeepSpeed checkpoints is not built yet", dir);
    if (has_file(dir, TX_HF_WEIGHTS) || has_file(dir, TX_HF_INDEX)) {
        if (!has_file(dir, TX_HF_CONFIG))
            return TX_FAIL(TX_ERR_FORMAT, "%s: holds a Hugging Face model without its " TX_HF_CONFIG "; put it there",
                           dir);
        *out = TX_CKPT_HUGGINGFACE;
    } else if (has_file(dir, "pytorch_model.bin") || has_file(dir, "pytorch_model.bin.index.json")) {
        return TX_FAIL(
            TX_ERR_UNSUPPORTED,
            "%s: reading pytorch_model.bin is not built yet; save the model as " TX_HF_WEIGHTS " (safetensors)", dir);
    }
    return TX_OK;
}

/* What a run leaves in the folder before its first checkpoint. */
static bool is_record(const char *name)
{
    return !strcmp(name, "metrics.jsonl") || !strncmp(name, TX_REPLAY_PREFIX, sizeof TX_REPLAY_PREFIX - 1);
}

static tx_ckpt_kind describe_nothing(const char *dir, const tx_names *names, char *detail, size_t cap)
{
    const char *other = NULL;
    size_t n_other = 0, n_tmp = 0;
    for (size_t i = 0; i < names->n; i++) {
        bool tmp = !strncmp(names->name[i], TX__TMP_PREFIX, sizeof TX__TMP_PREFIX - 1);
        n_tmp += tmp;
        if (tmp || is_record(names->name[i])) continue;
        other = names->name[i];
        n_other++;
    }
    if (names->n == 0)
        snprintf(detail, cap, "%s is empty", dir);
    else if (!other && n_tmp)
        snprintf(detail, cap, "%s holds no checkpoint, only %zu that were never finished", dir, n_tmp);
    else if (!other)
        snprintf(detail, cap, "%s holds no checkpoint, only records of a run", dir);
    else
        snprintf(detail, cap, "%s holds no checkpoint but other things (%zu, such as %.100s)", dir, n_other,
                 tx__is_printable(other, 100) ? other : "one with an odd name");
    return other ? TX_CKPT_UNKNOWN : TX_CKPT_NONE;
}

static tx_status probe_folder(const char *dir, const tx_names *names, tx_ckpt_kind *out, char *detail, size_t cap)
{
    tx__place place;
    TX_TRY(tx__place_find(dir, &place));
    if (place.path[0]) {
        *out = TX_CKPT_NATIVE;
        snprintf(detail, cap, "%s", place.note[0] ? place.note : place.path);
        return TX_OK;
    }
    TX_TRY(find_foreign(dir, names, out));
    if (*out == TX_CKPT_HUGGINGFACE)
        snprintf(detail, cap, "%s holds a Hugging Face model", dir);
    else
        *out = describe_nothing(dir, names, detail, cap);
    return TX_OK;
}

tx_status tx_checkpoint_probe(const char *dir, tx_ckpt_kind *out, char *detail, size_t cap)
{
    struct stat sb;
    *out = TX_CKPT_NONE;
    if (stat(dir, &sb)) {
        if (errno != ENOENT) return TX_FAIL(TX_ERR_IO, "%s: cannot examine: %s", dir, strerror(errno));
        snprintf(detail, cap, "%s does not exist", dir);
        return TX_OK;
    }
    if (!S_ISDIR(sb.st_mode))
        return TX_FAIL(TX_ERR_ARG, "%s: is a file; give the folder that holds the checkpoint", dir);
    tx_names names = { 0 };
    TX_TRY(tx_dir_list(dir, &names));
    tx_status st = probe_folder(dir, &names, out, detail, cap);
    tx_names_free(&names);
    return st;
}
