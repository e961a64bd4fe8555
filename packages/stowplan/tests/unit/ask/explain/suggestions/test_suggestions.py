"""Suggestions: every kind of change, the smallest first, and each one tried."""

import pytest

import stowplan
from stowplan.testing import a_node, a_pod, expression, selector
from support.plugins.answering_plugins import configuration

ZONE = "topology.kubernetes.io/zone"
WEB = selector(labels={"app": "web"})
NOT_READY = "node.kubernetes.io/not-ready"
CORDONED = "node.kubernetes.io/unschedulable"
GPU = "nvidia.com/gpu"


def web(name, node, **labels):
    return a_pod(name).labels(app="web", **labels).on(node).obj()


@pytest.mark.parametrize(
    ("objects", "pod", "expected"),
    [
        pytest.param(
            [
                a_node("a").obj(),
                a_pod("x").requests(cpu="3500m").on("a").obj(),
                a_node("b").allocatable(cpu="100m").obj(),
            ],
            a_pod().requests(cpu="1"),
            ["request 500m cpu instead of 1 to gain 1 node (a)"],
            id="the smallest shortfall",
        ),
        pytest.param(
            [a_node("a").allocatable(memory="1Gi", cpu="1").obj()],
            a_pod().requests(memory="3Gi", cpu="1500m"),
            ["request 1Gi memory instead of 3Gi and 1 cpu instead of 1500m to gain 1 node (a)"],
            id="two resources of one node",
        ),
        pytest.param(
            [a_node("a").obj()],
            a_pod().requests({"nvidia.com/gpu": 1}),
            ["request no nvidia.com/gpu to gain 1 node (a)"],
            id="a resource that no node has",
        ),
        pytest.param(
            [
                a_node("a").tainted("team", "x").obj(),
                a_node("b").tainted("team", "x").obj(),
                a_node("c").tainted("gpu").obj(),
            ],
            a_pod(),
            ["tolerate team=x:NoSchedule to gain 2 nodes (a, b)", "tolerate gpu:NoSchedule to gain 1 node (c)"],
            id="taints, the most nodes first",
        ),
        pytest.param(
            [a_node("a").tainted("gpu").tainted("slow", effect="NoExecute").obj()],
            a_pod(),
            ["tolerate gpu:NoSchedule and slow:NoExecute to gain 1 node (a)"],
            id="two taints of one node",
        ),
        pytest.param(
            [a_node("a").unschedulable().tainted(CORDONED).obj(), a_node("b").unschedulable().obj()],
            a_pod(),
            ["uncordon a to gain 1 node", "uncordon 2 nodes (a, b) to gain 2 nodes"],
            id="cordons, with and without their taint",
        ),
        pytest.param(
            [a_node(name).unschedulable().obj() for name in "abcde"],
            a_pod(),
            ["uncordon a to gain 1 node", "uncordon 5 nodes (a, b, c and 2 more) to gain 5 nodes"],
            id="many cordons",
        ),
        pytest.param(
            [a_node("a").tainted(NOT_READY).tainted(NOT_READY, effect="NoExecute").obj()],
            a_pod(),
            ["get a out of not-ready to gain 1 node"],
            id="a condition is not to be tolerated",
        ),
        pytest.param(
            [a_node("a").labels(disk="hdd").obj(), a_node("b").obj()],
            a_pod().node_selector(disk="ssd"),
            ["drop nodeSelector disk=ssd to gain 2 nodes (a, b)"],
            id="node selector",
        ),
        pytest.param(
            [a_node("a").labels(disktype="ssd").obj(), a_node("b").labels(disktype="spinning").obj()],
            a_pod().node_selector(disktype="sdd"),
            [
                "select nodes by disktype=ssd instead of disktype=sdd to gain 1 node (a)",
                "drop nodeSelector disktype=sdd to gain 2 nodes (a, b)",
            ],
            id="a misspelled value",
        ),
        pytest.param(
            [a_node("a").labels(disktype="ssd").obj()],
            a_pod().node_selector({"disk-type": "ssd"}),
            [
                "select nodes by disktype=ssd instead of disk-type=ssd to gain 1 node (a)",
                "drop nodeSelector disk-type=ssd to gain 1 node (a)",
            ],
            id="a misspelled key",
        ),
        pytest.param(
            [a_node("a").labels(disktype="ssd").obj()],
            a_pod().requires_node(expression("disktype", "In", "sdd")),
            [
                "select nodes by disktype=ssd instead of disktype=sdd in node affinity to gain 1 node (a)",
                "drop node affinity disktype=sdd to gain 1 node (a)",
            ],
            id="a misspelled value in node affinity",
        ),
        pytest.param(
            [a_node("a").allocatable(pods="0").obj(), a_node("b").obj()],
            a_pod().owner("DaemonSet", "agent").requires_node(fields=[expression("metadata.name", "In", "a")]),
            [],
            id="a DaemonSet's pod stays with its node",
        ),
        pytest.param(
            [a_node("gpu").allocatable({GPU: "1"}).tainted("gpu").obj(), a_node("cpu").obj()],
            a_pod().requests({GPU: "1"}),
            ["tolerate gpu:NoSchedule to gain 1 node (gpu)", f"request no {GPU} to gain 1 node (cpu)"],
            id="what the pod asks for is given up last",
        ),
        pytest.param(
            [a_node("a").labels(disk="ssd").obj(), a_node("b").labels(arch="arm").obj()],
            a_pod().node_selector(disk="ssd").requires_node(expression("arch", "In", "arm", "amd")),
            [
                "drop node affinity arch in (arm,amd) to gain 1 node (a)",
                "drop nodeSelector disk=ssd to gain 1 node (b)",
            ],
            id="one requirement each",
        ),
        pytest.param(
            [a_node("a").labels(disk="ssd").obj()],
            a_pod()
            .requires_node(expression("arch", "Exists"))
            .requires_node(
                expression("disk", "In", "ssd"), expression("gen", "Gt", "3"), expression("disk", "NotIn", "hdd")
            ),
            ["drop node affinity arch to gain 1 node (a)"],
            id="of several terms the one that misses least",
        ),
        pytest.param(
            [a_node("a").obj()],
            a_pod().requires_node(fields=[expression("metadata.name", "In", "gone")]),
            ["drop node affinity metadata.name=gone to gain 1 node (a)"],
            id="a missing node",
        ),
        pytest.param(
            [a_node("a").obj()],
            a_pod().spec(
                affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
            ),
            ["drop the required node affinity (it has no terms) to gain 1 node (a)"],
            id="affinity without terms",
        ),
        pytest.param(
            [a_node("a").obj(), a_pod("p").host_port(80).on("a").obj()],
            a_pod().host_port(80).host_port(81),
            ["do without hostPort 80/TCP to gain 1 node (a)"],
            id="host ports",
        ),
        pytest.param(
            [
                *(a_node(zone).zone(zone).obj() for zone in "ab"),
                a_node("c").zone("c").unschedulable().obj(),
                *(web(f"w{i}", "ab"[i % 2]) for i in range(4)),
            ],
            a_pod().labels(app="web").spreads(ZONE, WEB),
            [
                "uncordon c to gain 1 node",
                "raise maxSkew of the topology.kubernetes.io/zone constraint from 1 to 3 to gain 2 nodes (a, b)",
            ],
            id="the lowest skew that helps",
        ),
        pytest.param(
            [a_node("a").zone("a").obj(), a_node("b").zone("b").obj(), web("w0", "a"), web("w1", "b")],
            a_pod().labels(app="web").spreads(ZONE, WEB, min_domains=4),
            [
                "lower minDomains of the topology.kubernetes.io/zone constraint from 4 to 2 to gain 2 nodes (a, b)",
                "raise maxSkew of the topology.kubernetes.io/zone constraint from 1 to 2 to gain 2 nodes (a, b)",
            ],
            id="min domains",
        ),
        pytest.param(
            [a_node("a").obj()],
            a_pod().labels(app="web").spreads("rack", WEB),
            ["drop the topologySpreadConstraint on rack to gain 1 node (a)"],
            id="a topology key that no node has",
        ),
        pytest.param(
            [a_node("a").zone("a").obj()],
            a_pod().requires_pods(ZONE, WEB),
            [f"drop podAffinity (app=web by {ZONE}) to gain 1 node (a)"],
            id="pod affinity",
        ),
        pytest.param(
            [a_node("a").zone("a").obj(), web("w", "a")],
            a_pod().avoids_pods(ZONE, WEB),
            ["move default/w off a to gain 1 node (a)", f"drop podAntiAffinity (app=web by {ZONE}) to gain 1 node (a)"],
            id="pod anti-affinity",
        ),
        pytest.param(
            [a_node("a").zone("a").obj(), a_pod("w").avoids_pods(ZONE, WEB).on("a").obj()],
            a_pod().labels(app="web"),
            ["move default/w off a to gain 1 node (a)"],
            id="anti-affinity of an existing pod",
        ),
        pytest.param(
            [
                a_node("a").tainted("gpu").allocatable(cpu="1").obj(),
                a_node("b").unschedulable().allocatable(cpu="1").obj(),
            ],
            a_pod().requests(cpu="1200m"),
            [
                "tolerate gpu:NoSchedule and request 1 cpu instead of 1200m to gain 1 node (a)",
                "uncordon b and request 1 cpu instead of 1200m to gain 1 node",
            ],
            id="pairs, when no single change helps",
        ),
        pytest.param(
            [
                a_node("a")
                .unschedulable()
                .tainted(CORDONED)
                .tainted(NOT_READY)
                .tainted("gpu")
                .allocatable(cpu="1")
                .obj()
            ],
            a_pod().requests(cpu="2"),
            [
                "uncordon a, get a out of not-ready, tolerate gpu:NoSchedule"
                " and request 1 cpu instead of 2 to gain 1 node"
            ],
            id="everything at once",
        ),
        pytest.param(
            [
                a_node("a").zone("a").obj(),
                a_node("b").zone("b").allocatable(pods="0").obj(),
                *(web(f"w{i}", "a") for i in range(3)),
            ],
            a_pod().labels(app="web").node_selector(disk="nvme").spreads(ZONE, WEB),
            [
                "drop nodeSelector disk=nvme and raise maxSkew of the topology.kubernetes.io/zone constraint"
                " from 1 to 4 to gain 1 node (a)"
            ],
            id="a change whose consequence needs another one",
        ),
    ],
)
def test_smallest_changes(texts, objects, pod, expected):
    assert texts(objects, pod.obj()) == expected


