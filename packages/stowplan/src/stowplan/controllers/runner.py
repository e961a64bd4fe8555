"""Run controllers on an API server: informers, a queue of keys, workers.

    runner = Runner(api, [QueueDepth()])
    await runner.run()  # until cancelled

Informers deliver changes, from which follow keys; a worker takes a key, reconciles it, and sends what that asks for.
Only one worker has a key at a time. What the API server refuses, and what a controller raises, is logged once per
problem and tried again with growing delays; other keys go on.

The same port and informers as the scheduler's: over HTTP on a real cluster, in process in `stowplan up`.

Upstream: sigs.k8s.io/controller-runtime, pkg/internal/controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stowplan.controllers.controller import Controller, Objects, Reconciled
from stowplan.drivers.live.informers import Informers
from stowplan.drivers.live.requests import response_to
from stowplan.kube.api.api_errors import ApiError, Conflict, NotFound
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.port import Unreachable
from stowplan.kube.klog import get_logger
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.timing.key_queue import KeyQueue
from stowplan.kube.timing.times import REAL_TIMES, Times, within
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.net.client.events.event_forms import CoreV1
from stowplan.net.client.events.event_recorder import EventBroadcaster
from stowplan.scheduler.engine.watched_kind import WatchedKind
from stowplan.scheduler.framework.status import RAISED

if TYPE_CHECKING:
    from stowplan.kube.api.meta import ApiStruct
    from stowplan.kube.api.port import Api, Change

#: Seconds between checks for kinds that the cluster did not serve.
UNSERVED_KINDS_INTERVAL = 60.0
#: Timeout in seconds for events at the end.
_EVENTS_FLUSH_TIMEOUT = 1.0

#: (index of the controller, key)
_Item = tuple[int, Hashable]
_FAILURES = (ApiError, Unreachable, OutcomeUnknown, DecodeError)

_log = get_logger(__name__)


def _warn(problem: str) -> None:
    _log.warning(problem)


class Runner:
    def __init__(
        self,
        api: Api,
        controllers: Sequence[Controller],
        *,
        workers: int = 1,
        times: Times = REAL_TIMES,
        hostname: str = "localhost",
        metrics: MetricsRegistry | None = None,
        unserved_kinds_interval: float = UNSERVED_KINDS_INTERVAL,
        report: Callable[[str], None] = _warn,
    ) -> None:
        """`report` gets problems of informers, such as kinds that the cluster does not serve."""
        self._api = api
        self._controllers = tuple(controllers)
        self._times = times
        self.objects = Objects()
        self._queue: KeyQueue[_Item] = KeyQueue(times.clock)
        #: What workers have, and which of it has to be reconciled once more.
        self._busy: set[_Item] = set()
        self._again: set[_Item] = set()
        self._free = asyncio.Semaphore(workers)
        self._wake = asyncio.Event()
        #: Set while keys are reconciled.
        self.ready = asyncio.Event()
        self._halted = False
        # Roles of controllers grant events in the core group, which controller-runtime uses.
        self._events = EventBroadcaster(api, hostname=hostname, times=times, report=report, form=CoreV1())
        self._recorders = [self._events.recorder(controller.name) for controller in self._controllers]
        self._informers = Informers(
            api,
            kinds=_kinds_of(self._controllers),
            receiver=self,
            times=times,
            report=report,
            unserved_kinds_interval=unserved_kinds_interval,
        )
        self._reconciles = (metrics or MetricsRegistry()).counter_vec(
            "controller_runtime_reconcile_total", "Reconciles, by controller and result.", ("controller", "result")
        )

    @property
    def synced(self) -> asyncio.Event:
        """Set when the objects of all served kinds have been listed."""
        return self._informers.synced

    @property
    def idle(self) -> bool:
        """Whether nothing is in progress, or due."""
        due = self._queue.next_due()
        return self._events.idle and not self._busy and (due is None or due > self._times.clock())

    # -- informer callbacks --------------------------------------------------------------------------------------------

    def handle(self, kind: type[ApiStruct], changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            if change.new is None:
                self.objects.remove(change.old)
            else:
                self.objects.put(change.new)
            for index, controller in enumerate(self._controllers):
                if kind in controller.reads_kinds:
                    self._put(index, controller, change)
        self._wake.set()

    def switch_off(self, plugins: frozenset[str]) -> None:
        """No-op: without objects there are no keys."""

    def switch_on(self, plugins: frozenset[str]) -> None:
        """No-op."""

    def _put(self, index: int, controller: Controller, change: Change[Any]) -> None:
        try:
            for key in controller.keys_of(change):
                self._queue.put((index, key))
        except RAISED as error:
            _log.error(error, "A controller does not tell the keys of a change", controller=controller.name, trace=True)

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def run(self, *, lead: asyncio.Event | None = None) -> None:
        """Follow the cluster until cancelled, and reconcile once `lead` is set; None: immediately."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._events.run())
                tasks.create_task(self._informers.run())
                await self.synced.wait()
                if lead is not None:
                    await lead.wait()
                self.ready.set()
                while True:
                    await self._free.acquire()
                    item = await self._next()
                    self._busy.add(item)
                    tasks.create_task(self._work(item))
        finally:
            if not self._halted:
                await self._events.flush(_EVENTS_FLUSH_TIMEOUT)

    async def drain(self) -> None:
        """No-op: a write that is cut off is done again by the next leader."""

    async def halt(self) -> None:
        """Another process may lead: send nothing more."""
        self._halted = True

    async def _next(self) -> _Item:
        while True:
            item = self._queue.take()
            if item is None:
                await self._until_due()
            elif item in self._busy:
                self._again.add(item)
            else:
                return item

    async def _until_due(self) -> None:
        self._wake.clear()
        due = self._queue.next_due()
        if due is None:
            await self._wake.wait()
            return
        with suppress(TimeoutError):
            await within(max(due - self._times.clock(), 0.0), self._woken(), sleep=self._times.sleep)

    async def _woken(self) -> None:
        await self._wake.wait()

    async def _work(self, item: _Item) -> None:
        try:
            await self._reconcile(item)
        finally:
            self._busy.discard(item)
            if item in self._again:
                self._again.discard(item)
                self._queue.put(item)
            self._free.release()
            self._wake.set()

    async def _reconcile(self, item: _Item) -> None:
        index, key = item
        name = self._controllers[index].name
        try:
            reconciled = self._controllers[index].reconcile(key, self.objects, self._times.wall_clock())
            await self._carry_out(index, reconciled)
        except (Conflict, NotFound) as error:
            # The informers do not know the newest version yet.
            _log.v(4).info("Reconcile is repeated", controller=name, key=str(key), err=error)
            self._queue.failed(item)
            self._count(name, "requeue")
        except RAISED as error:
            if self._queue.failed(item, str(error)):
                bug = not isinstance(error, _FAILURES)
                _log.error(error, "Reconciler error", controller=name, key=str(key), trace=bug)
            self._count(name, "error")
        else:
            self._queue.done(item, reconciled.after)
            self._count(name, "success" if reconciled.after is None else "requeue_after")

    async def _carry_out(self, index: int, reconciled: Reconciled) -> None:
        for request in reconciled.writes:
            await response_to(self._api, request)
        for type_, reason, note in reconciled.events:
            assert reconciled.about is not None, "an event is about an object"
            self._recorders[index].event(reconciled.about, type_=type_, reason=reason, action="Reconcile", note=note)

    def _count(self, controller: str, result: str) -> None:
        self._reconciles.with_label_values(controller, result).inc()


def _kinds_of(controllers: Sequence[Controller]) -> list[WatchedKind]:
    readers: dict[type[ApiStruct], set[str]] = {}
    for controller in controllers:
        for kind in controller.reads_kinds:
            readers.setdefault(kind, set()).add(controller.name)
    return [WatchedKind(kind, needed_by=frozenset(names), finished=True) for kind, names in readers.items()]
