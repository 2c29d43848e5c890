/* fuzz_flags.c - a command line: the command's name, a blank, flags. What is accepted prints, and comes back from the
 * object that a checkpoint keeps of it. */
#include "base/alloc.h"
#include "config/config.h"
#include "fuzz.h"

static void print_line(void *user, const char *text)
{
    (void)user;
    fuzz_check_sentence(text, false);
}

static void use(tx_config *cfg)
{
    json_t *first = NULL, *again = NULL;
    FUZZ_CHECK(!tx_config_print(cfg, print_line, NULL));
    if (!fuzz_ok(tx_config_to_json(cfg, &first))) return; /* a value that is not UTF-8 */
    bool same = !tx_config_from_json(cfg, first, TX_KEPT_SHAPE | TX_KEPT_HINT | TX_KEPT_RUN);
    FUZZ_CHECK(same && !tx_config_to_json(cfg, &again) && json_equal(first, again));
    json_decref(first);
    json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > 4096) return 0;
    char *command, *flags;
    tx_config *cfg;
    FUZZ_CHECK(!tx_memdup0(&command, data, size, "a command line"));
    flags = command + strcspn(command, " ");
    if (*flags) *flags++ = 0;
    fuzz_log_on();
    if (tx_config_parse_string(&cfg, command, flags)) {
        fuzz_check_sentence(tx_last_error(), true);
    } else {
        use(cfg);
        tx_config_free(cfg);
    }
    tx_free(command);
    return 0;
}
