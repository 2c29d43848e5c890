/* agent.c - what mpirun calls in the place of ssh: hands the words over, and stays until the daemon has ended. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launch/rendezvous.h"

static tx_status hand_over(tx_link *l, int argc, char *const *argv)
{
    tx_str s = { 0 };
    tx_status st = tx__pack_text(&s, argv[0]);
    if (!st) st = tx__pack_words(&s, argv + 1, argc - 1);
    if (!st) st = tx__link_say(l, TX_SAY_RUN, &s);
    tx_str_free(&s);
    return st;
}

static tx_status wait_for_end(tx_link *l, int *code)
{
    tx_message msg;
    for (;;) {
        struct pollfd p = tx__link_poll(l);
        poll(&p, 1, -1);
        TX_TRY(tx__link_pump(l));
        TX_TRY(tx__link_next(l, &msg));
        if (msg.type == TX_SAY_EXITED) {
            tx_unpack u = { msg.bytes, msg.bytes + msg.n };
            int64_t c;
            TX_TRY(tx__unpack_number(&u, 0, 255, &c));
            *code = (int)c;
            return TX_OK;
        }
        if (l->ended) return TX_OK; /* torchrun says what happened */
    }
}

tx_status tx__agent(int argc, char *const *argv, int *code)
{
    tx_link l = { .fd = -1 };
    *code = 1;
    if (argc < 3)
        return TX_FAIL(TX_ERR_ARG, "launch-agent is called by mpirun that triax torchrun has started, not by people");
    int fd = tx__connect_local(argv[0]);
    if (fd < 0) return TX_FAIL(TX_ERR_COMM, "no triax torchrun waits at %s", argv[0]);
    tx_status st = tx__link_init(&l, fd, TX_WIRE_PLAIN, NULL, "torchrun");
    if (!st) st = hand_over(&l, argc - 1, argv + 1);
    if (!st) st = wait_for_end(&l, code);
    tx__link_close(&l);
    return st;
}
