"""What-if answers compared with making the change in a new cluster and scheduling there.

Everything is rebuilt for each step, so errors in transactions, reuse or the handling of equal pods show.
"""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.ask.what_if import AddNodes, Label, NodeKind, Put, Remove, Scale, Taint, drain, fit, survive, what_if
from stowplan.ask.what_if.hypothetical_changes import Drain
from stowplan.ask.what_if.hypothetical_nodes import cordoned
from stowplan.ask.what_if.hypothetical_pods import copy_of, named, on_node, recreated
from stowplan.kube.api.affinity import Taint as TaintOfNode
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.types import Node, Pod, ResourceSlice
from support.examples import examples
from support.what_if.carried_out import Real, all_recreated, changed_node, on, with_claims, without
from support.what_if.random_clusters import HOST, ZONE, a_cluster, a_shaped_pod, claims_of

RANDOM = st.randoms(use_true_random=False)


def labelled(node):
    return replace(node, metadata=replace(node.metadata, labels={**node.metadata.labels, "disk": "ssd"}))


def tainted(node):
    taints = (*node.spec.taints, TaintOfNode(key="k", effect="NoExecute"))
    return replace(node, spec=replace(node.spec, taints=taints))


def unschedulable(node):
    return replace(node, spec=replace(node.spec, unschedulable=True))


def more_nodes(objects, name, number):
    """That many nodes like it, with pods of their DaemonSets."""
    (node,) = (obj for obj in objects if isinstance(obj, Node) and obj.metadata.name == name)
    daemons = [pod for pod in on(objects, name) if eviction_outcome(pod) is EvictionOutcome.BELONGS_TO_NODE]
    for i in range(number):
        added = f"{name}-like-{i + 1}"
        labels = {**node.metadata.labels, HOST: added}
        metadata = replace(node.metadata, name=added, uid=added, labels=labels)
        yield replace(node, metadata=metadata, spec=replace(node.spec, unschedulable=False))
        yield from (on_node(pod, added, f"{pod.metadata.name}-on-{added}") for pod in daemons)
        for one in objects:
            if isinstance(one, ResourceSlice) and one.spec.node_name == name:
                pool = replace(one.spec.pool, name=added)
                metadata = replace(one.metadata, name=added, uid=added)
                yield replace(one, metadata=metadata, spec=replace(one.spec, node_name=added, pool=pool))


@examples(40)
@given(RANDOM)
def test_what_if(random):
    drawn = a_cluster(random)
    cluster = drawn.cluster()
    objects = cluster.state.everything()
    name = random.choice(drawn.nodes)["metadata"]["name"]
    here = on(objects, name)
    real, back, late = objects, [], []
    match kind := random.choice(["add", "remove", "label", "taint", "drain", "put", "scale"]):
        case "add":
            number = random.randint(1, 2)
            change, real = AddNodes(number, name), [*objects, *more_nodes(objects, name, number)]
        case "remove":
            change, back = Remove(name), here
            real = [obj for obj in without(objects, here) if not (isinstance(obj, Node) and obj.metadata.name == name)]
        case "label":
            change, real = Label(name, "disk", "ssd"), changed_node(objects, name, labelled)
        case "taint":
            back = [pod for pod in here if not pod.spec.tolerations]
            change = Taint(name, "k", effect="NoExecute")
            real = changed_node(without(objects, back), name, tainted)
        case "drain":
            back = [pod for pod in here if eviction_outcome(pod) is not EvictionOutcome.BELONGS_TO_NODE]
            change, real = Drain(name), changed_node(without(objects, back), name, unschedulable)
        case "put":
            pod, _ = a_shaped_pod("new", random)
            new = [*map(decode_object, claims_of(pod, drawn, random)), decode_object(pod)]
            change, late = Put(tuple(new)), new
        case "scale":
            mine = [
                obj for obj in objects if isinstance(obj, Pod) and eviction_outcome(obj) is EvictionOutcome.RECREATED
            ]
            change = Scale("Deployment", "default", "web", len(mine) + 1 if mine else 0)
            # Pods that lost their node are scheduled first.
            models = sorted(mine, key=lambda pod: not pod.spec.node_name)[:1]
            fresh = [named(recreated(pod), f"web-added-{len(mine)}") for pod in models]
            late = [obj for pod in fresh for obj in with_claims(pod)]
    before = cluster.state.dump()
    found = what_if(cluster, change)
    assert cluster.state.dump() == before
    after = Real(drawn, real)
    # In the order in which they come.
    for obj in (*all_recreated(pod for pod in back if eviction_outcome(pod) is EvictionOutcome.RECREATED), *late):
        after.cluster.add(obj)
    after.places_all()
    usual = Real(drawn, objects).places_all()
    assert sorted(found.before.pending) == sorted(usual.cluster.pending()), kind
    assert sorted(found.after.pending) == sorted(after.cluster.pending()), kind
    homes, usually = after.homes(), usual.homes()
    assert found.placed == {key: node for key, node in homes.items() if key not in usually}, kind


