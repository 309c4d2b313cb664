#!/usr/bin/env python3
"""Write the small goldens that the tests compare with: tests/golden/<name>/.

    python tools/make_goldens.py [--out tests/golden] [name ...]

Needs torch, transformers >= 5.13, safetensors and numpy (CPU; ten seconds for all on one core). Never run by the tests:
its output is committed. The same versions write the same bytes; weights and prompts come from numpy's seeded generator.

Every golden is a checkpoint with random weights (spread so that router and index scores are not flat), an MTP layer, a
prompt longer than index_topk, and what the oracle (tools/hf_oracle.py: transformers in fp32; its docstring says what is
patched and what transformers does) answers to it:

  config.json, model.safetensors   as published checkpoints have them
  ids.npy              int32   [T]
  logits.npy           float32 [T, vocab]
  mtp_logits.npy       float32 [R - 1, vocab]: the rows p of hidden_rows.npy but T - 1, each from token p + 1, hidden
                       state p after the final norm, position p, and the embedding at p = 0 replaced by zeros
  hidden.npy           float32 [L + 1, R, hidden]: rows ../hidden_rows.npy (int32 [R]) of transformers' hidden_states: the
                       embedding, the residual stream after layers 0 .. L - 2, and LAST the output of the final norm
                       (the residual stream after layer L - 1 is not among them)
  selected.npy         uint8 [L + 1, T, index_topk]: positions that each row attends to, ascending, padded with 255; the
                       last entry is the MTP layer (its row T - 1 does not exist: all 255); a layer that shares its
                       selection repeats the one before
  ranges.json          largest magnitude of every linear layer's input and its rows, as `glint calibrate` writes them
  skip.npy, mtp_skip.npy   uint8 [T], [T - 1]: 1 marks a near-tie, a row to leave out of comparisons: fp32 and fp64
                       differ by more than 2e-5 (relative L2), or moving all weights by 3e-6 (relative, at random, 8
                       times) changes what the row selects or moves its logits by more than 1e-3, which smooth
                       arithmetic cannot. No file: none, as with the seeds below

The script also checks, and fails otherwise, that decoding through the cache (prefill, then single tokens; and in pieces
of 7) gives the logits of the full forward pass. Quantised checkpoints: the oracle runs on the dequantised fp32 weights.
The goldens are for fp32: on random weights BF16 rounding alone flips enough selections that no BF16 bound holds.

  real_heads       the head sizes of GLM-5 (nope 192, rope 64, v 256, latent 512, index 128), small otherwise: one dense
                   layer and the MTP layer (kv_b_proj is what makes it big); BF16
  odd              odd sizes (hidden 72, q_lora 37, 5 heads, 3 index heads, 7 experts top-3, top-k 37, vocab 101)
  glm52_sharing    GLM-5.2: layers F F F S S S F S share selections; k_norm and weights_proj in F32
  deepseek_v32     groups, yarn (the flat rope_theta + rope_scaling form), half-split indexer RoPE, eps 1e-6, copies of
                   embedding and head in the MTP layer. transformers applies no Hadamard transform (nor quantises in the
                   indexer); the softmax scale has m^2, m = 0.1 * mscale_all_dim * ln(factor) + 1 = 1.3689; cos and sin
                   are not scaled, as mscale == mscale_all_dim
  fp8_block        E4M3 in 128x128 blocks, F32 weight_scale_inv, ragged edges in both directions, MTP layer too; 2 and 4
                   tensor-parallel ranks cut all of its matrices inside of blocks
  nvfp4_modelopt   dense, shared and routed MLPs in NVFP4 (ModelOpt names), attention and MTP layer BF16
  nvfp4_ct_mixed   compressed-tensors: MLPs NVFP4 (weight_packed), attention FP8 blocks with weight_scale in BF16 or F32
  stacked          experts under transformers' stacked names; everything F32; moe_layer_freq absent
  tied_f16         F16 throughout (router bias in BF16), no lm_head (tied embeddings), experts stacked in FP8, yarn with
                   mscale != mscale_all_dim and fractional borders, selections shared by a listed pattern, no shared
                   expert, weights of routed experts not normalised, and a second MTP layer, which is not used
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from hf_oracle import Oracle, hf_config, row_error

T = 160          # prompt length
PREFILL = 120    # of the cached decoding check


# ------------------------------------------------------------------------------------------------------- configs

def glm(**over) -> dict:
    """config.json of a small GLM-5, with the fields of the published one."""
    cfg = dict(
        architectures=["GlmMoeDsaForCausalLM"], model_type="glm_moe_dsa", attention_bias=False, attention_dropout=0.0,
        dtype="bfloat16", eos_token_id=[2, 3, 4], pad_token_id=2, hidden_act="silu", initializer_range=0.02,
        vocab_size=96, hidden_size=64, intermediate_size=80, moe_intermediate_size=32, num_hidden_layers=2,
        first_k_dense_replace=1, moe_layer_freq=1, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3,
        n_group=1, topk_group=1, topk_method="noaux_tc", scoring_func="sigmoid", norm_topk_prob=True,
        routed_scaling_factor=2.5, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=48, kv_lora_rank=32,
        qk_nope_head_dim=24, qk_rope_head_dim=16, v_head_dim=32, index_n_heads=4, index_head_dim=32, index_topk=40,
        indexer_rope_interleave=True, rope_interleave=True, rms_norm_eps=1e-5, max_position_embeddings=4096,
        rope_parameters={"rope_theta": 1000000, "rope_type": "default"}, num_nextn_predict_layers=1,
        tie_word_embeddings=False, use_cache=True, transformers_version="5.0.2.dev0")
    cfg.update(over)
    cfg["num_key_value_heads"] = cfg["num_attention_heads"]
    cfg["head_dim"] = cfg["qk_rope_head_dim"]
    cfg["qk_head_dim"] = cfg["qk_nope_head_dim"] + cfg["qk_rope_head_dim"]
    return cfg


def deepseek(**over) -> dict:
    """config.json of a small DeepSeek-V3.2: flat RoPE fields, old dtype key, groups, no GLM-only keys."""
    cfg = glm(architectures=["DeepseekV32ForCausalLM"], model_type="deepseek_v32", rms_norm_eps=1e-6,
              n_routed_experts=12, n_group=4, topk_group=2, num_experts_per_tok=4, max_position_embeddings=163840,
              **over)
    for key in ("dtype", "rope_parameters", "indexer_rope_interleave", "rope_interleave", "head_dim", "qk_head_dim"):
        del cfg[key]
    return {**cfg, "torch_dtype": "bfloat16", "rope_theta": 10000, "rope_scaling": {
        "type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1,
        "mscale": 1.0, "mscale_all_dim": 1.0}}


FP8_CONFIG = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
              "modules_to_not_convert": ["model.layers.*.mlp.gate$", "model.layers.*.self_attn.indexer.weights_proj$",
                                         "lm_head"]}
NVFP4_WEIGHTS = {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": False}
MODELOPT_CONFIG = {"quant_method": "modelopt", "quant_algo": "NVFP4", "config_groups": {"group_0": {
    "weights": NVFP4_WEIGHTS, "input_activations": NVFP4_WEIGHTS, "targets": ["Linear"]}},
    "ignore": ["*self_attn*", "*mlp.gate", "lm_head", "model.layers.2*"],
    "producer": {"name": "modelopt", "version": "0.40"}}
CT_CONFIG = {
    "quant_method": "compressed-tensors", "format": "mixed-precision", "quantization_status": "compressed",
    "config_groups": {
        "group_0": {"format": "nvfp4-pack-quantized", "targets": ["re:.*mlp.*proj$"], "weights": {
            "num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True}},
        "group_1": {"format": "float-quantized", "targets": ["re:.*self_attn.*(proj|wq_b|wk).*"], "weights": {
            "num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128], "symmetric": True}}},
    "ignore": ["re:.*layers.0.mlp.*", "re:.*mlp.gate$", "re:.*indexer.weights_proj$", "re:.*layers.2.*", "lm_head"]}


# ------------------------------------------------------------------------------------------------- random weights

def shapes(cfg: dict):
    """Yields (published name, shape) of every tensor of the checkpoint."""
    H, nope, rope, v, heads = (cfg[k] for k in ("hidden_size", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
                                                "num_attention_heads"))
    q, c, ih, idim, L = (cfg[k] for k in ("q_lora_rank", "kv_lora_rank", "index_n_heads", "index_head_dim",
                                          "num_hidden_layers"))
    full = [t == "full" for t in getattr(hf_config(cfg), "indexer_types", ["full"] * L)] + [True]
    sparse = [t == "sparse" for t in hf_config(cfg).mlp_layer_types] + [True]
    yield "model.embed_tokens.weight", (cfg["vocab_size"], H)
    yield "lm_head.weight", (cfg["vocab_size"], H)
    yield "model.norm.weight", (H,)
    for i in range(L + 1):
        p = f"model.layers.{i}."
        yield p + "input_layernorm.weight", (H,)
        yield p + "post_attention_layernorm.weight", (H,)
        a = p + "self_attn."
        yield a + "q_a_proj.weight", (q, H)
        yield a + "q_a_layernorm.weight", (q,)
        yield a + "q_b_proj.weight", (heads * (nope + rope), q)
        yield a + "kv_a_proj_with_mqa.weight", (c + rope, H)
        yield a + "kv_a_layernorm.weight", (c,)
        yield a + "kv_b_proj.weight", (heads * (nope + v), c)
        yield a + "o_proj.weight", (H, heads * v)
        if full[i]:
            yield a + "indexer.wq_b.weight", (ih * idim, q)
            yield a + "indexer.wk.weight", (idim, H)
            yield a + "indexer.k_norm.weight", (idim,)
            yield a + "indexer.k_norm.bias", (idim,)
            yield a + "indexer.weights_proj.weight", (ih, H)
        if not sparse[i]:
            mlps = {"mlp.": cfg["intermediate_size"]}
        else:
            I, E = cfg["moe_intermediate_size"], cfg["n_routed_experts"]
            yield p + "mlp.gate.weight", (E, H)
            yield p + "mlp.gate.e_score_correction_bias", (E,)
            mlps = {f"mlp.experts.{e}.": I for e in range(E)}
            if cfg["n_shared_experts"]:
                mlps["mlp.shared_experts."] = I * cfg["n_shared_experts"]
        for m, I in mlps.items():
            yield p + m + "gate_proj.weight", (I, H)
            yield p + m + "up_proj.weight", (I, H)
            yield p + m + "down_proj.weight", (H, I)
    yield p + "enorm.weight", (H,)
    yield p + "hnorm.weight", (H,)
    yield p + "eh_proj.weight", (H, 2 * H)
    yield p + "shared_head.norm.weight", (H,)


def random_weights(cfg: dict, rng) -> dict[str, torch.Tensor]:
    """fp32 weights with realistic spread: the usual flat init makes router and index scores nearly equal."""
    out = {}
    for name, shape in shapes(cfg):
        if name.endswith("norm.weight"):
            x = rng.uniform(0.5, 1.5, shape)
        elif name.endswith("k_norm.bias"):
            x = rng.normal(0, 0.3, shape)
        elif name.endswith("e_score_correction_bias"):
            x = rng.normal(0, 0.05, shape)
        else:
            x = rng.normal(0, 1.2 / shape[-1] ** 0.5, shape)
        out[name] = torch.from_numpy(x.astype(np.float32))
    return out


# ----------------------------------------------------------------------------------------- checkpoint formats

def fp8(w):
    """fp32 [O, I] -> (E4M3 [O, I], fp32 scale [ceil(O/128), ceil(I/128)])."""
    O, I = w.shape
    rows, cols = -(-O // 128), -(-I // 128)
    padded = torch.zeros(rows * 128, cols * 128)
    padded[:O, :I] = w
    scale = padded.view(rows, 128, cols, 128).abs().amax((1, 3)).clamp(min=1e-12) / 448
    spread = scale.repeat_interleave(128, 0)[:O].repeat_interleave(128, 1)[:, :I]
    return (w / spread).clamp(-448, 448).to(torch.float8_e4m3fn), scale


def nvfp4(w):
    """fp32 [O, I] -> (packed U8 [O, I/2], E4M3 scale [O, I/16], fp32 tensor scale [])."""
    tensor = w.abs().max() / (6 * 448)
    groups = w.view(w.shape[0], -1, 16)
    scale = (groups.abs().amax(-1) / 6 / tensor).clamp(2 ** -9, 448).to(torch.float8_e4m3fn)
    x = (groups / (scale.float() * tensor)[..., None]).flatten(-2)
    levels = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    middle = (levels[1:] + levels[:-1]) / 2
    code = torch.bucketize(x.abs(), middle)                                  # of a tie the lower level ...
    tie = (x.abs()[..., None] == middle).any(-1)
    code = code + (tie & (code % 2 == 1))                                    # ... unless its code is odd
    code = (code + 8 * (x < 0)).to(torch.uint8)
    return code[:, 0::2] | code[:, 1::2] << 4, scale, tensor


def store_bf16(cfg, weights):
    """As published: BF16, the router's bias F32."""
    return {k: v if k.endswith("e_score_correction_bias") else v.bfloat16() for k, v in weights.items()}


