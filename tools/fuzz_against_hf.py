#!/usr/bin/env python3
"""Random configs and checkpoints of the family, `glint score` against Hugging Face transformers on each.

    python tools/fuzz_against_hf.py --glint build/release/glint [--seed 0] [--count 100] [--keep DIR]

Every case draws sizes (odd ones too), the spelling of config.json, how each matrix is stored, shards, prompt and chunk,
writes the checkpoint and compares logits, MTP logits and hidden states in fp32 as tools/check_against_hf.py does: a
row passes at a relative L2 error of 1e-4, near-ties (make_goldens.py) are left out. A refusal is a failure too. What
fails is kept in --keep; `--seed S --count 1` repeats case S.

Needs torch, transformers >= 5.13, safetensors, numpy.
"""
import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

import make_goldens as goldens
from hf_oracle import Oracle, row_error

TOLERANCE = 1e-4


# ------------------------------------------------------------------------------------------------------- configs

def draw_config(rng) -> dict:
    """config.json with random sizes, GLM or DeepSeek, in one of its published spellings."""
    pick = lambda *options: options[rng.integers(len(options))]
    span = lambda low, high: int(rng.integers(low, high + 1))
    heads, rope, layers = span(1, 5), 2 * span(1, 24), span(1, 5)
    group, groups = span(2, 5), pick(1, 1, 2, 3, 4)
    experts = group * groups if groups > 1 else span(2, 12)
    topk_group = span(1, groups)
    index_topk = pick(1, span(2, 12), span(13, 90), 400)
    make = pick(goldens.glm, goldens.glm, goldens.deepseek)
    cfg = make() if make is goldens.deepseek else goldens.glm()
    cfg.update(
        vocab_size=span(7, 300), hidden_size=pick(16 * span(1, 12), span(6, 200)),
        intermediate_size=pick(16 * span(1, 10), span(1, 160)), moe_intermediate_size=pick(16 * span(1, 4), span(1, 70), 128),
        num_hidden_layers=layers, first_k_dense_replace=span(0, layers + 1), num_attention_heads=heads,
        num_key_value_heads=heads, q_lora_rank=pick(16 * span(1, 10), span(1, 150)),
        kv_lora_rank=pick(16 * span(1, 10), span(1, 150), 512), qk_nope_head_dim=pick(span(1, 70), 192, 128),
        qk_rope_head_dim=rope, v_head_dim=pick(span(1, 70), 256), index_n_heads=span(1, 9),
        index_head_dim=rope + pick(0, span(1, 70)), index_topk=index_topk, n_routed_experts=experts, n_group=groups,
        topk_group=topk_group, num_experts_per_tok=span(1, min(8, topk_group * (experts // groups))),
        n_shared_experts=pick(1, 1, 2, 3, 0), norm_topk_prob=pick(True, True, False),
        routed_scaling_factor=pick(1.0, 2.5, 0.3, 16.0), num_nextn_predict_layers=pick(0, 1, 1, 1, 2),
        rms_norm_eps=pick(1e-5, 1e-6, 1e-3), max_position_embeddings=pick(512, 4096, 202752),
        eos_token_id=pick(1, [1, 2, 3], None), pad_token_id=pick(0, 2, None))
    cfg["head_dim"] = pick(rope, 192)
    cfg["qk_head_dim"] = cfg["qk_nope_head_dim"] + rope
    for key in ("head_dim", "qk_head_dim", "moe_layer_freq", "scoring_func", "topk_method"):
        if rng.random() < 0.3:
            cfg.pop(key, None)
    draw_rope(cfg, rng, pick)
    if rng.random() < 0.3:
        cfg["mlp_layer_types"] = [pick("dense", "sparse") for _ in range(layers)]
    if make is goldens.glm:
        draw_sharing(cfg, rng, pick, span)
        draw_identity(cfg, pick)
    return cfg


def draw_rope(cfg, rng, pick):
    """One of the places and forms of the rotary embedding's parameters; yarn in a third of them."""
    for key in ("rope_parameters", "rope_scaling", "rope_theta"):
        cfg.pop(key, None)
    theta = pick(100, 10000, 10000.0, 1000000, 8000000.0)
    if rng.random() < 0.35:
        scaling = {pick("type", "rope_type"): "yarn", "factor": pick(40, 4.0, 1.5),
                   "original_max_position_embeddings": pick(4096, 64, 20), "beta_fast": pick(32, 8), "beta_slow": 1}
        scaling.update(pick({"mscale": 1.0, "mscale_all_dim": 1.0}, {"mscale": 1.0, "mscale_all_dim": 1.0},
                            {"mscale": 0.707, "mscale_all_dim": 0.707}, {"mscale": 1.0, "mscale_all_dim": 0.5}, {},
                            {"mscale_all_dim": 1.0}, {"mscale": 1, "mscale_all_dim": 0}, {"attention_factor": 0.8},
                            {"mscale": 1.0, "mscale_all_dim": 1.0, "truncate": False}))
    else:
        scaling = pick(None, None, {"type": "none", "factor": 1.0}, {"rope_type": "default"}, {"type": "default"})
    if rng.random() < 0.5:
        cfg["rope_parameters"] = {"rope_theta": theta, **(scaling or {"rope_type": "default"})}
    else:
        cfg.update(rope_theta=theta, rope_scaling=scaling)


def draw_sharing(cfg, rng, pick, span):
    """GLM-5.2's layers that share an indexer, in one of their three spellings."""
    layers = cfg["num_hidden_layers"]
    kinds = ["F"] + [pick("F", "S") for _ in range(layers - 1)]
    form = rng.integers(8)
    if form == 0:
        cfg["indexer_types"] = ["full" if k == "F" else "shared" for k in kinds]
        cfg.update(index_topk_freq=4, index_skip_topk_offset=3, index_topk_pattern=None)
    elif form == 1:
        cfg["index_topk_pattern"] = "".join(kinds)
    elif form == 2:
        cfg["index_topk_pattern"] = ["full" if k == "F" else "shared" for k in kinds]
    elif form in (3, 4):
        cfg.update(index_topk_freq=span(1, 4), index_skip_topk_offset=span(0, 3))
        if cfg["index_skip_topk_offset"] == 0 and cfg["index_topk_freq"] > 1:
            cfg["index_skip_topk_offset"] = 1            # layer 0 would share with nobody


def draw_identity(cfg, pick):
    """GLM-5 as it is, patched to call itself deepseek_v32 (which keeps its other keys), or without the newer keys."""
    form = pick("as it is", "as it is", "patched", "patched", "short")
    if form == "patched":
        cfg["model_type"] = "deepseek_v32"
        cfg["architectures"] = pick(["GlmMoeDsaForCausalLM"], ["DeepseekV32ForCausalLM"])
    elif form == "short":
        for key in ("indexer_rope_interleave", "rope_interleave", "architectures"):
            cfg.pop(key)
    if pick(True, False):
        cfg["torch_dtype"] = cfg.pop("dtype", "bfloat16")


# ------------------------------------------------------------------------------------------------------- storage

def draw_storage(cfg, weights, rng) -> dict[str, torch.Tensor]:
    """Every matrix in a format drawn for it (one for all in half of the cases); experts stacked sometimes."""
    pick = lambda *options: options[rng.integers(len(options))]
    one = pick(None, None, "bf16", "f32", "f16", "fp8", "nvfp4", "ct")
    stacked = rng.random() < 0.25
    out = {}
    for name, w in weights.items():
        experts = ".mlp.experts." in name
        if name.endswith("e_score_correction_bias"):
            out[name] = w if rng.random() < 0.8 else w.bfloat16()
        elif w.dim() == 1 or "embed_tokens" in name or name.endswith(("mlp.gate.weight", "weights_proj.weight")):
            out[name] = w.to(pick(torch.bfloat16, torch.bfloat16, torch.float32, torch.float16))
        elif stacked and experts:
            out[name] = w
        else:
            kind = one or pick("bf16", "f32", "f16", "fp8", "fp8_bf16_scale", "nvfp4", "ct")
            store_matrix(out, name, w, kind if w.shape[1] % 16 == 0 or kind not in ("nvfp4", "ct") else "bf16")
    if stacked:
        stack(cfg, out, pick(torch.bfloat16, torch.float32, torch.float16, torch.float8_e4m3fn))
    return out


def store_matrix(out, name, w, kind):
    base = name.removesuffix(".weight")
    if kind in ("bf16", "f32", "f16"):
        out[name] = w.to({"bf16": torch.bfloat16, "f32": torch.float32, "f16": torch.float16}[kind])
    elif kind == "fp8":
        out[name], out[name + "_scale_inv"] = goldens.fp8(w)
    elif kind == "fp8_bf16_scale":
        scale = (goldens.fp8(w)[1] * 1.01).bfloat16()
        wide = scale.float().repeat_interleave(128, 0)[:w.shape[0]].repeat_interleave(128, 1)[:, :w.shape[1]]
        out[name], out[name + "_scale"] = (w / wide).clamp(-448, 448).to(torch.float8_e4m3fn), scale
    elif kind == "nvfp4":
        out[name], out[name + "_scale"], out[name + "_scale_2"] = goldens.nvfp4(w)
    else:
        out[base + ".weight_packed"], out[base + ".weight_scale"], scale = goldens.nvfp4(w)
        out[base + ".weight_global_scale"] = (1 / scale).reshape(1)


def stack(cfg, out, dtype):
    for gate in [k for k in out if k.endswith(".mlp.experts.0.gate_proj.weight")]:
        p = gate.removesuffix("0.gate_proj.weight")
        part = lambda n: torch.stack([out.pop(f"{p}{e}.{n}_proj.weight") for e in range(cfg["n_routed_experts"])])
        stacks = {p + "gate_up_proj": torch.cat((part("gate"), part("up")), 1), p + "down_proj": part("down")}
        for name, w in stacks.items():
            if dtype != torch.float8_e4m3fn or ("gate_up" in name and w.shape[1] % 256):
                out[name] = w.bfloat16() if dtype == torch.float8_e4m3fn else w.to(dtype)
                continue
            codes, scales = zip(*(goldens.fp8(x) for x in w))
            out[name], out[name + "_scale_inv"] = torch.stack(codes), torch.stack(scales)


def write(folder: Path, cfg, tensors, rng):
    (folder / "config.json").write_text(json.dumps(cfg, indent=1))
    names, shards = list(tensors), int(rng.integers(1, 4))
    rng.shuffle(names)
    if shards == 1:
        save_file({k: tensors[k].contiguous() for k in names}, folder / "model.safetensors")
        return
    index = {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = {k: tensors[k].contiguous() for k in names[i::shards]}
        save_file(part, folder / file)
        index.update({k: file for k in part})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


# ---------------------------------------------------------------------------------------------------- comparison

def run_case(seed: int, glint: str, folder: Path, options: list[str]) -> tuple[str, float]:
    """("" if glint equals transformers, else what is wrong; the share of rows left out as near-ties)."""
    rng = np.random.default_rng(seed)
    cfg = draw_config(rng)
    weights = goldens.random_weights(cfg, rng)
    mtp = f"model.layers.{cfg['num_hidden_layers']}."
    if cfg["num_nextn_predict_layers"] == 0:
        weights = {k: w for k, w in weights.items() if not k.startswith(mtp)}
    elif cfg["num_nextn_predict_layers"] == 2:           # only the first is used
        weights |= {k.replace(mtp, f"model.layers.{cfg['num_hidden_layers'] + 1}."): w + 1
                    for k, w in weights.items() if k.startswith(mtp)}
    if rng.random() < 0.15:
        cfg["tie_word_embeddings"] = True
        del weights["lm_head.weight"]
    write(folder, cfg, draw_storage(cfg, weights, rng), rng)
    ids = rng.integers(0, cfg["vocab_size"], rng.integers(2, 150)).astype(np.int32)
    np.save(folder / "ids.npy", ids)
    files = {"logits": "--out", "hidden": "--hidden"} | ({"mtp": "--mtp"} if cfg["num_nextn_predict_layers"] else {})
    command = [glint, "score", str(folder), "--ids", str(folder / "ids.npy"), "--dtype", "f32", "--threads", "2",
               "--chunk", str(rng.choice([1, 7, 64, 256])), *options]
    for name, option in files.items():
        command += [option, str(folder / f"{name}.npy")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr.strip()}", 0
    got = {name: np.load(folder / f"{name}.npy") for name in files}
    return compare(folder, ids, got)


def compare(folder, ids, got) -> tuple[str, float]:
    def wrong(result, skip, mtp_skip):
        want = {"logits": result.logits, "mtp": result.mtp_logits, "hidden": result.hidden}
        for name, x in got.items():
            if x.shape != want[name].shape:
                return f"{name}: shape {x.shape}, expected {want[name].shape}"
            error = row_error(x, want[name])[..., ~(mtp_skip if name == "mtp" else skip)]
            if not (error <= TOLERANCE).all():
                return f"{name}: {(error > TOLERANCE).sum()} of {error.size} rows differ, by up to {error.max():.1e}"
        return ""

    result = Oracle(folder)(ids)
    nobody = np.zeros(len(ids), bool), np.zeros(len(ids) - 1, bool)
    if not wrong(result, *nobody):
        return "", 0
    skip, mtp_skip = (x > 0 for x in goldens.near_ties(folder, ids, result)[:2])
    return wrong(result, skip, mtp_skip), np.concatenate((skip, mtp_skip)).mean()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--glint", default="glint", help="the program")
    ap.add_argument("--seed", type=int, default=0, help="of the first case")
    ap.add_argument("--count", type=int, default=100)
    ap.add_argument("--keep", type=Path, help="folder for the checkpoints of failing cases")
    ap.add_argument("options", nargs="*", help="after --: more options for glint score")
    args = ap.parse_args()
    torch.set_num_threads(1)
    failures, left_out = 0, []
    for seed in range(args.seed, args.seed + args.count):
        with tempfile.TemporaryDirectory() as tmp:
            problem, share = run_case(seed, args.glint, Path(tmp), args.options)
            left_out.append(share)
            if problem:
                failures += 1
                print(f"case {seed}: {problem}", flush=True)
                if args.keep:
                    shutil.copytree(tmp, args.keep / str(seed), dirs_exist_ok=True)
    print(f"{args.count - failures} of {args.count} cases equal transformers; near-ties left out: "
          f"{100 * np.mean(left_out):.1f} % of all rows, at most {100 * max(left_out):.0f} % of a case")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
