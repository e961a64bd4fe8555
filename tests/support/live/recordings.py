"""Recordings in files, made by a scheduler on an embedded API."""

import msgspec

from stowplan.live.recorder import Recorder
from stowplan.recordings.container import lines_of, packed


class RecordedToFile:
    """A recorder whose lines are written to a file at the end."""

    def __init__(self, path):
        self.path = path
        self._written = []
        self.recorder = Recorder(self._written.append)

    def close(self):
        self.recorder.flush()
        self.path.write_bytes(b"".join(map(packed, self._written)))


def changed_line(path, number, change):
    """Let a function change one line of a recording, decoded; the first is 0."""
    with path.open("rb") as file:
        lines = list(lines_of(file))
    line = msgspec.json.decode(lines[number])
    lines[number] = msgspec.json.encode(change(line)) + b"\n"
    path.write_bytes(packed(b"".join(lines)))