def store_glm52(cfg, weights):
    """BF16, but k_norm and weights_proj F32 as some published files have them."""
    keep = ("indexer.k_norm.weight", "indexer.k_norm.bias", "indexer.weights_proj.weight")
    return {k: weights[k] if k.endswith(keep) else v for k, v in store_bf16(cfg, weights).items()}


def store_deepseek(cfg, weights):
    """BF16 with the MTP layer's copies of the embedding and the head."""
    out, p = store_bf16(cfg, weights), f"model.layers.{cfg['num_hidden_layers']}."
    out[p + "embed_tokens.weight"] = out["model.embed_tokens.weight"].clone()
    out[p + "shared_head.head.weight"] = out["lm_head.weight"].clone()
    return out


ATTENTION = ("q_a_proj.weight", "q_b_proj.weight", "kv_a_proj_with_mqa.weight", "kv_b_proj.weight", "o_proj.weight",
             "indexer.wq_b.weight", "indexer.wk.weight")
MLP = ("gate_proj.weight", "up_proj.weight", "down_proj.weight")


def store_fp8(cfg, weights):
    """Every linear but router, weights_proj, eh_proj, embedding and head: E4M3 with F32 weight_scale_inv."""
    out = store_bf16(cfg, weights)
    for k in weights:
        if k.endswith(ATTENTION + MLP):
            out[k], out[k + "_scale_inv"] = fp8(weights[k])
    return out


