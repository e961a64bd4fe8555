"""Encode pprof profiles (gzipped protobuf).

Frames are interned: each function and each line of one is written once, and stacks refer to them by number.

Upstream: github.com/google/pprof/proto/profile.proto.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from stowplan.api.protobuf_fields import bytes_field, number_field, packed_field, text_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType, FrameType


class Frame(NamedTuple):
    """A code location."""

    function: str
    file: str = ""
    #: The first line of the function.
    start: int = 0
    line: int = 0


#: Innermost frame first.
Stack = tuple[Frame, ...]


def place(code: CodeType, line: int | None) -> Frame:
    return Frame(f"{_module_of(code)}.{code.co_qualname}", code.co_filename, code.co_firstlineno, line or 0)


def _module_of(code: CodeType) -> str:
    """Derived from the file: a code object does not have its module, and its frame may be gone."""
    folder, _, file = code.co_filename.rpartition("/")
    name = file.removesuffix(".py")
    if name == "__init__":
        return folder.rpartition("/")[2]
    # Frozen modules are named "<frozen runpy>".
    return name.strip("<>").rpartition(" ")[2]


def stack_of(frame: FrameType | None, *, deepest: int = 128) -> Stack:
    """The stack of a thread, with at most `deepest` frames."""
    return tuple(place(code, line) for code, line in _walk(frame, deepest))


def _walk(frame: FrameType | None, deepest: int) -> Iterator[tuple[CodeType, int | None]]:
    while frame is not None and deepest:
        yield frame.f_code, frame.f_lineno
        frame, deepest = frame.f_back, deepest - 1


class Profile:
    """Stacks with one number for each of `types`, which are (what, unit)."""

    def __init__(self, *types: tuple[str, str], period: tuple[str, str, int] | None = None) -> None:
        self._types = types
        self._period = period
        self.samples: defaultdict[tuple[Stack, tuple[tuple[str, str], ...]], list[int]] = defaultdict(
            lambda: [0] * len(types)
        )
        #: Shown by pprof with -comments, and above reports.
        self.comments: list[str] = []
        #: Seconds.
        self.began = 0.0
        self.lasted = 0.0

    def add(self, stack: Stack, *values: int, labels: tuple[tuple[str, str], ...] = ()) -> None:
        """Equal stacks with equal labels are summed."""
        known = self.samples[stack, labels]
        for i, value in enumerate(values):
            known[i] += value

    def encode(self) -> bytes:
        return gzip.compress(_Encoder().message(self, self._types, self._period), compresslevel=1, mtime=0)


class _Encoder:
    def __init__(self) -> None:
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str, int], int] = {}
        self._locations: dict[Frame, int] = {}
        self._parts: list[bytes] = []

    def message(self, profile: Profile, types: Sequence[tuple[str, str]], period: tuple[str, str, int] | None) -> bytes:
        parts = [bytes_field(1, self._value_type(*one)) for one in types]
        parts += [bytes_field(2, self._sample(*key, values)) for key, values in profile.samples.items()]
        parts.append(bytes_field(3, self._mapping()))
        parts += self._parts
        parts += [number_field(9, round(profile.began * 1e9)), number_field(10, round(profile.lasted * 1e9))]
        if period is not None:
            parts += [bytes_field(11, self._value_type(*period[:2])), number_field(12, period[2])]
        comments = [self._string(comment) for comment in profile.comments]
        if comments:
            parts.append(packed_field(13, comments))
        # Last, because the parts above add to the string table.
        parts += [text_field(6, text) for text in self._strings]
        return b"".join(parts)

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _value_type(self, what: str, unit: str) -> bytes:
        return number_field(1, self._string(what)) + number_field(2, self._string(unit))

    def _sample(self, stack: Stack, labels: tuple[tuple[str, str], ...], values: Sequence[int]) -> bytes:
        parts = [packed_field(1, map(self._location, stack)), packed_field(2, values)]
        for key, value in labels:
            parts.append(bytes_field(3, number_field(1, self._string(key)) + number_field(2, self._string(value))))
        return b"".join(parts)

    def _location(self, frame: Frame) -> int:
        known = self._locations.get(frame)
        if known is None:
            known = self._locations[frame] = len(self._locations) + 1
            line = number_field(1, self._function(frame)) + number_field(2, frame.line)
            self._parts.append(bytes_field(4, number_field(1, known) + number_field(2, 1) + bytes_field(4, line)))
        return known

    def _function(self, frame: Frame) -> int:
        key = frame[:3]
        known = self._functions.get(key)
        if known is None:
            known = self._functions[key] = len(self._functions) + 1
            name = self._string(frame.function)
            numbers = (known, name, name, self._string(frame.file), frame.start)
            self._parts.append(bytes_field(5, b"".join(number_field(i, n) for i, n in enumerate(numbers, start=1))))
        return known

    def _mapping(self) -> bytes:
        """The program as one binary with all symbols resolved, so that pprof does not look for them."""
        known = b"".join(number_field(number, 1) for number in (7, 8, 9))
        return number_field(1, 1) + number_field(5, self._string("python")) + known
