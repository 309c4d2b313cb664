#!/usr/bin/env python3
"""Write tests/golden/trained: what transformers says of the bundled trained model, in BF16, FP8 and NVFP4 weights.

    python tools/make_trained_goldens.py --glint build/release/glint [--out tests/golden/trained]

Random weights, as in make_goldens.py, cannot show how near BF16 arithmetic is to fp32: rounding flips their selections.
A trained model can. `glint quantize` makes FP8 and NVFP4 of it (all linear layers); of each the oracle (hf_oracle.py:
transformers in fp32 on the dequantised weights) runs over held-out text, one sequence longer than index_topk, so that
attention is sparse. Kept is what is small, for all three in the same form:

  sequences.json       lengths of the sequences; hash of each quantised model.safetensors, as glint_quantize.json has it
  ids.npy              int32   [T]: the sequences, one after another
  rows.npy             int32   [R]: rows (of T) of which all logits are kept
  <format>.rows.npy    float32 [R, vocab]
  <format>.top.npy     float32 [T, K]: the largest logits, descending, and
  <format>.top_ids.npy int16   [T, K]: whose they are
  <format>.lse.npy     float32 [T]: log(sum(exp(logits)))
  <format>.skip.npy    uint8   [T]: near-ties in fp32, as make_goldens.py marks them

Needs torch, transformers >= 5.13, safetensors and numpy; two minutes on one core.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch

from hf_oracle import Oracle
from make_goldens import near_ties

ROOT = Path(__file__).parent.parent
MODEL = ROOT / "models" / "glm5-tiny"
FORMATS = {"bf16": None, "fp8": ("--format", "fp8", "--scope", "all-linear"),
           "nvfp4": ("--format", "nvfp4", "--scope", "all-linear")}
SEQUENCES = (("heldout-4k.ids.txt", 0, 600), ("heldout.ids.txt", 3, 250), ("heldout.ids.txt", 17, 250))
K = 8            # largest logits kept of every row
EVERY = 640      # rows of which all are


def read_sequences():
    for file, line, length in SEQUENCES:
        text = (ROOT / "models" / "record" / file).read_text().splitlines()[line]
        yield np.array(text.split()[:length], np.int32)


def make(name: str, folder: Path, sequences, rows, out: Path) -> None:
    oracle, logits, skip = Oracle(folder), [], []
    for ids in sequences:
        result = oracle(ids)
        logits.append(result.logits)
        skip.append(near_ties(folder, ids, result)[0])
    logits, skip = np.concatenate(logits), np.concatenate(skip)
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :K]
    top = np.take_along_axis(logits, order, -1)
    lse = torch.logsumexp(torch.from_numpy(logits).double(), -1).numpy()
    arrays = {"rows": logits[rows], "top": top, "top_ids": order.astype(np.int16), "lse": lse.astype(np.float32),
              "skip": skip}
    for k, v in arrays.items():
        np.save(out / f"{name}.{k}.npy", v)
    left = 1 - np.exp(top - lse[:, None]).sum(-1)
    print(f"{name}: {len(logits)} rows, {skip.sum()} near-ties, outside the {K} largest at most {left.max():.1e}",
          flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--glint", default="glint", help="the program, which quantises")
    ap.add_argument("--out", type=Path, default=ROOT / "tests" / "golden" / "trained")
    args = ap.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    sequences = list(read_sequences())
    ids = np.concatenate(sequences)
    rows = np.arange(EVERY // 16, len(ids), EVERY).astype(np.int32)
    np.save(args.out / "ids.npy", ids)
    np.save(args.out / "rows.npy", rows)
    hashes = {}
    with tempfile.TemporaryDirectory() as tmp:
        for name, options in FORMATS.items():
            folder = MODEL
            if options:
                folder = Path(tmp) / name
                subprocess.run([args.glint, "quantize", str(MODEL), str(folder), *options], check=True,
                               stdout=subprocess.DEVNULL)
                hashes[name] = json.loads((folder / "glint_quantize.json").read_text())["shards"][0]["xxh128"]
            make(name, folder, sequences, rows, args.out)
    (args.out / "sequences.json").write_text(json.dumps({"lengths": [len(s) for s in sequences], "xxh128": hashes}) + "\n")


if __name__ == "__main__":
    main()
