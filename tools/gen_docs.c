/* gen_docs.c - writes docs/options.md and docs/deepspeed-keys.md from their tables; `make docs` calls it with the
 * paths. */
#include <stdio.h>

#include "base/file.h"
#include "config/options.h"

static tx_status publish(const char *path, tx_status (*markdown)(tx_str *))
{
    tx_str text = { 0 };
    tx_status st = markdown(&text);
    if (!st) st = tx_file_publish(path, text.data, text.len);
    if (st) fprintf(stderr, "gen_docs: %s\n", tx_last_error());
    tx_str_free(&text);
    return st;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: gen_docs docs/options.md docs/deepspeed-keys.md\n");
        return 2;
    }
    return publish(argv[1], tx__options_markdown) || publish(argv[2], tx__deepspeed_markdown);
}
