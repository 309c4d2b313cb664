"""glint pull against a hub on this machine that cuts, lies, refuses and redirects; and its cache with huggingface_hub,
which must find what glint fetched, and the other way round."""
import hashlib
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import oracle_venv

oracle_venv.enter("huggingface_hub==1.0.1")

from fake_hub import COMMIT, Hub, TOKEN
from program import GLINT, check, refused, run, succeed

TINY = pathlib.Path(sys.argv[2])
MIB = 1 << 20
random.seed(1)
WEIGHTS = random.randbytes(5 * MIB + 123)
FILES = {
    "config.json": b'{"a": 1}\n',
    "empty.txt": b"",
    "sub/name with blank+#.json": b"x" * 700,
    "model.safetensors": WEIGHTS,
    "sub/more.safetensors": random.randbytes(2 * MIB),
    "sub/copy.safetensors": WEIGHTS,
}
folder = pathlib.Path(tempfile.mkdtemp(prefix="glint-pull-"))
count = 0


def cache():
    global count
    count += 1
    return folder / f"cache{count}"


def env_of(hub, where, **more):
    return {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(where), "HF_HUB_OFFLINE": "0", "HF_TOKEN": "", "HF_HOME": str(folder / "home"),
            "http_proxy": "", **more}


def pull(hub, where, *args, **more):
    return run("pull", "org/model", "--part-mib", 1, *args, env=env_of(hub, where, **more))


def must_pull(hub, where, *args, **more):
    done = pull(hub, where, *args, **more)
    check(done.returncode == 0, f"pull {args}: exit {done.returncode}", done.stdout + done.stderr)
    return pathlib.Path(done.stdout.strip())


def check_whole(snapshot, files=FILES):
    for path, data in files.items():
        check((snapshot / path).read_bytes() == data, f"{path} differs")
    found = {str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if not p.is_dir()}
    check(found == set(files), "other files", found)


def check_tidy(where):
    left = [p for p in where.rglob("*") if p.name.endswith((".incomplete", ".parts", ".tmp"))]
    check(not left, "something was left behind", left)


def check_layout(where, snapshot):
    repository = where / "models--org--model"
    check(snapshot == repository / "snapshots" / COMMIT, "an odd folder", snapshot)
    check((repository / "refs/main").read_text() == COMMIT, "refs/main")
    for path, data in FILES.items():
        target = os.readlink(snapshot / path)
        check(not os.path.isabs(target) and "/blobs/" in target, path, target)
    blob = hashlib.sha256(WEIGHTS).hexdigest()
    check((repository / "blobs" / blob).stat().st_size == len(WEIGHTS), "the blob's name")
    check(os.readlink(snapshot / "sub/copy.safetensors") == f"../../../blobs/{blob}", "a copy is the same blob")


def plain_pull():
    with Hub(FILES) as hub:
        where = cache()
        snapshot = must_pull(hub, where)
        check_whole(snapshot)
        check_layout(where, snapshot)
        check_tidy(where)
        check(len(hub.sent_ranges("model.safetensors")) >= 6, "no parts", hub.requests)
        before = len(hub.requests)
        ref = (where / "models--org--model/refs/main").stat()
        again = pull(hub, where)
        check((where / "models--org--model/refs/main").stat().st_mtime_ns == ref.st_mtime_ns, "refs/main is written again")
        check("/resolve/" not in str(hub.requests[before:]) and again.stderr == "", "fetched again", again.stderr)
        renamed = run("pull", "org/old", env=env_of(hub, cache()))
        check(renamed.returncode == 0, "a repository that was renamed", renamed.stderr)
        check_whole(pathlib.Path(renamed.stdout.strip()))
        # One file more than before.
        hub.files["config.json"] = b"{}"
        check((must_pull(hub, where) / "config.json").read_bytes() == b"{}", "a file that changed")
    return where


