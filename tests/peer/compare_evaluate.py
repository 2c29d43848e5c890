"""Compares what triax evaluate says of a model with scores made from transformers' logits.

WikiText's overlapping perplexity by upstream's masks, the detokenizers by regular expressions, LAMBADA in both modes,
multiple choice as lm-evaluation-harness does it, and the log-probability of every token. Texts by chance and stored ones.
Usage: compare_evaluate.py TRIAX DATA WORKDIR [SEED]
"""
import json
import math
import os
import random
import re
import subprocess
import sys

import torch
from transformers import GPT2LMHeadModel, GPT2TokenizerFast

TRIAX, DATA, WORK = sys.argv[1:4]
rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 5)
MODEL = f"{DATA}/golden/generation/model"
FILES = [f"{DATA}/tiny/tiny-vocab.json", f"{DATA}/tiny/tiny-merges.txt"]
model = GPT2LMHeadModel.from_pretrained(MODEL).eval()
tokenizer = GPT2TokenizerFast(vocab=FILES[0], merges=FILES[1])
texts = [json.loads(line)["text"] for line in open(f"{DATA}/tiny/tiny-corpus.jsonl", encoding="utf-8")]


def path(name):
    return os.path.join(WORK, name)


def write(name, text):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), "w", encoding="utf-8", newline="") as f:
        f.write(text)
    return path(name)


def write_lines(name, lines):
    return write(name, "".join(json.dumps(x, ensure_ascii=rng.random() < 0.5) + "\n" for x in lines))


def triax(*flags):
    r = subprocess.run([TRIAX, "evaluate", "--load", MODEL, "--vocab-file", FILES[0], "--merge-file", FILES[1], "--json",
                        *map(str, flags)], capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"FAILED: triax evaluate {flags}: {r.stderr}")
    return [json.loads(line) for line in r.stdout.splitlines()]


def near(what, got, want, bound):
    if not abs(got - want) <= bound:
        sys.exit(f"FAILED: {what}: {got}, expected {want}")


def same(what, got, want):
    if got != want:
        sys.exit(f"FAILED: {what}: {got}, expected {want}")


def ids_of(text):
    return tokenizer(text, add_special_tokens=False)["input_ids"] if text else []


def logprobs(ids):
    """[len - 1, vocabulary]: of what comes after each but the last."""
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids[:-1]])).logits[0].double(), -1)


def taken(table, ids):
    return table[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]


# ---- windows ----

def windows(ids, seq, step):
    """Log-probability of every target, by upstream's sequences and masks; each exactly once."""
    n_targets = len(ids) - 1
    n_windows = max(math.ceil(max(n_targets - step, 0) / step) + 1, 1)
    out = {}
    for w in range(n_windows):
        piece = ids[w * step:w * step + seq + 1]
        mask = [1] * (len(piece) - 1) + [0] * (seq - len(piece) + 1)
        if step != seq and w:
            mask[:-step] = [0] * (seq - step)
        if not any(mask):
            continue
        p = taken(logprobs(piece), piece)
        for i, counts in enumerate(mask):
            if counts:
                assert w * step + i + 1 not in out
                out[w * step + i + 1] = p[i].item()
    assert sorted(out) == list(range(1, n_targets + 1))
    return [out[i] for i in range(1, n_targets + 1)]


RULES = {
    "ptb": [(" '", "'"), (" \n", "\n"), ("\n ", "\n"), (" n't", "n't"), (" N ", "1 "), ("$ 1", "$1"), ("# 1", "#1")],
    "wiki": [("s '", "s'"), (re.compile("/' [0-9]/"), "/'[0-9]/"), (" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", ".")] +
            [(f" {c} ", f"{c} ") for c in ":;.!?,"] +
            [(re.compile(rf"{a}\s*([^{b}]*?)\s*{b}"), end[0] + r"\1" + end[1])
             for a, b, end in [(r"\(", r"\)", "()"), (r"\[", r"\]", "[]"), ("{", "}", "{}"), ('"', '"', '""'), ("'", "'", "''")]] +
            [("= = = =", "===="), ("= = =", "==="), ("= =", "=="), (" ° ", "°"), (" \n", "\n"), ("\n ", "\n"), (" N ", " 1 "), (" 's", "'s")],
    "none": [],
}


