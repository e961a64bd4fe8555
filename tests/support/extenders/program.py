"""An HTTP extender as a user would write it: a separate program that does not import Stowplan.

Its behaviour is the first element of the path, so that one program serves as many extenders: `/good/filter`,
`/hangs/filter`. The first line of its output has its address. `GET /log` returns the requests since the last time:
`[[path, headers, body, client port], …]`. `POST /nodes` with a list of names sets the nodes that it refuses.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOG, LOCK, DISLIKED, BINDINGS = [], threading.Lock(), set(), []


def names_of(arguments):
    if arguments["NodeNames"] is not None:
        return arguments["NodeNames"]
    return [node["metadata"]["name"] for node in arguments["Nodes"]["items"]]


def filtered(arguments):
    """All nodes but the refused ones, in the form of the request."""
    kept = [name for name in names_of(arguments) if name not in DISLIKED]
    answer = {
        "FailedNodes": {name: "the extender does not like it" for name in names_of(arguments) if name in DISLIKED}
    }
    if arguments["NodeNames"] is not None:
        return answer | {"NodeNames": kept}
    items = [node for node in arguments["Nodes"]["items"] if node["metadata"]["name"] in kept]
    return answer | {"Nodes": {"metadata": {}, "items": items}}


def prioritized(arguments):
    """Later names in the alphabet score higher."""
    ranked = sorted(names_of(arguments))
    return [{"Host": name, "Score": min(i, 10)} for i, name in enumerate(ranked)]


def preempted(arguments):
    """All candidates but the refused nodes."""
    whole, meta = arguments["NodeNameToVictims"], arguments["NodeNameToMetaVictims"]
    if meta is None:
        meta = {
            node: {
                "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]],
                "NumPDBViolations": victims["NumPDBViolations"],
            }
            for node, victims in whole.items()
        }
    return {"NodeNameToMetaVictims": {node: found for node, found in meta.items() if node not in DISLIKED}}


def bound(arguments):
    """Does not really bind: tests look at the request."""
    BINDINGS.append(arguments)
    return {"Error": ""}


GOOD = {"filter": filtered, "prioritize": prioritized, "preempt": preempted, "bind": bound}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with LOCK:
            log, LOG[:] = list(LOG), []
        self.answer(json.dumps(log).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        arguments = json.loads(body)
        behaviour, _, verb = self.path.strip("/").partition("/")
        if behaviour == "nodes":
            DISLIKED.clear()
            DISLIKED.update(arguments)
            return self.answer(b"null")
        with LOCK:
            LOG.append([self.path, dict(self.headers), body.decode(), self.client_address[1]])
        getattr(self, f"_{behaviour}")(verb, arguments)

    def answer(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _good(self, verb, arguments):
        self.answer(json.dumps(GOOD[verb](arguments)).encode())

    def _lowercase(self, verb, arguments):
        answer = GOOD[verb](arguments)
        if isinstance(answer, dict):
            answer = {name.lower(): value for name, value in answer.items()}
        self.answer(json.dumps(answer).encode())

    def _hangs(self, verb, arguments):
        threading.Event().wait()

    def _fails(self, verb, arguments):
        self.answer(b"something broke", 500)

    def _redirects(self, verb, arguments):
        self.answer(b"", 307, Location=f"/good/{verb}")

    def _null(self, verb, arguments):
        self.answer(b"null")

    def _html(self, verb, arguments):
        self.answer(b"<html>not what you think</html>")

    def _list(self, verb, arguments):
        self.answer(b"[[]]" if verb == "prioritize" else b"[]")

    def _error(self, verb, arguments):
        self.answer(b'{"Error": "the extender says no"}')

    def _unknown(self, verb, arguments):
        answers = {
            "filter": {"NodeNames": ["no-such-node"]},
            "prioritize": [{"Host": "no-such-node", "Score": 10}],
            "preempt": {"NodeNameToMetaVictims": {"no-such-node": {"Pods": [{"UID": "nobody"}]}}},
            "bind": {"Error": "no such node"},
        }
        self.answer(json.dumps(answers[verb]).encode())

    def _closes(self, verb, arguments):
        self.close_connection = True

    def _huge(self, verb, arguments):
        """A response of 100 MB that never completes."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        piece = b'{"Error":"' + b"x" * (1 << 20)
        try:
            for _ in range(100):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if len(sys.argv) > 1:
        import ssl

        certificate, key, authority = sys.argv[1:4]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
        context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
