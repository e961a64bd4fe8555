"""Times in Go's layouts."""

import pytest

from stowplan_scheduler_plugins.go_times import RFC3339, seconds_at


@pytest.mark.parametrize(
    ("text", "layout", "seconds"),
    [
        ("1970-01-02T00:00:00Z", RFC3339, 86_400),
        ("1970-01-01T02:00:00+02:00", RFC3339, 0),
        ("1970-01-01T00:00:01.5Z", RFC3339, 1.5),
        ("1970-01-02", "2006-01-02", 86_400),
        ("02 Jan 70 00:01 -0100", "02 Jan 06 15:04 -0700", 86_400 + 60 + 3600),
        pytest.param("2026-13-01", "2006-01-02", None, id="no such month"),
        pytest.param("2026-01-01", RFC3339, None, id="of another layout"),
        pytest.param("", RFC3339, None, id="empty"),
    ],
)
def test_a_time_is_read_by_its_layout(text, layout, seconds):
    assert seconds_at(text, layout) == seconds
