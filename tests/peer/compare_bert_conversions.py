"""Hugging Face's BERTs through triax convert and back, and what transformers and triax compute with them.

Models of random weights: BertForPreTraining and MegatronBertForPreTraining (gelu and gelu_new), BertForMaskedLM and
MegatronBertForMaskedLM, files in shards, pytorch_model.bin, files with the names that LayerNorm's weights once had; and
a run of Megatron's own. Each goes to every format that has it and back: fp32 weights must come back bit for bit. What
from_pretrained of the result computes for a padded batch must be what the original does, and triax fill-mask finds the
same probabilities within 1e-4.
Usage: compare_bert_conversions.py TRIAX DATA SCRATCH
"""
import json
import os
import shutil
import subprocess
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (BertConfig, BertForMaskedLM, BertForPreTraining, BertModel, MegatronBertConfig,
                          MegatronBertForMaskedLM, MegatronBertForPreTraining)

transformers.utils.logging.disable_progress_bar()
TRIAX, DATA, SCRATCH = sys.argv[1:4]
VOCAB = f"{DATA}/tiny/tiny-bert-vocab.txt"
WORDS = {w: i for i, w in enumerate(open(VOCAB, encoding="utf-8").read().split("\n")) if w}
PROMPTS = ["the [MASK] of the", "and [MASK] in [MASK] . [SEP] the of", "[MASK] to [MASK] [SEP] a the [MASK] of and to in",
           "in the the of [MASK]"]
CLASSES = {"BertForPreTraining": BertForPreTraining, "BertForMaskedLM": BertForMaskedLM,
           "MegatronBertForPreTraining": MegatronBertForPreTraining, "MegatronBertForMaskedLM": MegatronBertForMaskedLM}
SIZES = dict(num_hidden_layers=2, hidden_size=48, intermediate_size=104, num_attention_heads=4, vocab_size=len(WORDS),
             max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
torch.manual_seed(7)
failed = 0


def check(good, text):
    global failed
    failed += not good
    print(("ok    " if good else "WRONG ") + text, flush=True)


def triax(*args):
    return subprocess.run([TRIAX, *args], capture_output=True, text=True)


def convert(to, a, b, *more):
    done = triax("convert", "--to", to, a, b, *more)
    if done.returncode:
        check(False, f"convert --to {to} {a} {b} {more}: {done.stderr.strip()[-600:]}")
    return done.returncode == 0


def build(name, **more):
    """Random, and with the values that start at 0 or 1 moved away from there."""
    config = MegatronBertConfig if name.startswith("Megatron") else BertConfig
    model = CLASSES[name](config(**SIZES, **more)).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.05 * torch.randn_like(p))
    return model


def load(folder):
    name = json.load(open(f"{folder}/config.json"))["architectures"][0]
    model, info = CLASSES[name].from_pretrained(folder, output_loading_info=True)
    check(not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"],
          f"from_pretrained of {os.path.basename(folder)}, a {name}, misses nothing {info}")
    return model.eval()


def batch():
    """The prompts' ids as a padded batch, and where their masks are."""
    rows = []
    for p in PROMPTS:
        ids, types, second = [WORDS["[CLS]"]], [0], 0
        for w in p.split():
            ids.append(WORDS[w])
            types.append(second)
            second = second or int(w == "[SEP]")
        rows.append((ids + [WORDS["[SEP]"]], types + [second]))
    longest = max(len(i) for i, _ in rows)
    pad = [longest - len(i) for i, _ in rows]
    return dict(input_ids=torch.tensor([i + [0] * n for (i, _), n in zip(rows, pad)]),
                token_type_ids=torch.tensor([t + [0] * n for (_, t), n in zip(rows, pad)]),
                attention_mask=torch.tensor([[1] * len(i) + [0] * n for (i, _), n in zip(rows, pad)]))


def compute(model, one_segment):
    inputs = batch()
    if one_segment:
        inputs["token_type_ids"].zero_()
    with torch.no_grad():
        out = model(**inputs)
    words = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
    return words[inputs["attention_mask"].bool()], getattr(out, "seq_relationship_logits", None), words


def far(a, b):
    pairs = [(x, y) for x, y in zip(a[:2], b[:2]) if x is not None]
    return max((x - y).abs().max().item() for x, y in pairs)


def fill_mask(folder, model, one_segment):
    """Largest difference of log-probabilities, and of the segments' order, between triax and transformers."""
    done = triax("fill-mask", "--load", folder, "--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", VOCAB,
                 "--prompt", *PROMPTS, "--top", "1000", "--json", "--threads", "2")
    if done.returncode:
        check(False, f"fill-mask of {folder}: {done.stderr.strip()[-600:]}")
        return float("inf")
    inputs, most, seen = batch(), 0.0, 0
    _, order, words = compute(model, one_segment)
    for k, line in enumerate(done.stdout.splitlines()):
        got = json.loads(line)
        at = (inputs["input_ids"][k] == WORDS["[MASK]"]).nonzero().flatten().tolist()
        assert len(at) == len(got["masks"])
        for i, mask in zip(at, got["masks"]):
            want = words[k, i].log_softmax(-1)
            for guess in mask["top"]:
                most = max(most, abs(guess["logprob"] - want[guess["id"]].item()))
                seen += 1
        if "in_order" in got:
            most = max(most, abs(got["in_order"] - order[k].softmax(-1)[0].item()))
            seen += 1
    assert seen >= len(PROMPTS) * 900, seen
    return most


