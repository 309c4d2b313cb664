#!/usr/bin/env python3
"""Writes models/record: Hugging Face transformers on `glm5-tiny`, as files to test an engine against.

    prepare.py --only held --out data --tokenizer models/glm5-tiny/tokenizer.json
    make_record.py --model models/glm5-tiny --data data --out models/record

Writes heldout.ids.txt (40 rows of 1,024 token ids), heldout-4k.ids.txt (5 rows of 4,096), reference.json (perplexity and
top-1 on them in fp32 and BF16, and of the MTP layer) and greedy.json (prompts and their greedy continuations in fp32).

Two corrections to transformers' arithmetic: the norms of the latents (q_a_layernorm, kv_a_layernorm) have the config's eps,
and of equal index scores the lower position is taken. The MTP layer, which transformers leaves out, is made of its decoder
layer and norms: row p takes the embedding of token p + 1 (zeros for p = 0) and the final-normed hidden state p.

Needs: torch, transformers >= 5.13, safetensors, tokenizers, numpy. CPU; some minutes.
"""
import argparse
import json
import math
import os

import numpy as np
import torch
import transformers
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers import GlmMoeDsaConfig, GlmMoeDsaForCausalLM
from transformers.models.glm_moe_dsa import modeling_glm_moe_dsa as hf

PROMPTS = ["The capital of France is", "Write a short poem about a cat and a dog", "Once upon a time"]
QUESTIONS = ["Explain Differential Sparse Attention", "What is 123 + 456?", "Tell me a story about an owl named Ivan.",
             "What is the capital of Japan?"]


