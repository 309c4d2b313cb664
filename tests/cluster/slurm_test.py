"""`srun` over two virtual nodes of one machine starts the ranks of a server, which meet by Slurm's variables.

    slurm_test.py GLINT MODEL_DIR        as root; needs Debian's slurm-wlm and munge, not running
"""
import os
import pathlib
import pwd
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))
from served import Served, free_port, until  # noqa: E402

GLINT, MODEL = sys.argv[1:]
CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge/socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
ReturnToService=2
SlurmdSpoolDir={home}/spool.%n
StateSaveLocation={home}/state
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.%n.pid
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus}
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cpus}
PartitionName=test Nodes=n[1-2] Default=YES
"""


class Cluster:
    """A controller, two nodes, and who vouches for them, in a folder."""

    def __init__(self, home):
        self.home, self.processes = pathlib.Path(home), []

    def __enter__(self):
        home, munge = self.home, self.home / "munge"
        home.chmod(0o755)
        munge.mkdir(mode=0o755)
        key = munge / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        user = pwd.getpwnam("munge")
        for path in (munge, key):
            os.chown(path, user.pw_uid, user.pw_gid)
        (home / "state").mkdir()
        (home / "slurm.conf").write_text(CONF.format(home=home, host=socket.gethostname().split(".")[0], ports=[free_port() for _ in range(3)],
                                                     cpus=os.cpu_count()))
        self.environment = {**os.environ, "SLURM_CONF": str(home / "slurm.conf")}
        files = [f"--{name}-file={munge}/{name}" for name in ("key", "log", "pid", "seed")]
        self.start("munged", "--foreground", f"--socket={munge}/socket", *files, user="munge", group="munge")
        until("munged listens", (munge / "socket").exists)
        self.start("slurmctld", "-D")
        for node in ("n1", "n2"):
            (home / f"spool.{node}").mkdir()
            self.start("slurmd", "-D", "-N", node)
        until("both nodes are idle", lambda: self.says("sinfo", "-h", "-o", "%T %D") == "idle 2", 60)
        return self

    def start(self, name, *arguments, **who):
        log = open(self.home / f"{name}{len(self.processes)}.log", "w")
        self.processes.append(subprocess.Popen([name, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                               stderr=subprocess.STDOUT, **who))

    def says(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True).stdout.strip()

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


FLAGS = ("--threads", 1, "--kv-cache-tokens", 4096)


def answer(server):
    return server.request("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 30, "seed": 4})[2]["choices"][0]["text"]


with Served([GLINT, "serve"], MODEL, "--reduce-slices", 2, *FLAGS) as one:
    expected = answer(one)

with tempfile.TemporaryDirectory() as home, Cluster(home) as cluster:
    # The nodes' names mean nothing to the resolver: where rank 0 is has to be said.
    environment = {**cluster.environment, "MASTER_ADDR": "127.0.0.1"}
    with Served(["srun", "-N2", "-n2", "--kill-on-bad-exit=1", GLINT, "serve"], MODEL, "--tp", 2, *FLAGS, env=environment) as server:
        ranks = server.ranks()
        assert [rank["heads"] for rank in ranks] == [[0, 2], [2, 4]], ranks
        assert answer(server) == expected
        server.loses_a_rank(1)
        assert answer(server) == expected
        print("srun over two nodes: one server, which outlives a rank", flush=True)
        os.kill(ranks[0]["pid"], signal.SIGKILL)
        assert server.process.wait(60) != 0
    print("srun ends when rank 0 does")
