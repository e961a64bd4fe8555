"""Tolerations and taints."""

import pytest

from stowplan.kube.api.taints import eviction_due, tolerates, untolerated
from stowplan.kube.api.types import Taint, Toleration

TAINT = Taint(key="k", value="v", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param(Toleration(key="k", value="v"), True, id="empty operator is Equal"),
        pytest.param(Toleration(key="k", operator="Equal", value="x"), False, id="other value"),
        pytest.param(Toleration(key="k", operator="Exists"), True, id="Exists"),
        pytest.param(Toleration(operator="Exists"), True, id="everything"),
        pytest.param(Toleration(operator="Exists", effect="NoExecute"), False, id="other effect"),
        pytest.param(Toleration(key="x", operator="Exists"), False, id="other key"),
        pytest.param(Toleration(), False, id="empty key still compares values"),
        pytest.param(Toleration(value="v"), True, id="empty key, same value"),
        pytest.param(Toleration(key="k", operator="Foo", value="v"), False, id="unknown operator"),
    ],
)
def test_tolerating(toleration, expected):
    assert tolerates(toleration, TAINT) is expected
    assert tolerates(toleration, TAINT, True) is expected


@pytest.mark.parametrize(
    ("operator", "tolerated", "tainted", "expected"),
    [
        ("Lt", "5", "4", True),
        ("Lt", "5", "5", False),
        ("Gt", "5", "6", True),
        ("Gt", "-5", "-4", True),
        ("Gt", "05", "6", False),
        ("Gt", "5", "+6", False),
        ("Gt", "5", "-0", False),
        ("Gt", "5", "9223372036854775808", False),
        ("Gt", "", "6", False),
    ],
)
def test_comparison_operators(operator, tolerated, tainted, expected):
    toleration = Toleration(key="k", operator=operator, value=tolerated)
    taint = Taint(key="k", value=tainted, effect="NoSchedule")
    assert tolerates(toleration, taint, comparison_operators=True) is expected
    assert not tolerates(toleration, taint)


def test_the_first_untolerated_taint_of_the_effects_is_found():
    soft = Taint(key="s", effect="PreferNoSchedule")
    other = Taint(key="o", effect="NoExecute")
    assert untolerated([soft, TAINT, other], []) is TAINT
    assert untolerated([soft, TAINT, other], [Toleration(key="k", operator="Exists")]) is other
    assert untolerated([soft], []) is None
    assert untolerated([soft], [], ("PreferNoSchedule",)) is soft


@pytest.mark.parametrize(
    ("keys", "scheduled", "due"),
    [
        pytest.param(["ever"], 105.0, None, id="tolerated for ever"),
        pytest.param(["short"], None, 120.0, id="for a time"),
        pytest.param(["short", "long", "ever"], None, 120.0, id="for the shortest time"),
        pytest.param(["short"], 150.0, 150.0, id="a time that is set stays"),
        pytest.param(["short", "other"], 150.0, 100.0, id="not tolerated"),
        pytest.param(["never"], None, 100.0, id="for less than no time"),
    ],
)
def test_when_a_pod_is_evicted(keys, scheduled, due):
    seconds = {"ever": None, "short": 20, "long": 500, "never": -5}
    tolerations = [Toleration(key=key, operator="Exists", toleration_seconds=each) for key, each in seconds.items()]
    taints = [Taint(key=key, effect="NoExecute") for key in keys]
    assert eviction_due(taints, tolerations, scheduled=scheduled, now=100.0) == due
