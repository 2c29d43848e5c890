# make.py FILE: the numbers of tokens that DeepSpeed's RandomLTDScheduler gives 10000 steps, and the theta of its
# ProgressiveLayerDrop, asked step by step as the engine does: the first before each step, the second after it.
# A case of random_ltd is its random_ltd_schedule, and `lengths`: [iteration, length] wherever the length changes,
# iterations counted from 1. A case of layer_drop has theta, gamma, and `at`: [iteration, theta] of some iterations.
import json
import logging
import sys
from deepspeed.runtime.data_pipeline.data_routing.scheduler import RandomLTDScheduler
from deepspeed.runtime.progressive_layer_drop import ProgressiveLayerDrop

STEPS = 10000
logging.disable(logging.CRITICAL)

LTD = [(128, 1024, 9000, 8), (128, 2048, 5000, 16), (64, 512, 700, 8), (200, 1000, 4000, 16), (10, 1023, 333, 7),
       (128, 128, 100, 8), (1, 1024, 9973, 1), (16, 24, 7, 8), (100, 2048, 9999, 64), (128, 1000, 3000, 48),
       (256, 2048, 200000, 16), (8, 9, 10000, 3), (64, 2048, 10, 8), (333, 1111, 777, 5), (512, 4096, 8191, 32),
       (20, 300, 1, 10), (96, 2000, 6543, 96), (3, 17, 9000, 2), (1000, 1001, 50, 1000), (128, 2048, 123457, 1),
       (65, 129, 9998, 64)]
DROP = [(0.5, 0.001), (0.9, 0.0001), (0.1, 0.01), (1.0, 0.5), (0.0, 0.003), (0.333, 0.0)]

out = {"random_ltd": [], "layer_drop": []}
for low, high, steps, unit in LTD:
    case = {"min_value": low, "max_value": high, "schedule_type": "fixed_linear",
            "schedule_config": {"require_steps": steps, "seq_per_step": unit}}
    scheduler = RandomLTDScheduler({"total_layer_num": 24, "random_ltd_layer_num": 22, "random_ltd_schedule": dict(case),
                                    "global_batch_size": 1, "layer_token_lr_schedule": {"enabled": False}})
    before, case["lengths"] = None, []
    for step in range(STEPS):
        scheduler.update_seq(step)
        length = scheduler.get_current_seq()
        if length != before:
            case["lengths"].append([step + 1, length])
        before = length
    out["random_ltd"].append(case)
for theta, gamma in DROP:
    drop, at = ProgressiveLayerDrop(theta, gamma), []
    for step in range(STEPS):
        if step < 4 or step % 97 == 0:
            at.append([step + 1, float(drop.get_theta())])
        drop.update_state(step)
    out["layer_drop"].append({"theta": theta, "gamma": gamma, "at": at})

with open(sys.argv[1], "w") as f:
    f.write('{"random_ltd": [' + ",\n".join(json.dumps(c) for c in out["random_ltd"]) +
            '],\n"layer_drop": [' + ",\n".join(json.dumps(c) for c in out["layer_drop"]) + ']}\n')
