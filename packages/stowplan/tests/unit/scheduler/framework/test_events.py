"""Cluster events: classification of changes, matching, and implicit registrations."""

import pytest

from stowplan.kube.config.features import default_features
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.plugins import EnqueueExtensions
from stowplan.scheduler.framework.events import (
    ANY,
    ASSIGNED_POD,
    CSI_NODE,
    EVERYTHING,
    FORCE_ACTIVATE,
    NODE,
    POD,
    PV,
    PVC,
    STORAGE_CLASS,
    TARGET_POD,
    UNSCHEDULABLE_POD,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Hint,
    events_of_change,
    on,
    pod_events,
    with_implied,
)
from stowplan.testing import a_node, a_pod
from support.plugins.fake_plugins import fake, framework_of
from support.scheduling.worlds import GPU, budget, namespace, service, state_of, struct


def labels(old, new, version=V1_36):
    return [event.label for event in events_of_change(struct(old), struct(new), version)]


def renamed(label):
    """What 1.37 calls an event of 1.36: changes of pods without a node are for the changed pod alone."""
    if label in ("UnschedulablePodAdd", "UnschedulablePodDelete"):
        return label.replace("UnschedulablePod", "UnscheduledPod")
    return label.replace("UnschedulablePod", "TargetPod")


def sized(cpu, **status):
    return a_pod().requests(cpu=cpu).on("n").status(**status)