def with_huggingface_hub():
    code = """
import sys
from huggingface_hub import snapshot_download, hf_hub_download, scan_cache_dir
print(snapshot_download("org/model", local_files_only=sys.argv[1] == "offline"))
print(hf_hub_download("org/model", "sub/more.safetensors", local_files_only=sys.argv[1] == "offline"))
warnings = scan_cache_dir().warnings
assert not warnings, warnings
"""
    with Hub(FILES) as hub:
        where = cache()
        snapshot = must_pull(hub, where)
        env = {**os.environ, **env_of(hub, where, HF_HUB_OFFLINE="1", HF_HUB_DISABLE_XET="1")}
        del env["HF_TOKEN"]
        done = subprocess.run([sys.executable, "-c", code, "offline"], env=env, capture_output=True, text=True, timeout=120)
        check(done.returncode == 0 and done.stdout.split("\n")[0] == str(snapshot), "huggingface_hub", done.stdout + done.stderr)
        # The other way round: nothing is left for glint to fetch.
        where = cache()
        env = {**os.environ, **env_of(hub, where, HF_HUB_DISABLE_XET="1")}
        del env["HF_TOKEN"]
        done = subprocess.run([sys.executable, "-c", code, "online"], env=env, capture_output=True, text=True, timeout=120)
        check(done.returncode == 0, "huggingface_hub", done.stdout + done.stderr)
        before = len(hub.requests)
        check_whole(must_pull(hub, where))
        check("/resolve/" not in str(hub.requests[before:]), "what huggingface_hub fetched was fetched again")


def faults():
    name = "model.safetensors"
    with Hub(FILES) as hub:
        hub.cut_after = {name: [100_000, 0, 700_000, 1], "config.json": [3], "sub/more.safetensors": [5, 5, 5]}
        hub.answers = {name: [(503, {}), (429, {"Retry-After": "0"})], "config.json": [(500, {})]}
        check_whole(must_pull(hub, cache()))
    with Hub(FILES) as hub:  # 429 is waited for as long as it says
        hub.answers = {"config.json": [(429, {"Retry-After": "2"})]}
        begin = time.monotonic()
        must_pull(hub, cache(), "config.json")
        check(time.monotonic() - begin >= 2, "Retry-After was not waited for")
    for ending in ("never", "closed"):  # every byte came, and not the end of the answer
        with Hub(FILES) as hub:
            hub.endings = {name: [ending], "sub/more.safetensors": [ending]}
            check_whole(must_pull(hub, cache(), "--retries", 0))
    with Hub(FILES) as hub:  # a server that knows no ranges
        hub.no_ranges = True
        hub.cut_after = {name: [MIB, 2 * MIB]}
        where = cache()
        check_whole(must_pull(hub, where))
        check_tidy(where)
    with Hub(FILES) as hub:  # wrong bytes once are asked for again; twice are refused, and not kept
        hub.wrong = {"config.json": 1}
        check_whole(must_pull(hub, cache()))
        hub.wrong = {name: 1000}
        where = cache()
        done = pull(hub, where)
        check(done.returncode == 2 and "arrived with the hash" in done.stderr and name in done.stderr, "wrong bytes", done.stderr)
        check(not (where / "models--org--model/snapshots").exists(), "a snapshot of wrong bytes")
        hub.wrong = {}
        check_whole(must_pull(hub, where))
    with Hub(FILES) as hub:  # nobody helps: said in one sentence, kept, and gone on with
        hub.answers = {name: [(500, {})] * 1000}
        where = cache()
        done = pull(hub, where, "--retries", 0)
        check(done.returncode == 2 and "500" in done.stderr and "goes on with it" in done.stderr, "refusal", done.stderr)
        hub.answers = {}
        check_whole(must_pull(hub, where))


def lies():
    for tree, words in [
        ([{"type": "file", "path": "../../x", "size": 1, "oid": "0" * 40}], ["../../x"]),
        ([{"type": "file", "path": "/etc/x", "size": 1, "oid": "0" * 40}], ["/etc/x"]),
        ([{"type": "file", "path": "x", "size": 1, "oid": "../../../x"}], ["no hash"]),
        ([{"type": "file", "path": "config.json", "size": 5, "oid": "0" * 40}], ["config.json", "longer than the 5 bytes"]),
        ([{"type": "file", "path": "config.json", "size": 50, "oid": "0" * 40}], ["config.json"]),
        ([{"type": "file", "path": "not/there", "size": 5, "oid": "0" * 40}], ["not/there", "404"]),
    ]:
        with Hub(FILES) as hub:
            hub.tree = tree
            where = cache()
            done = pull(hub, where, "--retries", 1)
            check(done.returncode == 2 and done.stderr.strip().count("\n") <= 1, str(tree), done.stderr)
            for word in words:
                check(word in done.stderr, f"{word} is not named", done.stderr)
            check(not (where / "models--org--model/snapshots").exists(), "a snapshot of lies")
            check(not list(folder.glob("x")), "a file outside")


