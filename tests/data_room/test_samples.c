/* labels: unit */
/* Kinds of samples: a model names its kind, and each kind's functions give what its dataset does. */
#include "data/samples.h"
#include "model/model.h"
#include "support.h"

enum { S = 64 };

static void a_model_and_the_data_agree_on_the_kind(void **state)
{
    (void)state;
    const char *const command[] = { "pretrain-gpt", "pretrain-bert" };
    for (int i = 0; i < 2; i++) {
        tx_config *c;
        ASSERT_OK(tx_config_parse_string(&c, command[i],
                                         "--num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 "
                                         "--max-position-embeddings 8 --micro-batch-size 1 --lr 1 --train-iters 1 "
                                         "--data-path x --vocab-file v --merge-file m"));
        assert_ptr_equal(tx_model_type_of(c)->samples, tx_samples_of(c));
        assert_string_equal(tx_model_type_of(c)->name, tx_samples_of(c)->name);
        tx_config_free(c);
    }
    assert_null(tx_user_samples.open);
    assert_int_equal(tx_user_samples.row_len(S), 0);
}

static void open_set(const tx_samples *kind, const char *path, const tx_tokenizer *tok, void **data, const void **set)
{
    tx_config cfg = { .seq_length = S,
                      .seed = 5,
                      .data_order = TX_DATA_ORDER_MICROSOFT,
                      .mask_prob = 0.15,
                      .bert_max_ngrams = 3,
                      .bert_mask_type = TX_BERT_MASK_BERT,
                      .bert_binary_head = true,
                      .short_seq_prob = 0.1 };
    const int64_t n[TX_N_SPLITS] = { 20, 0, 0 };
    tx_data_set its = { .path = (char *)data_path(path), .range = "0:1" };
    tx_data_group g = { .split = TX_SPLIT_TRAIN, .set = &its, .n = 1 };
    const tx_dataset_request from = { .cfg = &cfg, .group = &g, .set = &its, .n_samples = n, .tok = tok };
    ASSERT_OK(kind->open(data, &from));
    *set = kind->split(*data, TX_SPLIT_TRAIN);
    assert_non_null(*set);
    assert_null(kind->split(*data, TX_SPLIT_TEST));
    assert_true(kind->len(*set) >= 20);
    assert_int_equal(kind->documents(*data), tx_samples_documents(kind, kind->file(*set)));
}

/* Pieces follow each other and are of documents whose sizes hold them. */
static void assert_pieces(const tx_samples *kind, const void *set, int64_t i, int64_t *n_tokens)
{
    const tx_indexed *ix = kind->file(set);
    tx_sample_piece piece[200];
    int64_t n = kind->pieces(set, piece, 200, i);
    assert_in_range(n, 1, 200);
    assert_int_equal(kind->pieces(set, NULL, 0, i), n);
    *n_tokens = 0;
    for (int64_t k = 0; k < n; k++) {
        assert_in_range(piece[k].document, 0, tx_samples_documents(kind, ix) - 1);
        assert_true(piece[k].n_tokens <= tx_samples_document_size(kind, ix, piece[k].document));
        assert_true(piece[k].offset + piece[k].n_tokens <= tx_indexed_size(ix, piece[k].item));
        *n_tokens += piece[k].n_tokens;
    }
}

static void gpt_rows_are_their_pieces(void **state)
{
    (void)state;
    const tx_samples *kind = &tx_gpt_samples;
    void *data;
    const void *set;
    int32_t row[S + 1], ids[S + 1];
    open_set(kind, "dataset/tiny_text_document", NULL, &data, &set);
    assert_int_equal(kind->row_len(S), S + 1);
    for (int64_t i = 0; i < 20; i++) {
        tx_sample_piece piece[S + 1];
        int64_t n, at = 0;
        assert_pieces(kind, set, i, &n);
        assert_int_equal(n, S + 1);
        ASSERT_OK(kind->get(set, NULL, row, i));
        n = kind->pieces(set, piece, S + 1, i);
        for (int64_t k = 0; k < n; at += piece[k++].n_tokens)
            ASSERT_OK(tx_indexed_get(kind->file(set), ids + at, piece[k].item, piece[k].offset, piece[k].n_tokens));
        assert_memory_equal(row, ids, sizeof row);
    }
    kind->close(data);
}

static void bert_rows_are_cut_from_their_pieces(void **state)
{
    (void)state;
    const tx_samples *kind = &tx_bert_samples;
    tx_tokenizer *tok;
    void *data;
    const void *set;
    int32_t row[3 * S + 2], scratch[3 * S];
    ASSERT_OK(tx_tokenizer_open_wordpiece(&tok, data_path("tiny/tiny-bert-vocab.txt"), true));
    open_set(kind, "dataset/tinybert_text_document", tok, &data, &set);
    assert_int_equal(kind->row_len(S), 3 * S + 2);
    assert_int_equal(kind->n_scratch, 3);
    for (int64_t i = 0; i < 20; i++) {
        int64_t n;
        assert_pieces(kind, set, i, &n);
        ASSERT_OK(kind->get(set, scratch, row, i));
        assert_in_range(row[3 * S], 5, n + 3); /* [CLS], two [SEP] and no more than the sentences have */
    }
    kind->close(data);
    tx_tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_and_the_data_agree_on_the_kind),
        cmocka_unit_test(gpt_rows_are_their_pieces),
        cmocka_unit_test(bert_rows_are_cut_from_their_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
