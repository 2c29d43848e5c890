/* labels: unit */
/* Fill-in-the-middle: what a permuted sample holds, how often there is one, and that it is a function of its number. */
#include "data/fim.h"
#include "data/train_data.h"
#include "support.h"

enum { EOD = 511, PREFIX = 512, MIDDLE, SUFFIX, PAD, FILE_END, N = 96 };

static tx_tokenizer *open_tokenizer(void)
{
    tx_tokenizer *tok;
    tx_str vocab = read_file(data_path("tiny/tiny-vocab.json"));
    char path[512];
    *strrchr(vocab.data, '}') = 0;
    tx_str all = { 0 };
    ASSERT_OK(tx_str_printf(&all,
                            "%s, \"<fim_prefix>\": 512, \"<fim_middle>\": 513, \"<fim_suffix>\": 514, "
                            "\"<fim_pad>\": 515, \"<file>\": 516}",
                            vocab.data));
    snprintf(path, sizeof path, "%s", in_scratch("vocab.json"));
    write_text(path, all.data);
    ASSERT_OK(tx_tokenizer_open_gpt2(&tok, path, data_path("tiny/tiny-merges.txt")));
    tx_str_free(&all);
    tx_str_free(&vocab);
    return tok;
}

static tx_config *config(const char *flags)
{
    tx_config *c;
    char all[2048];
    snprintf(all, sizeof all,
             "--num-layers 1 --hidden-size 8 --num-attention-heads 1 --max-position-embeddings 64 --micro-batch-size 2 "
             "--seq-length 64 --lr 1 --train-iters 10 --vocab-file v --merge-file m --data-path %s --split 8,1,1 "
             "--fim-data %s",
             data_path("dataset/tiny_text_document"), flags);
    ASSERT_OK(tx_config_parse_string(&c, "pretrain-gpt", all));
    return c;
}

static tx_fim open_fim(const tx_tokenizer *tok, const char *flags)
{
    tx_fim f;
    tx_config *c = config(flags);
    ASSERT_OK(tx_fim_init(&f, c, tok));
    tx_config_free(c);
    return f;
}

/* Text, then ends of documents up to N ids. */
static void fill(int32_t *ids, const tx_tokenizer *tok, const char *text)
{
    tx_ids got = { 0 };
    ASSERT_OK(tx_tokenizer_encode(tok, text, strlen(text), &got));
    assert_true(got.n < N / 2);
    for (size_t i = 0; i < N; i++) ids[i] = i < got.n ? got.id[i] : EOD;
    tx_ids_free(&got);
}

static const int32_t *decode_to(tx_bytes *out, const tx_tokenizer *tok, const int32_t *from, int32_t until)
{
    const int32_t *end = from;
    while (*end != until) end++;
    ASSERT_OK(tx_tokenizer_decode(tok, from, (size_t)(end - from), out));
    return end + 1;
}

/* The pieces of the first document, as a text again; whether the suffix came first. */
static bool read_back(tx_bytes *whole, size_t cut[2], const tx_tokenizer *tok, const int32_t *ids)
{
    tx_bytes prefix = { 0 }, suffix = { 0 }, middle = { 0 };
    bool spm = ids[1] == SUFFIX;
    assert_int_equal(ids[0], PREFIX);
    const int32_t *at = spm ? ids + 2 : decode_to(&prefix, tok, ids + 1, SUFFIX);
    at = decode_to(&suffix, tok, at, MIDDLE);
    decode_to(&middle, tok, at, EOD);
    tx_str text = { 0 };
    ASSERT_OK(tx_str_append(&text, prefix.data ? prefix.data : "", prefix.n));
    ASSERT_OK(tx_str_append(&text, middle.data ? middle.data : "", middle.n));
    if (cut) cut[0] = text.len - (spm ? 0 : middle.n), cut[1] = text.len;
    ASSERT_OK(tx_str_append(&text, suffix.data ? suffix.data : "", suffix.n));
    *whole = (tx_bytes){ text.data, text.len, text.cap };
    tx_bytes_free(&prefix);
    tx_bytes_free(&suffix);
    tx_bytes_free(&middle);
    return spm;
}

static const char *const text = "The cat sat: \xC3\xA4 \xE4\xB8\xAD on the mat.";

