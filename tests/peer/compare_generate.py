"""triax generate next to Hugging Face's transformers, on random models and prompts of token ids.

Small GPT-2 and Llama models, and Llama's descendants with experts, of random sizes and weights, whose logits are spread widely, are saved with save_pretrained and
without a tokenizer. triax goes on from random prompts of 1 to 60 tokens, all in one batch, and transformers computes the logits of
every position of what came out.
  alone   greedy: the likeliest token everywhere, but where the best two logits are nearer than MARGIN, which is told.
          sampled: what every filter leaves of the distribution of every new token is what transformers' own processors leave.
          log-probabilities of prompts and new tokens. A prompt alone gives what it gives in the batch.
  ranks   greedy on TP 2, PP 2 and TP 2 x PP 2, started by mpirun.
Usage: compare_generate.py TRIAX SCRATCH alone|ranks
"""
import json
import math
import random
import subprocess
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
from transformers.generation.logits_process import (
    RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)

TRIAX, SCRATCH, WHAT = sys.argv[1:4]
MARGIN = 1e-4  # of logits: nearer ones may come in another order
N_MODELS, N_PROMPTS, N_NEW, N_SAMPLERS = (24, 10, 20, 4) if WHAT == "alone" else (20, 4, 12, 0)
MOST = 100  # of --top-logprobs
STAGES = ["raw", "repetition penalty", "temperature", "top-k", "top-p"]
LAYOUTS = {"TP 2": (2, 1), "PP 2": (1, 2), "TP 2 x PP 2": (2, 2)}
LONGEST = 60
EXPERTS = {
    "llama": {},
    "mixtral": dict(num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe": dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40),
    "qwen3_moe": dict(num_experts=5, num_experts_per_tok=3, moe_intermediate_size=24, head_dim=16, norm_topk_prob=True),
}
failed = 0
counts = {}


def wrong(text):
    global failed
    failed += 1
    if failed <= 30:
        print("WRONG " + text, flush=True)


def count(what, n=1):
    counts[what] = counts.get(what, 0) + n


def random_model(rng, number):
    """Sizes that two tensor ranks and two stages can divide, when it is for them."""
    even = 2 if WHAT == "ranks" else 1
    heads, d = even * rng.choice([1, 2, 3]), rng.choice([8, 16, 24])
    layers, vocab = even * rng.randint(1, 2), rng.randint(20, 400)
    if number % 2:
        kv = rng.choice([k for k in range(even, heads + 1) if heads % k == 0 and k % even == 0])
        kind = rng.choice(list(EXPERTS))
        config = AutoConfig.for_model(
            kind, num_hidden_layers=layers, hidden_size=heads * d, num_attention_heads=heads, num_key_value_heads=kv,
            intermediate_size=8 * rng.randint(3, 20), vocab_size=vocab, max_position_embeddings=128,
            rope_theta=rng.choice([10000.0, 500000.0, 1000.0]), rms_norm_eps=rng.choice([1e-5, 1e-6]),
            tie_word_embeddings=rng.random() < 0.5, bos_token_id=None, eos_token_id=None, **EXPERTS[kind])
        model = AutoModelForCausalLM.from_config(config)
    else:
        config = GPT2Config(
            n_layer=layers, n_embd=heads * d, n_head=heads, n_positions=128, vocab_size=vocab,
            activation_function=rng.choice(["gelu", "gelu_new"]), bos_token_id=None, eos_token_id=None)
        model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for p in model.parameters():  # norms and biases are not left as they begin, attention is not flat
            p.copy_(p + 0.2 * torch.randn_like(p) if p.dim() == 1 else torch.randn_like(p) / math.sqrt(min(p.shape)))
        spread = model(torch.randint(0, vocab, (1, 40))).logits.std()
        norm = model.model.norm if number % 2 else model.transformer.ln_f
        for p in norm.parameters():
            p.mul_(rng.uniform(1.5, 4) / spread)
    return model.eval()


def lines_of(command):
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"WRONG {' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def write_lines(path, values):
    with open(path, "w") as f:
        f.writelines(json.dumps(x) + "\n" for x in values)
    return path


def without_tokenizer(model):
    """Ids are as they are; the last one ends a text."""
    return ["--tokenizer-type", "NullTokenizer", "--vocab-size", model.config.vocab_size - 1, "--threads", 1]


def generate(folder, model, prompts, flags, layout=None):
    """One result a prompt; where the text has ended, the token that did it is the last of "tokens"."""
    command = [TRIAX, "generate", "--load", folder, "--prompt-tokens", write_lines(f"{folder}/prompts.jsonl", prompts),
               "--output-tokens", "--json", *without_tokenizer(model), *flags]
    if layout:
        tp, pp = layout
        command = ["mpirun", "-n", tp * pp] + command
        command += ["--tensor-model-parallel-size", tp, "--pipeline-model-parallel-size", pp]
    results = lines_of(command)
    if [r["prompt_index"] for r in results] != list(range(len(prompts))):
        sys.exit(f"WRONG {' '.join(map(str, command))}: {len(results)} results of {len(prompts)} prompts")
    for r, prompt in zip(results, prompts):
        for key in ("logprobs", "top_logprobs"):
            if "--" + key.replace("_", "-") in flags and (key not in r or len(r[key]) != len(r["tokens"])):
                wrong(f"{folder}: a prompt of {len(prompt)} tokens, {len(r['tokens'])} new ones: {key} {r.get(key)}")
                r[key] = []
        if r["finish_reason"] == "eod":
            r["tokens"].append(model.config.vocab_size - 1)
            count("texts that ended by themselves")
    return results


def prompt_logprobs(folder, model, prompts):
    path = write_lines(f"{folder}/texts.jsonl", [{"text": " ".join(map(str, p))} for p in prompts])
    rows = lines_of([TRIAX, "evaluate", "--load", folder, "--valid-data", path, "--per-token", *without_tokenizer(model)])
    found = [[r for r in rows if r["document"] == k] for k in range(len(prompts))]
    if [[r["id"] for r in one] for one in found] != prompts:
        sys.exit("WRONG evaluate --per-token tells other tokens")
    return [[r["logprob"] for r in one] for one in found]


def exact_logits(model, tokens):
    """In fp64, also where transformers widens to fp32: with experts its own fp32 is off by more than the bounds."""
    single = torch.float32
    torch.float32 = torch.float = torch.float64
    model.set_experts_implementation("eager")  # the only one that takes fp64
    logits = model.double()(torch.tensor([tokens])).logits[0]
    torch.float32 = torch.float = single
    model.to(single)
    return logits


def logits_of(model, tokens):
    with torch.no_grad():
        if model.config.model_type in EXPERTS and EXPERTS[model.config.model_type]:
            return exact_logits(model, tokens).float()
        return model(torch.tensor([tokens])).logits[0].float()


def check_greedy(where, model, prompt, r, against_generate=False):
    new = r["tokens"]
    if r["finish_reason"] not in ("eod", "length") or (r["finish_reason"] == "length" and len(new) != N_NEW):
        return wrong(f"{where}: {len(new)} tokens of {N_NEW}, {r['finish_reason']}")
    if model.config.vocab_size - 1 in new[:-1]:
        return wrong(f"{where}: goes on behind the end of the text")
    near = 0
    rows = logits_of(model, prompt + new[:-1])[len(prompt) - 1:]
    for i, (row, token) in enumerate(zip(rows, new)):
        best = row.topk(2)
        margin = float(best.values[0] - best.values[1])
        if token == int(best.indices[0]):
            continue
        text = f"{where}: token {i} is {token}, transformers' {int(best.indices[0])}, margin {margin:.1e}"
        near += 1
        if margin > MARGIN or float(best.values[0] - row[token]) > MARGIN:
            wrong(text)
        else:
            print("near  " + text)
            count("tokens that differ where the margin is small")
    count("greedy continuations")
    count("greedy tokens", len(new))
    if against_generate:
        eod = model.config.vocab_size - 1
        whole = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=N_NEW, eos_token_id=eod,
                               pad_token_id=eod, attention_mask=torch.ones(1, len(prompt), dtype=torch.long))
        if whole[0].tolist() != prompt + new and not near:
            wrong(f"{where}: {new}, generate() of transformers: {whole[0].tolist()[len(prompt):]}")
        count("continuations as by transformers' generate()")