def differ(folder, model):
    """Tensors that are not the model's, and those of the model that are missing."""
    got, mine = load_file(f"{folder}/model.safetensors"), model.state_dict()
    tied = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "embeddings.position_ids")
    wrong = [k for k, x in got.items() if k not in mine or not torch.equal(x, mine[k])]
    return wrong + [k for k in mine if k not in got and not k.endswith(tied)]


def save(model, folder, how):
    if how == "bin":
        model.config.save_pretrained(folder)
        torch.save(model.state_dict(), f"{folder}/pytorch_model.bin")
    else:
        model.save_pretrained(folder, max_shard_size="60KB" if how == "shards" else "5GB")
    if how == "old names":
        old = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
               for k, v in load_file(f"{folder}/model.safetensors").items()}
        old["bert.embeddings.position_ids"] = torch.arange(40)[None]
        old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
        old["cls.predictions.decoder.bias"] = old["cls.predictions.bias"].clone()
        save_file(old, f"{folder}/model.safetensors")
    shutil.copy(VOCAB, f"{folder}/vocab.txt")


def without_binary(name, model, folder):
    """Here what the first segment adds is the positions', there a second kind of segment is as the first."""
    back = load(folder)
    check(far(compute(back, True), compute(model, True)) <= 1e-4, f"{name}: the same logits of one segment")
    check(far(compute(back, False), compute(back, True)) == 0, f"{name}: segments make no difference any more")
    again = f"{folder}-again"
    if convert("native", folder, f"{folder}-n") and convert("huggingface", f"{folder}-n", again):
        check(not differ(again, back), f"{name}: what has been through triax once comes back bit for bit")


MODELS = {
    "bert": ("BertForPreTraining", {}, ""),
    "bert-new": ("BertForPreTraining", {"hidden_act": "gelu_new"}, "shards"),
    "bert-bin": ("BertForPreTraining", {"layer_norm_eps": 1e-5}, "bin"),
    "bert-old": ("BertForPreTraining", {}, "old names"),
    "megatron": ("MegatronBertForPreTraining", {}, ""),
    "megatron-new": ("MegatronBertForPreTraining", {"hidden_act": "gelu_new"}, "bin"),
    "masked": ("BertForMaskedLM", {}, ""),
    "megatron-masked": ("MegatronBertForMaskedLM", {}, "shards"),
}

for name, (kind, more, how) in MODELS.items():
    model, first = build(kind, **more), f"{SCRATCH}/{name}"
    binary = kind.endswith("ForPreTraining")
    os.makedirs(first)
    save(model, first, how)
    distance = fill_mask(first, model, not binary)
    check(distance <= 1e-4, f"{name}: triax finds the probabilities that transformers does, within {distance:.3g}")
    formats = [("native", [])]
    if kind.startswith("Megatron"):
        formats += [("megatron", ["--target-tp", "2", "--target-pp", "2"]),
                    ("deepspeed", ["--target-tp", "2", "--target-dp", "2", "--target-zero-stage", "0"])]
    for form, flags in formats:
        between, back = f"{first}-{form}", f"{first}-{form}-back"
        if not convert(form, first, between, *flags):
            continue
        if not convert("huggingface", between, back, "--true-vocab-size", str(len(WORDS))):
            continue
        if not binary:
            without_binary(f"{name} through {form}", model, back)
            continue
        wrong = differ(back, model)
        check(not wrong, f"{name} through {form}: bit for bit the same {wrong[:3]}")
        distance = far(compute(load(back), False), compute(model, False))
        check(distance <= 1e-4, f"{name} through {form}: logits of from_pretrained differ by {distance:.3g}")
    check(os.path.exists(f"{first}-native-back/vocab.txt"), f"{name}: its vocabulary came along")

# a run of Megatron's own
real = f"{SCRATCH}/real"
if convert("huggingface", f"{DATA}/upstream/bert_classic_tp1", real):
    distance = fill_mask(f"{DATA}/upstream/bert_classic_tp1", load(real), False)
    check(distance <= 1e-4, f"Megatron's own BERT: the probabilities that transformers finds, within {distance:.3g}")

# a file without the head
bare = f"{SCRATCH}/bare"
BertModel(BertConfig(**SIZES)).save_pretrained(bare)
done = triax("convert", "--to", "native", bare, f"{bare}-out")
check(done.returncode and "masked-LM head is needed" in done.stderr, "a bare BertModel is refused with the reason")
sys.exit(1 if failed else 0)
