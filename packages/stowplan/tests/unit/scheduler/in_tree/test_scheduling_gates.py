"""SchedulingGates: gated pods stay out of the queue."""

import pytest

from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.in_tree.scheduling_gates.plugin import SchedulingGates
from stowplan.testing import a_pod


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        (["a"], "waiting for scheduling gates: [a]"),
        (["foo", "bar"], "waiting for scheduling gates: [foo bar]"),
    ],
)
def test_gated(bench, gates, message):
    world = bench(SchedulingGates)
    status = world.plugin.pre_enqueue(world.pod(a_pod().gated(*gates)))
    assert (status.code, status.message) == (Code.UnschedulableAndUnresolvable, message)


def test_free(bench):
    world = bench(SchedulingGates)
    assert world.plugin.pre_enqueue(world.pod(a_pod())) is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(a_pod().gated("a", "b"), a_pod(), "Queue", id="all gates gone"),
        pytest.param(a_pod().gated("a", "b"), a_pod().gated("a"), None, id="some gates gone"),
        pytest.param(a_pod("q").gated("a"), a_pod("q"), "Skip", id="another pod"),
    ],
)
def test_hint(bench, old, new, expected):
    assert bench(SchedulingGates).hint(a_pod().gated("a", "b"), old, new) == expected
