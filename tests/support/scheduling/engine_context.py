"""The shared parts of an engine, for tests of one part."""

from types import SimpleNamespace
from typing import Any

from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.leaving_pods import LeavingPods
from stowplan.scheduler.engine.outbox import Outbox
from stowplan.scheduler.framework.waiting_pods import PodsInPreBind, WaitingPods
from stowplan.scheduler.inspection.stories import Stories
from support.scheduling.recording_reporter import RecordingReporter


def context(*, reports=None, **given):
    """The clock is the outbox's; `reports` collects problems."""
    outbox = given.setdefault("outbox", Outbox())

    def now():
        return outbox.now

    made: dict[str, Any] = {
        "stopwatch": SimpleNamespace(now=now),
        "state": ClusterState(),
        "waiting_pods": WaitingPods(now=now),
        "pods_in_pre_bind": PodsInPreBind(),
        "leaving": LeavingPods(),
        "stories": Stories(now=now),
        "reporter": RecordingReporter(reports),
        "profiles": {},
        "statuses": None,
    }
    return EngineContext(**(made | given))
