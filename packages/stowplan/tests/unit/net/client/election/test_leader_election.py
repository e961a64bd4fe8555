"""Leader election with an in-memory API, in virtual time."""

import asyncio
import logging
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import Conflict, Forbidden, InternalError, NotFound
from stowplan.kube.api.port import Unreachable
from stowplan.kube.config import Duration, LeaderElection
from stowplan.kube.metrics.client_metrics import ClientMetrics
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.timing.times import settle
from stowplan.net.client.election.leader_election import (
    JITTER_FACTOR,
    LeadershipLost,
    check_lease_settings,
    request_timeout,
)
from support.examples import times
from support.live.leases import MAX_DRIFT, NAME, NAMESPACE, SLOWEST, Contest, ScriptedApi, WithWallClock, elections

LEASES = "leases.coordination.k8s.io"
DURATION, DEADLINE, RETRY = 15.0, 10.0, 2.0
#: The longest time that a contender sleeps between two tries.
LONGEST_PAUSE = RETRY * (1 + JITTER_FACTOR)


def timings(duration, deadline, retry):
    return LeaderElection(
        lease_duration=Duration.of_seconds(duration),
        renew_deadline=Duration.of_seconds(deadline),
        retry_period=Duration.of_seconds(retry),
    )


@asynccontextmanager
async def leading(world, **options):
    """An elector that leads and renews, with the line to its server."""
    api = ScriptedApi(world.api, world.time)
    elector = world.elector(api=api, **options)
    task = await world.lead(elector)
    api.asked.clear()
    yield elector, api, task


def logged(caplog):
    return [record.getMessage() for record in caplog.records if record.name.endswith("leader_election")]


class Told:
    def __init__(self):
        self.events = []

    def event(self, regarding, *, type_, reason, action, note, related=None):
        about = (regarding.kind, regarding.metadata.namespace, regarding.metadata.name)
        self.events.append((about, type_, reason, note))


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duration", "deadline", "retry", "problem"),
    [
        pytest.param(15, 10, 2, "", id="defaults"),
        pytest.param(15, 15, 2, "leaseDuration must be greater than renewDeadline", id="no room to expire"),
        pytest.param(15, 10, 10, "renewDeadline must be greater than retryPeriod*JitterFactor", id="no room to retry"),
        pytest.param(15, 2.4, 2, "renewDeadline must be greater than retryPeriod*JitterFactor", id="as much as jitter"),
        pytest.param(15, 2.401, 2, "", id="a little more than jitter"),
        pytest.param(0, -5, -9, "leaseDuration must be greater than zero", id="no duration"),
        pytest.param(5, 0, -9, "renewDeadline must be greater than zero", id="no deadline"),
        pytest.param(5, 1, 0, "retryPeriod must be greater than zero", id="no retry period"),
    ],
)
def test_settings_are_checked_as_the_reference_does(duration, deadline, retry, problem):
    config = timings(duration, deadline, retry)
    if not problem:
        return check_lease_settings(config)
    with pytest.raises(ValueError, match="couldn't create leader elector") as raised:
        check_lease_settings(config)
    assert str(raised.value) == f"couldn't create leader elector: {problem}"


async def test_an_elector_refuses_invalid_settings():
    async with elections(config=timings(15, 15, 2)) as world:
        with pytest.raises(ValueError, match="leaseDuration must be greater than renewDeadline"):
            world.elector()


@pytest.mark.parametrize(("deadline", "timeout"), [(10, 5.0), (3, 1.5), (1, 1.0)])
def test_the_request_timeout_leaves_time_for_a_retry(deadline, timeout):
    assert request_timeout(timings(60, deadline, 0.1)) == timeout


# -- the record --------------------------------------------------------------------------------------------------------


async def test_a_lease_is_created_as_the_reference_writes_it():
    async with elections() as world:
        elector = world.elector()
        assert (elector.is_leader, elector.leader) == (False, "")
        await elector.acquire()
        assert (elector.is_leader, elector.leader) == (True, "me")
        assert world.spec == {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2027-01-15T08:00:00.000000Z",
            "renewTime": "2027-01-15T08:00:00.000000Z",
            "leaseTransitions": 0,
        }


