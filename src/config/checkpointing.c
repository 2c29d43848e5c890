/* checkpointing.c - activation checkpointing by DeepSpeed's words, as the flags that it is here. */
#include <stdio.h>

#include "base/args.h"
#include "config/config.h"

static tx_status flags_of(tx_str *out, const tx_checkpointing *how)
{
    const struct {
        bool wanted;
        const char *flag;
    } flags[] = { { how->partition_activations, "--partition-activations " },
                  { how->contiguous_checkpointing, "--contigious-checkpointing " },
                  { how->checkpoint_in_cpu, "--checkpoint-in-cpu " },
                  { how->profile, "--profile-backward " } };
    if (how->num_layers)
        TX_TRY(
            tx_str_printf(out, "--checkpoint-activations --checkpoint-num-layers %lld ", (long long)how->num_layers));
    if (how->num_checkpoints) TX_TRY(tx_str_printf(out, "--number-checkpoints %lld ", (long long)how->num_checkpoints));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].wanted) TX_TRY(tx_str_puts(out, flags[i].flag));
    return TX_OK;
}

tx_status tx_checkpointing_configure(tx_config *cfg, const tx_checkpointing *from)
{
    tx_checkpointing how;
    tx_str flags = { 0 };
    tx_config *with = NULL, old;
    tx_status st;
    TX_TRY(TX_ARGS_TAKE(&how, from, tx_checkpointing, profile));
    TX_GOTO(flags_of(&flags, &how));
    TX_GOTO(tx_config_with(&with, cfg, flags.data ? flags.data : ""));
    with->deepspeed_activation_checkpointing = true;
    old = *cfg;
    *cfg = *with;
    *with = old;
out:
    tx_str_free(&flags);
    tx_config_free(with);
    return st;
}

bool tx_checkpointing_is_configured(const tx_config *cfg)
{
    return cfg->deepspeed_activation_checkpointing || cfg->checkpoint_activations || cfg->recompute_granularity ||
           cfg->recompute_activations || cfg->partition_activations || cfg->checkpoint_in_cpu ||
           cfg->contiguous_checkpointing;
}
