"""The page with its data in a folder: works from a file without a server, but cannot answer questions.

Data is stored in a script, as browsers let a local page load nothing else. JSON is a valid script except for "<", which
could end the script element, and two line separators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stowplan.inspection.records import document
from stowplan.page.assets import DATA, assets
from stowplan.page.plan_messages import snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from stowplan.page.cluster_inspection import ClusterInspection
    from stowplan.page.plan import Plan
    from stowplan.page.source_records import ConfigurationRecord, SourceRecord
    from stowplan.page.timeline_routes import Timelines

#: Number of pending pods, each of one kind, whose verdicts are saved.
MAX_VERDICTS = 200
_MAX_PODS = 1000
_ESCAPED = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


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
    data = {
        "source": document(source),
        "plan": document(snapshot(plan, version=1)),
        "configuration": document(configuration),
        **timelines.documents(),
    }
    if answers is not None:
        queue = answers.queue(_MAX_PODS)
        wanted = [pod.pod for pod in queue.pods][:MAX_VERDICTS]
        data["pending"] = document(queue)
        data["explain"] = {key: document(answers.pod(key, suggestions=True)) for key in wanted}
    (folder / "assets").mkdir(parents=True, exist_ok=True)
    for name, content in assets().items():
        (folder / name).write_bytes(content)
    (folder / DATA).write_text(f"globalThis.stowplanData = {_as_script(data)};\n", encoding="utf-8")


def _as_script(data: object) -> str:
    text = msgspec.json.encode(data).decode()
    for char, escape in _ESCAPED.items():
        text = text.replace(char, escape)
    return text
