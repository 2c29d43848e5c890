/* gen_docs.c - writes docs/options.md from the option table; `make docs` calls it with the file's path. */
#include <stdio.h>

#include "base/file.h"
#include "config/options.h"

int main(int argc, char **argv)
{
    tx_str text = { 0 };
    if (argc != 2) {
        fprintf(stderr, "usage: gen_docs docs/options.md\n");
        return 2;
    }
    tx_status st = tx__options_markdown(&text);
    if (!st) st = tx_file_publish(argv[1], text.data, text.len);
    if (st) fprintf(stderr, "gen_docs: %s\n", tx_last_error());
    tx_str_free(&text);
    return st != TX_OK;
}
