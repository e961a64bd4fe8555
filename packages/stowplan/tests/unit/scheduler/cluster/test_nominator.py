"""Nominated pods by node, and which nodes' nominations changed since a reader's last look."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.nominator import Nominator
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.testing import a_pod
from support.scheduling.worlds import struct

NODES = ("a", "b", "c")
PODS = [ClusterState().pod_info(struct(a_pod(f"p{i}").uid(f"p{i}"))) for i in range(4)]

#: (pod, node); without a node the nomination is removed.
STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from((*NODES, ""))), max_size=30)


def picture(nominator):
    return {name: [info.uid for info in nominator.on(name)] for name in NODES}


@given(STEPS, st.integers(0, 30))
def test_a_reader_gets_each_node_that_changed(steps, looked_after):
    nominator = Nominator(ClusterState().pod_info)
    version, before = nominator.version, picture(nominator)
    for i, (pod, node) in enumerate(steps):
        if i == looked_after:
            version, before = nominator.version, picture(nominator)
        nominator.add(PODS[pod], node)
    changed = nominator.changed_since(version)
    now = picture(nominator)
    assert {name for name in NODES if now[name] != before[name]} <= set(changed)
    assert len(changed) == len(set(changed)) <= nominator.version - version


def test_a_renewed_nomination_is_a_change():
    nominator = Nominator(ClusterState().pod_info)
    nominator.add(PODS[0], "a")
    nominator.add(PODS[1], "b")
    version = nominator.version
    nominator.add(PODS[0], "a")
    assert nominator.changed_since(version) == ["a"]
    assert nominator.changed_since(nominator.version) == []


@pytest.mark.parametrize(
    ("looked_after", "changed"),
    [
        pytest.param(0, None, id="before the kept entries"),
        pytest.param(1, ["b", "c"], id="within the kept entries"),
    ],
)
def test_nodes_that_changed_long_ago_are_forgotten(looked_after, changed):
    nominator = Nominator(ClusterState().pod_info, remembered=2)
    versions = [nominator.version]
    for pod, node in zip(PODS, NODES, strict=False):
        nominator.add(pod, node)
        versions.append(nominator.version)
    assert nominator.changed_since(versions[looked_after]) == changed
