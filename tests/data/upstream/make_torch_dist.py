"""make_torch_dist.py CORE TO KIND [weights] - a checkpoint of Megatron Core's dist_checkpointing (README.md), by two tensor-parallel ranks.

CORE: a folder with megatron_core 0.16.1, unpacked. KIND: gpt or llama. weights: without the optimizer's state. The weights are Core's own at the start, after one update of
torch's AdamW with drawn gradients. TO/step4.safetensors has what torch.distributed.checkpoint reads from it, under the older names.
"""
import os
import sys
from argparse import Namespace

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import save_file

NAMES = [("linear_qkv.layer_norm_", ""), ("self_attention.linear_qkv", "self_attention.query_key_value"),
         ("self_attention.linear_proj", "self_attention.dense"), ("mlp.linear_fc1", "mlp.dense_h_to_4h"),
         ("mlp.linear_fc2", "mlp.dense_4h_to_h")]


def older(key, layer):
    if key.startswith("embedding.") or key.startswith("output_layer."):
        return "language_model." + key
    if key.startswith("decoder.final_layernorm."):
        return "language_model.encoder." + key[8:]
    rest = key[len("decoder.layers."):]
    rest = rest.replace("self_attention.linear_qkv.layer_norm_", "input_layernorm.")
    rest = rest.replace("mlp.linear_fc1.layer_norm_", "post_attention_layernorm.")
    for theirs, ours in NAMES[1:]:
        rest = rest.replace(theirs, ours)
    return f"language_model.encoder.layers.{layer}.{rest}"


def work(rank, core, to, kind, weights):
    sys.path.insert(0, core)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29655", RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.optimizer.optimizer import FP32Optimizer
    from megatron.core.transformer.transformer_config import TransformerConfig

    torch.cuda.current_device = lambda: "cpu"  # where Core puts what it has read
    torch.cuda.synchronize = lambda *_: None
    tensor = torch.tensor
    torch.tensor = lambda *a, device=None, **k: tensor(*a, **k)  # the optimizer's loss scale
    parallel_state.initialize_model_parallel(2, 1)
    llama = kind == "llama"
    torch.manual_seed(5)
    shape = dict(num_layers=2, hidden_size=16, num_attention_heads=4)
    if llama:
        shape.update(num_query_groups=2, ffn_hidden_size=24, gated_linear_unit=True, normalization="RMSNorm", add_bias_linear=False,
                     activation_func=torch.nn.functional.silu, qk_layernorm=True)
    cfg = TransformerConfig(use_cpu_initialization=True, tensor_model_parallel_size=2, **shape)
    model = GPTModel(cfg, get_gpt_layer_local_spec(qk_layernorm=llama, normalization="RMSNorm" if llama else None), 64, 16,
                     position_embedding_type="rope" if llama else "learned_absolute", share_embeddings_and_output_weights=not llama)
    groups = [{"params": [p for p in model.parameters() if (p.ndim > 1) == m], "weight_decay": w} for m, w in ((True, .01), (False, 0.))]
    adam = torch.optim.AdamW(groups, lr=1e-3)
    optimizer = FP32Optimizer(adam, OptimizerConfig(optimizer="adam", lr=1e-3), lambda *_: None)
    drawn = torch.Generator().manual_seed(7 + rank)
    for p in model.parameters():
        p.grad = 0.1 * torch.randn(p.shape, generator=drawn)
        if not getattr(p, "tensor_model_parallel", False):
            dist.broadcast(p.grad, 0)
    adam.step()
    args = Namespace(seq_length=16, max_position_embeddings=16, padded_vocab_size=64, swiglu=llama, lr=1e-3, min_lr=0.0, weight_decay=.01,
                     normalization=cfg.normalization, add_bias_linear=cfg.add_bias_linear, group_query_attention=llama, consumed_train_samples=16,
                     num_layers=2, hidden_size=16, num_attention_heads=4, ffn_hidden_size=cfg.ffn_hidden_size, num_query_groups=2 if llama else 1,
                     kv_channels=4, qk_layernorm=llama, consumed_valid_samples=0, layernorm_epsilon=cfg.layernorm_epsilon, seed=1234,
                     norm_epsilon=cfg.layernorm_epsilon, untie_embeddings_and_output_weights=llama, rotary_base=10000, rotary_percent=1.0,
                     position_embedding_type="rope" if llama else "learned_absolute", num_experts=None, tensor_model_parallel_size=2)
    sharded = model.sharded_state_dict()
    state = {"args": args, "checkpoint_version": 3.0, "iteration": 4, "model": sharded, "optimizer": optimizer.sharded_state_dict(sharded),
             "num_floating_point_operations_so_far": 0}
    if weights:
        del state["optimizer"]
    if rank == 0:
        os.makedirs(f"{to}/iter_0000004")
    dist.barrier()
    dist_checkpointing.save(state, f"{to}/iter_0000004")
    if rank == 0:
        open(f"{to}/latest_checkpointed_iteration.txt", "w").write("4")
    if rank:
        return
    reader = dcp.FileSystemReader(f"{to}/iter_0000004")  # load_plain_tensors of Core 0.16.1 does not go with torch 2.15
    entries = reader.read_metadata().state_dict_metadata
    plain = {k: torch.empty(v.size) for k, v in entries.items() if hasattr(v, "chunks")}
    dcp.load(plain, storage_reader=reader, no_dist=True)
    expected = {}
    for key, t in plain.items():
        part, rest = "", key
        for buffer in ("exp_avg", "exp_avg_sq"):
            if key.startswith(f"optimizer.state.{buffer}."):
                part, rest = buffer + ".", key[len(f"optimizer.state.{buffer}."):]
        if rest.startswith("optimizer"):
            continue
        for layer in range(2) if rest.startswith("decoder.layers.") else [None]:
            expected[part + older(rest, layer)] = (t if layer is None else t[layer]).contiguous().clone()
    save_file(expected, f"{to}/step4.safetensors")


if __name__ == "__main__":
    mp.spawn(work, (*sys.argv[1:4], "weights" in sys.argv), 2)
