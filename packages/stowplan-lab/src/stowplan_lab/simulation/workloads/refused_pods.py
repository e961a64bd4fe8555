"""Pods of controllers that the API server refused, because of a quota: they are tried again.

As on a cluster, a controller tries again after a delay that doubles with each failure, or when one of its pods ends.
Tries that must fail, because nothing has become free since the last one, are only counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from msgspec import field

from stowplan.kube.api.pod import Pod
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.key_queue import delay_after
from stowplan_lab.simulation.results.ledger import Origin, Owner

if TYPE_CHECKING:
    from stowplan_lab.simulation.simulation_context import SimulationContext


class _Waiting(PlainStruct, eq=False):
    """What a controller has not been able to create."""

    workload: str
    namespace: str
    pods: deque[tuple[Pod, Origin]] = field(default_factory=deque)
    #: Failures in a row, when the last one was, and when it tries again.
    failures: int = 0
    failed: float = -inf
    due: float = 0.0
    message: str = ""

    def fail(self, now: float, why: str) -> None:
        self.message = why
        if self.failed != now:
            self.failed = now
            self.failures += 1
        self.due = now + delay_after(self.failures)


class RefusedPods:
    def __init__(self, context: SimulationContext) -> None:
        self._context = context
        self._waiting: dict[Owner, _Waiting] = {}

    def put(self, owner: Owner, pod: Pod, origin: Origin, why: str) -> None:
        waiting = self._waiting.setdefault(owner, _Waiting(origin.workload, pod.metadata.namespace))
        waiting.pods.append((pod, origin))
        waiting.fail(self._context.now, why)

    def drop(self, uids: Collection[str]) -> None:
        """These pods are no longer wanted."""
        for waiting in self._waiting.values():
            waiting.pods = deque(one for one in waiting.pods if one[0].metadata.uid not in uids)

    def released(self, pod: Pod, workload: str) -> None:
        """A pod has finished or is gone, so that there may be room for others."""
        now = self._context.now
        for waiting in self._waiting.values():
            if not waiting.pods or waiting.namespace != pod.metadata.namespace:
                continue
            if waiting.workload == workload:
                waiting.due = now + self._context.models.controller_delay
            while waiting.due < now:
                waiting.failures += 1
                waiting.due += delay_after(waiting.failures)
            self._context.later(waiting.due - now, partial(self._retry, waiting, waiting.due))

    def finish(self) -> None:
        """The simulation has ended."""
        ledger = self._context.ledger
        for waiting in self._waiting.values():
            for pod, origin in waiting.pods:
                ledger.expect(pod.metadata.uid, origin)
                ledger.refuse(pod, waiting.message)

    def _retry(self, waiting: _Waiting, due: float) -> None:
        if waiting.due != due:
            return
        pods, waiting.pods = waiting.pods, deque()
        while pods and not waiting.pods:
            # One that is refused again is put back.
            self._context.arrive(*pods.popleft())
        waiting.pods.extend(pods)
        if not waiting.pods:
            waiting.failures = 0
