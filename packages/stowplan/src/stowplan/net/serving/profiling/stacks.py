"""Stacks of all threads and tasks.

A waiting task is a chain of coroutines, each awaiting the next; the innermost one shows what it waits for. Tasks are
presented as goroutines.

Upstream: runtime/pprof's profile `goroutine`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any, NamedTuple

_DEEPEST = 128


class Frame(NamedTuple):
    """A code location."""

    function: str
    file: str
    #: The first line of the function.
    start: int
    line: int


#: Innermost frame first.
Stack = tuple[Frame, ...]


def _place(code: CodeType, line: int | None) -> Frame:
    return Frame(f"{_module_of(code)}.{code.co_qualname}", code.co_filename, code.co_firstlineno, line or 0)


def _module_of(code: CodeType) -> str:
    """Derived from the file: a code object does not have its module, and its frame may be gone."""
    folder, _, file = code.co_filename.rpartition("/")
    name = file.removesuffix(".py")
    if name == "__init__":
        return folder.rpartition("/")[2]
    # Frozen modules are named "<frozen runpy>".
    return name.strip("<>").rpartition(" ")[2]


def stack_of(frame: FrameType | None) -> Stack:
    """The stack of a thread."""
    frames: list[Frame] = []
    while frame is not None and len(frames) < _DEEPEST:
        frames.append(_place(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(frames)


def task_stack(task: asyncio.Task[Any]) -> Stack:
    """Innermost frame first; for the running task only its own coroutine."""
    frames: list[Frame] = []
    awaited: Any = task.get_coro()
    while awaited is not None and len(frames) < _DEEPEST:
        code = _first(awaited, "cr_code", "gi_code", "ag_code")
        if code is None:
            # A future, or an iterator in C, which cannot be inspected.
            break
        frame = _first(awaited, "cr_frame", "gi_frame", "ag_frame")
        frames.append(_place(code, code.co_firstlineno if frame is None else frame.f_lineno))
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    return tuple(reversed(frames))


def _first(of: Any, *names: str) -> Any:
    return next((getattr(of, name) for name in names if hasattr(of, name)), None)


def tasks(loop: asyncio.AbstractEventLoop | None = None) -> list[tuple[str, Stack]]:
    """(name, stack) of each task of an event loop; None: the running loop."""
    return sorted((task.get_name(), task_stack(task)) for task in asyncio.all_tasks(loop))


def threads() -> list[tuple[str, Stack]]:
    """(name, stack) of each thread."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return sorted((names.get(ident, "?"), stack_of(frame)) for ident, frame in sys._current_frames().items())


def counted_text(stacks: Iterable[Stack]) -> str:
    """Distinct stacks with counts, the most frequent first."""
    numbers = Counter(stacks)
    lines = [f"goroutine profile: total {numbers.total()}"]
    for stack, number in sorted(numbers.items(), key=lambda item: (-item[1], item[0])):
        lines += [f"{number} @", *(f"#\t{_words(frame)}" for frame in stack), ""]
    return "\n".join(lines) + "\n"


def single_text(found_tasks: Iterable[tuple[str, Stack]], found_threads: Iterable[tuple[str, Stack]]) -> str:
    """Every stack separately, with its name."""
    lines: list[str] = []
    for kind, found in (("task", found_tasks), ("thread", found_threads)):
        for name, stack in found:
            lines += [f"{kind} {name}:", *(f"\t{_words(frame)}" for frame in stack), ""]
    return "\n".join(lines) + "\n"


def _words(frame: Frame) -> str:
    return f"{frame.function}\t{frame.file}:{frame.line}"
