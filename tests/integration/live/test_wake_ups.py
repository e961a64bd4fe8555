"""Which events wake a pod that was refused for its node or for other pods, and which do not."""

import pytest

from support.api.manifests import node, pod
from support.scheduling.attempts import asking, labelled, on, sized
from support.scheduling.waking import (
    change,
    check_row,
    create,
    delete,
    reallocate,
    relabel,
    resize,
    retaint,
    row,
    taint,
    tolerate,
)

ZONE = "topology.kubernetes.io/zone"


def in_zone(name, zone="a", **spec):
    return labelled(node(name, **spec), **{ZONE: zone})


def nodes(*objs):
    return [("nodes", obj) for obj in objs]


def there(*objs):
    return [("pods", obj) for obj in objs]


def tainted(name, *keys, **labels):
    return labelled(node(name, taints=[taint(key) for key in keys]), **labels)


def annotate(name):
    return change("nodes", name, {"metadata": {"annotations": {"x": "y"}}})


ANOTHER = relabel("nodes", "n1", x="y")
NODE_ADD, NODE_TAINT, NODE_LABEL = "NodeAdd", "NodeUpdateNodeTaint", "NodeUpdateNodeLabel"
POD_ADD, POD_DELETE, POD_LABEL = "AssignedPodAdd", "AssignedPodDelete", "AssignedPodUpdatePodLabel"


def with_port(name, port):
    made = pod(name)
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": port}]
    return made


def waiting(made):
    """The pod, assigned to a scheduler that does not run."""
    made["spec"]["schedulerName"] = "nobody"
    return made


def near(name="web", app="db", *, away=False):
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    kind = "podAntiAffinity" if away else "podAffinity"
    return pod(name, affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def spread(name="web", **more):
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "minDomains": 5,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **more,
    }
    return pod(name, labels={"app": "web"}, topologySpreadConstraints=[constraint])


SELECTING = pod(nodeSelector={"a": "b"})
FULL = [*nodes(node("n1")), *there(on("n1", asking(pod("large"), cpu="2", memory="1Gi")))]
THREE = asking(pod(), cpu="3")
SPREAD_OUT = [
    *nodes(in_zone("n1"), in_zone("n2", "b")),
    *there(on("n1", pod("one", labels={"app": "web"})), on("n2", pod("two", labels={"app": "web"}))),
]
CROWDED = [*nodes(in_zone("n1")), *there(on("n1", pod("db")), on("n1", pod("other")))]

