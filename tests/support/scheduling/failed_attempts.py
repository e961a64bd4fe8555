"""The results of a failed attempt: the pod's place in the queue, its condition, an Event, its nomination."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from support.api.manifests import pod
from support.plugins.raised import in_short


@dataclass(frozen=True, kw_only=True)
class ExpectedFailure:
    """The expected results of a failed attempt."""

    reason: str
    message: str
    place: str
    plugins: frozenset = frozenset()
    pending: frozenset = frozenset()
    #: (attempts that were rejected, attempts that ended in an error).
    counts: tuple = (1, 0)
    nominated: str = ""
    #: Whether the nomination was written to the API before the attempt failed.
    announced: bool = False


def rejected(message, *plugins, pending=(), **more):
    return ExpectedFailure(
        reason="Unschedulable",
        message=message,
        place="UNSCHEDULABLE",
        plugins=frozenset(plugins),
        pending=frozenset(pending),
        **more,
    )


def failed(message, reason="SchedulerError", **more):
    return ExpectedFailure(reason=reason, message=message, place="ERROR_BACKOFF", counts=(0, 1), **more)


def nominated(name="web", node_name="n9", **spec):
    return {**pod(name, **spec), "status": {"nominatedNodeName": node_name}}


def condition_time(cluster):
    """The scheduler's current time in the format of conditions."""
    return datetime.fromtimestamp(cluster.scheduler.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_now(cluster, micro_time):
    """Whether an event's time, to the microsecond, is the scheduler's current time."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", micro_time)
    return abs(datetime.fromisoformat(micro_time).timestamp() - cluster.scheduler.clock()) < 1e-5


async def check(cluster, name, before, expected):
    """Checks the pod after its first attempt; `before` is the object that was tried."""
    metadata = before["metadata"]

    queued = cluster.queued(name)
    assert queued.place.name == expected.place
    assert (queued.unschedulable_plugins, queued.pending_plugins) == (expected.plugins, expected.pending)
    assert (queued.unschedulable_count, queued.consecutive_errors_count) == expected.counts
    assert queued.attempts == 1

    found = await cluster.pod(name)
    assert "nodeName" not in found["spec"]
    condition = await cluster.condition(name)
    assert condition | {"message": in_short(condition["message"])} == {
        "type": "PodScheduled",
        "status": "False",
        "reason": expected.reason,
        "message": expected.message,
        "observedGeneration": metadata["generation"],
        "lastProbeTime": None,
        "lastTransitionTime": condition_time(cluster),
    }
    assert found["status"].get("nominatedNodeName", "") == expected.nominated
    assert cluster.scheduler.state.nominator.node_of(metadata["uid"]) == expected.nominated

    (event,) = await cluster.events(name)
    nanoseconds = int(event["metadata"]["name"].removeprefix(f"{name}."), 16)
    assert abs(nanoseconds / 1e9 - cluster.scheduler.clock()) < 1e-5
    assert event["metadata"]["namespace"] == cluster.namespace
    assert is_now(cluster, event["eventTime"])
    regarding = event["regarding"]
    version = int(regarding.pop("resourceVersion"))
    if expected.announced:
        # Whether the scheduler has seen its own patch by then varies.
        assert int(metadata["resourceVersion"]) <= version < int(found["metadata"]["resourceVersion"])
    else:
        assert version == int(metadata["resourceVersion"])
    assert regarding == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": cluster.namespace,
        "name": name,
        "uid": metadata["uid"],
    }
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "FailedScheduling", "Scheduling")
    assert event["reportingController"] == "default-scheduler"
    assert event["reportingInstance"] == "default-scheduler-host"
    assert in_short(event["note"]) == expected.message
    assert not event.get("series")
    assert not event.get("related")


def nothing_in_flight(cluster):
    """Asserts that no attempt has left anything in memory: in flight, assumed, or waiting on Permit."""
    scheduler = cluster.scheduler
    assert not scheduler.queue.in_flight()
    assert not [info for info in scheduler.state.placed_pods() if scheduler.state.is_assumed(info.uid)]
    assert not len(scheduler.waiting_pods)
    return True
