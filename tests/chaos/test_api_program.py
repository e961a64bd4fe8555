"""kube-scheduler as a process, with an API that misbehaves over real connections while pods arrive.

After each fault, every pod that fits must have been bound once, the one that does not must have a reason, and the
scheduler's dump must match the API. One process lives through all tests.
"""

from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from random import Random

import pytest

from support.chaos.proxy import (
    Proxy,
    all_but_leases,
    at_random,
    binds,
    ends_in_a_chunk,
    first_time,
    in_turn,
    lists,
    loses_answers,
    refuses,
    resets,
    truncates,
    watches,
)
from support.chaos.witness import Witness, dump_matches_cluster, explains_pending, make_nodes
from support.examples import SCALE
from support.processes.scheduler_process import kube_scheduler
from support.processes.servers import SERVER_KINDS, assets, embedded_server, real_server

KINDS = SERVER_KINDS
PODS = 18 * SCALE
_ROUNDS = count(1)


@contextmanager
def api_server(kind, folder):
    started = (
        embedded_server(folder, "--nodes=8", "--controllers=") if kind == "embedded" else real_server(folder, assets())
    )
    with started as server:
        if kind == "real":
            make_nodes(server, 8)
        yield server


class World:
    def __init__(self, witness, proxy, scheduler):
        self.witness, self.proxy, self.scheduler = witness, proxy, scheduler

    def create(self, number=PODS):
        """Pods that fit, and one that does not."""
        round_ = next(_ROUNDS)
        too_large = f"large-{round_}"
        self.witness.create_pods(too_large, cpu="1000")
        self.witness.create_pods(*(f"p{round_}-{i}" for i in range(number)))
        return too_large

    def until_met(self, fate, times):
        self.witness.until(lambda: self.proxy.fates[fate] >= times)

    def cut_again_and_again(self, cuts, *, watches_only=False):
        """Each time once a client is back."""
        coming, fates = "watches" if watches_only else "connections", self.proxy.fates
        for _ in range(cuts):
            before = fates[coming]
            self.proxy.cut(watches_only=watches_only)
            self.witness.until(lambda before=before: fates[coming] > before)

    def wait_until_settled(self):
        self.proxy.fault = self.proxy.spoil = None
        self.proxy.silent = False

    def check_final_state(self, too_large):
        self.wait_until_settled()
        witness = self.witness
        witness.until(lambda: witness.pending() == {too_large})
        dump_matches_cluster(witness, self.scheduler)
        witness.check_all_bound_except(too_large)
        explains_pending(witness, self.scheduler, too_large, "Insufficient cpu")
        assert self.scheduler.process.poll() is None
        witness.reset()


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("chaos")
    with ExitStack() as stack:
        server = stack.enter_context(api_server(request.param, folder))
        witness = stack.enter_context(Witness(server.kubeconfig))
        proxy = stack.enter_context(Proxy(server.kubeconfig, folder))
        scheduler = stack.enter_context(kube_scheduler(folder, proxy.kubeconfig))
        scheduler.until("Successfully acquired lease")
        yield World(witness, proxy, scheduler)


@pytest.fixture(autouse=True)
def no_faults(request):
    yield
    if "world" in request.fixturenames:
        request.getfixturevalue("world").wait_until_settled()


WAIT = {"headers": [("Retry-After", "1")]}
#: Faults of a bind; the last three happen after it took effect, or may have.
WAYS = {
    "409": partial(refuses, 409, reason="Conflict"),
    "404": partial(refuses, 404, reason="NotFound"),
    "500": partial(refuses, 500),
    "503": partial(refuses, 503),
    "429": partial(refuses, 429),
    "429 with Retry-After": partial(refuses, 429, **WAIT),
    "carried out, answer lost": loses_answers,
    "carried out, answer cut short": truncates,
    "reset": resets,
}
#: Faults of any request.
TROUBLES = {
    "429": partial(refuses, 429),
    "429 with Retry-After": partial(refuses, 429, **WAIT),
    "500": partial(refuses, 500),
    "reset": resets,
}