ROWS = [
    row(
        "NodeUnschedulable",
        "a node comes",
        before=nodes(node("n1", unschedulable=True)),
        idle=[create("nodes", node("n2", unschedulable=True))],
        wake=create("nodes", node("n3")),
        cause=NODE_ADD,
        node_name="n3",
    ),
    row(
        "NodeUnschedulable",
        "a node is uncordoned",
        before=nodes(node("n1", unschedulable=True)),
        idle=[ANOTHER, retaint("n1", "t"), retaint("n1")],
        wake=change("nodes", "n1", {"spec": {"unschedulable": None}}),
        cause=NODE_TAINT,
        node_name="n1",
    ),
    row(
        "NodeUnschedulable",
        "its toleration",
        before=[*nodes(node("n1", unschedulable=True)), *there(pod("other"))],
        idle=[tolerate("web", "x"), tolerate("other", "node.kubernetes.io/unschedulable")],
        wake=tolerate("web", "node.kubernetes.io/unschedulable"),
        cause="UnschedulablePodUpdatePodToleration",
        node_name="n1",
    ),
    row(
        "TaintToleration",
        "a node comes",
        before=nodes(tainted("n1", "t")),
        idle=[create("nodes", tainted("n2", "t"))],
        wake=create("nodes", node("n3")),
        cause=NODE_ADD,
        node_name="n3",
    ),
    row(
        "TaintToleration",
        "a taint goes",
        before=nodes(tainted("n1", "t")),
        idle=[ANOTHER, retaint("n1", "t", "u"), retaint("n1", "u")],
        wake=retaint("n1"),
        cause=NODE_TAINT,
        node_name="n1",
    ),
    row(
        "TaintToleration",
        "its toleration",
        before=[*nodes(tainted("n1", "t")), *there(pod("other"))],
        idle=[tolerate("other", "t")],
        wake=tolerate("web", "t"),
        cause="UnschedulablePodUpdatePodToleration",
        node_name="n1",
    ),
    row(
        "NodeAffinity",
        "a node comes",
        pod=SELECTING,
        before=nodes(node("n1")),
        idle=[create("nodes", node("n2"))],
        wake=create("nodes", labelled(node("n3"), a="b")),
        cause=NODE_ADD,
        node_name="n3",
    ),
    row(
        "NodeAffinity",
        "labels change",
        pod=SELECTING,
        before=nodes(node("n1")),
        idle=[relabel("nodes", "n1", a="c")],
        wake=relabel("nodes", "n1", a="b"),
        cause=NODE_LABEL,
        node_name="n1",
    ),
    row(
        "NodeAffinity",
        "a taint goes",
        pod=SELECTING,
        before=nodes(tainted("n1", "t")),
        idle=[annotate("n1")],
        wake=retaint("n1"),
        cause=NODE_TAINT,
    ),
    row(
        "NodePorts",
        "who held the port goes",
        pod=with_port("web", 8080),
        before=[
            *nodes(node("n1")),
            *there(on("n1", with_port("holder", 8080)), on("n1", with_port("other", 8081))),
            *there(waiting(with_port("pending", 8080))),
        ],
        idle=[delete("pods", "other"), delete("pods", "pending")],
        wake=delete("pods", "holder"),
        cause=POD_DELETE,
        node_name="n1",
    ),
    row(
        "NodePorts",
        "a node comes",
        pod=with_port("web", 8080),
        before=[*nodes(node("n1")), *there(on("n1", with_port("holder", 8080)))],
        idle=[ANOTHER],
        wake=create("nodes", node("n2")),
        cause=NODE_ADD,
        node_name="n2",
    ),
    row(
        "NodePorts",
        "a taint goes",
        pod=with_port("web", 8080),
        before=[*nodes(tainted("n1", "t")), *there(on("n1", with_port("holder", 8080)))],
        idle=[annotate("n1")],
        wake=retaint("n1"),
        cause=NODE_TAINT,
    ),
    row(
        "NodeResourcesFit",
        "a pod goes",
        pod=THREE,
        before=[*FULL, *there(waiting(pod("pending")))],
        idle=[delete("pods", "pending")],
        wake=delete("pods", "large"),
        cause=POD_DELETE,
        node_name="n1",
    ),
    row(
        "NodeResourcesFit",
        "it asks for less",
        pod=THREE,
        before=[*FULL, *there(asking(pod("other"), cpu="3500m"))],
        idle=[resize("web", cpu="3100m"), resize("other", cpu="3")],
        wake=resize("web", cpu="1"),
        cause="UnschedulablePodUpdatePodScaleDown",
        node_name="n1",
    ),
    row(
        "NodeResourcesFit",
        "a placed pod takes less",
        pod=THREE,
        before=FULL,
        idle=[resize("large", memory="512Mi"), relabel("pods", "large", x="y")],
        wake=resize("large", cpu="1"),
        cause="AssignedPodUpdatePodScaleDown",
        node_name="n1",
    ),
    row(
        "NodeResourcesFit",
        "a node comes",
        pod=THREE,
        before=FULL,
        idle=[create("nodes", sized(node("n2"), cpu="1"))],
        wake=create("nodes", sized(node("n3"), cpu="3")),
        cause=NODE_ADD,
        node_name="n3",
    ),
    row(
        "NodeResourcesFit",
        "a node grows",
        pod=THREE,
        before=[*FULL, *nodes(sized(node("n2"), cpu="1"))],
        idle=[ANOTHER, reallocate("n1", memory="64Gi"), reallocate("n2", cpu="2")],
        wake=reallocate("n1", cpu="8"),
        cause="NodeUpdateNodeAllocatable",
        node_name="n1",
    ),
    row(
        "NodeResourcesFit",
        "a node takes more pods",
        before=[*nodes(sized(node("n1"), cpu="4", pods="1")), *there(on("n1", pod("other")))],
        idle=[reallocate("n1", memory="64Gi")],
        wake=reallocate("n1", pods="2"),
        cause="NodeUpdateNodeAllocatable",
        node_name="n1",
    ),
    row(
        "NodeResourcesFit",
        "a taint goes",
        pod=asking(pod(), cpu="64"),
        before=nodes(tainted("n1", "t")),
        idle=[annotate("n1")],
        wake=retaint("n1"),
        cause=NODE_TAINT,
    ),
    row(
        "PodTopologySpread",
        "a pod that counts comes",
        pod=spread(),
        before=SPREAD_OUT,
        idle=[create("pods", on("n1", pod("other")))],
        wake=create("pods", on("n1", pod("three", labels={"app": "web"}))),
        cause=POD_ADD,
    ),
    row(
        "PodTopologySpread",
        "a pod no longer counts",
        pod=spread(),
        before=SPREAD_OUT,
        idle=[relabel("pods", "one", x="y")],
        wake=relabel("pods", "one", app="db"),
        cause=POD_LABEL,
        node_name="n1",
    ),
    row(
        "PodTopologySpread",
        "a pod that counts goes",
        pod=spread(),
        before=[*SPREAD_OUT, *there(on("n1", pod("other")), waiting(pod("pending", labels={"app": "web"})))],
        idle=[delete("pods", "other"), delete("pods", "pending")],
        wake=delete("pods", "two"),
        cause=POD_DELETE,
        node_name="n2",
    ),
    row(
        "PodTopologySpread",
        "its own labels",
        pod=spread(),
        before=SPREAD_OUT,
        idle=[relabel("pods", "web", x="y"), tolerate("web", "x")],
        wake=relabel("pods", "web", app="db"),
        cause="UnschedulablePodUpdatePodLabel",
        node_name="n1",
    ),
    row(
        "PodTopologySpread",
        "its own toleration",
        pod=spread(nodeTaintsPolicy="Honor"),
        before=[*SPREAD_OUT, *there(spread("other", nodeTaintsPolicy="Honor"))],
        idle=[tolerate("other", "x")],
        wake=tolerate("web", "x"),
        cause="UnschedulablePodUpdatePodToleration",
    ),
    row(
        "PodTopologySpread",
        "a node comes",
        pod=spread(),
        before=SPREAD_OUT,
        idle=[create("nodes", node("n3"))],
        wake=create("nodes", in_zone("n4", "c")),
        cause=NODE_ADD,
        node_name="n4",
    ),
    row(
        "PodTopologySpread",
        "a node goes",
        pod=spread(),
        before=[*SPREAD_OUT, *nodes(node("n3"), in_zone("n4", "b"))],
        idle=[delete("nodes", "n3")],
        wake=delete("nodes", "n4"),
        cause="NodeDelete",
    ),
    row(
        "PodTopologySpread",
        "a node moves",
        pod=spread(),
        before=[*SPREAD_OUT, *nodes(in_zone("n3"))],
        idle=[ANOTHER],
        wake=relabel("nodes", "n3", **{ZONE: "c"}),
        cause=NODE_LABEL,
        node_name="n3",
    ),
    row(
        "PodTopologySpread",
        "a node gets the key",
        pod=spread(),
        before=[*SPREAD_OUT, *nodes(node("n3"))],
        idle=[relabel("nodes", "n3", x="y")],
        wake=relabel("nodes", "n3", **{ZONE: "c"}),
        cause=NODE_LABEL,
        node_name="n3",
    ),
    row(
        "PodTopologySpread",
        "a taint goes",
        pod=spread(),
        before=[*SPREAD_OUT, *nodes(tainted("n3", "t"), labelled(tainted("n4", "t"), **{ZONE: "a"}))],
        idle=[retaint("n3")],
        wake=retaint("n4"),
        cause=NODE_TAINT,
    ),
    row(
        "InterPodAffinity",
        "a pod to be near to comes",
        pod=near(),
        before=nodes(in_zone("n1")),
        idle=[create("pods", on("n1", pod("other"))), create("pods", waiting(pod("pending", labels={"app": "db"})))],
        wake=create("pods", on("n1", pod("db"))),
        cause=POD_ADD,
        node_name="n1",
    ),
    row(
        "InterPodAffinity",
        "a pod becomes one to be near to",
        pod=near(),
        before=[*nodes(in_zone("n1")), *there(on("n1", pod("other")))],
        idle=[relabel("pods", "other", x="y")],
        wake=relabel("pods", "other", app="db"),
        cause=POD_LABEL,
        node_name="n1",
    ),
    row(
        "InterPodAffinity",
        "its own labels",
        pod=near(),
        before=nodes(in_zone("n1")),
        idle=[change("pods", "web", {"metadata": {"annotations": {"x": "y"}}})],
        wake=relabel("pods", "web", x="y"),
        cause="UnschedulablePodUpdatePodLabel",
    ),
    row(
        "InterPodAffinity",
        "a pod to be away from goes",
        pod=near(away=True),
        before=CROWDED,
        idle=[delete("pods", "other")],
        wake=delete("pods", "db"),
        cause=POD_DELETE,
        node_name="n1",
    ),
    row(
        "InterPodAffinity",
        "a pod is no longer one to be away from",
        pod=near(away=True),
        before=CROWDED,
        idle=[relabel("pods", "db", x="y")],
        wake=relabel("pods", "db", app="web"),
        cause=POD_LABEL,
        node_name="n1",
    ),
    row(
        "InterPodAffinity",
        "a pod that kept it away goes",
        before=[*CROWDED, *there(on("n1", near("hermit", "web", away=True)))],
        idle=[delete("pods", "other")],
        wake=delete("pods", "hermit"),
        cause=POD_DELETE,
        node_name="n1",
    ),
    row(
        "InterPodAffinity",
        "a node with the key comes",
        pod=near(),
        before=nodes(in_zone("n1")),
        idle=[create("nodes", node("n2"))],
        wake=create("nodes", in_zone("n3")),
        cause=NODE_ADD,
    ),
    row(
        "InterPodAffinity",
        "any node comes, to be away",
        pod=near(away=True),
        before=CROWDED,
        wake=create("nodes", node("n2")),
        cause=NODE_ADD,
        node_name="n2",
    ),
    row(
        "InterPodAffinity",
        "a node moves",
        pod=near(away=True),
        before=[*CROWDED, *nodes(in_zone("n2"))],
        idle=[ANOTHER],
        wake=relabel("nodes", "n2", **{ZONE: "b"}),
        cause=NODE_LABEL,
        node_name="n2",
    ),
    row(
        "InterPodAffinity",
        "a node gets the key",
        pod=near(),
        before=[*nodes(node("n1")), *there(on("n1", pod("db")))],
        idle=[ANOTHER],
        wake=relabel("nodes", "n1", **{ZONE: "a"}),
        cause=NODE_LABEL,
        node_name="n1",
    ),
    row(
        "InterPodAffinity",
        "a node loses the key",
        pod=near(away=True),
        before=CROWDED,
        idle=[ANOTHER],
        wake=relabel("nodes", "n1", **{ZONE: None}),
        cause=NODE_LABEL,
        node_name="n1",
    ),
    row(
        "InterPodAffinity",
        "a taint goes",
        pod=near(),
        before=nodes(tainted("n1", "t")),
        idle=[annotate("n1")],
        wake=retaint("n1"),
        cause=NODE_TAINT,
    ),
]


@pytest.mark.parametrize("row", ROWS)
async def test_wakes(api_server, namespace, row):
    await check_row(api_server, namespace, row)
