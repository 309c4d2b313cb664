#!/usr/bin/env python3
"""glint train grpo as a user runs it: it learns, gives the same bits again and when resumed, ends well on SIGTERM, and refuses.

    train_grpo_test.py build/release/glint models/glm5-tiny models/rl [TEST...]
"""

import http.server
import json
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from event_files import scalars
from program import GLINT, check, output, refused, run, succeed
from small_model import make_small_model

TINY, DATA = sys.argv[2], pathlib.Path(sys.argv[3])
place = tempfile.TemporaryDirectory()
MODEL = make_small_model(TINY, pathlib.Path(place.name) / "model")  # where weights that have learned are not needed
WEIGHTS = ("model.safetensors", "optimizer/master.safetensors", "optimizer/exp_avg.safetensors", "optimizer/exp_avg_sq.safetensors")
SMALL = ("--rollout-batch-size", 2, "--n-samples-per-prompt", 4, "--rollout-max-response-len", 24)


def sums(tmp, name):
    """The additions among the problems, which the model can do when it goes step by step, and mostly does not."""
    rows = [line for line in (DATA / name).read_text().splitlines() if json.loads(line)["metadata"]["skill"] == "sum"]
    path = tmp / name
    path.write_text("\n".join(rows) + "\n")
    return path


def train(data, save, *args, rm_type="deepscaler", model=MODEL):
    return ("train", "grpo", model, "--prompt-data", data, "--rm-type", rm_type, "--save", save, *args)


def rounds(out):
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "rollout/raw_reward" in line], [line for line in lines if "eval/reward" in line]


def curves_are_those_of_the_log(out):
    """The event files and the page tell what metrics.jsonl tells."""
    lines, evals = rounds(out)
    found = scalars(out / "tensorboard")
    check(set(found["rollout/raw_reward"]) == {line["round"] + 1 for line in lines}, "steps", found["rollout/raw_reward"])
    for line in lines + evals:
        for name in (name for name in line if "/" in name):
            check(abs(found[name][line["round"] + 1] - line[name]) <= 1e-6 * abs(line[name]), f"{name} of the event files", line)
    page = (out / "report.html").read_text()
    compared = sum(line["parity/tokens"] for line in lines)
    for part in (f"Round {len(lines)} of ", f"0 of {compared:,}<", "<h2>Reward</h2>", "Groups that nobody solved", "Length", "Parity"):
        check(part in page, f"{part} on the page")
    check(not any(word in page for word in ("http", "<script", "url(")), "the page needs nothing besides")
    return page


def same_weights(a, b):
    for name in WEIGHTS:
        check((a / name).read_bytes() == (b / name).read_bytes(), f"{name} of {a} and {b} differ")


def tensors(checkpoint):
    data = (pathlib.Path(checkpoint) / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: data[begin + at["data_offsets"][0]:begin + at["data_offsets"][1]] for name, at in header.items()}


def what_is_frozen_stays(before, after):
    """The indexer and the router's bias of the trained layers, and all of the draft layer."""
    before, after = tensors(before), tensors(after)
    check(before.keys() == after.keys(), "the same tensors", before.keys() ^ after.keys())
    for name in before:
        if any(part in name for part in (".indexer.", "e_score_correction_bias", "layers.5.")):
            check(before[name] == after[name], f"{name} stays")


def it_learns_and_goes_on_bit_for_bit(tmp):
    def run(save, *args):
        return output(*train(sums(tmp, "train.jsonl"), save, "--num-rollout", 3, "--rollout-batch-size", 12,
                             "--rollout-max-response-len", 100, "--lr", "4e-4", "--save-interval", 2, *args, model=TINY))

    whole, halves = tmp / "whole", tmp / "halves"
    evaluated = ("--eval-prompt-data", f"{sums(tmp, 'eval.jsonl')}@[0:30]", "--n-samples-per-eval-prompt", 4)
    text = run(whole, *evaluated, "--threads", 2)
    check(text.count("parity: 0 of ") == 3, "parity", text)
    lines, (before, after) = rounds(whole)
    check([line["round"] for line in lines] == list(range(3)), "rounds", lines)
    check(all(line["parity/tokens"] > 0 and line["train/entropy"] > 0 for line in lines), "metrics", lines)
    check(all(line["train/ppo_kl"] == line["train/pg_clipfrac"] == 0 for line in lines), "one step by the weights that answered", lines)
    # 120 answers each, to the same prompts with the same draws. Measured: 0.44 and 0.56.
    check(before["eval/answers"] == 120, "answers", before)
    check(after["eval/reward"] > before["eval/reward"] + 0.04, "the reward rises", (before, after))
    check(abs(after["eval/pass@1"] - after["eval/reward"]) < 1e-9 and after["eval/pass@4"] > after["eval/pass@2"] > after["eval/pass@1"],
          "pass@k", after)
    page = curves_are_those_of_the_log(whole)
    for part in ("<h2>Evaluation</h2>", "<th>before</th><th>after round 3</th>", "<th>best</th><th>worst</th>"):
        check(part in page, f"{part} on the page")

    # As if it had been killed in the last round.
    halves.mkdir()
    (whole / "step-2").rename(halves / "step-2")
    (halves / "latest_checkpointed_iteration.txt").write_text("2\n")
    for name in ("metrics.jsonl", "samples.jsonl"):
        shutil.copy(whole / name, halves)
    state = halves / "step-2/optimizer/state.json"
    said = state.read_text()
    state.write_text(said.replace('"global-batch-size": 96,', '"global-batch-size": 0,'))
    check(state.read_text() != said, "a run of before says 0 of all answers of a round", said)
    run(halves, "--resume", "--threads", 1, "--max-num-seqs", 50, "--global-batch-size", 96)
    same_weights(whole / "step-3", halves / "step-3")
    what_is_frozen_stays(TINY, whole / "step-3")
    check([line["rollout/raw_reward"] for line in rounds(halves)[0]] == [line["rollout/raw_reward"] for line in lines], "rewards again")
    check("3 rounds already" in run(halves, "--resume"), "nothing is left to do")
    # As if it had been killed while it was evaluated at the end.
    log = (whole / "metrics.jsonl").read_text().splitlines(keepends=True)
    (whole / "metrics.jsonl").write_text("".join(log[:-1]))
    again = (*evaluated, "--resume")
    check("eval after 3 rounds" in run(whole, *again), "the evaluation that was lost")
    last = rounds(whole)[1][-1]
    check({**last, "perf/eval_time": 0} == {**after, "perf/eval_time": 0}, "the same evaluation", (last, after))
    check("eval after" not in run(whole, *again), "it is there")
    check(output("generate", whole / "step-3", "--prompt", "once upon a time", "--max-tokens", 4), "it generates")


