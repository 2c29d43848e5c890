/* deepspeed.c - triax deepspeed, and what mpirun calls on its behalf and on torchrun's. */
#include "cmd.h"
#include "triax/launch.h"

int cmd_deepspeed(int argc, char **argv)
{
    return cmd_launch("deepspeed", tx_autotune, argc, argv);
}

int cmd_launch_agent(int argc, char **argv)
{
    return cmd_launch("launch-agent", tx_launch_agent, argc, argv);
}
