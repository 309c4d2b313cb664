#!/usr/bin/env python3
"""glint doctor as a user meets it: this machine, and trees with the files of others.

    doctor_test.py GLINT
"""
import json
import os
import pathlib
import tempfile

from program import GLINT, check, output, refused, run

CPU = "processor\t: {}\nmodel name\t: AMD EPYC 9654 96-Core Processor\nflags\t\t: {}\n\n"
ZEN4 = "avx2 fma avx512f avx512dq avx512bw avx512vl avx512vbmi avx512_bf16"


def write(root, path, text):
    file = pathlib.Path(str(root) + path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def write_host(root, flags=ZEN4):
    write(root, "/proc/cpuinfo", "".join(CPU.format(i, flags) for i in range(16)))
    write(root, "/proc/self/status", "Cpus_allowed_list:\t0-15\n")
    write(root, "/proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 50331648 kB\n")
    write(root, "/proc/self/limits", "Max open files            1024                 1024                 files     \n"
                                     "Max locked memory         65536                65536                bytes     \n")
    write(root, "/proc/cmdline", "ro quiet\n")
    write(root, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")


def write_gpus(root):
    for i in range(2):
        device = f"/sys/devices/pci0000:{i}0/0000:{i}0:01.0/0000:{i}1:00.0"
        for name, text in (("vendor", "0x10de"), ("device", "0x2bb5"), ("class", "0x030200")):
            write(root, f"{device}/{name}", text + "\n")
        os.symlink(f"../../../../kernel/iommu_groups/{i}", f"{root}{device}/iommu_group")
        write(root, f"/sys/kernel/iommu_groups/{i}/type", "DMA-FQ\n")
        devices = pathlib.Path(f"{root}/sys/bus/pci/devices")
        devices.mkdir(parents=True, exist_ok=True)
        os.symlink("../../.." + device[4:], devices / f"0000:{i}1:00.0")


def of(report, subject):
    return next(f for f in report["findings"] if f["subject"] == subject)


def this_machine():
    done = run("doctor", "--threads", 1)
    check(done.returncode in (0, 1) and done.stderr == "", "doctor", done.stdout + done.stderr)
    for part in ("machine\n", "limits\n", "disks\n", "GPUs\n", "glint\n", "memory reads "):
        check(part in done.stdout, f"the table lacks {part!r}", done.stdout)
    check("\x1b" not in done.stdout, "colours in a file", done.stdout)
    report = json.loads(run("doctor", "--no-measure", "--json").stdout)
    check(report["rates"] is None and report["machine"]["cpu"]["cpus"] > 0, "without measuring", report)
    for arguments, threads in ((["-t", 1], {}), ([], {"OMP_NUM_THREADS": "1"})):
        report = json.loads(run("doctor", "--no-measure", "--json", *arguments, env=threads).stdout)
        check(report["rates"] is None and of(report, "uses")["text"].endswith(" on 1 thread"), "threads that are not measured", report)
    check({f["mark"] for f in report["findings"]} <= {"ok", "note", "fix", "fail"}, "marks", report)
    report = json.loads(run("doctor", "--no-measure", "--json", env={"TMPDIR": "/nope"}).stdout)
    check(of(report, "temporary files")["mark"] == "fix", "a folder that is not there", report)


def another_machine():
    with tempfile.TemporaryDirectory() as root:
        write_host(root)
        write_gpus(root)
        text = output("doctor", "--root", root)  # exit 0, though there is much to fix
        check("  fix   IOMMU " in text and "iommu=pt" in text and "glint works here; to fix: " in text, "the node", text)
        report = json.loads(output("doctor", "--root", root, "--json"))
        check(report["works"] and report["rates"] is None, "another machine is not measured", report)
        for subject in ("IOMMU", "open files", "locked memory", "driver"):
            check(of(report, subject)["mark"] == "fix" and of(report, subject)["commands"], subject, report)
        check(report["machine"]["gpu"]["devices"][1]["id"] == "10de:2bb5", "ids without a driver", report)

        write_host(root, flags="sse2")
        done = run("doctor", "--root", root)
        check(done.returncode == 1 and "  fail  CPU " in done.stdout and "does not work" in done.stdout, "no AVX2", done.stdout)


this_machine()
another_machine()
refused("doctor", "--root", GLINT, words=("--root", "no directory"))
refused("doctor", "--threads", -1, words=("threads",))
