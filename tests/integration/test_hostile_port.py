"""Hostile clients at the secure port of the program while pods arrive: each pod is bound once, by one leader."""

import socket
import ssl
from contextlib import ExitStack, suppress
from itertools import cycle

import pytest

from support.chaos.witness import Witness, make_nodes
from support.processes.scheduler_process import ADMIN, kube_scheduler
from support.processes.servers import SERVER_KINDS, assets, embedded_server, real_server

PODS, SLOW = 300, 300
QUICK = ("--kube-api-qps=10000", "--kube-api-burst=10000")
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
#: Sent without TLS, or instead of the rest of a handshake.
PLAIN = (HALF_A_HELLO, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 64, b"")
#: Sent within TLS: endless and oversized requests.
WITHIN = (b"GET /healthz HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\nX: " + b"x" * 2_000_000, b"\x00" * 4096, b"")


@pytest.fixture(params=SERVER_KINDS)
def server(request, tmp_path):
    if request.param == "real":
        with real_server(tmp_path, assets()) as server:
            make_nodes(server, 4)
            yield server
    else:
        with embedded_server(tmp_path, "--nodes=4", "--controllers=") as server:
            yield server


class Hostile:
    def __init__(self, port, stack):
        self._port, self._stack = port, stack
        self._tls = ssl._create_unverified_context()
        self._plain, self._within = cycle(PLAIN), cycle(WITHIN)
        self.slow = []

    def dial(self):
        return self._stack.enter_context(socket.create_connection(("127.0.0.1", self._port), 10))

    def open_slow_requests(self, number):
        """Connections that send a byte now and then."""
        self.slow += [self.dial() for _ in range(number)]

    def send_another_byte(self, number):
        for sock in self.slow:
            with suppress(OSError):
                sock.send(HALF_A_HELLO[number % len(HALF_A_HELLO) :][:1])

    def send_garbage(self):
        with suppress(OSError):
            self.dial().sendall(next(self._plain))
        with suppress(OSError):
            tls = self._stack.enter_context(self._tls.wrap_socket(self.dial()))
            tls.sendall(next(self._within))


def test_pods_are_bound_despite_hostile_clients(server, tmp_path):
    with ExitStack() as stack:
        witness = stack.enter_context(Witness(server.kubeconfig))
        scheduler = stack.enter_context(kube_scheduler(tmp_path, server.kubeconfig, *QUICK))
        scheduler.until("Successfully acquired lease")
        hostile = Hostile(scheduler.port, stack)
        hostile.open_slow_requests(SLOW)
        for number in range(0, PODS, 10):
            hostile.send_garbage()
            hostile.send_another_byte(number // 10)
            names = [f"p{i}" for i in range(number, number + 10)]
            witness.create_pods(*names)
            # The server does not wait for hostile clients to close: all earlier connections are still open.
            witness.until_bound(*names)
            assert scheduler.ask("/healthz")[::2] == (200, "ok")
        witness.check_all_bound_except()
        assert "leaderElection ok" in scheduler.ask("/healthz?verbose", who=ADMIN)[2]
        # A real API server has a lease of its own besides the scheduler's.
        holders = {holder for holder, _, lease in witness.records if holder and lease.endswith("kube-scheduler")}
        assert len(holders) == 1
        assert not scheduler.said("Traceback")
        assert scheduler.end() == 0
