"""Makes model.safetensors, config.json, train_batches.json, result.json and the final parameters: a 2-layer GPT-2 of
Hugging Face transformers, trained for 200 steps by each of these classes, torch's in fp64, DeepSpeed's in fp32, which
is all that they know:

    adam_l2     torch.optim.Adam, whose weight decay is part of the gradient
    nesterov    torch.optim.SGD with Nesterov's momentum
    dampened    torch.optim.SGD with dampening
    adagrad     torch.optim.Adagrad
    ds_adagrad  DeepSpeed's DeepSpeedCPUAdagrad, which compiles itself
    lion        DeepSpeed's DeepSpeedCPULion, likewise

    python make.py [FOLDER]
"""
import json
import os
import shutil
import sys
import tempfile

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

VOCAB, S, B, STEPS, N_BATCHES = 61, 16, 4, 200, 5
OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def deepspeed_adagrad(groups, **more):
    from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad
    return DeepSpeedCPUAdagrad(groups, **more)


def deepspeed_lion(groups, **more):
    from deepspeed.ops.lion import DeepSpeedCPULion
    return DeepSpeedCPULion(groups, **more)


# Flags of triax, and the class with what these say. Lion's 1 - lr weight_decay is a number of fp32, or DeepSpeed would
# round it the same way 200 times.
RUNS = {
    "adam_l2": ("--no-decoupled-weight-decay --weight-decay 0.1 --adam-beta2 0.95 --adam-eps 1e-6", torch.optim.Adam,
                {"lr": 5e-4, "weight_decay": 0.1, "betas": (0.9, 0.95), "eps": 1e-6}),
    "nesterov": ("--optimizer sgd --sgd-nesterov --sgd-momentum 0.9 --weight-decay 0.1", torch.optim.SGD,
                 {"lr": 2e-3, "weight_decay": 0.1, "momentum": 0.9, "nesterov": True}),
    "dampened": ("--optimizer sgd --sgd-dampening 0.25 --sgd-momentum 0.8 --weight-decay 0.1", torch.optim.SGD,
                 {"lr": 5e-3, "weight_decay": 0.1, "momentum": 0.8, "dampening": 0.25}),
    "adagrad": ("--optimizer adagrad --adagrad-eps 1e-6 --weight-decay 0.1", torch.optim.Adagrad,
                {"lr": 1e-2, "weight_decay": 0.1, "eps": 1e-6}),
    "ds_adagrad": ("--optimizer adagrad --adagrad-eps 1e-6 --weight-decay 0.1", deepspeed_adagrad,
                   {"lr": 1e-2, "weight_decay": 0.1, "eps": 1e-6}),
    "lion": ("--optimizer lion --lion-beta1 0.9 --lion-beta2 0.99 --weight-decay 0.125", deepspeed_lion,
             {"lr": 2 ** -19, "weight_decay": 0.125, "betas": (0.9, 0.99)}),
}


def loss_of(model, batch):
    logits = model(input_ids=batch[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def train(start, batches, make, more):
    model = GPT2LMHeadModel(start.config).eval()
    model.load_state_dict(start.state_dict())
    model.to(torch.float32 if make in (deepspeed_adagrad, deepspeed_lion) else torch.float64)
    named = list(model.named_parameters())
    rest = {k: v for k, v in more.items() if k != "weight_decay"}
    groups = [{"params": [p for _, p in named if p.ndim > 1], "weight_decay": more["weight_decay"]},
              {"params": [p for _, p in named if p.ndim == 1], "weight_decay": 0.0}]
    optimizer = make(groups, **rest)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, batches[step % N_BATCHES])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, {n: p.detach().to(torch.float32).clone().contiguous() for n, p in named}


def main():
    torch.manual_seed(41)
    torch.set_num_threads(1)
    config = GPT2Config(vocab_size=VOCAB, n_positions=S, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0,
                        attn_pdrop=0, bos_token_id=VOCAB - 1, eos_token_id=VOCAB - 1)
    start = GPT2LMHeadModel(config)
    with torch.no_grad():
        for p in start.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    batches = [torch.randint(0, VOCAB, (B, S + 1)) for _ in range(N_BATCHES)]
    os.makedirs(OUT, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        start.save_pretrained(folder)
        for file in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(folder, file), OUT)
    with open(os.path.join(OUT, "train_batches.json"), "w") as f:
        json.dump([{"input_ids": b.tolist()} for b in batches], f)
    result = {}
    for name, (flags, make, more) in RUNS.items():
        losses, final = train(start, batches, make, more)
        result[name] = {"flags": flags, "lr": more["lr"], "losses": losses}
        save_file({f"transformer.{n}" if not n.startswith("transformer.") else n: p for n, p in final.items()},
                  os.path.join(OUT, f"{name}.safetensors"))
        print(name, losses[0], losses[-1])
    with open(os.path.join(OUT, "result.json"), "w") as f:
        json.dump(result, f, indent=1)


main()
