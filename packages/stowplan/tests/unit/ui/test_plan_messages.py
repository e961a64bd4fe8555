"""Deltas lead exactly from one plan to the next."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.ui.event_stream import Broadcaster
from stowplan.ui.plan import NodeRow, Plan, PlanChange, PodRow, difference
from stowplan.ui.plan_messages import change_of, delta, snapshot
from support.examples import times
from support.page.client import Client, read_all

LABELS = st.sampled_from([(), (("zone", "x"),), (("app", "web"), ("zone", "y"))])
AMOUNTS = st.sampled_from([(), (("cpu", 500),), (("cpu", 1000), ("memory", 1 << 40))])
NODES = st.builds(
    NodeRow,
    name=st.sampled_from("abc"),
    labels=LABELS,
    taints=st.sampled_from([(), (("gpu", "", "NoSchedule"),)]),
    unschedulable=st.booleans(),
    allocatable=AMOUNTS,
)
PODS = st.builds(
    PodRow,
    key=st.sampled_from(["d/p", "d/q", "e/p", "e/q"]),
    uid=st.sampled_from("12"),
    node=st.sampled_from(["", "a", "b", "unknown"]),
    nominated_node=st.sampled_from(["", "a"]),
    workload=st.sampled_from(["", "Job/j"]),
    labels=LABELS,
    requests=AMOUNTS,
    priority=st.integers(-1, 1),
    created=st.just(""),
    terminating=st.booleans(),
)
PLANS = st.builds(
    lambda nodes, pods: Plan({row.name: row for row in nodes}, {row.key: row for row in pods}),
    st.lists(NODES, max_size=4),
    st.lists(PODS, max_size=5),
)


def seen(client):
    return client.nodes, client.pods


def new_client(plan):
    client = Client()
    for make in Broadcaster(plan).snapshot():
        client.read(make())
    assert not client.wants_more
    return seen(client)


@given(PLANS, st.integers(1, 3))
def test_a_snapshot_in_parts_is_complete_with_nodes_first(plan, pods):
    whole = new_client(plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stowplan.ui.plan_messages.PODS_OF_PART", pods)
        client = Client()
        for make in Broadcaster(plan).snapshot():
            client.read(make())
            assert client.nodes.keys() == plan.nodes.keys()
            assert client.wants_more == (len(client.pods) < len(plan.pods))
    assert (seen(client), client.snapshots) == (whole, 1)


@settings(max_examples=times(60))
@given(st.lists(PLANS, min_size=1, max_size=5))
def test_deltas_lead_to_the_same_as_a_snapshot(plans):
    broadcast, client = Broadcaster(plans[0].copy()), Client()
    viewer = broadcast.viewer()
    for before, plan in zip(plans[:1] + plans, plans, strict=False):
        broadcast.publish(difference(before, plan))
        read_all(viewer, client)
        assert seen(client) == new_client(plan)
    assert client.snapshots == 1


@given(PLANS)
def test_equal_plans_have_no_delta(plan):
    assert not difference(plan, plan.copy())


def test_common_values_are_listed_once():
    pods = [PodRow(f"d/{i}", str(i), "a", "", "Job/j", (("app", "j"),), (("cpu", 1),), 0, "", False) for i in range(9)]
    block = snapshot(Plan({}, {row.key: row for row in pods}), version=1).pods
    assert block.label_sets == ({"app": "j"},)
    assert block.amount_sets == ({"cpu": 1},)
    assert (block.workloads, block.node_names, block.node) == (("Job/j",), ("", "a"), (1,) * 9)


def test_groups_of_pods_survive_the_encoding():
    gang = PodRow("d/g", "1", "", "", "", (), (), 0, "", False, "d/gang")
    alone = gang._replace(key="d/a", group="")
    found = change_of(delta(PlanChange(pods={"d/g": gang, "d/a": alone}), version=1))
    assert [row.group for row in found.pods.values()] == ["d/gang", ""]
    # As in files from before there were groups.
    message = delta(PlanChange(pods={"d/g": gang}), version=1)
    old = replace(message, pods=replace(message.pods, pod_group=(), pod_groups=()))
    assert [row.group for row in change_of(old).pods.values()] == [""]