async def test_a_renewal_changes_only_the_renew_time():
    async with elections() as world, leading(world):
        await world.time.advance(7)
        assert world.spec == {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2027-01-15T08:00:00.000000Z",
            "renewTime": "2027-01-15T08:00:06.000000Z",
            "leaseTransitions": 0,
        }


async def test_a_renewal_is_one_request_per_retry_period():
    async with elections() as world, leading(world) as (_, api, _):
        await world.time.advance(7)
        assert api.asked == [(2.0, "update"), (4.0, "update"), (6.0, "update")]


async def test_the_duration_is_written_in_whole_seconds():
    async with elections(config=timings(15.9, 10, 2)) as world, leading(world):
        assert world.spec["leaseDurationSeconds"] == 15


async def test_a_renewal_changes_the_record_even_if_the_clock_stands_still():
    async with elections() as world:
        times = world.time
        frozen = WithWallClock(times, lambda: 1.8e9)
        await world.lead(world.elector(times=frozen))
        seen = {world.spec["renewTime"]}
        for _ in range(5):
            before = world.spec["renewTime"]
            await world.time.advance(RETRY)
            assert world.spec["renewTime"] != before
            seen.add(world.spec["renewTime"])
        assert len(seen) > 1


async def test_foreign_labels_and_owners_of_the_lease_are_kept():
    async with elections() as world:
        world.put(holderIdentity="")
        world.server.patch(LEASES, NAMESPACE, NAME, {"metadata": {"labels": {"a": "b"}, "finalizers": ["x.io/y"]}})
        async with leading(world):
            await world.time.advance(5)
            assert world.stored["metadata"]["labels"] == {"a": "b"}
            assert world.stored["metadata"]["finalizers"] == ["x.io/y"]


@pytest.mark.parametrize(
    ("spec", "transitions"),
    [
        pytest.param({"holderIdentity": "", "leaseTransitions": 3}, 4, id="released"),
        pytest.param({"leaseTransitions": 3}, 4, id="never held"),
        pytest.param({}, 1, id="empty spec"),
        pytest.param({"holderIdentity": "you", "leaseTransitions": 7}, 8, id="held for no time"),
    ],
)
async def test_an_unheld_lease_is_taken_at_once(spec, transitions):
    async with elections() as world:
        world.put(**spec)
        elector = world.elector()
        await elector.acquire()
        assert world.spec["holderIdentity"] == "me"
        assert world.spec["leaseTransitions"] == transitions
        assert world.time.now == 0


# -- standby -----------------------------------------------------------------------------------------------------------


async def test_a_held_lease_is_taken_after_its_duration_without_an_observed_change():
    async with elections() as world:
        world.put(holderIdentity="you", leaseDurationSeconds=40, renewTime="2001-01-01T00:00:00.000000Z")
        elector = world.elector()
        world.start(elector.acquire())
        await world.time.advance(39.99)
        assert (elector.is_leader, elector.leader) == (False, "you")
        await world.time.advance(0.01)
        assert elector.is_leader


async def test_an_observed_renewal_restarts_the_wait():
    async with elections(chance=0.0) as world:
        world.put(holderIdentity="you", leaseDurationSeconds=15)
        elector = world.elector()
        world.start(elector.acquire())
        await world.time.advance(13)
        world.put(holderIdentity="you", leaseDurationSeconds=15, renewTime="2001-01-01T00:00:00.000000Z")
        await world.time.advance(1)  # it looks at 14
        await world.time.advance(14.99)
        assert not elector.is_leader
        await world.time.advance(0.02)
        assert elector.is_leader


async def test_metadata_changes_are_no_renewal():
    async with elections() as world:
        world.put(holderIdentity="you", leaseDurationSeconds=15)
        elector = world.elector()
        world.start(elector.acquire())
        for number in range(15):
            await world.time.advance(1)
            world.server.patch(LEASES, NAMESPACE, NAME, {"metadata": {"labels": {"a": str(number)}}})
        await world.time.advance(0.1 + LONGEST_PAUSE)
        assert elector.is_leader


@pytest.mark.parametrize(("chance", "pause"), [(0.0, 2.0), (0.5, 3.2), (1.0, 4.4)])
async def test_tries_are_a_jittered_retry_period_apart(chance, pause):
    async with elections(chance=chance) as world:
        world.put(holderIdentity="you", leaseDurationSeconds=3600)
        api = ScriptedApi(world.api, world.time)
        world.start(world.elector(api=api).acquire())
        await world.time.advance(3 * pause + 0.1)
        assert [when for when, _ in api.asked] == pytest.approx([0, pause, 2 * pause, 3 * pause])