def store_modelopt(cfg, weights):
    """All MLPs of the main layers in NVFP4; tensor scales as [] or [1]."""
    out, mtp = store_bf16(cfg, weights), f"model.layers.{cfg['num_hidden_layers']}."
    for k in weights:
        if k.endswith(MLP) and not k.startswith(mtp):
            out[k], out[k + "_scale"], scale = nvfp4(weights[k])
            out[k + "_scale_2"] = scale.reshape(1) if "down" in k else scale
            out[k.replace(".weight", ".input_scale")] = torch.tensor(0.0025)
    return out


def store_ct(cfg, weights):
    """MLPs of the MoE layers NVFP4, attention FP8 (scales BF16 in layer 0), layer 0's MLP and the MTP layer BF16."""
    out, mtp = store_bf16(cfg, weights), f"model.layers.{cfg['num_hidden_layers']}."
    for k in weights:
        if k.startswith(mtp):
            continue
        base = k.removesuffix(".weight")
        if k.endswith(ATTENTION):
            scale = fp8(weights[k])[1]
            if k.startswith("model.layers.0."):                # the stored BF16 scale is the one that counts
                scale = (scale * 1.01).bfloat16()
            wide = scale.float().repeat_interleave(128, 0)[:weights[k].shape[0]]
            wide = wide.repeat_interleave(128, 1)[:, :weights[k].shape[1]]
            out[k], out[k + "_scale"] = (weights[k] / wide).clamp(-448, 448).to(torch.float8_e4m3fn), scale
        elif k.endswith(MLP) and not k.startswith("model.layers.0."):
            del out[k]
            out[base + ".weight_packed"], out[base + ".weight_scale"], scale = nvfp4(weights[k])
            out[base + ".weight_global_scale"] = (1 / scale).reshape(1)
            out[base + ".input_global_scale"] = torch.tensor([400.0])
    return out


