"""Kubelets report their status every few seconds: that causes no recomputation and wakes no pod."""

import copy

import pytest

from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Node
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.events import events_of_change
from stowplan.testing import a_node


def node(**condition):
    made = a_node("a").allocatable(cpu="4").obj()
    made["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"} | condition]
    return made


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        pytest.param({"lastHeartbeatTime": "2026-01-01T00:00:10Z"}, False, id="heartbeat"),
        pytest.param({"lastTransitionTime": "2026-01-01T00:00:10Z"}, False, id="transition time"),
        pytest.param({"message": "kubelet is posting"}, False, id="message"),
        pytest.param({"status": "False"}, True, id="not ready"),
    ],
)
def test_a_heartbeat_without_news_changes_nothing(change, matters):
    before, after = node(), node(**change)
    after["metadata"] = copy.deepcopy(after["metadata"]) | {"resourceVersion": "7", "managedFields": [{"manager": "k"}]}
    old, new = convert(before, Node), convert(after, Node)
    state = ClusterState()
    state.add_node(old)
    generation = state.table.generation
    state.add_node(new)
    assert bool(list(events_of_change(old, new, state.emulated_version))) is matters
    if not matters:
        assert state.table.generation == generation
