#!/usr/bin/env python3
"""The commands of miles' recipe for GLM-5, as its guide types them: plans, what they refuse, and every stage on the bundled model.

    train_launch_test.py build/release/glint models/glm5-tiny models/rl
"""

import json
import os
import pathlib
import sys
import tempfile

from program import check, output, refused, run, succeed

os.environ["OMP_NUM_THREADS"] = "4"  # a rank needs a thread, also where there is one CPU
TINY, DATA = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
STAGES = ("prepare", "prepare-cp", "train", "full-train")
# Every flag that the recipe passes on, as it writes them.
RECIPE = """--kl-loss-coef 0.00 --kl-loss-type low_var_kl --kl-coef 0.00 --entropy-coef 0.00 --eps-clip 0.2 --eps-clip-high 0.28
 --use-dynamic-batch-size --max-tokens-per-gpu 16384 --data-pad-size-multiplier 4096 --log-probs-chunk-size 1024
 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --optimizer adam --lr 1e-6
 --lr-decay-style constant --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.98 --sequence-parallel
 --sglang-mem-fraction-static 0.70 --sglang-enable-dp-attention --sglang-ep-size 64 --sglang-dp-size 64
 --sglang-moe-dense-tp-size 1 --sglang-enable-dp-lm-head --sglang-page-size 64 --sglang-nsa-decode-backend flashmla_sparse
 --sglang-nsa-prefill-backend flashmla_sparse --sglang-attention-backend nsa --sglang-max-running-requests 512
 --sglang-watchdog-timeout 3600 --moe-enable-deepep --moe-token-dispatcher-type flex --colocate --allgather-cp
 --update-weight-buffer-size 2147483648 --attention-dropout 0.0 --hidden-dropout 0.0
 --accumulate-allreduce-grads-in-fp32 --attention-softmax-in-fp32 --rollout-num-gpus-per-engine 64""".split()


def plan(*args, stage="train"):
    return json.loads(output("train", stage, "--dry-run", "--json", *args))


def does_not_fit(*args):
    done = run("train", "train", *args)
    check(done.returncode == 2 and done.stderr.startswith("glint: ") and done.stderr.count("\n") == 1, args, done.stdout + done.stderr)
    check("Memory of a GPU" in done.stdout, "the plan comes first", done.stdout)
    return done.stderr


def the_published_lines_resolve():
    for stage in STAGES:
        text = output("train", stage, "--model-name", "GLM-5", "--num-nodes", 16, "--dry-run")
        for part in ("TP 4  PP 4  CP 2  EP 32", "20 + 20 + 20 + 18", "Memory of a GPU", "Traffic", "step time", "planned only",
                     "turned on                  --enable-optimizer-offload", "Without meaning here"):
            check(part in text, f"{part} of {stage}", text)
    full = plan("--model-name", "GLM-5", "--num-nodes", 16)
    check(full["gpus"] == 128 and full["layout"]["dp"] == 4 and full["layout"]["expert_dp"] == 1 and full["optimizer_offload"], "layout", full)
    check(full["memory"]["total"] < full["memory"]["budget"] and full["misfit"] == "", "it fits", full)
    check(any("--enable-pd" in one for one in full["planned_only"]), "disaggregation is planned", full)
    double = plan("--model-name", "GLM-5", "--num-nodes", 32, "--no-enable-pd", "--rollout-num-gpus-per-engine", 64)
    check(double["layout"]["ep"] == 64 and double["planned_only"] == [], "the experts of more nodes", double)
    apart = plan("--model-name", "GLM-5", "--num-nodes", 32, "--no-enable-pd", "--rollout-num-gpus-per-engine", 64, "--expert-model-parallel-size", 32)
    check(apart["planned_only"] == ["ep is 32, but experts are shared by all 64 ranks of a stage or by none; set ep to 64 or to 1"], "a layout that is not run", apart)
    check(plan("--model-name", "GLM-5.1", "--num-nodes", 16)["layout"] == full["layout"], "GLM-5.1", full)
    by_flags = plan("--model-name", "GLM-5", "--num-nodes", 16, *RECIPE)
    check(by_flags["memory"] == full["memory"] and by_flags["layout"] == full["layout"], "the recipe's own flags change nothing", by_flags)
    by_text = plan("--model-name", "GLM-5", "--num-nodes", 16, "--extra-args", " ".join(RECIPE) + " --lr 2e-6")
    check(by_text["arguments"]["lr"] == "2e-6", "--extra-args win", by_text)


