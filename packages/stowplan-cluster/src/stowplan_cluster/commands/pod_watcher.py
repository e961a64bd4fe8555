"""Watch pods over HTTP until each is bound or reported unschedulable."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stowplan.ask.explain.text.tables import Line
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan_cluster.commands.pod_changes import change_of, change_spans, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from stowplan.kube.api.port import Change
    from stowplan.kube.api.types import Pod

_INDENT = 2


class PodWatcher:
    """Tracks the pods; writes one line per change."""

    def __init__(self, *, clock: Callable[[], float], write: Callable[[Line], None]) -> None:
        self._clock = clock
        self._write = write
        self._began = clock()
        self._changed = asyncio.Event()
        self._pods: dict[str, Pod] = {}

    def begin(self) -> None:
        """Start the stopwatch."""
        self._began = self._clock()

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    def deliver(self, changes: Sequence[Change[Pod]]) -> None:
        """The callback of a `ListWatch`."""
        for old, new in ((change.old, change.new) for change in changes):
            if new is not None:
                self._pods[new.metadata.uid] = new
                self._report(old, new)
            elif old is not None:
                self._pods.pop(old.metadata.uid, None)
        self._changed.set()

    def _report(self, old: Pod | None, new: Pod) -> None:
        change = change_of(old, new)
        if change is not None:
            line = change_spans([_key(new)], change)
            self._write(Line(((f"{self.seconds:6.2f} s  ", "dim"), *line), _INDENT, marked=True))

    async def settled(self, total: int, *, may_wait: Collection[str] = ()) -> None:
        """Wait for `total` pods, each bound; pods of apps in `may_wait` may be unschedulable instead."""
        while self.open(total, may_wait=may_wait):
            self._changed.clear()
            await self._changed.wait()

    def open(self, total: int, *, may_wait: Collection[str] = ()) -> list[str]:
        """What `settled` still waits for, as lines."""
        staying = [pod for pod in self._pods.values() if pod.metadata.deletion_timestamp is None]
        lines = [] if len(staying) == total else [f"there are {count(len(staying), 'pod')}, expected {total:,}"]
        leaving = len(self._pods) - len(staying)
        if leaving:
            lines.append(f"{count(leaving, 'pod')} still to end")
        for pod in staying:
            why = refusal(pod)
            if pod.spec.node_name or (why and pod.metadata.labels.get("app") in may_wait):
                continue
            lines.append(f"{_key(pod)} has no node: {why or 'not tried yet'}")
        return lines


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
