"""compare_adapters.py TRIAX DATA WORK - adapters of triax's in PEFT and back, logits within 1e-5.

    triax trains adapters  --to peft-->  PEFT's logits   =  those of what triax has merged
    PEFT makes an adapter  -->  triax merges it          =  PEFT's own logits, and its merge_and_unload()
"""
import os
import subprocess
import sys

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model

TRIAX, DATA, WORK = sys.argv[1:4]
BOUND = 1e-5
TARGETS = {"gpt2": ["c_attn", "c_proj", "c_fc"], "llama": ["q_proj", "v_proj", "o_proj", "up_proj"]}
IDS = torch.arange(2 * 24).reshape(2, 24) * 7 % 500


def triax(*words):
    done = subprocess.run([TRIAX, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"FAILED: triax {' '.join(words)}\n{done.stderr}")


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def compare(what, a, b):
    with torch.no_grad():
        x, y = a(IDS).logits, b(IDS).logits
    off = (x - y).abs().max().item()
    print(f"{what}: largest difference {off:.2e} of logits up to {x.abs().max().item():.2f}")
    if not off < BOUND:
        sys.exit(f"FAILED: {what}: more than {BOUND}")


def of_triax(model, base):
    run, adapter, merged = (os.path.join(WORK, f"{model}-{x}") for x in ("run", "adapter", "merged"))
    triax("pretrain-gpt", "--load", base, "--lora-rank", "4", "--lora-alpha", "16", "--lora-targets", *TARGETS[model],
          "--seq-length", "24", "--micro-batch-size", "2", "--train-iters", "10", "--lr", "1e-2", "--mock-data",
          "--eval-iters", "0", "--tokenizer-type", "NullTokenizer", "--vocab-size", "511", "--save", run)
    triax("convert", "--to", "peft", "--lora-base", base, run, adapter)
    triax("convert", "--to", "huggingface", "--merge-lora", run, merged)
    ours = PeftModel.from_pretrained(load(base), adapter).eval()
    with torch.no_grad():
        moved = (ours(IDS).logits - load(base)(IDS).logits).abs().max().item()
    if not moved > 1e-2:
        sys.exit(f"FAILED: {model}: the adapter does next to nothing ({moved:.1e})")
    compare(f"{model}, trained by triax", ours, load(merged))


def of_peft(model, base):
    adapter, merged = os.path.join(WORK, f"{model}-peft"), os.path.join(WORK, f"{model}-peft-merged")
    config = LoraConfig(r=5, lora_alpha=7, target_modules=TARGETS[model], fan_in_fan_out=model == "gpt2", task_type="CAUSAL_LM")
    theirs = get_peft_model(load(base), config).eval()
    for name, p in theirs.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(p, std=0.1)
    theirs.save_pretrained(adapter)
    triax("convert", "--to", "huggingface", "--merge-lora", "--lora-base", base, adapter, merged)
    compare(f"{model}, made by PEFT", theirs, load(merged))
    compare(f"{model}, merged by both", theirs.merge_and_unload(), load(merged))


torch.manual_seed(1)
for model in TARGETS:
    of_triax(model, os.path.join(DATA, "golden", model))
    of_peft(model, os.path.join(DATA, "golden", model))
