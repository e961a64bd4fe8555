"""The log of rows whose pods changed: readers get all changes since their position, or learn that there are too
many."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.changes import ChangeLog


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
    for row in range(10_000):
        log.append(row % 7)
    inside = log.position
    log.rewind(position)
    assert log.since(position) == []
    assert log.since(inside) is None
    assert log.since(start) is None
    log.append(2)
    assert log.since(position) == [2]
