"""Which changes wake pods rejected by the in-tree plugins, through the queue.

Each change meets two unschedulable pods that plugins cannot distinguish: `self`, which may be the changed object, and
its `twin`.
"""

import pytest

from stowplan.kube.api import types as t
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.scheduler.framework.events import DEVICE_TAINT_RULE
from stowplan.testing import a_node, a_pod, selector
from support.plugins.profiles import framework
from support.plugins.storage import CLAIMING, EPHEMERAL, csi_node, of, pvc, resource_claim, storage
from support.scheduling.queues import QueueHarness
from support.scheduling.worlds import ZONE, struct
from support.tables import every_case

VERSIONS = (V1_36, V1_37)
#: The pods that wake.
BOTH, SELF, NONE = ("self", "twin"), ("self",), ()


def devices(kind, **fields):
    return of(kind, "x", "resource.k8s.io/v1", **fields)


def in_zones(zones):
    return of("PersistentVolume", "v", metadata={"labels": {ZONE: zones}}, spec={})


def itself():
    """The unschedulable pod itself."""
    return a_pod("self").uid("self")


def other(name="other"):
    return a_pod(name).uid(name)


WEB = selector(labels={"app": "web"})
NEAR, AWAY = a_pod().requires_pods(ZONE, WEB), a_pod().avoids_pods(ZONE, WEB)
SPREAD = a_pod().labels(app="web").spreads(ZONE, WEB)
DRIVERS = a_pod().volume("v", csi={"driver": "x"})
IN_ZONE = a_node().labels({ZONE: "a"})
EBS = other().volume("v", awsElasticBlockStore={"volumeID": "vol-1"})


def counting(storage_capacity):
    return storage("CSIDriver", "x", spec={"storageCapacity": storage_capacity})


def room(capacity="1Gi", **fields):
    metadata = {"namespace": "n"}
    return storage("CSIStorageCapacity", "x", metadata=metadata, storageClassName="s", capacity=capacity, **fields)


def detached(driver):
    return storage("VolumeAttachment", "x", spec={"attacher": driver, "nodeName": "n", "source": {}})


ATTACHED = detached("d")
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"