def options_change_the_plan():
    six = plan("--model-name", "GLM-5_20layer", "--num-nodes", 6)
    check(six["layout"]["layers"] == [7, 7, 6] and six["layout"]["ep"] == 16 and six["engine"]["gpus"] == 16, "six nodes", six)
    pruned = plan("--model-name", "GLM-5_4layer", "--num-nodes", 1)
    check(pruned["layout"]["layers"] == [4] and pruned["arguments"]["rollout-max-response-len"] == "100", "one node", pruned)
    full = plan("--model-name", "GLM-5_4layer", "--num-nodes", 1, "--enable-mtp", "--enable-mtp-training", "--kl-loss-coef", 0.1, "--use-kl-loss")
    check(full["engine"]["weights"] > pruned["engine"]["weights"] and full["memory"]["weights"] > pruned["memory"]["weights"]
          and full["memory"]["reference"] > pruned["memory"]["reference"] == 0, "drafts, a draft layer that learns, a reference model", full)
    for more in ((), ("--fp8-rollout",), ("--rollout-num-gpus-per-engine", 8)):
        own = plan("--model-name", "GLM-5", "--num-nodes", 16, "--no-enable-pd", *more)
        check(own["misfit"] == "" and own["planned_only"] == [] and own["engine"]["gpus"] == 128, "the engine is where the model trains", own)
    short, long = (output("train", "train", "--dry-run", "--model-name", "GLM-5_4layer", "--num-nodes", 1, *more) for more in ((), ("--rollout-max-response-len", 4000)))
    for text, is_short in ((short, True), (long, False)):
        check("one node: --mode debug_minimal" in text and ("answers of 100 tokens" in text) == is_short, "the length of answers", text)
    drafts = plan("--num-nodes", 16, "--enable-mtp", "--enable-eval", "--run-id", "r", "--output-dir", "/out")
    check(drafts["arguments"]["sglang-speculative-num-steps"] == "3" and not any("speculative" in one for one in drafts["planned_only"]),
          "drafts are built", drafts)
    check(drafts["arguments"]["save"] == "/out/r/checkpoints" and drafts["arguments"]["eval-prompt-data"].endswith("aime-2024.jsonl"),
          "arguments", drafts)
    other = plan("--num-nodes", 16, "--megatron-path", "/m", "--cuda-core-dump", "--extra-env-vars", "A=1")
    check(other["without_meaning"]["no other program is started"] == "--megatron-path /m --extra-env-vars A=1 --cuda-core-dump", "flags", other)
    gb300 = plan("--num-nodes", 16, "--hardware", "GB300")
    check(gb300["arguments"]["moe-token-dispatcher-type"] == "alltoall" and "--hardware GB300: --no-megatron-use-deepep" in gb300["decided"], "GB300", gb300)
    named = plan("--num-nodes", 16, "--eval-prompt-data", "aime", "/data/aime.jsonl")
    check(named["arguments"]["eval-prompt-data"] == "/data/aime.jsonl", "NAME PATH", named)
    below = plan("--num-nodes", 16, "--no-position-embedding", "--rollout-top-k", -1)
    check(below["arguments"]["rollout-top-k"] == "-1", "a value below 0", below)
    nodes = json.loads(output("train", "train", "--dry-run", "--json", env={"SLURM_JOB_NUM_NODES": "16"}))
    check(nodes["gpus"] == 128, "SLURM's nodes", nodes)
    tiny = ("train", "train", "--dry-run", "--json", "--model-name", TINY.name, "--model-dir", TINY.parent)
    check(json.loads(output(*tiny, env={"SLURM_JOB_NUM_NODES": "2"}))["gpus"] == 1, "they are not those of a CPU's recipe")
    named = json.loads(output("train", "train", "--dry-run", "--json", "--num-rollout", 7,
                              env={"MILES_SCRIPT_NUM_NODES": "16", "MILES_SCRIPT_NUM_ROLLOUT": "5", "MILES_SCRIPT_RUN_ID": "Night"}))
    check(named["gpus"] == 128 and named["arguments"]["num-rollout"] == "7" and "/Night/" in named["arguments"]["save"], "variables", named)
    external = json.loads(output("train", "train", "--dry-run", "--json", "--num-nodes", 16, env={"MILES_SCRIPT_EXTERNAL_RAY": "1", "MILES_SCRIPT_FP8_ROLLOUT": "True"}))
    check("--external-ray" in external["without_meaning"]["no other program is started"], "Ray", external)
    check("--fp8-rollout" in external["grpo"], "True", external)
    refused("train", "train", env={"MILES_SCRIPT_NUM_NODE": "16"}, words=["num-node"])
    refused("train", "train", env={"MILES_SCRIPT_FP8_ROLLOUT": "maybe"}, words=["MILES_SCRIPT_FP8_ROLLOUT: --fp8-rollout expects true or false"])
    for fp8 in ((), ("--fp8-rollout",)):
        corrected = plan("--num-nodes", 16, "--use-tis", *fp8)
        check(("--use-tis=true" in corrected["grpo"]) == bool(fp8), "weights are only those of an engine in FP8", corrected)


