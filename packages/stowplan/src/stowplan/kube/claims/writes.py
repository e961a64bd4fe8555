"""What the controllers of claims see of a cluster, and what they want done."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Change

T = TypeVar("T", bound=ApiStruct)

NORMAL, WARNING = "Normal", "Warning"


class Create(NamedTuple):
    obj: Any


class Write(NamedTuple):
    """An object is to be as `new`, in metadata, spec and status; `old` is what was read."""

    old: Any
    new: Any


class Delete(NamedTuple):
    obj: Any


class Report(NamedTuple):
    """An Event to be recorded."""

    obj: Any
    type: str
    reason: str
    message: str


class LookAgain(NamedTuple):
    """Reconcile the key again in so many seconds."""

    seconds: float


Effect = Create | Write | Delete | Report | LookAgain
Effects = Generator[Effect, None, None]


class Objects(Protocol):
    """The objects of a cluster as they are now."""

    def find(self, kind: type[T], namespace: str, name: str, /) -> T | None: ...

    def list(self, kind: type[T], /) -> Iterable[T]: ...

    def node_labels(self) -> Iterable[tuple[str, Mapping[str, str]]]:
        """The names and labels of all nodes."""
        ...


class Controller(Protocol):
    #: The kinds whose changes it has to know.
    kinds: Sequence[type[ApiStruct]]

    def keys_of(self, change: Change[Any], /) -> Iterable[Hashable]:
        """The keys to reconcile after a change; called for each change at once, in order."""
        ...

    def reconcile(self, key: Any, now: float, /) -> Effects:
        """What to do about a key. Each effect is carried out before the next one is asked for."""
        ...


def carry_out(effects: Effects, do: Callable[[Effect], object]) -> None:
    """Do one after the other; a refused one is raised where it was asked for."""
    effect = next(effects, None)
    while effect is not None:
        try:
            do(effect)
        except ApiError as error:
            effect = effects.throw(error)
        else:
            effect = next(effects, None)
