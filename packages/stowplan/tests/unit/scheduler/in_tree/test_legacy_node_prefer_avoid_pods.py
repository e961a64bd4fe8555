"""LegacyNodePreferAvoidPods: nodes whose annotation lists the pod's controller."""

import json

import pytest

from stowplan.scheduler.in_tree.common.annotations import PREFER_AVOID_PODS
from stowplan.scheduler.in_tree.legacy_node_prefer_avoid_pods.plugin import LegacyNodePreferAvoidPods
from stowplan.testing import a_node, a_pod


def avoiding(kind, uid):
    entry = {"podSignature": {"podController": {"apiVersion": "v1", "kind": kind, "uid": uid, "controller": True}}}
    return json.dumps({"preferAvoidPods": [entry]})


def pod_of(kind, uid):
    pod = a_pod().obj()
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid, "controller": True}
    ]
    return pod


def node(name, annotation=None):
    made = a_node(name).obj()
    if annotation is not None:
        made["metadata"]["annotations"] = {PREFER_AVOID_PODS: annotation}
    return made


@pytest.mark.parametrize(
    ("annotation", "pod", "score"),
    [
        pytest.param(avoiding("ReplicaSet", "1"), pod_of("ReplicaSet", "1"), 0, id="its controller"),
        pytest.param(
            avoiding("ReplicationController", "1"), pod_of("ReplicationController", "1"), 0, id="the older kind"
        ),
        pytest.param(avoiding("ReplicaSet", "1"), pod_of("ReplicaSet", "2"), 100, id="another one"),
        pytest.param(avoiding("ReplicaSet", "1"), pod_of("ReplicationController", "1"), 100, id="another kind"),
        pytest.param(avoiding("StatefulSet", "1"), pod_of("StatefulSet", "1"), 100, id="a kind that does not count"),
        pytest.param(avoiding("ReplicaSet", "1"), a_pod(), 100, id="no controller"),
        pytest.param("{", pod_of("ReplicaSet", "1"), 100, id="no JSON"),
        pytest.param('{"preferAvoidPods": 1}', pod_of("ReplicaSet", "1"), 100, id="of another type"),
        pytest.param('{"preferAvoidPods": [{}]}', pod_of("ReplicaSet", "1"), 100, id="empty list"),
    ],
)
def test_scores(bench, annotation, pod, score):
    world = bench(LegacyNodePreferAvoidPods, node("n0", annotation), node("n1"))
    assert world.scores(pod) == {"n0": score, "n1": 100}
    assert world.scores(pod, "n0") == {"n0": score}


def test_a_removed_annotation_has_no_effect(bench):
    world = bench(LegacyNodePreferAvoidPods, node("n0", avoiding("ReplicaSet", "1")))
    assert world.scores(pod_of("ReplicaSet", "1")) == {"n0": 0}
    world.put(node("n0"))
    assert world.scores(pod_of("ReplicaSet", "1")) == {"n0": 100}


def test_pods_of_different_controllers_have_different_signatures(bench):
    plugin = bench(LegacyNodePreferAvoidPods)
    signs = [plugin.plugin.sign_pod(plugin.pod(pod_of("ReplicaSet", uid))) for uid in "12"]
    assert signs[0] != signs[1]
