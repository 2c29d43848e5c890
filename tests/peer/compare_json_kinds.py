"""Compares triax's ids and text with Hugging Face tokenizers' for a tokenizer.json of every kind (json_kinds.py): each is trained here.

Texts: random strings over all planes, each character in a sample of places, the stored cases, and the files of TX_PEER_TEXT (JSON lines).
Usage: compare_json_kinds.py TRIAX DATA WORKDIR [STRINGS [SEED [NAME]]]     STRINGS: random ones for each kind; NAME: only kinds with it
"""
import json
import os
import random
import subprocess
import sys

from json_kinds import every, kinds, random_text

TRIAX, DATA, WORK = sys.argv[1:4]
STRINGS = int(sys.argv[4]) if len(sys.argv) > 4 else 3000
rng = random.Random(int(sys.argv[5]) if len(sys.argv) > 5 else 7)
ONLY = sys.argv[6] if len(sys.argv) > 6 else ""


def stored():
    out = []
    for name in [os.path.join(DATA, "token", x) for x in ("gpt2_cases.jsonl", "bert_cases.jsonl")] + os.environ.get("TX_PEER_TEXT", "").split():
        with open(name, encoding="utf-8") as f:
            out += [json.loads(x)["text"] for x in f]
    return [x for x in out if not any(0xD800 <= ord(c) < 0xE000 for c in x)]


def triax(command, path, lines):
    done = subprocess.run([TRIAX, command, "--tokenizer-type", "HFTokenizer", "--tokenizer-model", path], input="".join(x + "\n" for x in lines).encode(), capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return done.stdout


def report(what, ours, theirs, texts):
    wrong = [(t, a, b) for t, a, b in zip(texts, ours, theirs) if a != b]
    print(f"{what}: {len(wrong)} of {len(texts)} differ", flush=True)
    if wrong:
        print("the first: %a\ntriax %a\npeer  %a" % min(wrong, key=lambda w: len(str(w[0]))))
    return not wrong and len(ours) == len(theirs)


def decode(path, ids):
    """Texts between marks: a text may have line ends."""
    return triax("detokenize", path, [json.dumps(x) for x in ids])


cases = stored()
path = os.path.join(WORK, "tokenizer.json")
good = True
random_texts = [random_text(rng) for _ in range(STRINGS)]
for name, make in kinds(cases):
    if ONLY not in name:
        continue
    t = make()
    t.save(path)
    texts = random_texts + cases + [f"a{c}b {c} A{c}1 '{c} {c}'s \n{c}" for c in rng.sample(every, min(STRINGS, 4000))]
    theirs = [e.ids for e in t.encode_batch(texts)]
    ours = [json.loads(x) for x in triax("tokenize", path, [json.dumps({"text": x}) for x in texts]).splitlines()]
    good &= report(name, ours, theirs, texts)
    # back to text; bytes that are no UTF-8 the library shows one by one
    if "strip" in name:
        continue
    some = [x for x in theirs[:STRINGS] if x]
    texts = [t.decode(x, skip_special_tokens=False) for x in some]
    pairs = [(i, x) for i, x in zip(some, texts) if "\ufffd" not in x]
    got = decode(path, [i for i, _ in pairs]).decode(errors="replace")
    want = "".join(x + "\n" for _, x in pairs)
    if got != want:
        at = next((k for k in range(min(len(got), len(want))) if got[k] != want[k]), min(len(got), len(want)))
        print(f"{name}: other text: triax {got[max(0, at - 40):at + 20]!a}, peer {want[max(0, at - 40):at + 20]!a}")
        good = False
sys.exit(0 if good else 1)
