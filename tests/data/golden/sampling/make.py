# make.py FILE [CASE ...]: the batches that DeepSpeed's DeepSpeedDataSampler draws in 10000 steps, asked step by step as a run does.
# A case is the sampler's configuration, and of each metric `values` [from, times, plus, modulus]: sample i has the
# value from + (i * times + plus) % modulus. The files of a metric are DeepSpeed's DataAnalyzer's own, of those values.
#   difficulties  [step, difficulty of each metric] wherever one changes
#   clusters      [step, samples] wherever a cluster is made
#   first         the batches of steps 1 and 2
#   sums          after every 1000 steps, of all samples so far: h = (h * 1099511628211 + sample + 1) mod 2^64, from 0
import contextlib
import io
import json
import logging
import os
import sys
import tempfile

import torch
import deepspeed
import deepspeed.comm as dist
from deepspeed.runtime.data_pipeline.data_sampling.data_analyzer import DataAnalyzer
from deepspeed.runtime.data_pipeline.data_sampling.data_sampler import DeepSpeedDataSampler

STEPS = 10000
logging.disable(logging.CRITICAL)
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1",
                  MASTER_PORT=os.environ.get("MASTER_PORT", "29517"))


def linear(low, high, total, step):
    return {"min_difficulty": low, "max_difficulty": high, "schedule_type": "fixed_linear",
            "schedule_config": {"total_curriculum_step": total, "difficulty_step": step}}


def root(low, high, total, step, degree):
    case = linear(low, high, total, step)
    case["schedule_type"] = "fixed_root"
    case["schedule_config"]["root_degree"] = degree
    return case


def discrete(low, high, difficulties, last):
    return {"min_difficulty": low, "max_difficulty": high, "schedule_type": "fixed_discrete",
            "schedule_config": {"difficulty": difficulties, "max_step": last}}


def value(schedule, values=None, merged=False):
    return dict(schedule, difficulty_type="value", values=values,
                clustering_type="schedule_based" if values else "single_cluster")


def percentile(schedule, values, merged=True):
    return dict(schedule, difficulty_type="percentile", clustering_type="schedule_based", values=values, merged=merged)


SPREAD = [100, 7919, 3, 400]
FINE = [1, 104729, 17, 100003]
MID = [1, 104729, 17, 997]
EVEN = [0, 1, 0, 64]
CASES = [  # samples, batch, seed, metrics
    (1000, 8, 1234, {"rarity": value(linear(150, 500, 900, 10), SPREAD)}),
    (5000, 16, 1234, {"rarity": value(root(150, 499, 5000, 1, 2), SPREAD)}),
    (3001, 8, 0, {"rarity": percentile(linear(10, 100, 3000, 1), SPREAD)}),
    (3001, 8, 7, {"rarity": percentile(linear(1, 100, 3000, 1), FINE)}),
    (70000, 32, 1234, {"rarity": percentile(root(1, 100, 9000, 1, 2), MID)}),
    (2048, 64, 42, {"rarity": percentile(root(5, 100, 700, 5, 3), FINE, merged=False)}),
    (300, 4, 1234, {"rarity": value(discrete(8, 64, [8, 16, 64], [100, 2500]), EVEN)}),
    (300, 4, 1234, {"seqlen_truncate": value(linear(8, 64, 500, 8))}),
    (3090, 8, 1234, {"voc": percentile(root(1, 100, 4000, 1, 2), FINE),
                     "seqlen_truncate": value(linear(80, 2048, 5000, 8))}),
    (3001, 8, 99, {"seqlen_truncate": value(linear(80, 2048, 5000, 8)),
                   "rarity": value(linear(150, 500, 2000, 25), SPREAD)}),
    (4000, 16, 1234, {"rarity": value(linear(200, 500, 3000, 20), SPREAD), "length": value(linear(16, 64, 4000, 8), EVEN)}),
    (4000, 16, 5, {"length": value(root(24, 64, 2000, 4, 2), EVEN), "rarity": percentile(linear(20, 100, 6000, 2), FINE)}),
    (2500, 8, 1234, {"a": percentile(linear(40, 100, 900, 5), FINE), "b": percentile(linear(50, 100, 1700, 5), SPREAD),
                     "c": value(linear(32, 64, 2500, 8), EVEN)}),
    (2500, 8, 11, {"a": percentile(linear(40, 100, 900, 5), FINE), "seqlen_truncate": value(linear(8, 64, 300, 8)),
                   "c": value(linear(32, 64, 2500, 8), EVEN)}),
    (1000, 1, 1234, {"rarity": value(linear(150, 500, 900, 10), SPREAD)}),
    (260, 2, 3, {"rarity": percentile(linear(25, 100, 100, 25), FINE, merged=False)}),
    (1000, 8, 4294967295, {"rarity": value(linear(500, 500, 10, 1), SPREAD)}),
    (1000, 8, 123456789012345, {"rarity": value(discrete(150, 500, [150, 500, 200], [10, 20]), SPREAD)}),
    (6000, 128, 1234, {"rarity": value(root(180, 500, 8000, 1, 1.5), SPREAD)}),
    (9000, 24, 2024, {"rarity": value(root(200, 998, 10000, 10, 0.5), MID)}),
]