def placed_one_by_one(drawn, objects, pod, most):
    """Each copy in a cluster of its own."""
    nodes = []
    while len(nodes) < most:
        fresh = copy_of(pod, f"copy-{len(nodes)}")
        *claims, fresh = with_claims(fresh)
        cluster = drawn.cluster([*objects, *claims])
        cluster.bind_claims()
        (decision,) = cluster.schedule([fresh])
        if not decision.node_name:
            break
        nodes.append(decision.node_name)
        objects = cluster.state.everything()
    return nodes


@examples(24)
@given(RANDOM)
def test_fit(random):
    drawn = a_cluster(random)
    pod, kind = a_shaped_pod("asked", random)
    if kind == "other scheduler" or eviction_outcome(decode_object(pod)) is EvictionOutcome.BELONGS_TO_NODE:
        return
    if kind != "ephemeral":
        drawn.others += claims_of(pod, drawn, random)
    pod = decode_object(pod)
    cluster = drawn.cluster()
    objects = cluster.state.everything()
    model = random.choice(drawn.nodes)["metadata"]["name"]
    wanted = random.choice([None, 1, 3, 8])
    before = cluster.state.dump()
    found = fit(cluster, pod, replicas=wanted, kinds=None if wanted is None else [NodeKind(model)])
    assert cluster.state.dump() == before
    nodes = placed_one_by_one(drawn, objects, pod, 60 if wanted is None else wanted)
    assert found.per_node == {node: nodes.count(node) for node in sorted(set(nodes))}, kind
    for add in found.nodes_to_add:
        for number, enough in ((add.count, True), (add.count - 1, False)):
            larger = [*objects, *more_nodes(objects, model, number)]
            assert (len(placed_one_by_one(drawn, larger, pod, wanted)) == wanted) is enough, kind


@examples(24)
@given(RANDOM)
def test_drain(random):
    drawn = a_cluster(random)
    cluster = drawn.cluster()
    names = [node["metadata"]["name"] for node in random.sample(drawn.nodes, random.randint(1, 2))]
    found = drain(cluster, names)
    objects = cluster.state.everything()
    for name in names:
        objects = changed_node(objects, name, cordoned)
    real = Real(drawn, objects)
    blocked = {block.pod for block in found.blocked_by}
    for name in found.nodes:
        for pod in on(real.cluster.state.everything(), name):
            outcome = eviction_outcome(pod)
            if outcome is not EvictionOutcome.BELONGS_TO_NODE and f"default/{pod.metadata.name}" not in blocked:
                real.cluster = drawn.cluster(without(real.cluster.state.everything(), [pod]))
                real.places([pod] if outcome is EvictionOutcome.RECREATED else [])
    real.tries(list(real.stranded))
    assert [(move.pod, move.to) for move in found.moves] == real.moves
    assert {stranded.pod for stranded in found.stranded} == real.stranded.keys()
    assert set(found.displaced) == set(real.displaced)


@examples(24)
@given(RANDOM)
def test_survive(random):
    drawn = a_cluster(random)
    cluster = drawn.cluster()
    objects = cluster.state.everything()
    by = random.choice(["node", ZONE])
    for loss in survive(cluster, by).losses:
        lost = {
            node["metadata"]["name"]
            for node in drawn.nodes
            if node["metadata"]["labels"][HOST if by == "node" else ZONE] == loss.lost
        }
        pods = [pod for name in sorted(lost) for pod in on(objects, name)]
        left = [obj for obj in without(objects, pods) if not (isinstance(obj, Node) and obj.metadata.name in lost)]
        real = Real(drawn, left)
        real.places([pod for pod in pods if eviction_outcome(pod) is EvictionOutcome.RECREATED])
        assert {stranded.pod for stranded in loss.stranded} == real.stranded.keys()
        assert list(loss.displaced) == list(dict.fromkeys(real.displaced))
