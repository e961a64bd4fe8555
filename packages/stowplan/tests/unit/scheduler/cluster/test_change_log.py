"""The log of rows whose pods changed: readers get all changes since their position, or learn that there are too
many."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.changes import ChangeLog

#: More entries than the log keeps.
MANY = 10_000


def test_an_up_to_date_reader_gets_no_rows():
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


@given(st.lists(st.lists(st.integers(0, 9), max_size=9), max_size=6), st.integers(1, 6))
def test_many_rows_at_once_are_one_after_the_other(parts, limit):
    log, single = ChangeLog(limit), ChangeLog(1_000)
    positions = [0]
    for rows in parts:
        log.extend(rows)
        for row in rows:
            single.append(row)
        positions.append(log.position)
        assert log.position == single.position
    for position in positions:
        assert log.since(position) in (None, single.since(position))
    assert log.since(log.position) == []


def test_readers_of_dropped_entries_get_unknown():
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
def test_rewinding_drops_later_entries(kept, undone, later):
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


@given(
    limit=st.integers(1, 6),
    steps=st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["begin", "undo", "keep"])), max_size=60),
)
def test_readers_get_the_exact_changes_or_unknown(limit, steps):
    """Readers at every position; the log drops old entries, and transactions are nested."""
    log = ChangeLog(limit)
    #: The effective changes, and the start of each open transaction in them.
    rows, open_ = [], []
    #: Position -> the effective changes at that time.
    readers = {log.position: []}
    for step in steps:
        if step == "begin":
            open_.append((log.position, len(rows)))
        elif step in ("undo", "keep"):
            if open_:
                position, kept = open_.pop()
                if step == "undo":
                    log.rewind(position)
                    del rows[kept:]
                    assert log.position == position
                    assert log.since(position) == []
        else:
            rows.append(step)
            log.append(step)
            assert log.position not in readers, "positions are never reused"
            readers[log.position] = list(rows)
        for position, known in readers.items():
            told = log.since(position)
            if known == rows[: len(known)]:
                assert told in (sorted(set(rows[len(known) :])), None)
            else:
                assert told is None, "the reader's position was undone"


def test_rewinding_beyond_the_kept_entries_is_exact():
    log = ChangeLog()
    start = log.position
    log.append(1)
    position = log.position
    for row in range(MANY):
        log.append(row % 7)
    inside = log.position
    log.rewind(position)
    assert log.since(position) == []
    assert log.since(inside) is None
    assert log.since(start) is None
    log.append(2)
    assert log.since(position) == [2]


@given(st.integers(1, 5), st.integers(0, 5), st.integers(1, 5))
def test_a_reader_at_an_undone_position_gets_unknown(undone, inside, later):
    """Undone positions are not reused for later changes."""
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


#: A row that changed, a position to rewind to (the oldest is 0), or a query by every reader.
STEPS = st.lists(st.one_of(st.integers(0, 3), st.tuples(st.integers(0, 5)), st.none()), max_size=20)


@given(STEPS)
def test_alternating_readers_get_their_own_answers(steps):
    """Readers at the same position share an answer, which neither later nor undone changes may corrupt."""
    log, told, seen = ChangeLog(), [], [0]
    for step in steps:
        if isinstance(step, int):
            log.append(step)
            told.append((log.position, step))
            seen.append(log.position)
        elif step is not None:
            back = seen[min(step[0], len(seen) - 1)]
            if back and back not in [number for number, _ in told]:
                continue
            log.rewind(back)
            told = [(number, row) for number, row in told if number <= back]
        kept = {0, *(number for number, _ in told)}
        for position in seen:
            after = sorted({row for number, row in told if number > position}) if position in kept else None
            assert log.since(position) == after