def test_a_limit_follows_the_request_where_both_must_be_equal():
    pod = a_pod("p").requests({"nvidia.com/gpu": 1, "cpu": "8"}).limits({"nvidia.com/gpu": 1, "cpu": "9"})
    verdict = stowplan.Cluster([a_node("a").obj(), pod.obj()]).explain("p")
    (suggestion,) = verdict.suggestions()
    resources = suggestion.applied_to(verdict.pod.pod).spec.containers[0].resources
    assert (resources.requests["nvidia.com/gpu"], resources.limits["nvidia.com/gpu"]) == ("0", "0")
    assert (resources.requests["cpu"], resources.limits["cpu"]) == ("4", "9")


@pytest.mark.parametrize(
    ("pod", "less"),
    [
        pytest.param(a_pod().requests(cpu="1").container("b", cpu="3"), {"cpu": "2500m"}, id="containers"),
        pytest.param(a_pod().requests(cpu="1").init_container("i", cpu="4"), {"cpu": "2500m"}, id="an init container"),
        pytest.param(
            a_pod().requests(cpu="2").sidecar("s", cpu="2").init_container("i", cpu="2"),
            {"cpu": "2500m"},
            id="a sidecar",
        ),
        pytest.param(a_pod().requests(cpu="1").pod_requests(cpu="4"), {"cpu": "2500m"}, id="pod-level"),
        pytest.param(a_pod().requests(cpu="3").overhead(cpu="1"), {"cpu": "2500m"}, id="overhead stays"),
    ],
)
def test_requests_are_reduced_wherever_they_are_set(advice, pod, less):
    (suggestion,) = advice([a_node("a").allocatable(cpu="2500m").obj()], pod.obj()).suggestions
    assert list(suggestion.changes_data) == [{"kind": "resources", "requests": less}]
    assert suggestion.note == "a lacks 1500m cpu (0 of 2500m in use)"


