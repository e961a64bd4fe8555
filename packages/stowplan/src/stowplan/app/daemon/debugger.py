"""SIGUSR2: compare the cache with the API server, and dump it.

SIGUSR2 writes both to the log. The comparison is between the nodes and pods that the informers have delivered and those
in the scheduler's columns and queue; the dump lists every node with its pods, and all queued pods. Pods are identified,
but their content is not printed, so that no secret can get into the log.

The data is copied at once, in a few milliseconds, and formatted with pauses: a large cluster takes tens of thousands of
lines, and scheduling continues meanwhile. Log entries have a maximum length; longer ones are split.

Parity: pods that are being tried, and other schedulers' pods without a node, are reported as missed.

Upstream: pkg/scheduler/backend/cache/debugger; docs/reference/behaviour.md, The debugger.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from stowplan.kube.api.types import Node, Pod
from stowplan.kube.klog import get_logger
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo

if TYPE_CHECKING:
    from stowplan.drivers.live.informers import Informers
    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue

#: Approximate maximum length of a log entry, in characters.
_MAX_ENTRY_LENGTH = 1 << 18
#: Number of pods formatted between two pauses: about a millisecond.
_PODS_BETWEEN_PAUSES = 500
#: Iterations of the event loop to wait for pending deliveries.
_MAX_TURNS_FOR_DELIVERY = 100

_log = get_logger(__name__)


class Mismatch(NamedTuple):
    """Names (or UIDs) that only one side has, sorted."""

    missed: list[str]
    redundant: list[str]


class _NodeCopy(PlainStruct, frozen=True):
    """A node at the time of the dump; amounts are `%+v` of the reference's Resource."""

    name: str
    deleted: bool
    requested: str
    allocatable: str
    pods: list[PodInfo]
    nominated: list[PodInfo]


class CacheDebugger:
    """Compares and dumps on request; a request during a run triggers another one."""

    def __init__(
        self,
        *,
        informers: Informers,
        state: ClusterState,
        queue: SchedulingQueue,
        pause: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0),
    ) -> None:
        self._informers = informers
        self._state = state
        self._queue = queue
        self._pause = pause
        self._wanted = asyncio.Event()

    def request(self) -> None:
        """Called by the signal handler."""
        self._wanted.set()

    async def run(self) -> None:
        """Process requests until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.compare()
            await self.dump()

    # -- comparison ----------------------------------------------------------------------------------------------------

    async def compare(self) -> tuple[Mismatch, Mismatch]:
        """Nodes and pods that only the API server or only the scheduler has."""
        _log.v(3).info("Cache comparer started")
        for _ in range(_MAX_TURNS_FOR_DELIVERY):
            if not self._informers.undelivered:
                break
            await self._pause()
        actual_nodes, actual_pods = self._informers.known(Node), self._informers.known(Pod)
        placed = self._state.placed_pods()
        waiting = [queued.pod for queued in self._queue.pending()]
        cached_nodes = set(self._state.table.row_of) | {info.node_name for info in placed if info.row < 0}
        await self._pause()
        nodes = _mismatch({node.metadata.name for node in actual_nodes}, cached_nodes)
        if any(nodes):
            _log.info("Cache mismatch", missedNodes=nodes.missed, redundantNodes=nodes.redundant)
        actual_uids = {pod.metadata.uid for pod in actual_pods}
        await self._pause()
        pods = _mismatch(actual_uids, {info.uid for info in placed}.union(info.uid for info in waiting))
        if any(pods):
            _log.info("Cache mismatch", missedPods=pods.missed, redundantPods=pods.redundant)
        _log.v(3).info("Cache comparer finished")
        return nodes, pods

    # -- dump ----------------------------------------------------------------------------------------------------------

    async def dump(self) -> None:
        waiting = [queued.pod for queued in self._queue.pending()]
        summary = self._queue.summary()
        copies = await self._copies()
        # Parity: an empty line between nodes.
        async for text in self._in_entries(copies, _node_lines, _node_size, "\n\n"):
            _log.info("Dump of cached NodeInfo", nodes=text)
        async for text in self._in_entries(waiting, _pod_line, _one, ""):
            _log.info("Dump of scheduling queue", summary=summary, pods=text)

    async def _copies(self) -> list[_NodeCopy]:
        """Copy all nodes at once. Amounts are formatted immediately, which takes most of the time."""
        state, table = self._state, self._state.table
        rows = sorted(table.row_of.items())
        requested, allocatable = table.requested[:, : table.n].copy(), table.allocatable[:, : table.n].copy()
        allowed = table.allowed_pods[: table.n].copy()
        pods_of = {name: list(state.row_pods[row]) for name, row in rows}
        nominated = {name: list(state.nominator.on(name)) for name in state.nominator.nodes()}
        ghosts: defaultdict[str, list[PodInfo]] = defaultdict(list)
        for info in state.placed_pods():
            if info.row < 0:
                ghosts[info.node_name].append(info)
        names = list(table.resources)
        found = []
        for i, (name, row) in enumerate(rows):
            taken = _resource(dict(zip(names, requested[:, row].tolist(), strict=False)))
            offered = _resource(dict(zip(names, allocatable[:, row].tolist(), strict=False)), int(allowed[row]))
            found.append(_NodeCopy(name, False, taken, offered, pods_of[name], nominated.get(name, [])))
            if i % _PODS_BETWEEN_PAUSES == 0:
                await self._pause()
        for name, pods in sorted(ghosts.items()):
            found.append(_NodeCopy(name, True, _resource(_sum(pods)), _resource({}), pods, nominated.get(name, [])))
        return found

    async def _in_entries(
        self, what: list[Any], words: Callable[[Any], str], size: Callable[[Any], int], between: str
    ) -> AsyncIterator[str]:
        """Format everything: one text, or several so that none is too long."""
        parts: list[str] = []
        length = since_pause = 0
        for one in what:
            part = words(one)
            if parts and length + len(part) > _MAX_ENTRY_LENGTH:
                yield between.join(parts)
                parts, length = [], 0
            parts.append(part)
            length += len(part)
            since_pause += size(one)
            if since_pause >= _PODS_BETWEEN_PAUSES:
                since_pause = 0
                await self._pause()
        yield between.join(parts)


@contextmanager
def on_signal(debugger: CacheDebugger) -> Iterator[None]:
    """Trigger the debugger on SIGUSR2 within the context; to be entered in the event loop of the main thread."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGUSR2)
    loop.add_signal_handler(signal.SIGUSR2, debugger.request)
    try:
        yield
    finally:
        # The loop would restore the default action, which ends the process.
        loop.remove_signal_handler(signal.SIGUSR2)
        signal.signal(signal.SIGUSR2, before)


