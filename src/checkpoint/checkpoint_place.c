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

#define TX__DCP_INDEX ".metadata" /* of torch.distributed.checkpoint */

void tx__iter_name(char buf[TX__ITER_CAP], int64_t iteration)
{
    snprintf(buf, TX__ITER_CAP, "iter_%07" PRId64, iteration);
}

void tx__step_name(char buf[TX__ITER_CAP], tx_ckpt_kind kind, int64_t iteration)
{
    if (kind == TX_CKPT_DEEPSPEED)
        snprintf(buf, TX__ITER_CAP, "global_step%" PRId64, iteration);
    else
        tx__iter_name(buf, iteration);
}

tx_status tx_checkpoint_path_of(char *buf, size_t cap, const char *dir, tx_ckpt_kind kind, int64_t iteration,
                                const char *tag)
{
    char name[TX__ITER_CAP];
    tx__step_name(name, kind, iteration);
    return tx_path_join(buf, cap, dir, tag ? tag : name);
}

static bool begins(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

bool tx__is_tag(const char *name)
{
    static const char *const taken[] = { ".", "iter_", "latest", "global_step", "mp_rank_", "zero" };
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.=";
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (begins(name, taken[i])) return false;
    return n > 0 && n < TX__ITER_CAP && strspn(name, letters) == n;
}

tx_status tx_checkpoint_check_tag(const char *tag)
{
    if (tx__is_tag(tag)) return TX_OK;
    return TX_FAIL(TX_ERR_ARG,
                   "a checkpoint cannot have the tag \"%.100s\": at most %d letters, digits, _ - . =, and not "
                   "beginning like names that checkpoints have by themselves (iter_, global_step, mp_rank_, latest, "
                   "zero, a dot)",
                   tag, TX__ITER_CAP - 1);
}

bool tx__step_parse(tx_ckpt_kind kind, const char *name, int64_t *iteration)
{
    char back[TX__ITER_CAP];
    const char *prefix = kind == TX_CKPT_DEEPSPEED ? "global_step" : "iter_";
    if (!begins(name, prefix)) return false;
    long long i = strtoll(name + strlen(prefix), NULL, 10);
    tx__step_name(back, kind, i);
    if (i < 0 || strcmp(name, back)) return false;
    *iteration = i;
    return true;
}

bool tx__iter_parse(const char *name, int64_t *iteration)
{
    return tx__step_parse(TX_CKPT_NATIVE, name, iteration);
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

bool tx__is_step(tx_ckpt_kind kind, const char *dir, const char *name, char path[TX__PATH_CAP])
{
    static const char *const deepspeed[] = { "mp_rank_00_model_states.pt",
                                             "zero_pp_rank_0_mp_rank_00_model_states.pt" };
    static const char *const megatron[] = { "mp_rank_00", "mp_rank_00_000" };
    static const char *const torch_dist[] = { TX__DCP_INDEX, TX__DCP_INDEX };
    const char *const *file = kind == TX_CKPT_DEEPSPEED    ? deepspeed
                              : kind == TX_CKPT_TORCH_DIST ? torch_dist
                                                           : megatron;
    if (kind == TX_CKPT_NATIVE) return tx__has_manifest(dir, name, path);
    int n = snprintf(path, TX__PATH_CAP, "%s/%s", dir, name);
    return n > 0 && n < TX__PATH_CAP && (has_file(path, file[0]) || has_file(path, file[1]));
}

tx_status tx__tracker_write(const char *dir, int64_t iteration)
{
    char path[TX__PATH_CAP], text[32];
    int n = snprintf(text, sizeof text, "%" PRId64, iteration);
    TX_TRY(tx_path_join(path, sizeof path, dir, TX__TRACKER));
    return tx_file_publish(path, text, (size_t)n);
}

bool tx_checkpoint_is_any_in(const char *dir)
{
    tx_names names = { 0 };
    bool any = false;
    if (!tx_path_is_dir(dir) || tx_dir_list(dir, &names)) return false;
    for (size_t i = 0; i < names.n && !any; i++) {
        char path[TX__PATH_CAP];
        int64_t iteration;
        any = tx__iter_parse(names.name[i], &iteration) && tx__has_manifest(dir, names.name[i], path);
    }
    tx_names_free(&names);
    return any;
}

/* The newest iteration whose folder has a manifest; -1: there is none. */
static tx_status newest_iteration(const char *dir, int64_t *newest)
{
    tx_names names = { 0 };
    TX_TRY(tx_dir_list(dir, &names));
    *newest = -1;
    for (size_t i = 0; i < names.n; i++) {
        char path[TX__PATH_CAP];
        int64_t iteration;
        if (!tx__iter_parse(names.name[i], &iteration) || iteration <= *newest) continue;
        if (tx__has_manifest(dir, names.name[i], path)) *newest = iteration;
    }
    tx_names_free(&names);
    return TX_OK;
}

/* Without `latest`: a crash came after the first checkpoint was complete and before it was named. It is whole. */
static tx_status take_newest(const char *dir, tx__found_checkpoint *out)
{
    TX_TRY(newest_iteration(dir, &out->iteration));
    if (out->iteration < 0) return TX_OK;
    snprintf(out->note, sizeof out->note,
             "%.300s has no file `" TX__LATEST "`; taking its newest checkpoint, iteration %" PRId64, dir,
             out->iteration);
    return tx_checkpoint_path_of(out->path, sizeof out->path, dir, TX_CKPT_NATIVE, out->iteration, NULL);
}

/* One flipped bit makes 3 of a 2. So does whoever wants to go back: it is done, and said. */
static tx_status note_newer(const char *dir, tx__found_checkpoint *out)
{
    int64_t newest;
    TX_TRY(newest_iteration(dir, &newest));
    if (newest > out->iteration)
        snprintf(out->note, sizeof out->note,
                 "%.300s/" TX__LATEST " names iteration %" PRId64 ", which is taken, though iteration %" PRId64
                 " is there, too: a save was cut short before it was named, or the file was changed",
                 dir, out->iteration, newest);
    return TX_OK;
}

/* Published scripts write DeepSpeed's name of the iteration into `latest` before they go on. */
static bool is_native_of(const char *dir, const char *name, char native[TX__ITER_CAP])
{
    char path[TX__PATH_CAP];
    int64_t iteration;
    if (!tx__step_parse(TX_CKPT_DEEPSPEED, name, &iteration) || has_file(dir, name)) return false;
    tx__step_name(native, TX_CKPT_NATIVE, iteration);
    return tx__has_manifest(dir, native, path);
}

static tx_status follow_latest(const char *dir, const char *file, const char *text, size_t n, tx__found_checkpoint *out)
{
    char name[64] = "", native[TX__ITER_CAP], old[64 + sizeof TX__OLD_PREFIX];
    if (n > 1 && n < sizeof name && text[n - 1] == '\n') memcpy(name, text, n - 1);
    if (is_native_of(dir, name, native)) {
        snprintf(out->note, sizeof out->note, "%.300s names %s, which is not there: taking %s, the same iteration",
                 file, name, native);
        snprintf(name, sizeof name, "%s", native);
    }
    bool tagged = !tx__iter_parse(name, &out->iteration);
    if (tagged) out->iteration = -1;
    if (tagged && !tx__is_tag(name))
        return TX_FAIL(TX_ERR_FORMAT, "%s: must hold one line like iter_0000010, the name of a folder beside it", file);
    if (tx__has_manifest(dir, name, out->path)) return tagged ? TX_OK : note_newer(dir, out);
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

tx_status tx__checkpoint_find(const char *dir, tx__found_checkpoint *out)
{
    char latest[TX__PATH_CAP];
    *out = (tx__found_checkpoint){ .iteration = -1 };
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

/* Whether `latest` holds something that native checkpoints are not called. */
static tx_status is_others_latest(const char *dir, bool *out)
{
    char latest[TX__PATH_CAP], native[TX__ITER_CAP];
    tx_str text = { 0 };
    *out = false;
    if (tx_path_join(latest, sizeof latest, dir, TX__LATEST) || !tx_path_exists(latest)) return TX_OK;
    tx_status st = tx_file_read(latest, 4096, &text);
    while (text.len && strchr(" \r\n", text.data[text.len - 1])) text.data[--text.len] = 0;
    if (!st && text.len && !is_native_of(dir, text.data, native))
        *out = begins(text.data, "global_step") || tx__is_step(TX_CKPT_DEEPSPEED, dir, text.data, latest);
    tx_str_free(&text);
    return st == TX_ERR_NOMEM ? st : TX_OK; /* what cannot be read holds no such thing */
}

/* Folders that upstream's programs write, by the names in them: DeepSpeed's, the universal form of it, Megatron's two.
 * A step's own folder or the one above. */
static tx_status find_upstream(const char *dir, const tx_names *names, tx_ckpt_kind *out)
{
    bool states = false, ranks = false, steps = false, indexed = has_file(dir, TX__DCP_INDEX);
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->name[i];
        char path[TX__PATH_CAP];
        int64_t iteration;
        states = states || strstr(name, "_states.pt");
        ranks = ranks || begins(name, "mp_rank_");
        steps = steps || (begins(name, "global_step") && !strstr(name, "_universal")); /* those lie beside any kind */
        bool iter = tx__iter_parse(name, &iteration) || !strcmp(name, "release");
        ranks = ranks || (iter && tx__is_step(TX_CKPT_MEGATRON, dir, name, path));
        indexed = indexed || (iter && tx__is_step(TX_CKPT_TORCH_DIST, dir, name, path));
    }
    bool deepspeed = states || steps;
    if (!deepspeed) TX_TRY(is_others_latest(dir, &deepspeed));
    *out = TX_CKPT_NONE;
    if (has_file(dir, "zero/optimizer_state.pt") || (has_file(dir, "zero") && states))
        *out = TX_CKPT_UNIVERSAL;
    else if (has_file(dir, "latest_universal") && !has_file(dir, TX__LATEST))
        *out = TX_CKPT_UNIVERSAL;
    else if (deepspeed)
        *out = TX_CKPT_DEEPSPEED;
    else if (indexed && !has_file(dir, TX__LATEST))
        *out = TX_CKPT_TORCH_DIST;
    else if (ranks || (has_file(dir, TX__TRACKER) && !has_file(dir, TX__LATEST) && !tx_checkpoint_is_any_in(dir)))
        *out = TX_CKPT_MEGATRON; /* a native folder has that file, too */
    return TX_OK;
}

/* The format that has a sign there. */
static tx_ckpt_kind find_sign(const char *dir)
{
    static const tx_ckpt_kind kinds[] = {
#define KIND(constant, word, kind, ...) kind,
        TX_FORMATS(KIND)
#undef KIND
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *sign = tx_checkpoint_format_sign((enum tx_checkpoint_format)kinds[i]);
        if (sign && has_file(dir, sign)) return kinds[i];
    }
    return TX_CKPT_NONE;
}

static tx_status find_huggingface(const char *dir, tx_ckpt_kind *out)
{
    static const char *const weights[] = { TX_HF_WEIGHTS, TX_HF_INDEX, TX_HF_BIN, TX_HF_BIN_INDEX };
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        if (!has_file(dir, weights[i])) continue;
        if (!has_file(dir, TX_HF_CONFIG))
            return TX_FAIL(TX_ERR_FORMAT, "%s: holds a Hugging Face model without its " TX_HF_CONFIG "; put it there",
                           dir);
        *out = TX_CKPT_HUGGINGFACE;
    }
    return TX_OK;
}

/* What a run leaves in the folder before its first checkpoint. */
static bool is_record(const char *name)
{
    return !strcmp(name, "metrics.jsonl") || !strcmp(name, TX_PRODUCTS_FILE) ||
           !strncmp(name, TX__TRACKER ".tmp-", sizeof TX__TRACKER ".tmp-" - 1) ||
           !strncmp(name, TX_REPLAY_PREFIX, sizeof TX_REPLAY_PREFIX - 1);
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
    tx__found_checkpoint place = { 0 };
    TX_TRY(find_upstream(dir, names, out));
    if (*out == TX_CKPT_NONE) TX_TRY(tx__checkpoint_find(dir, &place));
    if (place.path[0]) {
        *out = TX_CKPT_NATIVE;
        snprintf(detail, cap, "%s", place.note[0] ? place.note : place.path);
        return TX_OK;
    }
    if (*out == TX_CKPT_NONE) *out = find_sign(dir);
    if (*out == TX_CKPT_NONE) TX_TRY(find_huggingface(dir, out));
    if (*out == TX_CKPT_NONE)
        *out = describe_nothing(dir, names, detail, cap);
    else
        snprintf(detail, cap, "%s holds %s", dir, tx_checkpoint_format_what((enum tx_checkpoint_format) * out));
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
