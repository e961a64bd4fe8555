"""`explain --watch`: the page is shown again whenever it changes."""

import pytest

from stowplan.app.cli.explain.answers import Answer, watch
from stowplan.app.command_line.error_reporting import InputError
from stowplan.ask.explain.text.tables import Line
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION


def test_only_changed_pages_are_shown(capsys):
    said, slept = iter(["one", "one", "two"]), []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    def answer():
        text = next(said)
        return Answer(version=DEFAULT_VERSION, data=dict, page=lambda: [Line(text)])

    with pytest.raises(KeyboardInterrupt):
        watch(answer, 5.0, sleep)
    assert slept == [5.0, 5.0, 5.0]
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line and not line.startswith("-- ")] == ["one", "two"]


def test_a_server_that_is_gone_for_a_while_is_asked_again(capsys):
    said = iter(["one", InputError("connection refused"), InputError("connection refused"), "one"])
    left = iter([None, None, None, KeyboardInterrupt])

    def sleep(seconds):
        stop = next(left)
        if stop is not None:
            raise stop

    def answer():
        text = next(said)
        if isinstance(text, InputError):
            raise text
        return Answer(version=DEFAULT_VERSION, data=dict, page=lambda: [Line(text)])

    with pytest.raises(KeyboardInterrupt):
        watch(answer, 5.0, sleep)
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines if line and not line.startswith("-- ")]
    assert shown == ["one", "connection refused (asking again)", "one"]


def test_a_first_answer_that_fails_ends_it():
    def answer():
        raise InputError("connection refused")

    with pytest.raises(InputError):
        watch(answer, 5.0, lambda seconds: None)
