/* deepspeed_env.c - variables for the ranks. */
#include "launch/deepspeed_env.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static bool find_file(char *path, size_t cap)
{
    const char *named = getenv("DS_ENV_FILE"), *home = getenv("HOME"),
               *name = named && *named ? named : ".deepspeed_env";
    if (named && tx_path_is_dir(named))
        return !tx_path_join(path, cap, named, ".deepspeed_env") && tx_path_exists(path);
    if (home && *name != '/' && !tx_path_join(path, cap, home, name) && tx_path_exists(path)) return true;
    return !tx_path_join(path, cap, *name == '/' ? "" : ".", name) && tx_path_exists(path);
}

tx_status tx__deepspeed_env_read(tx_words *out)
{
    char path[4096];
    tx_str text = { 0 };
    if (!find_file(path, sizeof path)) return TX_OK;
    tx_status st = tx_file_read(path, MAX_BYTES, &text);
    if (!st) st = tx__deepspeed_env_parse(out, path, text.data ? text.data : "", text.len);
    tx_str_free(&text);
    return st;
}

tx_status tx__environment_to_hand_on(tx_words *out)
{
    static const char *const beginnings[] = { "OMP_",  "KMP_", "GOMP_", "MKL_", "DNNL_", "ONEDNN_",
                                              "NCCL_", "UCX_", "MV2_",  "TX_",  "TRIAX_" };
    for (char **e = environ; *e; e++) {
        size_t n = strcspn(*e, "=");
        for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
            if (!strncmp(*e, beginnings[i], strlen(beginnings[i]))) {
                TX_TRY(tx__words_add_n(out, *e, n));
                break;
            }
    }
    return TX_OK;
}
