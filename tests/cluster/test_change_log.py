"""The log of rows whose pods changed: readers learn of everything that came after them, or that it is too much."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.cluster.changes import ChangeLog

#: More entries than the log keeps.
MANY = 10_000


def test_a_reader_that_knows_everything_learns_nothing():
    log = ChangeLog()
    assert log.since(log.position) == []
    log.append(3)
    assert log.since(log.position) == []


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 30))
def test_distinct_rows_in_ascending_order(rows, known):
    log, position = ChangeLog(), 0
    for i, row in enumerate(rows):
        if i == known:
            position = log.position
        log.append(row)
    if known < len(rows):
        assert log.since(position) == sorted(set(rows[known:]))


def test_old_entries_are_dropped_and_their_readers_are_told():
    log = ChangeLog()
    start = log.position
    for row in range(MANY):
        log.append(row % 7)
    recent = log.position
    log.append(6)
    log.append(5)
    assert log.since(start) is None
    assert log.since(recent) == [5, 6]


@given(st.lists(st.integers(0, 9), max_size=10), st.lists(st.integers(0, 9), max_size=10), st.integers(0, 9))
def test_rewinding_forgets_what_came_after(kept, undone, later):
    log = ChangeLog()
    start = log.position
    for row in kept:
        log.append(row)
    position = log.position
    for row in undone:
        log.append(row)
    log.rewind(position)
    assert log.since(position) == []
    assert log.since(start) == sorted(set(kept))
    log.append(later)
    assert log.since(position) == [later]


def test_rewinding_beyond_what_is_kept_tells_every_reader():
    log = ChangeLog()
    log.append(1)
    position = log.position
    for row in range(MANY):
        log.append(row % 7)
    log.rewind(position)
    assert log.since(position) is None
    now = log.position
    assert log.since(now) == []
    log.append(2)
    assert log.since(now) == [2]
    assert log.since(position) is None


@given(st.integers(1, 5), st.integers(0, 5), st.integers(1, 5))
def test_a_reader_that_stood_in_what_was_undone_is_told(undone, inside, later):
    """Positions in there are not those of other changes later on."""
    log = ChangeLog()
    log.append(0)
    before = log.position
    positions = [log.position]
    for row in range(undone):
        log.append(10 + row)
        positions.append(log.position)
    log.rewind(before)
    for row in range(later):
        log.append(20 + row)
    stood = positions[min(inside, undone)]
    if stood != before:
        assert log.since(stood) is None
