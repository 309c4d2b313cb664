#!/usr/bin/env python3
"""glint train sft as a user runs it: it learns, goes on bit for bit, ends well on SIGTERM, goes on when killed, survives a full disk, and refuses.

    train_sft_test.py build/release/glint models/glm5-tiny
"""

import fcntl
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

from event_files import scalars
from program import GLINT, check, in_time, output, refused, run
from small_model import make_small_model

TINY = sys.argv[2]
place = tempfile.TemporaryDirectory()
MODEL = make_small_model(TINY, pathlib.Path(place.name) / "model")  # where weights that have learned are not needed
CHATS = [{"messages": [{"role": "user", "content": f"What is {a} + {a + 1}?"},
                       {"role": "assistant", "content": f"It is {2 * a + 1}."}]} for a in range(5)]
CHATS += [{"prompt": "once upon a time", "completion": " there was a fox"}, {"text": "a fox and a hen", "messages": None, "prompt": None}]
FAST = ("--global-batch-size", 4, "--lr", 1e-3, "--lr-schedule", "constant")


def data(tmp, lines=CHATS):
    path = tmp / "chats.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def train(tmp, out, *args, model=MODEL):
    return ("train", "sft", model, "--data", data(tmp), "--out", tmp / out, *FAST, *args)


def log(out):
    return [json.loads(line) for line in (out / "train.jsonl").read_text().splitlines()]


