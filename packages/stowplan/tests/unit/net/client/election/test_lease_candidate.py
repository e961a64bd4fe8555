"""The candidate of a coordinated election, with an in-memory API, in virtual time."""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from stowplan.kube.api.api_errors import Conflict, Forbidden, InternalError
from stowplan.kube.timing.times import settle
from stowplan.net.client.election.lease_candidate import LeaseCandidates
from support.live.leases import NAMESPACE, WithWallClock, elections

CANDIDATES = "leasecandidates.coordination.k8s.io"


class Standing:
    def __init__(self, world, api, wrong):
        self.world = world
        times = world.time
        wall_clock = lambda: world.time.wall_clock() + wrong  # noqa: E731
        self.candidates = LeaseCandidates(
            api or world.api,
            identity="host_1",
            lease_name="kube-scheduler",
            binary_version="1.36.0",
            emulation_version="1.35.0",
            strategy="OldestEmulationVersion",
            times=WithWallClock(times, wall_clock),
        )
        self.task = world.start(self.candidates.run())

    @property
    def spec(self):
        return self.world.server.get(CANDIDATES, NAMESPACE, "host_1")["spec"]

    def change(self, **spec):
        self.world.server.patch(CANDIDATES, NAMESPACE, "host_1", {"spec": spec})


@asynccontextmanager
async def standing(world, *, api=None, wrong=0.0):
    one = Standing(world, api, wrong)
    await settle()
    yield one
    assert not one.task.done()


class Failing:
    """Raises the next of `errors` instead of writing."""

    def __init__(self, api, *errors):
        self._api = api
        self._errors = list(errors)

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def create(self, obj, **options):
        self._fail()
        return await self._api.create(obj, **options)

    async def update(self, obj, **options):
        self._fail()
        return await self._api.update(obj, **options)

    def _fail(self):
        if self._errors:
            raise self._errors.pop(0)


async def test_a_candidate_is_created_as_the_reference_writes_it():
    async with elections() as world, standing(world) as one:
        assert one.candidates.synced.is_set()
        assert one.spec == {
            "leaseName": "kube-scheduler",
            "renewTime": "2027-01-15T08:00:00.000000Z",
            "binaryVersion": "1.36.0",
            "emulationVersion": "1.35.0",
            "strategy": "OldestEmulationVersion",
        }


async def test_it_is_renewed_every_five_minutes():
    async with elections() as world, standing(world) as one:
        await world.time.advance(299)
        assert one.spec["renewTime"] == "2027-01-15T08:00:00.000000Z"
        await world.time.advance(2)
        assert one.spec["renewTime"] == "2027-01-15T08:05:00.000000Z"
        await world.time.advance(300)
        assert one.spec["renewTime"] == "2027-01-15T08:10:00.000000Z"


async def test_a_ping_is_answered_at_once():
    async with elections() as world, standing(world) as one:
        await world.time.advance(7)
        one.change(pingTime="2027-01-15T08:00:07.000000Z")
        await settle()
        assert one.spec["renewTime"] == "2027-01-15T08:00:07.000000Z"
        assert one.spec["pingTime"] == "2027-01-15T08:00:07.000000Z"


async def test_a_ping_is_answered_once_despite_clock_skew():
    async with elections() as world, standing(world, wrong=-3600.0) as one:
        await world.time.advance(7)
        one.change(pingTime="2027-01-15T08:00:07.000000Z")
        await settle()
        assert one.spec["renewTime"] == "2027-01-15T08:00:07.000000Z"
        version = world.server.get(CANDIDATES, NAMESPACE, "host_1")["metadata"]["resourceVersion"]
        await world.time.advance(20)
        assert world.server.get(CANDIDATES, NAMESPACE, "host_1")["metadata"]["resourceVersion"] == version


async def test_an_answered_ping_is_not_answered_again():
    async with elections() as world, standing(world) as one:
        await world.time.advance(7)
        one.change(pingTime="2027-01-15T07:59:00.000000Z")
        await world.time.advance(10)
        assert one.spec["renewTime"] == "2027-01-15T08:00:00.000000Z"


async def test_a_deleted_candidate_is_created_again():
    async with elections() as world, standing(world) as one:
        await world.time.advance(7)
        world.server.delete(CANDIDATES, NAMESPACE, "host_1")
        await settle()
        assert one.spec["renewTime"] == "2027-01-15T08:00:07.000000Z"


async def test_foreign_labels_are_kept():
    async with elections() as world, standing(world) as one:
        world.server.patch(CANDIDATES, NAMESPACE, "host_1", {"metadata": {"labels": {"a": "b"}}})
        await world.time.advance(301)
        assert one.spec["renewTime"] == "2027-01-15T08:05:00.000000Z"
        assert world.server.get(CANDIDATES, NAMESPACE, "host_1")["metadata"]["labels"] == {"a": "b"}


async def test_an_existing_candidate_of_the_same_name_is_renewed():
    async with elections() as world:
        spec = {"leaseName": "kube-scheduler", "binaryVersion": "1.36.0", "emulationVersion": "1.35.0"}
        spec["strategy"] = "OldestEmulationVersion"
        world.server.create(CANDIDATES, {"metadata": {"name": "host_1", "namespace": NAMESPACE}, "spec": spec})
        async with standing(world) as one:
            assert one.spec["renewTime"] == "2027-01-15T08:00:00.000000Z"


@pytest.mark.parametrize("error", [InternalError("no"), Conflict("no")], ids=["500", "409"])
async def test_failures_are_logged_and_retried(caplog, error):
    caplog.set_level(logging.ERROR)
    async with elections() as world, standing(world, api=Failing(world.api, error, error)) as one:
        await world.time.advance(1)
        assert one.spec["renewTime"]
        assert [text.split(" err=")[0] for text in caplog.messages] == ["Ensuring lease failed"] * 2


async def test_a_watch_that_fails_is_logged(caplog):
    caplog.set_level(logging.INFO)

    class Forbidding(Failing):
        async def list(self, *args, **options):
            raise Forbidden("no")

    async with elections() as world, standing(world, api=Forbidding(world.api)):
        (told,) = caplog.messages
    assert told.startswith('Failed to watch err="no"')
    assert 'resource="leasecandidates' in told


async def test_the_candidate_is_not_deleted_at_shutdown():
    async with elections() as world, standing(world) as one:
        pass
    await asyncio.gather(one.task, return_exceptions=True)
    assert one.spec["leaseName"] == "kube-scheduler"
