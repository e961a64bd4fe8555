"""What a group lacks, and what would let its pods start."""

import stowplan
from stowplan.testing import a_node, a_pod

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "PrioritySort"}]}}}
    ],
}


def advice(pods, **spec):
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": spec,
    }
    node = a_node("n1").allocatable(cpu="4", pods="110").obj()
    cluster = stowplan.Cluster([node, group, *pods], config=CONFIG)
    verdict = cluster.explain("p0")
    suggestions = [one.text for one in verdict.suggestions()]
    own = [one for one in verdict.to_dict().get("obstacles", ()) if not one.startswith("Coscheduling refuses the pod")]
    return own, suggestions


def members(count, gates=()):
    made = [a_pod(f"p{i}").labels({"scheduling.x-k8s.io/pod-group": "g"}).requests(cpu="1") for i in range(count)]
    gated = {"schedulingGates": [{"name": "example.com/wait"}]}
    return [(pod.spec(**gated) if i in gates else pod).obj() for i, pod in enumerate(made)]


def test_too_few_pods():
    obstacles, suggestions = advice(members(2), minMember=3)
    assert obstacles == ["PodGroup default/g needs 3 pods, 2 exist"]
    assert suggestions == ["lower minMember of PodGroup default/g to 2 to gain 1 node (n1)"]


def test_gated_pods():
    obstacles, suggestions = advice(members(3, gates=(1, 2)), minMember=3)
    assert obstacles == ["PodGroup default/g needs 3 pods, and 2 of its 3 are gated: p1, p2"]
    assert suggestions == []


def test_no_room_for_all():
    obstacles, _ = advice(members(3), minMember=3, minResources={"cpu": "5500m"})
    assert obstacles == ["PodGroup default/g needs 1500m cpu more than all nodes together have free"]


def test_nothing_is_said_of_a_group_that_may_start():
    assert advice(members(3), minMember=3)[0] == []
