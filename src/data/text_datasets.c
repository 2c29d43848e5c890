/* text_datasets.c - datasets of the text that --train-data names, made when a run needs them.
 *
 *      corpus.jsonl  ->  corpus.jsonl.triax-<16 digits>_text_document.bin, .idx      a BERT's: _sentence
 *      chats.jsonl   ->  chats.jsonl.triax-<16 digits>_conversations.bin, .idx       --finetune-data
 *
 *  The digits are a hash of all that the dataset follows from: the files' paths, sizes and times, the tokenizer's too,
 *  its type, and the key; of conversations the chat template and what rows are like. A dataset of that name is of these
 * bytes, whoever made it, and appears whole or not at all. A rank that has to make it holds a lock; who comes later
 * waits for that, and finds it. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <omp.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "config/config.h"
#include "data/finetune_dataset.h"
#include "data/samples.h"
#include "triax/data.h"

enum { MAX_PATH = 4096, MAX_FILES = 1000 };

typedef struct text {
    const tx_config *cfg;
    const char *flag; /* "train-data" */
    const tx_list *names;
    bool talks; /* conversations */
    const char *file[MAX_FILES];
    char prefix[MAX_PATH];  /* of preprocess-data */
    char dataset[MAX_PATH]; /* what it writes, without .bin and .idx */
} text;

/* ---------------------------------------------------------------- which files */

/* Where scripts of 2020 had a corpus that they call by name; NULL: no such name. */
static const char *file_of_name(const char *name)
{
    if (!strcmp(name, "webtext")) return "data/webtext/data.json";
    return strcmp(name, "wikipedia") ? NULL : "data/wikipedia/wikidump_lines.json";
}

static tx_status no_file(const text *t, const char *name)
{
    const char *file = file_of_name(name);
    if (t->talks)
        return TX_FAIL(TX_ERR_NOTFOUND, "--%s %.200s: there is no such file; give JSON lines, nothing is downloaded",
                       t->flag, name);
    return TX_FAIL(
        TX_ERR_NOTFOUND,
        "--%s %.200s: there is no such file%s%s; give JSON lines with a \"%.60s\" each, as --%s CORPUS.jsonl, or "
        "a dataset of triax preprocess-data as --data-path PREFIX; nothing is downloaded",
        t->flag, name, file ? ", nor " : "", file ? file : "", t->cfg->text_key, t->flag);
}

static tx_status find_file(text *t, int i)
{
    const char *name = t->names->item[i], *file = t->talks ? NULL : file_of_name(name);
    t->file[i] = name;
    if (tx_path_exists(name) && !tx_path_is_dir(name)) return TX_OK;
    if (file && tx_path_exists(file)) {
        tx_info("--%s %s: %s, where scripts of 2020 have it", t->flag, name, file);
        t->file[i] = file;
        return TX_OK;
    }
    if (!tx_indexed_exists(name))
        return TX_FAIL(TX_ERR_ARG, "--%s %.200s: that is a dataset, not text: give it as --data-path", t->flag, name);
    return no_file(t, name);
}

/* ---------------------------------------------------------------- the dataset's name */

static void mix(uint64_t *hash, const void *bytes, size_t n)
{
    for (const unsigned char *p = bytes; n; n--) *hash = (*hash ^ *p++) * UINT64_C(1099511628211);
}

static void mix_text(uint64_t *hash, const char *s)
{
    mix(hash, s ? s : "", s ? strlen(s) + 1 : 1);
}

/* A file by its name, size and time of change; one that is missing is told by who reads it. */
static void mix_file(uint64_t *hash, const char *path)
{
    struct stat s;
    mix_text(hash, path);
    if (!path || stat(path, &s)) return;
    int64_t about[] = { s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec };
    mix(hash, about, sizeof about);
}