@pytest.mark.parametrize(
    ("verb", "fate", "message"),
    [
        pytest.param("get", InternalError("no"), "Error retrieving lease lock", id="reading"),
        pytest.param("get", "hang", "Error retrieving lease lock", id="reading hangs"),
        pytest.param("create", Forbidden("no"), "Error initially creating lease lock", id="creating"),
        pytest.param("create", "hang", "Error initially creating lease lock", id="creating hangs"),
        pytest.param("create", "lost", "Error initially creating lease lock", id="the answer is lost"),
    ],
)
async def test_failures_are_logged_and_retried(caplog, verb, fate, message):
    async with elections() as world:
        api = ScriptedApi(world.api, world.time)
        api.fates[verb].append(fate)
        elector = world.elector(api=api)
        task = world.start(elector.acquire())
        await world.time.advance(5.0 + LONGEST_PAUSE)
        assert task.done()
        assert elector.is_leader
        errors = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert [record.getMessage().startswith(f"{message} err=") for record in errors] == [True]
        assert 'lock="kube-system/kube-scheduler"' in errors[0].getMessage()


async def test_an_acquisition_confirmed_too_late_does_not_count():
    """The response took longer than a leader may be silent: another process may have the Lease by now."""
    async with elections(config=timings(3, 1.5, 0.5)) as world:
        world.put(holderIdentity="")
        api = ScriptedApi(world.api, world.time)
        elector = world.elector(api=api)
        elector._timeout = 60.0
        api.fates["update"].append(2.0)
        task = world.start(elector.acquire())
        await world.time.advance(2.0)
        assert world.spec["holderIdentity"] == "me"
        assert not elector.is_leader
        await world.time.advance(1.1)
        assert elector.is_leader
        assert task.done()


# -- leading -----------------------------------------------------------------------------------------------------------


async def test_a_conflict_is_resolved_within_the_same_try(caplog):
    caplog.set_level(logging.DEBUG)
    async with elections() as world, leading(world) as (elector, api, _):
        world.server.patch(LEASES, NAMESPACE, NAME, {"metadata": {"labels": {"a": "b"}}})
        await world.time.advance(2.5)
        assert api.asked == [(2.0, "update"), (2.0, "get"), (2.0, "update")]
        assert elector.is_leader
        assert world.stored["metadata"]["labels"] == {"a": "b"}


async def test_a_renewal_whose_answer_is_lost_does_not_count_but_the_next_does():
    async with elections() as world, leading(world) as (elector, api, _):
        api.fates["update"] += ["lost", InternalError("no")]
        await world.time.advance(2.5)
        assert world.spec["renewTime"].endswith("08:00:02.000000Z")
        await world.time.advance(2)
        assert elector.is_leader
        assert world.spec["renewTime"].endswith("08:00:04.000000Z")


@pytest.mark.parametrize(
    "fate",
    [Unreachable("away"), InternalError("no"), Conflict("no"), "hang"],
    ids=["unreachable", "500", "409", "hang"],
)
async def test_the_lease_is_lost_a_renew_deadline_after_the_last_renewal_started(caplog, fate):
    caplog.set_level(logging.INFO)
    async with elections() as world, leading(world, recorder=Told()) as (elector, api, task):
        await world.time.advance(6)  # the last successful renewal starts at 6
        api.fates["update"] += [fate] * 99
        api.fates["get"] += [fate] * 99
        await world.time.advance(DEADLINE - 0.01)
        assert elector.is_leader
        assert not task.done()
        await world.time.advance(0.01)
        assert not elector.is_leader
        assert isinstance(task.exception(), LeadershipLost)
        assert logged(caplog)[-1] == (
            'Failed to renew lease lock="kube-system/kube-scheduler" err="context deadline exceeded"'
        )
        assert elector._recorder.events[-1][-1] == "me stopped leading"


