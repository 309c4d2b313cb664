"""Starts the scripted server (scripted_server.cc) for a test, and finds its port."""
import json
import subprocess
import urllib.error
import urllib.request


class Scripted:
    def __init__(self, program, model, *arguments):
        self.process = subprocess.Popen([program, model, *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        word, port = self.process.stdout.readline().split()
        assert word == "port"
        self.url = f"http://127.0.0.1:{port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0, "the server did not end well"

    def request(self, method, path, body=None, headers=None):
        """(status, body) of a request; `body` is bytes, or anything that becomes JSON."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            headers.setdefault("content-type", "application/json")
        request = urllib.request.Request(self.url + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
