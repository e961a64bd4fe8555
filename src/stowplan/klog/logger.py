"""Loggers: one a module, made when the module is imported, told later what is wanted of them.

A line that is not wanted must cost next to nothing, as hot paths are full of them. So each logger holds the highest
level that is wanted of it, worked out when verbosity or the module patterns change, and `v` compares two integers.

Before `configure` lines go to the standard library's logger of the module: in somebody else's program that is where
they are looked for.

Upstream: k8s.io/klog/v2, klog.go (V, vmodule).
"""

from __future__ import annotations

import logging
import sys
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from stowplan.klog.entry import Entry
from stowplan.klog.values import stack_trace, text_of_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.klog.entry import Severity, Sink

_STANDARD_LEVELS: dict[Severity, int] = {"I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR}


class StandardLibrary:
    """Hands lines to the standard library's loggers, keys and all as text."""

    def write(self, entry: Entry) -> None:
        level = logging.DEBUG if entry.level else _STANDARD_LEVELS[entry.severity]
        logger = logging.getLogger(entry.module)
        if logger.isEnabledFor(level):
            text = entry.message + text_of_keys(entry.error, entry.keys)
            record = logger.makeRecord(logger.name, level, entry.file, entry.line, text, (), None)
            logger.handle(record)


class _State:
    """What `configure` sets, for all loggers of the process."""

    def __init__(self) -> None:
        self.sink: Sink = StandardLibrary()
        self.verbosity = 0
        #: Pattern of module names, and the level wanted of these; the first that fits counts.
        self.modules: Sequence[tuple[str, int]] = ()
        self.loggers: dict[str, Logger] = {}

    def threshold_of(self, name: str) -> int:
        module = name.rpartition(".")[2]
        named = next((level for pattern, level in self.modules if fnmatchcase(module, pattern)), 0)
        return max(self.verbosity, named)


_STATE = _State()


class Verbose(Protocol):
    """The lines of one level."""

    @property
    def enabled(self) -> bool:
        """Whether they are wanted: to be asked before something is worked out for them alone."""

    def info(self, message: str, /, **keys: Any) -> None: ...

    def plain(self, message: str, /) -> None:
        """Write upstream's old-style lines, which tools look for: the text as it is, without quotes."""


class _Unwanted:
    enabled = False

    def info(self, message: str, /, **keys: Any) -> None:
        pass

    def plain(self, message: str, /) -> None:
        pass


class _Wanted:
    enabled = True

    def __init__(self, level: int) -> None:
        self._level = level

    def info(self, message: str, /, **keys: Any) -> None:
        _write("I", self._level, message, True, None, keys)

    def plain(self, message: str, /) -> None:
        _write("I", self._level, message, False, None, {})


_UNWANTED = _Unwanted()
_wanted = cache(_Wanted)


class Logger:
    def __init__(self, name: str) -> None:
        self.name = name
        self._threshold = _STATE.threshold_of(name)

    def v(self, level: int) -> Verbose:
        return _wanted(level) if level <= self._threshold else _UNWANTED

    def info(self, message: str, /, **keys: Any) -> None:
        _write("I", 0, message, True, None, keys)

    def warning(self, message: str, /, **keys: Any) -> None:
        # Parity: upstream's warnings are plain text; with keys they could not be read without quotes.
        _write("W", 0, message, bool(keys), None, keys)

    def error(self, err: BaseException | str | None, message: str, /, *, trace: bool = False, **keys: Any) -> None:
        """`trace` adds where an exception came from: for those that are bugs."""
        if trace and isinstance(err, BaseException):
            keys["stacktrace"] = stack_trace(err)
        _write("E", 0, message, True, err, keys)


def _write(
    severity: Severity,
    level: int,
    message: str,
    structured: bool,
    error: BaseException | str | None,
    keys: dict[str, Any],
) -> None:
    frame = sys._getframe(2)
    module = frame.f_globals.get("__name__", "")
    _STATE.sink.write(
        Entry(severity, level, frame.f_code.co_filename, frame.f_lineno, module, message, structured, error, keys)
    )


def get_logger(name: str) -> Logger:
    """The logger of a module, by its `__name__`."""
    if name not in _STATE.loggers:
        _STATE.loggers[name] = Logger(name)
    return _STATE.loggers[name]


def configure(*, sink: Sink | None = None, verbosity: int = 0, modules: Sequence[tuple[str, int]] = ()) -> None:
    """Say where lines go, None being the standard library, and which are wanted."""
    _STATE.sink = StandardLibrary() if sink is None else sink
    # Go's patterns negate a set with ^.
    _STATE.modules = [(pattern.replace("[^", "[!"), level) for pattern, level in modules]
    set_verbosity(verbosity)


def set_verbosity(verbosity: int) -> None:
    _STATE.verbosity = verbosity
    for logger in _STATE.loggers.values():
        logger._threshold = _STATE.threshold_of(logger.name)