async def test_a_leader_stops_before_the_recorded_duration_ends():
    """The record has whole seconds: 10 here, although the deadline is later."""
    async with elections(config=timings(10.9, 10.5, 2)) as world, leading(world) as (elector, api, task):
        api.fates["update"] += [Unreachable("away")] * 99
        api.fates["get"] += [Unreachable("away")] * 99
        await world.time.advance(9.9)
        assert elector.is_leader
        await world.time.advance(0.2)
        assert not elector.is_leader
        assert task.done()


async def test_a_formerly_held_lease_is_read_before_it_is_claimed():
    async with elections(chance=0.0) as world:
        api = ScriptedApi(world.api, world.time)
        api.fates["create"].append("lost")
        api.fates["update"] += [InternalError("no")] * 2
        elector = world.elector(api=api)
        world.start(elector.acquire())
        await world.time.advance(3)  # the second try has read that it is ours
        api.fates["get"] += [Unreachable("away")] * 8
        api.fates["update"] += [Unreachable("away")] * 7
        await world.time.advance(17)
        api.asked.clear()
        await world.time.advance(RETRY)
        assert next(verb for _, verb in api.asked) == "get"


async def test_a_renewal_counts_from_when_it_was_sent():
    async with elections() as world, leading(world) as (elector, api, task):
        api.fates["update"] += [4.0] + [Unreachable("away")] * 99  # sent at 2, answered at 6
        api.fates["get"] += [Unreachable("away")] * 99
        await world.time.advance(11.9)
        assert elector.is_leader
        await world.time.advance(0.2)
        assert not elector.is_leader
        assert task.done()


async def test_a_hanging_request_leaves_time_for_another():
    async with elections() as world, leading(world) as (elector, api, _):
        api.fates["update"] += ["hang"]  # from 2 to 7
        await world.time.advance(7)
        assert api.asked == [(2.0, "update"), (7.0, "get"), (7.0, "update")]
        await world.time.advance(3.5)
        assert elector.is_leader


async def test_a_process_that_hung_no_longer_leads():
    """None of its tasks has run since, so only the clock can tell."""
    async with elections() as world:
        elector = world.elector()
        await elector.acquire()
        world.time.now += 30
        assert not elector.is_leader
        with pytest.raises(LeadershipLost):
            await elector.renew()


async def test_a_leader_that_sees_another_holder_stops_at_once(caplog):
    async with elections() as world, leading(world) as (elector, _, task):
        world.put(holderIdentity="you", leaseDurationSeconds=15)
        await world.time.advance(2)
        assert (elector.is_leader, elector.leader) == (False, "you")
        assert isinstance(task.exception(), LeadershipLost)
        assert world.spec["holderIdentity"] == "you"


async def test_a_deleted_lease_is_created_again():
    async with elections() as world, leading(world) as (elector, _, _):
        world.server.delete(LEASES, NAMESPACE, NAME)
        await world.time.advance(2.5)
        assert elector.is_leader
        assert world.spec["holderIdentity"] == "me"


async def test_a_cleared_lease_is_taken_again():
    async with elections() as world, leading(world) as (elector, _, _):
        world.put(holderIdentity="", leaseTransitions=4)
        await world.time.advance(2.5)
        assert elector.is_leader
        assert (world.spec["holderIdentity"], world.spec["leaseTransitions"]) == ("me", 5)


async def test_jumps_of_the_wall_clock_do_not_matter():
    async with elections() as world:
        times = world.time
        jump = [0.0]

        def wall_clock():
            return world.time.wall_clock() + jump[0]

        jumping = WithWallClock(times, wall_clock)
        leader, standby = world.elector("leader", times=jumping), world.elector("standby", times=jumping)
        await world.lead(leader)
        world.start(standby.acquire())
        for seconds in (86400.0, -86400.0, 1e8, -1e9, 2.0, -2.0):
            jump[0] += seconds
            await world.time.advance(20)
            assert (leader.is_leader, standby.is_leader) == (True, False)


# -- shutdown ----------------------------------------------------------------------------------------------------------


async def stop(task):
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_lease_is_released_as_the_reference_does():
    async with elections() as world, leading(world) as (elector, _, task):
        await world.time.advance(3)
        await stop(task)
        await elector.release()
        assert not elector.is_leader
        assert world.spec == {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": "2027-01-15T08:00:03.000000Z",
            "renewTime": "2027-01-15T08:00:03.000000Z",
            "leaseTransitions": 0,
        }


