"""The controllers' work loop: store changes become keys, keys become reconciles.

One FIFO queue over all controllers holds each (controller, key) at most once: a thousand pod changes become one key of
their ReplicaSet. The order depends only on the order of writes, so runs are reproducible.

Each (controller, key) has at most one timer: the delay that its last reconcile returned, or, after a failure, a backoff
that doubles up to a minute. The clock is injected; `settle` does everything that is due now, and tests then move the
clock to `next_due`.

Upstream: k8s.io/client-go/util/workqueue, pkg/controller.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Protocol

from stowplan.kube.api.api_errors import ApiError, Conflict, NotFound
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.label_selectors import SelectorError
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Store
from stowplan_cluster.reconcile.retries import delay_after

EVERYTHING = "*"
#: Limit of `settle`: two controllers that undo each other's work would never settle.
SETTLE_LIMIT = 1_000_000

logger = logging.getLogger(__name__)


class Controller(Protocol):
    """Reconciles one kind of object with its spec."""

    @property
    def name(self) -> str:
        """The name in kube-controller-manager's `--controllers`."""
        ...

    @property
    def watches(self) -> tuple[str, ...]:
        """The storages to watch; EVERYTHING means all, including custom resources."""
        ...

    def keys_of(self, event: Event) -> Iterable[Hashable]:
        """The keys to reconcile after a change. Called once per change, in order; must not write."""
        ...

    def reconcile(self, key: Hashable) -> float | None:
        """Reconcile one key; return the seconds until the next reconcile, None if only a change triggers one."""
        ...


#: (index of the controller, key).
Item = tuple[int, "Hashable"]


class _Failures(PlainStruct):
    count: int = 0
    #: The last logged error per key, to log repeated ones once.
    logged: str = ""


class Loop:
    def __init__(self, registry: Registry, controllers: Sequence[Controller], clock: Callable[[], float]) -> None:
        self.clock = clock
        self.store: Store = registry.store
        self._controllers = tuple(controllers)
        self._watchers: dict[str, list[int]] = {}
        self._queue: deque[Item] = deque()
        self._queued: set[Item] = set()
        #: Heap of (time, sequence, item); an entry is stale unless `_due` has the same time.
        self._timers: list[tuple[float, int, Item]] = []
        self._due: dict[Item, float] = {}
        self._sequence = 0
        self._failures: dict[Item, _Failures] = {}
        for index, controller in enumerate(self._controllers):
            for storage in controller.watches:
                self._watchers.setdefault(storage, []).append(index)
        self._unsubscribe = self.store.on_change(self._observe)
        self._observe_what_exists()

    def close(self) -> None:
        """Stop watching the store."""
        self._unsubscribe()

    def step(self, limit: int = 1) -> bool:
        """Reconcile up to `limit` due keys; return whether there were any."""
        self._enqueue_due()
        done = 0
        while self._queue and done < limit:
            item = self._queue.popleft()
            self._queued.discard(item)
            self._reconcile(item)
            done += 1
        return done > 0

    def settle(self) -> None:
        """Reconcile until nothing is due."""
        for _ in range(SETTLE_LIMIT):
            if not self.step():
                return
        index, key = self._queue[0]
        raise RuntimeError(f"controllers do not settle; next is {self._controllers[index].name} with {key}")

    def next_due(self) -> float | None:
        """Time of the next work in epoch seconds; None if only a change can cause work."""
        if self._queue:
            return self.clock()
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _observe_what_exists(self) -> None:
        for storage in self.store.storages():
            for stored in self.store.list(storage):
                self._observe(Event("ADDED", stored, None))

    def _observe(self, event: Event) -> None:
        for index in (*self._watchers.get(event.stored.resource, ()), *self._watchers.get(EVERYTHING, ())):
            for key in self._controllers[index].keys_of(event):
                self._enqueue((index, key))

    def _enqueue(self, item: Item) -> None:
        if item not in self._queued:
            self._queued.add(item)
            self._queue.append(item)

    def _enqueue_due(self) -> None:
        now = self.clock()
        while self._timers and self._timers[0][0] <= now:
            when, _, item = heappop(self._timers)
            if self._due.get(item) == when:
                del self._due[item]
                self._enqueue(item)

    def _reconcile(self, item: Item) -> None:
        index, key = item
        controller = self._controllers[index]
        try:
            after = controller.reconcile(key)
        except (Conflict, NotFound) as error:
            logger.debug("%s: %s: %s", controller.name, key, error)
            after = self._delay_after_failure(item)
        except (ApiError, DecodeError, SelectorError) as error:
            after = self._delay_after_failure(item)
            self._log_once(item, error)
        else:
            self._failures.pop(item, None)
        self._set_timer(item, after)

    def _delay_after_failure(self, item: Item) -> float:
        failures = self._failures.setdefault(item, _Failures())
        failures.count += 1
        return delay_after(failures.count)

    def _log_once(self, item: Item, error: Exception) -> None:
        failures, message = self._failures[item], str(error)
        details = error.status.details if isinstance(error, ApiError) else None
        # A pod that is refused again has another generated name.
        same = message.replace(details.name, "") if details is not None else message
        if failures.logged != same:
            failures.logged = same
            logger.warning("%s: %s: %s; trying again", self._controllers[item[0]].name, item[1], message)

    def _set_timer(self, item: Item, after: float | None) -> None:
        if after is None:
            self._due.pop(item, None)
            return
        when = self.clock() + max(after, 0.0)
        self._due[item] = when
        self._sequence += 1
        heappush(self._timers, (when, self._sequence, item))


def select_controllers(controllers: Iterable[Controller], selection: Sequence[str]) -> list[Controller]:
    """Select controllers as `--controllers` does: `*` enables all, `name` enables and `-name` disables one."""
    known = list(controllers)
    if selection and all(entry.startswith("-") for entry in selection):
        # Unlike upstream, `-name` alone implies `*`: excluding one controller should not exclude all.
        raise ValueError(f"{','.join(selection)} leaves nothing on; say *,{','.join(selection)}")
    names = {controller.name for controller in known}
    unknown = [entry for entry in selection if entry != "*" and entry.removeprefix("-") not in names]
    if unknown:
        raise ValueError(f"unknown controller {unknown[0]!r}; there are {', '.join(sorted(names))}")
    return [
        controller
        for controller in known
        if controller.name in selection or ("*" in selection and f"-{controller.name}" not in selection)
    ]