ROWS = {
    "NodeUnschedulable": [
        ("a node comes", a_pod(), None, a_node(), BOTH),
        ("a cordoned node comes", a_pod(), None, a_node().unschedulable(), NONE),
        ("a node is uncordoned", a_pod(), a_node().unschedulable(), a_node(), BOTH),
        ("a taint goes", a_pod(), a_node().tainted("t"), a_node(), NONE),
        ("its toleration", a_pod(), itself(), itself().tolerates("node.kubernetes.io/unschedulable"), SELF),
        ("another toleration of its", a_pod(), itself(), itself().tolerates("x"), NONE),
    ],
    "NodeName": [
        ("a node comes", a_pod(), None, a_node(), BOTH),
        ("a taint goes", a_pod(), a_node().tainted("t"), a_node(), BOTH),
        ("labels change", a_pod(), a_node(), IN_ZONE, NONE),
    ],
    "TaintToleration": [
        ("an untainted node comes", a_pod(), None, a_node(), BOTH),
        ("a tainted node comes", a_pod(), None, a_node().tainted("t"), NONE),
        ("a tainted node comes, tolerated", a_pod().tolerates("t"), None, a_node().tainted("t"), BOTH),
        ("a taint goes", a_pod(), a_node().tainted("t"), a_node(), BOTH),
        ("a taint goes that was tolerated", a_pod().tolerates("t"), a_node().tainted("t"), a_node(), NONE),
        ("a taint comes", a_pod(), a_node(), a_node().tainted("t"), NONE),
        ("its tolerations", a_pod(), itself(), itself().tolerates("x"), SELF),
        ("advice comes", a_pod(), a_node(), a_node().tainted("t", effect="PreferNoSchedule"), NONE),
        ("one of two taints goes", a_pod(), a_node().tainted("t").tainted("u"), a_node().tainted("t"), NONE),
    ],
    "NodeAffinity": [
        ("a node comes that matches", a_pod().node_selector(a="b"), None, a_node().labels(a="b"), BOTH),
        ("a node comes that does not", a_pod().node_selector(a="b"), None, a_node(), NONE),
        ("a node starts to match", a_pod().node_selector(a="b"), a_node(), a_node().labels(a="b"), BOTH),
        (
            "a node still matches", a_pod().node_selector(a="b"), a_node().labels(a="b"),
            a_node().labels(a="b", c="d"), NONE,
        ),
        ("a taint goes", a_pod().node_selector(a="b"), a_node().tainted("t"), a_node(), BOTH),
    ],
    "NodePorts": [
        ("who held the port goes", a_pod().host_port(80), other().host_port(80).on("n"), None, BOTH),
        ("who held another port goes", a_pod().host_port(80), other().host_port(81).on("n"), None, NONE),
        ("who was nominated it goes", a_pod().host_port(80), other().host_port(80).nominated_to("n"), None, BOTH),
        ("a pod without a node goes", a_pod().host_port(80), other().host_port(80), None, NONE),
        ("a node comes", a_pod().host_port(80), None, a_node(), BOTH),
        ("a taint goes", a_pod().host_port(80), a_node().tainted("t"), a_node(), BOTH),
    ],
    "NodeResourcesFit": [
        ("a pod goes", a_pod().requests(cpu="1"), other().on("n"), None, BOTH),
        ("a nominated pod goes", a_pod().requests(cpu="1"), other().nominated_to("n"), None, BOTH),
        ("a pending pod goes", a_pod().requests(cpu="1"), other(), None, NONE),
        ("a pod comes", a_pod().requests(cpu="1"), None, other().on("n"), NONE),
        ("it asks for less", a_pod().requests(cpu="1"), itself().requests(cpu="2"), itself().requests(cpu="1"), SELF),
        (
            "a placed pod takes less", a_pod().requests(cpu="1"), other().requests(cpu="2").on("n"),
            other().requests(cpu="1").on("n"), BOTH,
        ),
        (
            "of something else", a_pod().requests(cpu="1"), other().requests(memory="2Gi").on("n"),
            other().requests(memory="1Gi").on("n"), NONE,
        ),
        ("a large node comes", a_pod().requests(cpu="1"), None, a_node().allocatable(cpu="4"), BOTH),
        ("a small node comes", a_pod().requests(cpu="8"), None, a_node().allocatable(cpu="4"), NONE),
        (
            "a node grows", a_pod().requests(cpu="4"), a_node().allocatable(cpu="2"), a_node().allocatable(cpu="4"),
            BOTH,
        ),
        (
            "a node grows, not enough", a_pod().requests(cpu="8"), a_node().allocatable(cpu="2"),
            a_node().allocatable(cpu="4"), NONE,
        ),
        (
            "a node takes more pods", a_pod().requests(cpu="1"), a_node().allocatable(pods=1),
            a_node().allocatable(pods=2), BOTH,
        ),
        ("a node that takes none comes", a_pod(), None, a_node().allocatable(pods=0), NONE),
        (
            "a node shrinks", a_pod().requests(cpu="1"), a_node().allocatable(cpu="4"), a_node().allocatable(cpu="2"),
            NONE,
        ),
        (
            "a node has more of something else", a_pod().requests(memory="1Mi"), a_node().allocatable(cpu="2"),
            a_node().allocatable(cpu="4"), NONE,
        ),
        ("a taint goes", a_pod().requests(cpu="1"), a_node().tainted("t"), a_node(), BOTH),
        (
            "a class of its devices comes", a_pod().requests({"deviceclass.resource.kubernetes.io/x": 1}), None,
            devices("DeviceClass", spec={}), BOTH,
        ),
        (
            "a class gets its resource", a_pod().requests({"example.com/gpu": 1}), devices("DeviceClass", spec={}),
            devices("DeviceClass", spec={"extendedResourceName": "example.com/gpu"}), BOTH,
        ),
        ("another class comes", a_pod().requests(cpu="1"), None, devices("DeviceClass", spec={}), NONE),
        (
            "another class gets another resource", a_pod().requests({"example.com/gpu": 1}), None,
            devices("DeviceClass", spec={"extendedResourceName": "example.com/fpga"}), NONE,
        ),
        (
            "a request of zero counts", a_pod().requests({"example.com/gpu": 0}), None,
            devices("DeviceClass", spec={"extendedResourceName": "example.com/gpu"}), BOTH,
        ),
        (
            "a class keeps its resource", a_pod().requests({"example.com/gpu": 1}),
            *[devices("DeviceClass", spec={"extendedResourceName": "example.com/gpu"})] * 2, NONE,
        ),
        (
            "a class loses its resource", a_pod().requests({"example.com/gpu": 1}),
            devices("DeviceClass", spec={"extendedResourceName": "example.com/gpu"}), devices("DeviceClass", spec={}),
            NONE,
        ),
        # It keeps its name.
        (
            "a class requested by name changes", a_pod().requests({"deviceclass.resource.kubernetes.io/x": 1}),
            devices("DeviceClass", spec={}), devices("DeviceClass", spec={"extendedResourceName": "example.com/gpu"}),
            NONE,
        ),
    ],
    "VolumeRestrictions": [
        ("who shared its claim goes", CLAIMING, other().claims_volume("c").on("n"), None, BOTH),
        ("who had another claim goes", CLAIMING, other().claims_volume("d").on("n"), None, NONE),
        (
            "of another namespace", CLAIMING, a_pod("o", "else").uid("o").claims_volume("c").on("n"), None, NONE,
        ),
        (
            "who held its disk goes", a_pod().volume("d", gcePersistentDisk={"pdName": "x"}),
            other().volume("d", gcePersistentDisk={"pdName": "x"}).on("n"), None, BOTH,
        ),
        ("a node comes", CLAIMING, None, a_node(), BOTH),
        ("a taint goes", CLAIMING, a_node().tainted("t"), a_node(), BOTH),
        ("its claim comes", CLAIMING, None, pvc("c"), BOTH),
        ("another claim comes", CLAIMING, None, pvc("d"), NONE),
        ("of another namespace", CLAIMING, None, pvc("c", "x"), NONE),
    ],
    "NodeVolumeLimits": [
        ("a CSINode comes", CLAIMING, None, csi_node(), BOTH),
        ("a limit grows", CLAIMING, csi_node(d=1), csi_node(d=2), BOTH),
        ("a limit shrinks", CLAIMING, csi_node(d=2), csi_node(d=1), NONE),
        ("a driver comes", CLAIMING, csi_node(), csi_node(d=2), BOTH),
        ("a pod with a claim goes", CLAIMING, other().claims_volume("d").on("n"), None, BOTH),
        ("a pod without one goes", CLAIMING, other().on("n"), None, NONE),
        ("its claim comes", CLAIMING, None, pvc("c"), BOTH),
        ("the claim made for it comes", EPHEMERAL, None, pvc("self-e"), SELF),
        ("a volume is detached", CLAIMING, ATTACHED, None, BOTH),
        ("a volume is detached, no volumes", a_pod(), ATTACHED, None, NONE),
        ("a pending pod with a claim goes", CLAIMING, other().claims_volume("d"), None, NONE),
        ("a pod with a disk of its own goes", CLAIMING, EBS.on("n"), None, BOTH),
        ("one with a driver's volume goes", CLAIMING, a_pod("o").volume("v", csi={"driver": "x"}).on("n"), None, NONE),
        ("its driver detaches a volume", EBS, detached("ebs.csi.aws.com"), None, BOTH),
        ("another driver detaches a volume", EBS, detached("x"), None, NONE),
        ("another driver detaches a volume, claim unknown", EPHEMERAL, detached("x"), None, NONE),
    ],
    "VolumeBinding": [
        ("a storage class comes", CLAIMING, None, storage("StorageClass", "x", provisioner="p"), BOTH),
        (
            "its topologies change", CLAIMING, storage("StorageClass", "x", provisioner="p"),
            storage("StorageClass", "x", provisioner="p", allowedTopologies=[{"matchLabelExpressions": []}]), BOTH,
        ),
        ("nothing of it changes", CLAIMING, *[storage("StorageClass", "x", provisioner="p")] * 2, NONE),
        ("its claim comes", CLAIMING, None, pvc("c"), BOTH),
        ("its claim changes", CLAIMING, pvc("c"), pvc("c", volumeName="v"), BOTH),
        ("another claim changes", CLAIMING, pvc("d"), pvc("d", volumeName="v"), NONE),
        (
            "a claim changes elsewhere", CLAIMING, *[pvc("c", "x")] * 2,
            NONE,
        ),
        ("the claim made for it changes", EPHEMERAL, pvc("self-e"), pvc("self-e", volumeName="v"), SELF),
        ("a volume comes", CLAIMING, None, of("PersistentVolume", "v", spec={}), BOTH),
        ("a volume changes", CLAIMING, *[of("PersistentVolume", "v", spec={})] * 2, BOTH),
        ("a node comes", CLAIMING, None, a_node(), BOTH),
        ("a node's labels change", CLAIMING, a_node(), IN_ZONE, BOTH),
        ("a taint goes", CLAIMING, a_node().tainted("t"), a_node(), BOTH),
        ("a CSINode comes", CLAIMING, None, csi_node(), BOTH),
        ("plugins migrate", CLAIMING, csi_node(), csi_node(annotations={MIGRATED: "x"}), BOTH),
        ("a limit grows", CLAIMING, csi_node(d=1), csi_node(d=2), NONE),
        ("its driver no longer counts storage", DRIVERS, counting(True), counting(False), BOTH),
        ("its driver counts storage now", DRIVERS, counting(False), counting(True), NONE),
        ("another no longer does", a_pod().volume("v", csi={"driver": "y"}), counting(True), counting(False), NONE),
        ("capacity comes", CLAIMING, None, room(), BOTH),
        ("capacity grows", CLAIMING, room(), room("2Gi"), BOTH),
        ("capacity shrinks", CLAIMING, room(), room("1Mi"), NONE),
        (
            "capacity grows, the largest volume does not", CLAIMING, room(maximumVolumeSize="1Gi"),
            room("2Gi", maximumVolumeSize="1Gi"), NONE,
        ),
    ],
    "VolumeZone": [
        (
            "a class that waits for pods comes", CLAIMING, None,
            storage("StorageClass", "x", provisioner="p", volumeBindingMode="WaitForFirstConsumer"), BOTH,
        ),
        ("another class comes", CLAIMING, None, storage("StorageClass", "x", provisioner="p"), NONE),
        ("a node comes", CLAIMING, None, a_node(), BOTH),
        ("a node's labels change", CLAIMING, a_node(), IN_ZONE, BOTH),
        ("a taint goes", CLAIMING, a_node().tainted("t"), a_node(), BOTH),
        ("its claim changes", CLAIMING, pvc("c"), pvc("c", volumeName="v"), BOTH),
        ("a volume comes", CLAIMING, None, of("PersistentVolume", "v", spec={}), BOTH),
        (
            "a volume moves", CLAIMING, of("PersistentVolume", "v", spec={}),
            of("PersistentVolume", "v", metadata={"labels": {ZONE: "a"}}, spec={}), BOTH,
        ),
        ("a volume changes otherwise", CLAIMING, *[of("PersistentVolume", "v", spec={})] * 2, NONE),
        ("a volume's zones in another order", CLAIMING, in_zones("a__b"), in_zones("b__a"), NONE),
        ("a zone that cannot be read", CLAIMING, of("PersistentVolume", "v", spec={}), in_zones("a__"), NONE),
        ("the claim made for it comes", EPHEMERAL, None, pvc("self-e"), NONE),
    ],
    "PodTopologySpread": [
        ("a pod that counts comes", SPREAD, None, other().labels(app="web").on("n"), BOTH),
        ("a pod that does not comes", SPREAD, None, other().on("n"), NONE),
        ("a pod that counts goes", SPREAD, other().labels(app="web").on("n"), None, BOTH),
        ("a pending pod goes", SPREAD, other().labels(app="web"), None, NONE),
        ("of another namespace", SPREAD, a_pod("o", "else").uid("o").labels(app="web").on("n"), None, NONE),
        ("a pod starts to count", SPREAD, other().on("n"), other().labels(app="web").on("n"), BOTH),
        ("its own labels", SPREAD, itself(), itself().labels(app="web"), SELF),
        (
            "its own tolerations, taints honoured",
            a_pod().labels(app="web").spreads(ZONE, WEB, node_taints_policy="Honor"),
            itself(), itself().tolerates("x"), SELF,
        ),
        ("its own tolerations, taints ignored", SPREAD, itself(), itself().tolerates("x"), NONE),
        ("a node with the key comes", SPREAD, None, IN_ZONE, BOTH),
        ("a node without it comes", SPREAD, None, a_node(), NONE),
        ("a node with it goes", SPREAD, IN_ZONE, None, BOTH),
        ("a node gets it", SPREAD, a_node(), IN_ZONE, BOTH),
        ("a node moves", SPREAD, IN_ZONE, a_node().labels({ZONE: "b"}), BOTH),
        ("a taint goes", SPREAD, a_node().labels({ZONE: "a"}).tainted("t"), IN_ZONE, BOTH),
        ("other labels change", SPREAD, IN_ZONE, a_node().labels({ZONE: "a", "x": "y"}), NONE),
    ],
    "InterPodAffinity": [
        ("a pod to be near to comes", NEAR, None, other().labels(app="web").on("n"), BOTH),
        ("another pod comes", NEAR, None, other().on("n"), NONE),
        ("a pending pod comes", NEAR, None, other().labels(app="web"), NONE),
        ("a pod becomes one to be near to", NEAR, other().on("n"), other().labels(app="web").on("n"), BOTH),
        ("its own labels", NEAR, itself(), itself().labels(a="b"), SELF),
        ("a pod to be away from goes", AWAY, other().labels(app="web").on("n"), None, BOTH),
        ("a pod is no longer one", AWAY, other().labels(app="web").on("n"), other().on("n"), BOTH),
        (
            "a pod that kept it away goes", a_pod().labels(app="web"), other().avoids_pods(ZONE, WEB).on("n"), None,
            BOTH,
        ),
        ("another pod goes", AWAY, other().on("n"), None, NONE),
        ("a node with the key comes", NEAR, None, IN_ZONE, BOTH),
        ("a node without it comes", NEAR, None, a_node(), NONE),
        ("any node comes, to be away", AWAY, None, a_node(), BOTH),
        ("a node loses the key", AWAY, IN_ZONE, a_node(), BOTH),
        ("a node moves", NEAR, IN_ZONE, a_node().labels({ZONE: "b"}), BOTH),
        ("a taint goes", NEAR, a_node().tainted("t"), a_node(), BOTH),
    ],
    "DynamicResources": [
        ("a node comes", a_pod().claims_devices("c"), None, a_node(), BOTH),
        ("a node's labels change", a_pod().claims_devices("c"), a_node(), IN_ZONE, BOTH),
        ("a node grows", a_pod().claims_devices("c"), a_node(), a_node().allocatable(cpu="64"), BOTH),
        ("a taint goes", a_pod().claims_devices("c"), a_node().tainted("t"), a_node(), BOTH),
        ("its claim comes", a_pod().claims_devices("c"), None, resource_claim(), BOTH),
        ("another claim comes", a_pod().claims_devices("c"), None, resource_claim("d"), NONE),
        (
            "its claim says the same", a_pod().claims_devices("c"), resource_claim(),
            resource_claim(status={"reservedFor": []}), NONE,
        ),
        (
            "its claim is allocated", a_pod().claims_devices("c"), resource_claim(),
            resource_claim(status={"allocation": {}}), BOTH,
        ),
        (
            "a claim is given back", a_pod().claims_devices("c"), resource_claim("d", {"allocation": {}}),
            resource_claim("d"), BOTH,
        ),
        (
            "its claims are made", a_pod().claims_devices("c"), itself(),
            itself().status(resourceClaimStatuses=[{"name": "c", "resourceClaimName": "c"}]), SELF,
        ),
        ("a device class comes", a_pod().claims_devices("c"), None, devices("DeviceClass", spec={}), BOTH),
        ("a slice comes", a_pod().claims_devices("c"), None, devices("ResourceSlice", spec={}), BOTH),
        ("a slice changes", a_pod().claims_devices("c"), *[devices("ResourceSlice", spec={})] * 2, BOTH),
        ("a slice goes", a_pod().claims_devices("c"), devices("ResourceSlice", spec={}), None, NONE),
    ],
    "NodeDeclaredFeatures": [
        ("a node comes", a_pod(), None, a_node(), BOTH),
        ("a node declares more", a_pod(), a_node(), a_node().declares("F"), BOTH),
        ("a taint goes", a_pod(), a_node().tainted("t"), a_node(), BOTH),
        (
            "it needs something else", a_pod(), itself().spec(hostNetwork=True, hostUsers=False),
            itself().spec(hostNetwork=True), SELF,
        ),
    ],
    "DefaultPreemption": [("a pod goes", a_pod(), other().on("n"), None, NONE)],
    "Extender": [("anything", a_pod(), pvc("c"), pvc("c", volumeName="v"), BOTH)],
}  # fmt: skip


