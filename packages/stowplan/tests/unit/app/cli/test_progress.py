"""Progress is for people, on terminals that can erase a line."""

import io
import sys

import pytest

from stowplan.app.cli.data_output import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "term", "shown"),
    [(Terminal, "xterm", True), (Terminal, "dumb", False), (io.StringIO, "xterm", False)],
)
def test_where_progress_is_shown(monkeypatch, stream, term, shown):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stderr", stream())
    progress = Progress(unit="losses")
    progress("survive", 1, 3)
    progress.close()
    assert ("survive: 1 of 3 losses" in sys.stderr.getvalue()) == shown
    assert bool(sys.stderr.getvalue()) == shown
