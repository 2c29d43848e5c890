/* fuzz_hostfile.c - a hostfile, then (behind a byte 0) a filter of it; the same bytes as .deepspeed_env. */
#include "fuzz.h"
#include "launch/deepspeed_env.h"
#include "launch/hostfile.h"

static void check_hosts(const tx_hosts *h)
{
    FUZZ_CHECK(h->n >= 1);
    for (int i = 0; i < h->n; i++) {
        const tx_host *host = &h->host[i];
        FUZZ_CHECK(tx__is_host_name(host->name, strlen(host->name)) && host->n_slots >= 1 &&
                   host->n_slots <= TX_MAX_SLOTS);
        for (int k = 1; k < host->n_slots; k++) FUZZ_CHECK(host->slot[k - 1] < host->slot[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_hosts h = { 0 };
    tx_words env = { 0 };
    const uint8_t *cut = memchr(data, 0, size);
    size_t n = cut ? (size_t)(cut - data) : size;
    if (fuzz_ok(tx__hostfile_parse(&h, "hosts", (const char *)data, n))) {
        check_hosts(&h);
        char filter[512] = "";
        if (cut)
            snprintf(filter, sizeof filter, "%.*s", (int)(size - n - 1 < 500 ? size - n - 1 : 500),
                     (const char *)cut + 1);
        if (cut && fuzz_ok(tx__hosts_filter(&h, filter, n % 2))) check_hosts(&h);
    }
    tx__hosts_free(&h);
    (void)fuzz_ok(tx__deepspeed_env_parse(&env, "env", (const char *)data, size));
    for (int i = 0; i < env.n; i++) FUZZ_CHECK(strchr(env.word[i], '='));
    tx__words_free(&env);
    return 0;
}