async def test_a_process_may_contend_again_after_a_release():
    async with elections() as world:
        elector = world.elector()
        await stop(await world.lead(elector))
        await elector.release()
        await world.time.advance(2 * DURATION)
        await world.lead(elector)
        await world.time.advance(RETRY)
        assert elector.is_leader
        assert world.spec["leaseTransitions"] == 1


async def test_a_standby_sends_no_request_at_shutdown():
    async with elections() as world:
        world.put(holderIdentity="you", leaseDurationSeconds=15)
        api = ScriptedApi(world.api, world.time)
        elector = world.elector(api=api)
        task = world.start(elector.acquire())
        await settle()
        await stop(task)
        api.asked.clear()
        await elector.release()
        assert api.asked == []


async def test_a_claim_without_a_response_is_released_too():
    async with elections() as world:
        api = ScriptedApi(world.api, world.time)
        api.fates["create"].append("lost")
        elector = world.elector(api=api)
        task = world.start(elector.acquire())
        await settle()
        await stop(task)
        assert world.spec["holderIdentity"] == "me"
        await elector.release()
        assert world.spec["holderIdentity"] == ""


async def test_a_release_does_not_overwrite_another_holder():
    async with elections() as world, leading(world) as (elector, _, task):
        await stop(task)
        world.put(holderIdentity="you", leaseDurationSeconds=15)
        await elector.release()
        assert world.spec["holderIdentity"] == "you"


async def test_a_release_is_retried_after_a_conflict():
    async with elections() as world, leading(world) as (elector, api, task):
        await stop(task)
        api.fates["update"] += [Conflict("no"), Conflict("no")]
        await elector.release()
        assert world.spec["holderIdentity"] == ""


@pytest.mark.parametrize(
    ("fates", "message"),
    [
        pytest.param({"get": [Unreachable("away")]}, "error retrieving resource lock", id="reading"),
        pytest.param({"get": ["hang"]}, "error retrieving resource lock", id="reading hangs"),
        pytest.param({"update": [InternalError("no")]}, "Failed to release lease", id="writing"),
        pytest.param({"update": [Conflict("no")] * 3}, "Failed to release lease", id="conflicts"),
        pytest.param({"update": ["hang"]}, "Failed to release lease", id="writing hangs"),
        pytest.param(
            {"get": [4.0] * 3, "update": [Conflict("no")] * 2}, "error retrieving resource lock", id="no time left"
        ),
    ],
)
async def test_a_failed_release_is_logged_and_given_up(caplog, fates, message):
    async with elections() as world, leading(world) as (elector, api, task):
        await stop(task)
        for verb, those in fates.items():
            api.fates[verb] += those
        ending = world.start(elector.release())
        await settle()
        assert not elector.is_leader
        await world.time.advance(DEADLINE)
        assert ending.done()
        assert ending.exception() is None
        assert [text.startswith(message) for text in logged(caplog)] == [True]


async def test_a_deleted_lease_needs_no_release(caplog):
    caplog.set_level(logging.INFO)
    async with elections() as world, leading(world) as (elector, _, task):
        await stop(task)
        world.server.delete(LEASES, NAMESPACE, NAME)
        await elector.release()
        assert logged(caplog)[-1] == 'lease lock not found lock="kube-system/kube-scheduler"'


# -- events, metrics and logs ------------------------------------------------------------------------------------------


async def test_events_report_who_became_and_stopped_leading():
    async with elections() as world:
        told = Told()
        async with leading(world, recorder=told) as (elector, _, task):
            await stop(task)
            await elector.release()
            await elector.release()
    about = ("Lease", NAMESPACE, NAME)
    assert told.events == [
        (about, "Normal", "LeaderElection", "me became leader"),
        (about, "Normal", "LeaderElection", "me stopped leading"),
    ]


async def test_metrics_of_leadership_and_slow_path_reads():
    registry = MetricsRegistry()
    metrics = ClientMetrics(registry)
    async with elections() as world:
        elector = world.elector(metrics=metrics)
        assert [child.value for _, child in metrics.leader_election_master_status.series()] == [0.0]
        status = metrics.leader_election_master_status.with_label_values("kube-scheduler")
        slow = metrics.leader_election_slowpath_total.with_label_values("kube-scheduler")
        task = await world.lead(elector)
        await world.time.advance(5)
        assert (status.value, slow.value) == (1.0, 0.0)
        world.server.patch(LEASES, NAMESPACE, NAME, {"metadata": {"labels": {"a": "b"}}})
        await world.time.advance(2)
        assert (status.value, slow.value) == (1.0, 1.0)
        await stop(task)
        await elector.release()
        assert status.value == 0.0