def test_overhead_alone_is_too_much(advice):
    found = advice([a_node("a").allocatable(cpu="1").obj()], a_pod().requests(cpu="1").overhead(cpu="2").obj())
    assert not found.suggestions


@pytest.mark.parametrize(
    ("objects", "pod", "fact"),
    [
        pytest.param(
            [a_node("a").obj(), a_node("b").allocatable(cpu="8").obj()],
            a_pod().requests(cpu="9"),
            "too large for every node: asks for 9 cpu, the largest node (b) offers 8",
            id="too large",
        ),
        pytest.param([a_node().obj()], a_pod().requests({"x.io/y": 1}), "no node offers x.io/y", id="no such device"),
        pytest.param(
            [a_node().obj()], a_pod().node_selector(disk="nvme"), "no node has label disk=nvme", id="no such label"
        ),
        pytest.param(
            [a_node().zone("a").obj()],
            a_pod().requires_pods(ZONE, WEB),
            "no running pod matches app=web (namespace default)",
            id="no such pod",
        ),
        pytest.param(
            [a_node().obj()],
            a_pod().claims_volume("data"),
            'VolumeRestrictions refuses the pod on every node: persistentvolumeclaim "data" not found',
            id="no such claim",
        ),
        pytest.param(
            [a_node().allocatable(pods="0").obj()],
            a_pod(),
            "no small change gains a node: of 1 node, NodeResourcesFit refuses 1",
            id="nothing helps",
        ),
    ],
)
def test_obstacles(advice, objects, pod, fact):
    assert fact in advice(objects, pod.obj()).obstacles


