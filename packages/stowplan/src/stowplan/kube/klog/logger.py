"""Per-module loggers, configured after import.

Disabled lines must be nearly free, because hot paths have many. So each logger stores its highest enabled level,
computed when the verbosity or the module patterns change, and `v` compares two integers.

Until `configure` is called, lines go to the standard library's logger of the module, as expected from a library.

As with upstream's contextual logging, the caller decides whether there is a log: an engine that only answers questions
runs `without_log`, because its attempts are nobody's.

Upstream: k8s.io/klog/v2, klog.go (V, vmodule).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import ContextDecorator
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol

from stowplan.kube import compiled
from stowplan.kube.klog.value_text import stack_trace, text_of_keys

# A log entry before formatting.

#: Upstream's letters at the start of a line.
Severity = Literal["I", "W", "E"]


class Entry(NamedTuple):
    severity: Severity
    #: The level of `v(level)`; 0 for warnings and errors.
    level: int
    #: Path of the source file as in `co_filename`, and the line.
    file: str
    line: int
    module: str
    message: str
    #: False for klog's unstructured lines: the message without quotes, no keys.
    structured: bool
    error: BaseException | str | None
    keys: Mapping[str, Any]


class Sink(Protocol):
    def write(self, entry: Entry) -> None:
        """Write the entry; must not raise, as errors of logging cannot be reported."""


#: Packages that decide. Without handlers, the standard library prints errors on stderr: right for errors of the
#: process, wrong for a scheduler's log in a program that only asks or simulates.
_DECIDING = (
    "stowplan.scheduler.engine",
    "stowplan.scheduler.framework",
    "stowplan.scheduler.preemption",
    "stowplan.scheduler.queue",
)
_STANDARD_LEVELS: dict[Severity, int] = {"I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR}


class StandardLibrary:
    """Passes lines to the standard library's loggers, with the keys as text."""

    def __init__(self) -> None:
        for name in _DECIDING:
            logging.getLogger(name).addHandler(_NOWHERE)

    def write(self, entry: Entry) -> None:
        level = logging.DEBUG if entry.level else _STANDARD_LEVELS[entry.severity]
        logger = logging.getLogger(entry.module)
        if logger.isEnabledFor(level):
            text = entry.message + text_of_keys(entry.error, entry.keys)
            record = logger.makeRecord(logger.name, level, entry.file, entry.line, text, (), None)
            logger.handle(record)


_NOWHERE = logging.NullHandler()


class _State:
    """The configuration of all loggers of the process."""

    def __init__(self) -> None:
        self.sink: Sink = StandardLibrary()
        self.verbosity = 0
        #: Pattern of module names, and their verbosity; the first match wins (--vmodule).
        self.modules: Sequence[tuple[str, int]] = ()
        self.loggers: dict[str, Logger] = {}

    def threshold_of(self, name: str) -> int:
        module = name.rpartition(".")[2]
        named = next((level for pattern, level in self.modules if fnmatchcase(module, pattern)), 0)
        return max(self.verbosity, named)


_STATE = _State()
#: Whether the current context, and so thread or task, has a log.
_LOGGED: ContextVar[bool] = ContextVar("logged", default=True)


class Verbose(Protocol):
    """Writes the lines of one level, or drops them."""

    @property
    def enabled(self) -> bool:
        """Whether lines are written; check it before computing something only for them."""

    def info(self, message: str, /, **keys: Any) -> None: ...

    def plain(self, message: str, /) -> None:
        """Write an unstructured line, as klog's Infof does: the text without quotes."""


class _Disabled:
    enabled = False

    def info(self, message: str, /, **keys: Any) -> None:
        pass

    def plain(self, message: str, /) -> None:
        pass


class _Enabled:
    enabled = True

    def __init__(self, name: str, level: int) -> None:
        self._name = name
        self._level = level

    def info(self, message: str, /, **keys: Any) -> None:
        _write(self._name, "I", self._level, message, True, None, keys)

    def plain(self, message: str, /) -> None:
        _write(self._name, "I", self._level, message, False, None, {})


_DISABLED = _Disabled()
#: The verbosity from which on log lines contain the logger's name.
_NAMES_LOGGERS = 4
_enabled = cache(_Enabled)


class Logger:
    def __init__(self, name: str) -> None:
        self.name = name
        #: Lines up to this level are written. Hot paths compare it instead of calling `v`.
        self.verbosity = _STATE.threshold_of(name)

    def v(self, level: int) -> Verbose:
        return _enabled(self.name, level) if level <= self.verbosity else _DISABLED

    def named(self, name: str) -> dict[str, Any]:
        """The key with the name of upstream's logger, which lines about plugins have at high verbosity."""
        return {"logger": name} if self.verbosity >= _NAMES_LOGGERS else {}

    def info(self, message: str, /, **keys: Any) -> None:
        _write(self.name, "I", 0, message, True, None, keys)

    def warning(self, message: str, /, **keys: Any) -> None:
        # Parity: klog's warnings are unstructured; those with keys need the quotes to be readable.
        _write(self.name, "W", 0, message, bool(keys), None, keys)

    def error(self, err: BaseException | str | None, message: str, /, *, trace: bool = False, **keys: Any) -> None:
        """`trace` adds the stack trace of an exception: for bugs."""
        if trace and isinstance(err, BaseException):
            keys["stacktrace"] = stack_trace(err)
        _write(self.name, "E", 0, message, True, err, keys)

    def unhandled(self, err: BaseException | str | None, message: str, /, **keys: Any) -> None:
        """An error that is not handled further: upstream's HandleErrorWithContext, which adds the logger's name."""
        _write(self.name, "E", 0, message, True, err, {"logger": "UnhandledError", **keys})


def _write(
    logger: str,
    severity: Severity,
    level: int,
    message: str,
    structured: bool,
    error: BaseException | str | None,
    keys: dict[str, Any],
) -> None:
    if not _LOGGED.get():
        return
    frame = sys._getframe(2)
    module, file, line = frame.f_globals.get("__name__", ""), frame.f_code.co_filename, frame.f_lineno
    if module != logger and compiled.form != "pure":
        # Compiled code has no frame: this is one that called it.
        module, file, line = logger, f"{logger.rpartition('.')[2]}.py", 0
    _STATE.sink.write(Entry(severity, level, file, line, module, message, structured, error, keys))


class without_log(ContextDecorator):
    """Drop the lines of everything that runs within."""

    def __enter__(self) -> None:
        self._before = _LOGGED.set(False)

    def __exit__(self, *raised: object) -> None:
        _LOGGED.reset(self._before)

    def _recreate_cm(self) -> without_log:
        """Decorated functions may call each other."""
        return without_log()


def get_logger(name: str) -> Logger:
    """The logger of a module, by its `__name__`."""
    if name not in _STATE.loggers:
        _STATE.loggers[name] = Logger(name)
    return _STATE.loggers[name]


def configure(*, sink: Sink | None = None, verbosity: int = 0, modules: Sequence[tuple[str, int]] = ()) -> None:
    """Set the sink (None: the standard library's loggers), the verbosity and --vmodule's patterns."""
    _STATE.sink = StandardLibrary() if sink is None else sink
    # Go's patterns negate a character class with ^.
    _STATE.modules = [(pattern.replace("[^", "[!"), level) for pattern, level in modules]
    set_verbosity(verbosity)


def set_verbosity(verbosity: int) -> None:
    _STATE.verbosity = verbosity
    for logger in _STATE.loggers.values():
        logger.verbosity = _STATE.threshold_of(logger.name)
