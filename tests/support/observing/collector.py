"""Collectors of OpenTelemetry on 127.0.0.1: one that keeps the spans that it gets, and a real one that prints them."""

import json
import shutil
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.processes.servers import free_port, running, until


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
def collecting(status=None):
    """`status`: 200 unless it is to refuse."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                found.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(status or 200)
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


@contextmanager
def otelcol(folder):
    """A real collector, and a function that waits until it has printed a text, and returns all that it printed."""
    program = shutil.which("otelcol")
    if program is None:
        pytest.skip("otelcol is not installed")
    found = Collector(free_port())
    settings = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": found.endpoint}}}},
        "exporters": {"debug": {"verbosity": "detailed"}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["debug"]}},
        },
    }
    path, log = folder / "otelcol.yaml", folder / "otelcol.log"
    path.write_text(json.dumps(settings))
    with running([program, f"--config={path}"], log) as process:

        def said(text):
            until(lambda: text in log.read_text(), process, log)
            return log.read_text()

        said("Everything is ready")
        yield found, said
