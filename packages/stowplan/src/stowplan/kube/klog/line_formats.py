"""Format entries as text or JSON.

    I1120 15:40:52.123456       1 live.py:123] "Message" pod="ns/name"
    {"ts":1763653252123.456,"caller":"scheduler/live.py:123","msg":"Message","v":0,"pod":{"name":"name","namespace":"ns"}}

Upstream: k8s.io/klog/v2/internal/buffer, textlogger; k8s.io/component-base/logs/json.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Protocol

from stowplan.kube.klog.object_refs import ObjectRef
from stowplan.kube.klog.quoting import go_quote
from stowplan.kube.klog.value_text import error_text, go_json, json_text, text_of_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from stowplan.kube.klog.entry import Entry


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
