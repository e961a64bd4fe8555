"""Pods that a file's workloads would have: of a DaemonSet, one for each node that it suits."""

import pytest

from stowplan.ask.loading.daemon_sets import node_of
from stowplan.ask.loading.generated_pods import generated_pods
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.load import LoadError


def daemon_set(**spec):
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "ops"},
        "spec": {"template": template},
    }


def node(name, taints=(), **labels):
    return decode_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": list(taints)},
        }
    )


NODES = [
    node("a", gpu="yes"),
    node("b"),
    node("tainted", [{"key": "team", "value": "ml", "effect": "NoSchedule"}], gpu="yes"),
    node("cordoned", [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}], gpu="yes"),
]


def nodes_of(manifest, nodes=NODES):
    found = generated_pods([manifest], (), nodes)
    pods, notes = found.objects, list(found.notes)
    assert [pod.metadata.name for pod in pods] == [f"agent-{i}" for i in range(len(pods))]
    return [node_of(pod) for pod in pods], notes


def test_each_node_that_its_template_tolerates_has_one():
    nodes, notes = nodes_of(daemon_set())
    assert nodes == ["a", "b", "cordoned"]
    assert notes == [
        "DaemonSet ops/agent has no pods yet; using its template: 3 pods (ops/agent-0…)",
    ]


def test_those_that_its_selector_and_its_tolerations_name():
    tolerations = [{"key": "team", "operator": "Exists"}]
    assert nodes_of(daemon_set(nodeSelector={"gpu": "yes"}))[0] == ["a", "cordoned"]
    assert nodes_of(daemon_set(tolerations=tolerations))[0] == ["a", "b", "tainted", "cordoned"]


def test_its_preferences_and_its_affinity_to_pods_stay():
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod, *_ = generated_pods([daemon_set(affinity=affinity)], (), NODES).objects
    assert pod.spec.affinity.pod_anti_affinity is not None
    assert pod.metadata.owner_references[0].kind == "DaemonSet"


def test_without_nodes_there_are_none():
    assert nodes_of(daemon_set(), []) == ([], [])
    assert nodes_of(daemon_set(nodeSelector={"no": "node"})) == ([], [])


def test_too_many_replicas_are_refused():
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {**daemon_set(), "kind": "Deployment", "spec": {"replicas": 2**31 - 1, "template": template}}
    with pytest.raises(LoadError, match="Deployment ops/agent: want at most 100,000 pods, got 2,147,483,647"):
        generated_pods([deployment], (), NODES)
