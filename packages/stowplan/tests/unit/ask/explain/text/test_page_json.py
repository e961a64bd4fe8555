"""Pages survive serialization, and invalid ones are refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.ask.explain.text.page_json import PageError, page_from_json, page_to_json
from stowplan.ask.explain.text.tables import STYLES, Grid, Line, plain

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
    assert plain(page_from_json(sent)).replace("\n", "").isprintable()