def check_logprobs(where, model, tokens, first, got):
    """got: of tokens[first:], None where there is nothing before."""
    rows = logits_of(model, tokens).double().log_softmax(-1)
    for i, value in enumerate(got, first):
        if i == 0:
            if value is not None:
                wrong(f"{where}: log-probability of position 0 is {value}")
            continue
        expect = float(rows[i - 1, tokens[i]])
        counts["largest difference of log-probabilities"] = max(
            counts.get("largest difference of log-probabilities", 0), abs(value - expect))
        if not abs(value - expect) <= 1e-4:
            wrong(f"{where}: log-probability of position {i}: {value}, transformers' {expect}")
        count("log-probabilities")


def random_sampler(rng, vocab):
    s = {"repetition penalty": 1.0, "temperature": 1.0, "top-k": 0, "top-p": 1.0}
    while s == {"repetition penalty": 1.0, "temperature": 1.0, "top-k": 0, "top-p": 1.0}:
        if rng.random() < 0.6:
            s["repetition penalty"] = round(rng.uniform(0.5, 2), 3)
        if rng.random() < 0.7:
            s["temperature"] = round(rng.uniform(0.3, 2.5), 3)
        if rng.random() < 0.6:
            s["top-k"] = rng.randint(2, vocab + 5)
        if rng.random() < 0.7:
            s["top-p"] = round(rng.uniform(0.05, 0.99), 3)
    return s