def store_stacked(cfg, weights):
    """F32; the experts of a layer as gate_up_proj [E, 2I, H] (gate first) and down_proj [E, H, I]."""
    out, E = dict(weights), cfg["n_routed_experts"]
    for i in range(cfg["first_k_dense_replace"], cfg["num_hidden_layers"] + 1):
        p = f"model.layers.{i}.mlp.experts."
        part = lambda n: torch.stack([out.pop(f"{p}{e}.{n}_proj.weight") for e in range(E)])
        out[p + "gate_up_proj"] = torch.cat((part("gate"), part("up")), 1)
        out[p + "down_proj"] = part("down")
    return out


def store_tied_f16(cfg, weights):
    """F16, the router's bias BF16; no lm_head; stacked experts E4M3 with stacked scales; a second MTP layer."""
    out, E, L = {k: v.half() for k, v in weights.items()}, cfg["n_routed_experts"], cfg["num_hidden_layers"]
    del out["lm_head.weight"]
    for i in range(cfg["first_k_dense_replace"], L + 1):
        p = f"model.layers.{i}.mlp."
        out[p + "gate.e_score_correction_bias"] = weights[p + "gate.e_score_correction_bias"].bfloat16()
        for stack, parts in ("gate_up_proj", ("gate", "up")), ("down_proj", ("down",)):
            for e in range(E):
                for part in parts:
                    del out[f"{p}experts.{e}.{part}_proj.weight"]
            whole = [torch.cat([weights[f"{p}experts.{e}.{part}_proj.weight"] for part in parts]) for e in range(E)]
            codes, scales = zip(*map(fp8, whole))
            out[p + "experts." + stack], out[p + "experts." + stack + "_scale_inv"] = map(torch.stack, (codes, scales))
    first, second = f"model.layers.{L}.", f"model.layers.{L + 1}."
    return out | {k.replace(first, second): v.clone() for k, v in out.items() if k.startswith(first) and "norm" in k}


