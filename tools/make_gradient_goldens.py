#!/usr/bin/env python3
"""Write what transformers' autograd says in fp64 of small checkpoints: tests/golden/gradients/<name>/.

    python tools/make_gradient_goldens.py [--out tests/golden/gradients] [name ...]

Needs torch, transformers >= 5.13, safetensors and numpy (CPU; a minute on one core). Never run by the tests: its output is
committed. tools/hf_oracle.py says what transformers is patched with; weights are those of the checkpoint, in fp64.

The loss is the mean cross-entropy of every token but each sequence's first, plus W times that of the MTP layer, of every
token but the first two. Sequences run one by one: nothing is padded. The gradient is summed over them.

Of every parameter its norm, and 32 of its elements (all, if it has fewer): element (i * 0x9E3779B1 + 12345) mod size for
i = 0 .. 31, which tests compute as well. Parameters stand in the order of their names, as published checkpoints have them
(experts one by one, kv_b_proj whole), sorted byte by byte.

  norms.npy   float64 [parameters]
  values.npy  float32, one after another: min(32, size) of each
  ids.txt     the sequences, one a line
  loss.npy    float64 [2]: the mean, and the MTP layer's (0 without)

transformers gives the embedding's row of the pad token no gradient (padding_idx); here it has one.
"""
import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from hf_oracle import Oracle

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = 32
# name: checkpoint, lengths of the sequences, weight of the MTP layer's loss
CASES = {
    "tiny": ("models/glm5-tiny", [64], 0.0),
    "sharing": ("tests/golden/glm52_sharing", [70, 1, 90], 0.25),
    "real_heads": ("tests/golden/real_heads", [80], 0.0),
    "odd": ("tests/golden/odd", [50, 60], 1.0),
    "groups": ("tests/golden/deepseek_v32", [80], 0.0),
    "tied": ("tests/golden/odd", [40], 0.5),       # without its lm_head: the embedding is the head too
}


def read_ids(model: str, lengths: list[int]) -> list[np.ndarray]:
    """Cut from the record's text, or from the golden's prompt."""
    if model.startswith("models/"):
        line = (ROOT / "models/record/heldout.ids.txt").read_text().split("\n")[0]
        ids = np.array(line.split(), np.int64)
    else:
        ids = np.load(ROOT / model / "ids.npy").astype(np.int64)
        ids = np.concatenate((ids, ids[::-1]))
    ends = np.cumsum(lengths)
    return [ids[e - n:e] for n, e in zip(lengths, ends)]


def tied(model: Path, to: Path) -> Path:
    """A copy of the checkpoint whose embedding is its head."""
    cfg = json.loads((model / "config.json").read_text())
    (to / "config.json").write_text(json.dumps({**cfg, "tie_word_embeddings": True}))
    tensors = load_file(model / "model.safetensors")
    save_file({k: v for k, v in tensors.items() if k != "lm_head.weight"}, to / "model.safetensors")
    return to


def mean_gradient(oracle: Oracle, sequences: list[np.ndarray], mtp_weight: float) -> tuple[float, float]:
    """Leaves the gradient in the parameters' .grad; returns both losses."""
    model, losses = oracle.model, [0.0, 0.0]
    embed = model.model.embed_tokens
    embed.padding_idx = None
    counts = [sum(max(len(ids) - ahead, 0) for ids in sequences) for ahead in (1, 2)]
    for ids in sequences:
        if len(ids) < 2:
            continue
        x = torch.from_numpy(ids)[None]
        with oracle.mode:
            out = model(x, use_cache=False, output_hidden_states=True)
            terms = [torch.nn.functional.cross_entropy(out.logits[0, :-1], x[0, 1:], reduction="sum")]
            if mtp_weight and len(ids) > 2:
                logits = oracle.mtp(embed(x[:, 1:]), out.hidden_states[-1][:, :-1], model.model.rotary_emb, model.lm_head)
                terms.append(torch.nn.functional.cross_entropy(logits[0, :-1], x[0, 2:], reduction="sum"))
            loss = sum(w * t / n for w, t, n in zip((1.0, mtp_weight), terms, counts))
            loss.backward()
        for i, (t, n) in enumerate(zip(terms, counts)):
            losses[i] += t.item() / n
    return losses


def gradients(oracle: Oracle, with_mtp: bool):
    """Yields (published name, gradient) of every parameter that has one."""
    parts = [(oracle.model, "")]
    if with_mtp:
        parts.append((oracle.mtp, f"model.layers.{oracle.config.num_hidden_layers}."))
    for part, prefix in parts:
        for name, p in part.named_parameters():
            if p.numel() == 0:
                continue
            name = prefix + name.removeprefix("layer.")
            if ".indexer." in name:
                assert p.grad is None or not p.grad.any(), name
                continue
            grad = torch.zeros_like(p) if p.grad is None else p.grad
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                folder, _, kind = name.rpartition(".")
                for e, g in enumerate(grad):
                    kinds = zip(("gate_proj", "up_proj"), g.chunk(2)) if kind == "gate_up_proj" else [(kind, g)]
                    for k, piece in kinds:
                        yield f"{folder}.{e}.{k}.weight", piece
            else:
                yield name, grad


def sampled(size: int) -> np.ndarray:
    if size <= SAMPLES:
        return np.arange(size)
    return (np.arange(SAMPLES, dtype=np.uint64) * 0x9E3779B1 + 12345) % size


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=Path, default=ROOT / "tests/golden/gradients")
    ap.add_argument("names", nargs="*", default=list(CASES))
    args = ap.parse_args()
    for case in args.names:
        model, lengths, mtp_weight = CASES[case]
        with tempfile.TemporaryDirectory() as tmp:
            oracle = Oracle(tied(ROOT / model, Path(tmp)) if case == "tied" else ROOT / model, double=True)
        sequences = read_ids(model, lengths)
        losses = mean_gradient(oracle, sequences, mtp_weight)
        names, norms, values = [], [], []
        for name, g in sorted(gradients(oracle, mtp_weight > 0)):
            g = g.reshape(-1).double().numpy()
            names.append(name)
            norms.append(np.linalg.norm(g))
            values.append(g[sampled(g.size)])
        folder = args.out / case
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ids.txt").write_text("".join(" ".join(map(str, ids)) + "\n" for ids in sequences))
        np.save(folder / "norms.npy", np.array(norms))
        np.save(folder / "values.npy", np.concatenate(values).astype(np.float32))
        np.save(folder / "loss.npy", np.array(losses))
        print(f"{case}: loss {losses[0]:.7f} {losses[1]:.7f}, {len(names)} parameters, norm {np.linalg.norm(norms):.7f}")


if __name__ == "__main__":
    main()