RESIZED = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
CLAIMED = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c-1"}]}
EXTENDED = {"extendedResourceClaimStatus": {"resourceClaimName": "c-1", "requestMappings": []}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, a_pod(), ["UnschedulablePodAdd"], id="a pending pod comes"),
        pytest.param(None, a_pod().on("n"), ["AssignedPodAdd"], id="a bound pod comes"),
        pytest.param(a_pod(), None, ["UnschedulablePodDelete"], id="a pending pod goes"),
        pytest.param(a_pod().on("n"), None, ["AssignedPodDelete"], id="a bound pod goes"),
        pytest.param(a_pod(), a_pod().on("n"), ["AssignedPodAdd"], id="binding"),
        pytest.param(a_pod(), a_pod().labels(a="b"), ["UnschedulablePodUpdatePodLabel"], id="labels, pending"),
        pytest.param(a_pod().on("n"), a_pod().labels(a="b").on("n"), ["AssignedPodUpdatePodLabel"], id="labels, bound"),
        pytest.param(sized("2"), sized("1"), ["AssignedPodUpdatePodScaleDown"], id="scaled down"),
        pytest.param(
            a_pod().requests({GPU: 1}), a_pod(), ["UnschedulablePodUpdatePodScaleDown"], id="a resource is gone"
        ),
        pytest.param(
            sized("2", **RESIZED), sized("1", **RESIZED), ["AssignedPodUpdate"], id="a resize that is not done yet"
        ),
        pytest.param(
            a_pod().gated("g"), a_pod(), ["UnschedulablePodUpdatePodSchedulingGatesEliminated"], id="no gates left"
        ),
        pytest.param(a_pod().gated("g", "h"), a_pod().gated("g"), ["UnschedulablePodUpdate"], id="one gate left"),
        pytest.param(a_pod(), a_pod().tolerates("x"), ["UnschedulablePodUpdatePodToleration"], id="a toleration more"),
        pytest.param(
            a_pod().tolerates("x"), a_pod().tolerates("y"), ["UnschedulablePodUpdate"], id="as many tolerations"
        ),
        pytest.param(
            a_pod(), a_pod().status(**CLAIMED), ["UnschedulablePodUpdatePodGeneratedResourceClaim"], id="a claim"
        ),
        pytest.param(
            a_pod(),
            a_pod().status(**EXTENDED),
            ["UnschedulablePodUpdatePodGeneratedResourceClaim"],
            id="extended claim",
        ),
        pytest.param(a_pod(), a_pod().annotations(a="b"), ["UnschedulablePodUpdate"], id="anything else"),
        pytest.param(
            a_pod().gated("g").requests(cpu="2"),
            a_pod().labels(a="b").tolerates("x").requests(cpu="1"),
            [
                "UnschedulablePodUpdatePodLabel",
                "UnschedulablePodUpdatePodScaleDown",
                "UnschedulablePodUpdatePodSchedulingGatesEliminated",
                "UnschedulablePodUpdatePodToleration",
            ],
            id="several, in order",
        ),
    ],
)
def test_pod_events(old, new, expected):
    assert labels(old, new) == expected
    assert labels(old, new, V1_37) == [renamed(label) for label in expected]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, a_node(), ["NodeAdd"], id="comes"),
        pytest.param(a_node(), None, ["NodeDelete"], id="goes"),
        pytest.param(a_node(), a_node(), [], id="nothing"),
        pytest.param(a_node().unschedulable(), a_node(), ["NodeUpdateNodeTaint"], id="uncordoned"),
        pytest.param(a_node(), a_node().unschedulable(), [], id="cordoned"),
        pytest.param(
            a_node().allocatable(cpu="4"), a_node().allocatable(cpu="4000m"), [], id="the same, written otherwise"
        ),
        pytest.param(
            a_node().allocatable(cpu="4"),
            a_node().allocatable(cpu="3"),
            ["NodeUpdateNodeAllocatable"],
            id="allocatable",
        ),
        pytest.param(a_node(), a_node().allocatable({GPU: 1}), ["NodeUpdateNodeAllocatable"], id="a resource more"),
        pytest.param(a_node(), a_node().labels(a="b"), ["NodeUpdateNodeLabel"], id="labels"),
        pytest.param(a_node(), a_node().tainted("x"), ["NodeUpdateNodeTaint"], id="taints"),
        pytest.param(
            a_node(), a_node().condition("Ready", "False"), ["NodeUpdateNodeCondition"], id="a condition turns"
        ),
        pytest.param(a_node(), a_node().condition("Ready", message="still"), [], id="a condition says more"),
        pytest.param(a_node(), a_node().annotations(a="b"), ["NodeUpdateNodeAnnotation"], id="annotations"),
        pytest.param(a_node(), a_node().declares("F"), ["NodeUpdateNodeDeclaredFeature"], id="features"),
        pytest.param(
            a_node().unschedulable(),
            a_node().tainted("x").labels(a="b").allocatable(cpu="1"),
            ["NodeUpdateNodeTaint", "NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel", "NodeUpdateNodeTaint"],
            id="several, in order",
        ),
    ],
)
def test_node_events(old, new, expected):
    assert labels(old, new) == expected


def with_policy(*owners):
    return a_node().spec(podPreemptionPolicy={"disableResizePreemption": [*owners]})


@pytest.mark.parametrize(
    ("old", "new", "before", "since"),
    [
        (sized("1"), sized("2"), ["AssignedPodUpdate"], ["AssignedPodUpdatePodScaleUp"]),
        (a_pod(), a_pod().requests(cpu="1"), ["UnschedulablePodUpdate"], ["TargetPodUpdatePodScaleUp"]),
        (
            a_pod().requests(cpu="1", memory="2Gi"),
            a_pod().requests(cpu="2", memory="1Gi"),
            ["UnschedulablePodUpdatePodScaleDown"],
            ["TargetPodUpdatePodScaleDown", "TargetPodUpdatePodScaleUp"],
        ),
        (a_node(), with_policy("me"), [], ["NodeUpdateNodePreemptionPolicy"]),
        (with_policy("me"), with_policy(), [], ["NodeUpdateNodePreemptionPolicy"]),
        (with_policy("me"), with_policy("me"), [], []),
    ],
)
def test_events_since_1_37(old, new, before, since):
    assert labels(old, new) == before
    assert labels(old, new, V1_37) == since


def of_kind(api_version, kind):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}