def tokens():
    with Hub(FILES, private=True) as hub:
        refused("pull", "org/model", env=env_of(hub, cache()), words=["401", "Access is restricted.", "HF_TOKEN"])
        check_whole(must_pull(hub, cache(), HF_TOKEN=TOKEN))
        check(not hub.tokens_at_cdn, "the token went to another server", hub.tokens_at_cdn)
        (folder / "home").mkdir(exist_ok=True)
        (folder / "home/token").write_text(TOKEN + "\n")
        check_whole(must_pull(hub, cache()))
        (folder / "home/token").unlink()
    with Hub(FILES) as hub:
        refused("pull", "org/model", "--revision", "none", env=env_of(hub, cache()), words=["none", "Invalid rev id"])
        refused("pull", "org/other", env=env_of(hub, cache()), words=["org/other", "404"])
        refused("pull", "org/model", "no.json", env=env_of(hub, cache()), words=["no.json"])
        refused("pull", "org/model", env=env_of(hub, cache(), HF_HUB_OFFLINE="1"), words=["HF_HUB_OFFLINE"])
    refused("pull", "org/model", env={"HF_ENDPOINT": "http://127.0.0.1:1"}, words=["cannot reach http://127.0.0.1:1"])
    refused("pull", "../x", words=["../x"])


def choices():
    with Hub(FILES) as hub:
        where = cache()
        snapshot = must_pull(hub, where, "--include", "*.json", "--exclude", "sub/")
        check_whole(snapshot, {"config.json": FILES["config.json"]})
        check_whole(must_pull(hub, where, "empty.txt"), {k: FILES[k] for k in ("config.json", "empty.txt")})
        refused("pull", "org/model", "--include", "*.none", env=env_of(hub, where), words=["no file of org/model"])
        local = folder / "local"
        check(must_pull(hub, where, "--local-dir", local) == local, "the folder is printed")
        check({str(p.relative_to(local)) for p in local.rglob("*") if p.is_file() and ".cache" not in p.parts} == set(FILES), "files")
        before = len(hub.requests)
        must_pull(hub, where, "--local-dir", local)
        check("/resolve/" not in str(hub.requests[before:]), "fetched again into a folder")
        (local / "config.json").write_bytes(b'{"a": 2}\n')
        os.utime(local / "config.json", (time.time() + 100, time.time() + 100))
        must_pull(hub, where, "--local-dir", local)
        check((local / "config.json").read_bytes() == FILES["config.json"], "a changed file was left")
        printed = pull(hub, cache(), "--dry-run", "--revision", "refs/pr/1").stdout
        check("model.safetensors" in printed and COMMIT in printed, "--dry-run", printed)
    with Hub(FILES) as hub:
        where = cache()
        done = succeed("pull", "org/model", "--repo-type", "dataset", env=env_of(hub, where))
        check("/datasets--org--model/snapshots/" in done.stdout, "a dataset", done.stdout)


def room():
    with Hub(FILES) as hub:
        # A file that may not grow: what the system says of a full disk too.
        done = run("pull", "org/model", env=env_of(hub, cache()),
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB)))
        check(done.returncode == 2 and "File too large" in done.stderr, "a limit of files", done.stderr)
        hub.tree = [{"type": "file", "path": "huge", "size": 1 << 44, "oid": "0" * 40, "lfs": {"oid": "0" * 64, "size": 1 << 44}}]
        refused("pull", "org/model", env=env_of(hub, cache()), words=["has room for", "--local-dir"])
    small = folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", small], capture_output=True).returncode != 0:
        return  # not allowed here
    try:
        with Hub(FILES) as hub:
            refused("pull", "org/model", env=env_of(hub, small), words=["has room for"])
            # It fills up meanwhile.
            (small / "filler").write_bytes(bytes(2 * MIB + 900_000))
            done = pull(hub, small, "sub/more.safetensors")
            check(done.returncode == 2 and ("No space left" in done.stderr or "has room for" in done.stderr), "a full disk", done.stderr)
    finally:
        subprocess.run(["umount", small], check=True)


