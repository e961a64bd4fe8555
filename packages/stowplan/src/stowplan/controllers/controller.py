"""What a controller decides: which keys a change concerns, and what to write for a key.

Both are functions of objects and the time, as those of the embedded control plane: they know no API server, no clock
and no chance, so tests call them with objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Change
from stowplan.kube.api.reconcile_events import Event
from stowplan.scheduler.cluster.objects import ObjectStore as Objects
from stowplan.scheduler.framework.entry_points import entry_points
from stowplan.scheduler.framework.requests import Create, Delete, Patch, Update
from stowplan.scheduler.framework.status import RAISED

__all__ = [
    "DONE",
    "ENTRY_POINT_GROUP",
    "Change",
    "Controller",
    "ControllerLoadError",
    "Objects",
    "Reconciled",
    "installed_controllers",
    "status_patch",
]

#: The entry-point group under which installed packages provide controllers.
ENTRY_POINT_GROUP = "stowplan.controllers"


class ControllerLoadError(ValueError):
    """A controller cannot be loaded; the message says which, and why."""


class Reconciled(NamedTuple):
    """What a reconcile asks for: first the writes, in order, then the events."""

    writes: Sequence[Create | Update | Patch | Delete] = ()
    events: Sequence[Event] = ()
    #: What the events are about.
    about: ApiStruct | None = None
    #: Seconds until the next reconcile; None: only a change triggers one.
    after: float | None = None


DONE = Reconciled()


class Controller(ABC):
    #: Of its events, log lines and metrics.
    name: ClassVar[str]
    #: Kinds whose objects it reads. It rests while the cluster does not serve one of them.
    reads_kinds: ClassVar[tuple[type[ApiStruct], ...]]

    @abstractmethod
    def keys_of(self, change: Change[Any]) -> Iterable[Hashable]:
        """The keys to reconcile after a change of an object of one of the kinds."""

    @abstractmethod
    def reconcile(self, key: Any, objects: Objects, now: float) -> Reconciled:
        """What to do for a key. `now`: seconds since the epoch.

        Objects may be older than the last write: a write that names the version that it is based on is refused then,
        and the key is reconciled again.
        """


def status_patch(obj: Any, status: Mapping[str, Any]) -> Patch:
    """Replace the status of a custom object, if it still has this version."""
    before: Mapping[str, Any] = obj.content.get("status") or {}
    metadata = obj.metadata
    return Patch(
        kind=type(obj),
        namespace=metadata.namespace,
        name=metadata.name,
        body={"metadata": {"resourceVersion": metadata.resource_version}, "status": _merge(before, status)},
        type_="merge",
        subresource="status",
    )


def _merge(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch from one object to the other."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            patch[name] = _merge(old, value)
        elif value != old:
            patch[name] = value
    return patch


def installed_controllers() -> list[Controller]:
    """A controller of each installed class; raises ControllerLoadError."""
    found = []
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            made = point.load()()
        except RAISED as error:
            # Third-party code may raise anything.
            raise ControllerLoadError(f"controller {point.name} ({point.value}): {error!r}") from error
        if not isinstance(made, Controller):
            raise ControllerLoadError(
                f"controller {point.name} ({point.value}) is not a stowplan.controllers.Controller"
            )
        found.append(made)
    return found