@pytest.mark.parametrize(
    ("obj", "resource"),
    [
        (of_kind("v1", "PersistentVolume"), "PersistentVolume"),
        (of_kind("storage.k8s.io/v1", "CSINode"), "storage.k8s.io/CSINode"),
        (of_kind("storage.k8s.io/v1", "StorageClass"), "storage.k8s.io/StorageClass"),
        (of_kind("resource.k8s.io/v1", "DeviceClass"), "resource.k8s.io/DeviceClass"),
        (service("s"), "Service"),
    ],
)
def test_events_of_other_kinds(obj, resource):
    assert labels(None, obj) == [f"{resource}Add"]
    assert labels(obj, obj) == [f"{resource}Update"]
    assert labels(obj, None) == [f"{resource}Delete"]


@pytest.mark.parametrize("obj", [namespace("n"), budget("b", {}, 0)], ids=lambda obj: obj["kind"])
def test_kinds_without_events(obj):
    assert labels(None, obj) == []


def test_masks():
    assert Action.Update == sum(1 << bit for bit in range(2, 15)) == 32764
    assert Action.All == Action.Update | Action.Add | Action.Delete == 32767


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (ClusterEvent(NODE, Action.Add), "NodeAdd"),
        (ClusterEvent(ASSIGNED_POD, Action.UpdatePodScaleDown), "AssignedPodUpdatePodScaleDown"),
        (ClusterEvent(CSI_NODE, Action.Update), "storage.k8s.io/CSINodeUpdate"),
        (ClusterEvent(NODE, Action.All), "NodeAll"),
        (ClusterEvent(NODE, Action.Add | Action.Delete), "Node"),
        (ClusterEvent(NODE, Action.Add, "Named"), "Named"),
        (pod_events(V1_36).added, "UnschedulablePodAdd"),
        (pod_events(V1_37).added, "UnscheduledPodAdd"),
        (pod_events(V1_37).updated, "UnscheduledPodUpdate"),
        (FORCE_ACTIVATE, "ForceActivate"),
        (UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_labels(event, label):
    assert event.label == label


@pytest.mark.parametrize(
    ("registered", "incoming", "heard"),
    [
        pytest.param((ANY, Action.All), (NODE, Action.Add), True, id="everything"),
        pytest.param((NODE, Action.Add), (NODE, Action.Add), True, id="the same"),
        pytest.param((NODE, Action.Add), (NODE, Action.Delete), False, id="another action"),
        pytest.param((NODE, Action.Add), (PV, Action.Add), False, id="another resource"),
        pytest.param((NODE, Action.Add | Action.Delete), (NODE, Action.Delete), True, id="one of two"),
        pytest.param((POD, Action.Add), (ASSIGNED_POD, Action.Add), True, id="any pod: a bound one"),
        pytest.param((POD, Action.Add), (UNSCHEDULABLE_POD, Action.Add), True, id="any pod: a pending one"),
        pytest.param((ASSIGNED_POD, Action.Add), (UNSCHEDULABLE_POD, Action.Add), False, id="only bound pods"),
        pytest.param((POD, Action.Add), (UNSCHEDULED_POD, Action.Add), True, id="any pod: another pending one"),
        pytest.param((POD, Action.All), (TARGET_POD, Action.Update), True, id="any pod: the waiting one"),
        pytest.param((ASSIGNED_POD, Action.All), (TARGET_POD, Action.Update), False, id="bound: not the waiting one"),
        pytest.param((TARGET_POD, Action.All), (UNSCHEDULED_POD, Action.Add), False, id="the waiting one, no other"),
        pytest.param((TARGET_POD, Action.All), (UNSCHEDULABLE_POD, Action.Update), True, id="the waiting one, in 1.36"),
        pytest.param((UNSCHEDULED_POD, Action.Add), (UNSCHEDULABLE_POD, Action.Add), True, id="another one, in 1.36"),
        pytest.param((UNSCHEDULABLE_POD, Action.Add), (UNSCHEDULED_POD, Action.Add), True, id="1.36's, in 1.37"),
        pytest.param((ASSIGNED_POD, Action.Add), (POD, Action.Add), False, id="not the other way round"),
        pytest.param((PVC, Action.Update), (PVC, Action.Update), True, id="update hears update"),
        pytest.param((POD, Action.UpdatePodLabel), (ASSIGNED_POD, Action.Update), False, id="a bit does not hear all"),
        pytest.param((POD, Action.All), (ASSIGNED_POD, Action.Update), True, id="all hears update"),
        pytest.param(
            (NODE, Action.Add | Action.UpdateNodeTaint), (NODE, Action.UpdateNodeLabel), False, id="no bit in common"
        ),
        pytest.param(
            (STORAGE_CLASS, Action.Add | Action.UpdatePodGeneratedResourceClaim),
            (STORAGE_CLASS, Action.Update),
            False,
            id="a mask that is numerically smaller does not hear a larger one",
        ),
    ],
)
def test_matching(registered, incoming, heard):
    assert ClusterEvent(*registered).covers(ClusterEvent(*incoming)) == heard


LABEL, TAINT = Action.UpdateNodeLabel, Action.UpdateNodeTaint
#: TestClusterEventMatching of framework/types_test.go at 1.37, all 19 cases, two of which are equal.
UPSTREAMS = [
    (ANY, Action.All, POD, LABEL, True),
    (POD, LABEL | TAINT, POD, LABEL, True),
    (POD, LABEL | TAINT, UNSCHEDULED_POD, LABEL, True),
    (ANY, LABEL, POD, LABEL, True),
    (ANY, LABEL, POD, Action.UpdateNodeAllocatable, False),
    (POD, LABEL, ANY, LABEL, False),
    (ANY, LABEL, POD, Action.Update, False),
    (ANY, Action.Update, POD, LABEL, True),
    (POD, LABEL, ASSIGNED_POD, LABEL, True),
    (POD, TAINT, TARGET_POD, TAINT, True),
    (ASSIGNED_POD, Action.Add, UNSCHEDULED_POD, Action.Add, False),
    (ASSIGNED_POD, Action.Update, TARGET_POD, Action.Update, False),
    (TARGET_POD, Action.Update, ASSIGNED_POD, Action.Update, False),
    (ASSIGNED_POD, Action.Add, POD, Action.Add, False),
    (ASSIGNED_POD, Action.Add, ANY, Action.Add, False),
    (UNSCHEDULED_POD, Action.Add, POD, Action.Add, False),
    (UNSCHEDULED_POD, Action.Add, ANY, Action.Add, False),
    (ANY, Action.All, TARGET_POD, Action.Update, True),
    # TestUnrollPodEvent, all 3 cases: what is registered for pods is heard for each kind of them.
    *(
        (POD, action, resource, action, True)
        for action in (Action.Add, Action.Delete, Action.Update)
        for resource in (ASSIGNED_POD, UNSCHEDULED_POD, TARGET_POD)
    ),
]


def test_upstreams_matching():
    found = [ClusterEvent(*case[:2]).covers(ClusterEvent(*case[2:4])) for case in UPSTREAMS]
    assert found == [case[4] for case in UPSTREAMS]


@pytest.mark.parametrize(
    ("event", "wildcard"),
    [
        pytest.param(ClusterEvent(ANY, Action.All), True, id="any event of any object"),
        pytest.param(FORCE_ACTIVATE, True, id="with a name"),
        pytest.param(ClusterEvent(ANY, Action.Update), False, id="some events of any object"),
        pytest.param(ClusterEvent(NODE, Action.All), False, id="any event of some objects"),
    ],
)
def test_wildcards(event, wildcard):
    assert event.is_wildcard == wildcard
    assert ClusterEvent(ANY, Action.All).covers(event) or not wildcard


def test_a_registration():
    assert on(NODE, Action.Add) == ClusterEventWithHint(ClusterEvent(NODE, Action.Add), None, by_shape=False)
    assert on(NODE, Action.Add, print, by_shape=True).by_shape


RESIZE_ASKED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}


