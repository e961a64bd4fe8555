from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.cron_schedules import parse_schedule


def at(text, zone="UTC"):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def times(schedule, after, count, zone="UTC"):
    parsed, now, found = parse_schedule(schedule, zone), at(after, zone), []
    for _ in range(count):
        now = parsed.next(now)
        found.append(datetime.fromtimestamp(now, UTC).strftime("%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("schedule", "found"),
    [
        ("*/15 * * * *", ["03-01 10:15", "03-01 10:30", "03-01 10:45"]),
        ("5/20 * * * *", ["03-01 10:05", "03-01 10:25", "03-01 10:45"]),
        ("@hourly", ["03-01 11:00", "03-01 12:00", "03-01 13:00"]),
        ("@every 90m", ["03-01 11:30", "03-01 13:00", "03-01 14:30"]),
        ("0 9-11 * * mon-fri", ["03-01 11:00", "03-02 09:00", "03-02 10:00"]),
        ("0 0 1 JAN,jun ?", ["06-01 00:00", "01-01 00:00", "06-01 00:00"]),
        ("0 0 13 * fri", ["03-05 00:00", "03-12 00:00", "03-13 00:00"]),
        ("0 0 */10 * fri", ["03-05 00:00", "03-11 00:00", "03-12 00:00"]),
        ("0 0 * * 0", ["03-07 00:00", "03-14 00:00", "03-21 00:00"]),
        ("0 0 29 2 *", ["02-29 00:00", "02-29 00:00", "02-29 00:00"]),
        ("TZ=Asia/Kolkata 0 6 * * *", ["03-02 00:30", "03-03 00:30", "03-04 00:30"]),
    ],
)
def test_times(schedule, found):
    # A Monday.
    assert times(schedule, "2027-03-01 10:00", 3) == found


def test_impossible_days_have_no_time():
    assert parse_schedule("0 0 31 2 *").next(0) is None


def test_an_hour_that_is_skipped_is_skipped():
    assert times("30 2 * * *", "2026-03-28 00:00", 2, "Europe/Berlin") == ["03-28 01:30", "03-30 00:30"]


def test_an_hour_that_repeats_comes_twice():
    assert times("30 2 * * *", "2026-10-25 00:00", 3, "Europe/Berlin") == ["10-25 00:30", "10-25 01:30", "10-26 01:30"]


def test_unknown_zones():
    with pytest.raises(ValueError, match="provided bad location Mars/Base: unknown time zone Mars/Base"):
        parse_schedule("TZ=Mars/Base * * * * *")


fields = st.sampled_from(["*", "*/7", "3", "2-5", "1,4", "3-6/2"])


@given(fields, fields, fields, fields, fields, st.integers(0, 10**6), st.sampled_from(["UTC", "Europe/Berlin"]))
def test_times_agree_with_a_look_at_every_minute(minute, hour, day, month, weekday, start, zone):
    schedule = parse_schedule(f"{minute} {hour} {day} {month} {weekday}", zone)
    now = at("2026-03-20 00:00") + start * 37
    found = schedule.next(now)
    limit = now + 3 * 86400
    expected, one = None, (int(now) // 60 + 1) * 60
    while one <= limit:
        local = datetime.fromtimestamp(one, ZoneInfo(zone))
        if _matches(local, minute, hour, day, month, weekday):
            expected = one
            break
        one += 60
    assert found == expected or (expected is None and (found is None or found > limit))


def _values(text, least, most):
    values = set()
    for part in text.split(","):
        bounds, _, step = part.partition("/")
        low, _, high = bounds.partition("-")
        first, last = (least, most) if low == "*" else (int(low), int(high or low))
        values |= set(range(first, last + 1, int(step or 1)))
    return values


def _matches(local, minute, hour, day, month, weekday):
    of_month = local.day in _values(day, 1, 31)
    of_week = local.isoweekday() % 7 in _values(weekday, 0, 6)
    of_day = of_month and of_week if "*" in (day, weekday) else of_month or of_week
    return (
        local.minute in _values(minute, 0, 59)
        and local.hour in _values(hour, 0, 23)
        and local.month in _values(month, 1, 12)
        and of_day
    )
