#!/usr/bin/env python3
"""glint chat on a terminal: thinking is dimmed there only, keys edit the line, Ctrl-C clears it and ends nothing.

    chat_terminal_test.py build/release/glint models/glm5-tiny
"""

import http.server
import json
import os
import pathlib
import pty
import select
import signal
import stat
import subprocess
import sys
import tempfile
import termios
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "server"))
from program import GLINT, at_a_terminal, check
from served import until

MODEL = sys.argv[2]
DIM = b"\x1b[2m"


class Terminal:
    def __init__(self, home, model=MODEL, **environment):
        self.main, side = pty.openpty()
        self.process = subprocess.Popen([GLINT, "chat", model, "--temperature", "0"], stdin=side, stdout=side, stderr=side,
                                        start_new_session=True, preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
                                        env={**at_a_terminal(home), **environment})
        os.close(side)
        self.shown = b""
        self.wait_for(b"> ")

    def wait_for(self, text, seconds=120):
        """The text shown since the last reading, up to `text`."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            ready, _, _ = select.select([self.main], [], [], max(0, end - time.monotonic()))
            if not ready:
                sys.exit(f"no {text!r} in {self.shown!r}")
            try:
                self.shown += os.read(self.main, 4096)
            except OSError:
                sys.exit(f"the program ended with {self.process.wait()} before {text!r}: {self.shown!r}")
        at = self.shown.index(text) + len(text)
        shown, self.shown = self.shown[:at], self.shown[at:]
        return shown

    def type(self, keys):
        """Keys for a line that is being edited: before, the kernel would take them, and Ctrl-C for a character."""
        until("a line is edited", lambda: not termios.tcgetattr(self.main)[3] & termios.ICANON)
        os.write(self.main, keys)

    def ask(self, keys):
        """The answer to a line."""
        self.type(keys + b"\n")
        return self.wait_for(b" prompt tokens") + self.wait_for(b"> ")

    def leave(self, keys=b"/quit\n"):
        self.type(keys)
        code = self.process.wait(60)
        os.close(self.main)
        return code


with tempfile.TemporaryDirectory() as folder:
    home = pathlib.Path(folder)
    terminal = Terminal(home, LC_ALL="C", OMP_NUM_THREADS="3")
    answer = terminal.ask(b"What is 12 + 7?")
    check(DIM in answer and b"The answer is 19." in answer, "thinking is dimmed, the answer is not", answer)
    # Ctrl-C where a line is edited: what was typed is gone, the program is not.
    terminal.type(b"forget this\x03")
    answer = terminal.ask(b"What is 12 + 7?")
    check(b"The answer is 19." in answer, "Ctrl-C clears the line", answer)
    check(all(word in answer for word in (b" cached), ", b" at ", b"/s, ")), "the speed tells what was read", answer)
    terminal.type(b"\x03\x03")
    # Backspace takes a character, of however many bytes; the arrow up brings a line back.
    answer = terminal.ask("What is 12 + 8é日".encode() + b"\x7f\x7f\x7f7?")
    check(b"The answer is 19." in answer, "backspace", answer)
    answer = terminal.ask(b"\x1b[A")
    check(b"The answer is 19." in answer, "the line before", answer)
    # Ctrl-Z, fg and a window's size are the line editor's, in the thread that edits.
    for task in pathlib.Path(f"/proc/{terminal.process.pid}/task").iterdir():
        blocked = int((task / "status").read_text().split("SigBlk:")[1].split()[0], 16)
        mask = sum(1 << (number - 1) for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH))
        check(blocked & mask == (0 if int(task.name) == terminal.process.pid else mask), "signals of the terminal", f"{blocked:x}")
    # Lines that another chat writes to the history stay there.
    history = home / ".glint_history"
    with history.open("ab") as file:
        file.write(b"of another chat\n")
    # Letters beyond ASCII are kept, whatever the locale.
    terminal.type("/x Grüße, 日本".encode() + b"\n")
    answer = terminal.wait_for(b" is no command") + terminal.wait_for(b"> ")
    check('"/x Grüße, 日本" is no command'.encode() in answer, "letters beyond ASCII", answer)
    check(terminal.leave() == 0, "/quit", b"")
    check(stat.S_IMODE(history.stat().st_mode) == 0o600, "others may read the history", b"")
    lines = history.read_bytes()
    check(b"forget" not in lines and all(word in lines for word in (b"7?", b"of another chat")), "history", lines)

    terminal = Terminal(home, NO_COLOR="1")
    answer = terminal.ask(b"What is 12 + 7?")
    check(b"The answer is 19." in answer and DIM not in answer, "NO_COLOR", answer)
    check(terminal.leave(b"\x04") == 0, "Ctrl-D", b"")

    asked, go_on = [], threading.Event()

    class Server(http.server.BaseHTTPRequestHandler):
        def answer(self, text):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self):
            self.answer('{"data": [{"id": "m"}]}')

        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"][-1]["content"])
            go_on.wait(60)
            self.answer('data: {"choices": [{"delta": {"content": "done"}}]}\n\ndata: [DONE]\n\n')

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        terminal = Terminal(home, model=f"http://127.0.0.1:{server.server_port}")
        go_on.set()
        pasted = b"def f():\n\tif x: \\\n\t\treturn 1"
        for keys in (pasted, b"/usr/bin/env python"):
            terminal.type(keys + b"\n")
            terminal.wait_for(b"done")
            terminal.wait_for(b"> ")
        go_on.clear()
        terminal.type(b"first\n")
        until("the question arrives", lambda: "first" in asked)
        os.write(terminal.main, b"next\n/help\n")
        go_on.set()
        terminal.wait_for(b"/system TEXT")
        terminal.wait_for(b"> ")
        terminal.type(b"never said\\\n")
        terminal.wait_for(b"  ")
        terminal.type(b"\x04")
        terminal.wait_for(b"> ")
        terminal.type(b"\x04")
        terminal.wait_for(b"\r\n")
        check(terminal.process.wait(60) == 0 and asked == [pasted.decode(), "/usr/bin/env python", "first", "next"],
              "pasted lines, a path, lines typed ahead, a message taken back", asked)
        server.shutdown()
print("chat keeps its manners on a terminal")
