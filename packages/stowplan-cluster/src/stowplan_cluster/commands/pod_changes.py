"""Print pod changes to a terminal during scheduling, one line per change.

    shop/db-0 → node-a1
    ml/notebook waits: 0/9 nodes are available: ...
    batch/crunch-x7k2p gives way on node-a1

A change is a difference between two versions of a pod, from an HTTP watch or from the store of this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stowplan.ask.explain.text.tables import Line, Span
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Pod, PodCondition
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.explanations.formatting import count

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.store import Event, Store

#: Seconds per batch of changes, and maximum number of lines per batch.
BATCH_SECONDS, SHOWN = 0.1, 10

_PODS = "pods"
#: If a pod's JSON has none of these, its only possible change is its node.
_MARKERS = (b'"Unschedulable"', b'"PreemptionByScheduler"')


class Placed(PlainStruct, frozen=True):
    node: str

    def spans(self, *, plural: bool) -> tuple[Span, ...]:
        return (" → ", "dim"), (self.node, "best")


class Preempted(PlainStruct, frozen=True):
    node: str

    def spans(self, *, plural: bool) -> tuple[Span, ...]:
        return (" give way" if plural else " gives way", "pending"), (f" on {self.node}", "")


class Unschedulable(PlainStruct, frozen=True):
    why: str

    def spans(self, *, plural: bool) -> tuple[Span, ...]:
        return (" wait" if plural else " waits", "pending"), (f": {self.why}", "")


PodChange = Placed | Preempted | Unschedulable


def change_of(before: Pod | None, pod: Pod) -> PodChange | None:
    """The change of a pod; None if it is not worth a line."""
    node = pod.spec.node_name
    if node and not (before and before.spec.node_name):
        return Placed(node)
    if preempted(pod) and not (before and preempted(before)):
        return Preempted(node)
    why = refusal(pod)
    return Unschedulable(why) if why and why != (before and refusal(before)) else None


def change_spans(pods: Sequence[str], change: PodChange) -> tuple[Span, ...]:
    """The line of a change, which several pods may share."""
    more = f" and {len(pods) - 1:,} more" if len(pods) > 1 else ""
    return (pods[0], "name"), (more, ""), *change.spans(plural=len(pods) > 1)


def refusal(pod: Pod) -> str:
    """The scheduler's message for an unschedulable pod; "" if it found a node or has not tried."""
    condition = _condition(pod, "PodScheduled")
    waits = condition is not None and condition.reason == "Unschedulable" and not pod.spec.node_name
    return condition.message if condition is not None and waits else ""


def preempted(pod: Pod) -> bool:
    condition = _condition(pod, "DisruptionTarget")
    return condition is not None and condition.reason == "PreemptionByScheduler"


def _condition(pod: Pod, type_: str) -> PodCondition | None:
    return next((one for one in pod.status.conditions if one.type == type_), None)


class ChangeReporter:
    """Writes pod changes of a store in batches of bounded size: a few lines and a count."""

    def __init__(
        self, write: Callable[[Sequence[Line]], None], later: Callable[[float, Callable[[], None]], object]
    ) -> None:
        self._write = write
        self._later = later
        #: (change, pod or "") -> pods. Pods with the same refusal share a line, placed pods do not.
        self._changes: dict[tuple[PodChange, str], list[str]] = {}

    def observe(self, event: Event) -> None:
        if event.stored.resource != _PODS or event.type == "DELETED" or not _may_matter(event):
            return
        before = None if event.previous is None else decode_json(event.previous.data, Pod)
        change = change_of(before, decode_json(event.stored.data, Pod))
        if change is None:
            return
        if not self._changes:
            self._later(BATCH_SECONDS, self._flush)
        key = event.stored.key
        self._changes.setdefault((change, "" if isinstance(change, Unschedulable) else key), []).append(key)

    def _flush(self) -> None:
        collected, self._changes = list(self._changes.items()), {}
        lines = [Line(change_spans(pods, change)) for (change, _), pods in collected[:SHOWN]]
        more = sum(len(pods) for _, pods in collected[SHOWN:])
        if more:
            lines.append(Line(((f"… and the like of {count(more, 'pod')} more", "dim"),)))
        self._write(lines)


def _may_matter(event: Event) -> bool:
    """Whether to decode the pods, which costs a hundred times as much as this check."""
    if any(marker in event.stored.data for marker in _MARKERS):
        return True
    node = event.stored.field("spec.nodeName")
    return bool(node) and (event.previous is None or event.previous.field("spec.nodeName") != node)


@contextmanager
def reported_changes(store: Store, write: Callable[[Sequence[Line]], None]) -> Iterator[None]:
    """Write the changes of a store's pods."""
    reporter = ChangeReporter(write, asyncio.get_running_loop().call_later)
    unsubscribe = store.on_change(reporter.observe)
    try:
        yield
    finally:
        unsubscribe()


# Watch pods over HTTP until each is bound or reported unschedulable.

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
