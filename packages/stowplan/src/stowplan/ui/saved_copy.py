"""A copy of the page of a cluster that does not change."""

from __future__ import annotations

from pathlib import Path

from stowplan.scheduler.inspection.records import VerdictRecord
from stowplan.ui.cluster_inspection import ClusterInspection
from stowplan.ui.measured_use import UseRecord
from stowplan.ui.one_file import SavedData, one_file
from stowplan.ui.plan import Plan
from stowplan.ui.plan_messages import snapshot
from stowplan.ui.source_records import ConfigurationRecord, SourceRecord
from stowplan.ui.timeline_routes import Timelines

#: Number of pending pods, each of one kind, whose verdicts are saved.
MAX_VERDICTS = 200
_MAX_PODS = 1000


def save_copy(
    file: Path,
    plan: Plan,
    *,
    source: SourceRecord,
    configuration: ConfigurationRecord,
    answers: ClusterInspection | None,
    timelines: Timelines,
    use: UseRecord | None = None,
) -> None:
    """Write the page to a file, whose folder is created. Raises OSError."""
    queue = None if answers is None else answers.queue(_MAX_PODS)
    explained: dict[str, VerdictRecord] = {}
    if answers is not None and queue is not None:
        explained = {pod.pod: answers.pod(pod.pod, suggestions=True) for pod in queue.pods[:MAX_VERDICTS]}
    devices = None if answers is None else answers.devices()
    times, frames = timelines.records()
    data = SavedData(
        source=source,
        plan=snapshot(plan, version=1),
        configuration=configuration,
        pending=queue,
        explain=explained,
        time=times,
        frames=frames,
        room=None if answers is None else answers.room(),
        use=use,
        devices=devices,
        devices_on={}
        if answers is None or devices is None
        else {one: answers.devices_on(one) for one in devices.nodes},
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(one_file(data), encoding="utf-8")
