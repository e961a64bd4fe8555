"""Encode pprof profiles (gzipped protobuf).

Upstream: github.com/google/pprof/proto/profile.proto.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING

from stowplan.kube.api.protobuf_fields import bytes_field, number_field, packed_field, text_field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stowplan.net.serving.profiling.stacks import Frame, Stack


def encode(
    samples: Mapping[Stack, Sequence[int]],
    *types: tuple[str, str],
    period: int = 1,
    began: float = 0.0,
    lasted: float = 0.0,
    comment: str = "",
) -> bytes:
    """Stacks with one number for each of `types`, which are (what, unit); `period` is in the unit of the last."""
    # Both number their keys as they come: location 0 is none, string 0 the empty one.
    strings: defaultdict[str, int] = defaultdict(count(1).__next__, {"": 0})
    locations: defaultdict[Frame, int] = defaultdict(count(1).__next__)
    value_types = [number_field(1, strings[what]) + number_field(2, strings[unit]) for what, unit in types]
    parts = [bytes_field(1, one) for one in value_types]
    for stack, values in samples.items():
        numbers = [locations[frame] for frame in stack]
        parts.append(bytes_field(2, packed_field(1, numbers) + packed_field(2, values)))
    # One binary with all symbols resolved, so that pprof does not look for them.
    resolved = b"".join(number_field(number, 1) for number in (7, 8, 9))
    parts.append(bytes_field(3, number_field(1, 1) + number_field(5, strings["python"]) + resolved))
    for frame, number in locations.items():
        # The location and its function, which have the same number.
        line = number_field(1, number) + number_field(2, frame.line)
        parts.append(bytes_field(4, number_field(1, number) + number_field(2, 1) + bytes_field(4, line)))
        name = strings[frame.function]
        function = (number, name, name, strings[frame.file], frame.start)
        parts.append(bytes_field(5, b"".join(number_field(i, value) for i, value in enumerate(function, start=1))))
    parts += [number_field(9, round(began * 1e9)), number_field(10, round(lasted * 1e9))]
    parts += [bytes_field(11, value_types[-1]), number_field(12, period), packed_field(13, [strings[comment]])]
    # Last, because the parts above add to the string table.
    parts += [text_field(6, text) for text in strings]
    return gzip.compress(b"".join(parts), compresslevel=1, mtime=0)
