"""Suggestions for groups of pods have the effect that the change would really have."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from stowplan.ask.explain.text.overview import Group
from stowplan.ask.offline import Cluster
from stowplan.ask.what_if.relief import relief
from stowplan.testing import a_node, a_pod
from support.examples import examples
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


@examples(60)
@given(MIXED, PODS)
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
