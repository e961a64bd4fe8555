"""Decodes a profile by the rules of profile.proto: stacks of names with their numbers."""

import gzip
from collections import defaultdict
from dataclasses import dataclass, field

from stowplan_cluster.apiserver.schema.wire import BYTES, fields, packed


@dataclass
class Read:
    types: list
    #: (stack of (function, file, line), innermost first; values).
    samples: list
    comments: list
    strings: list
    period: int = 0
    duration: int = 0
    mappings: list = field(default_factory=list)

    @property
    def functions(self):
        return {frame[0] for stack, _ in self.samples for frame in stack}


def message(data):
    found = defaultdict(list)
    for number, wire, value in fields(memoryview(data)):
        found[number].append(value if wire != BYTES else bytes(value))
    return found


def numbers(parts):
    return [number for part in parts for number in packed(memoryview(part), 0)]


def read_profile(body):
    whole = message(gzip.decompress(body))
    strings = [text.decode() for text in whole[6]]
    assert strings[0] == ""
    functions = {}
    for part in map(message, whole[5]):
        functions[part[1][0]] = (strings[part[2][0]], strings[part[4][0]])
    locations = {}
    mappings = {message(part)[1][0] for part in whole[3]}
    for part in map(message, whole[4]):
        assert part[2][0] in mappings
        line = message(part[4][0])
        locations[part[1][0]] = (*functions[line[1][0]], line[2][0])
    parts = [message(part) for part in whole[2]]
    samples = [([locations[i] for i in numbers(part[1])], numbers(part[2])) for part in parts]
    return Read(
        types=[(strings[t[1][0]], strings[t[2][0]]) for t in map(message, whole[1])],
        samples=samples,
        comments=[strings[i] for i in numbers(whole[13])],
        strings=strings,
        period=whole[12][0] if whole[12] else 0,
        duration=whole[10][0],
        mappings=whole[3],
    )