async def test_log_lines_of_an_election(caplog):
    caplog.set_level(logging.INFO)
    async with elections() as world, leading(world):
        pass
    assert logged(caplog) == [
        'Attempting to acquire leader lease... lock="kube-system/kube-scheduler"',
        'Successfully acquired lease lock="kube-system/kube-scheduler"',
    ]


async def test_the_health_check_fails_for_a_leader_past_its_lease():
    async with elections() as world:
        elector = world.elector()
        assert elector.check(20.0) is None
        await elector.acquire()
        world.time.now += DURATION + 20
        assert elector.check(20.0) is None
        world.time.now += 0.1
        assert elector.check(20.0) == "failed election to renew leadership on lease kube-scheduler"


# -- coordinated elections ---------------------------------------------------------------------------------------------


def named(who, **more):
    return {"holderIdentity": who, "leaseDurationSeconds": 5, "strategy": "OldestEmulationVersion", **more}


async def test_in_a_coordinated_election_the_lease_is_neither_created_nor_taken(caplog):
    caplog.set_level(logging.INFO)
    async with elections(chance=0.0) as world:
        api = ScriptedApi(world.api, world.time)
        elector = world.elector(api=api, coordinated=True)
        world.start(elector.acquire())
        await world.time.advance(1)
        assert logged(caplog)[-1].startswith('Lease lock not found lock="kube-system/kube-scheduler" err=')
        world.put(**named("you"))
        await world.time.advance(20)
        assert logged(caplog)[-1] == 'Lease has expired lock="kube-system/kube-scheduler"'
        world.put(**named(""))
        await world.time.advance(20)
        assert {verb for _, verb in api.asked} == {"get"}
        assert not elector.is_leader


async def test_in_a_coordinated_election_the_named_candidate_renews():
    async with elections(chance=0.0) as world:
        elector = world.elector(coordinated=True)
        task = world.start(elector.acquire())
        await world.time.advance(1)
        world.put(**named("me"))
        await world.time.advance(1)
        assert task.done()
        assert elector.is_leader
        world.start(elector.renew())
        await world.time.advance(2.5)
        assert world.spec == {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "renewTime": "2027-01-15T08:00:04.000000Z",
            "leaseTransitions": 0,
            "strategy": "OldestEmulationVersion",
        }


async def test_a_term_ends_when_another_is_preferred():
    async with elections(chance=0.0) as world:
        world.put(**named("me"))
        elector = world.elector(coordinated=True)
        task = await world.lead(elector)
        await world.time.advance(6)
        world.put(**{**world.spec, "preferredHolder": "you"})
        before = world.spec["renewTime"]
        await world.time.advance(DEADLINE - 0.1)
        assert world.spec["renewTime"] == before
        await world.time.advance(0.1)
        assert not elector.is_leader
        assert isinstance(task.exception(), LeadershipLost)
        await elector.release()
        assert world.spec["holderIdentity"] == ""
        assert "strategy" not in world.spec
        assert "preferredHolder" not in world.spec


async def test_a_term_continues_when_the_preference_is_withdrawn():
    async with elections(chance=0.0) as world:
        world.put(**named("me"))
        elector = world.elector(coordinated=True)
        await world.lead(elector)
        world.put(**{**world.spec, "preferredHolder": "you"})
        await world.time.advance(5)
        world.put(**{key: value for key, value in world.spec.items() if key != "preferredHolder"})
        await world.time.advance(10)
        assert elector.is_leader


@pytest.mark.parametrize("error", [InternalError("no"), NotFound("gone")], ids=["500", "404"])
async def test_in_a_coordinated_election_a_failing_read_is_retried_once_per_retry_period(error):
    async with elections(chance=0.0) as world:
        world.put(**named("me"))
        api = ScriptedApi(world.api, world.time)
        elector = world.elector(api=api, coordinated=True)
        await world.lead(elector)
        api.asked.clear()
        api.fates["get"] += [error] * 9
        await world.time.advance(2 * RETRY + 0.1)
        assert [verb for _, verb in api.asked] == ["get", "get"]


