/* machine_docs.c - docs/formats/machine.md from the tables. */
#include <math.h>
#include <string.h>

#include "comm/comm.h"
#include "predict/machine_rows.h"

/* clang-format off */
static const char intro[] =
    "# Machine files\n"
    "\n"
    "<!-- Made by `make docs` from src/predict/machine.def; edit that. -->\n"
    "\n"
    "What a machine can do, for `triax plan --machine`: one JSON object, of at most 16 MiB. The files in `machines/` are\n"
    "part of the program and go by their names:\n";

static const char after_names[] =
    ".\n"
    "They are also installed, in `share/triax/machines`, to be copied and changed. Any other file goes by its path. The\n"
    "code is `src/predict/machine_read.c`.\n"
    "\n"
    "A dot means an object within an object: `memory.gib` is `gib` in the object `memory`. Beside the numbers there are\n"
    "`name`, which is needed, and `sources`, an array of texts on where the numbers are from, for people. Unknown and\n"
    "missing keys, what is no number and what is out of bounds are refused by name.\n"
    "\n"
    "A rank has one device: a GPU, one of the two dies or tiles of a module, or its share of the cores. GB are 10^9 bytes,\n"
    "GiB 2^30. Numbers marked * have no data sheet: `tools/fit_machines` finds those of the files that come with triax,\n"
    "from published runs.\n";

static const char measured[] =
    "\n"
    "## What was measured\n"
    "\n"
    "`measured` may have two arrays, `products` and `ops`, of objects. `triax doctor --machine-file` writes them. Where\n"
    "there are entries of a type, they count in place of the formulas over the numbers above. All keys of an entry are\n"
    "needed. Its `dtype` is one of ";

static const char example[] =
    "\n"
    "## Example\n"
    "\n"
    "What a file needs, and a product and two ops that were measured:\n"
    "\n"
    "    {\n"
    "        \"name\": \"workstation\",\n"
    "        \"sources\": [\"the vendor's data sheet\", \"a product that was timed\"],\n"
    "        \"memory\": { \"gib\": 24, \"gb_per_s\": 1008 },\n"
    "        \"ranks_per_node\": 2,\n"
    "        \"matrix\": {\n"
    "            \"fp32\": { \"peak_tflops\": 82.6 },\n"
    "            \"bf16\": { \"peak_tflops\": 165.2 },\n"
    "            \"fp16\": { \"peak_tflops\": 165.2 },\n"
    "            \"units\": 128,\n"
    "            \"align\": 8\n"
    "        },\n"
    "        \"node\": { \"pair_gb_per_s\": 25, \"all_gb_per_s\": 25 },\n"
    "        \"network\": { \"node_gb_per_s\": 1.25 },\n"
    "        \"measured\": {\n"
    "            \"products\": [\n"
    "              { \"dtype\": \"bf16\", \"m\": 4096, \"n\": 4096, \"k\": 4096, \"tflops\": 151, \"ranks\": 1 }\n"
    "            ],\n"
    "            \"ops\": [\n"
    "              { \"op\": \"layernorm_fwd\", \"dtype\": \"bf16\", \"size\": 4194304, \"gb_per_s\": 820, \"ranks\": 1 },\n"
    "              { \"op\": \"attention_fwd\", \"dtype\": \"bf16\", \"size\": 1024, \"head\": 64, \"tflops\": 70, \"ranks\": 1 }\n"
    "            ]\n"
    "        }\n"
    "    }\n";
/* clang-format on */

/* | key | allowed | where it is left out | meaning | */
static tx_status put_number_row(tx_str *out, const tx__machine_row *row)
{
    TX_TRY(tx_str_printf(out, "| `%s`%s | %s%g to %g | ", row->path, row->fitted ? " *" : "",
                         row->whole ? "whole, " : "", row->lo, row->hi));
    if (!isnan(row->otherwise)) TX_TRY(tx_str_printf(out, "%g", row->otherwise));
    return tx_str_printf(out, "%s | %s |\n", isnan(row->otherwise) ? "needed" : "", row->meaning);
}

static tx_status put_entry_rows(tx_str *out, const char *before, const tx__machine_row *row)
{
    TX_TRY(tx_str_printf(out, "\n%s\n\n| key | allowed | meaning |\n|---|---|---|\n", before));
    for (; row->path; row++)
        TX_TRY(tx_str_printf(out, "| `%s` | %s%g to %g | %s |\n", row->path, row->whole ? "whole, " : "", row->lo,
                             row->hi, row->meaning));
    return TX_OK;
}

static tx_status put_word(tx_str *out, int i, const char *word)
{
    return tx_str_printf(out, "%s`%s`", i ? ", " : "", word);
}

tx_status tx__machine_markdown(tx_str *out)
{
    TX_TRY(tx_str_puts(out, intro));
    for (int i = 0; tx_machine_names[i]; i++) TX_TRY(put_word(out, i, tx_machine_names[i]));
    TX_TRY(tx_str_puts(out, after_names));
    TX_TRY(tx_str_puts(out, "\n| key | allowed | if it is left out | meaning |\n|---|---|---|---|\n"));
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++) TX_TRY(put_number_row(out, row));
    TX_TRY(tx_str_puts(out, measured));
    for (int t = 0; t < TX_N_DTYPES; t++) TX_TRY(put_word(out, t, tx_dtype_name((tx_dtype)t)));
    TX_TRY(tx_str_puts(out, ".\n"));
    TX_TRY(put_entry_rows(out, "A product, [m, k] times [k, n], on all threads of a rank:", tx__product_rows));
    TX_TRY(put_entry_rows(out, "An op, whose name is `op`:", tx__op_rows));
    TX_TRY(tx_str_puts(out, "\nOps are "));
    for (int i = 0; i < TX__N_TIMED_OPS; i++) TX_TRY(put_word(out, i, tx__timed_ops[i].op));
    TX_TRY(tx_str_puts(out, ", and the calls on a group of ranks "));
    for (int i = 0; i < TX_N_COMM_OPS; i++) TX_TRY(put_word(out, i, tx_comm_op_names[i]));
    TX_TRY(tx_str_puts(out, ".\n"));
    return tx_str_puts(out, example);
}
