"""Ids and masks of TRL's SFTTrainer, for test_conversation.c and test_pack_rows.c.

    python make.py        with trl 1.16.0, transformers 5.24.0, tokenizers; writes tokenizer.json, conversations.jsonl,
                          expected.jsonl and packed.json beside itself
"""
import json
import os
import random

import torch
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

HERE = os.path.dirname(os.path.abspath(__file__))
TINY = os.path.join(HERE, "..", "tiny")
EOS, ROW = "<|endoftext|>", 192

# The templates that the first models of each kind were published with, and {% generation %} around content and end.
TEMPLATES = {
    "chatml": "{% for message in messages %}{% if message['role'] == 'assistant' %}{{ '<|im_start|>assistant\n' }}"
              "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% else %}"
              "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endif %}"
              "{% endfor %}",
    "qwen2.5": "{% if messages[0]['role'] == 'system' %}{{ '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}"
               "{% else %}{{ '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
               "<|im_end|>\n' }}{% endif %}{% for message in messages %}{% if message.role == 'user' %}"
               "{{ '<|im_start|>user\n' + message.content + '<|im_end|>\n' }}{% elif message.role == 'assistant' %}"
               "{{ '<|im_start|>assistant\n' }}{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}"
               "{{ '\n' }}{% endif %}{% endfor %}",
    "llama2": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
              "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
              "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
              "{% if loop.index0 == 0 and system_message != false %}"
              "{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}{% else %}"
              "{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
              "{{ '<s>' + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' }}"
              "{% generation %}{{ content.strip() + ' ' + eos_token }}{% endgeneration %}{% endif %}{% endfor %}",
    "llama3": "{% for message in messages %}{% if loop.index0 == 0 %}{{ '<|begin_of_text|>' }}{% endif %}"
              "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}{% if message['role'] == 'assistant' %}"
              "{% generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}{% else %}"
              "{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %}",
    "zephyr": "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' }}{% if message['role'] == 'assistant' %}"
              "{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}{% else %}"
              "{{ message['content'] + eos_token }}{% endif %}{{ '\n' }}{% endfor %}",
    "alpaca": "{% for message in messages %}{% if message['role'] == 'system' %}{{ message['content'] + '\n\n' }}"
              "{% elif message['role'] == 'user' %}{{ '### Instruction:\n' + message['content'] + '\n\n' }}{% else %}"
              "{{ '### Response:\n' }}{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}{{ '\n\n' }}"
              "{% endif %}{% endfor %}",
}

# What the prompt ends with, where the answer is asked for.
ASKS = {"chatml": "<|im_start|>assistant\n", "llama3": "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "zephyr": "<|assistant|>\n", "alpaca": "### Response:\n"}


def make_tokenizer():
    vocab = json.load(open(os.path.join(TINY, "tiny-vocab.json"), encoding="utf-8"))
    lines = open(os.path.join(TINY, "tiny-merges.txt"), encoding="utf-8").read().split("\n")
    merges = [tuple(l.split(" ")) for l in lines if l and not l.startswith("#version")]
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, normalized=False) for s in (
        EOS, "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<|begin_of_text|>", "<|start_header_id|>",
        "<|end_header_id|>", "<|eot_id|>")])
    first = t.token_to_id("<|begin_of_text|>")
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A $B",
                                      special_tokens=[("<|begin_of_text|>", first)])])
    t.save(os.path.join(HERE, "tokenizer.json"))
    return PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer.json"), eos_token=EOS, pad_token=EOS)


WORDS = ("the of and a to in he was that it his her with as had for she not at but be on they have him is said me which "
         "by so this all from you little very old water bird stone light river friend answer seven don't it's").split()
ODD = ["  two blanks before", "one after ", "\nlines\n\nof it\n", "na\u00efve \u4f60\u597d \U0001F600", "{eos} {% raw %}", "a<|im_end|>b",
       "x", "1234 + 5678 = 6912", "\ttab"]


