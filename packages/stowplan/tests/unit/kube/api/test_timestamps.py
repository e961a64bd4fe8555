import pytest

from stowplan.kube.api.meta import micro_timestamp, parse_timestamp, timestamp


@pytest.mark.parametrize(
    ("seconds", "whole", "micro"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        (1_800_000_000.25, "2027-01-15T08:00:00Z", "2027-01-15T08:00:00.250000Z"),
        (1_800_000_000.999, "2027-01-15T08:00:00Z", "2027-01-15T08:00:00.999000Z"),
        (1_709_164_799.000001, "2024-02-28T23:59:59Z", "2024-02-28T23:59:59.000001Z"),
    ],
)
def test_times_are_written_as_kubernetes_does(seconds, whole, micro):
    assert (timestamp(seconds), micro_timestamp(seconds)) == (whole, micro)
    assert parse_timestamp(micro) == seconds


def test_the_latest_time():
    assert timestamp(2.0**63) == "9999-12-31T23:59:59Z"
    assert timestamp(parse_timestamp("9999-12-31T23:59:59Z")) == "9999-12-31T23:59:59Z"
