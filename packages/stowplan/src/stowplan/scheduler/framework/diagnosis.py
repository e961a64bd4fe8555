"""Filter results for many nodes, and why no node is feasible.

`Rejections` are a few (mask, code, reason) entries instead of one object per node. The status of a node, the message
with its counts and the diagnosis are all computed from the masks. Entries are created on first access, so a cycle that
finds a node never creates any.

Upstream: pkg/scheduler/framework/types.go (Diagnosis, FitError).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stowplan.kube.compiled import mypyc_attr
from stowplan.scheduler.cluster.arrays import Mask, Values, Verdicts
from stowplan.scheduler.cluster.memos import Memos
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


_NOT_TRIED = Status(Code.UnschedulableAndUnresolvable)


@mypyc_attr(native_class=False)
@dataclass
class Diagnosis:
    """The filters' verdict on every node in one attempt."""

    #: Rows that hold a node.
    valid: Mask
    #: Rows on which Filter ran; the others have the `absent` status.
    examined: Mask
    #: Each Filter plugin's rejections over all rows, in plugin order.
    filtered: list[tuple[str, Rejections]] = field(default_factory=list)
    #: Statuses caused by nominated pods, by row; they take precedence over `filtered`.
    nominated: dict[int, Status] = field(default_factory=dict)
    absent: Status = _NOT_TRIED
    pre_filter_message: str = ""
    #: Plugins that restricted the nodes or rejected the pod in PreFilter.
    pre_filter_plugins: frozenset[str] = frozenset()
    #: What PostFilter derived from this diagnosis; shared by equal pods that fail for the same reasons.
    memos: Memos = field(default_factory=Memos, repr=False, compare=False)

    @cached_property
    def nodes(self) -> int:
        return int(np.count_nonzero(self.valid))

    @cached_property
    def evaluated(self) -> int:
        """Number of nodes on which Filter ran."""
        return int(np.count_nonzero(self.examined & self.valid))

    @cached_property
    def _firsts(self) -> list[tuple[str, Rejections, Mask]]:
        """For each plugin, the rows that it was the first to reject."""
        left = self.examined & self.valid
        left[list(self.nominated)] = False
        firsts = []
        for plugin, rejections in self.filtered:
            hit = left & rejections.mask
            if hit.any():
                firsts.append((plugin, rejections, hit))
                left &= ~rejections.mask
        return firsts

    @cached_property
    def unschedulable_plugins(self) -> frozenset[str]:
        found = {plugin for plugin, _, _ in self._firsts} | {s.plugin for s in self.nominated.values()}
        return frozenset(found | self.pre_filter_plugins)

    @cached_property
    def pending_plugins(self) -> frozenset[str]:
        """Plugins that returned Pending for some node: their pods skip backoff when requeued."""
        return frozenset(plugin for plugin, e, hit in self.entries() if e.code == Code.Pending and (e.mask & hit).any())

    def entries(self) -> Iterator[tuple[str, Entry, Mask]]:
        """(plugin, entry, rows that the plugin was the first to reject)."""
        for plugin, rejections, hit in self._firsts:
            for entry in rejections.entries:
                yield plugin, entry, hit

    def status(self, row: int) -> Status | None:
        """The status of a row; None if it is feasible."""
        if row in self.nominated:
            return self.nominated[row]
        if not self.examined[row]:
            return self.absent
        for plugin, rejections, hit in self._firsts:
            if hit[row]:
                return rejections.status(row).with_plugin(plugin)
        return None

    @cached_property
    def codes(self) -> Verdicts:
        """The status code of every row; 0 for feasible rows and rows without a node."""
        codes = np.zeros(len(self.valid), np.int8)
        codes[self.valid & ~self.examined] = int(self.absent.code)
        for _, entry, hit in self.entries():
            both = entry.mask & hit
            codes[both] = np.maximum(codes[both], int(entry.code))
        for row, status in self.nominated.items():
            codes[row] = int(status.code)
        return codes

    def snapshot(self) -> Diagnosis:
        """A copy as plain data.

        Reasons are computed from the nodes on first access, so all of them are computed now.
        """
        return Diagnosis(
            self.valid.copy(),
            self.examined.copy(),
            [(plugin, rejections.snapshot()) for plugin, rejections in self.filtered],
            dict(self.nominated),
            self.absent,
            self.pre_filter_message,
            self.pre_filter_plugins,
        )

    def histogram(self) -> Counter[str]:
        """Reason -> number of nodes."""
        counts: Counter[str] = Counter()
        for _, entry, hit in self.entries():
            nodes = int(np.count_nonzero(entry.mask & hit))
            if nodes:
                counts[str(entry.reason)] += nodes
        # Many rows, few different statuses.
        for reasons, nodes in Counter([status.shown_reasons for status in self.nominated.values()]).items():
            for reason in reasons:
                counts[reason] += nodes
        absent = self.nodes - self.evaluated
        for reason in self.absent.shown_reasons if absent else ():
            counts[reason] += absent
        return counts

    def message(self, post_filter_message: str = "") -> str:
        """The message of a failed attempt, in upstream's format."""
        return f"{self._text} {post_filter_message}" if post_filter_message else self._text

    @cached_property
    def _text(self) -> str:
        text = f"0/{self.nodes} nodes are available:"
        if self.pre_filter_message:
            text += f" {self.pre_filter_message}."
        elif listed := histogram_text(self.histogram()):
            text += f" {listed}."
        return text


def histogram_text(counts: Counter[str]) -> str:
    """`"<count> <reason>"` items, sorted as strings."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
