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


def with_claim(name, claim, **source):
    pod = a_pod(name).labels(app="db").obj()
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim, **source}}
    return convert(pod | {"spec": {**pod["spec"], "volumes": [volume]}}, Pod)


@pytest.mark.parametrize(
    ("one", "other", "template", "shape"),
    [
        pytest.param({"claim": "data-0"}, {"claim": "data-0"}, True, True, id="the same claim"),
        pytest.param({"claim": "data-0"}, {"claim": "data-1"}, True, False, id="claims of their own"),
        pytest.param({"claim": "data-0"}, {"claim": "data-0", "readOnly": True}, False, False, id="read-only"),
    ],
)
def test_templates_leave_the_names_of_claims_out(one, other, template, shape):
    state = ClusterState()
    first, second = (state.pod_info(pod) for pod in (with_claim("db-0", **one), with_claim("db-1", **other)))
    assert (first.shape.template is second.shape.template) == template
    assert (first.shape is second.shape) == shape
    assert second.shape.claim_names == (other["claim"],)


def test_a_pod_with_a_claim_is_no_pod_without():
    state = ClusterState()
    holder = state.pod_info(with_claim("db-0", "data-0"))
    without = state.pod_info(convert(a_pod("db-1").labels(app="db").obj(), Pod))
    assert holder.shape.template is not without.shape.template
