# make.py > result.json: the GPT-2 of ../gpt2 learns from the Llama of ../llama, in fp64: 10 steps of AdamW by PyTorch, clipping at 1,
# batches as in ../gpt2/result.json. The objective is the lm loss and factor T^2 KLDivLoss(batchmean) of softmaxes divided by T,
# the sum over tokens divided by samples and by length, as Megatron-DeepSpeed's calculate_mos_loss has it. Of the first step
# each gradient's norm and its product with cos(0), cos(1), ... in row-major order.
import json
import os
import sys
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    return AutoModelForCausalLM.from_pretrained(f"{HERE}/../{name}", dtype=torch.float64, attn_implementation="eager").eval()


def run(factor, T):
    student, teacher = load("gpt2"), load("llama")
    matrices = [p for p in student.parameters() if p.dim() == 2]
    others = [p for p in student.parameters() if p.dim() != 2]
    adam = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], lr=1e-3,
                             betas=(0.9, 0.999), eps=1e-8)
    batches = json.load(open(f"{HERE}/../gpt2/train_batches.json"))
    steps, gradients = [], {}
    for i in range(10):
        rows = torch.tensor(batches[i % 5]["input_ids"])
        ids, labels = rows[:, :-1], rows[:, 1:]
        with torch.no_grad():
            taught = teacher(ids).logits
        logits = student(ids).logits
        lm = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        kl = torch.nn.KLDivLoss(reduction="batchmean")(F.log_softmax(logits / T, dim=2), F.softmax(taught / T, dim=2))
        kd = factor * T * T * kl / ids.shape[1]
        adam.zero_grad()
        (lm + kd).backward()
        if not i:
            for name, p in student.named_parameters():
                g = p.grad.flatten()
                gradients[name] = [g.norm().item(), (g * torch.cos(torch.arange(g.numel(), dtype=torch.float64))).sum().item()]
        norm = torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        steps.append({"lm": lm.item(), "kd": kd.item(), "grad_norm": norm.item()})
        adam.step()
    return {"factor": factor, "temperature": T, "steps": steps, "gradients": gradients}


json.dump([run(1.0, 1.0), run(0.5, 2.0)], sys.stdout, indent=0)
print()
