"""Makes tests/data/token/sp-*.model and sp_ids.jsonl with the sentencepiece library.

Usage: make_sentencepiece.py DATA      the models that compare_sentencepiece.py trains, some of them, and texts with their ids
"""
import importlib.util
import json
import os
import sys

import sentencepiece as spm

DATA = sys.argv[1]
OUT = os.path.join(DATA, "token")
MODELS = {"sp-unigram": "uni", "sp-unigram-user": "uni_user", "sp-unigram-suffix": "uni_suffix_id", "sp-bpe-bytes": "bpe_bytes",
          "sp-bpe-unused": "bpe_unused_id", "sp-char": "char_id", "sp-word": "word_id"}
N = 60  # texts for each

sys.argv = ["", "", DATA, OUT, "0", "11"]
spec = importlib.util.spec_from_file_location("compare", os.path.join(os.path.dirname(os.path.abspath(__file__)), "compare_sentencepiece.py"))
c = importlib.util.module_from_spec(spec)
spec.loader.exec_module(c)
IDENTITY = dict(normalization_rule_name="identity")
c.MODELS |= {"uni_suffix_id": c.MODELS["uni_suffix"] | IDENTITY | dict(vocab_size=600), "bpe_unused_id": c.BPE | IDENTITY | dict(vocab_size=700),
             "char_id": c.MODELS["char"] | IDENTITY, "word_id": c.MODELS["word"] | IDENTITY | dict(vocab_size=500)}
with open(os.path.join(OUT, "sp_ids.jsonl"), "w", encoding="utf-8") as f:
    for name, model in MODELS.items():
        path = c.train(model)
        if model == "bpe_unused_id":
            c.mark_unused(path)
        os.rename(path, os.path.join(OUT, name + ".model"))
        sp = spm.SentencePieceProcessor(model_file=os.path.join(OUT, name + ".model"))
        m = c.Megatron(sp, 2)
        texts = ["", " ", "   ", "Hello  world", "a" * 70, "foo bar ab abcab <sep> <ctl>", "aaa " * 30] + [c.text() for _ in range(N)]
        for t in texts:
            ids = sp.encode(t)
            f.write(json.dumps({"model": name, "text": t, "ids": ids, "decoded": sp.decode(ids)}) + "\n")
        for t in texts[-8:]:
            t = "<CLS>" + t + "<EOD><extra_id_1>" + t[:5]
            ids = m.encode(t)
            f.write(json.dumps({"model": name, "text": t, "ids": ids, "decoded": m.decode(ids), "marks": True}) + "\n")
        for _ in range(15):
            ids = [c.rng.randrange(len(sp)) for _ in range(c.rng.randint(1, 12))]
            f.write(json.dumps({"model": name, "ids": ids, "decoded": sp.decode(ids)}) + "\n")