def text(r, n):
    return r.choice(ODD) if r.random() < 0.25 else " ".join(r.choice(WORDS) for _ in range(r.randint(1, n)))


def make_samples():
    r = random.Random(7)
    names, samples = list(TEMPLATES), []
    for i in range(50):
        if i % 10 < 3:
            completion = (" " if r.random() < 0.6 else "") + text(r, 25)
            if i == 11:
                completion += EOS
            samples.append((None, {"prompt": text(r, 25) if i else "", "completion": completion}))
            continue
        m = [{"role": "system", "content": text(r, 8)}] if r.random() < 0.4 else []
        for _ in range(r.randint(1, 3)):
            m += [{"role": "user", "content": text(r, 12)}, {"role": "assistant", "content": text(r, 16)}]
        samples.append((names[i % len(names)], {"messages": m}))
    for i in range(8):
        m = [{"role": "user", "content": text(r, 12)}, {"role": "assistant", "content": text(r, 16)}]
        prompt = [{"role": "system", "content": text(r, 8)}] if i % 3 == 0 else []
        more = [{"role": "user", "content": text(r, 12)}, {"role": "assistant", "content": text(r, 16)}] if i % 2 else []
        samples.append((list(ASKS)[i % 4] + "+", {"prompt": prompt + m[:1], "completion": m[1:] + more}))
    return samples


def model(n):
    return GPT2LMHeadModel(GPT2Config(vocab_size=n, n_positions=4096, n_embd=8, n_layer=1, n_head=1))


def run(tok, rows, name, **how):
    both = name is not None and name.endswith("+")  # prompts and completions of messages
    name = name.rstrip("+") if name else None
    tok.chat_template = TEMPLATES.get(name)
    if both:
        tok.chat_template += "{% if add_generation_prompt %}{{ '" + ASKS[name] + "' }}{% endif %}"
    args = SFTConfig(output_dir="/tmp/trl-golden", report_to=[], use_cpu=True, bf16=False, eos_token=EOS, pad_token=EOS,
                     assistant_only_loss=name is not None and not both,
                     completion_only_loss=name is None or both,
                     per_device_train_batch_size=1, **how)
    return SFTTrainer(model(len(tok)), args, train_dataset=Dataset.from_list(rows), processing_class=tok).train_dataset


def mask_of(row):
    if "labels" in row:
        return [int(x != -100) for x in row["labels"]]
    return row["assistant_masks"] if "assistant_masks" in row else row["completion_mask"]


def main():
    tok, samples = make_tokenizer(), make_samples()
    expected = [None] * len(samples)
    for name in [None, *TEMPLATES, *(n + "+" for n in ASKS)]:
        which = [i for i, (n, _) in enumerate(samples) if n == name]
        made = run(tok, [samples[i][1] for i in which], name, max_length=None)
        for i, row in zip(which, made, strict=True):
            expected[i] = {"template": name and name.rstrip("+"), "ids": row["input_ids"], "mask": mask_of(row)}
    # packing looks at lengths alone
    lengths = [len(e["ids"]) for e in expected]
    rows = [{"input_ids": e["ids"], "labels": e["ids"]} for e in expected]
    packed = run(tok, rows, None, max_length=ROW, packing=True, packing_strategy="bfd",
                 dataset_kwargs={"skip_prepare_dataset": False})
    with open(os.path.join(HERE, "conversations.jsonl"), "w", encoding="utf-8") as f:
        for _, s in samples:
            f.write(json.dumps(s, ensure_ascii=False) + "\n")
    with open(os.path.join(HERE, "expected.jsonl"), "w", encoding="utf-8") as f:
        for e in expected:
            f.write(json.dumps(e, separators=(",", ":")) + "\n")
    with open(os.path.join(HERE, "packed.json"), "w", encoding="utf-8") as f:
        json.dump({"row": ROW, "lengths": lengths, "rows": [list(x["seq_lengths"]) for x in packed]}, f,
                  separators=(",", ":"))
        f.write("\n")


torch.manual_seed(1)
main()
