# decoupled.py > decoupled.json: the folder's model in fp64, 20 steps of AdamW by PyTorch whose rates are those of Megatron's
# OptimizerParamScheduler, the word embedding's other than the rest's (--decoupled-lr); clipping at 1, batches as in
# result.json, whose first loss is theirs, too. How far each parameter has come is the norm of its change.
import json
import os
import struct
import sys
import torch
import torch.nn.functional as F
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

HERE = os.path.dirname(os.path.abspath(__file__))
HEADS, LAYERS = 4, 2


def weights():
    with open(f"{HERE}/model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {name.removeprefix("transformer."): torch.frombuffer(bytearray(data[slice(*t["data_offsets"])]),
                                                                dtype=torch.float32).view(t["shape"]).double()
            for name, t in header.items() if name != "__metadata__"}


def norm(x, w, name):
    return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)


def linear(x, w, name):
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def loss_of(w, rows):
    ids, labels = rows[:, :-1], rows[:, 1:]
    x = w["wte.weight"][ids] + w["wpe.weight"][: ids.shape[1]]
    for i in range(LAYERS):
        h = f"h.{i}."
        q, k, v = (t.view(*t.shape[:2], HEADS, -1).transpose(1, 2)
                   for t in linear(norm(x, w, h + "ln_1"), w, h + "attn.c_attn").chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + linear(y, w, h + "attn.c_proj")
        x = x + linear(F.gelu(linear(norm(x, w, h + "ln_2"), w, h + "mlp.c_fc"), approximate="tanh"), w, h + "mlp.c_proj")
    logits = norm(x, w, "ln_f") @ w["wte.weight"].T
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def run(decoupled, warmup):
    begin = weights()
    w = {name: t.clone().requires_grad_() for name, t in begin.items()}
    groups = [{"params": [w["wte.weight"]], **decoupled},
              {"params": [t for n, t in w.items() if t.dim() == 2 and n != "wte.weight"]},
              {"params": [t for t in w.values() if t.dim() == 1], "wd_mult": 0.0}]
    adam = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    schedule = OptimizerParamScheduler(adam, 0.0, 1e-3, 0.0, 4 * warmup, 80, "linear", 0.01, 0.01, 80, "constant",
                                       use_checkpoint_opt_param_scheduler=False)
    batches = json.load(open(f"{HERE}/train_batches.json"))
    steps = []
    for i in range(20):
        rows = torch.tensor(batches[i % 5]["input_ids"])
        loss = loss_of(w, rows)
        adam.zero_grad()
        loss.backward()
        total = torch.nn.utils.clip_grad_norm_(w.values(), 1.0)
        steps.append({"lr": groups_lr(adam, 1), "decoupled_lr": groups_lr(adam, 0), "loss": loss.item(),
                      "grad_norm": total.item()})
        adam.step()
        schedule.step(4)
    return {"steps": steps, "change": {n: (w[n].detach() - begin[n]).norm().item() for n in w}}


def groups_lr(adam, i):
    return adam.param_groups[i]["lr"]


out = run({"max_lr": 4e-3, "min_lr": 1e-4}, 4)
json.dump(out, sys.stdout, indent=0)
print()
