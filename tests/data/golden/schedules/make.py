# make.py FOLDER: what the schedules of DeepSpeed and Megatron-LM give 200 updates: FOLDER/deepspeed.json, FOLDER/megatron.json.
# DeepSpeed's are given an optimizer with learning rate 0.002 and betas 0.9, 0.999; Megatron's two groups, the second with
# decoupled rates, as megatron/core/optimizer makes them. The lists have one value an update, from the first on.
import json
import logging
import sys
import torch
from deepspeed.runtime import lr_schedules
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

UPDATES = 200
logging.disable(logging.CRITICAL)

CYCLE = {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3}
DEEPSPEED = [
    ("WarmupLR", {}),
    ("WarmupLR", {"warmup_min_lr": 1e-5, "warmup_max_lr": 3e-3, "warmup_num_steps": 70}),
    ("WarmupLR", {"warmup_min_lr": 1e-5, "warmup_max_lr": 3e-3, "warmup_num_steps": 70, "warmup_type": "linear"}),
    ("WarmupLR", {"warmup_num_steps": 1, "warmup_max_lr": 1e-2}),
    ("WarmupDecayLR", {"total_num_steps": 150, "warmup_num_steps": 35}),
    ("WarmupDecayLR", {"total_num_steps": 180, "warmup_min_lr": 2e-4, "warmup_max_lr": 2e-3, "warmup_num_steps": 60,
                       "warmup_type": "linear"}),
    ("WarmupDecayLR", {"total_num_steps": 3, "warmup_num_steps": 60}),
    ("WarmupCosineLR", {"total_num_steps": 160, "warmup_num_steps": 40}),
    ("WarmupCosineLR", {"total_num_steps": 120, "warmup_num_steps": 30, "warmup_min_ratio": 0.1, "cos_min_ratio": 0.2,
                        "warmup_type": "linear"}),
    ("LRRangeTest", {}),
    ("LRRangeTest", {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 13, "lr_range_test_step_rate": 2.5}),
    ("LRRangeTest", {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 13, "lr_range_test_step_rate": 2.5,
                     "lr_range_test_staircase": True}),
    ("OneCycle", {**CYCLE, "cycle_first_step_size": 60}),
    ("OneCycle", {**CYCLE, "cycle_first_step_size": 40, "cycle_second_step_size": 70, "decay_step_size": 9,
                  "decay_lr_rate": 0.5, "decay_mom_rate": 0.001, "cycle_min_mom": 0.85, "cycle_max_mom": 0.95}),
    ("OneCycle", {**CYCLE, "cycle_first_step_size": 64, "cycle_first_stair_count": 4, "cycle_second_stair_count": 2,
                  "cycle_momentum": False, "decay_step_size": 4, "decay_lr_rate": 1.0}),
    ("OneCycle", {**CYCLE, "cycle_first_step_size": 50, "cycle_second_step_size": 71, "cycle_first_stair_count": 3}),
]

# batches of 8 samples: max_lr, min_lr, init_lr, warm-up, decay, (start_wd, end_wd, style of weight decay)
SPANS = [(1e-3, 1e-5, 0.0, 160, 1360, (0.01, 0.01, "constant")),
         (6e-4, 0.0, 1e-6, 0, 1500, (0.0, 0.2, "linear")),
         (1.5e-4, 1e-5, 5e-5, 100.5, 1600, (0.05, 0.1, "cosine"))]
STYLES = [("constant", None), ("linear", None), ("cosine", None), ("inverse-square-root", None),
          ("WSD", "exponential"), ("WSD", "linear"), ("WSD", "cosine"), ("WSD", "minus_sqrt")]


def deepspeed(kind, params):
    adam = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=0.002, betas=(0.9, 0.999))
    schedule = getattr(lr_schedules, kind)(adam, **params)
    out = {"type": kind, "params": params, "lr": []}
    if kind == "OneCycle":
        out["betas"] = []
    for _ in range(UPDATES):
        group = adam.param_groups[0]
        out["lr"].append(group["lr"])
        if kind == "OneCycle":
            out["betas"].append(list(group["betas"]))
        schedule.step()
    return out


class Groups:
    def __init__(self, *groups):
        self.param_groups = list(groups)


def megatron(style, wsd_style, span):
    most, least, init, warmup, decay, (start, end, wd_style) = span
    decoupled = {"max_lr": 4 * most, "min_lr": least / 2}
    optimizer = Groups({}, dict(decoupled))
    schedule = OptimizerParamScheduler(
        optimizer, init_lr=init, max_lr=most, min_lr=least, lr_warmup_steps=warmup, lr_decay_steps=decay,
        lr_decay_style=style, start_wd=start, end_wd=end, wd_incr_steps=1400, wd_incr_style=wd_style,
        use_checkpoint_opt_param_scheduler=False, wsd_decay_steps=400 if wsd_style else None, lr_wsd_decay_style=wsd_style)
    out = {"lr_decay_style": style, "lr_wsd_decay_style": wsd_style, "max_lr": most, "min_lr": least, "init_lr": init,
           "lr_warmup_steps": warmup, "lr_decay_steps": decay, "wsd_decay_steps": 400, "start_wd": start, "end_wd": end,
           "wd_incr_steps": 1400, "wd_incr_style": wd_style, "decoupled_lr": decoupled["max_lr"],
           "decoupled_min_lr": decoupled["min_lr"], "increment": 8, "lr": [], "decoupled": [], "weight_decay": []}
    for _ in range(UPDATES):
        group, other = optimizer.param_groups
        out["lr"].append(group["lr"])
        out["decoupled"].append(other["lr"])
        out["weight_decay"].append(group["weight_decay"])
        schedule.step(8)
    if style != "constant":
        del out["weight_decay"]
    if span is not SPANS[0]:
        del out["decoupled"]
    return out


def write(name, cases):
    with open(f"{sys.argv[1]}/{name}", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


write("deepspeed.json", [deepspeed(*c) for c in DEEPSPEED])
write("megatron.json", [megatron(*s, SPANS[i]) for s in STYLES for i in range(len(SPANS))])
