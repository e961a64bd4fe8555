"""An imported trace (nodes, and pods with arrival and run times), and the formats that can be imported.

A trace is read lazily: `arrivals` is an iterator over a file of any length. Times are ascending seconds since the start
of the trace; an importer of an unsorted file sorts it, or rejects it. Equal pods should share their `spec`, `labels`
and `annotations` objects: they are then compiled only once.

A pod needs a name that is unique in its namespace. UID, creation time and other server-set fields are set by the
simulation.

A format is a callable that gets its options (the mapping under `trace:` in a scenario, without `format`) and the base
of relative paths, and returns a `Trace`. It validates the options immediately and raises TraceError; rows are read
later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config.config_errors import did_you_mean


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


Opener = Callable[[Mapping[str, Any], Path], Trace]

#: Format -> module and name of its opener. The module is imported on use.
FORMATS: dict[str, tuple[str, str]] = {
    "csv": ("stowplan_lab.traces.csv_trace", "open_csv"),
    "openb": ("stowplan_lab.traces.openb", "open_openb"),
    "recording": ("stowplan_lab.traces.recorded", "open_recording"),
}


def open_trace(name: str, options: Mapping[str, Any], folder: Path) -> Trace:
    """The trace that a scenario describes; raises TraceError."""
    if name not in FORMATS:
        known = f"formats are {', '.join(sorted(FORMATS))}" if FORMATS else "no format is installed"
        hint = next(did_you_mean(name, FORMATS), known)
        raise TraceError(f"format: no such trace format: {name!r}; {hint}")
    module, attribute = FORMATS[name]
    opener = cast("Opener", getattr(import_module(module), attribute))
    return opener(options, folder)
