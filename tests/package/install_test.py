#!/usr/bin/env python3
"""The products of `cmake --install` and of the wheel: a program that runs from anywhere with the libraries beside it, links that
speak the command lines of their names, and in a Python environment the command and nothing else.

    install_test.py CMAKE BUILD_DIR MODEL_DIR
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

CMAKE, BUILD, MODEL = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
LINKS = {"vllm", "sglang", "trtllm-serve"}


def output(*command, **kwargs):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, **kwargs)
    assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout


def install(prefix, *components):
    for component in components:
        output(CMAKE, "--install", BUILD, "--prefix", prefix, "--component", component, "--strip")


def names(folder):
    return {each.name for each in folder.iterdir()}


def loaded_libraries(program):
    """The shared libraries of a program: name -> file."""
    lines = output("env", "-i", "LD_TRACE_LOADED_OBJECTS=1", program).splitlines()
    return {line.split(" => ")[0].strip(): line.split(" => ")[1].split(" (")[0] for line in lines if " => " in line}


def check_runs(program):
    answer = output("env", "-i", program, "generate", MODEL, "-p", "The capital of France is", "--max-tokens", 4, cwd="/")
    assert "Paris" in answer, answer


def check_default_install(folder):
    output(CMAKE, "--install", BUILD, "--prefix", folder, "--component", "program")
    assert names(folder / "bin") == {"glint"}, names(folder / "bin")
    assert not (folder / "lib").exists()
    assert (folder / "share/doc/glint/docs/server.md").exists() and (folder / "share/doc/glint/LICENSE").exists()


def check_relocation(folder):
    install(folder / "there", "program", "libraries", "links")
    moved = folder / "elsewhere" / "below"
    moved.parent.mkdir()
    (folder / "there").rename(moved)
    libraries = loaded_libraries(moved / "bin/glint")
    system = ("ld-linux", "linux-vdso", "libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "libresolv.so", "libstdc++", "libgcc_s")
    brought = {name: path for name, path in libraries.items() if not name.startswith(system)}
    assert brought, libraries
    for name, path in brought.items():
        assert pathlib.Path(path).resolve().parent == moved / "lib/glint", (name, path)
    licences = names(moved / "share/doc/glint/licences")
    assert {"libyaml-cpp0.7", "libfmt-dev"} <= licences, licences
    check_runs(moved / "bin/glint")
    return moved


def check_links(moved):
    assert names(moved / "bin") == {"glint"} | LINKS, names(moved / "bin")
    for name, arguments in (("vllm", ["serve"]), ("sglang", ["serve"]), ("trtllm-serve", [])):
        assert os.readlink(moved / "bin" / name) == "glint"  # so that the tree can move
        page = output("env", "-i", moved / "bin" / name, *arguments, "--help")
        assert page.startswith(f"glint {name}"), page


def check_wheel(folder, tree):
    version = output(tree / "bin/glint", "--version").split()[1]
    make = [sys.executable, SOURCE / "packaging/make_wheel.py", tree, version]
    wheel = pathlib.Path(output(*make, folder / "dist").strip())
    again = pathlib.Path(output(*make, folder / "dist2").strip())
    assert wheel.read_bytes() == again.read_bytes()
    environment = folder / "venv"
    venv.create(environment, with_pip=True)
    scripts = names(environment / "bin")
    pip = [environment / "bin/python", "-m", "pip", "--disable-pip-version-check"]
    output(*pip, "install", "--no-index", wheel)
    assert names(environment / "bin") - scripts == {"glint"}
    shown = output(*pip, "show", "--files", "glint")
    files = [line.strip() for line in shown.split("Files:\n")[1].splitlines()]
    outside = [file for file in files if not file.startswith("glint-") and "../../glint/" not in file]
    assert outside == ["../../../bin/glint"], files
    for path in loaded_libraries(environment / "bin/glint").values():
        assert "/x86_64-linux-gnu/libboost" not in path, path
    check_runs(environment / "bin/glint")
    output(*pip, "uninstall", "--yes", "glint")
    assert names(environment / "bin") == scripts and not list(environment.glob("lib/glint/*"))


def check_unit():
    """Where systemd is: the unit is understood, and its exposure stays as low as it was made."""
    if shutil.which("systemd-analyze") is None:
        print("no systemd-analyze here: the unit is not checked")
        return
    unit = SOURCE / "packaging/glint.service"
    output("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit)


def check_kinds():
    """A kind of package that there is not is refused before the build."""
    done = subprocess.run([SOURCE / "tools/package.sh", "tar", "rpm"], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and "'rpm'; deb, tar or wheel" in done.stderr, (done.returncode, done.stdout, done.stderr)


check_kinds()
with tempfile.TemporaryDirectory(prefix="glint-install-test-") as name:
    base = pathlib.Path(name)
    check_default_install(base / "plain")
    tree = check_relocation(base)
    check_links(tree)
    check_wheel(base, tree)
check_unit()
print("installed, moved, linked, wheel: as they should be")
