/* gen_docs.c - writes docs/options.md, docs/not-built.md, docs/deepspeed-keys.md and docs/formats/machine.md from their
 * tables; `make docs` calls it with the folder. */
#include <stdio.h>

#include "base/file.h"
#include "config/option_table.h"
#include "predict/machine_rows.h"

static tx_status publish(const char *folder, const char *name, tx_status (*markdown)(tx_str *))
{
    tx_str path = { 0 }, text = { 0 };
    tx_status st = tx_str_printf(&path, "%s/%s", folder, name);
    if (!st) st = markdown(&text);
    if (!st) st = tx_file_publish(path.data, text.data, text.len);
    if (st) fprintf(stderr, "gen_docs: %s\n", tx_last_error());
    tx_str_free(&path);
    tx_str_free(&text);
    return st;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: gen_docs docs\n");
        return 2;
    }
    return publish(argv[1], "options.md", tx__options_markdown) ||
           publish(argv[1], "not-built.md", tx__not_built_markdown) ||
           publish(argv[1], "deepspeed-keys.md", tx__deepspeed_markdown) ||
           publish(argv[1], "formats/machine.md", tx__machine_markdown);
}
