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


@given(
    limit=st.integers(1, 6),
    steps=st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["begin", "undo", "keep"])), max_size=60),
)
def test_what_readers_are_told_is_exact_or_that_there_is_no_telling(limit, steps):
    """Readers stand at every position that ever was; the log forgets, in transactions within transactions."""
    log = ChangeLog(limit)
    #: The changes that count, and the open transactions' beginnings in them.
    rows, open_ = [], []
    #: Position -> the changes that counted then.
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
            assert log.position not in readers, "no position is given twice"
            readers[log.position] = list(rows)
        for position, known in readers.items():
            told = log.since(position)
            if known == rows[: len(known)]:
                assert told in (sorted(set(rows[len(known) :])), None)
            else:
                assert told is None, "what the reader knows was undone"


def test_rewinding_beyond_what_is_kept_is_exact():
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


#: A row that changed, the position to go back to (the oldest is 0), or a question of every reader.
STEPS = st.lists(st.one_of(st.integers(0, 3), st.tuples(st.integers(0, 5)), st.none()), max_size=20)


@given(STEPS)
def test_readers_that_ask_in_turn_do_not_mix_their_answers_up(steps):
    """Several readers at one place share an answer, which neither later changes nor undone ones may spoil."""
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
