/* deepspeed_lengths.h - numbers of tokens that follow from the iteration, beside those of DeepSpeed's own schedulers,
 * which tests/data/golden has as a list of changes. */
#ifndef TX_TESTS_CONFIG_DEEPSPEED_LENGTHS_H
#define TX_TESTS_CONFIG_DEEPSPEED_LENGTHS_H

#include "config/config.h"

/* flags with --deepspeed_config of a file that holds `json`, for the command plan */
static tx_status read_json(tx_config **out, const char *flags, const char *json)
{
    char all[4096];
    write_text(in_scratch("ds.json"), json);
    snprintf(all, sizeof all, "%s --deepspeed_config %s", flags, in_scratch("ds.json"));
    return tx_config_parse_string(out, "plan", all);
}

/* The same of a file's whole object, which is released. */
static tx_config *config_of_json(const char *flags, json_t *whole)
{
    tx_config *cfg;
    char *text = json_dumps(whole, 0);
    ASSERT_OK(read_json(&cfg, flags, text));
    free(text);
    json_decref(whole);
    return cfg;
}

/* In 10,000 iterations: the case's lengths, stretches in which they stay, and the tokens that are consumed by then.
 * @tokens_of a sample of that length */
static void assert_lengths(const tx_config *cfg, const json_t *with, size_t number,
                           int64_t (*length_at)(const tx_config *, int64_t iteration, int64_t *last),
                           int64_t (*tokens_of)(int64_t length))
{
    const json_t *changes = json_object_get(with, "lengths");
    int64_t want = 0, last, until = 0, same = 0;
    size_t next = 0;
    double tokens = 0;
    for (int64_t step = 1; step <= 10000; step++) {
        const json_t *change = json_array_get(changes, next);
        if (json_integer_value(json_array_get(change, 0)) == step) {
            want = json_integer_value(json_array_get(change, 1));
            next++;
        }
        int64_t length = length_at(cfg, step, &last);
        if (length != want)
            fail_msg("case %zu, step %lld: %lld, not %lld", number, (long long)step, (long long)length,
                     (long long)want);
        if (step <= until) assert_int_equal(length, same);
        assert_true(last >= step);
        until = last;
        same = length;
        tokens += (double)(tokens_of(length) * cfg->global_batch_size);
        if (step % 2500 == 0) ASSERT_NEAR(tx_config_tokens(cfg, step), tokens, 0, "tokens");
    }
    assert_int_equal(next, json_array_size(changes));
}

#endif