def test_defaults_of_the_profile(texts):
    args = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "PodTopologySpreadArgs",
        "defaultingType": "List",
        "defaultConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
    }
    config = configuration({"pluginConfig": [{"name": "PodTopologySpread", "args": args}]})
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}},
    }
    found = texts([a_node("a").obj(), service], a_pod().labels(app="web").obj(), config=config)
    assert found == [
        "give the pod topologySpreadConstraints of its own (the profile's default ones refuse it) to gain 1 node (a)"
    ]


# -- options


def test_suggestions_are_in_the_json_of_a_pending_pod():
    cluster = stowplan.Cluster([a_node("a").tainted("gpu", "x").obj()])
    verdict = cluster.explain(a_pod().obj())
    assert [s.gain for s in verdict.suggestions()] == [1]
    assert verdict.to_dict()["suggestions"] == [
        {
            "text": "tolerate gpu=x:NoSchedule to gain 1 node (a)",
            "gain": 1,
            "nodes": ["a"],
            "changes": [{"kind": "taints", "tolerate": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]}],
        }
    ]


def test_suggestions_are_computed_only_on_request():
    verdict = stowplan.Cluster([a_node("a").tainted("gpu").obj()]).explain(a_pod().obj())
    assert "suggestions" not in verdict.to_dict()


def test_no_suggestions_for_a_pod_that_fits(advice):
    assert advice([a_node().obj()], a_pod().obj()) is None
