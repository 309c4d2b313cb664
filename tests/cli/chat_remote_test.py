"""glint chat with a server: the same conversation as with the model itself, tools, keys, Ctrl-C, and what is refused.

    chat_remote_test.py GLINT MODEL_DIR
"""
import http.server
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "server"))
from program import at_a_terminal
from served import Served, until

GLINT, MODEL = sys.argv[1:]


def chat(where, lines, *arguments, env=None, code=0):
    done = subprocess.run([GLINT, "chat", where, "--temperature", "0", *map(str, arguments)], input="\n".join(lines) + "\n",
                          capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == code, (where, arguments, done.returncode, done.stderr)
    return done.stdout, done.stderr


def the_same_conversation(url, folder):
    """Thinking, tool calls and their results, what was said before: the server is asked what the model is asked."""
    tools = folder / "tools.json"
    tools.write_text(json.dumps([{"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]))
    for lines, arguments, code in (
            (["What is 12 + 7?", "/nonsense", "What is the capital of Italy?", "/quit", "never read"], [], 1),
            (["Hello", "/reset", "What is 3 + 4?", "/system You are a pirate.", "Hello"], ["--no-thinking"], 0),
            (["Hello"], ["--max-tokens", "5", "--system", "Be brief."], 0),
            (["What is the weather in Paris?", "sunny, 20 degrees", "Thanks!"], ["--tools", tools], 0)):
        here, there = chat(MODEL, lines, *arguments, code=code), chat(url, lines, *arguments, code=code)
        assert there == here, (lines, here, there)
        assert there[0].strip(), lines
        if arguments[:1] == ["--tools"]:
            assert "tool call: get_weather" in there[0] and "Paris" in there[0], there
    # Bytes of another encoding are sent as UTF-8.
    done = subprocess.run([GLINT, "chat", url, "--system", b"\xfc"], input=b"Gr\xfc\xdfe\n", capture_output=True, timeout=300)
    assert done.returncode == 0 and done.stdout.strip(), done


def what_is_refused(url):
    _, err = chat(url, ["Hello"], "--threads", "2", code=2)
    assert "--threads" in err and "server" in err, err
    for option in ("--tp", "--pp", "--dp", "--ep", "--cp"):
        _, err = chat(url, ["Hello"], option, "2", code=2)
        assert option in err and "server" in err, err
    _, err = chat(MODEL, ["Hello"], "--ca-file", "x", code=2)
    assert "--ca-file is for a server" in err, err
    _, err = chat(MODEL, ["Hello"], "--timeout", "9", code=2)
    assert "--timeout is for a server" in err, err
    _, err = chat(url, ["Hello"], "--timeout", "0", code=2)
    assert "--timeout is 0; it must be above 0" in err, err
    _, err = chat(url + "/v1/chat/completions", [], code=2)
    assert "http://127.0.0.1:8000" in err, err
    _, err = chat("http://127.0.0.1:1", [], code=2)
    assert "cannot reach http://127.0.0.1:1" in err, err
    # A refusal of the server ends no conversation.
    out, err = chat(url, ["x " * 5000, "What is 3 + 4?"], code=1)
    assert "maximum context length" in err and "/reset forgets all" in err and "The answer is 7." in out, (out, err)


def ctrl_c_stops_the_answer(server):
    """On a terminal, while the server has not said anything yet: the program goes on, and the server forgets the request."""
    assert server.request("/pause_generation", {})[0] == 200
    busy = lambda: (lambda state: state["running"] + state["waiting"] > 0)(server.request("/engine")[2])
    main, side = pty.openpty()
    process = subprocess.Popen([GLINT, "chat", server.url, "--temperature", "0"], stdin=side, stdout=side, stderr=side,
                               start_new_session=True, env=at_a_terminal())
    os.close(side)
    os.write(main, b"Write a very long story, please.\n")
    until("a request comes", busy)
    process.send_signal(signal.SIGINT)
    until("the request ends", lambda: not busy())
    assert process.poll() is None
    os.write(main, b"/quit\n")
    end = time.monotonic() + 120
    while process.poll() is None:  # who does not read what is printed blocks it
        assert time.monotonic() < end, "it does not quit"
        try:
            os.read(main, 4096)
        except OSError:
            break
    assert process.wait(60) == 0
    os.close(main)


class Answering(http.server.BaseHTTPRequestHandler):
    """A server that is made up: subclasses say what it answers."""

    def answer(self, text):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def calls_that_are_no_json(stopped):
    """Calls by another server, in pieces that take turns, and one cut in the middle, go back as they came; after Ctrl-C none does. No answer is told."""
    asked = []

    class Other(Answering):
        def do_GET(self):
            self.answer(json.dumps({"data": [{"id": "other"}]}))

        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"])
            calls = [{"function": {"name": "now"}}, {"function": {"name": "cut", "arguments": '{"a":'}},
                     {"index": 0, "function": {"name": "", "arguments": "{}"}}, {"index": 1, "function": {"arguments": ' "b'}}]
            delta = {"content": "done"} if len(asked) > 1 else {"tool_calls": calls}
            self.answer("data: " + json.dumps({"error": None, "choices": [{"delta": delta}] if len(asked) < 3 else []}) + "\n\n")
            while stopped and len(asked) == 1:
                time.sleep(0.01)
            self.wfile.write(b"data: [DONE]\n\n")

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        if stopped:
            process = subprocess.Popen([GLINT, "chat", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            process.stdin.write(b"What time is it?\n")
            process.stdin.flush()
            while process.stdout.read(1) != b"{":
                pass
            process.send_signal(signal.SIGINT)
            out = process.communicate(b"Again.\n", 60)[0]
        else:
            out, err = chat(url, ["What time is it?", "noon", "nothing", "Again."], code=1)
            assert "the server's answer is empty" in err, err
        server.shutdown()
    if stopped:
        assert b"done" in out and "tool_calls" not in asked[1][1] and asked[1][2]["role"] == "user", (out, asked)
        return
    assert "tool call: now" in out and "tool call: cut" in out and "done" in out, out
    sent = [call["function"]["arguments"] for call in asked[1][1]["tool_calls"]]
    assert sent == ["{}", '{"a": "b'], sent


def a_terminal_obeys_no_answer():
    """Control characters of what a server says are shown on a terminal: they could change its title, its clipboard, what it showed before."""
    asked = []

    class Hostile(Answering):
        def do_GET(self):
            self.answer(json.dumps({"data": [{"id": "hostile\x1b[5n"}]}))

        def do_POST(self):
            asked.append(1)
            if len(asked) == 2:
                return self.answer("data: " + json.dumps({"error": {"message": "no\x1b]52;c;eA==\x07"}}) + "\n\n")
            deltas = [{"reasoning": "\x1b[2J"}, {"content": "\x1b]0;owned\x07"}, {"tool_calls": [{"function": {"name": "f\x1b[A", "arguments": "\x9b"}}]}]
            self.answer("".join("data: " + json.dumps({"choices": [{"delta": delta}]}) + "\n\n" for delta in deltas) + "data: [DONE]\n\n")

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        main, side = pty.openpty()
        process = subprocess.Popen([GLINT, "chat", f"http://127.0.0.1:{server.server_port}"], stdin=subprocess.PIPE, stdout=side, stderr=side,
                                   env={**os.environ, "NO_COLOR": "1"})
        os.close(side)
        process.stdin.write(b"Hello\nresult\n")
        process.stdin.close()
        shown = b""
        while chunk := read_terminal(main):
            shown += chunk
        process.wait(60)
        asks_for_a_result = a_tool_is_asked_for(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert rb"result of f\x1b[A> " in asks_for_a_result, asks_for_a_result
    for text in (rb"hostile\x1b[5n", rb"no\x1b]52;c;eA==\x07", rb"\x1b[2J", rb"\x1b]0;owned\x07", rb"f\x1b[A", rb"\xc2\x9b"):
        assert text in shown, shown
    assert b"\x1b" not in shown and b"\x07" not in shown, shown


def a_tool_is_asked_for(url):
    main, side = pty.openpty()
    process = subprocess.Popen([GLINT, "chat", url], stdin=side, stdout=side, stderr=side, start_new_session=True,
                               env=at_a_terminal())
    os.close(side)
    os.write(main, b"Hello\n")
    shown = b""
    while b"> " not in shown.partition(b"result of")[2]:
        chunk = read_terminal(main)
        assert chunk, shown
        shown += chunk
    process.terminate()
    process.wait(60)
    os.close(main)
    return shown


def read_terminal(main):
    try:
        return os.read(main, 4096)
    except OSError:  # its other side is closed
        return b""


def silence_has_an_end():
    """A server that takes a request and says nothing, or stops within its answer."""
    said = []

    class Silent(Answering):
        def do_GET(self):
            said.append(self.path)
            if len(said) > 1:
                self.answer(json.dumps({"data": [{"id": "silent"}]}))
                return
            over.wait()

        def do_POST(self):
            delta = {"choices": [{"delta": {"content": "Once"}}]}
            self.answer("data: " + json.dumps(delta) + "\n\n")
            over.wait()

    over = threading.Event()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        _, err = chat(url, ["Hello"], "--timeout", "0.2", code=2)
        assert "nothing came within 0.2 s (--timeout)" in err and err.count("\n") == 1, err
        run = lambda *words: subprocess.run([GLINT, *words], input="Hello\n", capture_output=True, text=True, timeout=120)
        for seconds in ("0.2", "5"):  # longer where this server is late itself
            one = run("chat", url, "--timeout", seconds)
            if "Once" in one.stdout:
                break
        assert one.returncode == 1 and "Once" in one.stdout and f"nothing came within {seconds} s (--timeout)" in one.stderr, one
        for seconds in ("0.2", "5"):
            bench = run("bench", "serve", url, "-c", "2", "--num-prompts", "2", "--timeout", seconds)
            if bench.returncode == 1:
                break
        assert bench.returncode == 1 and "2 requests failed" in bench.stderr and "(--timeout)" in bench.stderr, bench
        over.set()
        server.shutdown()


def over_tls(folder):
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with Served([GLINT, "serve", MODEL], "--ssl-certfile", certificate, "--ssl-keyfile", key) as server:
        out, _ = chat(server.url, ["What is 3 + 4?"], "--ca-file", certificate)
        assert "7" in out, out
        _, err = chat(server.url, [], code=2)
        assert "not trusted" in err and "--ca-file" in err, err
        for other, environment in ((("bench", "serve", server.url), {}), (("pull", "org/model"), {"HF_ENDPOINT": server.url})):
            # At once: another attempt, after seconds, would be in vain.
            done = subprocess.run([GLINT, *other], capture_output=True, text=True, timeout=20, env={**os.environ, **environment})
            assert done.returncode == 2 and "not trusted" in done.stderr and "--ca-file" in done.stderr, done.stderr
        bench = subprocess.run([GLINT, "bench", "serve", server.url, "-c", "4", "--num-prompts", "8", "--input-len", "4",
                                "--output-len", "3", "--ca-file", certificate], capture_output=True, text=True, timeout=120)
        assert bench.returncode == 0, bench.stderr


calls_that_are_no_json(stopped=False)
calls_that_are_no_json(stopped=True)
a_terminal_obeys_no_answer()
silence_has_an_end()
with tempfile.TemporaryDirectory() as folder:
    over_tls(pathlib.Path(folder))
    with Served([GLINT, "serve", MODEL]) as server:
        the_same_conversation(server.url, pathlib.Path(folder))
        what_is_refused(server.url)
        ctrl_c_stops_the_answer(server)
    with Served([GLINT, "serve", MODEL], "--api-key", "secret") as server:
        plain = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        _, err = chat(server.url, ["Hello"], env=plain, code=2)
        assert "GLINT_API_KEY" in err, err
        out, _ = chat(server.url, ["What is 3 + 4?"], env={**plain, "GLINT_API_KEY": "secret"})
        assert "7" in out, out
print("glint chat converses with a server")
