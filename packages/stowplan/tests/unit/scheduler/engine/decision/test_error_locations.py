"""The source location of a failure, reported once per location."""

import pytest

from stowplan.kube.api.api_errors import Conflict
from stowplan.scheduler.engine.decision.error_locations import LoggedLocations
from stowplan.scheduler.framework.status import error, unschedulable, wrapped


def failing(what):
    """The status of a plugin that raises."""
    try:
        raise what
    except type(what) as raised:
        return wrapped('running Filter plugin "P"', error(raised))


def failing_elsewhere():
    try:
        return {}["team"]
    except KeyError as raised:
        return error(raised)


def test_the_innermost_cause_is_reported_once_per_location():
    locations = LoggedLocations()
    first, again, other = KeyError("team"), KeyError("other"), failing_elsewhere()
    assert locations.first_error_at(failing(first)) is first
    assert locations.first_error_at(failing(again)) is None
    assert locations.first_error_at(other) is other.error
    assert locations.first_error_at(other) is None


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(unschedulable("no"), id="a refusal"),
        pytest.param(error("only a text"), id="nothing raised"),
        pytest.param(failing(Conflict("changed")), id="refused by the API server"),
    ],
)
def test_a_status_without_a_local_exception_has_no_location(status):
    assert LoggedLocations().first_error_at(status) is None