CASES = [pytest.param(plugin, *case, id=f"{plugin}: {what}") for plugin, rows in ROWS.items() for what, *case in rows]


def named(pod, name):
    return struct(pod.obj() | {"metadata": pod.obj()["metadata"] | {"name": name, "uid": name}})


#: Rows of which nothing wakes since 1.37: taints are no longer implied, and the deletion of a nominated pod is reported
#: as that of an assigned one (by the event handlers, which are not part of this).
_SINCE_1_37 = (
    "a taint goes",
    "who was nominated it goes",
    "a nominated pod goes",
    "a nominated pod that mounts it goes",
)
_MINDS_TAINTS = ("TaintToleration", "PodTopologySpread")
#: Pods that repel each other by one term of two; until 1.36, all terms had to match.
_TWO_TERMS = a_pod().avoids_pods(ZONE, WEB).avoids_pods(ZONE, selector(labels={"app": "db"}))
_TWO_TERMS_OF_OTHER = other().avoids_pods(ZONE, WEB).avoids_pods(ZONE, selector(labels={"app": "db"})).on("n")
REPELLED = [
    ("who matched one term goes", _TWO_TERMS, other().labels(app="web").on("n"), None),
    ("who matched one term no longer does", _TWO_TERMS, other().labels(app="web").on("n"), other().on("n")),
    ("who kept it away by one term goes", a_pod().labels(app="web"), _TWO_TERMS_OF_OTHER, None),
]