def one_seed_gives_one_result(tmp):
    def run(name, *args):
        output(*train(sums(tmp, "train.jsonl"), tmp / name, "--num-rollout", 2, "--lr", 1e-4, *SMALL, "--rollout-shuffle", *args,
                      rm_type="deterministic_random"))
        return (tmp / name / "step-2/model.safetensors").read_bytes()

    run("first", "--threads", 2)
    run("again", "--threads", 1, "--max-num-seqs", 3)
    same_weights(tmp / "first/step-2", tmp / "again/step-2")
    check(run("other", "--seed", 1) != (tmp / "first/step-2/model.safetensors").read_bytes(), "another seed, other weights")


def ranks_share_the_training(tmp):
    """The engine answers, and two ranks learn: the same answers, the same gradient but for rounding, and the same bits when repeated.
    Where ranks divide the model, those of the engine do too."""
    args = ("--num-rollout", 2, "--lr", 1e-5, "--rollout-batch-size", 3, *SMALL[2:], "--dtype", "f32", "--threads", 2)
    layouts = {"one": (), "two": ("--dp", 2), "again": ("--dp", 2), "divided": ("--tp", 2), "experts": ("--ep", 2),
               "stages": ("--pp", 2), "rows": ("--cp", 2)}
    for name, layout in layouts.items():
        output(*train(sums(tmp, "train.jsonl"), tmp / name, *args, *layout, rm_type="deterministic_random"))
    one = rounds(tmp / "one")[0][0]
    for other in ("two", "divided", "experts", "stages", "rows"):
        first, second = rounds(tmp / other)[0]
        check(first["parity/differ"] == second["parity/differ"] == 0 < second["parity/tokens"], "parity", (other, first, second))
        check(one["rollout/raw_reward"] == first["rollout/raw_reward"], "answers", (other, one, first))
        check(one["train/answers"] == first["train/answers"] > 0, "answers that teach", (other, one, first))
        for name in ("train/grad_norm", "train/entropy"):
            check(abs(one[name] - first[name]) <= 1e-5 * abs(one[name]), name, (other, one, first))
    same_weights(tmp / "two/step-2", tmp / "again/step-2")


def every_loss_runs(tmp):
    data = tmp / "data.jsonl"
    data.write_text('{"prompt": "once upon a time", "label": "x"}\n{"prompt": "a fox and a hen", "label": 3}\n')
    for number, args in enumerate((("--advantage-estimator", "gspo", "--global-batch-size", 4),
                                   ("--advantage-estimator", "cispo", "--num-steps-per-rollout", 4, "--rollout-temperature", 0.8, "--rollout-top-k", -1),
                                   ("--disable-grpo-std-normalization", "--calculate-per-token-loss", "--eps-clip-c", 3, "--entropy-coef", 0.01,
                                    "--overlong-buffer-len", 8, "--dynamic-sampling-rounds", 20, "--rollout-shuffle"))):
        out = tmp / f"out-{number}"
        output(*train(data, out, "--num-epoch", 2, "--save-interval", 100, "--lr", 1e-4, *SMALL, *args, rm_type="deterministic_random"))
        lines = rounds(out)[0]
        check(len(lines) == 2 and all(0 <= line["rollout/raw_reward"] <= 1 for line in lines), "rounds", lines)
        check(any(line["train/answers"] > 0 and line["train/grad_norm"] > 0 for line in lines), "something is learned", lines)
        steps = lines[1]["step"]
        check(steps == (4, 8, 2)[number], "steps of two rounds", lines)
        check((out / f"step-{steps // 2}").exists(), "an epoch's end is saved")
        check((out / f"step-{steps}/model.safetensors").read_bytes() != (pathlib.Path(MODEL) / "model.safetensors").read_bytes(), "it moves")
    notes = (("--advantage-estimator", "cispo"), "--eps-clip 0.2 bounds the weights of cispo below"), (("--kl-loss-type", "k3"), "--kl-loss-type k3 counts nothing"), \
        (("--n-samples-per-eval-prompt", 4), "--n-samples-per-eval-prompt 4 counts nothing")
    for number, (args, words) in enumerate(notes):
        said = succeed(*train(data, tmp / f"note-{number}", "--num-rollout", 1, *SMALL, *args)).stderr
        check(words in said and said.count("\n") == 1, "a note", said)
    surer = ("--entropy-coef", -0.1)
    for name, args, teach in (("still", (), 0), ("surer", surer, 8), ("removed", (*surer, "--remove-constant-reward-groups"), 0)):
        output(*train(data, tmp / name, "--num-rollout", 1, *SMALL, *args, rm_type="math"))
        line = rounds(tmp / name)[0][0]
        check(line["train/answers"] == teach, "answers of equal rewards count in entropy alone, or not at all", (name, line))
        check(("train/entropy" in line) == (teach > 0), "where no token ran its entropy is unknown", (name, line))
        check(line["rollout/entropy"] > 0 and line["train/train_rollout_kl"] == 0 and line["train/ess_ratio"] == 1, "that of answers is always known", line)
        check(0 < line["perf/wait_time_ratio"] < 1, "the share of a round in which nothing trains", line)
    data.write_text('{"prompt": "once upon a time", "label": "x", "metadata": {"rm_type": "deterministic_random"}}\n{"prompt": "a hen", "label": 3}\n')
    output(*train(data, tmp / "half", "--num-rollout", 1, "--num-steps-per-rollout", 2, *SMALL, rm_type="math"))
    check(rounds(tmp / "half")[0][0]["train/grad_norm"] > 0, "the norm is of all steps", rounds(tmp / "half"))