class StableTopK(TorchFunctionMode):
    """Inside this context torch.topk takes the lower index of equal values."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.topk, torch.Tensor.topk):
            return self.topk(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    @staticmethod
    def topk(x, k, dim=-1, largest=True, sorted=True):
        v, i = torch.sort(x + 0.0, dim=dim, descending=largest, stable=True)
        return torch.return_types.topk((v.narrow(dim, 0, k), i.narrow(dim, 0, k)))


class Mtp(nn.Module):
    """The MTP layer; submodules are named as in the checkpoint below model.layers.<num_hidden_layers>."""

    def __init__(self, folder: str, config: GlmMoeDsaConfig):
        super().__init__()
        n, raw = config.num_hidden_layers, json.load(open(os.path.join(folder, "config.json")))
        drop = ("architectures", "model_type", "dtype", "transformers_version", "head_dim", "qk_head_dim")
        longer = GlmMoeDsaConfig(**{k: v for k, v in raw.items() if k not in drop} | {"num_hidden_layers": n + 1})
        longer._attn_implementation = longer._experts_implementation = "eager"
        self.layer = hf.GlmMoeDsaDecoderLayer(longer, n)
        self.enorm, self.hnorm = (hf.GlmMoeDsaRMSNorm(config.hidden_size, config.rms_norm_eps) for _ in range(2))
        self.eh_proj = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.shared_head = nn.ModuleDict({"norm": hf.GlmMoeDsaRMSNorm(config.hidden_size, config.rms_norm_eps)})
        with safe_open(os.path.join(folder, "model.safetensors"), "pt") as f:
            prefix = f"model.layers.{n}."
            t = {k[len(prefix):]: f.get_tensor(k).float() for k in f.keys() if k.startswith(prefix)}
        take = lambda e, name: t.pop(f"mlp.experts.{e}.{name}_proj.weight")
        stacked = [(torch.cat((take(e, "gate"), take(e, "up"))), take(e, "down")) for e in range(config.n_routed_experts)]
        t["mlp.experts.gate_up_proj"], t["mlp.experts.down_proj"] = (torch.stack(x) for x in zip(*stacked))
        own = ("enorm.", "hnorm.", "eh_proj.", "shared_head.")
        self.load_state_dict({k if k.startswith(own) else "layer." + k: v for k, v in t.items()})

    def forward(self, embedded, hidden, rotary, lm_head):
        """embedded [1,S,H] of tokens 1..S, hidden [1,S,H] of positions 0..S-1 -> logits [1,S,V]; row p predicts token p + 2."""
        S = hidden.shape[1]
        embedded = torch.cat((torch.zeros_like(embedded[:, :1]), embedded[:, 1:]), 1)
        u = self.eh_proj(torch.cat((self.enorm(embedded), self.hnorm(hidden)), -1))
        mask = torch.full((1, 1, S, S), torch.finfo(u.dtype).min, dtype=u.dtype).triu(1)
        x = self.layer(u, attention_mask=mask, position_embeddings=rotary(u, position_ids=torch.arange(S)[None]))
        return lm_head(self.shared_head["norm"](x[0] if isinstance(x, tuple) else x))


def corrected(m: nn.Module, eps: float) -> nn.Module:
    for name, part in m.named_modules():
        if name.endswith(("q_a_layernorm", "kv_a_layernorm")):
            part.variance_epsilon = eps
    return m.eval()


def load(folder: str, dtype: torch.dtype) -> GlmMoeDsaForCausalLM:
    m = GlmMoeDsaForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager")
    return corrected(m, m.config.rms_norm_eps)


def score(m, rows, mtp=None) -> dict[str, float]:
    """Mean over the predicted positions of all rows, which have the same length."""
    total = []
    for row in rows:
        ids = torch.tensor(row)[None]
        out = m(ids, use_cache=False, output_hidden_states=mtp is not None)
        of = [nn.functional.cross_entropy(out.logits[0, :-1].float(), ids[0, 1:]),
              (out.logits[0, :-1].argmax(-1) == ids[0, 1:]).double().mean()]
        if mtp is not None:
            guess = mtp(m.model.embed_tokens(ids[:, 1:]), out.hidden_states[-1][:, :-1], m.model.rotary_emb, m.lm_head)[0, :-1]
            of += [nn.functional.cross_entropy(guess, ids[0, 2:]), (guess.argmax(-1) == ids[0, 2:]).double().mean()]
        total.append(torch.stack([x.double() for x in of]))
    mean = torch.stack(total).mean(0).tolist()
    names = ("perplexity", "top1", "mtp_perplexity", "mtp_top1")
    return {n: math.exp(v) if n.endswith("perplexity") else v for n, v in zip(names, mean)}


def greedy(m, ids: list[int], stops: list[int], count: int) -> list[int]:
    out, cache, x = [], None, torch.tensor([ids])
    while len(out) < count and (not out or out[-1] not in stops):
        step = m(x, past_key_values=cache, use_cache=True)
        cache = step.past_key_values
        out.append(int(step.logits[0, -1].argmax()))
        x = torch.tensor([out[-1:]])
    return out


@torch.inference_mode()
def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", required=True)
    ap.add_argument("--data", required=True, help="where prepare.py left held-1024.bin and held-4096.bin")
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    transformers.logging.set_verbosity_error()
    tok = Tokenizer.from_file(os.path.join(a.model, "tokenizer.json"))
    held = {}
    for name, length, count in (("heldout.ids.txt", 1024, 40), ("heldout-4k.ids.txt", 4096, 5)):
        rows = np.fromfile(os.path.join(a.data, f"held-{length}.bin"), np.uint16).reshape(-1, length)[:count].tolist()
        assert len(rows) == count
        with open(os.path.join(a.out, name), "w") as f:
            f.writelines(" ".join(map(str, row)) + "\n" for row in rows)
        held[name] = rows

    with StableTopK():
        m = load(a.model, torch.float32)
        mtp = corrected(Mtp(a.model, m.config), m.config.rms_norm_eps)
        short, long = score(m, held["heldout.ids.txt"], mtp), score(m, held["heldout-4k.ids.txt"])
        print("fp32", short, long, flush=True)

        texts = PROMPTS + [f"[gMASK]<sop><|user|>{q}<|assistant|>{tag}" for q in QUESTIONS for tag in ("<think>", "</think>")]
        prompts = [tok.encode(t, add_special_tokens=False).ids for t in texts]
        call = tok.token_to_id("<tool_call>")                  # a long one: a row up to where it calls a tool
        prompts += [next(row[:i + 1] for row in held["heldout.ids.txt"] for i in range(600, 900)
                         if row[i] == call and tok.token_to_id("<|assistant|>") in row[i - 30:i])]
        stops = json.load(open(os.path.join(a.model, "generation_config.json")))["eos_token_id"]
        said = []
        for ids in prompts:
            out = greedy(m, ids, stops, 64)
            said.append({"prompt": tok.decode(ids, skip_special_tokens=False), "prompt_ids": ids, "output_ids": out,
                         "output": tok.decode(out, skip_special_tokens=False)})
            print(repr(said[-1]["prompt"][-100:]), repr(said[-1]["output"]), flush=True)
        with open(os.path.join(a.out, "greedy.json"), "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in said) + "\n]\n")

        bf16 = score(load(a.model, torch.bfloat16), held["heldout.ids.txt"])
        print("bf16", bf16, flush=True)
    with open(os.path.join(a.out, "reference.json"), "w") as f:
        json.dump({
            "made_with": f"transformers {transformers.__version__}, torch {torch.__version__}, CPU, eager attention, layer norms of "
                         f"the latents with eps {m.config.rms_norm_eps:g}, of equal index scores the lower position",
            "perplexity": "exp(mean cross-entropy) over positions 1.. of every row, each row a sequence of its own",
            "heldout.ids.txt": {
                "perplexity_fp32": short["perplexity"], "top1_fp32": short["top1"],
                "perplexity_hf_bf16": bf16["perplexity"], "top1_hf_bf16": bf16["top1"],
                "mtp_perplexity_fp32": short["mtp_perplexity"], "mtp_top1_fp32": short["mtp_top1"]},
            "heldout-4k.ids.txt": {"perplexity_fp32": long["perplexity"], "top1_fp32": long["top1"]}}, f, indent=2)


if __name__ == "__main__":
    main()
