/* generate.c - triax generate: prompts and their continuations as text. */
#include <stdio.h>

#include "cmd.h"
#include "triax/generate.h"

static void print_sample(void *user, const tx_sample *s)
{
    int64_t *shown = user;
    if ((*shown)++) printf("----\n");
    printf("%s%s\n", s->prompt, s->text);
    fflush(stdout);
}

tx_status cmd_generate(tx_config *cfg)
{
    int64_t shown = 0;
    return tx_generate(cfg, print_sample, &shown);
}
