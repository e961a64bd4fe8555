"""What the scheduler reads of one pod, beside what all that look alike have in common."""

import pytest

from stowplan.api.decode import convert
from stowplan.api.types import Pod
from stowplan.cluster.pod_info import NOT_STARTED, scheduler_name_of
from stowplan.cluster.state import ClusterState
from stowplan.testing import a_pod


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param(None, NOT_STARTED, id="none"),
        pytest.param("", NOT_STARTED, id="empty"),
        pytest.param("yesterday", NOT_STARTED, id="no time"),
        pytest.param("2027-01-15T08:00:00Z", 1_800_000_000 * 10**9, id="whole seconds"),
        pytest.param("2027-01-15T08:00:00.250001Z", 1_800_000_000_250_001_000, id="microseconds"),
        pytest.param("2027-01-15T09:30:00+01:30", 1_800_000_000 * 10**9, id="with an offset"),
        pytest.param("1969-12-31T23:59:59Z", -(10**9), id="before the epoch"),
    ],
)
def test_when_a_pod_started(text, nanoseconds):
    pod = a_pod("p").obj()
    pod["status"] = {"startTime": text}
    assert ClusterState().pod_info(convert(pod, Pod)).start_time == nanoseconds


@pytest.mark.parametrize(("name", "responsible"), [("mine", "mine"), ("", "default-scheduler")])
def test_who_is_to_schedule_a_pod(name, responsible):
    pod = a_pod("p").obj()
    pod["spec"]["schedulerName"] = name
    assert scheduler_name_of(convert(pod, Pod)) == responsible
