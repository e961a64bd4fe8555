"""The page with its data in a folder: it opens from a file, without a server and without anything that can be asked.

Data lies in a script, as a browser lets a page of a file load nothing else. JSON is a script but for "<", which could
end the element that it is loaded by, and two line separators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stowplan.inspection.records import document
from stowplan.page.assets import DATA, assets
from stowplan.page.messages import snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from stowplan.page.answers import Answers
    from stowplan.page.courses import Courses
    from stowplan.page.plan import Plan
    from stowplan.page.records import ConfigurationRecord, SourceRecord

#: Waiting pods whose verdicts are saved, each of one kind.
MAX_VERDICTS = 200
_MAX_PODS = 1000
_ESCAPED = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def save_copy(
    folder: Path,
    plan: Plan,
    *,
    source: SourceRecord,
    configuration: ConfigurationRecord,
    answers: Answers | None,
    courses: Courses,
) -> None:
    """Write the page into a folder, which is made; other files there stay. Raise OSError."""
    data = {
        "source": document(source),
        "plan": document(snapshot(plan, version=1)),
        "configuration": document(configuration),
        **courses.documents(),
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
