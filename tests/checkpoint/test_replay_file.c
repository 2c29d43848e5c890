/* labels: unit fault */
/* Replay files: out and in again, what is refused, allocations that fail. */
#include "support.h"

#include "checkpoint/replay_file.h"

static tx_replay_file example(void)
{
    static int32_t id[] = { 1, 2, 3, 4, 5, 6, 7, 8, 0 };
    tx_replay_file r = { .flags = json_pack("[s, s]", "--lr=1e-3", "--data-path"),
                         .iteration = 9,
                         .consumed_train_samples = 48,
                         .skipped_before = 2,
                         .vocab_size = 9,
                         .eod = 8,
                         .found = json_string("NaN in \"x\""),
                         .documents = json_string("document 3 of d\xc3\xa9"),
                         .first_micro = 1,
                         .n_rows = 3,
                         .row = 3,
                         .id = id };
    return r;
}

static void example_free(tx_replay_file *r)
{
    r->id = NULL; /* static */
    tx_replay_file_free(r);
}

static void round_trip(void **state)
{
    (void)state;
    tx_replay_file a = example(), b;
    ASSERT_OK(tx_replay_file_write(&a, in_scratch("r.json")));
    ASSERT_OK(tx_replay_file_read(&b, in_scratch("r.json")));
    assert_true(json_equal(a.flags, b.flags) && json_equal(a.found, b.found) && json_equal(a.documents, b.documents));
    assert_true(b.iteration == 9 && b.consumed_train_samples == 48 && b.skipped_before == 2 && b.vocab_size == 9);
    assert_true(b.eod == 8 && b.first_micro == 1 && b.n_rows == 3 && b.row == 3);
    assert_memory_equal(a.id, b.id, 9 * sizeof *a.id);
    assert_n_files(scratch_dir, 1);
    tx_replay_file_free(&b);
    example_free(&a);
}

/* The file with one text replaced by another. */
static void refused(const char *from, const char *to, const char *say)
{
    tx_replay_file a = example(), b;
    ASSERT_OK(tx_replay_file_write(&a, in_scratch("r.json")));
    example_free(&a);
    tx_str text = read_file(in_scratch("r.json")), changed = { 0 };
    char *at = strstr(text.data, from);
    if (!at) fail_msg("no %s in %s", from, text.data);
    ASSERT_OK(tx_str_printf(&changed, "%.*s%s%s", (int)(at - text.data), text.data, to, at + strlen(from)));
    write_text(in_scratch("r.json"), changed.data);
    ASSERT_FAILS(tx_replay_file_read(&b, in_scratch("r.json")), TX_ERR_FORMAT, say);
    assert_null(b.id);
    tx_str_free(&text);
    tx_str_free(&changed);
}

static void what_it_cannot_be(void **state)
{
    (void)state;
    refused("replay 1", "replay 2", "\"format\"");
    refused("\"iteration\": 9", "\"iteration\": 0", "\"iteration\"");
    refused("\"iteration\": 9", "\"iteration\": 9.0", "\"iteration\"");
    refused("\"consumed_train_samples\": 48", "\"consumed_train_samples\": -1", "\"consumed_train_samples\"");
    refused("\"skipped_before\": 2", "\"skipped_before\": 9", "\"skipped_before\"");
    refused("\"vocab_size\": 9", "\"vocab_size\": 8", "\"eod\"");
    refused("\"vocab_size\": 9", "\"vocab_size\": 4294967296", "\"vocab_size\"");
    refused("\"eod\": 8", "\"eod\": -2", "\"eod\"");
    refused("NaN in", "NaN\\nin", "\"found\"");
    refused("\"document 3 of d\xc3\xa9\"", "7", "\"documents\"");
    refused("\"--lr=1e-3\"", "\"\\u001b[2J\"", "\"flags\"");
    refused("[\"--lr=1e-3\", \"--data-path\"]", "{}", "\"flags\"");
    refused("\"first_micro_batch\": 1", "\"first_micro_batch\": -1", "\"first_micro_batch\"");
    refused("[1,2,3]", "[1,2]", "\"ids\"");
    refused("[1,2,3]", "[1,2,9]", "\"ids\"");
    refused("[1,2,3]", "[1,2,-1]", "\"ids\"");
    refused("[1,2,3]", "3", "\"ids\"");
    refused("\"pretrain-gpt\"", "\"evaluate\"", "\"command\"");
    refused("\"pretrain-gpt\"", "7", "\"command\"");
    refused("{", "[", "not valid JSON");
}

/* A BERT's rows hold labels and counts, which its model checks. */
static void it_is_of_a_command(void **state)
{
    (void)state;
    tx_replay_file a = example(), b;
    a.command = "pretrain-bert";
    a.id[1] = -1;
    a.id[2] = 700;
    ASSERT_OK(tx_replay_file_write(&a, in_scratch("r.json")));
    ASSERT_OK(tx_replay_file_read(&b, in_scratch("r.json")));
    assert_string_equal(b.command, "pretrain-bert");
    assert_true(b.id[1] == -1 && b.id[2] == 700);
    tx_replay_file_free(&b);
    a.id[1] = 2;
    a.id[2] = 3;
    a.command = NULL;
    ASSERT_OK(tx_replay_file_write(&a, in_scratch("r.json")));
    tx_str text = read_file(in_scratch("r.json"));
    char *line = strstr(text.data, "  \"command\""), *end = strchr(line, '\n');
    memmove(line, end + 1, strlen(end + 1) + 1); /* a file of before */
    write_text(in_scratch("r.json"), text.data);
    ASSERT_OK(tx_replay_file_read(&b, in_scratch("r.json")));
    assert_string_equal(b.command, "pretrain-gpt");
    tx_replay_file_free(&b);
    tx_str_free(&text);
    example_free(&a);
}

static void allocations_may_fail(void **state)
{
    (void)state;
    tx_replay_file a = example(), b;
    tx_status st = TX_ERR_NOMEM;
    for (int64_t n = 0; st; n++) {
        allocation_fails_at(n);
        st = tx_replay_file_write(&a, in_scratch("r.json"));
        allocations_succeed();
        assert_true(n < 100);
    }
    st = TX_ERR_NOMEM;
    for (int64_t n = 0; st; n++) {
        allocation_fails_at(n);
        st = tx_replay_file_read(&b, in_scratch("r.json"));
        allocations_succeed();
        assert_true(n < 100);
    }
    tx_replay_file_free(&b);
    example_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(round_trip),
        SCRATCH_TEST(what_it_cannot_be),
        SCRATCH_TEST(it_is_of_a_command),
        SCRATCH_TEST(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