def all_and_each(ways):
    """Each in its turn; where there is time, each of them alone as well."""
    alone = ways.items() if SCALE > 1 else ()
    return [pytest.param(list(ways.values()), id="all"), *(pytest.param([way], id=name) for name, way in alone)]


@pytest.mark.parametrize("ways", all_and_each(WAYS))
def test_every_bind_fails_once(world, ways):
    world.proxy.fates.clear()
    world.proxy.fault = in_turn(ways, of=first_time(binds))
    waiting = world.create()
    world.witness.until(lambda: sum(world.proxy.troubled().values()) >= PODS)
    world.check_final_state(waiting)


@pytest.mark.parametrize("ways", all_and_each(TROUBLES))
def test_any_request_may_fail(world, ways):
    world.proxy.fates.clear()
    world.proxy.fault = in_turn(ways, of=at_random(all_but_leases, 0.5, Random(5)))
    world.proxy.cut()
    waiting = world.create()
    world.witness.until(lambda: sum(world.proxy.troubled().values()) >= PODS // 2)
    world.check_final_state(waiting)


@pytest.mark.parametrize("fault", [truncates, resets, ends_in_a_chunk], ids=lambda fault: fault.__name__)
def test_lists_fail_half_way(world, fault):
    """Lists are requested again because watches have expired."""
    world.proxy.fates.clear()
    waiting = world.create(PODS // 2)
    forgets, fails = refuses(410, of=first_time(watches), reason="Expired"), fault(of=first_time(lists))

    async def both(exchange):
        await (forgets if exchange.is_watch else fails)(exchange)

    world.proxy.fault = both
    world.proxy.cut(watches_only=True)
    world.witness.create_pods(*(f"{waiting}-{i}" for i in range(PODS // 2)))
    world.witness.until(lambda: set(world.proxy.troubled()) - {"410"} and world.proxy.fates["410"] > 4)
    world.check_final_state(waiting)


NONSENSE = {
    "half a line": b'{"type":"ADDED","object":{"kind":"Pod","meta',
    "bytes that are no text": b"\xff\xfe\x00",
    "another language": b"<html>not you</html>",
    "no object": b"[]",
    "an unknown event": b'{"type":"WHAT","object":{}}',
    "an error without a Status": b'{"type":"ERROR","object":"no"}',
    "an error with a wrong Status": b'{"type":"ERROR","object":{"code":"500"}}',
    "an error about nothing": b'{"type":"ERROR"}',
    "wrong twice": b'{"type":"ADDED","object":{"metadata":5,"x":"\xff"}}',
    "too deep": b'{"type":"ADDED","object":{"metadata":5,"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
    "an unknown kind": b'{"type":"ADDED","object":{"kind":"Unknown","metadata":{}}}',
    "nothing": b'{"type":"ADDED","object":null}',
    "another's version": b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":5}}}',
    "huge": b" " * (4 << 20),
}


def one_by_one(nonsense, put):
    """One line of each kind; afterwards lines are correct."""
    left = list(nonsense)

    def spoil(line):
        return put(line, left.pop()) if left else line

    return spoil


def test_watches_deliver_garbage_after_a_while(world):
    """Events before the garbage count; the others are requested again."""
    world.proxy.fates.clear()
    world.proxy.spoil = one_by_one(NONSENSE.values(), lambda line, nonsense: line + nonsense + b"\n")
    waiting = world.create()
    world.witness.create_pods(*(f"{waiting}-{i}" for i in range(len(NONSENSE))))
    world.until_met("spoilt", len(NONSENSE))
    world.check_final_state(waiting)


def test_watches_stall_and_are_cut(world):
    """No events arrive until the connection breaks."""
    world.proxy.fates.clear()
    world.proxy.silent = True
    waiting = world.create()
    world.until_met("withheld", 1)
    assert world.witness.pending() == set(world.witness.nodes_of_pods())
    world.proxy.silent = False
    world.proxy.cut(watches_only=True)
    world.check_final_state(waiting)