@pytest.mark.parametrize(
    ("old", "new", "scaled_down"),
    [
        pytest.param(sized("2"), sized("1"), True, id="a container"),
        pytest.param(sized("2").overhead(cpu="1"), sized("2"), True, id="overhead"),
        pytest.param(sized("2").pod_requests(cpu="4"), sized("2").pod_requests(cpu="3"), True, id="the pod as a whole"),
        pytest.param(a_pod().init_container("i", cpu="2").on("n"), a_pod().on("n"), True, id="an init container"),
        pytest.param(sized("1", **RESIZED), sized("1"), True, id="what it still had"),
        pytest.param(sized("4", **RESIZED), sized("4", **RESIZED, **RESIZE_ASKED), True, id="what it will not get"),
        pytest.param(sized("1"), sized("1", **RESIZED), False, id="what it still has"),
        pytest.param(sized("1"), sized("1", containerStatuses=[{"name": "main"}]), False, id="it started"),
        pytest.param(sized("1"), sized("1000m"), False, id="the same, written otherwise"),
    ],
)
def test_scaling_down(old, new, scaled_down):
    assert ("AssignedPodUpdatePodScaleDown" in labels(old, new)) == scaled_down


@pytest.mark.parametrize(
    ("registered", "implied"),
    [
        pytest.param([on(NODE, Action.Add)], True, id="who waits for nodes"),
        pytest.param([on(NODE, Action.Add | Action.UpdateNodeLabel)], True, id="and more"),
        pytest.param([on(NODE, Action.Add | Action.UpdateNodeTaint)], False, id="hears of taints already"),
        pytest.param([on(NODE, Action.Add), on(NODE, Action.UpdateNodeTaint)], False, id="in another registration"),
        pytest.param([on(NODE, Action.UpdateNodeLabel)], False, id="does not wait for nodes"),
        pytest.param([on(PVC, Action.Add)], False, id="nor for anything of nodes"),
        pytest.param([], False, id="nothing at all"),
    ],
)
def test_taints_are_implied(registered, implied):
    """Until 1.36."""
    assert with_implied(registered, V1_37) == registered
    found = with_implied(registered, V1_36)
    assert found[: len(registered)] == registered
    assert found[len(registered) :] == ([on(NODE, Action.UpdateNodeTaint)] if implied else [])