def _mismatch(actual: set[str], cached: set[str]) -> Mismatch:
    return Mismatch(sorted(actual - cached), sorted(cached - actual))


# -- formatting --------------------------------------------------------------------------------------------------------


def _node_lines(node: _NodeCopy) -> str:
    lines = [
        f"Node name: {node.name}\nDeleted: {str(node.deleted).lower()}\nRequested Resources: {node.requested}\n"
        f"Allocatable Resources:{node.allocatable}\nScheduled Pods(number: {len(node.pods)}):\n",
        *map(_pod_line, node.pods),
    ]
    if node.nominated:
        lines += [f"Nominated Pods(number: {len(node.nominated)}):\n", *map(_pod_line, node.nominated)]
    return "".join(lines)


def _pod_line(info: PodInfo) -> str:
    pod = info.pod
    return (
        f"name: {pod.metadata.name}, namespace: {pod.metadata.namespace}, uid: {info.uid}, "
        f"phase: {pod.status.phase}, nominated node: {pod.status.nominated_node_name}\n"
    )


def _node_size(node: _NodeCopy) -> int:
    return 1 + len(node.pods) + len(node.nominated)


def _one(info: PodInfo) -> int:
    return 1


def _resource(amounts: Mapping[str, int], allowed_pods: int = 0) -> str:
    """In Go's format of a pointer to its struct Resource."""
    first = {"cpu": "MilliCPU", "memory": "Memory", "ephemeral-storage": "EphemeralStorage"}
    fields = [f"{field}:{amounts.get(name, 0)}" for name, field in first.items()]
    others = " ".join(f"{name}:{amounts[name]}" for name in sorted(amounts) if name not in first and amounts[name])
    return f"&{{{' '.join(fields)} AllowedPodNumber:{allowed_pods} ScalarResources:map[{others}]}}"


def _sum(pods: Iterable[PodInfo]) -> Counter[str]:
    total: Counter[str] = Counter()
    for info in pods:
        total.update(info.shape.used)
    return total
