"""Makes tests/data/token/tiktoken: a small vocabulary as lines and as Megatron Core's JSON, and texts with tiktoken's ids by each pattern.

Usage: make_tiktoken.py DATA      (tests/data)
"""
import ast
import base64
import json
import os
import random
import sys

import tiktoken
from json_kinds import random_text, words
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

DATA = sys.argv[1]
out = os.path.join(DATA, "token", "tiktoken")
os.makedirs(out, exist_ok=True)
# the patterns of compare_tiktoken.py, without running it
source = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "compare_tiktoken.py"), encoding="utf-8").read()
chosen = [x for x in ast.parse(source).body if isinstance(x, ast.Assign) and ast.unparse(x.targets[0]) in ("SUFFIX", "(UP, LOW, BEFORE, SPACE)", "R50K", "PATTERNS")]
exec(compile(ast.Module(chosen, []), "patterns", "exec"))
with open(os.path.join(DATA, "token", "bert_cases.jsonl"), encoding="utf-8") as f:
    texts = [json.loads(x)["text"] for x in f]
texts = [x for x in texts if len(x) < 300 and not any(0xD800 <= ord(c) < 0xE000 for c in x)]
t = Tokenizer(models.BPE())
t.pre_tokenizer = pre_tokenizers.ByteLevel(False)
t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
vocab = t.get_vocab()
latin = [*range(33, 127), *range(161, 173), *range(174, 256)]
symbol = {chr(b): b for b in latin}
symbol.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in latin)})
ranks = {bytes(symbol[c] for c in x): vocab[x] for x in sorted(vocab, key=vocab.get)}
with open(os.path.join(out, "small.tiktoken"), "w", encoding="ascii") as f:
    for token, rank in ranks.items():
        f.write(f"{base64.b64encode(token).decode()} {rank}\n")
ordered = [bytes([b]) for b in range(256)] + [x for x in ranks if len(x) > 1]
with open(os.path.join(out, "small-core.json"), "w", encoding="ascii") as f:
    json.dump([{"rank": i, "token_bytes": base64.b64encode(x).decode(), "token_str": x.decode(errors="replace")} for i, x in enumerate(ordered)], f, separators=(",", ":"))
    f.write("\n")
special = {x: i for i, x in enumerate(["<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>", "<SPECIAL_7>", "<SPECIAL_8>", "<SPECIAL_9>"])}
more = words + ["a\n  ", " \n", "\n\n  ", "<SPECIAL_8>", "<|endoftext|>x"]
with open(os.path.join(out, "ids.jsonl"), "w", encoding="ascii") as f:
    for name, pattern in PATTERNS.items():
        rng = random.Random(5)
        for file in ("small.tiktoken", "small-core.json") if name[0] == "v" else ("small.tiktoken",):
            core = file.endswith("json")
            peer = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks={x: i + 10 for i, x in enumerate(ordered)} if core else ranks,
                                     special_tokens=special if core else {"<|endoftext|>": len(ranks)})
            for text in rng.sample(more, 22) + [random_text(rng) for _ in range(14)] + rng.sample(texts, 5):
                f.write(json.dumps({"file": file, "pattern": name, "text": text, "ids": peer.encode(text, allowed_special="all")}, separators=(",", ":")) + "\n")