def interruptions():
    for sign, code in [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]:
        with Hub(FILES) as hub:
            hub.pace = 0.02
            where = cache()
            process = subprocess.Popen([GLINT, "pull", "org/model", "--part-mib", "1", "--connections", "2"], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, env={**os.environ, **env_of(hub, where)})
            while len([r for r in hub.requests if r[0] == "cdn"]) < 4:
                time.sleep(0.01)
            process.send_signal(sign)
            _, err = process.communicate(timeout=60)
            check(process.returncode == code, f"{sign}: exit {process.returncode}", err)
            check(sign == signal.SIGKILL or "goes on from here" in err, f"what {sign} says", err)
            check(not (where / "models--org--model/snapshots").exists(), "half a snapshot")
            hub.pace, before = 0, len(hub.requests)
            check_whole(must_pull(hub, where))
            check_tidy(where)
            asked = sum(int(r.split("-")[1]) - int(r.split("=")[1].split("-")[0]) + 1
                        for s, _, _, r in hub.requests[before:] if r and s == "cdn")
            check(asked <= len(WEIGHTS) + 2 * MIB - MIB // 2, f"{sign}: it began anew", asked)
    with Hub(FILES) as hub:  # in a folder a file has its note at once, and is not hashed again
        hub.pace, local = 0.02, folder / "cut"
        process = subprocess.Popen([GLINT, "pull", "org/model", "--local-dir", local], stderr=subprocess.DEVNULL,
                                   env={**os.environ, **env_of(hub, cache())})
        while not (local / "config.json").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        check(process.wait(timeout=60) == 130 and not (local / "model.safetensors").exists(), "Ctrl-C in the middle")
        check((local / ".cache/huggingface/download/config.json.metadata").exists(), "a whole file without its note")


def hashing():
    size, local = 1 << 39, folder / "hashed"  # takes longer than is waited for
    local.mkdir()
    with Hub(FILES) as hub, open(local / "huge", "wb") as huge:
        hub.tree = [{"type": "file", "path": "huge", "size": size, "oid": "0" * 40, "lfs": {"oid": "0" * 64, "size": size}}]
        huge.truncate(size)
        process = subprocess.Popen([GLINT, "pull", "org/model", "--local-dir", local], stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **env_of(hub, cache())})
        while not hub.requests:
            time.sleep(0.01)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        check(process.returncode == 130 and "stopped" in err, "Ctrl-C while a file that is there is hashed", err)
    (local / "huge").unlink()


def locks():
    with Hub(FILES) as hub:
        hub.held = True
        where = cache()
        process = subprocess.Popen([GLINT, "pull", "org/model"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, **env_of(hub, where)})
        while not [r for r in hub.requests if r[0] == "cdn"]:
            time.sleep(0.01)
        done = pull(hub, where)
        check(done.returncode == 2 and "another program fetches" in done.stderr, "two at once", done.stderr)
        hub.held = False
        check(process.wait(timeout=60) == 0, "the first of two")


def many_files():
    few = {f"{i}.json": b"%d" % i for i in range(300)}
    with Hub(few) as hub:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        done = run("pull", "org/model", env=env_of(hub, cache()),
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (150, most)))
        check(done.returncode == 0, "more files than may be open at once", done.stderr)
        check_whole(pathlib.Path(done.stdout.strip()), few)


