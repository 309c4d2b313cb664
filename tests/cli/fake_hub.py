"""A hub with the Hugging Face protocol, on this machine, that can be told to misbehave.

Small files are served by the hub; large ones it redirects to a second server, as to a content delivery network, which
refuses whoever shows it the hub's token.
"""
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secret"


def git_oid(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """files: path -> bytes. `large` bytes and more are LFS. Faults are lists or sets that a test fills."""

    def __init__(self, files, large=1000, repository="org/model", private=False):
        self.files, self.large, self.repository, self.private = dict(files), large, repository, private
        self.requests = []  # (server, method, path, range)
        self.tokens_at_cdn = []
        self.cut_after = {}  # path -> [bytes to send before the connection is closed, ...]
        self.endings = {}  # path -> [how a chunked answer ends after all its bytes: "never", "closed", ...]
        self.answers = {}  # path -> [(status, headers), ...] given first
        self.wrong = {}  # path -> how many more times other bytes of the same length are sent
        self.tree = None  # entries in place of the true ones
        self.no_ranges = self.cdn_gone = False
        self.pace = 0  # seconds before each 64 KiB
        self.held = False  # no file is answered while it is
        self.lock = threading.Lock()
        hub, cdn = self._server("hub"), self._server("cdn")
        self.servers = [hub, cdn]
        self.url = f"http://127.0.0.1:{hub.server_port}"
        self.cdn_url = f"http://localhost:{cdn.server_port}"

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def sent_ranges(self, path):
        return [r for _, _, p, r in self.requests if p.endswith("/" + path) and r]

    def _server(self, name):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or the body waits for the answer to the headers' packet, 40 ms

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                hub._handle(name, self)

            def do_GET(self):
                hub._handle(name, self)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # a client that goes away in the middle
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()  # looks that often whether it ends
        return server

    def _entries(self):
        if self.tree is not None:
            return self.tree
        out = [{"type": "directory", "path": "sub", "oid": "0" * 40, "size": 0}]
        for path, data in sorted(self.files.items()):
            entry = {"type": "file", "path": path, "size": len(data), "oid": git_oid(data)}
            if len(data) >= self.large:
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            out.append(entry)
        return out

    def _handle(self, server, request):
        path, _, query = request.path.partition("?")
        path = urllib.parse.unquote(path)
        with self.lock:
            self.requests.append((server, request.command, path, request.headers.get("Range")))
        authorized = request.headers.get("Authorization")
        if server == "cdn":
            if authorized:
                self.tokens_at_cdn.append(authorized)
            if self.cdn_gone:
                return self._send(request, 403, b"expired")
            return self._file(request, path.removeprefix("/cdn/"))
        if self.private and authorized != f"Bearer {TOKEN}":
            return self._send(request, 401, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."})
        if "org/old/" in path:  # as of a repository that was renamed
            return self._send(request, 307, b"", {"Location": request.path.replace("org/old", self.repository)})
        kind = "datasets" if f"/datasets/{self.repository}" in path else "models"
        api = f"/api/{kind}/{self.repository}"
        if path.startswith(api + "/revision/"):
            if path.rsplit("/revision/")[1] not in ("main", "refs/pr/1"):
                return self._send(request, 404, b"", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
            return self._json(request, {"id": self.repository, "sha": COMMIT, "siblings": []})
        if path in (f"{api}/tree/{COMMIT}", f"{api}/tree/main"):
            entries, page = self._entries(), 2
            first = int(urllib.parse.parse_qs(query).get("cursor", ["0"])[0])
            more = {}
            if first + page < len(entries):
                more["Link"] = f'<{self.url}{api}/tree/{COMMIT}?recursive=true&cursor={first + page}>; rel="next"'
            return self._json(request, entries[first:first + page], more)
        found = re.fullmatch(rf"/(?:datasets/)?{self.repository}/resolve/(?:{COMMIT}|main)/(.*)", path)
        if found and found[1] in self.files:
            name, data = found[1], self.files[found[1]]
            if len(data) >= self.large:
                return self._send(request, 302, b"", {
                    "Location": f"{self.cdn_url}/cdn/{urllib.parse.quote(name)}", "X-Repo-Commit": COMMIT,
                    "X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"'})
            return self._file(request, name)
        self._send(request, 404, b"", {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})

    def _file(self, request, name):
        while self.held:
            threading.Event().wait(0.01)
        with self.lock:
            answer = self.answers[name].pop(0) if self.answers.get(name) else None
            cut = self.cut_after[name].pop(0) if self.cut_after.get(name) else None
            ending = self.endings[name].pop(0) if self.endings.get(name) else None
            wrong = self.wrong.get(name, 0) > 0
            if wrong:
                self.wrong[name] -= 1
        if answer:
            return self._send(request, answer[0], b"", answer[1])
        data = self.files[name]
        if wrong:
            data = bytes(len(data))
        headers, status, body = {"ETag": f'"{git_oid(data)}"', "X-Repo-Commit": COMMIT}, 200, data
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        if asked and not self.no_ranges:
            first, last = int(asked[1]), int(asked[2])
            status, body = 206, data[first:last + 1]
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        if ending:
            return self._send_chunked(request, status, body, headers, ending)
        self._send(request, status, body, headers, cut)

    def _send_chunked(self, request, status, body, headers, ending):
        request.send_response(status)
        for key, value in {**headers, "Transfer-Encoding": "chunked"}.items():
            request.send_header(key, value)
        request.end_headers()
        request.close_connection = True
        try:
            request.wfile.write(b"%x\r\n%b\r\n" % (len(body), body))
            while ending == "never" and request.connection.recv(1):
                pass
        except OSError:
            pass

    def _json(self, request, value, headers=None):
        self._send(request, 200, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, request, status, body, headers=None, cut=None):
        request.send_response(status)
        for key, value in (headers or {}).items():
            request.send_header(key, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "HEAD":
            return
        try:
            step = 64 << 10
            end = len(body) if cut is None else min(cut, len(body))
            for at in range(0, end, step):
                if self.pace:
                    threading.Event().wait(self.pace)
                request.wfile.write(body[at:min(at + step, end)])
            if cut is not None:
                request.close_connection = True
                request.wfile.flush()
                request.connection.close()
        except OSError:
            request.close_connection = True