def processors(s):
    made = {}
    if s["repetition penalty"] != 1:
        made["repetition penalty"] = RepetitionPenaltyLogitsProcessor(s["repetition penalty"])
    if s["temperature"] != 1:
        made["temperature"] = TemperatureLogitsWarper(s["temperature"])
    if s["top-k"]:
        made["top-k"] = TopKLogitsWarper(s["top-k"])
    if s["top-p"] < 1:
        made["top-p"] = TopPLogitsWarper(s["top-p"])
    return made


def border(stage, s, scores):
    """How near the filter's decision is: a difference of logits, or of probabilities."""
    if stage == "top-k" and s["top-k"] < scores.numel():
        best = scores.sort(descending=True).values
        return float(best[s["top-k"] - 1] - best[s["top-k"]]) * s["temperature"]
    if stage == "top-p":
        tails = scores.double().softmax(-1).sort().values.cumsum(-1)
        return float((tails - (1 - s["top-p"])).abs().min())
    return math.inf


def check_filters(where, s, past, row, got):
    """got: stage -> [(token, log-probability)], the MOST likeliest of those that are left. Logits of fp32 agree to some units
    of the largest one's last place, and a temperature enlarges that."""
    got = {stage: [(token, math.exp(p)) for token, p in got[stage]] for stage in STAGES}
    scores, made = row[None], processors(s)
    bound = 1e-5 * max(1.0, float(row.abs().max()) * max(1, s["repetition penalty"]) / s["temperature"])
    for stage in STAGES:
        before = scores[0]
        if stage in made:
            scores = made[stage](torch.tensor([past]), scores.clone())
        expect = scores[0].double().softmax(-1)
        left = {i for i, p in enumerate(expect.tolist()) if p > 1e-300}
        mine = dict(got[stage])
        shown = min(MOST, len(left))
        if len(mine) != len(got[stage]) or len(mine) != shown or not set(mine) <= left:
            if border(stage, s, before) < 1e-5:
                return count("distributions cut where rounding decides")
            return wrong(f"{where}, {s}: {stage} leaves {len(mine)}, transformers {len(left)}: {sorted(set(mine) ^ left)[:8]}")
        for token, p in mine.items():
            if not abs(p - float(expect[token])) <= bound * float(expect[token]) + 1e-12:
                return wrong(f"{where}, {s}: {stage}: token {token} has {p}, transformers' {float(expect[token])}")
        least = min(mine.values())
        if any(float(expect[i]) > least * (1 + bound) + 1e-12 for i in left - set(mine)):
            return wrong(f"{where}, {s}: {stage} does not show the likeliest")
        if [p for _, p in got[stage]] != sorted(mine.values(), reverse=True):
            return wrong(f"{where}, {s}: {stage} is not in order")
    count("distributions after every filter")


