#!/usr/bin/env python3
"""Writes models/record: Hugging Face transformers on `glm5-tiny`, as files to test an engine against.

    prepare.py --only held --out data --tokenizer models/glm5-tiny/tokenizer.json
    make_record.py --model models/glm5-tiny --data data --out models/record

Writes heldout.ids.txt (40 rows of 1,024 token ids), heldout-4k.ids.txt (5 rows of 4,096), reference.json (perplexity and
top-1 on them in fp32 and BF16, and of the MTP layer) and greedy.json (prompts and their greedy continuations in fp32).

transformers is used as tools/hf_oracle.py says, which has the MTP layer, too.

Needs: torch, transformers >= 5.13, safetensors, tokenizers, numpy. CPU; some minutes.
"""
import argparse
import json
import math
import os
import pathlib
import sys

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hf_oracle import Oracle, Patched  # noqa: E402

PROMPTS = ["The capital of France is", "Write a short poem about a cat and a dog", "Once upon a time"]
QUESTIONS = ["Explain Differential Sparse Attention", "What is 123 + 456?", "Tell me a story about an owl named Ivan.",
             "What is the capital of Japan?"]


def bf16_logits(folder: str):
    """As Oracle, but in BF16 and of the main model alone: ids [T] -> logits [T, vocab]."""
    m = transformers.GlmMoeDsaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager",
                                                          experts_implementation="eager").eval()
    for name, part in m.named_modules():
        if name.endswith(("q_a_layernorm", "kv_a_layernorm")):
            part.variance_epsilon = m.config.rms_norm_eps

    def logits(ids):
        with Patched(False):
            return m(torch.tensor([ids]), use_cache=False).logits[0]
    return logits


def score(rows, logits_of) -> list[tuple[float, float]]:
    """(perplexity, top-1) of each tensor [n, vocab] that `logits_of` gives for a row: the first one's logits predict the next
    token, the second one's the token after it. Means over the predicted positions of all rows, which have the same length."""
    total = []
    for row in rows:
        ids = torch.tensor(row)
        total.append([[cross_entropy(logits[:-1].float(), ids[skip:]).item(),
                       (logits[:-1].argmax(-1) == ids[skip:]).double().mean().item()]
                      for skip, logits in enumerate(logits_of(row), 1)])
    return [(math.exp(loss), top1) for loss, top1 in np.mean(total, 0).tolist()]


def greedy(oracle, ids: list[int], stops: list[int], count: int) -> list[int]:
    out, cache, x = [], None, torch.tensor([ids])
    with oracle.mode:
        while len(out) < count and (not out or out[-1] not in stops):
            step = oracle.model(x, past_key_values=cache, use_cache=True)
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

    oracle = Oracle(a.model)

    def main_and_mtp(row):
        result = oracle(row)
        return torch.from_numpy(result.logits), torch.from_numpy(result.mtp_logits)
    main_short, mtp_short = score(held["heldout.ids.txt"], main_and_mtp)
    [long] = score(held["heldout-4k.ids.txt"], lambda row: [torch.from_numpy(oracle(row, with_mtp=False).logits)])
    print("fp32", main_short, mtp_short, long, flush=True)

    texts = PROMPTS + [f"[gMASK]<sop><|user|>{q}<|assistant|>{tag}" for q in QUESTIONS for tag in ("<think>", "</think>")]
    prompts = [tok.encode(t, add_special_tokens=False).ids for t in texts]
    call = tok.token_to_id("<tool_call>")                  # a long one: a row up to where it calls a tool
    prompts += [next(row[:i + 1] for row in held["heldout.ids.txt"] for i in range(600, 900)
                     if row[i] == call and tok.token_to_id("<|assistant|>") in row[i - 30:i])]
    stops = json.load(open(os.path.join(a.model, "generation_config.json")))["eos_token_id"]
    said = []
    for ids in prompts:
        out = greedy(oracle, ids, stops, 64)
        said.append({"prompt": tok.decode(ids, skip_special_tokens=False), "prompt_ids": ids, "output_ids": out,
                     "output": tok.decode(out, skip_special_tokens=False)})
        print(repr(said[-1]["prompt"][-100:]), repr(said[-1]["output"]), flush=True)
    with open(os.path.join(a.out, "greedy.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in said) + "\n]\n")

    logits = bf16_logits(a.model)
    [bf16] = score(held["heldout.ids.txt"], lambda row: [logits(row)])
    print("bf16", bf16, flush=True)
    with open(os.path.join(a.out, "reference.json"), "w") as f:
        json.dump({
            "made_with": f"transformers {transformers.__version__}, torch {torch.__version__}, CPU, eager attention, layer norms of "
                         f"the latents with eps {oracle.config.rms_norm_eps:g}, of equal index scores the lower position",
            "perplexity": "exp(mean cross-entropy) over positions 1.. of every row, each row a sequence of its own",
            "heldout.ids.txt": {
                "perplexity_fp32": main_short[0], "top1_fp32": main_short[1],
                "perplexity_hf_bf16": bf16[0], "top1_hf_bf16": bf16[1],
                "mtp_perplexity_fp32": mtp_short[0], "mtp_top1_fp32": mtp_short[1]},
            "heldout-4k.ids.txt": {"perplexity_fp32": long[0], "top1_fp32": long[1]}}, f, indent=2)


if __name__ == "__main__":
    main()