def without(cfg, *keys):
    return {k: v for k, v in cfg.items() if k not in keys}


# name: (seed, config, how it is stored). The seeds are such that no row is a near-tie.
GOLDENS = {
    "real_heads": (1, glm(hidden_size=48, num_hidden_layers=1, n_routed_experts=4, num_attention_heads=2,
                          q_lora_rank=40, qk_nope_head_dim=192, qk_rope_head_dim=64, v_head_dim=256,
                          kv_lora_rank=512, index_head_dim=128), store_bf16),
    "odd": (1, glm(vocab_size=101, hidden_size=72, intermediate_size=52, moe_intermediate_size=20,
                   num_attention_heads=5, q_lora_rank=37, kv_lora_rank=36, v_head_dim=40, index_n_heads=3,
                   index_head_dim=28, index_topk=37, n_routed_experts=7), store_bf16),
    "glm52_sharing": (41, glm(hidden_size=40, intermediate_size=48, moe_intermediate_size=16, num_hidden_layers=8,
                             first_k_dense_replace=3, num_attention_heads=2, q_lora_rank=32, v_head_dim=24,
                             n_routed_experts=4, num_experts_per_tok=2, index_n_heads=4, index_head_dim=24,
                             index_topk=32,
                             rope_parameters={"rope_theta": 8000000, "rope_type": "default"},
                             index_topk_freq=4, index_skip_topk_offset=3, index_topk_pattern=None,
                             index_share_for_mtp_iteration=True,
                             indexer_types=["full" if c == "F" else "shared" for c in "FFFSSSFS"],
                             mlp_layer_types=["dense"] * 3 + ["sparse"] * 5), store_glm52),
    "deepseek_v32": (2, deepseek(hidden_size=56, moe_intermediate_size=16), store_deepseek),
    "fp8_block": (4, glm(hidden_size=144, intermediate_size=136, moe_intermediate_size=24, n_routed_experts=3,
                         num_experts_per_tok=2, num_attention_heads=4, q_lora_rank=136, kv_lora_rank=72,
                         index_n_heads=2, index_head_dim=72, quantization_config=FP8_CONFIG), store_fp8),
    "nvfp4_modelopt": (1, glm(hidden_size=48, n_routed_experts=6, quantization_config=MODELOPT_CONFIG), store_modelopt),
    "nvfp4_ct_mixed": (1, glm(hidden_size=48, n_routed_experts=6, quantization_config=CT_CONFIG), store_ct),
    "stacked": (2, without(glm(hidden_size=32, num_attention_heads=2, q_lora_rank=40, moe_intermediate_size=16,
                               n_routed_experts=5, dtype="float32"), "moe_layer_freq"), store_stacked),
    "tied_f16": (1, without(glm(hidden_size=48, num_hidden_layers=3, moe_intermediate_size=128, n_routed_experts=3,
                                num_experts_per_tok=2, n_shared_experts=0, norm_topk_prob=False, dtype="float16",
                                num_nextn_predict_layers=2, tie_word_embeddings=True, qk_nope_head_dim=16,
                                index_topk_pattern=["full", "shared", "full"], rope_scaling={
                                    "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64,
                                    "beta_fast": 16, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.5,
                                    "truncate": False}, rope_theta=10000),
                            "rope_parameters", "scoring_func", "topk_method"), store_tied_f16),
}


