"""An OpenTelemetry collector on 127.0.0.1 that keeps the spans that it gets."""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    def __init__(self, port):
        self.endpoint = f"127.0.0.1:{port}"
        self.url = f"http://{self.endpoint}/v1/traces"
        self.requests = []

    @property
    def spans(self):
        return [
            span
            for one in self.requests
            for of in one.resource_spans
            for inner in of.scope_spans
            for span in inner.spans
        ]

    def configured(self, folder, rate=1_000_000):
        """The path of a TracingConfiguration for it."""
        content = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "TracingConfiguration"}
        content |= {"endpoint": self.endpoint, "samplingRatePerMillion": rate}
        path = folder / "tracing.yaml"
        path.write_text(json.dumps(content))
        return path


@contextmanager
def collecting():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                found.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Collector(server.server_port)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield found
        finally:
            server.shutdown()
