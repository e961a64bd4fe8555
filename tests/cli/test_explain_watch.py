"""`explain --watch`: the page is shown again whenever it changes."""

import pytest

from stowplan.cli.explain.answers import Answer, watch
from stowplan.explain.text.tables import Line


def test_only_changed_pages_are_shown(capsys):
    said, slept = iter(["one", "one", "two"]), []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    def answer():
        text = next(said)
        return Answer(dict, lambda: [Line(text)])

    with pytest.raises(KeyboardInterrupt):
        watch(answer, 5.0, sleep)
    assert slept == [5.0, 5.0, 5.0]
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line and not line.startswith("-- ")] == ["one", "two"]
