/* processor_name.c - what this machine calls itself. */
#include "api/processor_name.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

void tx__proc_value(const char *path, const char *key, char *out, size_t cap)
{
    tx_str text = { 0 };
    snprintf(out, cap, "unknown");
    if (tx_file_read(path, 16 << 20, &text)) return;
    const char *at = text.data ? strstr(text.data, key) : NULL;
    if (at && (at = strchr(at, ':'))) {
        at += 1 + strspn(at + 1, " \t");
        snprintf(out, cap, "%.*s", (int)strcspn(at, "\n"), at);
    }
    tx_str_free(&text);
}

void tx__processor_name(char *out, size_t cap)
{
    tx__proc_value("/proc/cpuinfo", "model name", out, cap);
}
