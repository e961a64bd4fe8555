"""The controllers' work loop: store changes become keys, keys become reconciles.

One queue over all controllers holds each (controller, key). The clock is injected; `settle` does everything that is due
now, and tests then move the clock to `next_due`.

Upstream: pkg/controller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol

from stowplan.kube.api.api_errors import ApiError, Conflict, NotFound
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.label_selectors import SelectorError
from stowplan.kube.timing.key_queue import KeyQueue
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Store

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


class Loop:
    def __init__(self, registry: Registry, controllers: Sequence[Controller], clock: Callable[[], float]) -> None:
        self.clock = clock
        self.store: Store = registry.store
        self._controllers = tuple(controllers)
        self._watchers: dict[str, list[int]] = {}
        self._queue: KeyQueue[Item] = KeyQueue(clock)
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
        done = 0
        while done < limit and (item := self._queue.take()) is not None:
            self._reconcile(item)
            done += 1
        return done > 0

    def settle(self) -> None:
        """Reconcile until nothing is due."""
        for _ in range(SETTLE_LIMIT):
            if not self.step():
                return
        index, key = self._queue.take() or (0, "nothing")
        raise RuntimeError(f"controllers do not settle; next is {self._controllers[index].name} with {key}")

    def next_due(self) -> float | None:
        """Time of the next work in epoch seconds; None if only a change can cause work."""
        return self._queue.next_due()

    def _observe_what_exists(self) -> None:
        for storage in self.store.storages():
            for stored in self.store.list(storage):
                self._observe(Event("ADDED", stored, None))

    def _observe(self, event: Event) -> None:
        for index in (*self._watchers.get(event.stored.resource, ()), *self._watchers.get(EVERYTHING, ())):
            for key in self._controllers[index].keys_of(event):
                self._queue.put((index, key))

    def _reconcile(self, item: Item) -> None:
        index, key = item
        controller = self._controllers[index]
        try:
            after = controller.reconcile(key)
        except (Conflict, NotFound) as error:
            logger.debug("%s: %s: %s", controller.name, key, error)
            self._queue.failed(item)
        except (ApiError, DecodeError, SelectorError) as error:
            if self._queue.failed(item, _without_name(error)):
                logger.warning("%s: %s: %s; trying again", controller.name, key, error)
        else:
            self._queue.done(item, after)


def _without_name(error: Exception) -> str:
    """The message without the object's name: a pod that is refused again has another generated one."""
    details = error.status.details if isinstance(error, ApiError) else None
    return str(error) if details is None else str(error).replace(details.name, "")


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