/* The files in the folder of `path`, or in the folder that it is, that say how a model is talked to. */
static void mix_beside(uint64_t *hash, const char *path)
{
    static const char *const name[] = { "tokenizer.json", "tokenizer_config.json", "chat_template.jinja" };
    const char *slash = path ? strrchr(path, '/') : NULL;
    char file[MAX_PATH];
    if (!path) return;
    bool folder = tx_path_is_dir(path);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        int n = folder ? snprintf(file, sizeof file, "%s/%s", path, name[i])
                       : snprintf(file, sizeof file, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name[i]);
        if (n > 0 && (size_t)n < sizeof file) mix_file(hash, file);
    }
}

static void mix_conversations(uint64_t *hash, const tx_config *c)
{
    const int64_t rows[] = { c->seq_length, c->finetune_packing, c->finetune_truncate, c->loss_on_all_tokens };
    mix(hash, rows, sizeof rows);
    mix_file(hash, c->chat_template);
    mix_beside(hash, c->tokenizer_model);
}

static tx_status name_dataset(text *t)
{
    const tx_config *c = t->cfg;
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (int i = 0; i < t->names->n; i++) mix_file(&hash, t->file[i]);
    mix_text(&hash, tx_tokenizer_type_word(c->tokenizer_type));
    mix_file(&hash, c->vocab_file);
    mix_file(&hash, c->merge_file);
    mix_file(&hash, c->tokenizer_model);
    mix(&hash, &c->vocab_size, sizeof c->vocab_size);
    if (t->talks)
        mix_conversations(&hash, c);
    else
        mix_text(&hash, c->text_key);
    int n = snprintf(t->prefix, sizeof t->prefix, "%s.triax-%016" PRIx64, t->file[0], hash);
    int all = t->talks ? snprintf(t->dataset, sizeof t->dataset, "%s_conversations", t->prefix)
                       : snprintf(t->dataset, sizeof t->dataset, "%s_%s_%s", t->prefix, c->text_key,
                                  tx_samples_of(c)->sentences ? "sentence" : "document");
    if (n < 0 || all < 0 || (size_t)all >= sizeof t->dataset)
        return TX_FAIL(TX_ERR_ARG, "--%s %.60s...: the path is too long", t->flag, t->file[0]);
    return TX_OK;
}

/* ---------------------------------------------------------------- making it */

static tx_status preprocess(const text *t)
{
    const tx_config *c = t->cfg;
    const char *argv[MAX_FILES + 24];
    char workers[24], vocab_size[24];
    tx_config *job = NULL;
    int n = 0;
    snprintf(workers, sizeof workers, "%lld", c->threads ? (long long)c->threads : (long long)omp_get_max_threads());
    snprintf(vocab_size, sizeof vocab_size, "%lld", (long long)c->vocab_size);
    argv[n++] = "--input";
    for (int i = 0; i < t->names->n; i++) argv[n++] = t->file[i];
    argv[n++] = tx_samples_of(c)->sentences ? "--split-sentences" : "--append-eod";
    const char *pairs[][2] = { { "--output-prefix", t->prefix },
                               { "--json-keys", c->text_key },
                               { "--workers", workers },
                               { "--tokenizer-type", tx_tokenizer_type_word(c->tokenizer_type) },
                               { "--vocab-file", c->vocab_file },
                               { "--merge-file", c->merge_file },
                               { "--tokenizer-model", c->tokenizer_model },
                               { "--vocab-size", c->vocab_size ? vocab_size : NULL } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][1]) argv[n++] = pairs[i][0], argv[n++] = pairs[i][1];
    tx_status st = tx_config_parse(&job, "preprocess-data", n, (char *const *)argv);
    if (!st) st = tx_preprocess_data(job);
    tx_config_free(job);
    return st ? tx_fail_prefix(st, "--%s with --text-key %.60s", t->flag, c->text_key) : TX_OK;
}

