"""Refused nodes in groups of equal reasons, so that thousands of them fit a screen.

A group has one plugin, one set of reasons and one code: what the diagnosis keeps as masks is turned into a number a
row that tells which masks cover it, and equal numbers are a group. Nobody looks at single nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.framework.status import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.rejections import Entry
    from stowplan.framework.status import Status

    Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """Nodes that one plugin refused for the same reasons."""

    plugin: str
    code: Code
    reasons: tuple[Reason, ...]
    rows: Rows

    @property
    def text(self) -> str:
        return ", ".join(str(reason) for reason in self.reasons)


def refusals(diagnosis: Diagnosis) -> list[Refusal]:
    """All refused nodes, the largest group first."""
    found = [*_absent(diagnosis), *_promised(diagnosis), *_filtered(diagnosis)]
    return sorted(found, key=lambda refusal: (-len(refusal.rows), refusal.plugin, refusal.text))


def classes(columns: Iterable[npt.NDArray[Any]], length: int) -> npt.NDArray[np.intp]:
    """A number a row; rows with equal values in all columns share it."""
    ids = np.zeros(length, np.intp)
    for column in columns:
        values, of_row = np.unique(column, return_inverse=True)
        ids = np.unique(ids * len(values) + of_row.reshape(-1), return_inverse=True)[1].reshape(-1)
    return ids


def split(rows: Rows, ids: npt.NDArray[np.intp]) -> list[Rows]:
    """Rows by their number, the largest part first."""
    parts = [rows[ids == i] for i in np.unique(ids).tolist()]
    return sorted(parts, key=lambda part: (-len(part), int(part[0])))


def _filtered(diagnosis: Diagnosis) -> list[Refusal]:
    by_plugin: dict[str, tuple[list[Entry], npt.NDArray[np.bool_]]] = {}
    for plugin, entry, hit in diagnosis.entries():
        by_plugin.setdefault(plugin, ([], hit))[0].append(entry)
    found = []
    for plugin, (entries, hit) in by_plugin.items():
        rows = np.flatnonzero(hit)
        covered = [entry.mask[rows] for entry in entries]
        for part in split(np.arange(len(rows)), classes(covered, len(rows))):
            holding = [entry for entry, mask in zip(entries, covered, strict=True) if mask[part[0]]]
            code = max((entry.code for entry in holding), default=Code.Unschedulable)
            found.append(Refusal(plugin, code, tuple(entry.reason for entry in holding), rows[part]))
    return found


def _promised(diagnosis: Diagnosis) -> list[Refusal]:
    """Nodes that pods are nominated to, and that would be too full with them."""
    groups: dict[tuple[str, Code, tuple[Reason, ...]], list[int]] = {}
    for row, status in diagnosis.nominated.items():
        groups.setdefault((status.plugin, status.code, _reasons(status)), []).append(row)
    return [Refusal(*key, np.array(rows, np.intp)) for key, rows in groups.items()]


def _absent(diagnosis: Diagnosis) -> list[Refusal]:
    """Nodes that Filter was not asked about."""
    rows = np.flatnonzero(diagnosis.valid & ~diagnosis.examined)
    if not len(rows) or not diagnosis.absent.shown_reasons:
        return []
    plugin = diagnosis.absent.plugin or ", ".join(sorted(diagnosis.pre_filter_plugins))
    return [Refusal(plugin, diagnosis.absent.code, _reasons(diagnosis.absent), rows)]


def _reasons(status: Status) -> tuple[Reason, ...]:
    return status.records or tuple(Reason("PluginReason", text) for text in status.shown_reasons)