def test_registrations_of_a_profile():
    def hint(pod, old, new):
        return Hint.SKIP

    class Waits(fake("Waits", filter=None, pre_filter=None), EnqueueExtensions):
        def events_to_register(self):
            return [on(NODE, Action.Add, hint)]

    class Never(fake("Never", pre_enqueue=None), EnqueueExtensions):
        def events_to_register(self):
            return []

    plugins = (Waits, Never, fake("Silent", filter=None), fake("Scores", score=1))
    profile = framework_of(state_of([a_node()]), *plugins)
    profile.handle.features = default_features(V1_36)
    found = profile.registered_events()
    assert found == {
        "Waits": [on(NODE, Action.Add, hint), on(NODE, Action.UpdateNodeTaint)],
        "Never": [],
        "Silent": list(EVERYTHING),
    }
    assert profile.registered_events(implied=False)["Waits"] == [on(NODE, Action.Add, hint)]
    assert all(registered.hint is None and registered.event.action == Action.All for registered in EVERYTHING)


def test_a_plugin_is_asked_for_its_events_once():
    answers = iter([[on(NODE, Action.Add)]])

    class Once(fake("Once", filter=None), EnqueueExtensions):
        def events_to_register(self):
            return next(answers)

    profile = framework_of(state_of([a_node()]), Once)
    assert profile.registered_events() == profile.registered_events()
