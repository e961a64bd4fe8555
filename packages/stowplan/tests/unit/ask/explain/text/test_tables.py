"""Rendering: plain text, and colors on terminals."""

import io

import pytest

from stowplan.ask.explain.text.tables import Grid, Line, plain, write
from stowplan.scheduler.framework.explanations.formatting import amount, count, joined, listed

BLOCKS = [
    Line((("title", "head"), (" and more", ""))),
    Grid([["a", (("1", "good"),), "x [b]"], ["bbb", "1,000", ""]], ("name", "number", "text"), frozenset({1})),
    Line("end " + "word " * 60, 2),
]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_columns_align_and_nothing_wraps():
    lines = plain(BLOCKS).splitlines()
    assert lines[:4] == ["title and more", "  name  number  text", "  a          1  x [b]", "  bbb    1,000"]
    assert len(lines) == 5


def test_files_get_plain_text():
    file = io.StringIO()
    write(BLOCKS, file)
    assert file.getvalue() == plain(BLOCKS)


def test_terminals_get_colours(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    file = Terminal()
    write(BLOCKS, file)
    assert "\x1b[32m1\x1b[0m" in file.getvalue()
    assert "x [b]" in file.getvalue()


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 160])
def test_numbers_are_never_cropped(monkeypatch, columns):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(columns))
    names = ("LOST", "NODES", "PODS", "MOVE", "STRANDED", "GONE", "DISPLACED")
    row = ("topology.kubernetes.io/zone-a", "16667", "123456", "99999", "16668", "0", "1234")
    file = Terminal()
    write([Grid([row], names, frozenset(range(1, 7)))], file)
    assert set(row[1:]) < set(file.getvalue().split())


def test_no_color_is_honoured(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    file = Terminal()
    write(BLOCKS, file)
    assert "\x1b[32m" not in file.getvalue()


@pytest.mark.parametrize(
    ("resource", "number", "text"),
    [
        ("cpu", 250, "250m"),
        ("cpu", 4000, "4"),
        ("memory", 1536 * 1024 * 1024, "1536Mi"),
        ("memory", 1000, "1k"),
        ("nvidia.com/gpu", 2, "2"),
        ("hugepages-2Mi", 4 * 1024 * 1024, "4Mi"),
    ],
)
def test_amounts_as_kubernetes_writes_them(resource, number, text):
    assert amount(resource, number) == text


def test_words():
    assert [count(1, "node"), count(1203, "node")] == ["1 node", "1,203 nodes"]
    assert [joined(["a"]), joined(["a", "b"]), joined(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert listed(["a", "b", "c", "d"]) == "a, b, c, d"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
