/* adapters.c - which matrices have adapters, by the words of --lora-targets. */
#include <string.h>

#include "config/config.h"
#include "kinds/lora_targets.h"

/* clang-format off */
#define WORD_OF(text, bits) { text, bits },
/* clang-format on */
static const struct {
    const char *word;
    unsigned targets;
} words[] = { TX_LORA_WORDS(WORD_OF) };
enum { N_WORDS = sizeof words / sizeof *words };

unsigned tx_config_lora_word(const char *word)
{
    for (int i = 0; i < N_WORDS; i++)
        if (!strcmp(words[i].word, word)) return words[i].targets;
    return 0;
}

unsigned tx_config_lora_targets(const tx_config *cfg)
{
    unsigned all = 0;
    if (!cfg->lora_rank) return 0;
    for (int i = 0; i < cfg->lora_targets.n; i++) all |= tx_config_lora_word(cfg->lora_targets.item[i]);
    if (all) return all;
    return tx_config_is_gated(cfg) ? TX_LORA_BIT(TX_LORA_Q) | TX_LORA_BIT(TX_LORA_V) : TX_LORA_BIT(TX_LORA_QKV);
}