# --------------------------------------------------------------------------------------------------------- goldens

def near_ties(folder, ids, ref):
    """(uint8 [T], uint8 [T - 1], fp64 Result) for the fp32 Result `ref`: which rows are near-ties."""
    oracle = Oracle(folder, double=True)
    exact = oracle(ids)
    main = row_error(ref.logits, exact.logits) > 2e-5
    has_mtp = ref.mtp_logits is not None
    mtp = row_error(ref.mtp_logits, exact.mtp_logits) > 2e-5 if has_mtp else np.zeros(len(ids) - 1, bool)
    rng = torch.Generator().manual_seed(0)
    clean = [(p, p.detach().clone()) for m in (oracle.model, oracle.mtp) if m for p in m.parameters()]
    for _ in range(8):
        with torch.no_grad():
            for p, w in clean:
                p.copy_(w * (1 + 3e-6 * torch.randn(w.shape, generator=rng, dtype=w.dtype)))
        x = oracle(ids)
        changed = (x.selected != exact.selected).any(-1)                     # [L + 1, T]
        main |= changed[:-1 if has_mtp else None].any(0) | (row_error(x.logits, exact.logits) > 1e-3)
        if has_mtp:
            mtp |= changed[:, :-1].any(0) | (row_error(x.mtp_logits, exact.mtp_logits) > 1e-3)
    return main.astype(np.uint8), mtp.astype(np.uint8), exact


def make(name: str, out: Path, seed: int | None = None) -> None:
    default, cfg, store = GOLDENS[name]
    rng = np.random.default_rng(default if seed is None else seed)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(cfg) + "\n")
    tensors = {k: v.contiguous() for k, v in store(cfg, random_weights(cfg, rng)).items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    ids = rng.integers(0, cfg["vocab_size"], T).astype(np.int32)
    ids[5] = cfg["pad_token_id"]                                    # its embedding counts like any other

    oracle = Oracle(folder)
    ref = oracle(ids)
    skip, mtp_skip, exact = near_ties(folder, ids, ref)
    keep, mtp_keep = skip == 0, mtp_skip == 0
    for step in (1, 7):
        worst = row_error(oracle.decode(ids, PREFILL, step), ref.logits)[keep].max()
        assert worst < 2e-5, f"{name}: cached decoding (step {step}) differs by {worst:.1e}"
    rows = np.append(np.arange(0, T - 1, 10), T - 1).astype(np.int32)
    np.save(out / "hidden_rows.npy", rows)
    arrays = {"ids": ids, "logits": ref.logits, "mtp_logits": ref.mtp_logits[rows[:-1]],
              "hidden": ref.hidden[:, rows], "selected": ref.selected.astype(np.uint8), "skip": skip,
              "mtp_skip": mtp_skip}
    for k, v in arrays.items():
        (folder / f"{k}.npy").unlink(missing_ok=True)
        if "skip" not in k or v.any():
            np.save(folder / f"{k}.npy", v)
    ranges = {k: {"amax": amax, "tokens": rows} for k, (amax, rows) in sorted(oracle.ranges(ids).items())}
    (folder / "ranges.json").write_text(json.dumps(
        {"format": "glint activation ranges", "version": 1, "ranges": ranges}, separators=(",", ":")) + "\n")
    size = sum(f.stat().st_size for f in folder.iterdir())
    worst, mtp_worst = (row_error(a, b)[k].max() for a, b, k in (
        (ref.logits, exact.logits, keep), (ref.mtp_logits, exact.mtp_logits, mtp_keep)))
    print(f"{name}: {size / 1e6:.2f} MB, near-ties {skip.sum()} + {mtp_skip.sum()} of {T} + {T - 1}; "
          f"fp32 against fp64: logits {worst:.1e}, MTP {mtp_worst:.1e}", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("names", nargs="*", help="goldens to write (all)")
    ap.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "tests" / "golden")
    ap.add_argument("--seed", type=int, help="another seed than the one in GOLDENS")
    args = ap.parse_args()
    torch.set_num_threads(1)
    for name in args.names or GOLDENS:
        make(name, args.out, args.seed)


if __name__ == "__main__":
    main()