def it_learns_and_goes_on_bit_for_bit(tmp):
    output(*train(tmp, "whole", "--steps", 6, "--threads", 2))
    output(*train(tmp, "halves", "--steps", 3))
    output(*train(tmp, "halves", "--steps", 6, "--resume", "--threads", 1))
    whole, halves = tmp / "whole", tmp / "halves"
    lines = log(whole)
    check([line["step"] for line in lines] == [1, 2, 3, 4, 5, 6], "steps", lines)
    check(lines[5]["train/loss"] < lines[0]["train/loss"] - 0.5, "it learns", lines)
    check([(a["train/loss"], a["train/grad_norm"]) for a in lines] ==
          [(b["train/loss"], b["train/grad_norm"]) for b in log(halves)], "the same numbers")
    check((halves / "latest_checkpointed_iteration.txt").read_text() == "6\n", "tracker")
    for out in (whole, halves):
        check(list(scalars(out / "tensorboard")["train/loss"]) == [1, 2, 3, 4, 5, 6], "event files", scalars(out / "tensorboard"))
    for name in ("model.safetensors", "optimizer/master.safetensors", "optimizer/exp_avg.safetensors",
                 "optimizer/exp_avg_sq.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"):
        check((whole / "step-6" / name).read_bytes() == (halves / "step-6" / name).read_bytes(), f"{name} differs")
    check(output("generate", whole / "step-6", "--prompt", "once upon a time", "--max-tokens", 4), "it generates")
    for option, value, words in (("--steps", 0, "--steps is 0; it must be from 1 to 1000000000"), ("--lr", -1, "--lr is -1; it must be from 0 to 1"),
                                 ("--adam-beta2", 1, "--adam-beta2 is 1; it must be from 0 to 0.9999999")):
        refused(*train(tmp, "none", option, value), words=[words])
    for args, word in ((("--steps", 1, "--epochs", 5), "--epochs or --steps"), (("--min-lr", 1e-6), "with constant leave it out")):
        refused(*train(tmp, "none", *args), words=[word])
    refused(*train(tmp, "whole", "--steps", 7), words=["holds a run already", "--resume"])
    # Before a model is fetched.
    refused("train", "sft", "org/none", *train(tmp, "whole")[3:], env={"HF_ENDPOINT": "http://127.0.0.1:1"}, words=["holds a run already"])
    refused(*train(tmp, "whole", "--steps", 7, "--resume", "--seed", 1), words=["another --seed (42, now 1)"])
    for option, value, words in (("--dtype", "f32", '--dtype ("bf16", now "f32")'), ("--index", "exact", '--index ("fp8", now "exact")')):
        refused(*train(tmp, "whole", "--steps", 7, "--resume", option, value), words=[f"another {words}", "what it was begun with"])
    state = whole / "step-6/optimizer/state.json"
    before = json.loads(state.read_text())
    del before["caller"]["dtype"], before["caller"]["index"]
    state.write_text(json.dumps(before))
    output(*train(tmp, "whole", "--steps", 6, "--resume"))
    falls = ("--global-batch-size", 1, "--lr-schedule", "cosine")
    output(*train(tmp, "falls", *falls, "--steps", 1))
    for steps, told in ((1, False), (2, True)):
        note = run(*train(tmp, "falls", *falls, "--steps", steps, "--resume")).stderr
        check(("was cosine over 1 step and is cosine over 2 steps" in note) == told, "another schedule is told", note)
    (tmp / "few.jsonl").write_text('{"text": "a fox"}\n')
    refused("train", "sft", MODEL, "--data", tmp / "few.jsonl", *train(tmp, "whole", "--resume")[5:], words=["another --data than", "few.jsonl"])
    refused(*train(tmp, "whole", "--global-batch-size", 1000001), words=["--global-batch-size is 1000001"])
    refused("train", "sft", whole / "step-6", *train(tmp, "whole", "--resume")[3:], words=["another model"])
    state.write_text(state.read_text().replace('"sft"', '"grpo"'))
    refused(*train(tmp, "whole", "--resume"), words=["is no run of `glint train sft`"])
    folder = os.open(whole, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    refused(*train(tmp, "whole", "--steps", 7, "--resume"), words=["is being written by another process"])
    os.close(folder)


def it_learns_what_assistants_say(tmp):
    """Tokens that count, of an assistant's message before one that begins with no token that ends an answer: a system's, or another assistant's."""
    user, says = {"role": "user", "content": "why?"}, {"role": "assistant", "content": "yes"}
    long = {"role": "system", "content": "be nice " * 20}

    def learnt(*messages):
        shutil.rmtree(tmp / "said", ignore_errors=True)
        output("train", "sft", MODEL, "--data", data(tmp, [{"messages": messages}]), "--out", tmp / "said", "--steps", 1, "--global-batch-size", 1)
        return log(tmp / "said")[0]["train/tokens"]

    one = learnt(user, says)  # with its end
    check(learnt(user, says, user, says) == 2 * one, "each turn and its end")
    check(learnt(user, says, long, user, says) == 2 * one - 1, "not what a system says next")
    check(learnt(user, says, long) == one - 1, "nor at last")
    check(learnt(user, says, says | {"weight": 0}) == one - 1, "nor a message without weight")


def a_part_of_an_epoch_is_whole_examples(tmp):
    output("train", "sft", MODEL, "--data", data(tmp, [{"text": "a fox"}] * 100), "--out", tmp / "part", "--epochs", 0.07, "--global-batch-size", 1)
    check(len(log(tmp / "part")) == 7, "0.07 of 100 examples", log(tmp / "part"))


def sigterm_while_it_begins_ends_well(tmp):
    def ends_before_a_step():
        out = tmp / "begun"
        shutil.rmtree(out, ignore_errors=True)
        command = [GLINT, *map(str, train(tmp, out.name, "--steps", 100000))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while not out.exists():  # its first act, before it reads the model
                check(process.poll() is None, "it ended")
            process.send_signal(signal.SIGTERM)
            said, errors = process.communicate()
        check(process.returncode == 0, "it ends well", (process.returncode, errors))
        if "--resume goes on" in said:  # the signal was late
            return False
        check("nothing to save" in errors, "it ends well", errors)
        return True

    in_time(ends_before_a_step)


def sigterm_saves(tmp):
    command = [GLINT, *map(str, train(tmp, "stopped", "--steps", 100000))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while "step 2 of" not in process.stdout.readline():
            check(process.poll() is None, "it ended")
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
    check(process.returncode == 0 and "--resume goes on" in rest, "it ends well", rest)
    step = int((tmp / "stopped/latest_checkpointed_iteration.txt").read_text())
    check(step >= 2 and (tmp / f"stopped/step-{step}/model.safetensors").exists(), "it saves", step)
    output(*train(tmp, "stopped", "--steps", step + 1, "--resume"))
    check([line["step"] for line in log(tmp / "stopped")] == list(range(1, step + 2)), "the log goes on")


def a_killed_run_goes_on_over_other_ranks(tmp):
    """Killed in the middle of a step: the last checkpoint is whole, and any number of ranks takes it up."""
    short = ("--lr", 1e-4, "--dtype", "f32", "--mtp-loss-scaling-factor", 0.3, "--threads", 2)
    with subprocess.Popen([GLINT, *map(str, train(tmp, "killed", *short, "--save-interval", 2, "--steps", 100000, "--dp", 2))], stdout=subprocess.PIPE, text=True) as process:
        while "step 3 of" not in process.stdout.readline():
            check(process.poll() is None, "it ended")
        process.kill()
    check(process.returncode == -signal.SIGKILL, "it was killed", process.returncode)
    step = int((tmp / "killed/latest_checkpointed_iteration.txt").read_text())
    check(step >= 2 and step % 2 == 0, "the tracker", step)
    last = step + 3
    text = output(*train(tmp, "whole", *short, "--steps", last, "--dp", 1))
    check("rank 0 of" not in text, "one rank tells nothing of ranks", text)
    whole = log(tmp / "whole")
    for group, size in (("dp", 2), ("dp", 1), ("tp", 2), ("ep", 2), ("pp", 2), ("cp", 2)):
        shutil.copytree(tmp / "killed", tmp / f"again-{group}-{size}")
        text = output(*train(tmp, f"again-{group}-{size}", *short, "--steps", last, f"--{group}", size, "--resume"))
        again = log(tmp / f"again-{group}-{size}")
        check([line["step"] for line in again] == list(range(1, last + 1)), "the log goes on", again)
        for a, b in zip(whole, again):
            for name in ("train/loss", "train/mtp_loss"):
                check(abs(a[name] - b[name]) <= 1e-5 * a[name], name, (group, size, a, b))
        if (group, size) != ("dp", 2):
            shutil.rmtree(tmp / f"again-{group}-{size}")
    whole_twice = output(*train(tmp, "twice", *short, "--steps", last, "--dp", 2))
    for name in ("model.safetensors", "optimizer/exp_avg_sq.safetensors"):
        check((tmp / f"twice/step-{last}" / name).read_bytes() == (tmp / f"again-dp-2/step-{last}" / name).read_bytes(),
              f"over as many ranks {name} has the same bits")
    ranks = re.findall(r"^rank (\d) of 2: weights .*, gradients .*, optimiser (\d+(?:\.\d+)?) MiB; dp all_gather (\d+) times, .*; dp reduce_scatter (\d+) times", whole_twice, re.M)
    check([rank[0] for rank in ranks] == ["0", "1"] and all(int(rank[3]) == last and 7 <= float(rank[1]) < 8 for rank in ranks), "ranks", whole_twice)
    refused(*train(tmp, "refused", "--dp", 0), words=["--dp is 0"])
    refused(*train(tmp, "refused", "--dp", 3, "--threads", 2), words=["3 ranks", "2 threads", "--threads 3"])


def a_full_disk_loses_nothing(tmp):
    output(*train(tmp, "full", "--steps", 1))
    before = (tmp / "full/step-1/model.safetensors").read_bytes()

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then writing fails as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 22, 1 << 22))

    done = run(*train(tmp, "full", "--steps", 2, "--resume"), preexec_fn=limit)
    check(done.returncode != 0 and "step 2 is not saved" in done.stderr, "it says so", done.stderr)
    check(sorted(p.name for p in (tmp / "full").iterdir()) == sorted(("latest_checkpointed_iteration.txt", "step-1", "tensorboard", "train.jsonl")),
          "nothing half done is left")
    check((tmp / "full/latest_checkpointed_iteration.txt").read_text() == "1\n", "the tracker stays")
    check((tmp / "full/step-1/model.safetensors").read_bytes() == before, "the checkpoint stays")
    output(*train(tmp, "full", "--steps", 2, "--resume"))


def too_little_room_is_told_before_the_first_step(tmp):
    small = tmp / "small_disk"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "none", small], capture_output=True).returncode != 0:
        return  # not allowed here
    try:
        # There is room for the weights, not for the optimiser's state beside them.
        refused(*train(tmp, "small_disk/out", "--steps", 1, model=TINY), words=["small_disk/out/step-* needs 239", "are free there"])
        check(not (small / "out/train.jsonl").exists(), "no step has run")
        (tmp / "rows.jsonl").write_text('{"prompt": "1 + 1 =", "label": "2"}\n')
        refused("train", "grpo", TINY, "--prompt-data", tmp / "rows.jsonl", "--rm-type", "math", "--num-rollout", 1, "--save", small / "out",
                words=["small_disk/out/step-* needs 239", "are free there"])
    finally:
        subprocess.run(["umount", small], check=True)


