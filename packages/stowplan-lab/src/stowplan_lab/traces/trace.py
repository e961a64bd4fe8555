"""An imported trace: nodes, and pods with arrival and run times.

A trace is read lazily: `arrivals` is an iterator over a file of any length. Times are ascending seconds since the start
of the trace; an importer of an unsorted file sorts it, or rejects it. Equal pods should share their `spec`, `labels`
and `annotations` objects: they are then compiled only once.

A pod needs a name that is unique in its namespace. UID, creation time and other server-set fields are set by the
simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stowplan.kube.api.types import Node, Pod


class TraceError(ValueError):
    """A trace that cannot be read; the message has the location (`pods.csv: line 12: …`) and what to do."""


class Arrival(NamedTuple):
    """A pod of a trace."""

    #: Seconds since the start of the trace.
    at: float
    pod: Pod
    #: Run time in seconds after it has started; None: forever.
    lifetime: float | None = None


class Trace(Protocol):
    #: Number of invalid rows that `arrivals` has skipped so far.
    skipped: int

    def nodes(self) -> Iterable[Node]:
        """The nodes of the trace; empty if it only has pods."""

    def arrivals(self) -> Iterator[Arrival]:
        """The pods in time order; each call starts from the beginning.

        Raises TraceError for an invalid row, when it is reached.
        """

    @property
    def count(self) -> int | None:
        """The number of pods, for progress estimates; None if that requires reading the whole file."""
