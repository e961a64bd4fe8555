"""Thousands of different pods come and go: nothing grows without bound.

What a scheduler keeps about deleted pods is counted, object by object, after a first round and after many more;
connections that broke in every possible way are counted, too.
"""

import asyncio
import gc
import random
import ssl
from collections import Counter, deque

import pytest
from yarl import URL

from stowplan.net.client.http.connection_pool import ConnectionPool
from stowplan.net.client.http.failures import NotAnswered
from stowplan.net.client.http.transport import Limits
from stowplan.scheduler.cluster import pods_on_nodes
from stowplan.scheduler.engine.decision import algorithm
from stowplan.testing import a_node, a_pod, selector
from stowplan_cluster.apiserver.deletion import DeleteOptions
from support.examples import SCALE
from support.http.certificates import make_ca, make_server_certificate
from support.live.live_scheduler import live

ROUND = 150
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}


async def come_and_go(cluster, number):
    """A round of different pods: bound, refused, gated, preempting, evicted; and a node that is deleted."""
    names = [f"r{number}-{i}" for i in range(ROUND)]
    cluster.server.create_all([a_node(f"extra-{number}").labels(who=f"{number}").allocatable(cpu="4", pods="50").obj()])
    cluster.server.create_all([_pod(name, number, i) for i, name in enumerate(names)])
    await cluster.settle()
    await cluster.advance(3.0)
    for name in names:
        if cluster.server.registry.has(cluster.server.catalogue.of_storage("pods"), "default", name):
            delete(cluster, name)
    delete(cluster, f"extra-{number}", "nodes", "")
    await cluster.settle()
    # Long enough for remembered events to expire.
    await cluster.advance(800.0)
    for stored in tuple(cluster.server.store.list("events", "")):
        delete(cluster, stored.name, "events", stored.namespace)
    await cluster.settle()


def _pod(name, number, i):
    made = a_pod(name).labels(who=name, round=str(number))
    kind = i % 6
    if kind == 1:
        made = made.requests(cpu=f"{100 + i}")
    elif kind == 2:
        made = made.gated(f"example.com/g{number}")
    elif kind == 3:
        made = made.node_selector(who=f"nobody-{number}-{i}")
    elif kind == 4:
        extended = {f"example.com/r{number}": 1}
        made = made.requests(cpu="1", **extended).limits(**extended)
    elif kind == 5:
        made = made.requests(cpu="2").priority(100, class_name="high")
    else:
        made = made.requests(cpu="100m").image(f"image-{number}-{i}").host_port(2000 + i)
    return made.obj()


def census():
    gc.collect()
    gc.collect()
    return Counter(
        type(one).__qualname__ for one in gc.get_objects() if str(type(one).__module__).startswith("stowplan")
    )


#: Bounded caches of functions; the embedded API's history of changes.
BOUNDED = {"Selector", "Requirement", "RequiredNodeAffinity", "Stored", "Event"}