def files_of_the_model_are_read_before_the_first_step(tmp):
    model = tmp / "model"
    shutil.copytree(MODEL, model)
    (model / "notes.json").symlink_to("nowhere")
    refused(*train(tmp, "out", "--steps", 1, model=model), words=["cannot open", "notes.json"])
    check(not (tmp / "out/train.jsonl").exists(), "no step has run")


def names_in(path):
    with open(path, "rb") as file:
        return json.loads(file.read(int.from_bytes(file.read(8), "little")))


def a_head_is_trained_that_the_config_would_tie(tmp):
    output(*train(tmp, "own", "--steps", 1))
    tied = tmp / "tied"
    shutil.copytree(MODEL, tied)
    config = json.loads((tied / "config.json").read_text())
    (tied / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    output(*train(tmp, "out", "--steps", 1, model=tied))
    check(log(tmp / "own")[0]["train/loss"] == log(tmp / "out")[0]["train/loss"], "the same loss")
    check((tmp / "own/step-1/model.safetensors").read_bytes() == (tmp / "out/step-1/model.safetensors").read_bytes(), "the same weights")
    check("lm_head.weight" in names_in(tmp / "out/step-1/model.safetensors"), "the head is there")


def layers_that_are_not_used_are_told_and_left_out(tmp):
    model = tmp / "model"
    shutil.copytree(MODEL, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "num_nextn_predict_layers": 2}))
    output(*train(tmp, "out", "--steps", 1, model=model))
    check(json.loads((tmp / "out/step-1/config.json").read_text())["num_nextn_predict_layers"] == 1, "one is left")
    (model / "config.json").write_text(json.dumps({**config, "num_nextn_predict_layers": 0}))
    done = run(*train(tmp, "none", "--steps", 1, model=model))
    check(done.returncode == 0 and "neither trained nor saved" in done.stderr, "a warning", done.stderr)


