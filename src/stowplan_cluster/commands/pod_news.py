"""What becomes of pods, a line each, for whoever sits before a terminal while they are being scheduled.

    shop/db-0 → node-a1
    ml/notebook waits: 0/9 nodes are available: ...
    batch/crunch-x7k2p gives way on node-a1

The news of a pod is what its object says now and did not say before; where the objects come from, an HTTP watch or
the store of this process, makes no difference.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stowplan.api.decode import decode_json
from stowplan.api.types import Pod
from stowplan.explain.tables import Line
from stowplan.framework.explanations.formatting import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stowplan.api.types import PodCondition
    from stowplan.explain.tables import Span
    from stowplan_cluster.apiserver.store import Event, Store

#: Seconds for which news are collected, and how many lines of them are then told.
BATCH_SECONDS, SHOWN = 0.1, 10

_PODS = "pods"
#: Of pods without one of these in their JSON there is nothing to tell but their node.
_TELLING = (b'"Unschedulable"', b'"PreemptionByScheduler"')


@dataclass(frozen=True, slots=True)
class Placed:
    node: str

    def spans(self, *, plural: bool) -> tuple[Span, ...]:
        return (" → ", "dim"), (self.node, "best")


@dataclass(frozen=True, slots=True)
class GivesWay:
    node: str

    def spans(self, *, plural: bool) -> tuple[Span, ...]:
        return (" give way" if plural else " gives way", "pending"), (f" on {self.node}", "")


@dataclass(frozen=True, slots=True)
class Waits:
    why: str

    def spans(self, *, plural: bool) -> tuple[Span, ...]:
        return (" wait" if plural else " waits", "pending"), (f": {self.why}", "")


News = Placed | GivesWay | Waits


def news_of(before: Pod | None, pod: Pod) -> News | None:
    """What is new about a pod, if it is worth a line."""
    node = pod.spec.node_name
    if node and not (before and before.spec.node_name):
        return Placed(node)
    if preempted(pod) and not (before and preempted(before)):
        return GivesWay(node)
    why = refusal(pod)
    return Waits(why) if why and why != (before and refusal(before)) else None


def told_of(pods: Sequence[str], news: News) -> tuple[Span, ...]:
    """A line of news that several pods may share."""
    more = f" and {len(pods) - 1:,} more" if len(pods) > 1 else ""
    return (pods[0], "name"), (more, ""), *news.spans(plural=len(pods) > 1)


def refusal(pod: Pod) -> str:
    """Why the scheduler found no node for a pod; "" if it did, or has not tried."""
    condition = _condition(pod, "PodScheduled")
    waits = condition is not None and condition.reason == "Unschedulable" and not pod.spec.node_name
    return condition.message if condition is not None and waits else ""


def preempted(pod: Pod) -> bool:
    condition = _condition(pod, "DisruptionTarget")
    return condition is not None and condition.reason == "PreemptionByScheduler"


def _condition(pod: Pod, type_: str) -> PodCondition | None:
    return next((one for one in pod.status.conditions if one.type == type_), None)


class PodNews:
    """The news of a store, told a few at a time: thousands of pods are a number, not thousands of lines."""

    def __init__(
        self, tell: Callable[[Sequence[Line]], None], later: Callable[[float, Callable[[], None]], object]
    ) -> None:
        self._tell = tell
        self._later = later
        #: What there is to tell -> the pods it is true of. Pods wait in company, but go each to their node.
        self._news: dict[tuple[News, str], list[str]] = {}

    def observe(self, event: Event) -> None:
        if event.stored.resource != _PODS or event.type == "DELETED" or not _may_tell(event):
            return
        before = None if event.previous is None else decode_json(event.previous.data, Pod)
        news = news_of(before, decode_json(event.stored.data, Pod))
        if news is None:
            return
        if not self._news:
            self._later(BATCH_SECONDS, self._flush)
        key = event.stored.key
        self._news.setdefault((news, "" if isinstance(news, Waits) else key), []).append(key)

    def _flush(self) -> None:
        collected, self._news = list(self._news.items()), {}
        lines = [Line(told_of(pods, news)) for (news, _), pods in collected[:SHOWN]]
        untold = sum(len(pods) for _, pods in collected[SHOWN:])
        if untold:
            lines.append(Line(((f"… and the like of {count(untold, 'pod')} more", "dim"),)))
        self._tell(lines)


def _may_tell(event: Event) -> bool:
    """Whether to look closer, which costs a hundred times as much."""
    if any(word in event.stored.data for word in _TELLING):
        return True
    node = event.stored.field("spec.nodeName")
    return bool(node) and (event.previous is None or event.previous.field("spec.nodeName") != node)


@contextmanager
def told(store: Store, tell: Callable[[Sequence[Line]], None]) -> Iterator[None]:
    """Tell of the pods of a store while this lasts."""
    news = PodNews(tell, asyncio.get_running_loop().call_later)
    unsubscribe = store.on_change(news.observe)
    try:
        yield
    finally:
        unsubscribe()
