/* trained_model.h - the stored 4-layer model of 512 tokens and 128 positions, and a decoder on it. */
#ifndef TX_TESTS_TRAINED_MODEL_H
#define TX_TESTS_TRAINED_MODEL_H

#include "support.h"

#include "api/run_common.h"
#include "infer/decoder.h"

#define VOCAB 512

static struct {
    tx_config *cfg;
    tx_source src;
    tx_model *model;
    void *value;
} trained;

static inline int trained_model_setup(void **state)
{
    (void)state;
    char flags[1100];
    snprintf(flags, sizeof flags, "--load %s --prompt x", data_path("golden/generation/model"));
    ASSERT_OK(tx_config_parse_string(&trained.cfg, "generate", flags));
    ASSERT_OK(tx_source_open(&trained.src, trained.cfg->load, NULL, &tx_comm_self));
    ASSERT_OK(tx_source_options(&trained.src, trained.cfg, false));
    ASSERT_OK(tx__model_load(&trained.model, &trained.value, trained.cfg, &trained.src, NULL));
    return 0;
}

static inline int trained_model_teardown(void **state)
{
    (void)state;
    trained.model->type->destroy(trained.model);
    tx_free(trained.value);
    tx_source_close(&trained.src);
    tx_config_free(trained.cfg);
    return 0;
}

static inline tx_decoder *trained_decoder(int64_t n_slots, int64_t max_len)
{
    tx_decoder *d;
    ASSERT_OK(tx_decoder_create(&d, trained.model, NULL,
                                &(tx_decoder_opts){ .backend = "cpu", .n_slots = n_slots, .max_len = max_len }));
    return d;
}

/* The prompt and new tokens of one of the stored continuations. */
typedef struct stored_text {
    int32_t prompt[128], new[128];
    int64_t n_prompt, n_new;
    double min_gap; /* between the two largest logits of a step */
} stored_text;

static inline stored_text stored_text_of(const json_t *line)
{
    stored_text t = { 0 };
    json_t *p = json_object_get(line, "prompt_ids"), *q = json_object_get(line, "new_ids");
    t.n_prompt = (int64_t)json_array_size(p);
    t.n_new = (int64_t)json_array_size(q);
    for (int64_t i = 0; i < t.n_prompt; i++) t.prompt[i] = (int32_t)json_integer_value(json_array_get(p, (size_t)i));
    for (int64_t i = 0; i < t.n_new; i++) t.new[i] = (int32_t)json_integer_value(json_array_get(q, (size_t)i));
    t.min_gap = json_number_value(json_object_get(line, "min_gap"));
    return t;
}

enum { N_STORED = 5 };

static inline void keep_stored_text(json_t *line, void *user)
{
    stored_text **next = user;
    *(*next)++ = stored_text_of(line);
}

static inline void load_stored_texts(stored_text texts[N_STORED])
{
    stored_text *next = texts;
    assert_int_equal(for_each_json_line(data_path("golden/generation/greedy.jsonl"), keep_stored_text, &next),
                     N_STORED);
}

#endif
