/* fuzz_deepspeed_json.c - a file for --deepspeed_config. Each member's place is that of its name, and what is accepted
 * prints. */
#include "config/config.h"
#include "config/relaxed_json.h"
#include "fuzz.h"

/* A byte by its line and character. */
static char at_place(const tx_str *text, tx__json_place at)
{
    const char *p = text->data;
    for (int line = 1; line < at.line; line++) FUZZ_CHECK((p = strchr(p, '\n')) && *p++);
    for (int column = 1; column < at.column; column++) {
        FUZZ_CHECK(*p && *p != '\n');
        for (p++; ((unsigned char)*p & 0xC0) == 0x80;) p++;
    }
    return *p;
}

static tx_status check_member(void *user, const char *path, const char *name, tx__json_place at, const json_t *value,
                              bool *enter)
{
    size_t n = strlen(path), m = strlen(name);
    FUZZ_CHECK(n >= m && !strcmp(path + n - m, name) && value);
    FUZZ_CHECK(at_place(user, at) == '"');
    *enter = true;
    return TX_OK;
}

static void print_line(void *user, const char *text)
{
    (void)user;
    fuzz_check_sentence(text, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("ds.json", data, size);
    tx_str text = { 0 };
    json_t *root = NULL;
    fuzz_log_on();
    if (fuzz_ok(tx__relaxed_json_read(path, &text, &root)))
        FUZZ_CHECK(!tx__relaxed_json_walk(&text, root, check_member, &text));
    json_decref(root);
    tx_str_free(&text);

    tx_config *cfg;
    char flags[256];
    snprintf(flags, sizeof flags,
             "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 "
             "--world-size 4 --lr 0.1 --no-overlap-grad-reduce --deepspeed_config %s",
             path);
    if (tx_config_parse_string(&cfg, "plan", flags)) {
        fuzz_check_sentence(tx_last_error(), true);
    } else {
        FUZZ_CHECK(!tx_config_print(cfg, print_line, NULL));
        tx_config_free(cfg);
    }
    return 0;
}
