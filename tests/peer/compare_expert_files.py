"""DeepSpeed's own engine next to triax: folders of models with experts, both ways.

A GPT with Megatron-DeepSpeed's names, whose layers with experts are deepspeed.moe.layer.MoE, is trained for three steps by
DeepSpeed's engine on 1, 2 or 4 CPU ranks (gloo) and saved by it.
  read     triax converts the folder: weights, masters and moments are those of the engine, bit for bit; and the
           log-probabilities that triax gives to texts are those that PyTorch computes.
  written  triax converts back to a DeepSpeed folder, and a new engine of the same ranks loads it with load_checkpoint: weights,
           masters and moments are the ones that were saved.
With tensor-parallel ranks, too, whose experts are whole or split: there only files are compared, and those of split experts only
read, which convert does not write.
Usage: compare_expert_files.py TRIAX SCRATCH
"""
import argparse
import json
import os
import socket
import subprocess
import sys

os.environ["DS_ACCELERATOR"] = "cpu"
import numpy as np
import torch
import torch.nn.functional as F

H, HEADS, LAYERS, S, VOCAB, FFN = 32, 4, 2, 16, 128, 48
TEXTS = [[3, 17, 99, 4, 41, 8, 0, 126], [5, 5, 6, 100, 101, 77, 23, 9, 64, 2, 31, 90]]

# name: experts of each layer, choices, residual, ranks, of which share experts, ZeRO's stage, precision; TENSOR: tensor ranks of
# these, and whether they split experts
TENSOR = {"tensor": (2, False), "tensor-plain": (2, False), "tensor-split": (2, True)}
CASES = {
    "plain": ([4, 4], 2, True, 1, 1, 0, "fp32"),
    "zero-1": ([4, 4], 2, True, 1, 1, 1, "bf16"),
    "zero-2": ([1, 4], 1, False, 2, 2, 2, "fp32"),
    "shared": ([4, 8], 2, True, 4, 2, 1, "bf16"),
    "plain-shared": ([4, 4], 1, False, 2, 2, 0, "fp32"),
    "tensor": ([4, 4], 2, True, 4, 4, 1, "bf16"),
    "tensor-plain": ([4, 4], 1, False, 2, 2, 0, "fp32"),
    "tensor-split": ([4, 4], 2, True, 4, 2, 2, "fp32"),
}


class Mpu:
    """Ranks that are tensor-parallel first, as Megatron has them."""

    def __init__(self, tp):
        ranks = torch.distributed.get_world_size()
        me = torch.distributed.get_rank()
        self.tp, self.rank = tp, me % tp
        for first in range(0, ranks, tp):
            group = torch.distributed.new_group(range(first, first + tp))
            self.tensor = group if first == me - me % tp else getattr(self, "tensor", None)
        for first in range(tp):
            group = torch.distributed.new_group(range(first, ranks, tp))
            self.data = group if first == me % tp else getattr(self, "data", None)

    def get_model_parallel_rank(self): return self.rank
    def get_model_parallel_world_size(self): return self.tp
    def get_model_parallel_group(self): return self.tensor
    def get_data_parallel_rank(self): return torch.distributed.get_rank(self.data)
    def get_data_parallel_world_size(self): return torch.distributed.get_world_size(self.data)
    def get_data_parallel_group(self): return self.data
    def get_data_parallel_group_ranks(self): return torch.distributed.get_process_group_ranks(self.data)
    def get_pipeline_model_parallel_world_size(self): return 1
    get_tensor_model_parallel_rank = get_model_parallel_rank
    get_tensor_model_parallel_world_size = get_model_parallel_world_size
    get_tensor_model_parallel_group = get_model_parallel_group


mpu = None


def gather_tokens(x, dim=0):
    """DeepSpeed's own hands gloo a buffer of another shape than it takes."""
    all = [torch.empty_like(x) for _ in range(mpu.tp)]
    torch.distributed.all_gather(all, x.contiguous(), group=mpu.tensor)
    return torch.cat(all, dim)


def summed(x):
    """Over tensor ranks; gradients pass."""
    if not mpu:
        return x
    whole = x.detach().clone()
    torch.distributed.all_reduce(whole, group=mpu.tensor)
    return x + (whole - x.detach())


