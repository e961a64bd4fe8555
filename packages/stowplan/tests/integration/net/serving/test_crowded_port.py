"""Many unauthenticated clients, and the kubelet's probes among them."""

import asyncio
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from OpenSSL import SSL

from stowplan.kube.api.api_errors import Forbidden
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.serving.authentication.authenticator import DelegatedAuthenticator
from stowplan.net.serving.authentication.request_header import STANDARD
from stowplan.net.serving.authentication.tokens import BearerTokens, ReviewedTokens
from stowplan.net.serving.authorization import AllowedPaths, DelegatedAuthorizer
from stowplan.net.serving.requests.health import HealthChecks
from stowplan.net.serving.requests.messages import Response
from stowplan.net.serving.reviewer import MAX_ASKED, Reviewer
from support.serving import attackers
from support.serving.secure_port import connected, secure_server, with_settings

PAGES = {**HealthChecks("healthz", {}).pages, "/metrics": lambda request: Response(b"secret")}


class SlowApi:
    """Never finishes token reviews, and counts them."""

    def __init__(self):
        self.asked = self.most = 0

    async def create(self, review):
        self.asked += 1
        self.most = max(self.most, self.asked)
        try:
            await asyncio.Event().wait()
        finally:
            self.asked -= 1


class Gates:
    """Authentication and authorization as the daemon combines them."""

    def __init__(self, api):
        times = REAL_TIMES
        self.tokens = ReviewedTokens(Reviewer(api, times=times), kept_for=10.0, key=b"key", times=times)
        clock = times.clock
        delegated = DelegatedAuthenticator([BearerTokens(self.tokens)], clock=clock, headers=lambda: STANDARD)
        paths = AllowedPaths.of(("/healthz", "/livez", "/readyz"))
        self.authenticate, self.without_credentials = delegated.authenticate, delegated.without_credentials
        self.authorize = DelegatedAuthorizer(allowed_paths=paths, reviews=None, clock=clock).authorize


@asynccontextmanager
async def attacked(number, *, max_connections):
    api = SlowApi()
    gates = Gates(api)
    async with secure_server(PAGES, settings=with_settings(max_connections=max_connections), access=gates) as server:
        command = [sys.executable, str(Path(attackers.__file__)), str(server.port), str(number)]
        process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert await process.stdout.readline() == b"ready\n"
            yield server, api
        finally:
            process.kill()
            await process.wait()
            await gates.tokens.close()


async def probe(server):
    """Seconds from the first packet to the response, over a new connection, as the kubelet does it.

    Of this process's CPU, as other tests may run at the same time; a probe that is locked out runs into the timeout.
    """
    began = time.process_time()
    async with asyncio.timeout(20), await connected(server) as client:
        status, _, body = await client.ask("/healthz")
    assert (status, body) == (200, b"ok")
    return time.process_time() - began


@pytest.mark.parametrize(
    ("number", "most"), [(1000, 1000), (60, 50)], ids=["a thousand", "more than there is room for"]
)
async def test_probes_succeed_while_all_connections_pipeline_random_tokens(number, most):
    async with attacked(number, max_connections=most) as (server, api):
        seconds = [await probe(server) for _ in range(20)]
        assert max(seconds) < 1.0
        assert len(server._connections) <= most
        assert api.most <= MAX_ASKED, "so many tokens of one source are looked up side by side"


async def test_handshakes_do_not_block_the_event_loop(monkeypatch):
    threads, shake = [], SSL.Connection.do_handshake

    def noted(self):
        threads.append(threading.current_thread())
        return shake(self)

    monkeypatch.setattr(SSL.Connection, "do_handshake", noted)
    async with secure_server(PAGES) as server:
        await probe(server)
    assert threads
    assert threading.main_thread() not in threads


async def test_a_client_that_disconnects_during_the_handshake_leaves_nothing_behind(monkeypatch):
    """The thread is still running when the connection, and then the server, are gone."""
    begun, may_end, shake = threading.Event(), threading.Event(), SSL.Connection.do_handshake

    def slow(self):
        begun.set()
        may_end.wait(10)
        return shake(self)

    monkeypatch.setattr(SSL.Connection, "do_handshake", slow)
    async with secure_server(PAGES) as server:
        connecting = asyncio.create_task(connected(server))
        await asyncio.to_thread(begun.wait, 10)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
    assert len(server._connections) == 0
    may_end.set()


async def test_authenticated_connections_are_not_closed_for_others():
    """Unauthenticated connections are closed to make room, never a request being processed."""
    answer = asyncio.Event()

    async def slow(request):
        await answer.wait()
        return Response(b"at last")

    class ForbiddingGates(Gates):
        async def authorize_(self, user, *, verb, path):
            if path not in ("/slow", "/healthz"):
                raise Forbidden("no")

    gates = ForbiddingGates(SlowApi())
    gates.authorize = gates.authorize_
    async with secure_server(
        {**PAGES, "/slow": slow}, settings=with_settings(max_connections=2), access=gates
    ) as server:
        async with await connected(server) as known, await connected(server) as unknown:
            asking = asyncio.create_task(known.ask("/slow"))
            doubtful = asyncio.create_task(unknown.ask("/metrics", Authorization="Bearer what-is-this"))
            for _ in range(100_000):
                if server._http.requests_count == 2:
                    break
                await asyncio.sleep(0)
            await probe(server)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await doubtful
            answer.set()
            assert (await asking)[2] == b"at last"
        await gates.tokens.close()