class Numbers(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i


def of(values):
    low, times, plus, modulus = values
    return lambda data: low + (data.to(torch.int64) * times + plus) % modulus


def analyze(folder, n, metrics):
    for name, m in metrics.items():
        if not m["values"]:
            continue
        analyzer = DataAnalyzer(Numbers(n), batch_size=n, metric_names=[name], metric_functions=[of(m["values"])],
                                metric_types=["single_value_per_sample"], metric_dtypes=[torch.int64], save_path=folder)
        analyzer.run_map_reduce()


def configuration(folder, seed, metrics):
    of_metric = {}
    for name, m in metrics.items():
        of_metric[name] = {k: v for k, v in m.items() if k not in ("values", "merged")}
        path = f"{folder}/{name}/{name}"
        of_metric[name]["index_to_sample_path"] = path + "_index_to_sample" + ("_percentile_merged" if m.get("merged") else "")
        of_metric[name]["index_to_metric_path"] = path + "_index_to_metric"
    return {"seed": seed, "data_sampling": {"num_epochs": 1000000, "curriculum_learning": {
        "enabled": True, "data_cluster_path": folder + "/clusters", "curriculum_metrics": of_metric}}}


def run(n, batch, seed, metrics):
    out = {"samples": n, "batch": batch, "seed": seed, "metrics": metrics, "difficulties": [], "clusters": [],
           "first": [], "sums": []}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        analyze(folder, n, metrics)
        group = dist.new_group(ranks=[0])
        sampler = DeepSpeedDataSampler(configuration(folder, seed, metrics), n, batch, 0, 1, group, 1, 0)
        before, total = None, 0
        for step in range(1, STEPS + 1):
            made = len(sampler.data_cluster_sizes)
            sampler.get_next_global_batch()
            difficulties = [sampler.current_difficulties[name] for name in metrics]
            assert len(sampler.batch) == batch, (step, len(sampler.batch))
            if difficulties != before:
                out["difficulties"].append([step] + difficulties)
            out["clusters"] += [[step, int(size)] for size in sampler.data_cluster_sizes[made:]]
            before = difficulties
            if step <= 2:
                out["first"].append(sampler.batch)
            for sample in sampler.batch:
                total = (total * 1099511628211 + sample + 1) % 2**64
            if step % 1000 == 0:
                out["sums"].append(f"{total:016x}")
    return out


deepspeed.init_distributed("gloo", verbose=False)
results = []
for number in [int(word) for word in sys.argv[2:]] or range(len(CASES)):
    results.append(run(*CASES[number]))
    print(number, len(results[-1]["clusters"]), results[-1]["sums"][-1], file=sys.stderr)
    with open(sys.argv[1], "w") as f:
        f.write("[" + ",\n".join(json.dumps(r) for r in results) + "]\n")
