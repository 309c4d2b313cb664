#!/usr/bin/env python3
"""glint plan, and glint serve --dry-run, as a user meets them.

    plan_test.py GLINT MODEL
"""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

from program import check, output, refused, run, succeed

MODEL = sys.argv[2]
SEED = ("plan", "zai-org/GLM-5-FP8", "--device", "b200", "--count", 8, "--max-model-len", 32768,
        "--kv-cache-memory", "64.49GiB")


def known_deployments():
    text = output(*SEED)
    for part in (r"It fits\.", r"model weights +88\.69 GiB", r"KV cache +64\.49 GiB +515\.92 GiB",
                 r"VRAM used", r"tokens +691,392", r"peak, sustained", r"peak, burst",
                 r"best layout for latency", r"NVFP4 experts fit on 4"):
        check(re.search(part, text), f"the table lacks {part}", text)
    report = json.loads(output(*SEED, "--json"))
    check(report["cache_tokens"] == 691392 and report["fits"], "JSON", report)
    # Sums are the parts', and floors grow with the batch.
    check(sum(report["weight_bytes_by_role"].values()) == report["weight_bytes"], "roles", report)
    steps = [point["floor"]["seconds"] for point in report["decode"]]
    check(steps == sorted(steps) and len(steps) > 3, "floors", steps)
    four = run("plan", "zai-org/GLM-5", "--format", "nvfp4", "--device", "b200", "--count", 4)
    check(four.returncode == 0, "NVFP4 on four", four.stdout)
    none = run("plan", "zai-org/GLM-5", "--device", "h200", "--dp", 8, "--ep", 8,
               "--mem-fraction-static", 0.7)
    check(none.returncode == 1 and "does not fit: weights take" in none.stdout, "too large", none.stdout)
    script = run("plan", "zai-org/GLM-5", "--device", "h200", "--dp", 8, "--ep", 8, "--slurm")
    check(script.returncode == 1 and not script.stdout and "does not fit: weights take" in script.stderr and "FP8 fits on" in script.stderr,
          "no script of what does not fit", script.stderr)


def this_machine():
    text = output("plan", MODEL, "--device", "cpu", "--concurrency", 2)
    check("It fits." in text and "this machine's memory" in text, "the bundled model", text)
    check(" 0.00 GiB" not in text and re.search(r"model weights +[\d.]+ MiB", text), "small sizes", text)
    check("memory used" in text and "VRAM" not in text, "memory of a CPU", text)
    dry = run("serve", MODEL, "--dry-run", "--kv-cache-tokens", 6400, "--max-model-len", 512, "--dcp-size", 2,
              "--disable-custom-all-reduce", "--revision", "main", env={"SAFETENSORS_FAST_GPU": "1", "NCCL_P2P_LEVEL": "PHB"})
    check(dry.returncode == 0 and "serving" not in dry.stderr, "a dry run", dry.stderr)
    shared = output("serve", MODEL, "--dry-run", "--dp", 4, "--cp", 2, "-t", 4, "--kv-cache-tokens", 6400, "--max-model-len", "2k")
    check(re.search(r"sequences of 2,000 +6\n", shared) and "4 replicas, of which 2 share each" in shared, "replicas that share", shared)
    stages = output("serve", MODEL, "--dry-run", "--dp", 2, "--pp", 2, "-t", 4, "--kv-cache-tokens", 6400, "--max-model-len", "2k")
    check(re.search(r"tokens +6,400 in each of 2 replicas\n", stages), "stages of several sizes, which share the memory", stages)
    refused("serve", MODEL, "--dry-run", "--otlp-traces-endpoint", "localhost:4318", words=["--otlp-traces-endpoint", "localhost:4318"])
    both = run("serve", MODEL, "--dry-run", "--kv-cache-memory", "64M", "--gpu-memory-utilization", 0.25, "--mem-fraction-static", 0.5)
    for flag in ("--gpu-memory-utilization 0.25", "--mem-fraction-static 0.5"):
        check(f"ignored: {flag} (--kv-cache-memory says how large the cache is)" in both.stderr, "the most exact wish holds", both.stderr)
    refused("serve", MODEL, "--dry-run", "--chat-template", "nosuch.jinja", words=["--chat-template", "nosuch.jinja"])
    check(re.search(r"tokens +6,400", dry.stdout) and "6,400 tokens" in dry.stderr, "the same cache",
          dry.stdout + dry.stderr)
    for line in ("ignored: --revision main (a directory has one)", "ignored: --dcp-size 2", "ignored: --disable-custom-all-reduce", "ignored: SAFETENSORS_FAST_GPU",
                 "passed through: NCCL_P2P_LEVEL=PHB"):
        check(line in dry.stderr, "flags without effect", dry.stderr)
    with tempfile.TemporaryDirectory() as folder:
        for file in pathlib.Path(MODEL).resolve().iterdir():
            pathlib.Path(folder, file.name).symlink_to(file)
        config, tokenizer = pathlib.Path(folder, "config.json"), pathlib.Path(folder, "tokenizer.json")
        large = json.dumps(json.loads(config.read_text()) | {"moe_intermediate_size": 1 << 18, "n_routed_experts": 256, "num_hidden_layers": 78})
        config.unlink()
        config.write_text(large)
        line = ("serve", folder, "--load-format", "dummy", "--dry-run")
        refused(*line, words=["weights and steps of", "TiB do not fit"])
        done = run(*line, "--kv-cache-tokens", 640, "--max-model-len", 512)
        check(done.returncode == 1 and "It does not fit" in done.stdout, "what does not fit", done.stdout + done.stderr)
        config.write_text(pathlib.Path(MODEL, "config.json").read_text())
        tokenizer.unlink()
        tokenizer.write_text("version https://git-lfs.github.com/spec/v1\n")
        refused("serve", folder, "--dry-run", words=["tokenizer.json"])