def wrong_plans_are_refused():
    error = does_not_fit("--model-name", "GLM-5", "--num-nodes", 16, "--rollout-num-gpus-per-engine", 8, "--dry-run")
    check("an engine of 8 GPUs" in error and "GiB" in error and "a larger --rollout-num-gpus-per-engine" in error, "what does not fit", error)
    for nodes in (1, 6):
        check("training takes" in does_not_fit("--model-name", "GLM-5", "--num-nodes", nodes, "--dry-run"), f"{nodes} nodes")
    refused("train", "train", "--num-nodes", 3, words=["--num-nodes is 3", "1, 6, and 16"])
    refused("train", "train", "--model-name", "GLM-6", words=["GLM-6", "GLM-5_4layer"])
    refused("train", "train", "--num-node", 16, words=["--num-node"])
    refused("train", "full-train", "--rollout-batch-sze", 2, words=["did you mean --rollout-batch-size?"])
    refused("train", "train", "--num-nodes", 16, "--resume", words=["--resume", "--run-id"])
    refused("train", "train", "--extra-args", "--lrr 3", words=["--lrr", "--lr"])
    for wrong, word in ((("--num-rollout", 0), "--num-rollout is 0"), (("--lr", -1), "--lr is -1"), (("--lr", "x"), "--lr"),
                        (("--rollout-temperature", 0), "--rollout-temperature is 0"), (("--global-batch-size", 7), "--global-batch-size is 7"),
                        (("--save-interval", -1), "--save-interval is -1"), (("--rm-type", "maths"), "maths"),
                        (("--load", "/other"), "give both the same"), (("--rollout-max-response-len", 300000), "the model has 202752 positions")):
        for stage in ("train", "full-train"):
            plans = [run("train", stage, "--model-name", "GLM-5", "--num-nodes", 16, "--run-id", "r", *wrong, *more) for more in ((), ("--dry-run",))]
            check(all(done.returncode == 2 and word in done.stderr and done.stdout == "" for done in plans), f"{stage} {wrong}", plans)
            check(plans[0].stderr == plans[1].stderr, f"{stage} {wrong}: a plan is refused as a launch", plans)
    for stage in ("train", "full-train"):
        done = run("train", stage, "--model-name", "GLM-5", "--num-nodes", 16)
        check(done.returncode == 2 and "TP 4  PP 4" in done.stdout, "a launch shows its plan", done.stdout + done.stderr)
        check(" goes on with this run\n" in done.stdout, "and the name that it made up", done.stdout)
        check("planned only" in done.stderr and done.stderr.endswith("(--enable-pd); --no-enable-pd answers without them, --dry-run shows the plan\n"),
              "a launch is refused", done.stderr)
        done = run("train", stage, "--model-name", "GLM-5", "--num-nodes", 16, "--no-enable-pd")
        check(done.returncode == 2 and "16 nodes train by 128 processes" in done.stderr, "a launch that does as it was told", done.stderr)
    apart = run("train", "train", "--model-name", "GLM-5", "--num-nodes", 16, "--no-enable-pd", "--expert-tensor-parallel-size", 2,
                "--expert-model-parallel-size", 16, "--rollout-num-gpus-per-engine", 64)
    check("not built: --expert-tensor-parallel-size 2;" in apart.stderr and apart.stderr.endswith("; --dry-run shows the plan\n")
          and "--no-enable-pd" not in apart.stderr, "what else is not built", apart.stderr)
    nodes = ("--model-name", "GLM-5_20layer", "--num-nodes", 6, "--no-enable-pd")
    torchrun = {"RANK": "1", "WORLD_SIZE": "48", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    alone = "6 nodes train by 48 processes: start `glint train train`"
    for stage, env, words in (("train", {}, alone), ("full-train", {}, alone), ("full-train", torchrun, alone),
                              ("train", torchrun, "give --run-id"),
                              ("train", torchrun | {"WORLD_SIZE": "3"}, "torchrun has started 3 processes, and the layout has 48 ranks")):
        done = run("train", stage, *nodes, env=env)
        check(done.returncode == 2 and words in done.stderr, f"{stage} over nodes", done.stderr)


# The command of a launch on GPUs, run on the CPU.
def a_launch_divides_the_model(tmp):
    args = ("--model-name", "glm5-tiny", "--model-dir", TINY.parent, "--model-local-dir", TINY.parent, "--hardware", "H200", "--num-gpus-per-node", 4,
            "--output-dir", tmp, "--run-id", "r", "--num-rollout", 1, "--prompt-data", DATA / "train.jsonl", "--rollout-batch-size", 2,
            "--n-samples-per-prompt", 2, "--global-batch-size", 4, "--rollout-max-response-len", 24)
    done = run("train", "full-train", *args)
    check(done.returncode == 2 and "TP 4  PP 1  CP 1  EP 4" in done.stdout and "4 ranks need a GPU each" in done.stderr and done.stderr.endswith("or train by one process with --hardware cpu\n"), "no GPU", done.stdout + done.stderr)
    words = plan(*args)["grpo"]
    check("--backend=cuda" in words and "--tp=4" in words and "--ep=4" in words, "the layout", words)
    text = output("train", "grpo", *words, "--backend", "cpu", "--threads", 4)
    check("rank 3 of 4" in text and "parity: 0 of" in text and (tmp / "r/checkpoints/step-1").is_dir(), "ranks", text)


def every_stage_runs(tmp):
    (tmp / "shared").mkdir()
    (tmp / "shared/tiny").symlink_to(TINY.resolve())
    local = ("--model-name", "tiny", "--model-dir", tmp / "shared", "--model-local-dir", tmp / "local", "--output-dir", tmp / "out",
             "--run-id", "r", "--num-rollout", 1, "--prompt-data", DATA / "train.jsonl",
             "--rollout-batch-size", 2, "--n-samples-per-prompt", 2, "--global-batch-size", 4, "--rollout-max-response-len", 24)
    (tmp / "reference").mkdir()
    (tmp / "reference/config.json").write_text("{}")
    (tmp / "reference/model.safetensors").symlink_to((TINY / "model.safetensors").resolve())
    other = run("train", "full-train", *local, "--ref-load", tmp / "reference")
    check(other.returncode == 2 and f"--ref-load {tmp / 'reference'} differs from --hf-checkpoint {tmp / 'shared/tiny'} in " in other.stderr, "another reference", other.stderr)
    check(not (tmp / "local").exists(), "it is known before the model is copied")
    text = output("train", "full-train", *local, env={"HF_HUB_OFFLINE": "1"})
    for part in ("one process", "TP 1  PP 1  CP 1  EP 1", "is there", "files copied", "round 1 of 1", "saved "):
        check(part in text, part, text)
    saved = tmp / "out/r/checkpoints/step-1/model.safetensors"
    before = saved.stat().st_mtime_ns
    again = output("train", "full-train", *local, "--resume", env={"HF_HUB_OFFLINE": "1"})
    check("copied" not in again and "1 round already" in again and saved.stat().st_mtime_ns == before, "again", again)
    (tmp / "local/tiny/config.json").write_text("{}")
    check("1 file copied" in output("train", "prepare-cp", *local), "a file that differs is copied again")
    check((tmp / "local/tiny/config.json").read_bytes() == (TINY / "config.json").read_bytes(), "the copy")
    told = output("train", "train", *local, "--dry-run", "--enable-eval", "--actor-num-nodes", 2, "--optimizer-cpu-offload")
    check("no evaluation; --eval-prompt-data F" in told and "one process of a CPU trains: --actor-num-nodes --optimizer-cpu-offload" in told, "without meaning", told)
    answers = output("train", "train", *local, "--run-id", "fp8", "--fp8-rollout")
    check("--parity-gate 0.03" in answers and "round 1 of 1" in answers, "answers in FP8", answers)
    (tmp / "shared/eight").mkdir()
    config = json.loads((TINY / "config.json").read_text()) | {"quantization_config": {"quant_method": "fp8"}}
    (tmp / "shared/eight/config.json").write_text(json.dumps(config))
    refused("train", "train", *local, "--dry-run", "--model-name", "eight", words=['shared/eight/config.json says "fp8"; training needs bf16 or f32'])
    elsewhere = run("train", "train", *local, "--load", tmp / "other")
    check(elsewhere.returncode == 2 and "give both the same" in elsewhere.stderr, "--load", elsewhere.stderr)
    offline = run("train", "prepare", *local, "--data-dir", tmp / "data", "--prompt-data", tmp / "data/dapo-math-17k/dapo-math-17k.jsonl",
                  env={"HF_HUB_OFFLINE": "1"})
    check(offline.returncode == 2 and "zhuzilin/dapo-math-17k" in offline.stderr, "data that is not there", offline.stderr)


def argument_lists_of_miles_run(tmp):
    args = ("--hf-checkpoint", TINY, "--prompt-data", DATA / "train.jsonl", "--input-key", "prompt", "--rm-type", "deepscaler",
            "--num-rollout", 1, "--save", tmp / "out", "--load", tmp / "out", "--rollout-batch-size", 2, "--n-samples-per-prompt", 2, "--global-batch-size", 4,
            "--rollout-max-response-len", 24, "--use-dynamic-batch-size", "--max-tokens-per-gpu", 2048, "--tensor-model-parallel-size", 1)
    done = succeed("slime", *args, "--eval-prompt-data", f"{DATA / 'eval.jsonl'}@[:3]")
    check("of 3 answers" in done.stdout, "an answer to each, as there", done.stdout)
    check("round 1 of 1" in done.stdout and "ignored: --use-dynamic-batch-size" in done.stderr, "slime", done.stdout + done.stderr)
    check("1 round already" in output("miles", *args), "miles goes on")
    # Evaluations draw as rollouts do, where they are not told otherwise: of one token each, both answers are the same.
    for name, own, length in (("as", (), 24), ("own", ("--eval-top-k", 0, "--eval-max-response-len", 9), 9)):
        out = tmp / name
        succeed("miles", *args, "--save", out, "--load", out, "--rollout-top-k", 1, "--rm-type", "deterministic_random",
                "--eval-prompt-data", f"{DATA / 'eval.jsonl'}@[:9]", "--n-samples-per-eval-prompt", 2, *own)
        one = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
        check((one["eval/pass@1"] == one["eval/pass@2"]) == (name == "as") and length / 2 < one["eval/response_len/mean"] <= length, "evaluations", one)
    sizes = ("--tensor-model-parallel-size", 2, "--expert-model-parallel-size", 2, "--expert-tensor-parallel-size", 1)
    over = run("miles", *args, "--save", tmp / "ranks", "--load", tmp / "ranks", *sizes, "--optimizer-cpu-offload")
    check(over.returncode == 0 and "rank 1 of 2" in over.stdout and "parity: 0 of" in over.stdout, "ranks", over.stdout + over.stderr)
    few = run("miles", *args, "--save", tmp / "few", "--load", tmp / "few", *sizes, env={"OMP_NUM_THREADS": "1"})
    check(few.returncode == 2 and "2 ranks, and 1 thread; give --threads 2 or OMP_NUM_THREADS=2, or fewer ranks\n" in few.stderr, "few threads", few.stderr)
    check("--optimizer-cpu-offload" in over.stderr and "--tensor" not in over.stderr, "what is ignored", over.stderr)
    refused("miles", *args, "--pipeline-model-parallel-size", 2, "--actor-num-gpus-per-node", 3, words=["a multiple of 2"])
    uneven = run("miles", *args, *sizes, "--expert-model-parallel-size", 3)
    check(uneven.returncode == 2 and "ep is 3" in uneven.stderr and "set ep to 2" in uneven.stderr, "ep", uneven.stderr)
    one = run("miles", *args, "--decoder-last-pipeline-num-layers", 18)
    check(one.returncode == 2 and "the last of 1 stage has 18 of 5 layers" in one.stderr, "one stage", one.stderr)
    stages = run("miles", *args, "--save", tmp / "stages", "--load", tmp / "stages", "--pipeline-model-parallel-size", 2, "--decoder-last-pipeline-num-layers", 1)
    check(stages.returncode == 0 and "parity: 0 of" in stages.stdout, "stages", stages.stdout + stages.stderr)
    refused("miles", *args, "--custom-rm-path", "a.b", words=["Python functions", "--rm-command"])
    refused("miles", "--save", "x", "--ref-load", TINY, words=["give a checkpoint: --hf-checkpoint DIR"])
    for flag, words in (("--input-key", 'has no "input"'), ("--n-samples-per-prompt", "--n-samples-per-prompt is 1")):
        at = args.index(flag)
        left_out = run("miles", *args[:at], *args[at + 2:])
        check(left_out.returncode == 2 and words in left_out.stderr, "a default of theirs", left_out.stderr)


the_published_lines_resolve()
options_change_the_plan()
wrong_plans_are_refused()
with tempfile.TemporaryDirectory() as folder:
    every_stage_runs(pathlib.Path(folder))
with tempfile.TemporaryDirectory() as folder:
    a_launch_divides_the_model(pathlib.Path(folder))
with tempfile.TemporaryDirectory() as folder:
    argument_lists_of_miles_run(pathlib.Path(folder))
