"""Where in the code a failure comes from, told once a place."""

import pytest

from stowplan.api.api_errors import Conflict
from stowplan.engine.error_origins import Origins
from stowplan.framework.status import error, unschedulable, wrapped


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


def test_the_innermost_cause_is_told_once_a_place():
    origins = Origins()
    first, again, other = KeyError("team"), KeyError("other"), failing_elsewhere()
    assert origins.new(failing(first)) is first
    assert origins.new(failing(again)) is None
    assert origins.new(other) is other.error
    assert origins.new(other) is None


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(unschedulable("no"), id="a refusal"),
        pytest.param(error("only a text"), id="nothing raised"),
        pytest.param(failing(Conflict("changed")), id="refused by the API server"),
    ],
)
def test_what_comes_from_no_code_has_no_origin(status):
    assert Origins().new(status) is None
