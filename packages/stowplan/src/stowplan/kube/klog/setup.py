"""Configure logging for the process, including the standard library's `logging`.

Upstream: k8s.io/component-base/logs/api/v1.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Literal, TextIO

from stowplan.kube.klog import logger
from stowplan.kube.klog.entry import Entry
from stowplan.kube.klog.line_formats import Format, JsonFormat, TextFormat
from stowplan.kube.klog.streams import Buffered, Streams, Unbuffered
from stowplan.kube.klog.value_text import stack_trace
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Callable

    from stowplan.kube.klog.entry import Severity

#: The verbosities from which on INFO and DEBUG records of libraries are written.
_LIBRARIES_INFO = 4
_LIBRARIES_DEBUG = 8
#: The verbosity from which on our own DEBUG records are written.
_OWN_DEBUG = 5

_LARGEST_BUFFER = 2 * 1024**3


class LogSettings(PlainStruct, frozen=True, kw_only=True):
    format: Literal["text", "json"] = "text"
    verbosity: int = 0
    #: File pattern and verbosity; text format only.
    vmodule: tuple[tuple[str, int], ...] = ()
    #: Info to stdout, warnings and errors to stderr.
    split_stream: bool = False
    #: Size of the info buffer in bytes; only with split_stream.
    info_buffer_size: int = 0
    #: Seconds.
    flush_frequency: float = 5.0


class Logs:
    """The process's log, from `set_up` until `close`."""

    def __init__(self, format_: Format, streams: Streams, *, buffered: bool) -> None:
        self._format = format_
        self._streams = streams
        #: Whether lines may be buffered until `flush`.
        self.buffered = buffered
        self._handler = _FromStandardLibrary(self)
        self._levels_before = {name: logging.getLogger(name).level for name in _LEVELS_OF}

    def write(self, entry: Entry) -> None:
        self._streams.write(entry.severity, self._format.line(entry))

    def flush(self) -> None:
        self._streams.flush()

    def set_verbosity(self, verbosity: int) -> None:
        logger.set_verbosity(verbosity)
        for name, level_of in _LEVELS_OF.items():
            logging.getLogger(name).setLevel(level_of(verbosity))

    def open(self) -> None:
        logging.getLogger().addHandler(self._handler)

    def close(self) -> None:
        """Flush, and restore the configuration of `logging`."""
        self.flush()
        logging.getLogger().removeHandler(self._handler)
        for name, level in self._levels_before.items():
            logging.getLogger(name).setLevel(level)
        logger.configure()


def set_up(
    settings: LogSettings,
    *,
    information: TextIO | None = None,
    trouble: TextIO | None = None,
    wall_clock: Callable[[], float] = time.time,
    pid: int | None = None,
) -> Logs:
    """Configure logging, by default to this process's stdout and stderr."""
    logs = Logs(
        _format_of(settings, wall_clock, os.getpid() if pid is None else pid),
        _streams_of(settings, information or sys.stdout, trouble or sys.stderr),
        buffered=settings.split_stream and settings.info_buffer_size > 0,
    )
    logger.configure(sink=logs, modules=settings.vmodule)
    logs.set_verbosity(settings.verbosity)
    logs.open()
    return logs


def _format_of(settings: LogSettings, wall_clock: Callable[[], float], pid: int) -> Format:
    if settings.format == "json":
        return JsonFormat(wall_clock=wall_clock)
    return TextFormat(wall_clock=wall_clock, pid=pid)


def _streams_of(settings: LogSettings, information: TextIO, trouble: TextIO) -> Streams:
    errors = Unbuffered(trouble)
    if not settings.split_stream:
        return Streams(information=errors, trouble=errors, warnings=errors)
    infos: Unbuffered | Buffered = Unbuffered(information)
    if settings.info_buffer_size > 0:
        infos = Buffered(infos, min(settings.info_buffer_size, _LARGEST_BUFFER))
    # Parity: JSON lines do not distinguish warnings from info.
    return Streams(information=infos, trouble=errors, warnings=infos if settings.format == "json" else errors)


# --- the standard library's records


def _level_of_libraries(verbosity: int) -> int:
    if verbosity >= _LIBRARIES_DEBUG:
        return logging.DEBUG
    return logging.INFO if verbosity >= _LIBRARIES_INFO else logging.WARNING


_LEVELS_OF: dict[str, Callable[[int], int]] = {
    "": _level_of_libraries,
    "stowplan": lambda verbosity: logging.DEBUG if verbosity >= _OWN_DEBUG else logging.INFO,
}
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _FromStandardLibrary(logging.Handler):
    """Converts records of `logging` to entries; their `extra` becomes the keys."""

    def __init__(self, logs: Logs) -> None:
        super().__init__()
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        keys = {name: value for name, value in vars(record).items() if name not in _USUAL}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            keys["stacktrace"] = stack_trace(error)
        level = _OWN_DEBUG if record.levelno < logging.INFO else 0
        self._logs.write(
            Entry(
                severity=_severity_of(record.levelno),
                level=level,
                file=record.pathname,
                line=record.lineno,
                module=record.name,
                message=_message_of(record),
                structured=bool(keys),
                error=error,
                keys=keys,
            )
        )


def _severity_of(level: int) -> Severity:
    if level >= logging.ERROR:
        return "E"
    return "W" if level >= logging.WARNING else "I"


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        # The record's arguments do not match the placeholders of its text.
        arguments: Any = record.args
        return f"{record.msg} {arguments!r}"
