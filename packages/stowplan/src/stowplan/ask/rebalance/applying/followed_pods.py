"""The pods and disruption budgets of some namespaces, followed by watches while a step of a plan is carried out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from stowplan.kube.api.api_errors import Forbidden
from stowplan.kube.api.port import Api
from stowplan.kube.api.types import Pod, PodDisruptionBudget
from stowplan.kube.timing.times import Times, within
from stowplan.net.client.list_watch import Failing, ListWatch, Report


class FollowedPods:
    def __init__(self, api: Api, namespaces: Collection[str], times: Times) -> None:
        self._times = times
        #: Set by the next change of a pod, or of a budget; and once all of them have been listed.
        self.pods_changed, self.budgets_changed = asyncio.Event(), asyncio.Event()
        self._missing_right: Forbidden | None = None
        self._pods = [
            ListWatch(api, Pod, times=times, report=self._note, namespace=one, on_synced=self.pods_changed.set)
            for one in namespaces
        ]
        self._budgets = [
            ListWatch(api, PodDisruptionBudget, times=times, report=self._note, namespace=one) for one in namespaces
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        running = [asyncio.create_task(one.run(lambda _: self.pods_changed.set())) for one in self._pods]
        running += [asyncio.create_task(one.run(lambda _: self.budgets_changed.set())) for one in self._budgets]
        try:
            yield
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _note(self, problem: Report) -> None:
        """What fails is tried again, unless a right is missing."""
        if isinstance(problem, Failing) and isinstance(problem.why, Forbidden):
            self._missing_right = problem.why
            self.pods_changed.set()
            self.budgets_changed.set()

    @property
    def pods(self) -> list[Pod] | None:
        """None until all have been listed."""
        listed = all(one.synced.is_set() for one in self._pods)
        return [pod for one in self._pods for pod in one.known] if listed else None

    async def next(self, changed: asyncio.Event, *, until: float) -> bool:
        """Wait for a change since the last one that was waited for; False after that time. Raises Forbidden."""
        left = until - self._times.clock()
        if left <= 0:
            # Others may change all the time.
            return False
        try:
            await within(left, changed.wait(), sleep=self._times.sleep)
        except TimeoutError:
            return False
        changed.clear()
        if self._missing_right is not None:
            raise self._missing_right
        return True