/* No byte is lost, cuts are between characters, and every place comes. */
static void pieces_are_the_document(void **state)
{
    (void)state;
    tx_tokenizer *tok = open_tokenizer();
    tx_fim f = open_fim(tok, "--fim-rate 1");
    int n_spm = 0, seen[64] = { 0 };
    for (int64_t i = 0; i < 2000; i++) {
        int32_t ids[N];
        tx_bytes whole;
        size_t cut[2];
        fill(ids, tok, text);
        ASSERT_OK(tx_fim_apply(&f, 0, i, ids, N));
        bool spm = read_back(&whole, cut, tok, ids);
        n_spm += spm;
        assert_int_equal(whole.n, strlen(text));
        assert_memory_equal(whole.data, text, whole.n);
        if (!spm)
            for (int k = 0; k < 2; k++) {
                assert_true(((unsigned char)text[cut[k]] & 0xC0) != 0x80);
                seen[cut[k]]++;
            }
        tx_bytes_free(&whole);
        /* then comes an empty document, whose tokens are there, and padding */
        int at = 0;
        while (ids[at] != EOD) at++;
        assert_int_equal(ids[at + 1], PREFIX);
        for (at += 4; at < N; at++) assert_int_equal(ids[at], PAD);
    }
    assert_in_range(n_spm, 900, 1100);
    /* with an empty prefix the two orders are the same, and are read as the other one here */
    for (size_t i = 1; i <= strlen(text); i++) assert_int_equal(seen[i] > 0, ((unsigned char)text[i] & 0xC0) != 0x80);
    tx_fim_deinit(&f);
    tx_tokenizer_close(tok);
}

static int count(const int32_t *ids, int32_t what)
{
    int n = 0;
    for (int i = 0; i < N; i++) n += ids[i] == what;
    return n;
}

static void rates_are_kept(void **state)
{
    (void)state;
    tx_tokenizer *tok = open_tokenizer();
    tx_fim f = open_fim(tok, "--fim-rate 0.3 --fim-spm-rate 0.8"), never = open_fim(tok, "--fim-rate 0");
    int permuted = 0, spm = 0;
    for (int64_t i = 0; i < 5000; i++) {
        int32_t ids[N], before[N];
        fill(ids, tok, text);
        for (int k = N - 40; k < N; k++) ids[k] = 7; /* a document at the end, too: nothing is dropped but ends */
        memcpy(before, ids, sizeof ids);
        ASSERT_OK(tx_fim_apply(&f, 0, i, ids, N));
        permuted += ids[0] == PREFIX;
        spm += ids[0] == PREFIX && ids[1] == SUFFIX;
        ASSERT_OK(tx_fim_apply(&never, 0, i, before, N));
        assert_int_equal(count(before, PREFIX), 0);
        assert_int_equal(count(before, 7), 40);
    }
    assert_in_range(permuted, 1400, 1600);
    assert_in_range(spm * 1000 / permuted, 760, 840);
    tx_fim_deinit(&f);
    tx_fim_deinit(&never);
    tx_tokenizer_close(tok);
}

/* A full sample stays as long as it is. */
static void what_does_not_fit_is_cut_off(void **state)
{
    (void)state;
    tx_tokenizer *tok = open_tokenizer();
    tx_fim f = open_fim(tok, "--fim-rate 1 --fim-spm-rate 0");
    int32_t ids[N + 1];
    for (int i = 0; i < N; i++) ids[i] = 64; /* "a" */
    ids[N] = -5;
    ASSERT_OK(tx_fim_apply(&f, 0, 3, ids, N));
    assert_int_equal(ids[0], PREFIX);
    assert_int_equal(count(ids, PAD) * count(ids, 64), 0);
    assert_int_equal(ids[N], -5);
    tx_fim_deinit(&f);
    tx_tokenizer_close(tok);
}

static void fragments_are_permuted_apart(void **state)
{
    (void)state;
    tx_tokenizer *tok = open_tokenizer();
    tx_fim f = open_fim(tok, "--fim-rate 1 --fim-split-sample <file> --fim-fragment-rate 0.5 --fim-no-prefix not");
    int n_permuted[3] = { 0 };
    for (int64_t i = 0; i < 400; i++) {
        int32_t ids[N], part[3][N];
        const char *const texts[] = { "one file", "not this one", "the last" };
        int n = 0;
        for (int k = 0; k < 3; k++) {
            fill(part[k], tok, texts[k]);
            for (int m = 0; part[k][m] != EOD; m++) ids[n++] = part[k][m];
            if (k < 2) ids[n++] = FILE_END;
        }
        for (; n < N; n++) ids[n] = EOD;
        ASSERT_OK(tx_fim_apply(&f, 0, i, ids, N));
        assert_int_equal(count(ids, FILE_END), 2);
        for (int k = 0, at = 0; k < 3; k++) {
            n_permuted[k] += ids[at] == PREFIX;
            while (ids[at] != FILE_END && ids[at] != EOD) at++;
            at++;
        }
    }
    assert_in_range(n_permuted[0], 160, 240);
    assert_int_equal(n_permuted[1], 0);
    assert_in_range(n_permuted[2], 160, 240);
    tx_fim_deinit(&f);
    tx_tokenizer_close(tok);
}

