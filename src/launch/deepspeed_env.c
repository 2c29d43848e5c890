/* deepspeed_env.c - variables for the ranks. */
#include "launch/deepspeed_env.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

enum { MAX_BYTES = 1 << 20 };

static bool is_name(const char *text, size_t n)
{
    if (!n || isdigit((unsigned char)*text)) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_') return false;
    return true;
}

tx_status tx__deepspeed_env_parse(tx_words *out, const char *name, const char *text, size_t n)
{
    int line = 0;
    for (size_t at = 0; at < n;) {
        const char *start = text + at, *end = memchr(start, '\n', n - at);
        size_t length = end ? (size_t)(end - start) : n - at;
        at += length + 1;
        line++;
        while (length && strchr(" \t\r", start[length - 1])) length--;
        while (length && strchr(" \t", *start)) start++, length--;
        if (!length || *start == '#') continue;
        const char *equals = memchr(start, '=', length);
        if (!equals || !is_name(start, (size_t)(equals - start)) || memchr(start, 0, length))
            return TX_FAIL(TX_ERR_FORMAT, "%s:%d: \"%.*s\" is not NAME=VALUE", name, line,
                           (int)(length > 80 ? 80 : length), start);
        TX_TRY(tx__words_add_n(out, start, length));
    }
    return TX_OK;
}

/* A name that is there already gets the new value. */
static tx_status put(tx_words *out, const char *line)
{
    size_t n = strcspn(line, "=") + 1;
    for (int i = 0; i < out->n; i++) {
        if (strncmp(out->word[i], line, n)) continue;
        tx_free(out->word[i]);
        out->word[i] = NULL;
        return tx_memdup0(&out->word[i], line, strlen(line), "a command line");
    }
    return tx__words_add(out, line);
}

static tx_status read_file(tx_words *out, const char *folder, const char *name)
{
    char path[4096];
    tx_str text = { 0 };
    tx_words lines = { 0 };
    bool there = *name == '/' ? snprintf(path, sizeof path, "%s", name) < (int)sizeof path
                              : !tx_path_join(path, sizeof path, folder, name);
    if (!there || !tx_path_exists(path) || tx_path_is_dir(path)) return TX_OK;
    tx_status st = tx_file_read(path, MAX_BYTES, &text);
    if (!st) st = tx__deepspeed_env_parse(&lines, path, text.data ? text.data : "", text.len);
    for (int i = 0; !st && i < lines.n; i++) st = put(out, lines.word[i]);
    tx__words_free(&lines);
    tx_str_free(&text);
    return st;
}

tx_status tx__deepspeed_env_read(tx_words *out)
{
    const char *named = getenv("DS_ENV_FILE"), *home = getenv("HOME");
    if (named && *named && tx_path_is_dir(named)) return read_file(out, named, ".deepspeed_env");
    const char *const names[] = { named && *named ? named : ".deepspeed_env", ".deepscale_env" }, *const folders[] = {
        home, "."
    };
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++)
        for (size_t i = 0; folders[f] && i < sizeof names / sizeof *names; i++)
            TX_TRY(read_file(out, folders[f], names[i]));
    return TX_OK;
}

/* As they begin, or whole where they end in "=". Open MPI hands on its own by itself. */
static bool is_handed_on(const char *variable)
{
    static const char *const beginnings[] = {
        "OMP_",       "KMP_",    "GOMP_",   "MKL_",
        "DNNL_",      "ONEDNN_", /* processors */
        "CUDA_",      "HSA_",    "HIP_",    "ROCR_",
        "ROCM_",      "AMD_",    "GPU_", /* GPUs */
        "NCCL_",      "RCCL_",   "MIOPEN_", "HIPBLASLT_",
        "ROCBLAS_",   "CUBLAS",  "CUDNN_",  "UCX_",
        "FI_",        "PSM2_",   "MV2_",    "MPICH_",
        "MPIR_CVAR_", /* networks */
        "TX_",        "TRIAX_",  "PATH=",   "LD_LIBRARY_PATH=",
    };
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (!strncmp(variable, beginnings[i], strlen(beginnings[i]))) return true;
    return false;
}

tx_status tx__environment_to_hand_on(tx_words *out)
{
    for (char **e = environ; *e; e++)
        if (is_handed_on(*e)) TX_TRY(tx__words_add_n(out, *e, strcspn(*e, "=")));
    return TX_OK;
}