/* The lock's file, open and locked; somebody else may have made the dataset meanwhile. */
static tx_status lock(const text *t, int *fd, const char *path)
{
    *fd = TX_RETRY(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (*fd < 0)
        return TX_FAIL(TX_ERR_IO, "--%s: the dataset is to lie beside its text, but %s cannot be written: %s", t->flag,
                       path, strerror(errno));
    if (!TX_RETRY(flock(*fd, LOCK_EX | LOCK_NB))) return TX_OK;
    if (errno == EWOULDBLOCK) {
        tx_info("--%s %s: another rank makes a dataset of it; waiting", t->flag, t->file[0]);
        if (!TX_RETRY(flock(*fd, LOCK_EX))) return TX_OK;
    }
    tx_status st = TX_FAIL(TX_ERR_IO, "%s cannot be locked: %s", path, strerror(errno));
    close(*fd);
    return st;
}

static tx_status make(const text *t)
{
    char path[MAX_PATH + 8];
    int fd;
    snprintf(path, sizeof path, "%s.lock", t->prefix);
    TX_TRY(lock(t, &fd, path));
    tx_status st = TX_OK;
    bool found = !tx_indexed_exists(t->dataset);
    if (!found) st = t->talks ? tx_finetune_make(t->dataset, t->file, t->names->n, t->cfg) : preprocess(t);
    unlink(path); /* who waits has it open, and looks for the dataset next */
    close(fd);
    if (!st)
        tx_info("--%s %s: --data-path %s, which %s", t->flag, t->file[0], t->dataset,
                found ? "another rank made of it" : "is made of it now");
    return st;
}

/* One of the three flags, as a dataset's prefix into `into`. */
static tx_status take(text *t, const tx_config *cfg, const char *flag, const tx_list *names, tx_list *into)
{
    *t = (text){ .cfg = cfg, .flag = flag, .names = names, .talks = cfg->finetune_data.n > 0 };
    for (int i = 0; i < names->n; i++) TX_TRY(find_file(t, i));
    TX_TRY(name_dataset(t));
    if (tx_indexed_exists(t->dataset))
        TX_TRY(make(t));
    else
        tx_info("--%s %s: --data-path %s, which was made of it before", flag, t->file[0], t->dataset);
    return tx_config_set_item(into, t->dataset);
}

/* --finetune-epochs as --train-iters. */
static tx_status count_iterations(tx_config *cfg)
{
    int64_t n, batch = cfg->global_batch_size;
    if (!cfg->finetune_epochs) return TX_OK;
    TX_TRY(tx_finetune_rows(cfg->train_data_path.item[0], &n));
    if (__builtin_mul_overflow(n, cfg->finetune_epochs, &n) || n > INT64_MAX - batch)
        return TX_FAIL(TX_ERR_ARG, "--finetune-epochs %lld are more samples than can be counted",
                       (long long)cfg->finetune_epochs);
    cfg->train_iters = (n + batch - 1) / batch;
    tx_info("--finetune-epochs %lld: %lld samples, --train-iters %lld", (long long)cfg->finetune_epochs, (long long)n,
            (long long)cfg->train_iters);
    return tx_config_complete(cfg);
}

static tx_status take_conversations(text *t, tx_config *cfg)
{
    TX_TRY(take(t, cfg, "finetune-data", &cfg->finetune_data, &cfg->train_data_path));
    if (cfg->finetune_valid_data.n)
        TX_TRY(take(t, cfg, "finetune-valid-data", &cfg->finetune_valid_data, &cfg->valid_data_path));
    return count_iterations(cfg);
}

tx_status tx_train_data_prepare(tx_config *cfg)
{
    bool apart = cfg->valid_data.n > 0;
    text *t;
    if (!cfg->train_data.n && !cfg->finetune_data.n) return tx_train_data_exists(cfg);
    TX_TRY(tx_alloc(&t, 1, sizeof *t, "the names of a text's files"));
    if (cfg->finetune_data.n) {
        tx_status done = take_conversations(t, cfg);
        tx_free(t);
        return done;
    }
    tx_status st = take(t, cfg, "train-data", &cfg->train_data, apart ? &cfg->train_data_path : &cfg->data_path);
    if (!st && apart) st = take(t, cfg, "valid-data", &cfg->valid_data, &cfg->valid_data_path);
    if (!st && apart) st = take(t, cfg, "test-data", &cfg->test_data, &cfg->test_data_path);
    tx_free(t);
    return st;
}