def several_machines():
    one, two = (json.loads(output("plan", MODEL, "--device", "cpu", *more, "--json")) for more in ((), ("--count", 2)))
    check((one["count"], two["count"]) == (1, 2), "machines", (one["count"], two["count"]))
    check(two["layout"]["tp"] == 2 and two["weight_bytes"] < one["weight_bytes"], "a rank of two", two)
    for layout, count in (((), 4), (("--dp", 3), 6), (("--dp", 16), 16)):  # not 8, which nobody asked for
        fits = json.loads(output("plan", MODEL, *layout, "--json"))
        check(fits["count"] == count, "as many devices as can divide the heads", fits["count"])
    text = run("plan", "zai-org/GLM-5-FP8", "--device", "cpu", "--count", 16).stdout
    check("hosts of" not in text, "machines are hosts", text)
    for alone in ("--ep", "--cp"):  # as many replicas, as servers have them
        said = json.loads(output("plan", MODEL, "--device", "cpu", "--count", 2, alone, 2, "--json"))["layout"]
        check(said == {"tp": 1, "ep": 1, "dp": 2, "pp": 1, "cp": 1, "reduce_slices": 1} | {alone[2:]: 2}, alone, said)
    slices = output("plan", MODEL, "--device", "cpu", "--count", 2, "--tp", 2, "--reduce-slices", 4, "--slurm")
    check(" --tp 2 --reduce-slices 4 " in slices, "slices", slices)
    refused("plan", MODEL, "--device", "cpu", "--tp", 2, words=["tp 2 is 2 ranks", "1 device (--count)"])


def odd_loads():
    for args in (("--input-len", 100, "--max-num-batched-tokens", 512), ("--max-model-len", 64),
                 ("--max-model-len", 2, "--concurrency", 1), ("--input-len", 100000, "--output-len", 1),
                 ("--tp", 2, "--dp", 2, "--pp", 2), ("--dp", 8, "--ep", 8, "--cp", 8), ("--drafts", 3)):
        text = output("plan", "zai-org/GLM-5-FP8", "--device", "b300", *args)
        check("It fits." in text, f"{args}", text)


def page():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "plan.html"
        output(*SEED, "--html", file)
        html = file.read_text()
        check(html.count("<svg") == 3 and "http" not in html and "<script" not in html, "the page", html[:400])
        output("plan", MODEL, "--html", file)
        check(": 0.00 GiB" not in file.read_text(), "small sizes", re.findall("<title>.*?<", file.read_text()))