def woken_in(version, plugin, what, woken):
    if version < V1_37 or plugin in _MINDS_TAINTS:
        return woken
    return NONE if what in _SINCE_1_37 else woken


def sleepers(plugin, pod, version=V1_37):
    """A queue in which the plugin rejected `self` and its `twin` long ago."""
    harness = QueueHarness(framework=framework, version=version)
    if plugin == "Extender":
        harness.frameworks["default-scheduler"].handle._extenders = (object(),)
        harness.queue.register()
    # The objects that the pods name exist.
    harness.state.put_object(struct(resource_claim()))
    for name in BOTH:
        harness.add_rejected(named(pod, name), plugin)
    assert harness.queue.get("default/self").pod.shape is harness.queue.get("default/twin").pod.shape
    harness.now += 60
    return harness


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_events_of_other_objects(version):
    with every_case() as case:
        for one in CASES:
            plugin, pod, old, new, woken = one.values
            with case(one.id):
                woken = woken_in(version, plugin, one.id.partition(": ")[2], woken)
                harness = sleepers(plugin, pod, version)
                old, new = struct(old), struct(new)
                for event in harness.events(old, new):
                    harness.queue.move_all(event, old, new)
                assert tuple(name for name in BOTH if harness.place(name) == "ACTIVE") == woken
                assert harness.problems == []


