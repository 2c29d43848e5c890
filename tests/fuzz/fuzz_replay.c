/* fuzz_replay.c - a replay file. What is taken keeps its promises. */
#include "fuzz.h"

#include "checkpoint/replay_file.h"
#include "config/config.h"

static void check_text(const json_t *v)
{
    FUZZ_CHECK(json_is_string(v));
    fuzz_check_sentence(json_string_value(v), false);
}

/* The flags are some of pretrain-gpt, or are refused with printable lines. */
static void check_flags(const json_t *flags)
{
    enum { MAX = 64 };
    char *argv[MAX];
    size_t n = json_array_size(flags);
    tx_config *cfg;
    for (size_t i = 0; i < n; i++) check_text(json_array_get(flags, i));
    if (n > MAX) return;
    for (size_t i = 0; i < n; i++) argv[i] = (char *)json_string_value(json_array_get(flags, i));
    if (tx_config_parse(&cfg, "pretrain-gpt", (int)n, argv))
        fuzz_check_sentence(tx_last_error(), true);
    else
        tx_config_free(cfg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_replay_file r;
    fuzz_log_on();
    if (!fuzz_ok(tx_replay_file_read(&r, fuzz_file("replay.json", data, size)))) return 0;
    check_text(r.found);
    check_text(r.documents);
    check_flags(r.flags);
    FUZZ_CHECK(r.iteration >= 1 && r.skipped_before >= 0 && r.skipped_before < r.iteration);
    FUZZ_CHECK(r.consumed_train_samples >= 0 && r.first_micro >= 0 && r.eod >= -1 && r.eod < r.vocab_size);
    FUZZ_CHECK(r.n_rows >= 1 && r.row >= 2);
    for (int64_t i = 0; i < r.n_rows * r.row; i++) FUZZ_CHECK(r.id[i] >= 0 && r.id[i] < r.vocab_size);
    tx_replay_file_free(&r);
    return 0;
}
