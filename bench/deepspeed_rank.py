"""One of the data-parallel ranks of DeepSpeed on CPUs, over gloo: bench/zero.sh's peer, started by torch.distributed.run.

Prints "ms loss" for every step, the loss of rank 0. Batches are stretches of IDS, a file of 16-bit tokens. Everything that
the command line does not say is DeepSpeed's default: buckets larger than the model, parameters of stage 3 kept between
forward and backward, bf16 weights with fp32 masters. AdamW is torch's fused one, gradients are clipped at 1.
Usage: deepspeed_rank.py LAYERSxHIDDENxHEADSxVOCABULARYxSEQUENCExBATCH STAGE fp32|bf16 STEPS THREADS IDS
BATCH is that of all ranks together.
"""
import logging
import sys
import time

import deepspeed
import numpy
import torch
from gpt_torch import GPT


def main():
    layers, hidden, heads, vocab, seq, batch = map(int, sys.argv[1].split("x"))
    stage, dtype, steps, threads, ids = int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]
    deepspeed.utils.logger.setLevel(logging.WARNING)
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = GPT(layers, hidden, heads, vocab, seq)
    config = {
        "train_batch_size": batch,
        "train_micro_batch_size_per_gpu": batch // ranks,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": dtype == "bf16"},
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]
    tokens = torch.from_numpy(numpy.fromfile(ids, dtype=numpy.uint16).astype(numpy.int64))
    draw = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        at = torch.randint(len(tokens) - seq, (batch // ranks, 1), generator=draw) + torch.arange(seq + 1)
        sample = tokens[at]
        start = time.perf_counter()
        loss = engine(sample[:, :-1], sample[:, 1:])
        engine.backward(loss)
        engine.step()
        if rank == 0:
            print(f"{1e3 * (time.perf_counter() - start):.1f} {loss.item():.4f}", flush=True)
    torch.distributed.destroy_process_group()


main()
