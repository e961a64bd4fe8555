"""The controllers' work loop: store changes become keys, keys become reconciles.

One queue holds what is to be looked at, each (controller, key) at most once. It is strictly first
come, first served over all controllers: while a thousand pods wait for their kubelet, the thousand
changes they have caused lie in the queue as one key of their ReplicaSet. The order depends on
nothing but the order of the writes, so a run can be repeated.

Each (controller, key) has at most one timer: what its last reconcile asked for, or, after a
failure, a delay that doubles up to a minute. The clock is the caller's; `settle` does all that is
due now, and a test then moves the clock to `next_due`.

Upstream: k8s.io/client-go/util/workqueue, pkg/controller.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

from stowplan.api.api_errors import ApiError, Conflict, NotFound
from stowplan.api.decode import DecodeError
from stowplan.api.label_selectors import SelectorError
from stowplan_cluster.apiserver.store import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from stowplan_cluster.apiserver.registry import Registry
    from stowplan_cluster.apiserver.store import Store

BACKOFF_BASE_SECONDS = 0.005
BACKOFF_LIMIT_SECONDS = 60.0
EVERYTHING = "*"
#: `settle` gives up here: two controllers that undo each other's work never come to rest.
SETTLE_LIMIT = 1_000_000

logger = logging.getLogger(__name__)


class Controller(Protocol):
    """Reconciles one kind of object with its spec."""

    @property
    def name(self) -> str:
        """As kube-controller-manager's `--controllers` names it."""
        ...

    @property
    def watches(self) -> tuple[str, ...]:
        """The storages whose changes it wants to see; EVERYTHING stands for all, custom ones too."""
        ...

    def keys_of(self, event: Event) -> Iterable[Hashable]:
        """What to reconcile after a change. Sees every change once, in order; writes nothing."""
        ...

    def reconcile(self, key: Hashable) -> float | None:
        """Reconcile one key; return the seconds until the next reconcile, None if only a change triggers one."""
        ...


#: A controller's place in the list, and one of its keys.
Item = tuple[int, "Hashable"]


@dataclass(slots=True)
class _Failures:
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
        #: (when, sequence, item); an entry counts only while `_due` names the same time.
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
        """Stop following the store."""
        self._unsubscribe()

    def step(self, limit: int = 1) -> bool:
        """Reconcile up to `limit` keys that are due; whether there was one."""
        self._enqueue_due()
        done = 0
        while self._queue and done < limit:
            item = self._queue.popleft()
            self._queued.discard(item)
            self._reconcile(item)
            done += 1
        return done > 0

    def settle(self) -> None:
        """Run until nothing is due now."""
        for _ in range(SETTLE_LIMIT):
            if not self.step():
                return
        index, key = self._queue[0]
        raise RuntimeError(f"controllers do not come to rest; next is {self._controllers[index].name} with {key}")

    def next_due(self) -> float | None:
        """When there will be something to do, in epoch seconds; None: only a change brings work."""
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
            self._log_once(item, str(error))
        else:
            self._failures.pop(item, None)
        self._set_timer(item, after)

    def _delay_after_failure(self, item: Item) -> float:
        failures = self._failures.setdefault(item, _Failures())
        failures.count += 1
        # Bound the exponent: after a year of failures it would overflow a float.
        return min(BACKOFF_LIMIT_SECONDS, BACKOFF_BASE_SECONDS * 2.0 ** min(failures.count - 1, 32))

    def _log_once(self, item: Item, message: str) -> None:
        failures = self._failures[item]
        if failures.logged != message:
            failures.logged = message
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
    """Those that `--controllers` leaves on: `*` stands for all, `name` switches one on, `-name` off."""
    known = list(controllers)
    if selection and all(entry.startswith("-") for entry in selection):
        # Upstream would run none: but who excludes one controller does not mean to exclude all.
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
