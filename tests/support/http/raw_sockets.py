"""Raw sockets to a server process: its responses, and the resources that it holds."""

import json
import re
import socket
import ssl
import time
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import yaml

SECONDS = 20


class Target:
    def __init__(self, server):
        config = yaml.safe_load(server.kubeconfig.read_text())
        self.host, port = urlsplit(config["clusters"][0]["cluster"]["server"]).netloc.split(":")
        self.port = int(port)
        self.token = config["users"][0]["user"]["token"]
        self.process = Path("/proc", str(server.process.pid))
        self.log = server.folder / "log"
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    @contextmanager
    def plain(self):
        """A connection without TLS."""
        with socket.create_connection((self.host, self.port), SECONDS) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield sock

    @contextmanager
    def raw(self):
        with self.plain() as sock, self._tls.wrap_socket(sock, suppress_ragged_eofs=True) as tls:
            yield tls

    @contextmanager
    def client(self):
        with self.raw() as sock:
            connection = HTTPConnection(self.host, self.port)
            connection.sock, connection.auto_open = sock, False
            yield connection

    def ask(self, method, path, body=None, **headers):
        with self.client() as connection:
            return answer_of(connection, method, path, body, self.headers(**headers))

    def headers(self, **headers):
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return sent | {name.replace("_", "-"): value for name, value in headers.items()}

    def head(self, method="GET", path="/api/v1/nodes", *lines):
        lines = (f"Authorization: Bearer {self.token}", *lines)
        return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: x", *lines, "", "")).encode()

    def metric(self, name):
        """The sum over all series."""
        text = self.ask("GET", "/metrics")[1].decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))

    def resident(self):
        status = (self.process / "status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024

    def sockets(self):
        links = []
        for file in (self.process / "fd").iterdir():
            with suppress(FileNotFoundError):
                links.append(str(file.readlink()))
        return [link for link in links if link.startswith("socket:")]

    def held(self):
        watches, requests = (self.metric(f"apiserver_{name}_requests") for name in ("longrunning", "current_inflight"))
        return len(self.sockets()), watches, requests


def answer_of(connection, method, path, body, headers):
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    response = connection.getresponse()
    if response.chunked:
        # A watch does not end by itself.
        return response.status, b"", response
    return response.status, response.read(), response


def received(sock):
    """Everything that arrives until the server closes."""
    pieces = []
    with suppress(ConnectionError):
        while piece := sock.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def refused(status, body):
    told = json.loads(body)
    assert (told["kind"], told["status"], told["code"]) == ("Status", "Failure", status)
    assert 400 <= status < 500, body
    return told


def until(check):
    deadline = time.monotonic() + SECONDS
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)