def training():
    """Ranks that are processes fetch one after another, and Ctrl-C ends the fetching."""
    model = {p.name: p.read_bytes() for p in TINY.glob("*") if p.is_file()}
    data = folder / "data.jsonl"
    data.write_text('{"text": "Once upon a time there was a dog."}\n{"prompt": "Once", "completion": " more", "label": "1"}\n')
    for command in (("sft", "--data", data, "--out"), ("grpo", "--prompt-data", data, "--rm-type", "deterministic_random", "--num-rollout", 1, "--save"),
                    ("grpo", "--kl-loss-coef", 1, "--ref-load", "org/tiny", "--prompt-data", data, "--rm-type", "deterministic_random",
                     "--num-rollout", 1, "--save")):
        for ranks in (("--dp", 2, "--ranks", "processes"), ()):
            with Hub(model, repository="org/tiny", large=100_000) as hub:
                hub.pace = 0.05
                first = TINY if "--ref-load" in command else "org/tiny"
                line = [GLINT, "train", command[0], first, *command[1:], folder / "run", *ranks]
                with subprocess.Popen(list(map(str, line)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      env={**os.environ, **env_of(hub, cache())}) as process:
                    while not [r for r in hub.requests if r[0] == "cdn"]:
                        check(process.poll() is None, f"{command}: it ended", process.poll() is not None and process.stderr.read())
                        time.sleep(0.01)
                    process.send_signal(signal.SIGINT)
                    _, err = process.communicate(timeout=60)
                check(process.returncode == (2 if ranks else 130), f"{command}: exit {process.returncode}", err)
                check("goes on from here" in err, f"{command}: Ctrl-C", err)
                shutil.rmtree(folder / "run", ignore_errors=True)
    with Hub(model, repository="org/tiny", large=100_000) as hub:
        done = run("train", "sft", "org/tiny", "--data", data, "--out", folder / "run", "--dp", 2, "--ranks", "processes", "--steps", 1,
                   "--global-batch-size", 2, env=env_of(hub, cache()))
        check(done.returncode == 0, "ranks that fetch", done.stderr)


def launching():
    """Fetching for a recipe ends with Ctrl-C as every fetching does."""
    with Hub(FILES, repository="Pinaster/GLM-5_4layer") as hub:
        hub.pace = 0.05
        process = subprocess.Popen([GLINT, "train", "prepare", "--model-name", "GLM-5_4layer", "--model-dir", folder / "models"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **env_of(hub, cache())})
        while not [r for r in hub.requests if r[0] == "cdn"]:
            check(process.poll() is None, "train prepare: it ended", process.poll() is not None and process.stderr.read())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        check(process.returncode == 130 and "goes on from here" in err, f"train prepare: exit {process.returncode}", err)


def ids_of_commands():
    model = {str(p.relative_to(TINY)): p.read_bytes() for p in TINY.rglob("*") if p.is_file()}
    with Hub(model, repository="org/tiny", large=100_000) as hub:
        where = cache()
        env = env_of(hub, where)
        refused("tokenize", "org/tiny", "Hello", env={**env, "HF_HUB_OFFLINE": "1"}, words=["org/tiny", "glint pull org/tiny", "HF_HUB_OFFLINE"])
        ids = succeed("tokenize", "org/tiny", "Hello", env=env).stdout
        check(ids == succeed("tokenize", TINY, "Hello").stdout, "ids of a fetched tokenizer", ids)
        dry = run("serve", "org/tiny", "--dry-run", "--kv-cache-tokens", 640, "--max-model-len", 512, env=env_of(hub, cache()))
        check(dry.returncode == 0 and "It fits." in dry.stdout, "a dry run", dry.stdout + dry.stderr)
        check("the weights of org/tiny are not here: planned as bf16" in dry.stderr, "what is planned", dry.stderr)
        succeed("generate", "org/tiny", "-p", "Hello", "--max-tokens", 1, "--load-format", "dummy", env=env)
        check("safetensors" not in str(hub.requests), "weights for a tokenizer, a dry run or those that are made up")
        refused("serve", "zai-org/GLM-5-FP8", "--dry-run", env={**env, "HF_HUB_OFFLINE": "1"}, words=["`glint plan zai-org/GLM-5-FP8` needs no network"])
        args = ["--prompt", "Hello", "--max-tokens", "3", "--temperature", "0"]
        text = succeed("generate", "org/tiny", *args, env=env).stdout
        check(text == succeed("generate", TINY, *args).stdout, "an answer of a fetched model", text)
        succeed("generate", "org/tiny@main", *args, env={**env, "HF_HUB_OFFLINE": "1"})
        snapshot = where / "models--org--tiny/snapshots" / COMMIT
        for missing in ("config.json", "tokenizer.json"):
            (snapshot / missing).unlink()
            check(text == succeed("generate", "org/tiny", *args, env=env).stdout, "an answer without", missing)
        (snapshot / "model.safetensors").rename(snapshot / "weights.safetensors")
        succeed("generate", "org/tiny", *args, env={**env, "HF_ENDPOINT": "http://127.0.0.1:1"})
        (snapshot / "weights.safetensors").rename(snapshot / "model-00001-of-00002.safetensors")
        refused("generate", "org/tiny", env={**env, "HF_ENDPOINT": "http://127.0.0.1:1"}, words=["cannot reach"])


try:
    plain_pull()
    with_huggingface_hub()
    faults()
    lies()
    tokens()
    choices()
    room()
    interruptions()
    hashing()
    locks()
    many_files()
    ids_of_commands()
    training()
    launching()
finally:
    shutil.rmtree(folder, ignore_errors=True)
print("ok")
