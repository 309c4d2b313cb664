"""Ranks of one machine read each byte of the checkpoint from the disk once, all of them together, in every format.

    rank_loading_test.py GLINT MODEL_DIR SCRATCH_DIR

What is counted is `read_bytes` of /proc/PID/io: what the kernel asked the disk for on behalf of a process, by read(), by page faults and
ahead of them alike. (`rchar` leaves mapped files out.) Before each run the files leave the page cache; a copy shows that they have, and
that the file system counts at all: one in memory does not, and nothing can be said of it.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from served import Served

GLINT, MODEL, SCRATCH = sys.argv[1:]
MOST = 1.02  # of the files' bytes


def evict(folder):
    for path in folder.iterdir():
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def read_bytes(pid):
    return int(dict(line.split(": ") for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines())["read_bytes"])


def read_by_copies(folder):
    """The bytes that the disk reads for a plain reader of all files."""
    program = "import sys; [open(path, 'rb').read() for path in sys.argv[1:]]; print(open('/proc/self/io').read())"
    said = subprocess.run([sys.executable, "-c", program, *map(str, folder.iterdir())], capture_output=True, text=True, check=True)
    return int(said.stdout.split("\nread_bytes: ")[1].split()[0])


def make(folder, form):
    subprocess.run([GLINT, "synth", f"{MODEL}/config.json", folder, "--format", form], capture_output=True, check=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(f"{MODEL}/{name}", folder)


def read_by_ranks(folder, size):
    with Served([GLINT, "serve"], folder, "--tp", size, "--threads", size, "--kv-cache-tokens", 1024, "--spec", "mtp:1") as server:
        ranks = server.ranks()
        assert len(ranks) == size, ranks
        return [read_bytes(rank["pid"]) for rank in ranks]


with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
    read_by_ranks(MODEL, 2)  # the program's own pages come from the disk, too, where it never ran
    for form in ("bf16", "fp8", "nvfp4"):
        folder = pathlib.Path(scratch) / form
        make(folder, form)
        size = sum(path.stat().st_size for path in folder.iterdir())
        evict(folder)
        if read_by_copies(folder) < size:
            print(f"{SCRATCH} is not on a disk whose reads are counted, or its pages stay: nothing was tested")
            break
        for ranks in (2, 4):
            evict(folder)
            read = read_by_ranks(folder, ranks)
            print(f"{form}, {ranks} ranks: {json.dumps(read)} of {size} bytes, {sum(read) / size:.3f}", flush=True)
            assert 0.95 * size <= sum(read) <= MOST * size, "every byte once"
