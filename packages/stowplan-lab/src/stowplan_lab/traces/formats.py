"""Trace formats and their importers.

A format is a callable that gets its options (the mapping under `trace:` in a scenario, without `format`) and the base
of relative paths, and returns a `Trace`. It validates the options immediately and raises TraceError; rows are read
later.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from stowplan.kube.config.errors import did_you_mean
from stowplan_lab.traces.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from stowplan_lab.traces.trace import Trace

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
