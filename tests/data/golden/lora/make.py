"""make.py - what is in this folder: adapters of PEFT's beside the models of ../gpt2 and ../llama, in fp64.

Written for each: the adapter as PEFT saves it, with a B that is not 0; of the first batch the loss and the gradients of
A and B; losses and gradient norms of 10 steps of AdamW.

    python3 make.py
"""
import json
import os
import shutil

import safetensors.torch
import torch
import transformers
from peft import LoraConfig, get_peft_model

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = {
    "gpt2": ["c_attn", "c_proj", "c_fc"],
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
}
torch.manual_seed(40)


def name_of(parameter):
    return parameter.replace(".default.", ".")


def adapted(base, targets):
    model = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(HERE, "..", base), dtype=torch.float32)
    config = LoraConfig(r=3, lora_alpha=6, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM",
                        fan_in_fan_out=base == "gpt2")
    model = get_peft_model(model, config)
    for name, p in model.named_parameters():
        if "lora_" in name:
            with torch.no_grad():
                p.copy_(0.2 * torch.randn(p.shape))
    return model


def save(model, out):
    model.save_pretrained(out)
    os.remove(os.path.join(out, "README.md"))
    path = os.path.join(out, "adapter_config.json")
    config = json.load(open(path))
    config["base_model_name_or_path"] = None
    config["target_modules"] = sorted(config["target_modules"])
    json.dump(config, open(path, "w"), indent=1, sort_keys=True)


def loss_of(model, batch):
    ids = torch.tensor(batch["input_ids"])
    logits = model(ids[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


for base, targets in CASES.items():
    out = os.path.join(HERE, base)
    shutil.rmtree(out, ignore_errors=True)
    model = adapted(base, targets)
    save(model, out)
    model = model.double()
    own = {name_of(n): p for n, p in model.named_parameters() if p.requires_grad}
    batches = json.load(open(os.path.join(HERE, "..", base, "train_batches.json")))
    optimizer = torch.optim.AdamW(own.values(), lr=1e-3, weight_decay=0.01)
    steps = []
    for i in range(10):
        optimizer.zero_grad()
        loss = loss_of(model, batches[i % 5])
        loss.backward()
        if i == 0:
            grads = {n: p.grad.float() for n, p in own.items()}
            safetensors.torch.save_file(grads, os.path.join(out, "grads.safetensors"))
        norm = torch.nn.utils.clip_grad_norm_(own.values(), 1.0)
        optimizer.step()
        steps.append({"loss": loss.item(), "grad_norm": norm.item()})
    json.dump({"steps": steps}, open(os.path.join(out, "result.json"), "w"), indent=1)
