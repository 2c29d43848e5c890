/* job.c - what is shown of a job that is not started; the agent's two forms. */
#include "launch/job.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "launch/rendezvous.h"
#include "launch/slots.h"
#include "launch/ssh_agent.h"
#include "triax/launch.h"

tx_status tx__places_guess(tx_node_place **out, int n, int at, const tx_node_place *here)
{
    tx_node_place *place = NULL;
    TX_TRY(tx_alloc(&place, (size_t)n, sizeof *place, "the nodes"));
    for (int i = 0; i < n; i++) {
        place[i].n_ranks = here->n_ranks;
        snprintf(place[i].host, sizeof place[i].host, "node%d", i);
    }
    place[at] = *here;
    *out = place;
    return TX_OK;
}

void tx__places_free(tx_node_place *place)
{
    tx_free(place);
}

tx_status tx__start_show(const tx_launch_command *s)
{
    tx_str text = { 0 };
    tx_status st = tx__start_quote(&text, s);
    if (!st) tx_info("%s", text.data);
    tx_str_free(&text);
    return st;
}

tx_status tx_launch_agent(int argc, char *const *argv, int *code)
{
    *code = 1;
    if (argc > 0 && !strcmp(argv[0], "--slots")) return tx__slots_become(argc - 1, argv + 1);
    return argc > 0 && !strcmp(argv[0], "--via") ? tx__ssh_agent(argc - 1, argv + 1, code)
                                                 : tx__agent(argc, argv, code);
}