async def test_a_leader_stops_at_once_when_the_server_names_another():
    async with elections(chance=0.0) as world:
        world.put(**named("me"))
        elector = world.elector(coordinated=True)
        task = await world.lead(elector)
        world.put(**named("you"))
        await world.time.advance(RETRY + 0.1)
        assert str(task.exception()) == "the lease is held by you"


async def test_a_renewal_that_fails_in_a_coordinated_election_is_logged(caplog):
    async with elections(chance=0.0) as world:
        world.put(**named("me"))
        api = ScriptedApi(world.api, world.time)
        elector = world.elector(api=api, coordinated=True)
        await world.lead(elector)
        api.fates["update"].append(InternalError("no"))
        await world.time.advance(5)
        assert elector.is_leader
        assert [text.split(" err=")[0] for text in logged(caplog)] == ["Failed to update lock"]


# -- random histories --------------------------------------------------------------------------------------------------


def test_failover_takes_at_most_a_lease_duration_and_a_try():
    @settings(max_examples=times(30), deadline=None)
    @given(alive=st.floats(0, 30), seed=st.integers(0, 2**32), released=st.booleans())
    def check(alive, seed, released):
        gap = asyncio.run(_failover(alive, seed, released=released))
        assert gap <= (LONGEST_PAUSE if released else DURATION + LONGEST_PAUSE) / (1 - MAX_DRIFT) + 0.1

    check()


async def _failover(alive, seed, *, released):
    async with elections() as world:
        contest = Contest(world, contenders=3, seed=seed)
        try:
            await contest.pass_time(10 + alive)
            (leader,) = (one for one in contest.contenders if one.is_leader)
            await (leader.end() if released else leader.die())
            return await contest.until_led(60)
        finally:
            await contest.close()


WHO = st.integers(0, 2)
ACTIONS = st.one_of(
    st.tuples(st.just("wait"), st.floats(0.1, 20)),
    st.tuples(st.just("wait"), st.floats(0.1, 20)),
    st.tuples(st.just("spoil"), WHO, st.sampled_from([0.0, 0.2, 0.6, 0.95])),
    st.tuples(st.just("cut"), WHO, st.booleans()),
    st.tuples(st.just("die"), WHO),
    st.tuples(st.just("end"), WHO),
    st.tuples(st.just("hang"), WHO, st.floats(0.5, 40)),
    st.tuples(st.just("jump"), WHO, st.floats(-1e6, 1e6)),
)


@settings(max_examples=times(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(actions=st.lists(ACTIONS, min_size=5, max_size=30), seed=st.integers(0, 2**32), tight=st.booleans())
def test_at_most_one_leads_and_finally_one_does(actions, seed, tight):
    asyncio.run(_course(actions, seed, tight=tight))


async def _course(actions, seed, *, tight):
    # The smaller the margin between deadline and duration, the less may clocks drift.
    options = {"config": timings(15, 14, 1.5), "drift": 0.02} if tight else {}
    async with elections(**options) as world:
        contest = Contest(world, contenders=3, seed=seed)
        try:
            for name, *arguments in actions:
                await _act(contest, name, *arguments)
            for one in contest.contenders:
                one.line.rate, one.line.cut, one.hangs_until = 0.0, False, 0.0
                if not one.alive:
                    one.run()
            # A request on its way may be a claim of a process that is gone; hanging requests time out after a while.
            await contest.until_led(SLOWEST + (DURATION + 2 * LONGEST_PAUSE + 7 + 1) / (1 - MAX_DRIFT))
        finally:
            await contest.close()


async def _act(contest, name, *arguments):
    if name == "wait":
        return await contest.pass_time(*arguments)
    one, rest = contest.contenders[arguments[0]], arguments[1:]
    if name == "spoil":
        one.line.rate = rest[0]
    elif name == "cut":
        one.line.cut = rest[0]
    elif name == "hang":
        one.hangs_until = contest.world.time.now + rest[0]
    elif name == "jump":
        one.wrong += rest[0]
    elif one.alive:
        await (one.die() if name == "die" else one.end())
    else:
        one.run()
    contest.check()