def launches():
    line = ("plan", MODEL, "--device", "cpu", "--tp", 2, "--kv-cache-memory", "64M")
    script = output(*line, "--slurm")
    check(f"srun --kill-on-bad-exit=1 glint serve '{os.path.abspath(MODEL)}' --tp 2 " in script and "--nodes=2\n" in script, "Slurm", script)
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
    check(done.returncode == 0, "a script that bash reads", done.stderr)
    manifest = output(*line, "--k8s")
    check("kind: LeaderWorkerSet\n" in manifest and "    size: 2\n" in manifest, "Kubernetes", manifest)
    gpu = output("plan", MODEL, "--device", "h200", "--count", 1, "--k8s")
    check("nvidia.com/gpu: 1" in gpu and "--tp" not in gpu and "{memory: 4096Mi," in gpu, "a GPU", gpu)
    gpus = output("plan", MODEL, "--device", "h200", "--count", 4, "--dp", 4, "--ep", 4, "--slurm")
    check("--nodes=1\n" in gpus and "--gpus-per-node=4\n" in gpus and " --dp 4 --ep 4 --max-num-seqs 1024 --max-num-batched-tokens 8192 --host" in gpus, "GPUs of a machine", gpus)
    trays = output("plan", "GLM-5-FP8", "--device", "gb200", "--count", 8, "--slurm")
    check("--nodes=2\n" in trays and "--gpus-per-node=4\n" in trays and "--mem=10240M\n" in trays, "machines within an NVLink domain", trays)
    check("serve 'zai-org/GLM-5-FP8' " in trays, "an id that a server finds", trays)
    hosts = ("plan", MODEL, "--device", "h200", "--count", 12, "--dp", 12, "--ep", 12)
    script, manifest = output(*hosts, "--slurm"), output(*hosts, "--k8s")
    check("--nodes=2\n" in script and "--gpus-per-node=6\n" in script and " --dp 12 " in script, "GPUs of two machines", script)
    check("    size: 2\n" in manifest and "nvidia.com/gpu: 6}" in manifest, "GPUs of two machines", manifest)
    refused("plan", MODEL, "--device", "h200", "--count", 9, "--dp", 9, "--slurm", words=["--count is 9", "set it to 10, and --tp, --dp and --pp"])
    stages = output("plan", MODEL, "--device", "h200", "--count", 2, "--pp", 2, "--slurm")
    check("--gpus-per-node=2\n" in stages and " --pp 2 " in stages, "stages on GPUs", stages)
    layout = ("--tp", "2", "--dp", "2", "--ep", "4", "--cp", "2", "--pp", "2")
    script = output("plan", MODEL, "--device", "cpu", *layout, "--kv-cache-memory", "64M", "--slurm")
    check("--nodes=8\n" in script and " ".join(layout) in script, "a layout", script)
    asked = ("--kv-dtype", "fp8", "--index", "exact", "--max-model-len", "512", "--max-num-batched-tokens", "256", "--threads", "1")
    words = output("plan", MODEL, "--device", "cpu", *asked, "--concurrency", 3, "--drafts", 2, "--slurm").split("glint serve ")[1].split()
    said = run("serve", MODEL, *words[1:words.index("--host")], "--dry-run").stderr
    check(all(one in " ".join(words) for one in map(' '.join, zip(asked[::2], asked[1::2]))) and "at most 3 requests, 256 tokens" in said and "up to 2 tokens" in said, "what was planned", said)
    # A server would do otherwise by itself than is planned by default: it is told.
    words = output("plan", MODEL, "--device", "cpu", "--kv-cache-memory", "64M", "--slurm").split("glint serve ")[1].split()
    said = run("serve", MODEL, *words[1:words.index("--host")], "--dry-run").stderr
    check("at most 256 requests, 8,192 tokens" in said, "what is planned by default", said)
    for share in ("--gpu-memory-utilization", "--mem-fraction-static"):
        script = output("plan", MODEL, "--device", "h200", "--count", 1, share, 0.5, "--slurm")
        check(f" {share} 0.5 " in script and "--kv-cache-memory" not in script, "a share of a GPU", script)


def a_launch_holds_the_planned_cache_under_its_limit():
    """A server takes a share of its control group's limit, which is less than the machine: it is told a size."""
    half_a_gib = (1 << 29) / (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for concurrency, given in ((4, ()), (64, ("--gpu-memory-utilization", half_a_gib)), (64, ("--mem-fraction-static", half_a_gib)),
                               (4, ("--kv-cache-memory", "64M"))):
        line = ("plan", MODEL, "--device", "cpu", "--threads", 1, "--max-num-batched-tokens", 256, "--concurrency", concurrency, *given)
        script = output(*line, "--slurm")
        words = script.split("glint serve ")[1].split(" --host")[0].split()[1:]
        check(words.count("--kv-cache-memory") == 1 and "--gpu-memory-utilization" not in words and "--mem-fraction-static" not in words,
              "one size of the cache", script)
        plan = json.loads(output(*line, "--json"))
        useful = (plan["max_model_len"] // 64 + 1) * 64 * concurrency
        limit = int(re.search(r"--mem=(\d+)M", script)[1]) << 20
        check(limit < plan["cache_bytes"] or plan["cache_tokens"] <= useful, "no more memory than is of use", script)
        said = succeed("serve", MODEL, *words, "--dry-run", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))).stderr
        check(f"{min(plan['cache_tokens'], useful):,} tokens," in said, "the planned cache", said)


