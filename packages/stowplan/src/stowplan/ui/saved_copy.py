"""The page with its data in a folder: works from a file without a server, but cannot answer questions.

Data is stored in a script, as browsers let a local page load nothing else. JSON is a valid script except for "<", which
could end the script element, and two line separators.
"""

from __future__ import annotations

from pathlib import Path

from stowplan.scheduler.inspection.records import QueueRecord, Record, VerdictRecord, encoded
from stowplan.ui.assets import DATA, assets
from stowplan.ui.cluster_inspection import ClusterInspection
from stowplan.ui.plan import Plan
from stowplan.ui.plan_messages import SnapshotMessage, snapshot
from stowplan.ui.source_records import ConfigurationRecord, SourceRecord
from stowplan.ui.timeline import FramesRecord, TimeRecord
from stowplan.ui.timeline_routes import Timelines

#: Number of pending pods, each of one kind, whose verdicts are saved.
MAX_VERDICTS = 200
_MAX_PODS = 1000
_ESCAPED = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class SavedData(Record, frozen=True, kw_only=True):
    """What the page would request from a server."""

    source: SourceRecord
    plan: SnapshotMessage
    configuration: ConfigurationRecord
    pending: QueueRecord | None = None
    #: By namespace/name.
    explain: dict[str, VerdictRecord]
    #: By the timelines' names.
    time: dict[str, TimeRecord]
    frames: dict[str, FramesRecord]


def save_copy(
    folder: Path,
    plan: Plan,
    *,
    source: SourceRecord,
    configuration: ConfigurationRecord,
    answers: ClusterInspection | None,
    timelines: Timelines,
) -> None:
    """Write the page to a folder, which is created; other files in it are kept. Raises OSError."""
    queue = None if answers is None else answers.queue(_MAX_PODS)
    explained: dict[str, VerdictRecord] = {}
    if answers is not None and queue is not None:
        explained = {pod.pod: answers.pod(pod.pod, suggestions=True) for pod in queue.pods[:MAX_VERDICTS]}
    times, frames = timelines.records()
    data = SavedData(
        source=source,
        plan=snapshot(plan, version=1),
        configuration=configuration,
        pending=queue,
        explain=explained,
        time=times,
        frames=frames,
    )
    (folder / "assets").mkdir(parents=True, exist_ok=True)
    for name, content in assets().items():
        (folder / name).write_bytes(content)
    (folder / DATA).write_text(f"globalThis.stowplanData = {_as_script(data)};\n", encoding="utf-8")


def _as_script(data: SavedData) -> str:
    text = encoded(data).decode()
    for char, escape in _ESCAPED.items():
        text = text.replace(char, escape)
    return text