class Mlp(torch.nn.Module):
    def __init__(self, tp=1):
        super().__init__()
        self.tp = tp
        self.dense_h_to_4h, self.dense_4h_to_h = torch.nn.Linear(H, FFN // tp), torch.nn.Linear(FFN // tp, H)

    def forward(self, x):
        y = self.dense_4h_to_h(F.gelu(self.dense_h_to_4h(x)))
        return summed(y) if self.tp > 1 else y


class Attention(torch.nn.Module):
    def __init__(self, tp):
        super().__init__()
        self.heads = HEADS // tp
        self.query_key_value, self.dense = torch.nn.Linear(H, 3 * H // tp), torch.nn.Linear(H // tp, H)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = self.query_key_value(x).view(b, s, self.heads, 3, H // HEADS).permute(3, 0, 2, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return summed(self.dense(y.transpose(1, 2).reshape(b, s, -1)))


class Layer(torch.nn.Module):
    def __init__(self, experts, choices, residual, n_ep, tp, split):
        from deepspeed.moe.layer import MoE
        super().__init__()
        self.input_layernorm, self.self_attention = torch.nn.LayerNorm(H), Attention(tp)
        self.post_attention_layernorm = torch.nn.LayerNorm(H)
        # split experts need a capacity, which the ranks divide
        self.mlp = Mlp(tp) if experts == 1 else MoE(
            H, Mlp(tp if split else 1), enable_expert_tensor_parallelism=split, num_experts=experts, ep_size=n_ep, k=choices, drop_tokens=split, capacity_factor=2.0, use_residual=residual,
            top2_2nd_expert_sampling=False)
        if residual and not split:  # MoE takes the same class for both
            self.mlp.mlp = Mlp(tp)

    def forward(self, x):
        x = x + self.self_attention(self.input_layernorm(x))
        y = self.mlp(self.post_attention_layernorm(x))
        return (x + y, 0.0) if torch.is_tensor(y) else (x + y[0], y[1])


def parts(**modules):
    made = torch.nn.Module()
    for name, module in modules.items():
        made.add_module(name, module)
    return made


class Gpt(torch.nn.Module):
    """state_dict() is Megatron-DeepSpeed's state_dict_for_save_checkpoint, which leaves experts at the top, without a dot."""

    def __init__(self, case):
        experts, choices, residual, _, n_ep, _, _ = CASES[case]
        tp, split = TENSOR.get(case, (1, False))
        super().__init__()
        embedding = parts(word_embeddings=torch.nn.Embedding(VOCAB // tp, H), position_embeddings=torch.nn.Embedding(S, H))
        layers = torch.nn.ModuleList(Layer(n, choices, residual, n_ep, tp, split) for n in experts)
        self.language_model = parts(embedding=embedding, encoder=parts(layers=layers, final_layernorm=torch.nn.LayerNorm(H)))
        self.nested = False

    def forward(self, tokens):
        embedding, encoder = self.language_model.embedding, self.language_model.encoder
        x = summed(embedding.word_embeddings(tokens % embedding.word_embeddings.num_embeddings)) + embedding.position_embeddings.weight[:tokens.shape[1]]
        losses = 0.0
        for layer in encoder.layers:
            x, loss = layer(x)
            losses = losses + loss
        logits = encoder.final_layernorm(x) @ embedding.word_embeddings.weight.T
        return logits.float(), losses

    def state_dict(self, *a, **more):
        flat = super().state_dict(*a, **more)
        if not self.nested:
            return flat
        encoder, top = {}, {}
        for key, t in flat.items():
            at = key.removeprefix("language_model.encoder.")
            if at != key and "expert" in at and "moe.gate.wg.weight" not in at:
                top["encoder" + at] = t
            elif at != key:
                encoder[at] = t
        words = {n: {"weight": flat[f"language_model.embedding.{n}.weight"]} for n in ("word_embeddings", "position_embeddings")}
        return {**top, "language_model": {"embedding": words, "encoder": encoder}}

    def load_state_dict(self, state, strict=True):
        flat = {}

        def walk(prefix, v):
            for key, x in v.items():
                walk(f"{prefix}{key}.", x) if isinstance(x, dict) else flat.__setitem__(prefix + key, x)

        walk("", state)
        return super().load_state_dict({k: v for k, v in flat.items() if not k.startswith("encoderlayers.")}, strict)


def args_of(case):
    experts, choices, residual, world, n_ep, _, kind = CASES[case]
    one = 1 in experts
    return argparse.Namespace(
        num_layers=LAYERS, hidden_size=H, num_attention_heads=HEADS, ffn_hidden_size=FFN, seq_length=S, max_position_embeddings=S,
        padded_vocab_size=VOCAB, tokenizer_type="NullTokenizer", make_vocab_size_divisible_by=VOCAB // 4, layernorm_epsilon=1e-5,
        add_bias_linear=True, add_position_embedding=True, untie_embeddings_and_output_weights=False, bias_gelu_fusion=False,
        num_experts=[e for e in experts if e > 1], expert_interval=2 if one else 1, topk=choices,
        mlp_type="residual" if residual else "standard", moe_expert_parallel_size=n_ep, moe_token_dropping=False,
        moe_top2_2nd_expert_sampling=False, enable_expert_tensor_parallelism=TENSOR.get(case, (1, False))[1], moe_loss_coeff=0.01, consumed_train_samples=12,
        consumed_valid_samples=0, params_dtype=torch.bfloat16 if kind == "bf16" else torch.float32, bf16=kind == "bf16", fp16=False)


def groups_of(model):
    from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer
    named = list(model.named_parameters())
    plain = [p for n, p in named if n.endswith(".bias") or p.dim() == 1]
    decays = [p for n, p in named if not (n.endswith(".bias") or p.dim() == 1)]
    return split_params_into_different_moe_groups_for_optimizer([
        {"name": "wd_no_scale_lr", "params": decays, "wd_mult": 1.0, "lr_mult": 1.0},
        {"name": "no_wd_no_scale_lr", "params": plain, "wd_mult": 0.0, "lr_mult": 1.0, "weight_decay": 0.0}])


def engine_of(case, seed):
    import deepspeed
    _, _, _, world, _, stage, kind = CASES[case]
    torch.manual_seed(seed)
    model = Gpt(case)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.2 + (p == 1))
    optimizer = torch.optim.AdamW(groups_of(model), lr=1e-2)
    config = {"train_batch_size": 4 // TENSOR.get(case, (1, False))[0], "zero_optimization": {"stage": stage}, "bf16": {"enabled": kind == "bf16"},
              "zero_allow_untested_optimizer": True, "gradient_clipping": 1.0}
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config, mpu=mpu)[0]


def ours(name, ep, n_local):
    name = name.removeprefix("language_model.")
    for theirs, mine in (("mlp.deepspeed_moe.gate.wg.", "mlp.router."), ("mlp.coefficient.", "mlp.residual.coefficient."),
                         ("mlp.mlp.", "mlp.residual.")):
        name = name.replace(theirs, mine)
    before, experts, after = name.partition("mlp.deepspeed_moe.experts.deepspeed_experts.")
    if not experts:
        return name
    number, _, rest = after.partition(".")
    return f"{before}mlp.experts.{ep * n_local + int(number)}.{rest}"


def numbers_of(engine, case):
    """{our name: [weight in fp32, exp_avg, exp_avg_sq]} of what this rank has, whole. Collective."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    experts, _, _, _, n_ep, stage, _ = CASES[case]
    tp, split = TENSOR.get(case, (1, False))
    ep, out = (engine.global_rank // tp if split else engine.global_rank) % n_ep, {}
    if stage:  # a step has linked the state of the first group alone, and loading none
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    for name, p in engine.module.named_parameters():
        layer = int(name.split(".layers.")[1].split(".")[0]) if ".layers." in name else 0
        if stage:
            all = [safe_get_full_fp32_param(p)] + [safe_get_full_optimizer_state(p, k) for k in ("exp_avg", "exp_avg_sq")]
        else:
            state = engine.optimizer.state[p]
            all = [p, state["exp_avg"], state["exp_avg_sq"]]
        out[ours(name, ep, experts[layer] // n_ep)] = [t.detach().float().clone() for t in all]
    return out


def rank(number, case, port, folder, load, result):
    import deepspeed
    world = CASES[case][3]
    os.environ.update(RANK=str(number), WORLD_SIZE=str(world), LOCAL_RANK=str(number), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    global mpu
    mpu = Mpu(TENSOR[case][0]) if case in TENSOR else None
    if mpu:
        import deepspeed.moe.mappings
        deepspeed.moe.mappings._gather_tokens = gather_tokens
    engine = engine_of(case, 11 if load else 5)
    if load:
        path, _ = engine.load_checkpoint(folder)
        assert path, f"{folder}: load_checkpoint finds nothing"
    else:
        for step in range(3):
            torch.manual_seed(100 * step + number // TENSOR.get(case, (1, False))[0])
            tokens = torch.randint(0, VOCAB, (4 // world, S))
            logits, losses = engine(tokens)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten() % logits.shape[-1]) + 0.01 * losses
            engine.backward(loss)
            engine.step()
    torch.save(numbers_of(engine, case), f"{result}-{number}.pt")
    if not load:
        engine.eval()
        with torch.no_grad():
            said = [] if mpu else [engine(torch.tensor([text]))[0].log_softmax(-1)[0] for text in TEXTS]
        torch.save([[x[i, text[i + 1]].item() for i in range(len(text) - 1)] for x, text in zip(said, TEXTS)], f"{result}-said.pt")
        engine.module.nested = True
        engine.save_checkpoint(folder, client_state={"args": args_of(case), "iteration": 3, "checkpoint_version": 3.0, "tokens": 192})
    deepspeed.comm.barrier()


def run_ranks(*args):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    case = args[0]
    torch.multiprocessing.spawn(rank, (case, port, *args[1:]), nprocs=CASES[case][3])
    result = args[-1]
    tp, split = TENSOR.get(case, (1, False))
    of_rank = [{} for _ in range(tp)]
    for i in range(CASES[case][3]):
        for name, t in torch.load(f"{result}-{i}.pt").items():
            of_rank[i % tp].setdefault(name, t)
    all = {name: t for one in reversed(of_rank) for name, t in one.items()}
    for name in all if tp > 1 else []:
        dim = split_dim(name)
        if dim is not None and (split or "mlp.experts." not in name):
            all[name] = [torch.cat(shards, dim) for shards in zip(*[one[name] for one in of_rank])]
    return all


def split_dim(name):
    """In which Megatron's tensor ranks split a parameter; None: each has it whole."""
    if name.endswith(("query_key_value.weight", "query_key_value.bias", "dense_h_to_4h.weight", "dense_h_to_4h.bias",
                      "word_embeddings.weight")):
        return 0
    return 1 if name.endswith(("self_attention.dense.weight", "dense_4h_to_h.weight")) else None


def safetensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    return {n: torch.from_numpy(np.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"]).copy())
            for n, t in header.items() if n != "__metadata__"}


def triax(*command):
    done = subprocess.run([sys.argv[1], *map(str, command)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"WRONG triax {' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def same(what, got, want):
    assert got.keys() == want.keys(), f"{what}: {sorted(got.keys() ^ want.keys())}"
    for name, all in want.items():
        for k, t in enumerate(all):
            assert torch.equal(got[name][k], t), f"{what}: {('weight', 'exp_avg', 'exp_avg_sq')[k]} of {name} differs"


def compare(case, scratch):
    _, _, _, world, n_ep, stage, kind = CASES[case]
    theirs, native, back = f"{scratch}/{case}", f"{scratch}/{case}-native", f"{scratch}/{case}-back"
    trained = run_ranks(case, theirs, False, f"{scratch}/{case}-trained")
    triax("convert", "--to", "native", "--no-proof", "--true-vocab-size", VOCAB, theirs, native)
    flat = safetensors(f"{native}/iter_0000003/shard_00000.safetensors")
    read = {n.removeprefix("model."): [t, flat["exp_avg." + n.removeprefix("model.")], flat["exp_avg_sq." + n.removeprefix("model.")]]
            for n, t in flat.items() if n.startswith("model.")}
    same(f"{case}: read", read, trained)
    tp, split = TENSOR.get(case, (1, False))
    worst = "" if tp > 1 else f"; log-probabilities differ by {said(case, native, scratch):.2g}"
    if split:
        return print(f"ok    {case}: {len(trained)} parameters", flush=True)
    triax("convert", "--to", "deepspeed", "--no-proof", "--target-tp", tp, "--target-dp", world // tp, "--target-ep", n_ep, "--target-zero-stage", stage,
          "--dtype", kind, native, back)
    same(f"{case}: written", run_ranks(case, back, True, f"{scratch}/{case}-loaded"), trained)
    print(f"ok    {case}: {len(trained)} parameters there and back{worst}", flush=True)


def said(case, native, scratch):
    """The largest difference of log-probabilities; in bf16 of weights that were rounded, the engine's own precision."""
    want = torch.load(f"{scratch}/{case}-trained-said.pt")
    with open(f"{scratch}/texts.jsonl", "w") as f:
        f.writelines(json.dumps({"text": " ".join(map(str, text))}) + "\n" for text in TEXTS)
    lines = triax("evaluate", "--load", native, "--valid-data", f"{scratch}/texts.jsonl", "--per-token", "--tokenizer-type",
                  "NullTokenizer", "--vocab-size", VOCAB - 1, "--threads", 1)
    rows = [json.loads(line) for line in lines.splitlines()]
    got = [[r["logprob"] for r in rows if r["document"] == k] for k in range(len(TEXTS))]
    worst = max(abs(a - b) for g, w in zip(got, want) for a, b in zip([x for x in g if x is not None], w))
    assert worst < (0.2 if CASES[case][6] == "bf16" else 2e-5), f"{case}: log-probabilities differ by {worst}"
    return worst


if __name__ == "__main__":
    for name in sys.argv[3:] or CASES:
        compare(name, sys.argv[2])