async def test_deleted_pods_leave_nothing_behind(monkeypatch):
    # Some are kept for a while, in case similar pods follow; here for a shorter time.
    monkeypatch.setattr(pods_on_nodes, "_IDLE_SHAPES", 20)
    monkeypatch.setattr(algorithm, "_MAX_EVALUATIONS", 64)
    async with live(HIGH, *(a_node(f"n{i}").allocatable(cpu="8", pods="40").obj() for i in range(4))) as cluster:
        scheduler = cluster.scheduler
        scheduler.stories._pods, scheduler.stories._decisions = 20, deque(maxlen=20)
        for number in range(2):
            await come_and_go(cluster, number)
        before, samples = census(), series_of(scheduler)
        for number in range(2, 5 + 5 * (SCALE - 1)):
            await come_and_go(cluster, number)
        grown = {name: (before[name], n) for name, n in census().items() if n > before[name] + ROUND // 3}
        assert not {name: counts for name, counts in grown.items() if name not in BOUNDED}
        assert series_of(scheduler) == samples
        assert not len(scheduler._broadcaster._series)


def series_of(scheduler):
    """The number of time series of each metric."""
    return {family.name: len(list(family.series())) for family in scheduler.metrics._registry.families()}


def delete(cluster, name, plural="pods", namespace="default"):
    resource = cluster.server.catalogue.of_storage(plural)
    options = DeleteOptions(grace_period_seconds=0)
    cluster.server.registry.delete(resource, namespace, name, options=options)


# -- connections ------------------------------------------------------------------------------------------------------

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
FINE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Flaky:
    """A TLS server, and a proxy that breaks connections within handshakes, requests and responses."""

    def __init__(self, chance, folder):
        self._chance = chance
        self._folder = folder
        self._ca = make_ca()
        self._writers = set()
        self._at_work = set()

    async def start(self):
        pair = make_server_certificate(self._ca, ["127.0.0.1"])
        path = self._folder / "server.pem"
        path.write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        self._behind = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=context)
        self._before = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        return URL(f"https://127.0.0.1:{self._before.sockets[0].getsockname()[1]}")

    def client_context(self):
        return ssl.create_default_context(cadata=self._ca.certificate.decode())

    async def stop(self):
        for server in (self._before, self._behind):
            server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._at_work, return_exceptions=True)

    async def _answer(self, reader, writer):
        self._stays()
        self._writers.add(writer)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                fate = self._chance.choice(("fine", "fine", "close", "reset", "silence", "half", "garbage"))
                writer.write({"half": FINE[:-1], "garbage": b"zzz\r\n\r\n", "silence": b""}.get(fate, FINE))
                if fate == "reset":
                    writer.transport.abort()
                if fate == "close":
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self._writers.discard(writer)

    def _stays(self):
        task = asyncio.current_task()
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    async def _pass_on(self, reader, writer):
        self._stays()
        there, back = await asyncio.open_connection(*self._behind.sockets[0].getsockname())
        ends = {writer, back}
        self._writers |= ends
        left = [self._chance.choice((100, 300, 900, 1500, 2500, 10**9, 10**9))]
        pumps = [asyncio.ensure_future(self._pump(*way, left)) for way in ((reader, back), (there, writer))]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.transport.abort()
        await asyncio.gather(*pumps, return_exceptions=True)
        self._writers -= ends

    async def _pump(self, reader, writer, left):
        while data := await reader.read(4096):
            left[0] -= len(data)
            if left[0] < 0:
                return
            writer.write(data)


class Tls:
    server_name = None

    def __init__(self, make):
        self.renew = lambda: setattr(self, "_context", make())
        self.renew()

    def context(self):
        return self._context


async def _asked(pool, chance):
    asking = asyncio.ensure_future(pool.exchange(GET))
    if chance.random() < 0.2:
        await asyncio.sleep(chance.random() * 0.02)
        asking.cancel()
    (outcome,) = await asyncio.gather(asking, return_exceptions=True)
    assert not isinstance(outcome, Exception) or isinstance(outcome, NotAnswered)
    return isinstance(outcome, BaseException)


async def _breaks_off(folder, seed):
    chance = random.Random(seed)
    server = Flaky(chance, folder)
    url = await server.start()
    tls = Tls(server.client_context)
    pool = ConnectionPool(url, tls=tls, limits=Limits(connect=0.5, silence=0.05, total=0.1))
    try:
        failed = 0
        for number in range(25 * SCALE):
            failed += sum(await asyncio.gather(*(_asked(pool, chance) for _ in range(12))))
            if number % 10 == 9:
                tls.renew()
        assert failed > 50
        # Aborted connections are closed in the next rounds of the event loop.
        for _ in range(50):
            if pool._all == set(pool._idle) and not pool._dials:
                break
            await asyncio.sleep(0.02)
        assert pool._all == set(pool._idle)
        assert not pool._dials
        assert all(waiter.done() for waiter in pool._waiting)
    finally:
        await pool.close()
        await server.stop()
    assert not pool._all


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_broken_connections_leave_nothing_behind(tmp_path, loop):
    factory = pytest.importorskip(loop).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_breaks_off(tmp_path, 1))


# -- arrays -----------------------------------------------------------------------------------------------------------


async def test_cached_arrays_of_nodes_are_dropped_when_nodes_change():
    """Each is an array with an entry per node: with 15,000 nodes, a thousand of them take a hundred megabytes."""
    async with live(*(a_node(f"n{i}").allocatable(cpu="8").obj() for i in range(3))) as cluster:
        table = cluster.scheduler.state.table
        for i in range(20):
            app = {"app": f"a{i}"}
            constraint = a_pod(f"p{i}").labels(app).image(f"image-{i}").node_selector(zone=f"z{i}")
            await cluster.create(constraint.spreads("kubernetes.io/hostname", selector(labels=app)).obj())
        assert len(table._memos) > 20
        await cluster.patch("nodes", "n0", {"metadata": {"labels": {"zone": "z0"}}}, namespace="")
        await cluster.advance(2.0)
        await cluster.create(a_pod("another").node_selector(zone="z0").obj())
        assert {generation for generation, _ in table._memos.values()} == {table.generation}