def too_little_memory_is_told_before_the_first_step(tmp):
    """And as much as is told is enough, also for what is saved."""
    long = [{"text": f"{i} foxes and a hen " + "and a hen " * 100} for i in range(4)]

    def train_within(mib, examples=long):
        return run("train", "sft", TINY, "--data", data(tmp, examples), "--out", tmp / "small", *FAST, "--threads", 2, "--steps", 1,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20)))

    done = train_within(500)
    said = re.search(r"batches of [\d,]+ tokens .* need ([\d.]+) MiB, and ([\d.]+) MiB are free; a smaller --batch-tokens", done.stderr)
    check(done.returncode == 2 and said, "it says so", done)
    check(not (tmp / "small/train.jsonl").exists(), "no step has run")
    # The only long one may be the last of an epoch and the first of the next.
    shorter = [{"text": "a hen"}] * 6
    text = train_within(500, [{"text": "a fox " + "and a hen " * 300}, *shorter]).stderr
    batch = re.search(r"batches of ([\d,]+) tokens in sequences of up to ([\d,]+) need", text)
    rows, longest = (int(number.replace(",", "")) for number in batch.groups())
    check(rows > 2 * longest, "twice in a batch", text)
    done = train_within(500 + int(float(said[1]) - float(said[2])) + 4)
    check(done.returncode == 0 and (tmp / "small/step-1/config.json").exists(), "as much is enough", done)