def detokenize(which, text):
    for a, b in RULES[which]:
        text = text.replace(a, b) if isinstance(a, str) else a.sub(b, text)
    return text


SPACED = ["@-@", "@,@", "@.@", ".", ",", ";", ":", "!", "?", "(", ")", "[", "]", "{", "}", '"', "'", "'s", "s '", "n't", "N", "= = =",
          "= =", "= = = =", "°", "\n", "\n\n", "/' 5/", "$ 1", "# 1", "\u00a0", "\u3000", "\t", " ", "he", "was", "The", "2000", "x"]


def wikitext():
    n = 0
    for i in range(16):
        words = " ".join(texts[rng.randrange(len(texts))] for _ in range(2)).split(" ")[:rng.choice([4, 40, 90])]
        text = " ".join(w for x in words for w in [x, *rng.choices(SPACED, k=rng.randint(0, 2))])
        text = rng.choice(["", " \n", "\u2003"]) + text + rng.choice(["", "\n ", " "])
        which = rng.choice(list(RULES))
        name = write({"wiki": f"wiki/{i}", "ptb": f"ptb/{i}", "none": f"plain/{i}"}[which], text)
        if which == "none" and rng.random() < 0.3:
            which, flags = "wiki", ["--detokenizer", "wiki"]
        else:
            flags = []
        clean = detokenize(which, text)
        ids = ids_of(clean)
        if len(ids) < 2 or " " not in text.strip():
            continue
        seq = rng.choice([16, 48, 128])
        step = rng.choice([1 if len(ids) < 60 else 11, seq // 2, seq])
        p = windows(ids, seq, step)
        loss = -sum(p) / len(p)
        ratio = (len(ids) - 1) / (len(text.strip().split(" ")) - 1)
        got, = triax("--task", "WIKITEXT103", "--valid-data", name, "--seq-length", seq, "--overlapping-eval", step, *flags)
        what = f"WIKITEXT103 {i} ({which}, {seq}, {step}): "
        same(what + "targets", got["targets"], len(p))
        same(what + "token ratio", got["token_ratio"], float(f"{ratio:.12g}"))
        near(what + "loss", got["loss"], loss, 1e-4)
        near(what + "ppl", math.log(got["ppl"]), min(20, loss), 1e-4)
        near(what + "adjusted ppl", math.log(got["adjusted_ppl"]), min(20, loss * ratio), 1e-4 * max(1, ratio))
        n += len(p)
    assert n > 1000
    print(f"texts as WIKITEXT103, {n} targets: equal")


def tokens():
    documents = [texts[i] for i in range(3)] + ["", "a", "naïve € 中\U0001F600"]
    name = write_lines("documents.jsonl", [{"text": t} for t in documents])
    out = triax("--valid-data", name, "--per-token", "--seq-length", 64, "--overlapping-eval", 40)
    lines, result = out[:-1], out[-1]
    at = worst = n_bytes = nats = 0
    for d, text in enumerate(documents):
        ids = ids_of(text)
        if len(ids) < 2:
            continue
        p = windows(ids, 64, 40)
        n_bytes += len(text.encode()) - len(tokenizer.convert_ids_to_tokens(ids[0]))
        nats -= sum(p)
        for i, token in enumerate(ids):
            line = lines[at]
            at += 1
            same("a token's document and id", (line["document"], line["id"]), (d, token))
            if i == 0:
                same("the first token", (line["logprob"], line["rank"]), (None, None))
                continue
            worst = max(worst, abs(line["logprob"] - p[i - 1]))
        if len(ids) <= 65:  # one window: ranks, where nothing is as near as 1e-4
            table = logprobs(ids)
            for i, token in enumerate(ids[1:]):
                row = table[i]
                others = torch.cat([row[:token], row[token + 1:]])
                if (others - row[token]).abs().min() > 1e-4:
                    same("a token's rank", lines[at - len(ids) + i + 1]["rank"], 1 + int((others > row[token]).sum()))
    same("lines of tokens", len(lines), at)
    near("log-probability of the worst token", worst, 0, 1e-4)
    near("bits per byte", result["bits_per_byte"], nats / math.log(2) / n_bytes, 1e-4)
    print(f"{at} tokens: log-probabilities within {worst:.1e}")


def lambada():
    lines = [json.loads(x) for x in open(f"{DATA}/golden/generation/greedy.jsonl", encoding="utf-8")]
    examples = [x["prompt"] + x["text"] for x in lines]  # what the model itself says next
    examples += [" ".join(t.split(" ")[:rng.randint(4, 30)]) for t in rng.sample(texts, 40)]
    examples = [x for x in examples if len(x.split()) > 1]
    examples += [x + rng.choice([" ", "\n", "\u00a0", ""]) for x in examples[:10]]
    name = write_lines("lambada.jsonl", [{"text": t} for t in examples])
    for strict in (False, True):
        correct = nats = targets = close = 0
        for text in examples:
            if strict:
                word = text.split()[-1]
                first, target = ids_of(text[:text.rfind(word)].strip()), ids_of(" " + word)
            else:
                ids = ids_of(text)
                first, target = ids[:-1], ids[-1:]
            ids = (first + target)[-129:]
            table = logprobs(ids)[-len(target):]
            best = table.topk(2, -1)
            correct += bool((best.indices[:, 0] == torch.tensor(target)).all())
            close += bool((best.values[:, 0] - best.values[:, 1]).min() < 1e-4)
            nats -= sum(table[i, t].item() for i, t in enumerate(target))
            targets += len(target)
        got, = triax("--task", "LAMBADA", "--valid-data", name, *(["--strict-lambada"] if strict else []))
        same("LAMBADA's examples and targets", (got["examples"], got["targets"]), (len(examples), targets))
        near("LAMBADA's correct ones", got["correct"], correct, close)
        near("LAMBADA's accuracy", got["accuracy"], got["correct"] / len(examples), 1e-9)
        near("LAMBADA's loss", got["loss"], nats / targets, 1e-4)
        assert correct >= 5
        print(f"LAMBADA, strict {strict}: {correct} of {len(examples)}, {close} of them too close to tell")


def choices():
    questions = []
    for _ in range(60):
        t = rng.choice(texts).split(" ")
        at = rng.randint(1, max(1, min(len(t) - 2, 25)))
        right = " ".join(t[at:at + rng.randint(1, 6)])[:40] or "end"
        wrong = [" ".join(rng.choice(texts).split(" ")[:rng.randint(1, 8)])[:40] or "no" for _ in range(rng.randint(1, 4))]
        answer = rng.randint(0, len(wrong))
        context = " ".join(t[:at]) + rng.choice(["", "", "", " ", ":\n"])
        questions.append({"context": context if rng.random() < 0.95 else "", "choices": wrong[:answer] + [right] + wrong[answer:],
                          "answer": answer})
    name = write_lines("choices.jsonl", questions)
    correct = correct_norm = close = close_norm = nats = targets = 0
    for q in questions:
        sums, norms = [], []
        for i, choice in enumerate(q["choices"]):
            context = q["context"]
            blank = " " if context and not context[-1].isspace() and not choice[:1].isspace() else ""
            whole = ids_of(context + blank + choice)
            n = len(ids_of(context.rstrip()))
            if not context.strip():
                whole, n = [tokenizer.eos_token_id] + whole, 1
            n_targets = len(whole) - n
            whole = whole[-129:]
            p = taken(logprobs(whole), whole)[-n_targets:]
            sums.append(p.sum().item())
            norms.append(p.sum().item() / len(choice))
            if i == q["answer"]:
                nats -= sums[-1]
                targets += n_targets
        correct += max(range(len(sums)), key=sums.__getitem__) == q["answer"]
        correct_norm += max(range(len(norms)), key=norms.__getitem__) == q["answer"]
        close += len(sums) > 1 and sorted(sums)[-1] - sorted(sums)[-2] < 1e-3
        close_norm += len(norms) > 1 and sorted(norms)[-1] - sorted(norms)[-2] < 1e-4
    got, = triax("--task", "multiple-choice", "--valid-data", name)
    same("questions and targets", (got["examples"], got["targets"]), (len(questions), targets))
    near("right choices", got["correct"], correct, close)
    near("right choices by characters", got["correct_norm"], correct_norm, close_norm)
    near("loss of the right choices", got["loss"], nats / targets, 1e-4)
    print(f"multiple choice: {correct} and {correct_norm} of {len(questions)}, {close} and {close_norm} too close to tell")


wikitext()
tokens()
lambada()
choices()