def sigterm_saves_whole_rounds(tmp):
    data = tmp / "data.jsonl"
    data.write_text('{"prompt": "once upon a time", "label": "x"}\n')
    out = tmp / "out"
    args = (*SMALL, "--global-batch-size", 2, "--save-interval", 0, "--port", 0)
    command = [GLINT, *map(str, train(data, out, "--num-rollout", 100000, *args, rm_type="deterministic_random"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("the run as a page: "):
                url = line.split()[-1]
            if "round 2 of" in line:
                break
        with urllib.request.urlopen(url) as answer:
            page = answer.read().decode()
            check(answer.headers["content-type"].startswith("text/html") and "<h2>Reward</h2>" in page, "the page is served", page)
            check('http-equiv="refresh"' in page, "it looks again", page)
        try:
            urllib.request.urlopen(url + "other")
            check(False, "there is one page")
        except urllib.error.HTTPError as error:
            check(error.code == 404, "another path", error)
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
    check(process.returncode == 0 and "--resume goes on" in rest, "it ends well", rest)
    step = int((out / "latest_checkpointed_iteration.txt").read_text())
    done = step // 4
    check(step % 4 == 0 and done >= 2, "whole rounds of four steps", step)
    resumed = train(data, out, "--num-rollout", done + 1, *args, "--resume", rm_type="deterministic_random")
    output(*resumed)
    check([line["round"] for line in rounds(out)[0]] == list(range(done + 1)), "the log goes on", rounds(out))
    curves_are_those_of_the_log(out)
    refused(*resumed[:-1], words=["holds a run already", "--resume"])
    refused(*resumed[:2], "org/none", *resumed[3:-1], env={"HF_ENDPOINT": "http://127.0.0.1:1"}, words=["holds a run already"])
    refused(*resumed, "--seed", 1, words=["--seed is 1", "had 42"])
    refused(*resumed, "--index", "exact", words=['--index is "exact"', 'had "fp8"'])
    state = out / f"step-{step + 4}/optimizer/state.json"
    said = state.read_text()
    state.write_text(said.replace('"index": "fp8",', ""))
    check(state.read_text() != said, "a run of before says no --index", said)
    check("rounds already" in output(*resumed), "it goes on")
    data.write_text('{"prompt": "why?", "label": "x"}\n')
    refused(*resumed, words=["other prompts"])


def answers_in_fp8_are_corrected(tmp):
    """Without its correction the engine's numbers would end the run; routes that are replayed bring them nearer."""
    def line(name, *args):
        return train(sums(tmp, "train.jsonl"), tmp / name, "--num-rollout", 1, "--rollout-batch-size", 4, "--rollout-max-response-len", 60,
                     "--fp8-rollout", "--parity-gate", 0.03, "--parity-samples", 32, *args, rm_type="deterministic_random", model=TINY)

    def run(name, *args):
        output(*line(name, *args))
        return rounds(tmp / name)[0][-1]

    ahead = ("--async-rollout", "--use-tis")
    plain, tis, ice, routed = run("plain", ahead[0]), run("tis", *ahead), run("ice", "--use-icepop", "--tis-clip-low", 0.999, "--tis-clip", 1.001), \
        run("routed", "--use-rollout-routing-replay")
    check(plain["parity/differ"] > 0 and 0 < plain["train/train_rollout_logprob_abs_diff"] < 0.03, "it differs", plain)
    check(0 < plain["train/train_rollout_kl"] < 0.01 and 0.9 < plain["train/ess_ratio"] < 1, "how far the engine is", plain)
    check("train/tis" not in plain and tis["train/tis"] != 1 and abs(tis["train/tis"] - 1) < 0.1 and tis["train/ess_ratio"] < 1, "TIS", tis)
    check(tis["train/tis_clipfrac"] == 0 < ice["train/tis_clipfrac"] and abs(ice["train/tis"] - 1) < 0.01, "IcePop leaves tokens out", ice)
    check(len({line["train/grad_norm"] for line in (plain, tis, ice, routed)}) == 4, "each is another gradient", (plain, tis, ice, routed))
    goes_on = ("--resume", "--num-rollout", 2)
    check(run("tis", *ahead, *goes_on)["train/tis"] not in (1, tis["train/tis"]), "TIS of answers that were made ahead", rounds(tmp / "tis"))
    refused(*line("plain", *ahead, *goes_on), words=["--use-tis begins with a run", "resume without it"])
    check(routed["train/train_rollout_logprob_abs_diff"] < plain["train/train_rollout_logprob_abs_diff"], "R3", (plain, routed))
    refused(*train(sums(tmp, "train.jsonl"), tmp / "gate", "--num-rollout", 1, *SMALL, "--fp8-rollout", "--parity-gate", 1e-9),
            words=["parity", "the gate is"], on_stdout=True)


def answers_in_nvfp4(tmp):
    """Another format, other log-probabilities: with the gate shut the run ends."""
    data, out = sums(tmp, "train.jsonl"), tmp / "nvfp4"
    args = (*SMALL, "--nvfp4-rollout", "--parity-samples", 8, "--parity-gate")
    output(*train(data, out, "--num-rollout", 1, *args, 0.5, rm_type="deterministic_random"))
    line = rounds(out)[0][0]
    check(line["parity/differ"] > 0 and 0 < line["train/train_rollout_logprob_abs_diff"] < 0.5, "it differs", line)
    refused(*train(data, tmp / "gate", "--num-rollout", 1, *args, 1e-9), words=["parity", "the gate is"], on_stdout=True)
    fp8 = tmp / "fp8"
    output(*train(data, fp8, "--num-rollout", 1, *SMALL, "--fp8-rollout", "--parity-samples", 8, "--parity-gate", 0.5, rm_type="deterministic_random"))
    check(rounds(fp8)[0][0]["train/train_rollout_logprob_abs_diff"] != line["train/train_rollout_logprob_abs_diff"], "another format", line)


def drafts_change_nothing(tmp):
    """The MTP layer guesses, and answers, log-probabilities and weights have the same bits."""
    data = sums(tmp, "train.jsonl")
    for name, args in (("plain", ()), ("drafts", ("--spec", "mtp:3"))):
        text = output(*train(data, tmp / name, "--num-rollout", 2, "--lr", 1e-4, *SMALL, "--parity-samples", 8, *args, rm_type="deterministic_random", model=TINY))
        check(text.count("parity: 0 of ") == 2, "parity", text)
    lines = rounds(tmp / "drafts")[0]
    check(all(0 < line["rollout/spec_accept_rate"] < 1 for line in lines), "drafts are accepted", lines)
    same_weights(tmp / "plain/step-2", tmp / "drafts/step-2")


def drafts_learn(tmp):
    """The MTP layer learns from the answers, also over a crash, and the model as if it did not."""
    data, args = sums(tmp, "train.jsonl"), ("--num-rollout", 3, "--lr", 1e-3, "--clip-grad", 0, "--save-interval", 2, *SMALL, "--spec", "mtp:2")
    learn = ("--enable-mtp-training", "--mtp-loss-scaling-factor", 0.2)
    for name, more in (("still", ("--entropy-coef", 0.001)), ("learns", ("--entropy-coef", 0.001, *learn))):
        text = output(*train(data, tmp / name, *args, *more, rm_type="deterministic_random"))
        check(text.count("parity: 0 of ") == 3, "parity", text)
    lines = rounds(tmp / "learns")[0]
    check(all(line["train/mtp_loss"] > 0 for line in lines) and not any("train/mtp_loss" in line for line in rounds(tmp / "still")[0]), "its loss", lines)
    still, learned = (tensors(tmp / name / "step-3") for name in ("still", "learns"))
    layer = f"model.layers.{json.loads((pathlib.Path(TINY) / 'config.json').read_text())['num_hidden_layers']}."
    moved = {name for name in still if still[name] != learned[name]}
    check(moved and all(name.startswith(layer) and ".indexer." not in name for name in moved), "the draft layer alone differs", sorted(moved))
    check(f"{layer}eh_proj.weight" in moved, "and learns", sorted(moved))
    expected, again = killed_after(tmp / "learns", 2)
    output(*train(data, tmp / "learns", *args, "--entropy-coef", 0.001, *learn, "--resume", rm_type="deterministic_random"))
    same_weights(expected, again)
    for more, words in (((), ["state of another run", "the draft layer"]), ((*learn[:-1], 0.3), ["--mtp-loss-scaling-factor is 0.3", "had 0.2"])):
        refused(*train(data, tmp / "learns", *args, "--entropy-coef", 0.001, *more, "--resume", rm_type="deterministic_random"), words=words)


def killed_after(out, round):
    """The run as a kill in its last round would leave it; its checkpoint of `round` was kept."""
    last = int((out / "latest_checkpointed_iteration.txt").read_text())
    (out / f"step-{last}").rename(out.parent / f"{out.name}-whole")
    (out / "latest_checkpointed_iteration.txt").write_text(f"{round}\n")
    (out / "rollout-weights/step-9.partial").mkdir(parents=True)
    return out.parent / f"{out.name}-whole", out / f"step-{last}"


def unfinished_answers_go_on(tmp):
    """More prompts are asked than are needed; what is not finished goes on, also over a crash, on any number of threads and answers at once."""
    data, args = sums(tmp, "train.jsonl"), ("--rollout-batch-size", 2, "--over-sampling-batch-size", 5, "--n-samples-per-prompt", 4,
                                            "--rollout-max-response-len", 60, "--lr", 1e-4, "--parity-samples", 8, "--save-interval", 2)
    out, whole = tmp / "partial", ("--num-rollout", 3, *args, "--partial-rollout")
    text = output(*train(data, out, *whole, "--threads", 2, rm_type="deterministic_random"))
    check(text.count("parity: 0 of ") == 3, "parity", text)
    lines = rounds(out)[0]
    check(lines[0]["rollout/max_staleness"] == 0 and 1 <= lines[2]["rollout/max_staleness"] <= 2, "tokens of older weights", lines)
    first = lines[0]
    check(first["perf/rollout_tokens_per_s"] * first["perf/rollout_time"] > 8 * first["rollout/response_len/mean"] + 1, "all tokens that came count", first)
    expected, again = killed_after(out, 2)
    output(*train(data, out, *whole, "--resume", "--threads", 1, "--max-num-seqs", 3, rm_type="deterministic_random"))
    same_weights(expected, again)
    check(not (out / "rollout-weights").exists(), "what the killed run has left for servers is gone")

    def other(name, *more):
        output(*train(data, tmp / name, "--num-rollout", 3, *args, *more, rm_type="deterministic_random"))
        return rounds(tmp / name)[0][2]

    masked = other("masked", "--partial-rollout", "--mask-offpolicy-in-partial-rollout")
    check(masked["train/grad_norm"] != lines[2]["train/grad_norm"], "masked tokens teach nothing", masked)
    bound = other("bound", "--partial-rollout", "--max-weight-staleness", 0)
    check(bound["rollout/max_staleness"] == 0, "they begin anew", bound)
    # Groups that finish beyond the batch wait, and are graded once, where they are learned from.
    asked, counts = tmp / "asked", tmp / "counts.py"
    counts.write_text("import sys\nfor i, line in enumerate(sys.stdin):\n    open(sys.argv[1], 'a').write(line)\n    print(i % 2, flush=True)\n")
    output(*train(data, tmp / "surplus", "--num-rollout", 4, *SMALL, "--over-sampling-batch-size", 8, "--partial-rollout", "--save-interval", 0,
                  "--rm-command", f"{sys.executable} {counts} {asked}", rm_type="remote_rm"))
    check(len(asked.read_text().splitlines()) == 4 * 8, "gradings of four rounds of 8 answers", asked.read_text())
    lost = other("lost")
    told = ("rollout/raw_reward", "rollout/response_len/mean", "train/grad_norm")
    check("rollout/max_staleness" not in lost and [lost[name] for name in told] != [lines[2][name] for name in told], "others are asked", lost)


def answers_are_made_ahead(tmp):
    """One step off policy: the same bits each time, also over a crash; answers are verified by the weights that gave them."""
    data, args = sums(tmp, "train.jsonl"), ("--num-rollout", 3, "--lr", 1e-3, *SMALL, "--seed", 1, "--parity-samples", 8, "--save-interval", 2, "--async-rollout")
    out = tmp / "ahead"
    text = output(*train(data, out, *args, "--threads", 2, rm_type="deterministic_random", model=TINY))
    check(text.count("parity: 0 of ") == 3, "parity", text)
    lines = rounds(out)[0]
    check([line["rollout/avg_staleness"] for line in lines] == [0, 1, 1], "one round old", lines)
    check(abs(lines[0]["train/ppo_kl"]) < 1e-9 < abs(lines[1]["train/ppo_kl"]), "ratios are to the weights that answered", lines)
    expected, again = killed_after(out, 2)
    output(*train(data, out, *args, "--resume", "--threads", 1, "--max-num-seqs", 3, rm_type="deterministic_random", model=TINY))
    same_weights(expected, again)
    check(rounds(out)[0][2]["rollout/raw_reward"] == lines[2]["rollout/raw_reward"], "the same answers", rounds(out))
    both = tmp / "both"
    output(*train(data, both, *args, "--over-sampling-batch-size", 4, "--partial-rollout", "--max-weight-staleness", 1, rm_type="deterministic_random", model=TINY))
    check(max(line["rollout/max_staleness"] for line in rounds(both)[0]) == 1, "the bound holds", rounds(both))
    # Answers ahead that nobody grades end the run; the round that trained meanwhile is done, and is not trained twice.
    grader = tmp / "grader.py"
    grader.write_text("import sys\nfor i, line in zip(range(int(sys.argv[1])), sys.stdin):\n    print(len(line) % 7, flush=True)\n")
    lost = [train(data, tmp / "lost", *args, "--rm-command", f"{sys.executable} {grader} {answers}", rm_type="remote_rm", model=TINY) for answers in (20, 100)]
    refused(*lost[0], words=["ended instead of answering"], on_stdout=True)
    state = json.loads((tmp / "lost/step-2/optimizer/state.json").read_text())
    check(state["caller"]["round"] == 2 and [line["round"] for line in rounds(tmp / "lost")[0]] == [0, 1], "two rounds are done", state)
    output(*lost[1], "--resume")
    check((tmp / "lost/latest_checkpointed_iteration.txt").read_text() == "3\n", "and then the third", list((tmp / "lost").iterdir()))


WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a place.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def asks_for_the_weather(tmp):
    data = tmp / "weather.jsonl"
    data.write_text(json.dumps({"prompt": [{"role": "user", "content": "What is the weather in Paris?"}], "label": "x", "tools": [WEATHER]}) + "\n")
    return data


def samples(out):
    return [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]


def answers_call_tools(tmp):
    """The model asks, a program answers, the model goes on; what the program says is not learned, and parity holds after it."""
    (tmp / "tool.py").write_text("import json, sys\nfor line in sys.stdin:\n    call = json.loads(line)\n"
                                 "    print(json.dumps('It is 11 degrees, ' + call['arguments'].get('city', '?')), flush=True)\n")
    data, args = asks_for_the_weather(tmp), ("--num-rollout", 1, "--rollout-batch-size", 2, "--n-samples-per-prompt", 4, "--rollout-max-response-len", 200,
                                             "--parity-samples", 8, "--generate-tool-command", f"{sys.executable} {tmp / 'tool.py'}")
    for name, more in (("tools", ()), ("routes", ("--use-rollout-routing-replay",))):
        out = tmp / name
        text = output(*train(data, out, *args, *more, rm_type="deterministic_random", model=TINY))
        line, answers = rounds(out)[0][0], samples(out)
        check("parity: 0 of " in text and line["parity/tokens"] < 8 * line["rollout/response_len/mean"], "tokens of tools are left out", line)
        check(1 < line["rollout/turns"] <= 3, "turns", line)
        check(any("</tool_call><|observation|><tool_response>It is 11 degrees, Paris</tool_response><|assistant|><think>" in one["answer"] for one in answers),
              "the result stands after the call", answers)
    output(*train(data, tmp / "one", *args, "--generate-max-turns", 1, "--eval-prompt-data", data, "--n-samples-per-eval-prompt", 1, rm_type="deterministic_random", model=TINY))
    check(rounds(tmp / "one")[0][0]["rollout/turns"] == 1, "calls of the last turn are not run", rounds(tmp / "one"))
    check(samples(tmp / "one")[0]["answer"].endswith("</tool_call>"), "and stay in it", samples(tmp / "one"))
    refused(*train(data, tmp / "ended", *args[:-1], "true", rm_type="deterministic_random", model=TINY),
            words=["--generate-tool-command", "ended instead of answering"], on_stdout=True)


def answers_have_a_form(tmp):
    data, schema = asks_for_the_weather(tmp), tmp / "schema.json"
    schema.write_text(json.dumps({"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": False}))
    program = tmp / "judge.py"
    program.write_text("import json, re, sys\nfor line in sys.stdin:\n    said = json.loads(line)['response'].split('</think>')[-1]\n"
                       "    print(2.5 if re.fullmatch(sys.argv[1], said) else 0, flush=True)\n")
    forms = (("json", ("--rollout-json-schema", schema), r"\{\s*.yes.\s*:\s*(true|false)\s*\}"), ("regex", ("--rollout-regex", "[0-9]{3}"), "[0-9]{3}"))
    for name, form, pattern in forms:
        out = tmp / name
        text = output(*train(data, out, "--num-rollout", 1, "--rollout-batch-size", 2, "--n-samples-per-prompt", 4, "--rollout-max-response-len", 100,
                             "--parity-samples", 8, *form, "--rm-command", f"{sys.executable} {program} '{pattern}'", rm_type="remote_rm", model=TINY))
        line = rounds(out)[0][0]
        check("parity: 0 of " in text and line["rollout/truncated_ratio"] < 1, "it ends", line)
        check(abs(line["rollout/raw_reward"] - 2.5 * (1 - line["rollout/truncated_ratio"])) < 1e-9, "what is whole has its form", line)


def a_reference_model_holds_back(tmp):
    def run(name, *args):
        output(*train(sums(tmp, "train.jsonl"), tmp / name, "--num-rollout", 3, "--lr", 1e-3, *SMALL, *args, rm_type="deterministic_random"))
        return rounds(tmp / name)[0]

    free = run("free")
    for kind in ("k2", "k3"):
        held = run("held" + kind, "--kl-loss-coef", 1, "--kl-loss-type", kind)
        check("train/kl_loss" not in free[0] and held[0]["train/kl_loss"] == 0 and held[2]["train/kl_loss"] > 0, "KL", held)
        check([line["train/grad_norm"] for line in held] != [line["train/grad_norm"] for line in free], "it counts", (free, held))
    other = run("other", "--kl-loss-coef", 1, "--ref-load", tmp / "free/step-3")
    check(other[0]["train/kl_loss"] != 0, "another reference", other)
    goes_on = train(tmp / "train.jsonl", tmp / "other", "--num-rollout", 3, "--lr", 1e-3, *SMALL, "--kl-loss-coef", 1, "--resume", rm_type="deterministic_random")
    refused(*goes_on, words=[f"the reference model is {MODEL}", "other weights"])
    learned = tmp / "heldk3/step-3"
    refused(*train(tmp / "train.jsonl", tmp / "free", "--num-rollout", 3, *SMALL, "--resume", model=learned, rm_type="deterministic_random"),
            words=["free began with another model than", str(learned), "another --save"])
    shutil.copytree(tmp / "free/step-3", tmp / "copied")
    check("3 rounds already" in output(*goes_on, "--ref-load", tmp / "copied"), "the same weights elsewhere")


class Grader(http.server.BaseHTTPRequestHandler):
    asked, status, form, fails = [], 200, "%s", 0

    def fail(self):
        Grader.fails -= 1
        self.send_response(503)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if Grader.fails > 0:
            return self.fail()
        if self.path == "/grade":
            Grader.asked.append(asked)
        body = (Grader.form % (len(asked["response"]) % 7 / 4)).encode()
        self.send_response(Grader.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except BrokenPipeError:
            pass  # the run has ended

    def log_message(self, *args):
        pass


def too_little_memory_is_told_before_the_first_round(tmp):
    """At a temperature all answers of a round go through a pass, however few a step learns from."""
    args = ("--num-rollout", 1, "--n-samples-per-prompt", 4, "--rollout-max-response-len", 100, "--num-steps-per-rollout", 64,
            "--rollout-temperature", 0.9, "--threads", 2)
    limit = 1200 << 20
    refused(*train(sums(tmp, "train.jsonl"), tmp / "small", *args, model=TINY), words=["batches of 8,192 tokens", "are free; a smaller --batch-tokens"],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))


def another_program_grades(tmp):
    data = tmp / "data.jsonl"
    data.write_text('{"prompt": "once upon a time", "label": "x"}\n{"prompt": "a fox", "label": "7", "metadata": {"rm_type": "math"}}\n')
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Grader) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        args = train(data, tmp / "out", *SMALL, "--rm-url", f"http://127.0.0.1:{server.server_port}/grade", "--save-interval", 0,
                     rm_type="remote_rm")
        Grader.fails, Grader.status = 2, 201
        done = succeed(*args, "--num-rollout", 1)
        check(done.stderr.count("/grade answers with status 503; it is asked again, for 120.0 s at most") == 1, "a failure passes", done.stderr)
        check(len(Grader.asked) == 4 and all(one["prompt"].endswith("once upon a time") and one["label"] == "x" for one in Grader.asked),
              "one group is asked about, the other has a rule", Grader.asked)
        mean = sum(len(one["response"]) % 7 / 4 for one in Grader.asked) / 8
        check(abs(rounds(tmp / "out")[0][0]["rollout/raw_reward"] - mean) < 1e-9, "rewards", mean)
        # A row may ask for it where all others have a rule.
        Grader.asked.clear()
        rows = tmp / "rows.jsonl"
        rows.write_text('{"prompt": "a fox", "label": "7"}\n{"prompt": "a hen", "label": 2.5, "metadata": {"rm_type": "remote_rm"}}\n')
        output(*train(rows, tmp / "rows", *SMALL, *args[args.index("--rm-url"):], "--num-rollout", 1, rm_type="math"))
        check(len(Grader.asked) == 4 and all(one["label"] == 2.5 for one in Grader.asked), "one row", Grader.asked)
        # An object has the reward, and another for evaluations.
        Grader.form = '{"score": %s, "acc": 0.5}'
        # Its last questions may come when it has ended, so they are not counted.
        elsewhere = [f"{word}/refused" if str(word).endswith("/grade") else word for word in args]
        refused(*elsewhere, "--num-rollout", 2, "--resume", words=["/grade/refused answers", "--reward-key"], on_stdout=True)
        Grader.asked.clear()
        output(*args, "--num-rollout", 2, "--resume", "--reward-key", "score", "--eval-reward-key", "acc", "--eval-prompt-data", f"{data}@[:1]")
        lines, evals = rounds(tmp / "out")
        mean = sum(len(one["response"]) % 7 / 4 for one in Grader.asked[:4]) / 8
        check(abs(lines[1]["rollout/raw_reward"] - mean) < 1e-9, "the member is the reward", lines)
        check(evals[0]["eval/reward"] == 0.5 and evals[0]["eval/pass@1"] == 0, "half a reward is no right answer", evals)
        Grader.status = 404
        refused(*args, "--num-rollout", 3, "--resume", words=["/grade answers with status 404"], on_stdout=True)
        server.shutdown()
    done = run(*args, "--num-rollout", 3, "--resume", "--rm-timeout", 3)
    check(done.returncode == 2 and "127.0.0.1" in done.stderr and re.search(r"\(asked [23] times\)", done.stderr), "nobody answers", done.stderr)
    # SIGTERM does not wait for one that thinks, whether training waits for it or goes on beside it.
    thinks = tmp / "thinks.py"
    thinks.write_text("import pathlib, sys, time\nfor i, line in enumerate(sys.stdin):\n    if i == int(sys.argv[1]):\n"
                      "        pathlib.Path(sys.argv[2]).touch()\n        time.sleep(600)\n    print(i % 2, flush=True)\n")
    for name, more, answers in (("thinks", (), 8), ("beside", ("--async-rollout",), 16)):
        def begin(thinks_after, *args):
            return train(sums(tmp, "train.jsonl"), tmp / name, *SMALL, "--rm-command", f"{sys.executable} {thinks} {thinks_after} {tmp / name}.asked", "--rm-timeout", 500,
                         "--save-interval", 0, *more, *args, rm_type="remote_rm")

        with subprocess.Popen([GLINT, *map(str, begin(answers, "--num-rollout", 9))], stdout=subprocess.PIPE, text=True) as process:
            while "round 1 of" not in process.stdout.readline():
                check(process.poll() is None, "it ended")
            while not (tmp / f"{name}.asked").exists():
                check(process.poll() is None, "it ended")
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            text, _ = process.communicate(timeout=60)
        done = int((tmp / name / "latest_checkpointed_iteration.txt").read_text())
        check(process.returncode == 0 and f"after {done} of 9 rounds; --resume goes on" in text, "it ends and saves", text)
        output(*begin(1000, "--num-rollout", done + 1, "--resume"))
        check([line["round"] for line in rounds(tmp / name)[0]] == list(range(done + 1)), "each round once", rounds(tmp / name))
    # Groups differ for two rounds; the third finds none, and ends the run with what was learned.
    alike = tmp / "alike.py"
    alike.write_text("import sys\nfor i, line in enumerate(sys.stdin):\n    print(i % 2 if i < 16 else 0, flush=True)\n")
    refused(*train(sums(tmp, "train.jsonl"), tmp / "alike", *SMALL, "--rm-command", f"{sys.executable} {alike}", "--num-rollout", 9, "--save-interval", 0,
                   "--dynamic-sampling-rounds", 2, rm_type="remote_rm"), words=["only 0 of 2 groups have answers of different rewards"], on_stdout=True)
    state = json.loads((tmp / "alike/step-2/optimizer/state.json").read_text())
    check(state["caller"]["round"] == 2, "rounds that were finished are saved", state)
    # So are they, with steps of the one that runs, where weights grow until a gradient is no number.
    refused(*train(sums(tmp, "train.jsonl"), tmp / "grows", *SMALL, "--global-batch-size", 2, "--num-rollout", 9, "--save-interval", 0, "--lr", 1,
                   "--weight-decay", 30, "--entropy-coef", 0.01, "--dtype", "f32", rm_type="deterministic_random"), words=["number"], on_stdout=True)
    state = json.loads(next((tmp / "grows").glob("step-*/optimizer/state.json")).read_text())
    check(state["caller"]["round"] == state["step"] // 4 > 0, "whole rounds and a part", state)


def wrong_input_is_refused(tmp):
    good, data, save = '{"prompt": "a", "label": "1"}', tmp / "data.jsonl", tmp / "refused"

    def refuse_row(line, *words):
        data.write_text(f"{good}\n\n{line}\n")
        refused(*train(data, save, "--num-rollout", 1), words=[f"{data}, line 3", *words])

    refuse_row("{", "expected an object of JSON on each line")
    refuse_row("[]", "expected an object")
    refuse_row('{"text": "a", "label": "1"}', '"prompt"')
    refuse_row('{"prompt": "a"}', '"label"')
    refuse_row('{"prompt": [], "label": "1"}', "list of messages")
    refuse_row('{"prompt": [{"role": "bot", "content": "a"}], "label": "1"}', "bot")
    refuse_row('{"prompt": "a", "label": "1", "tools": [{}]}', "tool 1 is no function")
    refuse_row('{"prompt": "a", "label": "1", "metadata": {"rm_type": "deepscale"}}', "deepscale", "math, dapo")
    refuse_row('{"prompt": "a", "label": "1", "metadata": {"rm_type": "remote_rm"}}', "remote_rm", "--rm-url")
    refuse_row(json.dumps({"prompt": "a fox " * 3000, "label": "1"}), "tokens")
    data.write_text(good)

    def refuse(*args, words):
        refused(*train(data, save, "--num-rollout", 1, *args), words=words)

    refused(*train(data, save, "--num-rollout", 1, rm_type="best"), words=["best", "deepscaler, math, dapo"])
    refused(*train(data, save), words=["--num-rollout is 0"])
    (tmp / "model").mkdir()
    shutil.copy(f"{TINY}/config.json", tmp / "model")
    refused(*train(data, tmp / "model", "--num-rollout", 1), words=["holds a checkpoint", "give another --save"])
    check(len(list((tmp / "model").iterdir())) == 1, "nothing is written into the folder of a model")
    refused(*train(tmp / "none.jsonl", save, "--num-rollout", 1), words=["none.jsonl"])
    refused(*train(f"{data}@[3:]", save, "--num-rollout", 1), words=["holds no prompt (1 row)"])
    refuse("--mtp-loss-scaling-factor", 0.3, words=["--mtp-loss-scaling-factor", "--enable-mtp-training"])
    refuse("--n-samples-per-prompt", 1, words=["--n-samples-per-prompt is 1"])
    refuse("--global-batch-size", 7, words=["must divide the 256 answers"])
    refuse("--num-steps-per-rollout", 3, words=["--num-steps-per-rollout is 3", "256 answers"])
    refuse("--num-steps-per-rollout", 4, "--global-batch-size", 128, words=["--global-batch-size 64, not 128"])
    refuse("--num-epoch", 1, words=["not both"])
    refused(*train(data, save, "--num-epoch", 2), words=["--num-epoch 2 of 1 rows", "0 rounds", "--num-rollout"])
    refuse("--rollout-max-response-len", 5000, words=["4096 positions"])
    refuse("--eval-prompt-data", data, "--eval-max-response-len", 5000, words=["--eval-max-response-len is 5000", "4096 positions"])
    refuse("--eval-top-p", 2, words=["--eval-top-p is 2"])
    refuse("--eps-clip", 2, words=["--eps-clip is 2"])
    refuse("--min-lr", 1e-7, words=["with constant leave it out"])
    refuse("--advantage-estimator", "cispo", "--eps-clip-c", 3, words=["--eps-clip-c needs --advantage-estimator grpo or gspo"])
    refuse("--port", 65536, words=["--port is 65536"])
    refuse("--eval-interval", 2, words=["--eval-prompt-data"])
    refuse("--fp8-rollout", words=["--parity-gate 0.03"])
    refuse("--nvfp4-rollout", words=["--nvfp4-rollout", "--parity-gate 0.1"])
    refuse("--fp8-rollout", "--nvfp4-rollout", "--parity-gate", 1, words=["not both"])
    refuse("--spec", "eagle", words=["mtp:K"])
    refuse("--over-sampling-batch-size", 32, words=["--over-sampling-batch-size is 32", "--rollout-batch-size 32"])
    refuse("--partial-rollout", words=["--over-sampling-batch-size"])
    refuse("--mask-offpolicy-in-partial-rollout", words=["needs --partial-rollout"])
    refuse("--max-weight-staleness", 2, words=["--partial-rollout"])
    refuse("--over-sampling-batch-size", 40, "--partial-rollout", "--async-rollout", "--max-weight-staleness", 0, words=["--max-weight-staleness is 0"])
    refuse("--rollout-regex", "[", words=["--rollout-regex"])
    refuse("--rollout-regex", "a", "--rollout-json-schema", "s.json", words=["not both"])
    refuse("--rollout-json-schema", tmp / "none.json", words=["none.json"])
    refuse("--generate-tool-command", "cat", "--rollout-regex", "a", words=["--generate-tool-command", "give one"])
    refuse("--generate-tool-command", "cat", "--over-sampling-batch-size", 40, words=["exclude each other"])
    refuse("--generate-tool-command", "cat", "--generate-max-turns", 0, words=["--generate-max-turns is 0"])
    refuse("--rm-command", "cat", words=["--rm-command grades nothing", "deepscaler"])
    refuse("--use-tis", words=["--use-tis", "all its weights would be 1"])
    refuse("--use-tis", "--use-icepop", words=["not both"])
    refuse("--use-icepop", "--parity-gate", 1, "--rollout-temperature", 0.5, words=["--rollout-temperature 1"])
    for option, value in (("--eval-temperature", 1), ("--eval-top-p", 1), ("--eval-top-k", 5), ("--eval-max-response-len", 9)):
        refuse(option, value, words=[f"{option} needs prompts to evaluate on"])
    refused(*train(data, save, "--num-rollout", 1, "--eval-reward-key", "score", rm_type="dapo"), words=["--eval-reward-key needs prompts"])
    for option, value, word in (("--tis-clip", 3, "--use-tis"), ("--tis-clip-low", 0.5, "--use-icepop"), ("--overlong-penalty-factor", 2, "--overlong-buffer-len"),
                                ("--generate-max-turns", 2, "--generate-tool-command"), ("--rollout-external-timeout", 9, "--rollout-external-engine-addrs")):
        refuse(option, value, words=[f"{option} needs {word}"] if option != "--tis-clip-low" else [f"{option} needs", word])
    refuse("--generate-tool-command", "cat", words=["--generate-tool-command runs nothing", "tools"])
    refuse("--ref-load", tmp, words=["--kl-loss-coef is 0"])
    refuse("--rm-url", "http://127.0.0.1:1", words=["--rm-url grades nothing", "remote_rm"])
    refused(*train(data, save, "--num-rollout", 1, rm_type="remote_rm"), words=["remote_rm needs --rm-url"])
    refuse("--rm-type", "", "--rm-command", "cat", words=["give a reward: --rm-type remote_rm"])
    refuse("--reward-key", "score", words=['--reward-key is "score"', "deepscaler gives a number"])
    refused(*train(data, save, "--num-rollout", 1, "--eval-reward-key", "acc", rm_type="dapo"), words=['--eval-reward-key is "acc"', "of dapo it is score"])
    check(not save.exists(), "a refused run leaves nothing")


tests = (wrong_input_is_refused, too_little_memory_is_told_before_the_first_round, another_program_grades, a_reference_model_holds_back, answers_in_fp8_are_corrected,
         answers_in_nvfp4, drafts_change_nothing, drafts_learn, unfinished_answers_go_on, answers_are_made_ahead, answers_call_tools, answers_have_a_form,
         one_seed_gives_one_result, ranks_share_the_training, every_loss_runs, sigterm_saves_whole_rounds, it_learns_and_goes_on_bit_for_bit)
for test in (one for one in tests if one.__name__ in sys.argv[4:] or len(sys.argv) == 4):
    with tempfile.TemporaryDirectory() as tmp:
        begin = time.monotonic()
        test(pathlib.Path(tmp))
        print(f"{test.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