def steps_before_a_failure_are_saved(tmp):
    """Weights that grow by themselves, until a gradient is no number."""
    refused(*train(tmp, "grows", "--steps", 100, "--lr", 1, "--weight-decay", 10, "--dtype", "f32"), words=["is not a number"], on_stdout=True)
    done = log(tmp / "grows")[-1]["step"]
    check((tmp / "grows/latest_checkpointed_iteration.txt").read_text() == f"{done}\n", "the last good step is saved", done)


def wrong_input_is_refused(tmp):
    good = {"text": "a fox"}

    def refuse(line, *words):
        path = tmp / "chats.jsonl"
        path.write_text(json.dumps(good) + "\n\n" + (line if isinstance(line, str) else json.dumps(line)) + "\n")
        refused("train", "sft", TINY, "--data", path, "--out", tmp / "refused", words=["line 3", *words])

    refuse("{", "expected an object of JSON on each line")
    refuse({"texts": "x"}, "messages")
    refuse({"text": 3}, "text")
    refuse({"messages": []}, "no list of messages")
    refuse({"messages": [7]}, "no object")
    refuse({"messages": [{"role": "user", "content": "hi"}]}, "nothing in it to learn")
    refuse({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "a", "weight": 2}]}, "weight")
    refuse({"prompt": "x", "completion": 5}, "completion")
    refuse({"text": "a fox " * 3000}, "tokens")
    thinks = {"role": "assistant", "content": "a", "reasoning_content": "hm", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
    chat = {"messages": [{"role": "user", "content": "hi"}, thinks, {"role": "tool", "content": "b"},
                         {"role": "assistant", "content": "c"}, {"role": "user", "content": "ho"}]}
    refuse(chat, "message 2", "clear_thinking")
    thinks["weight"] = 0
    refuse(chat, "message 4", "clear_thinking")
    turn = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "<think>hm</think>a"}]
    refuse({"messages": turn + turn}, "message 2", "clear_thinking")
    for name in ("messages", "tools", "add_generation_prompt"):
        refuse({"messages": turn, "chat_template_kwargs": {name: []}}, f'"chat_template_kwargs" has "{name}"')
    refused("train", "sft", TINY, "--out", tmp / "refused", words=["--data"])
    refused("train", "sft", TINY, "--data", data(tmp), "--out", tmp / "refused", "--beta1", 1, words=["--adam-beta1 is 1"])
    check(not (tmp / "refused").exists(), "a refused run leaves nothing")
    (tmp / "model").mkdir()
    shutil.copy(f"{TINY}/config.json", tmp / "model")
    refused("train", "sft", TINY, "--data", data(tmp), "--out", tmp / "model", words=["holds a checkpoint", "give another --out"])
    check(len(list((tmp / "model").iterdir())) == 1, "nothing is written into the folder of a model")


for test in (it_learns_and_goes_on_bit_for_bit, it_learns_what_assistants_say, a_part_of_an_epoch_is_whole_examples, sigterm_while_it_begins_ends_well, sigterm_saves, a_killed_run_goes_on_over_other_ranks, a_full_disk_loses_nothing, too_little_room_is_told_before_the_first_step, files_of_the_model_are_read_before_the_first_step, a_head_is_trained_that_the_config_would_tie, layers_that_are_not_used_are_told_and_left_out, too_little_memory_is_told_before_the_first_step, steps_before_a_failure_are_saved, wrong_input_is_refused):
    with tempfile.TemporaryDirectory() as tmp:
        test(pathlib.Path(tmp))
