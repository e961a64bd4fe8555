"""An HTTP CONNECT proxy with a password, run in threads."""

import base64
import select
import socket
import socketserver
import threading
from contextlib import contextmanager


class _Connection(socketserver.StreamRequestHandler):
    server: "_Proxy"

    def handle(self):
        line = self.rfile.readline().decode("latin-1").split()
        fields = {}
        while (field := self.rfile.readline().strip()) != b"":
            name, _, value = field.decode("latin-1").partition(":")
            fields[name.lower()] = value.strip()
        if not line or line[0] != "CONNECT" or fields.get("proxy-authorization") != self.server.password:
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        host, _, port = line[1].rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), timeout=10) as server:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self.server.passed += 1
            self._pass_on(server)

    def _pass_on(self, server):
        other = {self.connection: server, server: self.connection}
        while True:
            readable, _, _ = select.select(list(other), [], [], 60)
            for one in readable:
                try:
                    data = one.recv(65536)
                    other[one].sendall(data)
                except OSError:
                    return
                if not data:
                    return


class _Proxy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, user, password):
        super().__init__(("127.0.0.1", 0), _Connection)
        self.password = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.port = self.server_address[1]
        #: Connections so far.
        self.passed = 0


@contextmanager
def passing_proxy(user, password):
    with _Proxy(user, password) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
