/* fuzz_hostfile.c - a hostfile, then (behind a byte 0) a filter of it; the same bytes as .deepspeed_env and as a rank's
 * slots. */
#include "fuzz.h"
#include "launch/deepspeed_env.h"
#include "launch/hostfile.h"
#include "launch/slots.h"

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

/* Each rank finds its own slot in what the launcher hands on of them. */
static void check_slots(const tx_hosts *h)
{
    tx_str text = { 0 };
    tx_launch_slot s;
    FUZZ_CHECK(!tx__slots_text(&text, h));
    for (int i = 0, rank = 0; i < h->n; i++)
        for (int k = 0; k < h->host[i].n_slots && rank < 8; k++, rank++)
            FUZZ_CHECK(!tx__slot_of(&s, text.data, NULL, rank) && s.cores.rank == h->host[i].slot[k] &&
                       s.cores.n == h->host[i].n_all);
    tx_str_free(&text);
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
        if (cut && fuzz_ok(tx__hosts_filter(&h, filter, n % 2))) check_hosts(&h), check_slots(&h);
    }
    tx__hosts_free(&h);
    char slots[512];
    tx_launch_slot mine;
    snprintf(slots, sizeof slots, "%.*s", (int)(n < 500 ? n : 500), (const char *)data);
    if (fuzz_ok(tx__slot_of(&mine, slots, NULL, 1))) FUZZ_CHECK(mine.cores.rank >= 0 && mine.cores.rank < mine.cores.n);
    (void)fuzz_ok(tx__deepspeed_env_parse(&env, "env", (const char *)data, size));
    for (int i = 0; i < env.n; i++) FUZZ_CHECK(strchr(env.word[i], '='));
    tx__words_free(&env);
    return 0;
}