def the_table_of_layouts_is_what_the_program_says():
    tool = pathlib.Path(__file__).resolve().parents[2] / "tools" / "layout_tables.py"
    done = subprocess.run([sys.executable, tool, "--check", sys.argv[1]], capture_output=True, text=True)
    check(done.returncode == 0, "the table", done.stderr)


def refusals():
    refused("plan", MODEL, "--kv-cache-memory", -5, words=["--kv-cache-memory", '"-5"'])
    for share in ("--gpu-memory-utilization", "--mem-fraction-static"):
        refused("plan", "zai-org/GLM-5", "--kv-cache-memory", "8G", share, 0.8, words=["--kv-cache-memory", share, "leave one out"])
    refused("plan", MODEL, "--k8s", "--slurm", words=["--k8s", "--slurm"])
    refused("plan", MODEL, "--k8s", "--json", words=["--json"])
    refused("plan", MODEL, "--slurm", "--format", "fp8", words=["--format"])
    refused("plan", f"{MODEL}/config.json", "--slurm", words=["config.json", "is a file"])
    with tempfile.TemporaryDirectory() as folder:
        alone = pathlib.Path(folder) / "config.json"
        alone.write_text(json.dumps(json.loads((pathlib.Path(MODEL) / "config.json").read_text()) | {"num_nextn_predict_layers": 0}))
        for quantization, form in (({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"), ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
                                   ({"quant_method": "compressed-tensors", "format": "float-quantized"}, "fp8")):
            alone.with_name("q.json").write_text(json.dumps(json.loads(alone.read_text()) | {"quantization_config": quantization}))
            check(json.loads(output("plan", alone.with_name("q.json"), "--count", 4, "--json"))["format"] == form, form, quantization)
        for quantization in ({"quant_method": "awq"}, {"quant_method": "mxfp4"}, {"quant_method": "compressed-tensors", "format": "int-quantized"}):
            alone.with_name("q.json").write_text(json.dumps(json.loads(alone.read_text()) | {"quantization_config": quantization}))
            refused("plan", alone.with_name("q.json"), "--count", 4, words=["q.json", " ".join(quantization.values()), "--format"])
        output("plan", alone.with_name("q.json"), "--count", 4, "--format", "bf16")
        refused("plan", alone, "--drafts", 3, words=["--drafts 3", "MTP layer", str(alone)])
    refused("plan", MODEL, "--drafts", 17, words=["--drafts is 17", "16"])
    refused("plan", "zai-org/GLM-5", "--device", "h300", words=["h300"])
    refused("plan", MODEL, "--dp", 65536, "--pp", 65536, words=["--dp is 65536"])
    refused("plan", "zai-org/GLM-5", "--tp", 3, words=["tp 3 is 3 ranks for 8 devices"])
    refused("plan", MODEL, "--device", "h200", "--count", 8, words=["--count is 8", "4 heads", "set it to 4, or --dp to 2"])
    refused("plan", "zai-org/GLM-5", "--dp", 3, "--ep", 3, "--count", 9,
            words=["64 heads evenly; set it to 6 and --ep to 6, or --dp to 9 and --ep to 9"])
    refused("plan", "zai-org/GLM-5", "--dp", 2, "--ep", 2, "--count", 600, words=["heads evenly; set it to 128 and --ep to 128\n"])
    output("plan", "zai-org/GLM-5", "--dp", 2, "--ep", 128, "--count", 128)
    refused("plan", "zai-org/GLM-5", "--dp", 8, "--ep", 8, "--count", 1000, words=["heads evenly; set --tp to a divisor of them\n"])
    refused("plan", "zai-org/GLM-5", "--count", 128, "--tp", 4, "--pp", 4, "--cp", 2, "--ep", 32, words=["set --dp to 8"])
    refused("plan", "zai-org/GLM-5", "--cp", 4, "--dp", 2, words=["cp is 4"])
    refused("plan", "zai-org/GLM-5", "--threads", 4, words=["--threads", "--device cpu"])
    refused("plan", "zai-org/GLM-5", "--concurrency", 65537, words=["--concurrency is 65537"])
    refused("plan", "zai-org/GLM-5", "--mem-fraction-static", 1.5, words=["--mem-fraction-static is 1.5"])
    refused("plan", "zai-org/GLM-5", "--ep", 4, "--tp", 8, words=["set ep to 8 or to 1"])
    refused("plan", "zai-org/GLM-5", "--max-model-len", "1M", words=["202752 positions"])


known_deployments()
this_machine()
several_machines()
odd_loads()
page()
launches()
a_launch_holds_the_planned_cache_under_its_limit()
the_table_of_layouts_is_what_the_program_says()
refusals()
