# make.py FILE: the lengths that DeepSpeed's CurriculumScheduler gives 10000 steps, asked step by step as a run does.
# A case is what curriculum_learning of its JSON has, and `lengths`: [step, length] wherever the length changes.
import json
import logging
import sys
from deepspeed.runtime.data_pipeline.curriculum_scheduler import CurriculumScheduler

STEPS = 10000
logging.disable(logging.CRITICAL)


def linear(low, high, total, step):
    return {"min_difficulty": low, "max_difficulty": high, "schedule_type": "fixed_linear",
            "schedule_config": {"total_curriculum_step": total, "difficulty_step": step}}


def root(low, high, total, step, degree):
    case = linear(low, high, total, step)
    case["schedule_type"] = "fixed_root"
    case["schedule_config"]["root_degree"] = degree
    return case


def discrete(low, high, lengths, last):
    return {"min_difficulty": low, "max_difficulty": high, "schedule_type": "fixed_discrete",
            "schedule_config": {"difficulty": lengths, "max_step": last}}


CASES = [
    linear(64, 1024, 15000, 8), linear(64, 2048, 9000, 8), linear(80, 2048, 1100, 8), linear(8, 512, 700, 8),
    linear(64, 1000, 4000, 16), linear(10, 1023, 333, 7), linear(128, 128, 100, 8), linear(1, 1024, 9973, 1),
    linear(16, 24, 7, 8), linear(100, 2048, 9999, 64),
    root(64, 2048, 9000, 8, 2), root(64, 1024, 30000, 8, 2), root(128, 2048, 5000, 8, 3), root(8, 511, 777, 8, 2),
    root(64, 2048, 3000, 16, 1), root(64, 2048, 3000, 8, 0.5), root(32, 333, 41, 4, 1.7),
    discrete(64, 2048, [64, 128, 256, 2048], [10, 1000, 5000]), discrete(8, 64, [8, 64, 16], [100, 200]),
    discrete(8, 512, [512, 8, 16], [3, 9]), discrete(16, 1024, [128, 64, 32], [2500, 7500]),
]

for case in CASES:
    scheduler, before = CurriculumScheduler(case), None
    case["lengths"] = []
    for step in range(1, STEPS + 1):
        length = scheduler.update_difficulty(step)
        if length != before:
            case["lengths"].append([step, length])
        before = length

with open(sys.argv[1], "w") as f:
    f.write("[" + ",\n".join(json.dumps(case) for case in CASES) + "]\n")
