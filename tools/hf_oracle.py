"""Oracle: Hugging Face transformers on any GLM-5 / DeepSeek-V3.2 checkpoint, in exact fp32 (or fp64).

`Oracle(folder)` reads config.json and the safetensors files itself (BF16, F32, FP8 128x128, NVFP4 in ModelOpt and
compressed-tensors layout, or a mixture), dequantises every weight to fp32 and runs the transformers classes on them.
transformers' arithmetic is used as it is, except for

* top-k (indexer, router, groups): a stable descending sort, so that of equal scores the lower index is taken.
  -0.0 and +0.0 are equal. `torch.topk` promises no order among equals, and equal zeros are common here.
* q_a_layernorm and kv_a_layernorm: eps is the config's rms_norm_eps (transformers: always 1e-6).
* `Oracle(folder, double=True)`: weights are float64 and the places where transformers computes in float32 whatever the
  model's dtype (RMSNorm, softmax, router, index scores) are float64 too. Only the rotary angles and their cos/sin stay
  float32 (angle = fp32(position) * fp32(inv_freq), rounded once): they are part of the model's definition.
* the MTP layer, which transformers does not have: built from its decoder layer and norms. Row p takes the embedding of
  token p+1 (zeros for p = 0) and the final-normed hidden state p, at rotary position p:
      u = eh_proj(concat(enorm(embed[ids[p + 1]]), hnorm(h[p])));  logits = lm_head(shared_head.norm(layer(u)))

What transformers does, for the record (5.13 to 5.23):
* `hidden_states` of a forward call has num_hidden_layers + 1 entries: entry 0 is the embedding, entry i the residual
  stream after layer i - 1, but the LAST entry is the output of the final norm (`model.norm`); the residual stream after
  the last layer is not in the list.
* Indexer: q and k in the model's dtype, scores fp32, nothing quantised, no Hadamard transform (it is orthogonal and
  would change nothing); interleaved RoPE for glm_moe_dsa, half-split for deepseek_v32, on the first qk_rope_head_dim
  dims of each head.
* yarn (deepseek_v32): attention scale = qk_head_dim^-0.5 * m^2 with m = 0.1 * mscale_all_dim * ln(factor) + 1, applied
  only when mscale_all_dim is set and not 0; the index scores are not scaled by it. cos and sin are multiplied by
  get_mscale(mscale) / get_mscale(mscale_all_dim) when both are set and not 0 (1 for the published values), else by
  0.1 * ln(factor) + 1. The blended frequencies apply at every length, whatever max_position_embeddings says.
* Groups: a group's score is the sum of its two largest biased scores; excluded groups are -inf.
* Keys of future positions have the score finfo.min; a row of less than index_topk visible tokens selects all of them.

Needs: torch, transformers >= 5.13, safetensors. CPU is enough.
"""
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from torch import nn
from torch.overrides import TorchFunctionMode

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


# ---------------------------------------------------------------------------------------------- checkpoint files

def read_config(folder) -> dict:
    return json.loads((Path(folder) / "config.json").read_text())


def read_tensors(folder) -> dict[str, torch.Tensor]:
    """Every tensor of model.safetensors, or of the shards of model.safetensors.index.json, as stored."""
    folder = Path(folder)
    index = folder / "model.safetensors.index.json"
    files = ["model.safetensors"]
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    out = {}
    for name in files:
        with safe_open(folder / name, framework="pt") as f:
            out.update({k: f.get_tensor(k) for k in f.keys()})
    return out


def unpack_nvfp4(packed, scale):
    """packed U8 [O, I/2] (low nibble first), scale E4M3 [O, I/16] -> fp32 [O, I] without the tensor's own scale."""
    codes = torch.stack((packed & 15, packed >> 4), -1).flatten(-2).long()
    return E2M1[codes] * scale.float().repeat_interleave(16, -1)


