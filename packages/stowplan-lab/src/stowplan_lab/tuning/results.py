"""The result folder of a search: journal, report and configuration."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.kube.api.yaml_text import to_yaml
from stowplan_lab.tuning.errors import TuningError
from stowplan_lab.tuning.page import tuning_html
from stowplan_lab.tuning.records import BETTER
from stowplan_lab.tuning.text import verdict_text

if TYPE_CHECKING:
    from pathlib import Path

    from stowplan_lab.tuning.records import TuningRecord

#: The resulting configuration; it is only called tuned if it is better.
TUNED, CANDIDATE = "tuned.yaml", "candidate.yaml"
JOURNAL, DATA, PAGE = "study.journal", "report.json", "report.html"


class Results:
    def __init__(self, folder: Path) -> None:
        """Raises TuningError if it cannot be created."""
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TuningError(f"{folder}: {error.strerror}") from error
        self.journal = folder / JOURNAL

    def write(self, record: TuningRecord, configuration: dict[str, Any] | None) -> Path | None:
        """Write the report, and the best configuration if there is one; return its file. Raises TuningError."""
        folder, written = self._folder, None
        try:
            for name in (TUNED, CANDIDATE):
                (folder / name).unlink(missing_ok=True)
            if configuration is not None:
                written = folder / (TUNED if record.verdict == BETTER else CANDIDATE)
                written.write_text(_yaml(record, configuration), encoding="utf-8")
            data = msgspec.json.format(msgspec.json.encode(record, order="deterministic"), indent=2)
            (folder / DATA).write_bytes(data + b"\n")
            (folder / PAGE).write_text(tuning_html(record), encoding="utf-8")
        except OSError as error:
            raise TuningError(f"{error.filename or folder}: {error.strerror}") from error
        return written


def _yaml(record: TuningRecord, configuration: dict[str, Any]) -> str:
    # Through JSON: shared objects would be written as YAML aliases.
    apart = json.loads(json.dumps(configuration))
    # A name with a line break must not extend beyond the comment.
    lines = [f"stowplan tune {record.scenario}, objective {record.objective}, seed {record.seed}", verdict_text(record)]
    head = "".join(f"# {' '.join(line.split())}\n" for line in lines)
    return head + to_yaml(apart, sort_keys=True, width=1000)
