"""Makes tests/data/token/json_kinds: a small tokenizer.json of each kind, trained by Hugging Face tokenizers, and texts with the library's
ids and its text of those ids, in bytes as UTF-8.

Usage: make_json_kinds.py DATA      (tests/data)
"""
import json
import os
import random
import sys
import tempfile

import json_kinds
from json_kinds import kinds, random_text

DATA = sys.argv[1]
out = os.path.join(DATA, "token", "json_kinds")
os.makedirs(out, exist_ok=True)
KEEP = {"llama 2, added tokens": "llama2", "mistral v3": "mistral", "gemma": "gemma", "clip": "clip", "gpt-1": "gpt1", "prefixes": "prefixes",
        "some byte symbols": "symbols", "bytes after an unknown expression": "expression", "bert": "bert", "bert, cased": "bert-cased",
        "wordpiece, short words, accents": "short-words", "words 4": "words4", "words 5": "words5", "words 9": "words9", "t5": "t5",
        "unigram, first word, no cuts": "first-word", "unigram, bytes": "unigram-bytes"}


def few_rules(name):
    """SentencePiece's own map has 240 KB; this one has some of its rules."""
    import io

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    rules = {"\u00a0": " ", "\t": " ", "\n": " ", "\u200b": "", "\ufb01": "fi", "\u00c5": "A\u030a", "\u0e33": "\u0e4d\u0e32", "e\u0301": "\u00e9", "\u2167": "VIII",
             "\uff41": "a", "\uff42": "b", "\u3000": " ", "\u00bd": "1\u20442", "\u0130": "i\u0307", "\u30ab\u3099": "\u30ac"}
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
        for a, b in rules.items():
            f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
        f.flush()
        model_out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c d e f g"] * 20), model_writer=model_out, vocab_size=12, minloglevel=2,
                                                 normalization_rule_tsv=f.name, hard_vocab_limit=False)
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(model_out.getvalue())
    return model.normalizer_spec.precompiled_charsmap


json_kinds.charsmap = few_rules
with open(os.path.join(DATA, "token", "bert_cases.jsonl"), encoding="utf-8") as f:
    texts = [json.loads(x)["text"] for x in f]
texts = [x for x in texts if len(x) < 300 and not any(0xD800 <= ord(c) < 0xE000 for c in x)]
latin = [x for x in texts if all(ord(c) < 0x180 for c in x)]  # Unigram takes all characters that it sees
unigrams = {name: make for name, make in kinds(latin, 280)}
for name, make in kinds(texts, 280):
    if name not in KEEP:
        continue
    t = unigrams[name]() if KEEP[name] in ("t5", "first-word", "unigram-bytes") else make()
    rng = random.Random(11)
    path = os.path.join(out, KEEP[name] + ".json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(json.loads(t.to_str()), f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    with open(os.path.join(out, KEEP[name] + ".jsonl"), "w", encoding="utf-8") as f:
        for text in json_kinds.words + [random_text(rng) for _ in range(60)] + rng.sample(texts, 20):
            ids = t.encode(text).ids
            decoded = t.decode(ids, skip_special_tokens=False) if ids else ""
            row = {"text": text, "ids": ids}
            if "\ufffd" not in decoded:  # the library's way of showing bytes that are no UTF-8
                row["decoded"] = decoded
            f.write(json.dumps(row, separators=(",", ":")) + "\n")
    print(KEEP[name], os.path.getsize(path))
