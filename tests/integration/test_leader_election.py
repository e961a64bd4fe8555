"""Leader election on real servers, and against a real kube-scheduler if KUBEBUILDER_ASSETS has one.

Assertions on times use only the records, which are all written on this machine.
"""

import asyncio
import signal
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from itertools import count

import pytest

from stowplan.kube.api.api_errors import NotFound
from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.api.types import Lease, LeaseCandidate
from stowplan.kube.config import Duration, LeaderElection
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.election.leader_election import LeaderElector, LeadershipLost
from stowplan.net.client.election.lease_candidate import LeaseCandidates
from stowplan.net.client.http_api import HttpApi
from support.api.clients import AGENT, UNLIMITED
from support.processes import forked
from support.processes.servers import assets, real_server

DURATION, DEADLINE, RETRY = 4.0, 3.0, 0.5
PATIENCE = 90.0
NAMESPACE = "kube-system"
_NAMES = count(1)


def foreign_scheduler():
    binary = None if assets() is None else assets() / "kube-scheduler"
    if binary is None or not binary.exists():
        pytest.skip("KUBEBUILDER_ASSETS has no kube-scheduler")
    return binary


class Election:
    """One Lease on a server, and the candidates of this process."""

    def __init__(self, server, api, stack, name):
        self.server = server
        self.api = api
        self.name = name
        self.config = LeaderElection(
            lease_duration=Duration.of_seconds(DURATION),
            renew_deadline=Duration.of_seconds(DEADLINE),
            retry_period=Duration.of_seconds(RETRY),
            resource_name=name,
        )
        self._stack = stack

    async def ours(self, identity, *, emulation=""):
        one = Ours(self, identity, emulation)
        self._stack.push_async_callback(one.clean_up)
        return one

    async def spec(self):
        try:
            return (await self.api.get(Lease, self.name, namespace=NAMESPACE)).spec
        except NotFound:
            return None

    async def until_held_by(self, prefix):
        async def held():
            spec = await self.spec()
            return spec if spec is not None and (spec.holder_identity or "").startswith(prefix) else None

        return await until(held)


