# make.py > result.json: what DeepSpeed's gating functions choose on the CPU in fp32, their random parts off.
# Logits are drawn (see `drawn`), so a case is its sizes and what comes out: for each token [expert, weight] of what was not dropped.
# make.py SEED: of other cases, with the number that each one's logits are drawn by.
import json
import sys
import numpy as np
import torch
from deepspeed.moe.sharded_moe import top1gating, top2gating, topkgating


def drawn(case, n):
    i = np.arange(n, dtype=np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    u = ((np.uint64(case * 7919) + i) * np.uint64(2654435761)) & mask
    u ^= u >> np.uint64(16)
    u = (u * np.uint64(2246822519)) & mask
    u ^= u >> np.uint64(13)
    u = (u * np.uint64(3266489917)) & mask
    u ^= u >> np.uint64(16)
    return (6 * (u.astype(np.float64) / 2**32 - 0.5)).astype(np.float32)


def gate(logits, c):
    if c["k"] == 1:
        return top1gating(logits, c["factor"], c["least"], drop_tokens=c["drops"], use_rts=False)
    if c["k"] == 2:
        return top2gating(logits, c["factor"], c["least"], drop_tokens=c["drops"], top2_2nd_expert_sampling=False)
    return topkgating(logits, c["k"], c["factor"], c["least"], drop_tokens=c["drops"])


seed = int(sys.argv[1]) if len(sys.argv) > 1 else 27
first = 0 if seed == 27 else 200 * (seed % 100000 + 1)
rng = np.random.default_rng(seed)
print("[")
for case in range(first, first + 200):
    experts = int(rng.integers(2, 13))
    c = {
        "tokens": int(rng.integers(4, 33)),
        "experts": experts,
        "k": int(rng.integers(1, min(experts, 5) + 1)),
        "factor": float(rng.choice([0.5, 0.75, 1.0, 1.25, 2.0])),
        "least": int(rng.choice([1, 2, 4])),
        "drops": bool(rng.integers(0, 3) > 0),
    }
    if first:
        c["drawn"] = case
    logits = torch.from_numpy(drawn(case, c["tokens"] * experts).reshape(c["tokens"], experts))
    aux, combine, mask, counts = gate(logits.clone(), c)
    weight = combine.sum(dim=2)
    c["capacity"] = combine.shape[2]
    c["aux"] = aux.item()
    c["chosen"] = counts.tolist()
    kept = mask.any(dim=2)
    c["kept"] = [[[e, float("%.8g" % weight[t, e])] for e in range(experts) if kept[t, e]] for t in range(c["tokens"])]
    print(json.dumps(c, separators=(",", ":")) + ("," if case < first + 199 else ""))
print("]")
