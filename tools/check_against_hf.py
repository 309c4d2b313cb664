#!/usr/bin/env python3
"""Compare `glint score` with Hugging Face transformers on any GLM-5 / DeepSeek-V3.2 checkpoint.

    python tools/check_against_hf.py MODEL_DIR --glint build/release/glint [--ids FILE] [--dtype f32|bf16]

transformers runs in fp32 on the dequantised weights (tools/hf_oracle.py says what is patched), so any format that glint
reads can be checked if it fits in memory at 4 bytes a parameter (8 for the near-ties, skipped with --no-fp64).

--ids: .npy (one row) or text of integers, one sequence a line; only the first sequence is used. Without it: random ids,
longer than index_topk: a hard test, but one that says nothing about text.

--dtype f32 (default): a row passes when its relative L2 error is <= --tolerance (1e-4). Rows where transformers in fp32
and in fp64 differ by more than 2e-5 are near-ties of a top-k: counted, not judged.
--dtype bf16: judged are the mean KL (--max-kl, 1e-3) and top-1 agreement (--min-top1, 0.99) of the logits. This wants a
trained model and real text: on random weights transformers' own BF16 run misses both bounds by far.
Exit code 0: all passed, 1: not.

Needs torch, transformers >= 5.13, safetensors, numpy.
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from hf_oracle import Oracle, read_config, row_error


def read_ids(path: Path) -> np.ndarray:
    if path.suffix == ".npy":
        return np.atleast_2d(np.load(path))[0]
    return np.array(next(l for l in path.read_text().splitlines() if l.strip()).split(), np.int32)


def run_glint(args, ids) -> dict[str, np.ndarray]:
    """The arrays that `glint score` writes: logits [T, V], mtp [T - 1, V] (if there is such a layer), hidden [L + 1, T, H]."""
    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        np.save(tmp / "ids.npy", ids.astype(np.int32))
        files = {"logits": "--out", "hidden": "--hidden"}
        if read_config(args.model).get("num_nextn_predict_layers", 0):
            files["mtp"] = "--mtp"
        command = [args.glint, "score", str(args.model), "--ids", str(tmp / "ids.npy"), "--dtype", args.dtype,
                   "--index", args.index]
        for name, option in files.items():
            command += [option, str(tmp / f"{name}.npy")]
        subprocess.run(command + args.extra, check=True)
        return {name: np.load(tmp / f"{name}.npy") for name in files}


def agreement(x, ref) -> tuple[float, float]:
    """(mean KL(ref || x), share of rows with the same top-1) of two logits arrays [T, V]."""
    p, q = (torch.log_softmax(torch.from_numpy(np.asarray(a, np.float64)), -1) for a in (ref, x))
    return (p.exp() * (p - q)).sum(-1).mean().item(), (p.argmax(-1) == q.argmax(-1)).double().mean().item()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", type=Path, help="checkpoint folder")
    ap.add_argument("--glint", default="glint", help="the program")
    ap.add_argument("--ids", type=Path)
    ap.add_argument("--max-tokens", type=int, default=512, help="use at most so many tokens of --ids")
    ap.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    ap.add_argument("--index", default="exact", choices=("exact", "fp8"))
    ap.add_argument("--tolerance", type=float, default=1e-4)
    ap.add_argument("--max-kl", type=float, default=1e-3)
    ap.add_argument("--min-top1", type=float, default=0.99)
    ap.add_argument("--no-fp64", action="store_true", help="do not look for near-ties")
    ap.add_argument("--threads", type=int, default=1, help="of transformers")
    ap.add_argument("extra", nargs="*", help="after --: more options for glint score")
    args = ap.parse_args()
    torch.set_num_threads(args.threads)

    cfg = read_config(args.model)
    if args.ids:
        ids = read_ids(args.ids)[:args.max_tokens]
    else:
        T = min(cfg.get("index_topk", 2048) + 100, args.max_tokens)
        ids = np.random.default_rng(0).integers(0, cfg["vocab_size"], T)
    got = run_glint(args, ids)

    ref = Oracle(args.model)(ids)
    want = {"logits": ref.logits, "mtp": ref.mtp_logits, "hidden": ref.hidden}
    skip = {"logits": np.zeros(len(ids), bool), "mtp": np.zeros(len(ids) - 1, bool)}
    if args.dtype == "f32" and not args.no_fp64:
        exact = Oracle(args.model, double=True)(ids)
        skip["logits"] = row_error(ref.logits, exact.logits) > 2e-5
        if ref.mtp_logits is not None:
            skip["mtp"] = row_error(ref.mtp_logits, exact.mtp_logits) > 2e-5
    skip["hidden"] = skip["logits"]

    ok = True
    for name, x in got.items():
        if x.shape != want[name].shape:
            print(f"{name}: shape {x.shape}, expected {want[name].shape}")
            ok = False
            continue
        if args.dtype == "bf16":
            error = row_error(x, want[name])
            if name == "hidden":
                print(f"hidden: relative L2 by layer {', '.join(f'{e:.1e}' for e in error.mean(-1))}")
                continue
            kl, top1 = agreement(x, want[name])
            good = kl <= args.max_kl and top1 >= args.min_top1
            print(f"{name}: KL {kl:.2e}, top-1 {100 * top1:.2f} %: {'ok' if good else 'FAILED'}")
            ok &= good
            continue
        keep = ~skip[name]
        error = row_error(x, want[name])[..., keep]
        good = bool((error <= args.tolerance).all())
        by_layer = f" ({', '.join(f'{e:.1e}' for e in error.max(-1))})" if name == "hidden" else ""
        print(f"{name}: worst row {error.max():.2e}{by_layer}, {(~keep).sum()} near-ties of {len(keep)}: "
              f"{'ok' if good else 'FAILED'}")
        ok &= good
    sys.exit(not ok)


if __name__ == "__main__":
    main()