class Ours:
    """A candidate in this process; `die` acts like SIGKILL and `end` like SIGTERM."""

    def __init__(self, election, identity, emulation):
        self.elector = LeaderElector(
            election.api, election.config, identity=identity, times=REAL_TIMES, coordinated=bool(emulation)
        )
        self.lost = False
        self._api = election.api
        self._identity = identity
        self._tasks = [asyncio.create_task(self._contend())]
        if emulation:
            candidates = LeaseCandidates(
                election.api,
                identity=identity,
                lease_name=election.name,
                binary_version="1.36.0",
                emulation_version=emulation,
                strategy="OldestEmulationVersion",
                times=REAL_TIMES,
            )
            self._tasks.append(asyncio.create_task(candidates.run()))

    async def _contend(self):
        await self.elector.acquire()
        try:
            await self.elector.renew()
        except LeadershipLost:
            self.lost = True
            await self.elector.release()

    async def leads(self):
        async def leading():
            return self.elector.is_leader

        await until(leading)

    async def die(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def end(self):
        await self.die()
        await self.elector.release()

    async def clean_up(self):
        await self.die()
        if len(self._tasks) > 1:
            with suppress(NotFound):
                await self._api.delete(LeaseCandidate, self._identity, namespace=NAMESPACE)


async def until(holds):
    deadline = time.monotonic() + PATIENCE
    while not (found := await holds()):
        assert time.monotonic() < deadline, "timed out waiting for a condition"
        await asyncio.sleep(0.02)
    return found


@asynccontextmanager
async def contested(server, name):
    async with AsyncExitStack() as stack:
        connection = ClusterFlags(kubeconfig=str(server.kubeconfig)).connect()
        api = await stack.enter_async_context(HttpApi.open(connection, client_settings=UNLIMITED, agent=AGENT))
        yield Election(server, api, stack, name)


@pytest.fixture
async def election(api_server):
    async with contested(api_server, f"election-{next(_NAMES)}") as one:
        yield one


@contextmanager
def foreign(election, log, *flags):
    """A real kube-scheduler as a candidate, in its own process."""
    command = [
        foreign_scheduler(),
        f"--kubeconfig={election.server.kubeconfig}",
        "--secure-port=0",
        f"--leader-elect-lease-duration={DURATION}s",
        f"--leader-elect-renew-deadline={DEADLINE}s",
        f"--leader-elect-retry-period={RETRY}s",
        f"--leader-elect-resource-name={election.name}",
        *flags,
    ]
    with log.open("wb") as output, forked.ForkedProcess(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.kill()


def seconds_of(text):
    return parse_timestamp(text)


async def test_a_released_lease_is_taken_at_once(election):
    one = await election.ours("one")
    await one.leads()
    other = await election.ours("other")
    await one.end()
    await other.leads()
    spec = await election.spec()
    assert (spec.holder_identity, spec.lease_transitions, spec.lease_duration_seconds) == ("other", 1, int(DURATION))


async def test_the_lease_of_a_dead_holder_is_taken_when_it_expires(election):
    one = await election.ours("one")
    await one.leads()
    other = await election.ours("other")
    await one.die()
    last = await election.spec()
    await other.leads()
    taken = await election.spec()
    assert seconds_of(taken.acquire_time) - seconds_of(last.renew_time) >= DURATION


async def test_a_deleted_lease_is_recreated(election):
    one = await election.ours("one")
    await one.leads()
    await election.api.delete(Lease, election.name, namespace=NAMESPACE)
    await election.until_held_by("one")
    await one.leads()
    assert not one.lost


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
async def test_we_take_over_from_a_kube_scheduler(election, tmp_path, how):
    with foreign(election, tmp_path / "log") as scheduler:
        held = await election.until_held_by("")
        assert held.holder_identity
        ours = await election.ours("ours")
        # It has observed the holder.
        await until(lambda: _says(ours.elector.leader))
        assert not ours.elector.is_leader
        scheduler.send_signal(how)
        await ours.leads()
        spec = await election.spec()
        assert (spec.holder_identity, spec.lease_transitions) == ("ours", 1)
        if how == signal.SIGKILL:
            assert seconds_of(spec.acquire_time) - seconds_of(held.renew_time) >= DURATION


async def _says(what):
    return what


@pytest.mark.parametrize("released", [True, False], ids=["released", "died"])
async def test_a_kube_scheduler_takes_over_from_us(election, tmp_path, released):
    ours = await election.ours("ours")
    await ours.leads()
    with foreign(election, tmp_path / "log"):
        log = tmp_path / "log"
        await until(lambda: _says("Attempting to acquire leader lease" in log.read_text(errors="replace")))
        await (ours.end() if released else ours.die())
        last = await election.spec()
        taken = await until(lambda: _held_by_another(election, "ours"))
        assert taken.lease_transitions == 1
        assert taken.lease_duration_seconds == int(DURATION)
        if not released:
            assert seconds_of(taken.acquire_time) - seconds_of(last.renew_time) >= DURATION


async def _held_by_another(election, name):
    spec = await election.spec()
    return spec if spec.holder_identity not in ("", name) else None


# -- coordinated elections ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def coordinating(tmp_path_factory):
    """A real server that chooses the holder itself."""
    if assets() is None:
        pytest.skip("KUBEBUILDER_ASSETS names no kube-apiserver")
    folder, binaries = tmp_path_factory.mktemp("coordinating"), tmp_path_factory.mktemp("binaries")
    (binaries / "etcd").symlink_to(assets() / "etcd")
    started = binaries / "kube-apiserver"
    started.write_text(
        f'#!/bin/sh\nexec {assets() / "kube-apiserver"} "$@" --feature-gates=CoordinatedLeaderElection=true\n'
    )
    started.chmod(0o755)
    with real_server(folder, binaries) as server:
        yield server


async def test_coordinated_election_prefers_the_older_emulation_version(coordinating):
    async with contested(coordinating, "coordinated") as election:
        newer = await election.ours("newer", emulation="1.36.0")
        await newer.leads()
        spec = await election.spec()
        assert (spec.holder_identity, spec.strategy) == ("newer", "OldestEmulationVersion")
        older = await election.ours("older", emulation="1.35.0")
        await older.leads()
        assert newer.lost
        assert not newer.elector.is_leader


async def test_coordinated_election_against_a_kube_scheduler(coordinating, tmp_path):
    # Parity: candidates of kube-scheduler are for the Lease of this name only.
    async with contested(coordinating, "kube-scheduler") as election:
        log = tmp_path / "log"
        with foreign(election, log, "--feature-gates=CoordinatedLeaderElection=true") as scheduler:
            held = await until(lambda: _led_by_another(election))
            assert held.strategy == "OldestEmulationVersion"
            ours = await election.ours("ours", emulation="1.35.0")
            await ours.leads()
            await asyncio.to_thread(scheduler.wait, PATIENCE)
            assert scheduler.returncode == 1
        with foreign(election, log, "--feature-gates=CoordinatedLeaderElection=true"):
            await until(lambda: _candidates(election, 3))
            await ours.end()
            await until(lambda: _led_by_another(election))


async def _candidates(election, number):
    """Whether there are that many, including candidates that are gone but not yet removed."""
    return len((await election.api.list(LeaseCandidate, namespace=NAMESPACE)).items) >= number


async def _led_by_another(election):
    """Whether a holder is named and has renewed."""
    spec = await election.spec()
    if spec is None or spec.holder_identity in (None, "", "ours"):
        return None
    return spec if spec.lease_transitions is not None else None
