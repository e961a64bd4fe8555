"""An imported trace: nodes, and pods with arrival and run times.

A trace is read as it is needed: `arrivals` is an iterator over a file that may have any number of rows. Times are
seconds since the beginning of the trace and never go back; an importer whose file is not sorted sorts it, or refuses.
Pods that are alike should share their `spec`, `labels` and `annotations` objects: they are then compiled only once.

Whoever arrives needs a name that is unique in its namespace. UID, time of creation and whatever else an API server
fills in are filled in by the simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stowplan.api.types import Node, Pod


class TraceError(ValueError):
    """A trace that cannot be read; the message says where (`pods.csv: line 12: …`) and what to do."""


class Arrival(NamedTuple):
    """A pod of a trace."""

    #: Seconds since the beginning of the trace.
    at: float
    pod: Pod
    #: Seconds that it runs once it has started; None: for ever.
    lifetime: float | None = None


class Trace(Protocol):
    #: Rows that `arrivals` has left out so far, as they make no sense.
    skipped: int

    def nodes(self) -> Iterable[Node]:
        """The nodes that the trace brings; none if it has only pods."""

    def arrivals(self) -> Iterator[Arrival]:
        """The pods in the order of their times, from the beginning each time that it is called.

        Raise TraceError for a row that makes no sense, when it is reached.
        """

    @property
    def count(self) -> int | None:
        """How many pods there are, for the estimate of progress; None if that is not known without reading it all."""