/* Samples of a dataset do not depend on which were read before, and other seeds and splits give others. */
static void samples_are_functions_of_their_number(void **state)
{
    (void)state;
    enum { S = 65, MANY = 40 };
    static int32_t row[4][MANY][S];
    const int64_t n[TX_N_SPLITS] = { MANY, MANY, 0 };
    const char *const flags[] = { "--seed 5", "--seed 5", "--seed 5 --fim-rate 0", "--seed 5 --fim-rate 1" };
    tx_tokenizer *tok = open_tokenizer();
    int changed = 0;
    for (int run = 0; run < 4; run++) {
        tx_train_data *data;
        tx_config *c = config(flags[run]);
        ASSERT_OK(tx_train_data_open(&data, c, n, 517, EOD, tok));
        tx_config_free(c);
        const tx_blend *b = tx_train_data_split(data, TX_SPLIT_TRAIN);
        for (int i = 0; i < MANY; i++) {
            int k = run == 1 ? MANY - 1 - i : i;
            ASSERT_OK(tx_blend_get(b, NULL, row[run][k], k));
        }
        tx_train_data_close(data);
    }
    assert_memory_equal(row[0], row[1], sizeof row[0]);
    for (int i = 0; i < MANY; i++) {
        bool permuted = false;
        for (int k = 0; k < S; k++) {
            permuted |= row[0][i][k] == PREFIX;
            assert_true(row[2][i][k] < PREFIX);
        }
        assert_int_equal(row[3][i][0], PREFIX);
        changed += permuted;
    }
    assert_in_range(changed, 5, MANY - 5);
    tx_fim f = open_fim(tok, "--fim-rate 0.5");
    int32_t a[N], b[N];
    int differ = 0;
    for (int64_t i = 0; i < 20; i++) {
        fill(a, tok, text);
        fill(b, tok, text);
        ASSERT_OK(tx_fim_apply(&f, TX_SPLIT_TRAIN, i, a, N));
        ASSERT_OK(tx_fim_apply(&f, TX_SPLIT_VALID, i, b, N));
        differ += memcmp(a, b, sizeof a) != 0;
    }
    assert_true(differ > 5);
    tx_fim_deinit(&f);
    tx_tokenizer_close(tok);
}

static void missing_tokens_are_named(void **state)
{
    (void)state;
    tx_tokenizer *tok, *null;
    tx_fim f;
    tx_config *c = config("");
    ASSERT_OK(tx_tokenizer_open_gpt2(&tok, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt")));
    ASSERT_FAILS(tx_fim_init(&f, c, tok), TX_ERR_ARG, "--fim-prefix-token <fim_prefix>: the vocabulary has no");
    ASSERT_OK(tx_tokenizer_open_null(&null, 511));
    ASSERT_FAILS(tx_fim_init(&f, c, null), TX_ERR_ARG, "--fim-prefix-token <fim_prefix>: the vocabulary has no");
    tx_tokenizer_close(null);
    tx_tokenizer_close(tok);
    tx_config_free(c);
}

/* A tokenizer.json's added tokens are found whether they are special or not. */
static void added_tokens_are_found(void **state)
{
    (void)state;
    tx_tokenizer *tok;
    ASSERT_OK(tx_tokenizer_open_json(&tok, data_path("token/small-tokenizer.json")));
    tx_fim f =
        open_fim(tok, "--fim-prefix-token <x> --fim-middle-token <xy> --fim-suffix-token <xyz> --fim-pad-token [A]");
    assert_int_equal(f.prefix, 385);
    assert_int_equal(f.middle, 386);
    assert_int_equal(f.suffix, 387);
    assert_int_equal(f.pad, 390);
    assert_int_equal(f.eod, 398);
    tx_fim_deinit(&f);
    tx_tokenizer_close(tok);
}

static void flags_belong_together(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "pretrain-gpt", "--data-path x --fim-rate 0.5", "need --fim-data" },
        { "pretrain-gpt", "--data-path x --fim-pad-token x", "need --fim-data" },
        { "pretrain-gpt", "--data-path x --fim-data --fim-split-sample x", "needs --fim-fragment-rate" },
        { "pretrain-gpt", "--data-path x --fim-data --fim-fragment-rate 1", "needs --fim-split-sample" },
        { "pretrain-gpt", "--mock-data --fim-data", "--mock-data: --fim-data cuts text" },
        { "pretrain-bert", "--data-path x --fim-data --tokenizer-type BertWordPieceCase", "--fim-data is of a GPT" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_config *c;
        char all[1024];
        snprintf(all, sizeof all,
                 "--num-layers 1 --hidden-size 8 --num-attention-heads 1 --max-position-embeddings 64 "
                 "--micro-batch-size 2 --seq-length 64 --lr 1 --train-iters 10 --vocab-file v --merge-file m %s",
                 bad[i][1]);
        ASSERT_FAILS(tx_config_parse_string(&c, bad[i][0], all), TX_ERR_ARG, bad[i][2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(pieces_are_the_document),
        SCRATCH_TEST(rates_are_kept),
        SCRATCH_TEST(what_does_not_fit_is_cut_off),
        SCRATCH_TEST(fragments_are_permuted_apart),
        SCRATCH_TEST(samples_are_functions_of_their_number),
        cmocka_unit_test(missing_tokens_are_named),
        cmocka_unit_test(added_tokens_are_found),
        cmocka_unit_test(flags_belong_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
