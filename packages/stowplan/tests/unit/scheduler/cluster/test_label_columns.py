"""A label as a column of small integers: codes are looked up, shared and reused."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.labels import LabelColumn, LabelColumns

ROWS = 6
changes = st.lists(st.tuples(st.integers(0, ROWS - 1), st.sampled_from((None, "", "a", "b", "c", "d"))), max_size=40)


@given(changes)
def test_codes_distinguish_values(changes):
    column, plain = LabelColumn("k", ROWS), [None] * ROWS
    for row, value in changes:
        column.set(row, value)
        plain[row] = value
        present = {v for v in plain if v is not None}
        assert [column.values[code] if code else None for code in column.codes.tolist()] == plain
        assert {v for v, _ in column.items()} == present
        assert all(column.values[column.code(v)] == v for v in present)
        assert column.code("never seen") == 0
        assert column.unique == all(plain.count(v) == 1 for v in present)
        assert int(column.codes.max()) < column.size


@given(changes)
def test_a_column_has_no_more_codes_than_current_values(changes):
    column, plain, most = LabelColumn("k", ROWS), [None] * ROWS, 0
    for row, value in changes:
        column.set(row, value)
        plain[row] = value
        most = max(most, len({v for v in plain if v is not None}))
        # A row may add its new value before or after it drops the old one.
        assert column.size <= most + 2


def test_a_column_is_created_on_first_use_and_kept_up_to_date():
    columns = LabelColumns()
    column = columns.create("k", 2, [{"k": "a"}, None])
    assert columns.get("k") is column
    columns.set_row(1, {"k": "a", "other": "x"})
    assert column.codes.tolist() == [column.code("a")] * 2
    assert not column.unique
    columns.grow(4)
    assert column.codes.tolist() == [column.code("a")] * 2 + [0, 0]
    columns.set_row(0, {})
    assert column.unique


def test_columns_of_labels_that_no_node_has_do_not_pile_up():
    """Pods may each select a label of their own, such as the name of a job."""
    columns = LabelColumns()
    kept = columns.create("zone", 2, [{"zone": "a"}, None])
    for number in range(2000):
        columns.create(f"job-{number}", 2, [{"zone": "a"}, None])
        assert len(columns._columns) <= 300
    assert columns.get("zone") is kept
    first = columns.create("job-0", 2, [{"job-0": "x"}, None])
    assert first.codes.tolist() == [first.code("x"), 0]
