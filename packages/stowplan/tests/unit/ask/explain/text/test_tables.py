"""Pages: plain text, colors on terminals, and JSON, of which an invalid one is refused."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.ask.explain.text.tables import STYLES, Grid, Line, PageError, page_from_json, page_to_json, plain, write
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


printable = st.text(
    st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters="\u00a0\u2007\u3000"), max_size=9
).filter(str.isprintable)
cells = printable | st.lists(st.tuples(printable, st.sampled_from(sorted(STYLES))), max_size=3).map(tuple)
lines = st.tuples(cells, st.integers(0, 9), st.booleans()).map(lambda fields: Line(*fields))
grids = (
    st.integers(1, 4)
    .flatmap(
        lambda width: st.tuples(
            st.lists(st.lists(cells, min_size=width, max_size=width), max_size=4),
            st.just(()) | st.lists(printable, min_size=width, max_size=width),
            st.frozensets(st.integers(0, width - 1)),
            st.integers(0, 9),
        )
    )
    .map(lambda fields: Grid(*fields))
)


def as_lists(block):
    if isinstance(block, Line):
        return block
    return [list(map(list, block.rows)), list(block.header), block.right, block.indent]


@given(st.lists(lines | grids, max_size=5))
def test_round_trip(blocks):
    arrived = page_from_json(json.loads(json.dumps(page_to_json(blocks))))
    assert [as_lists(block) for block in arrived] == [as_lists(block) for block in blocks]
    assert plain(arrived) == plain(blocks)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "rows", "header", "right", "indent"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(anything)
def test_any_data_is_a_page_or_an_error(data):
    try:
        blocks = page_from_json(data)
    except PageError:
        return
    assert all(char.isprintable() or char == "\n" for char in plain(blocks))


@pytest.mark.parametrize("text", ["\x1b[31m", "a\nb", "\r", "\u202e", "\x07"])
def test_control_characters_are_removed(text):
    sent = [{"type": "line", "text": [[text, "head"]]}, {"type": "grid", "rows": [[text]], "header": [text]}]
    page = page_from_json(sent)
    assert plain(page).replace("\n", "").isprintable()
    written = io.StringIO()
    write([Line(((text, "head"),)), Grid([[text]], (text,))], written)
    assert written.getvalue() == plain(page)