def unpack_fp8(weight, scale, block=(128, 128)):
    """weight E4M3 [O, I]; scale [ceil(O/b0), ceil(I/b1)], [O, 1] or a scalar -> fp32 [O, I]."""
    O, I = weight.shape
    scale = scale.float()
    if scale.numel() > 1 and tuple(scale.shape) == (-(-O // block[0]), -(-I // block[1])):
        scale = scale.repeat_interleave(block[0], 0)[:O].repeat_interleave(block[1], 1)[:, :I]
    return weight.float() * scale


def dequantise(raw: dict[str, torch.Tensor], block=(128, 128)) -> dict[str, torch.Tensor]:
    """Stored tensors -> {published BF16 name: fp32}. Decided per tensor by which scales lie beside it."""
    out = {}
    for name, t in raw.items():
        base, _, kind = name.rpartition(".")
        w = base + ".weight"
        if kind == "weight_packed":
            out[w] = unpack_nvfp4(t, raw[w + "_scale"]) / raw[w + "_global_scale"].float().reshape(())
        elif kind == "weight" and w + "_scale_2" in raw:
            out[w] = unpack_nvfp4(t, raw[w + "_scale"]) * raw[w + "_scale_2"].float().reshape(())
        elif kind == "weight" and t.dtype == torch.float8_e4m3fn:
            out[w] = unpack_fp8(t, raw[w + "_scale_inv"] if w + "_scale_inv" in raw else raw[w + "_scale"], block)
        elif kind in ("gate_up_proj", "down_proj") and t.dtype == torch.float8_e4m3fn:          # stacked experts
            out[name] = torch.stack([unpack_fp8(w, s, block) for w, s in zip(t, raw[name + "_scale_inv"])])
        elif not kind.endswith(("_scale", "_scale_2", "_scale_inv", "inv_freq")):
            out[name] = t.float()
    return out


# --------------------------------------------------------------------------------------------------- config, names

def rope_parameters(cfg: dict) -> dict:
    """transformers' rope_parameters from any published form (rope_parameters, or rope_theta with rope_scaling)."""
    rope = dict(cfg.get("rope_parameters") or cfg.get("rope_scaling") or {})
    kind = rope.pop("type", None)
    kind = rope.get("rope_type", kind)
    theta = rope.get("rope_theta", cfg.get("rope_theta"))
    if kind in (None, "none", "default"):
        return {"rope_type": "default", "rope_theta": float(theta)}
    if kind not in ("yarn", "deepseek_yarn"):
        raise ValueError(f"rope type {kind!r} is not supported")
    return {**rope, "rope_type": "yarn", "rope_theta": float(theta), "factor": float(rope["factor"])}


def interleaved_indexer(cfg: dict) -> bool:
    """Whether the indexer's RoPE is interleaved (GLM) or half-split (DeepSeek-V3.2)."""
    if "indexer_rope_interleave" in cfg:
        return bool(cfg["indexer_rope_interleave"])
    names = [cfg.get("model_type", ""), *cfg.get("architectures", [])]
    return any(n == "glm_moe_dsa" or n.startswith("GlmMoeDsa") for n in names) or \
        (cfg["qk_nope_head_dim"], cfg["v_head_dim"]) == (192, 256) or \
        (cfg.get("n_group") or 1, cfg["rms_norm_eps"], rope_parameters(cfg)["rope_type"]) == (1, 1e-5, "default")


def hf_classes(cfg: dict):
    """(config class, model class, module of the layers) of transformers that compute what cfg means."""
    if interleaved_indexer(cfg):
        from transformers import GlmMoeDsaConfig, GlmMoeDsaForCausalLM
        from transformers.models.glm_moe_dsa import modeling_glm_moe_dsa as module
        return GlmMoeDsaConfig, GlmMoeDsaForCausalLM, module
    from transformers import DeepseekV32Config, DeepseekV32ForCausalLM
    from transformers.models.deepseek_v32 import modeling_deepseek_v32 as module
    return DeepseekV32Config, DeepseekV32ForCausalLM, module


def hf_config(cfg: dict):
    drop = ("quantization_config", "rope_theta", "rope_scaling", "rope_parameters", "architectures", "model_type",
            "dtype", "torch_dtype", "transformers_version", "auto_map", "head_dim", "qk_head_dim")
    out = hf_classes(cfg)[0](**{k: v for k, v in cfg.items() if k not in drop}, rope_parameters=rope_parameters(cfg))
    out._attn_implementation = out._experts_implementation = "eager"
    return out


def stack_experts(tensors: dict, prefix: str, n_experts: int) -> None:
    """Per-expert tensors under `prefix` -> transformers' gate_up_proj [E, 2I, H] and down_proj [E, H, I], in place."""
    p = prefix + "mlp.experts."
    if p + "0.gate_proj.weight" not in tensors:
        return
    take = lambda e, n: tensors.pop(f"{p}{e}.{n}_proj.weight")
    gate_up, down = [], []
    for e in range(n_experts):
        gate_up.append(torch.cat((take(e, "gate"), take(e, "up"))))
        down.append(take(e, "down"))
    tensors[p + "gate_up_proj"], tensors[p + "down_proj"] = torch.stack(gate_up), torch.stack(down)


# ---------------------------------------------------------------------------------------------------------- model

def stable_topk(x, k, dim=-1, largest=True, sorted=True):
    """torch.topk, but of equal values the lower index wins (-0.0 equals +0.0). Returns (values, indices)."""
    v, i = torch.sort(x + 0.0, dim=dim, descending=largest, stable=True)
    return torch.return_types.topk((v.narrow(dim, 0, k), i.narrow(dim, 0, k)))


class Patched(TorchFunctionMode):
    """Inside this context topk is stable, and with double=True nothing is float32 (but see `rotary`)."""

    def __init__(self, double: bool):
        super().__init__()
        self.double = double
        self.names, self.ranges = {}, {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is nn.functional.linear:
            for name in self.names.get(args[1].data_ptr(), ()):
                x, seen = args[0].reshape(-1, args[0].shape[-1]), self.ranges[name]
                if len(x):
                    seen[0], seen[1] = max(seen[0], x.abs().max().item()), seen[1] + len(x)
        if func in (torch.topk, torch.Tensor.topk):
            return stable_topk(*args, **kwargs)
        if self.double:
            func = torch.Tensor.double if func is torch.Tensor.float else func
            wide = lambda a: torch.float64 if a is torch.float32 else a
            args, kwargs = tuple(map(wide, args)), {k: wide(v) for k, v in kwargs.items()}
        return func(*args, **kwargs)

    def watch(self, name_of_weight: dict[int, list[str]]) -> None:
        """Fills `ranges`: of every product with one of these weights (by data_ptr), the largest |input| and its rows."""
        self.names, self.ranges = name_of_weight, {n: [0.0, 0] for names in name_of_weight.values() for n in names}

    def rotary(self, module: nn.Module) -> None:
        """Leaves the float32 of `module` (the rotary embedding) alone."""
        double = self.double
        module.register_forward_pre_hook(lambda *_: setattr(self, "double", False))
        module.register_forward_hook(lambda *_: setattr(self, "double", double))


class Mtp(nn.Module):
    """The MTP layer; submodules are named as in the checkpoint below model.layers.<num_hidden_layers>."""

    def __init__(self, cfg: dict, config):
        super().__init__()
        module, n = hf_classes(cfg)[2], config.num_hidden_layers
        kind = "GlmMoeDsa" if interleaved_indexer(cfg) else "DeepseekV32"
        norm = getattr(module, kind + "RMSNorm")
        lists = {"mlp_layer_types": config.mlp_layer_types + ["sparse"], "layer_types": None}
        if kind == "GlmMoeDsa":
            lists["indexer_types"] = config.indexer_types + ["full"]
        longer = hf_config({**cfg, **lists, "num_hidden_layers": n + 1})
        self.layer = getattr(module, kind + "DecoderLayer")(longer, n)
        self.enorm, self.hnorm = (norm(config.hidden_size, config.rms_norm_eps) for _ in range(2))
        self.eh_proj = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.shared_head = nn.ModuleDict({"norm": norm(config.hidden_size, config.rms_norm_eps)})

    def forward(self, embedded, hidden, rotary, lm_head):
        """embedded [1, S, H] (of tokens 1..S), hidden [1, S, H] (of positions 0..S-1) -> logits [1, S, V]."""
        S = hidden.shape[1]
        embedded = torch.cat((torch.zeros_like(embedded[:, :1]), embedded[:, 1:]), 1)
        u = self.eh_proj(torch.cat((self.enorm(embedded), self.hnorm(hidden)), -1))
        mask = torch.full((1, 1, S, S), torch.finfo(u.dtype).min, dtype=u.dtype).triu(1)
        x = self.layer(u, attention_mask=mask, position_embeddings=rotary(u, position_ids=torch.arange(S)[None]))
        return lm_head(self.shared_head["norm"](x[0] if isinstance(x, tuple) else x))


@dataclass
class Result:
    """Results for one sequence of T tokens; L main layers; numpy arrays in the oracle's precision."""
    logits: np.ndarray               # [T, vocab]
    hidden: np.ndarray               # [L + 1, T, hidden], as transformers returns it (last: after the final norm)
    mtp_logits: np.ndarray | None    # [T - 1, vocab]
    selected: np.ndarray             # int32 [L (+ 1 with MTP), T, index_topk]: ascending, padded with -1


class Oracle:
    def __init__(self, folder, double: bool = False):
        self.cfg = cfg = read_config(folder)
        block = (cfg.get("quantization_config") or {}).get("weight_block_size") or (128, 128)
        tensors = dequantise(read_tensors(folder), tuple(block))
        self.config = config = hf_config(cfg)
        n = config.num_hidden_layers
        for i in range(n + 1):
            stack_experts(tensors, f"model.layers.{i}.", config.n_routed_experts)
        prefix = f"model.layers.{n}."
        extra = {k[len(prefix):]: tensors.pop(k) for k in list(tensors) if k.startswith(prefix)}
        for i in range(n + 1, n + cfg.get("num_nextn_predict_layers", 0)):       # of several MTP layers the first
            tensors = {k: v for k, v in tensors.items() if not k.startswith(f"model.layers.{i}.")}
        if cfg.get("tie_word_embeddings"):
            tensors.setdefault("lm_head.weight", tensors["model.embed_tokens.weight"])
        self.model = hf_classes(cfg)[1](config).eval()
        empty = {k: v for k, v in self.model.state_dict().items() if v.numel() == 0}     # of no shared experts
        self.model.load_state_dict(tensors | empty)
        self.mtp = None
        if extra:
            own = ("enorm.", "hnorm.", "eh_proj.", "shared_head.norm.")
            copies = ("embed_tokens.weight", "shared_head.head.weight")       # of the main model's: not used
            self.mtp = Mtp(cfg, config).eval()
            empty = {k: v for k, v in self.mtp.state_dict().items() if v.numel() == 0}
            self.mtp.load_state_dict(empty | {k if k.startswith(own) else "layer." + k: v
                                              for k, v in extra.items() if k not in copies})
        self.mode = Patched(double)
        self.mode.rotary(self.model.model.rotary_emb)
        layers = [l for l in self.model.model.layers] + ([self.mtp.layer] if self.mtp else [])
        for l in layers:
            l.self_attn.q_a_layernorm.variance_epsilon = config.rms_norm_eps
            l.self_attn.kv_a_layernorm.variance_epsilon = config.rms_norm_eps
        self._indexers = [getattr(l.self_attn, "indexer", None) for l in layers]
        self._chosen = {}
        for i, x in enumerate(self._indexers):
            if x is not None:
                x.register_forward_hook(lambda m, a, out, i=i: self._chosen.__setitem__(i, out[0]))
        for m in (self.model, self.mtp):
            if m is not None and double:
                m.double()

    @torch.no_grad()
    def __call__(self, ids, with_mtp: bool = True) -> Result:
        """ids [T] -> Result, by one forward pass over the whole sequence."""
        ids = torch.as_tensor(np.asarray(ids), dtype=torch.long)[None]
        self._chosen.clear()
        with self.mode:
            out = self.model(ids, use_cache=False, output_hidden_states=True)
            logits, hidden = out.logits[0], torch.stack(out.hidden_states)[:, 0]
            mtp = None
            if with_mtp and self.mtp is not None:
                mtp = self.mtp(self.model.model.embed_tokens(ids[:, 1:]), out.hidden_states[-1][:, :-1],
                               self.model.model.rotary_emb, self.model.lm_head)[0].numpy()
        return Result(logits.numpy(), hidden.numpy(), mtp, self._selected(ids.shape[1]))

    def ranges(self, ids) -> dict[str, tuple[float, int]]:
        """{name of a linear layer: (largest magnitude of its input, rows of it)} over one pass: what an FP8 release
        quantises, so without router, weights_proj, eh_proj and head."""
        names = {}
        mtp = f"model.layers.{self.config.num_hidden_layers}."
        for part, prefix in (self.model, ""), (self.mtp, mtp):
            for name, p in part.named_parameters() if part else ():
                if p.numel() == 0:
                    continue
                name = prefix + name.removeprefix("layer.")
                if name.endswith("experts.gate_up_proj") or name.endswith("experts.down_proj"):
                    folder, _, kind = name.rpartition(".")
                    for e in range(len(p)):
                        kinds = ("gate_proj", "up_proj") if kind == "gate_up_proj" else (kind,)
                        names[p[e].data_ptr()] = [f"{folder}.{e}.{k}" for k in kinds]
                elif name.endswith("proj.weight") or name.endswith("proj_with_mqa.weight") or \
                        name.endswith(("indexer.wq_b.weight", "indexer.wk.weight")):
                    if not name.endswith(("eh_proj.weight", "weights_proj.weight")):
                        names[p.data_ptr()] = [name.removesuffix(".weight")]
        self.mode.watch(names)
        self(ids)
        seen = {k: (v[0], v[1]) for k, v in self.mode.ranges.items()}
        self.mode.watch({})
        return seen

    @torch.no_grad()
    def decode(self, ids, prefill: int, step: int = 1) -> np.ndarray:
        """Logits [T, vocab] of the same sequence: `prefill` tokens at once, then `step` at a time through the cache."""
        ids = torch.as_tensor(np.asarray(ids), dtype=torch.long)[None]
        cuts = [0, *range(prefill, ids.shape[1], step), ids.shape[1]]
        cache, rows = None, []
        with self.mode:
            for a, b in zip(cuts, cuts[1:]):
                out = self.model(ids[:, a:b], past_key_values=cache, use_cache=True)
                cache = out.past_key_values
                rows.append(out.logits[0])
        return torch.cat(rows).numpy()

    def _selected(self, T: int) -> np.ndarray:
        """The chosen visible positions of every layer and row; shared layers repeat the last full one."""
        out = np.full((len(self._indexers), T, self.config.index_topk), -1, np.int32)
        for i, x in enumerate(self._indexers):
            if x is None:
                out[i] = out[i - 1]
                continue
            for row, chosen in enumerate(self._chosen[i].tolist()):
                keep = sorted(t for t in chosen if t <= row)
                out[i, row, :len(keep)] = keep
        return out


def row_error(x, reference) -> np.ndarray:
    """Relative L2 error of every row: [T, n] against [T, n] -> [T]."""
    x, reference = np.asarray(x, np.float64), np.asarray(reference, np.float64)
    return np.linalg.norm(x - reference, axis=-1) / np.linalg.norm(reference, axis=-1)
