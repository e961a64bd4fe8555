"""Filter results for many nodes.

A few (mask, code, reason) entries instead of one object per node. The status of a node, the message with its counts and
the diagnosis are all computed from the masks. Entries are created on first access, so a cycle that finds a node never
creates any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stowplan.scheduler.cluster.arrays import Mask, Values
from stowplan.scheduler.framework.status import Code, Reason, Status


class Entry(NamedTuple):
    """The nodes (view positions) that are rejected for one reason."""

    mask: Mask
    code: Code
    reason: Reason


class Rejections:
    """The nodes that a plugin rejects: `mask` is available at once, the reasons on demand."""

    __slots__ = ("_entries", "mask")

    def __init__(self, mask: Mask, entries: Sequence[Entry] | Callable[[], Sequence[Entry]]) -> None:
        self.mask = mask
        self._entries = entries

    @classmethod
    def where(cls, mask: Mask, reason: Reason, code: Code = Code.Unschedulable) -> Rejections:
        return cls(mask, (Entry(mask, code, reason),))

    @property
    def entries(self) -> Sequence[Entry]:
        if callable(self._entries):
            self._entries = tuple(self._entries())
        return self._entries

    def snapshot(self) -> Rejections:
        """A copy with all reasons computed."""
        entries = tuple(Entry(entry.mask.copy(), entry.code, entry.reason) for entry in self.entries)
        return Rejections(self.mask.copy(), entries)

    def status(self, i: int) -> Status:
        """The status of the i-th node; the most severe code among its reasons wins."""
        hits = [e for e in self.entries if e.mask[i]]
        code = max((e.code for e in hits), default=Code.Unschedulable)
        return Status(code, tuple(str(e.reason) for e in hits), records=tuple(e.reason for e in hits))


def from_statuses(statuses: dict[int, Status], length: int) -> Rejections:
    """The rejections of a plugin that judged the nodes one by one."""
    mask = np.zeros(length, np.bool_)
    mask[list(statuses)] = True
    return Rejections(mask, lambda: _grouped(statuses, length))


def _grouped(statuses: dict[int, Status], length: int) -> list[Entry]:
    groups: dict[tuple[Code, Reason], Values] = {}
    for i, status in statuses.items():
        for reason in _records(status):
            mask = groups.setdefault((status.code, reason), np.zeros(length, np.bool_))
            mask[i] = True
    return [Entry(mask, code, reason) for (code, reason), mask in groups.items()]


def _records(status: Status) -> tuple[Reason, ...]:
    return status.records or tuple(Reason("PluginReason", text) for text in status.shown_reasons) or (Reason("", ""),)