def random_prompts(rng, model):
    return [[rng.randrange(model.config.vocab_size) for _ in range(rng.randint(1, LONGEST))] for _ in range(N_PROMPTS)]


def compare_alone(rng, name, folder, model):
    prompts = random_prompts(rng, model)
    flags = ["--greedy", "--max-new-tokens", N_NEW, "--logprobs"]
    results = generate(folder, model, prompts, flags)
    longer = [p for p in prompts if len(p) > 1]  # of one token there is nothing to tell
    for prompt, score in zip(longer, prompt_logprobs(folder, model, longer)):
        check_logprobs(f"{name}, a prompt of {len(prompt)} tokens", model, prompt, 0, score)
    for k, (prompt, r) in enumerate(zip(prompts, results)):
        where = f"{name} prompt {k} of {len(prompt)} tokens"
        check_greedy(where, model, prompt, r, against_generate=k == 0)
        check_logprobs(where, model, prompt + r["tokens"], len(prompt), r["logprobs"])
    for k in (0, N_PROMPTS - 1):
        alone = generate(folder, model, prompts[k:k + 1], flags)[0]
        if alone["tokens"] == results[k]["tokens"]:
            count("continuations alone as in the batch")
        else:
            check_greedy(f"{name} prompt {k} alone, which is not as in the batch", model, prompts[k], alone)
    for i in range(N_SAMPLERS):
        compare_sampled(name, folder, model, prompts[2 * i:2 * i + 2], random_sampler(rng, model.config.vocab_size), i + 1)


def compare_sampled(name, folder, model, prompts, s, seed):
    flags = ["--max-new-tokens", 3, "--seed", seed, "--top-logprobs", min(MOST, model.config.vocab_size),
             "--repetition-penalty", s["repetition penalty"], "--temperature", s["temperature"], "--top-k", s["top-k"],
             "--top-p", s["top-p"]]
    for k, (prompt, r) in enumerate(zip(prompts, generate(folder, model, prompts, flags))):
        tokens = prompt + r["tokens"]
        rows = logits_of(model, tokens)
        for at, got in enumerate(r["top_logprobs"], len(prompt)):
            check_filters(f"{name} prompt {k} token {at}", s, tokens[:at], rows[at - 1], got)
            if len(got["top-p"]) < MOST and tokens[at] not in dict(got["top-p"]):
                wrong(f"{name} prompt {k} token {at}, {s}: {tokens[at]} was drawn, which is not left")


def compare_ranks(rng, name, folder, model):
    prompts = random_prompts(rng, model)
    for layout, sizes in LAYOUTS.items():
        results = generate(folder, model, prompts, ["--greedy", "--max-new-tokens", N_NEW, "--logprobs"], sizes)
        for k, (prompt, r) in enumerate(zip(prompts, results)):
            where = f"{name}, {layout}, prompt {k} of {len(prompt)} tokens"
            check_greedy(where, model, prompt, r)
            check_logprobs(where, model, prompt + r["tokens"], len(prompt), r["logprobs"])


def main():
    torch.manual_seed(11)
    torch.set_num_threads(1)  # small models, small products
    rng = random.Random(11)
    for number in range(N_MODELS):
        model = random_model(rng, number)
        name = f"{'llama' if number % 2 else 'gpt2'}-{number}"
        folder = f"{SCRATCH}/{WHAT}-{name}"
        model.save_pretrained(folder)  # and no tokenizer
        (compare_alone if WHAT == "alone" else compare_ranks)(rng, name, folder, model)
        subprocess.run(["rm", "-r", folder], check=True)
    for what, n in counts.items():
        print(f"{WHAT}: {what}: {n:.1e}" if isinstance(n, float) else f"{WHAT}: {what}: {n}")
    print(f"{WHAT}: {failed} differences")
    sys.exit(failed > 0)


main()
