"""Upstream's scenarios of resizes that are deferred, as data.

After test/integration/scheduler/preemption/deferred_resize_preemption_test.go at the code freeze of 1.37:
TestDeferredResizePodPreemption (5 of 5 cases), …QueueingHints (7 of 7), …NodePreemptionPolicy (3 of 3),
…QueueingHandlers (4 of 4).
"""

from functools import partial

import pytest

from stowplan.testing import a_node, a_pod
from stowplan.testing.live import Latency, live_cluster

GATE = "InPlacePodVerticalScalingSchedulerPreemption"
SCHEDULED = {"type": "PodScheduled", "status": "True"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
DISABLED = {"podPreemptionPolicy": {"disableResizePreemption": ["test-operator"]}}

cluster_of = partial(live_cluster, emulated_version="1.37", feature_gates={GATE: True})


def node(name="n1", cpu="300m", memory="300", **spec):
    return a_node(name).allocatable(cpu=cpu, memory=memory, pods="32").spec(**spec).obj()


def pod(name, cpu, memory="", priority=100, on="n1", **spec):
    requests = {"cpu": cpu, **({"memory": memory} if memory else {})}
    return a_pod(name).requests(**requests).on(on).spec(priority=priority, **spec).obj()


def deferred(allocated, name="p", conditions=(SCHEDULED, DEFERRED), **more):
    made = pod(name, **more)
    container = made["spec"]["containers"][0]["name"]
    there = {"name": container, "allocatedResources": allocated, "resources": {"requests": allocated}}
    made["status"] = {"phase": "Running", "conditions": list(conditions), "containerStatuses": [there]}
    return made


def attempts(cluster):
    queued = cluster.engine.queue.get("default/p")
    return None if queued is None else queued.attempts


@pytest.mark.parametrize(
    ("victims", "spec", "policy", "evicted"),
    [
        pytest.param([("v1", "200m", "100")], {}, {}, ["v1"], id="one"),
        pytest.param([("v1", "100m", "50"), ("v2", "100m", "50")], {}, {}, ["v1", "v2"], id="two"),
        pytest.param([("v1", "200m", "100")], {"preemptionPolicy": "Never"}, {}, [], id="Never"),
        pytest.param([], {}, {}, [], id="it fits"),
        pytest.param([("v1", "200m", "100")], {}, DISABLED, [], id="the node's policy"),
    ],
)
def test_preemption(victims, spec, policy, evicted):
    latency = Latency(deletions=lambda pod: 3.0)
    with cluster_of(node(**policy), *(pod(*victim, priority=100) for victim in victims), latency=latency) as cluster:
        cluster.create(deferred({"cpu": "100m", "memory": "100"}, cpu="300m", memory="100", priority=1000, **spec))
        cluster.advance(10)
        cluster.engine.validate()
        assert sorted(event["regarding"]["name"] for event in cluster.events(reason="Preempted")) == evicted
        status = cluster.get("pods", "p")["status"]
        assert not status.get("nominatedNodeName")
        assert attempts(cluster)
        assert SCHEDULED.items() <= status["conditions"][0].items()


def resized(cluster, name, cpu):
    container = cluster.get("pods", name)["spec"]["containers"][0]
    cluster.patch("pods", name, {"spec": {"containers": [{**container, "resources": {"requests": {"cpu": cpu}}}]}})


def more_room(cluster):
    room = {"cpu": "1", "pods": "32"}
    cluster.patch("nodes", "n1", {"status": {"capacity": room, "allocatable": room}}, subresource="status")


@pytest.mark.parametrize(
    ("trigger", "wakes", "policy"),
    [
        pytest.param(lambda c: resized(c, "irrelevant", "100m"), False, {}, id="a pod elsewhere shrinks"),
        pytest.param(lambda c: resized(c, "other", "100m"), True, {}, id="a pod on the node shrinks"),
        pytest.param(lambda c: c.delete("pods", "irrelevant"), False, {}, id="a pod elsewhere goes"),
        pytest.param(lambda c: c.delete("pods", "other"), True, {}, id="a pod on the node goes"),
        pytest.param(
            lambda c: c.patch("pods", "other", {"metadata": {"labels": {"a": "b"}}}), False, {}, id="a label changes"
        ),
        pytest.param(more_room, True, {}, id="the node grows"),
        pytest.param(lambda c: resized(c, "p", "80m"), True, {}, id="it wants less"),
        pytest.param(lambda c: c.patch("nodes", "n1", {"spec": DISABLED}), False, {}, id="its node forbids it"),
        pytest.param(
            lambda c: c.patch("nodes", "n1", {"spec": {"podPreemptionPolicy": None}}), True, DISABLED, id="allows it"
        ),
        pytest.param(lambda c: c.patch("nodes", "n2", {"spec": DISABLED}), False, {}, id="another node forbids it"),
    ],
)
def test_what_wakes_it(trigger, wakes, policy):
    nodes = node(cpu="200m", **policy), node("n2", cpu="500m")
    with cluster_of(*nodes, pod("other", "200m", priority=1000)) as cluster:
        cluster.create(pod("irrelevant", "200m", priority=1000, on="n2"), deferred({"cpu": "50m"}, cpu="100m"))
        before = attempts(cluster)
        trigger(cluster)
        cluster.advance(15)
        assert (attempts(cluster) > before) is wakes
        cluster.engine.validate()


def test_it_waits_from_the_start():
    with cluster_of(node(cpu="200m"), deferred({"cpu": "50m"}, cpu="100m")) as cluster:
        assert attempts(cluster) is not None


def test_it_comes_and_goes_with_the_condition():
    with cluster_of(node(cpu="200m"), deferred({"cpu": "50m"}, cpu="100m", conditions=[SCHEDULED])) as cluster:
        assert attempts(cluster) is None
        for conditions in ([SCHEDULED, DEFERRED], [SCHEDULED]):
            cluster.patch("pods", "p", {"status": {"conditions": conditions}}, subresource="status")
            assert (attempts(cluster) is not None) is (DEFERRED in conditions)


def test_it_goes_with_the_pod():
    with cluster_of(node(cpu="200m"), deferred({"cpu": "50m"}, cpu="100m")) as cluster:
        cluster.delete("pods", "p")
        assert attempts(cluster) is None
        assert not [info.key for info in cluster.engine.state.placed_pods()]
