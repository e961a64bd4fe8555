"""Configure logging for the process, including the standard library's `logging`.

Upstream: k8s.io/component-base/logs/api/v1.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, Protocol, TextIO

from stowplan.kube.klog import logger
from stowplan.kube.klog.logger import Entry, Severity
from stowplan.kube.klog.value_text import ObjectRef, error_text, go_json, go_quote, json_text, stack_trace, text_of_keys
from stowplan.kube.structs import PlainStruct

# Output streams: combined, or split into info and error streams.
#
# Lines are written immediately, except that info lines with a stream of their own may be buffered until the next
# `flush`.
#
# Upstream: k8s.io/component-base/logs/api/v1/text.go, logs/json/json.go.


class Writer(Protocol):
    def write(self, line: str) -> None: ...

    def flush(self) -> None: ...


class Unbuffered:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, line: str) -> None:
        try:
            try:
                self._stream.write(line)
            except UnicodeEncodeError:
                # Characters that the stream's encoding lacks, or lone surrogates.
                self._stream.write(line.encode("ascii", "backslashreplace").decode())
            self._stream.flush()
        except (OSError, ValueError):
            # Parity: if stderr is closed, lines are dropped and the scheduler continues.
            return

    def flush(self) -> None:
        """No-op: nothing is buffered."""


class Buffered:
    """Buffers lines up to `size` bytes, or until `flush`."""

    def __init__(self, out: Writer, size: int) -> None:
        self._out = out
        self._size = size
        self._waiting = io.StringIO()
        self._bytes = 0

    def write(self, line: str) -> None:
        size = len(line.encode("utf-8", "replace"))
        if self._bytes + size > self._size:
            self.flush()
        if size > self._size:
            self._out.write(line)
            return
        self._waiting.write(line)
        self._bytes += size

    def flush(self) -> None:
        if self._bytes:
            text, self._waiting, self._bytes = self._waiting.getvalue(), io.StringIO(), 0
            self._out.write(text)


class Streams:
    """The stream of each severity."""

    def __init__(self, *, information: Writer, trouble: Writer, warnings: Writer) -> None:
        self._information = information
        self._writers: dict[Severity, Writer] = {"I": information, "W": warnings, "E": trouble}

    def write(self, severity: Severity, line: str) -> None:
        self._writers[severity].write(line)

    def flush(self) -> None:
        self._information.flush()


# Format entries as text or JSON.
#
#     I1120 15:40:52.123456       1 live.py:123] "Message" pod="ns/name"     {"ts":1763653252123.456,"caller":"schedul
# er/live.py:123","msg":"Message","v":0,"pod":{"name":"name","namespace":"ns"}}
#
# Upstream: k8s.io/klog/v2/internal/buffer, textlogger; k8s.io/component-base/logs/json.


class Format(Protocol):
    def line(self, entry: Entry) -> str:
        """Render the entry, newline included."""


class TextFormat:
    def __init__(self, *, wall_clock: Callable[[], float], pid: int) -> None:
        self._wall_clock = wall_clock
        self._pid = f"{pid:>7}"
        self._second = -1
        self._shown = ""

    def line(self, entry: Entry) -> str:
        message = go_quote(entry.message) if entry.structured else entry.message
        # Parity: klog writes the process's id in the field for the thread's.
        header = f"{entry.severity}{self._now()} {self._pid} {_name_of(entry.file)}:{entry.line}] "
        return f"{header}{message}{text_of_keys(entry.error, entry.keys)}\n"

    def _now(self) -> str:
        microseconds = int(self._wall_clock() * 1_000_000)
        second, rest = divmod(microseconds, 1_000_000)
        if second != self._second:
            self._second, self._shown = second, time.strftime("%m%d %H:%M:%S", time.localtime(second))
        return f"{self._shown}.{rest:06d}"


class JsonFormat:
    def __init__(self, *, wall_clock: Callable[[], float]) -> None:
        self._wall_clock = wall_clock

    def line(self, entry: Entry) -> str:
        keys = dict(entry.keys)
        # Parity: a logger's name is between time and location.
        named = f',"logger":{json_text(keys.pop("logger"))}' if "logger" in keys else ""
        place = f"{_short_path(entry.file)}:{entry.line}"
        parts = [f'{{"ts":{self._now()}{named},"caller":"{place}","msg":{json_text(entry.message)}']
        if entry.severity != "E":
            # Parity: a warning is an info line of level 0.
            parts.append(f',"v":{entry.level}')
        for key, value in keys.items():
            parts.append(f",{json_text(key)}:{go_json(value, reference=ObjectRef.to_dict)}")
        if entry.error is not None:
            parts.append(f',"err":{json_text(error_text(entry.error))}')
        return "".join(parts) + "}\n"

    def _now(self) -> str:
        # In microseconds, the precision of the clock's float.
        return f"{self._wall_clock() * 1000:.3f}".rstrip("0").rstrip(".")


@cache
def _name_of(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]


@cache
def _short_path(file: str) -> str:
    """The file and its parent directory."""
    return "/".join(file.replace("\\", "/").split("/")[-2:])


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
