"""Suggestions for a pod group that does not fit, each carried out in another cluster, where the group is scheduled."""

import copy

from hypothesis import example, given
from hypothesis import strategies as st

from stowplan import Cluster
from stowplan.ask.what_if import group_relief
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.scheduling.groups import a_group

GATES = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
RACK = "example.com/rack"

NODES = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from("ab"), st.booleans(), st.booleans()), min_size=1, max_size=5
)
MEMBERS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["", "", "ssd"])), min_size=1, max_size=5)


def objects_of(nodes, members, gang, *, topology):
    """By name; some nodes have another disk, or a taint."""
    objects = {"train": a_group("train", gang=gang, topology=RACK if topology else None)}
    for i, (cpu, rack, ssd, tainted) in enumerate(nodes):
        made = a_node(f"n{i}").allocatable(cpu=str(cpu), memory="8Gi", pods="4").labels(**{RACK: rack})
        made = made.labels(disk="ssd") if ssd else made
        objects[f"n{i}"] = (made.tainted("k") if tainted else made).obj()
    for i, (cpu, disk) in enumerate(members):
        made = a_pod(f"t{i}").requests(cpu=str(cpu)).spec(schedulingGroup={"podGroupName": "train"})
        objects[f"t{i}"] = (made.node_selector(disk=disk) if disk else made).obj()
    return objects


def placed(objects):
    """The number of the group's pods that get a node."""
    return sum(1 for decision in Cluster(objects.values(), feature_gates=GATES).schedule() if decision.node_name)


def carried_out(record, objects, *, nodes_less=0):
    """The objects, changed as somebody who reads the suggestion would."""
    done = copy.deepcopy(objects)
    pods = [obj["spec"] for obj in done.values() if obj["kind"] == "Pod"]
    for change in record.changes:
        match change:
            case {"kind": "addNodes", "nodes": number, "like": like}:
                for i in range(number - nodes_less):
                    fresh = done[f"new-{i}"] = copy.deepcopy(done[like])
                    fresh["metadata"]["name"] = f"new-{i}"
            case {"kind": "taints", "tolerate": [{"key": key, "effect": effect}]}:
                for spec in pods:
                    spec["tolerations"] = [{"key": key, "operator": "Exists", "effect": effect}]
            case {"kind": "nodeAffinity", "drop": ["nodeSelector disk=ssd"]}:
                for spec in pods:
                    spec.pop("nodeSelector", None)
            case {"kind": "resources", "requests": requests}:
                for spec in pods:
                    spec["containers"][0]["resources"]["requests"] |= requests
            case {"kind": "minCount", "value": value}:
                done["train"]["spec"]["schedulingPolicy"]["gang"]["minCount"] = value
            case {"kind": "dropTopology", "key": key}:
                assert done["train"]["spec"].pop("schedulingConstraints") == {"topology": [{"key": key}]}
            case _:
                raise AssertionError(change)
    return done


def test_each_suggestion_places_what_it_says_once_it_is_carried_out():
    kinds = set()

    @examples(150)
    @given(NODES, MEMBERS, st.integers(1, 5), st.booleans())
    @example([(2, "a", False, False)], [(2, ""), (2, "")], 2, False)
    def agrees(nodes, members, gang, topology):
        objects = objects_of(nodes, members, min(gang, len(members)), topology=topology)
        cluster = Cluster(objects.values(), feature_gates=GATES)
        before = cluster.state.version, cluster.pending()
        found = group_relief(cluster, cluster.explain_group("train"))
        assert (cluster.state.version, cluster.pending()) == before
        assert not found or placed(objects) < len(members), "a group that fits needs no relief"
        assert [one.pods for one in found] == sorted((one.pods for one in found), reverse=True)
        for one in found:
            kinds.update(change["kind"] for change in one.changes)
            assert placed(carried_out(one, objects)) == one.pods, one.text
            if one.changes[0]["kind"] == "addNodes":
                assert placed(carried_out(one, objects, nodes_less=1)) < one.pods, "fewer nodes are not enough"

    agrees()
    assert {"addNodes", "minCount"} <= kinds


def test_a_group_that_only_lacks_room_in_one_rack():
    nodes = [(2, "a", False, False), (2, "b", False, False)]
    objects = objects_of(nodes, [(2, ""), (2, "")], 2, topology=True)
    cluster = Cluster(objects.values(), feature_gates=GATES)
    found = group_relief(cluster, cluster.explain_group("train"))
    spread = [one for one in found if one.changes == ({"kind": "dropTopology", "key": RACK},)]
    assert [one.pods for one in spread] == [2]
    assert placed(carried_out(spread[0], objects)) == 2
