"""`kube-scheduler` as a process, and a client of its secure port."""

import http.client
import json
import signal
import ssl
import sys
from contextlib import contextmanager
from functools import partial

from support.http.certificates import make_ca, make_client_certificate
from support.processes import forked
from support.processes.servers import free_port, running, until

COMMAND = [sys.executable, "-m", "stowplan.app.cli.kube_scheduler"]

CLIENTS = make_ca("clients")
#: Users who may see everything, and nothing.
ADMIN = make_client_certificate(CLIENTS, "admin", ("system:masters",))
NOBODY = make_client_certificate(CLIENTS, "nobody")
STRANGER = make_client_certificate(make_ca("clients"), "admin", ("system:masters",))


class SchedulerProcess:
    def __init__(self, process, port, folder, log):
        self.process, self.port, self.log = process, port, log
        self._folder = folder

    def said(self, text):
        return text in self.log.read_text(errors="replace")

    def until(self, text):
        until(partial(self.said, text), self.process, self.log)

    def messages(self):
        """Messages of a log in JSON."""
        return [json.loads(line)["msg"] for line in self.log.read_text().splitlines()]

    def ask(self, path, **how):
        """Status, headers and body of a response, which is text."""
        status, headers, body = self.ask_bytes(path, **how)
        return status, headers, body.decode()

    def _connection(self, who):
        context = ssl._create_unverified_context()
        if who is not None:
            file = self._folder / f"client-{id(who)}.pem"
            file.write_bytes(who.certificate + who.key)
            context.load_cert_chain(file)
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=20)

    @contextmanager
    def stream(self, path, *, who):
        """The lines of a response, as they arrive."""
        connection = self._connection(who)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200
            yield iter(answer.readline, b"")
        finally:
            connection.close()

    def ask_bytes(self, path, *, who=None, **request):
        with self.connected(who) as ask:
            return ask(path, **request)

    @contextmanager
    def connected(self, who):
        """Requests on one connection."""
        connection = self._connection(who)

        def ask(path, *, method="GET", body=None, **headers):
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

        try:
            yield ask
        finally:
            connection.close()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(30)


@contextmanager
def kube_scheduler(folder, kubeconfig, *arguments, name="scheduler", port=None, program=COMMAND, **options):
    """Runs with a log in JSON; stopped at the end of the block unless it has exited."""
    log = folder / f"{name}.log"
    authorities = folder / "clients.crt"
    authorities.write_bytes(CLIENTS.certificate)
    number = free_port() if port is None else port
    command = [
        *program,
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--client-ca-file={authorities}",
        "--bind-address=127.0.0.1",
        f"--secure-port={number}",
        "--logging-format=json",
        "-v=3",
        *arguments,
    ]
    with running(command, log, **options) as process:
        yield SchedulerProcess(process, number, folder, log)


def ran(*arguments):
    """Runs the command until it exits by itself."""
    return forked.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)