@pytest.mark.parametrize(("version", "woken"), [(V1_36, NONE), (V1_37, BOTH)], ids=str)
@pytest.mark.parametrize(
    ("what", "pod", "old", "new"), REPELLED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_one_of_two_terms_repels(what, pod, old, new, version, woken):
    harness = sleepers("InterPodAffinity", pod, version)
    for event in harness.events(old, new):
        harness.queue.move_all(event, struct(old), struct(new))
    assert tuple(name for name in BOTH if harness.place(name) == "ACTIVE") == woken


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize(
    ("plugin", "pod", "old", "new", "woken"),
    [case for case in CASES if isinstance(struct(case.values[3]), t.Pod) and case.values[4] == SELF],
)
def test_updates_of_the_pod_itself(plugin, pod, old, new, woken, version):
    """The same for updates of the unschedulable pod."""
    harness = sleepers(plugin, pod, version)
    # The change, applied to a pod with unchanged demands.
    changed = [obj.obj() | {"spec": pod.obj()["spec"] | obj.obj()["spec"]} for obj in (old, new)]
    harness.update(*changed)
    assert harness.place("self") == "ACTIVE"
    assert harness.place("twin") == "UNSCHEDULABLE"


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_every_registration_has_a_row(version):
    """No plugin registers for an event without a row above."""
    harness = sleepers("Extender", a_pod(), version)
    spoken_of = {}
    for plugin, rows in ROWS.items():
        for _, _, old, new, woken in rows:
            if woken:
                spoken_of.setdefault(plugin, []).extend(harness.events(old, new))
    for plugin, registered in harness.frameworks["default-scheduler"].registered_events().items():
        if plugin in ("SchedulingGates", "DefaultPreemption"):
            # Gates open; preemption never wakes pods itself.
            continue
        for registration in registered:
            if registration.event.resource == DEVICE_TAINT_RULE:
                # in_tree/dynamic_resources/test_taint_rules.py
                continue
            assert any(registration.event.covers(event) for event in spoken_of[plugin]), (plugin, registration.event)


def test_a_claim_opens_the_gate_of_its_pod():
    harness = QueueHarness(framework=framework)
    harness.add(named(a_pod().claims_devices("c"), "self"))
    assert harness.gate_of("self") == "DynamicResources"
    claim = struct(resource_claim())
    harness.state.put_object(claim)
    for event in harness.events(None, claim):
        harness.queue.move_all(event, None, claim)
    assert harness.place("self") == "ACTIVE"
