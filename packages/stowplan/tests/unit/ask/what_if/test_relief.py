"""Suggestions for groups of pods, and for a PodGroup, have the effect that the change would really have."""

import copy

from hypothesis import example, given
from hypothesis import strategies as st

from stowplan import Cluster
from stowplan.ask.explain.text.overview import Group
from stowplan.ask.what_if import group_relief
from stowplan.ask.what_if.relief import relief
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.scheduling.groups import a_group
from support.what_if.objects import owned

PODS = st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["", "ssd"])), min_size=1, max_size=8)


def a_cluster(nodes, pods):
    objects = [a_node(f"n{i}").allocatable(cpu=str(cpu), pods="10").obj() for i, cpu in enumerate(nodes)]
    for i, (cpu, disk) in enumerate(pods):
        made = a_pod(f"p{i}").requests(cpu=str(cpu))
        objects.append((made.node_selector(disk=disk) if disk else made).obj())
    return Cluster(objects)


def groups_of(cluster):
    return [Group(cluster.explain(key)) for key in cluster.pending()]


MIXED = st.lists(st.tuples(st.integers(1, 8), st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=4)


@examples(30)
@given(MIXED, PODS)
# What helps both pods is not among the first suggestions for the smaller one.
@example([(1, True, False, True)] * 2 + [(1, True, True, False), (3, False, False, False)], [(1, "ssd"), (2, "ssd")])
def test_each_suggestion_places_what_it_says_once_it_is_done(nodes, pods):
    """Nodes are too small, lack a label, are tainted or cordoned. Each suggestion is carried out in another cluster."""
    objects = {}
    for i, (cpu, ssd, tainted, cordoned) in enumerate(nodes):
        made = a_node(f"n{i}").allocatable(cpu=str(cpu), pods="10")
        made = made.labels(disk="ssd") if ssd else made
        made = made.tainted("k") if tainted else made
        objects[f"n{i}"] = (made.unschedulable() if cordoned else made).obj()
    for i, (cpu, disk) in enumerate(pods):
        made = a_pod(f"p{i}").requests(cpu=str(cpu))
        objects[f"p{i}"] = (made.node_selector(disk=disk) if disk else made).obj()
    cluster = Cluster(objects.values())
    groups = groups_of(cluster)
    refused = [key for group in groups if group.is_refused for key in group.keys]
    before = cluster.state.version, cluster.pending()
    found = relief(cluster, groups)
    assert (cluster.state.version, cluster.pending()) == before
    assert [one.pods for one in found] == sorted((one.pods for one in found), reverse=True)
    for one in found:
        meant = [key.partition("/")[2] for group in groups if suggested(group, one) for key in group.keys]
        done = copy.deepcopy(objects)
        for change in one.changes:
            carry_out(change, done, meant)
        placed = Cluster(done.values()).schedule(refused)
        assert sum(1 for decision in placed if decision.node_name) == one.pods, one.text
        if any(name.startswith("new-") for name in done):
            del done["new-0"]
            fewer = Cluster(done.values()).schedule(refused)
            assert sum(1 for decision in fewer if decision.node_name) < one.pods, "fewer nodes are not enough"


def suggested(group, record):
    suggestions = group.verdict.suggestions() if group.is_refused else ()
    return any(suggestion.changes_data == record.changes for suggestion in suggestions)


def carry_out(change, done, pods):
    """Change the objects as somebody who reads the suggestion would; `pods`: those that it was made for."""
    match change:
        case {"kind": "addNodes", "nodes": number, "like": like}:
            for i in range(number):
                fresh = done[f"new-{i}"] = copy.deepcopy(done[like])
                fresh["metadata"]["name"] = f"new-{i}"
                fresh["spec"] = {**fresh.get("spec", {}), "unschedulable": False}
        case {"kind": "cordon", "uncordon": names}:
            for name in names:
                done[name]["spec"]["unschedulable"] = False
        case {"kind": "taints", "tolerate": [{"key": key, "effect": effect}]}:
            for name in pods:
                done[name]["spec"]["tolerations"] = [{"key": key, "operator": "Exists", "effect": effect}]
        case {"kind": "nodeAffinity", "drop": ["nodeSelector disk=ssd"]}:
            for name in pods:
                del done[name]["spec"]["nodeSelector"]
        case {"kind": "resources", "requests": requests}:
            for name in pods:
                done[name]["spec"]["containers"][0]["resources"]["requests"] |= requests
        case _:
            raise AssertionError(change)


def test_a_change_is_tried_for_all_its_pods():
    cluster = a_cluster([8], [(2, "ssd"), (3, "ssd"), (4, "ssd"), (1, "")])
    found = {one.text: one.pods for one in relief(cluster, groups_of(cluster))}
    # 2 and 3 fit together; 4 does not fit beside them.
    assert found["drop nodeSelector disk=ssd"] == 2
    assert not any(text.startswith("add ") for text in found)


def test_pods_that_fit_need_no_relief():
    cluster = a_cluster([8], [(2, "")])
    assert relief(cluster, groups_of(cluster)) == []


def test_what_is_moved_for_a_pod_of_its_own_kind_has_to_find_a_node():
    """They keep each other off their nodes: another one would only change places with it."""

    def web(number, node=""):
        made = a_pod(f"web-{number}").labels(app="web").requests(cpu="1")
        made = owned(made.avoids_pods("kubernetes.io/hostname", {"matchLabels": {"app": "web"}}).obj())
        return made | {"spec": made["spec"] | ({"nodeName": node} if node else {})}

    nodes = [a_node(f"n{i}").labels({"kubernetes.io/hostname": f"n{i}"}) for i in range(2)]
    full = a_pod("full").requests(cpu="4").obj()
    full["spec"]["nodeName"] = "n1"
    cluster = Cluster([*(one.allocatable(cpu="4", pods="10").obj() for one in nodes), full, web(0, "n0"), web(1)])
    assert any("move default/web-0" in one.deed for one in cluster.explain("web-1").suggestions())
    assert not [one.text for one in relief(cluster, groups_of(cluster)) if one.text.startswith("move")]


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
    return sum(
        1
        for decision in Cluster(objects.values(), feature_gates=GATES, emulated_version="1.36").schedule()
        if decision.node_name
    )


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

    @examples(80)
    @given(NODES, MEMBERS, st.integers(1, 5), st.booleans())
    @example([(2, "a", False, False)], [(2, ""), (2, "")], 2, False)
    def agrees(nodes, members, gang, topology):
        objects = objects_of(nodes, members, min(gang, len(members)), topology=topology)
        cluster = Cluster(objects.values(), feature_gates=GATES, emulated_version="1.36")
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
    cluster = Cluster(objects.values(), feature_gates=GATES, emulated_version="1.36")
    found = group_relief(cluster, cluster.explain_group("train"))
    spread = [one for one in found if one.changes == ({"kind": "dropTopology", "key": RACK},)]
    assert [one.pods for one in spread] == [2]
    assert placed(carried_out(spread[0], objects)) == 2
