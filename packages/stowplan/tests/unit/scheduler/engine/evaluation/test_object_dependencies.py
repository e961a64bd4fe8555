"""Reuse is exact when lookup objects change, and unaffected by unrelated changes.

Each scenario changes an object that one plugin's answer depends on. The shared evaluation of equal pods must then equal
a fresh one; without the plugin's declaration it must differ, so every declaration is needed and none can be lost
unnoticed. A property test with random changes of all kinds compares the whole with the plain rule.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stowplan
from stowplan.kube.api import types as t
from stowplan.kube.api.custom_objects import custom_resource
from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.plugins import (
    SKIP,
    FilterPlugin,
    ObjectDependency,
    ObjectIndex,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Reads,
    Reason,
    Rejections,
    ScorePlugin,
    TemplateSigned,
    unschedulable,
)
from stowplan.scheduler.engine.evaluation import columns
from stowplan.scheduler.engine.evaluation.columns import SharedColumns
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.in_tree.dynamic_resources.plugin import DynamicResources
from stowplan.scheduler.in_tree.inter_pod_affinity.plugin import InterPodAffinity
from stowplan.scheduler.in_tree.node_resources_fit.plugin import NodeResourcesFit
from stowplan.scheduler.in_tree.node_volume_limits.plugin import NodeVolumeLimits
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.scheduler.in_tree.volume_binding.plugin import VolumeBinding
from stowplan.scheduler.in_tree.volume_zone.plugin import VolumeZone
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins import claims as volumes
from support.plugins.answering_plugins import configuration
from support.plugins.storage import of, pvc, storage
from support.scheduling.evaluations import findings
from support.scheduling.worlds import HOST, ZONE, named_like, namespace, remove_placed, service, state_of, struct

GPU = "example.com/gpu"
QUOTA = custom_resource("quotas.v1.example.com")
CLOSED = Reason("Closed", "closed")


# -- users' plugins ---------------------------------------------------------------------------------------------------


class Quota(FilterPlugin, TemplateSigned):
    """Refuses the nodes that the quota of the pod's namespace names."""

    name = "Quota"
    reads = Reads.NODES

    def reads_objects(self, pod):
        return [ObjectDependency.named(QUOTA, f"{pod.namespace}/quota")]

    def filter(self, state, pod, nodes):
        quota = self.handle.cluster.objects.get(QUOTA, f"{pod.namespace}/quota")
        closed = set(quota.content["closed"]) if quota else set()
        mask = [name in closed for name in nodes.names()]
        return Rejections.where(_mask(mask), CLOSED)


class Favourite(ScorePlugin, TemplateSigned):
    """Prefers the nodes that a quota, found by its team, names."""

    name = "Favourite"
    reads = Reads.NODES
    in_range = True
    BY_TEAM = ObjectIndex("team", lambda quota: [quota.metadata.labels.get("team", "")])

    def reads_objects(self, pod):
        return [ObjectDependency.indexed(QUOTA, self.BY_TEAM, pod.namespace)]

    def score(self, state, pod, nodes):
        found = self.handle.cluster.objects.indexed(QUOTA, self.BY_TEAM, pod.namespace)
        liked = {name for quota in found for name in quota.content["closed"]}
        return 50 * _mask([name in liked for name in nodes.names()]).astype("int64")


class Undeclared(FilterPlugin, TemplateSigned):
    """Reads quotas without declaring it."""

    name = "Undeclared"
    reads = Reads.NODES
    filter = Quota.filter


class CannotSay(Undeclared):
    name = "CannotSay"

    def reads_objects(self, pod):
        raise RuntimeError("cannot say")


class SaysNonsense(Undeclared):
    name = "SaysNonsense"

    def reads_objects(self, pod):
        return ["quotas"]


class Remembers(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, TemplateSigned):
    """Stores what it looked up in PreFilter and PreScore, or nothing; skips, refuses or narrows the nodes as the quota
    says."""

    name = "Remembers"
    reads = Reads.NODES
    in_range = True

    reads_objects = Quota.reads_objects

    def closed(self, pod):
        quota = self.handle.cluster.objects.get(QUOTA, f"{pod.namespace}/quota")
        return quota, set(quota.content["closed"]) if quota else set()

    def pre_filter(self, state, pod, nodes):
        quota, closed = self.closed(pod)
        if quota is None:
            return None
        if quota.metadata.labels["team"] == "nobody":
            return unschedulable("nobody may")
        if quota.metadata.labels["team"] == "two":
            return PreFilterResult(frozenset({"n0", "n1"}))
        if not closed:
            return SKIP
        state.write("Remembers/closed", closed)
        return None

    def filter(self, state, pod, nodes):
        closed = state.get("Remembers/closed") or ()
        return Rejections.where(_mask([name in closed for name in nodes.names()]), CLOSED)

    def pre_score(self, state, pod, nodes):
        quota, closed = self.closed(pod)
        if quota is not None and not closed:
            return SKIP
        if closed:
            state.write("Remembers/liked", closed)
        return None

    def score(self, state, pod, nodes):
        liked = state.get("Remembers/liked") or ()
        return 30 * _mask([name in liked for name in nodes.names()]).astype("int64")


USERS = (Quota, Favourite, Undeclared, Remembers)


def _mask(values):
    return np.array(values, np.bool_)


# -- the bench --------------------------------------------------------------------------------------------------------


def framework_on(state, *plugins, without=(), **gates):
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    multi = {"enabled": [{"name": p.name} for p in plugins], "disabled": [{"name": name} for name in without]}
    profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": multi}}
    raw = configuration(profile)
    features = DEFAULT_FEATURES.with_gates(gates)
    config = load_config(raw, plugins=registry.declarations, features=features)
    return Framework(
        config.profiles[0], registry, Handle(cluster=state, profile_name="default-scheduler", features=features)
    )


def device_class(name, resource=None):
    return of("DeviceClass", name, "resource.k8s.io/v1", spec={"extendedResourceName": resource} if resource else {})


def csi_node(name, limit=None):
    driver = {"name": "ebs.csi.aws.com", "nodeID": name, **({} if limit is None else {"allocatable": {"count": limit}})}
    return storage("CSINode", name, spec={"drivers": [driver]})


def quota(name, *closed, namespace="default", team=""):
    metadata = t.ObjectMeta(name=name, namespace=namespace, labels={"team": team})
    return QUOTA(metadata=metadata, content={"closed": list(closed)})


def claim(name, namespace="default", mode="ReadWriteOnce"):
    return pvc(name, namespace, accessModes=[mode])


def bound_claim(name, volume):
    found = claim(name)
    found["spec"]["volumeName"] = volume
    found["metadata"]["annotations"] = {volumes.COMPLETED: "yes"}
    return found


def csi_volume(name, handle="h", **labels):
    metadata = {"labels": {f"topology.kubernetes.io/{key}": value for key, value in labels.items()}}
    return of(
        "PersistentVolume", name, metadata=metadata, spec={"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": handle}}
    )


def attachment(node, volume):
    spec = {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": volume}}
    return storage("VolumeAttachment", f"{volume}-{node}", spec=spec)


def storage_class(name, mode=None):
    return storage("StorageClass", name, provisioner="x", **({} if mode is None else {"volumeBindingMode": mode}))


NODES = [a_node(f"n{i}").zone("ab"[i % 2]) for i in range(4)]
ON_BLUE = {"matchLabels": {"team": "blue"}}
WEB, DB = {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "db"}}
DB_IN_BLUE = a_pod("db").uid("db").namespace("blue").labels(app="db").on("n0")
EBS = {"name": "disk", "awsElasticBlockStore": {"volumeID": "v"}}
CLAIMED = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def with_volume(pod, volume):
    found = pod.obj()
    found["spec"]["volumes"] = [volume]
    return found


def cluster(*objects, nodes=NODES):
    state = state_of(nodes)
    for obj in map(struct, objects):
        (state.add_pod if isinstance(obj, t.Pod) else state.put_object)(obj)
    return state


class Scenario:
    """A cluster, a pod, and a change of an object that one plugin depends on."""

    def __init__(self, plugin, pod, old, new, *, there=(), nominated=None, users=(), without=(), **gates):
        self.plugin, self.pod, self.old, self.new = plugin, pod, old, new
        self.there, self.nominated, self.users, self.without, self.gates = there, nominated, users, without, gates

    def play(self):
        """Results of the shared evaluation and of a fresh one, before and after the change, and whether it was
        reused."""
        old = [] if self.old is None else [self.old]
        state = cluster(*self.there, *old, nodes=NODES if self.nominated is None else NODES[:1])
        profile = framework_on(state, *self.users, without=self.without, **self.gates)
        if self.nominated is not None:
            state.nominator.add(state.pod_info(struct(self.nominated)), "n0")
        shared, sums = {}, SharedColumns(profile)

        def says():
            pod = state.pod_info(struct(self.pod))
            evaluation = shared.setdefault(profile.signature(pod), Evaluation(profile, sums))
            return findings(profile, evaluation, pod), findings(profile, Evaluation(profile), pod)

        before = says()
        if self.new is None:
            state.remove_object(struct(self.old))
        else:
            state.put_object(struct(self.new))
        return before, says()


LOCAL = volumes.a_class("local", provisioner="kubernetes.io/no-provisioner")
MADE = volumes.a_class("made", provisioner="x")
EBS_VOLUME = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


def in_zone(name, zone, **fields):
    return volumes.volume(name, class_name="local", on={volumes.ZONE: [zone]}, **fields)


def migrating(*plugins):
    found = csi_node("n1")
    found["metadata"]["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(plugins)}
    return found


SCENARIOS = {
    "a volume that is free": Scenario(
        VolumeBinding,
        with_volume(a_pod(), CLAIMED),
        None,
        in_zone("v", "a"),
        there=[volumes.claim("data", class_name="local"), LOCAL],
    ),
    "a volume that is given away": Scenario(
        VolumeBinding,
        with_volume(a_pod(), CLAIMED),
        in_zone("v", "a"),
        in_zone("v", "a", spec=volumes.held("other")),
        there=[volumes.claim("data", class_name="local"), LOCAL],
    ),
    "where volumes are made": Scenario(
        VolumeBinding,
        with_volume(a_pod(), CLAIMED),
        MADE,
        volumes.a_class("made", provisioner="x", zones=["a"]),
        there=[volumes.claim("data", class_name="made")],
    ),
    "room for volumes": Scenario(
        VolumeBinding,
        with_volume(a_pod(), CLAIMED),
        None,
        volumes.capacity("k", class_name="made", labels={volumes.ZONE: "a"}, capacity="5Gi"),
        there=[volumes.claim("data", class_name="made"), MADE, volumes.a_driver("x")],
    ),
    "a driver that says how much room there is": Scenario(
        VolumeBinding,
        with_volume(a_pod(), CLAIMED),
        None,
        volumes.a_driver("x"),
        there=[volumes.claim("data", class_name="made"), MADE],
    ),
    "a node whose volumes were taken over": Scenario(
        VolumeBinding,
        with_volume(a_pod(), CLAIMED),
        migrating(),
        migrating("kubernetes.io/aws-ebs"),
        there=[volumes.claim("data", volume="v"), in_zone("v", "b", spec=EBS_VOLUME)],
        without=["VolumeZone"],
    ),
    "namespaces that a term selects": Scenario(
        InterPodAffinity,
        a_pod().requires_pods(ZONE, DB, namespace_selector=ON_BLUE),
        namespace("blue", team="red"),
        namespace("blue", team="blue"),
        there=[DB_IN_BLUE],
    ),
    "namespaces that a preference selects": Scenario(
        InterPodAffinity,
        a_pod().prefers_pods(10, ZONE, DB, namespace_selector=ON_BLUE),
        namespace("blue", team="blue"),
        None,
        there=[DB_IN_BLUE],
    ),
    "the pod's own namespace, which a nominated pod's term selects": Scenario(
        InterPodAffinity,
        a_pod().namespace("blue").labels(app="web").avoids_pods(HOST, DB),
        namespace("blue", team="blue"),
        namespace("blue", team="red"),
        nominated=a_pod("nominated").uid("nominated").priority(5).avoids_pods(HOST, WEB, namespace_selector=ON_BLUE),
    ),
    "a device class for an extended resource": Scenario(
        NodeResourcesFit,
        a_pod().requests({GPU: 1}),
        None,
        device_class("gpu", GPU),
        without=["DynamicResources"],
        DRAExtendedResource=True,
    ),
    "a user's object by its key": Scenario(Quota, a_pod(), None, quota("quota", "n0", "n2"), users=[Quota]),
    "a user's object, of which state was written": Scenario(
        Remembers, a_pod(), quota("quota", "n0"), None, users=[Remembers]
    ),
    "a user's object by an index": Scenario(
        Favourite, a_pod(), quota("a", "n1"), quota("a", "n1", team="default"), users=[Favourite]
    ),
}


#: Noticed by the plugin itself, without a declaration.
NOTICED = {
    "a device class that devices would come from": Scenario(
        DynamicResources,
        a_pod().requests({GPU: 1}),
        None,
        device_class("gpu", GPU),
        without=["NodeResourcesFit"],
        DRAExtendedResource=True,
    ),
    "a node's limit of volumes": Scenario(
        NodeVolumeLimits, with_volume(a_pod(), EBS), csi_node("n1"), csi_node("n1", 0), there=[csi_node("n0")]
    ),
    "a volume attached to a node": Scenario(
        NodeVolumeLimits,
        with_volume(a_pod(), EBS),
        None,
        attachment("n1", "pv"),
        there=[csi_node("n1", 1), csi_volume("pv")],
    ),
    "what a running pod's claim leads to": Scenario(
        NodeVolumeLimits,
        with_volume(a_pod(), EBS),
        claim("data"),
        bound_claim("data", "pv"),
        there=[csi_node("n1", 1), csi_volume("pv"), a_pod("db").uid("db").claims_volume("data").on("n1")],
    ),
    "where the pod's volume is": Scenario(
        VolumeZone,
        with_volume(a_pod(), CLAIMED),
        csi_volume("pv", zone="a"),
        csi_volume("pv", zone="b"),
        there=[bound_claim("data", "pv")],
    ),
    "the pod's claim": Scenario(
        VolumeBinding, with_volume(a_pod(), CLAIMED), None, volumes.claim("data", class_name="made"), there=[MADE]
    ),
    "the volume of the pod's claim": Scenario(
        VolumeBinding,
        with_volume(a_pod(), CLAIMED),
        in_zone("v", "a"),
        in_zone("v", "b"),
        there=[volumes.claim("data", class_name="local", volume="v")],
    ),
    "the volume that is held for the pod's claim": Scenario(
        VolumeBinding,
        with_volume(a_pod(), CLAIMED),
        in_zone("v", "a", spec=volumes.held("data")),
        in_zone("v", "b", spec=volumes.held("data")),
        there=[volumes.claim("data", class_name="local"), LOCAL],
    ),
}


@pytest.fixture(autouse=True)
def _many_rows_at_once(monkeypatch):
    """On a small table a single changed row exceeds the maximum share for updates, unless that is raised."""
    monkeypatch.setattr(columns, "MAX_CHANGED_SHARE", 1.0)


@pytest.mark.parametrize("scenario", (SCENARIOS | NOTICED).values(), ids=SCENARIOS | NOTICED)
def test_a_relevant_change_is_noticed(scenario):
    before, after = scenario.play()
    assert before[0] == before[1]
    assert after[0] == after[1]
    assert after[0] != before[0], "the change must matter"


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_each_declaration_is_needed(scenario, monkeypatch):
    monkeypatch.setattr(scenario.plugin, "reads_objects", lambda self, pod: ())
    _, after = scenario.play()
    assert after[0] != after[1]


UNRELATED = {
    "claims": claim("other"),
    "volumes": csi_volume("other"),
    "free volumes": in_zone("other", "a"),
    "room for volumes": volumes.capacity("k", labels={}, capacity="1Gi"),
    "storage classes": storage_class("fast"),
    "device classes": device_class("other", "example.com/other"),
    "services elsewhere": service("web", "blue", app="web"),
    "services of other pods": service("db", app="db"),
    "namespaces": namespace("red", team="red"),
    "limits of volumes": csi_node("n1", 3),
    "a user's objects": quota("other", "n0", team="blue"),
}


@pytest.mark.parametrize("obj", UNRELATED.values(), ids=UNRELATED)
def test_unrelated_changes_leave_reuse_alone(obj):
    state = cluster(service("web", app="web"))
    profile = framework_on(state, Quota, Favourite, DRAExtendedResource=True)
    shared, pod = Evaluation(profile), state.pod_info(struct(a_pod().labels(app="web").requests({GPU: 0}, cpu="1")))
    signature = profile.signature(pod)
    assert not shared.filter(pod).reused
    for change in (state.put_object, state.put_object, state.remove_object):
        change(struct(obj))
        assert profile.signature(pod) == signature
        assert shared.filter(pod).reused


@pytest.mark.parametrize(
    "obj",
    [
        claim("other"),
        volumes.volume("other", class_name="fast"),
        volumes.volume("other", class_name="local", phase="Bound", spec=volumes.held("other")),
        storage_class("fast"),
        volumes.capacity("k", class_name="fast", labels={}, capacity="1Gi"),
        volumes.capacity("k", class_name="local", labels={}, capacity="1Gi"),
        volumes.a_driver("other"),
        migrating("kubernetes.io/aws-ebs"),
    ],
    ids=lambda obj: obj["kind"],
)
def test_changes_of_other_claims_do_not_affect_a_pod_with_an_unbound_claim(obj, monkeypatch):
    state = cluster(volumes.claim("data", class_name="local"), LOCAL, in_zone("v", "a"))
    profile = framework_on(state)
    shared, pod = Evaluation(profile), state.pod_info(struct(with_volume(a_pod(), CLAIMED)))
    signature, asked = profile.signature(pod), asked_filters(profile, monkeypatch)
    shared.filter(pod)
    for change in (state.put_object, state.put_object, state.remove_object):
        change(struct(obj))
        asked.clear()
        assert profile.signature(pod) == signature
        assert shared.filter(pod).reused
        assert "VolumeBinding" not in asked


def asked_filters(profile, monkeypatch):
    """Records the names of called Filter plugins, in order."""
    asked = []

    def recorded(filter_):
        def asking(plugin, *args):
            asked.append(plugin.name)
            return filter_(plugin, *args)

        return asking

    for plugin in {type(plugin) for plugin in profile.filter}:
        monkeypatch.setattr(plugin, "filter", recorded(plugin.filter))
    return asked


def test_only_plugins_whose_objects_changed_are_called_again(monkeypatch):
    state = cluster()
    profile = framework_on(state, Quota, Favourite, Remembers)
    shared, pod, asked = Evaluation(profile), state.pod_info(struct(a_pod())), asked_filters(profile, monkeypatch)

    def says():
        asked.clear()
        outcome = shared.filter(pod)
        names = list(asked)
        scored = shared.score(pod, outcome.feasible).totals.tolist()
        fresh = Evaluation(profile)
        assert outcome.feasible.tolist() == fresh.filter(pod).feasible.tolist()
        assert scored == fresh.score(pod, outcome.feasible).totals.tolist()
        return names

    assert len(says()) > 3
    assert says() == []
    state.put_object(quota("quota", "n0"))
    assert says() == ["Quota", "Remembers"]
    state.put_object(quota("other", "n1", team="default"))
    assert says() == [], "Favourite only scores"
    with state.transaction():
        state.put_object(quota("quota", "n2"))
        assert says() == ["Quota", "Remembers"]
    assert says() == ["Quota", "Remembers"]
    assert says() == []


@pytest.mark.parametrize("plugin", [Undeclared, CannotSay, SaysNonsense])
def test_a_plugin_without_a_declaration_depends_on_all_objects(plugin, monkeypatch):
    state = cluster()
    profile = framework_on(state, plugin)
    shared, pod, asked = Evaluation(profile), state.pod_info(struct(a_pod())), asked_filters(profile, monkeypatch)
    shared.filter(pod)
    asked.clear()
    assert shared.filter(pod).reused
    assert not asked
    state.put_object(struct(claim("other")))
    assert shared.filter(pod).reused
    assert asked == [plugin.name]
    state.put_object(quota("quota", "n0"))
    assert findings(profile, shared, pod) == findings(profile, Evaluation(profile), pod)


def test_a_column_of_sums_follows_the_objects_that_its_plugin_reads():
    """The second template asks the same question as the first, whose column is updated by rows alone."""
    state = cluster()
    profile = framework_on(state, without=["DynamicResources"], DRAExtendedResource=True)
    sums, shared = SharedColumns(profile), {}

    def check(template):
        pod = state.pod_info(struct(template))
        evaluation = shared.setdefault(profile.signature(pod), Evaluation(profile, sums))
        assert findings(profile, evaluation, pod) == findings(profile, Evaluation(profile), pod)

    templates = [a_pod().requests({GPU: 1}), a_pod().requests({GPU: 1}).tolerates("x")]
    state.put_object(struct(device_class("gpu", GPU)))
    for step in range(4):
        for template in templates:
            check(template)
        state.add_pod(struct(a_pod(f"p{step}").uid(f"p{step}").requests(cpu="1").on(f"n{step}")))
        for template in templates:
            check(template)
        (state.remove_object if step % 2 == 0 else state.put_object)(struct(device_class("gpu", GPU)))


OBJECTS = (
    *(namespace(name, **labels) for name in ("default", "blue") for labels in ({"team": "blue"}, {"team": "red"}, {})),
    *(device_class(name, resource) for name in ("a", "b") for resource in (GPU, "example.com/other", None)),
    *(csi_node(name, limit) for name in ("n0", "n1") for limit in (None, 1)),
    *(bound_claim(name, f"pv-{name}") for name in ("a", "b")),
    *(csi_volume(f"pv-{name}", handle, zone=zone) for name, handle, zone in ("aha", "ahb", "bia", "bhb")),
    attachment("n1", "pv-a"),
    *(
        service(name, namespace_name=ns, app=app)
        for name in "ab"
        for ns in ("default", "blue")
        for app in ("web", "db")
    ),
    *(claim(name, mode=mode) for name in ("a", "b") for mode in ("ReadWriteOnce", "ReadWriteOncePod")),
    *(quota(name, *nodes, team=team) for name in ("quota", "x") for team in ("", "default") for nodes in ((), ["n1"])),
    *(quota("quota", "n2", team=team) for team in ("nobody", "two")),
)
#: Of unbound claims.
WAITING = (
    *(volumes.claim(name, class_name=of) for name in ("a", "b") for of in ("local", "made")),
    *(in_zone(f"free-{name}", zone) for name in ("a", "b") for zone in ("a", "b")),
    *(in_zone("free-a", "a", spec=volumes.held(name)) for name in ("a", "other")),
    LOCAL,
    MADE,
    volumes.a_class("made", provisioner="x", zones=["b"]),
    *(volumes.a_driver("x", tracks=tracks) for tracks in (True, False)),
    *(volumes.capacity("k", class_name="made", labels={volumes.ZONE: z}, capacity="5Gi") for z in ("a", "b")),
    migrating("kubernetes.io/aws-ebs"),
)
OBJECTS += WAITING
TEMPLATES = (
    a_pod().labels(app="web").requests(cpu="1"),
    a_pod().labels(app="db").namespace("blue").requests(cpu="1"),
    a_pod().requests({GPU: 1}, cpu="1"),
    a_pod().labels(app="web").requires_pods(ZONE, DB, namespace_selector=ON_BLUE),
    a_pod().labels(app="web").prefers_pods(10, ZONE, DB, namespace_selector=ON_BLUE),
    a_pod().labels(app="web").namespace("blue").avoids_pods(HOST, WEB, namespace_selector=ON_BLUE),
    with_volume(a_pod(), EBS),
    *(with_volume(a_pod(), {"name": "data", "persistentVolumeClaim": {"claimName": name}}) for name in ("a", "b")),
)
changes = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "remove", "place", "try", "try", "delete", "nominate")), st.integers(0, 120)
    ),
    min_size=5,
    max_size=30,
)


@pytest.mark.parametrize("switched", [True, False], ids=["device gate on", "device gate off"])
@pytest.mark.parametrize("without", [["DynamicResources"], ["NodeResourcesFit"], ["VolumeBinding"]])
def test_reuse_is_exact_while_objects_change(switched, without):
    @examples(40)
    @given(st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=3), st.sampled_from(USERS), changes)
    def holds(templates, user, changes):
        state = cluster()
        profile = framework_on(state, user, without=without, DRAExtendedResource=switched)
        sums, shared, count = SharedColumns(profile), {}, 0

        def a_new_pod(which):
            found = templates[which % len(templates)]
            return state.pod_info(named_like(found if isinstance(found, dict) else found.obj(), f"p{count}"))

        for what, which in changes:
            count += 1
            pod = a_new_pod(which)
            obj = OBJECTS[which % len(OBJECTS)]
            if what in ("put", "remove"):
                (state.put_object if what == "put" else state.remove_object)(struct(obj))
            elif what == "place":
                state.assume(pod, f"n{which % 4}")
            elif what == "delete":
                remove_placed(state, which)
            elif what == "nominate":
                state.nominator.add(pod, f"n{which % 4}")
            count += 1
            pod = a_new_pod(which + 1)
            evaluation = shared.setdefault(profile.signature(pod), Evaluation(profile, sums))
            if profile.signature(pod) is not None:
                assert findings(profile, evaluation, pod) == findings(profile, Evaluation(profile), pod)

    holds()


def test_waiting_pods_of_a_stateful_set_share_results(monkeypatch):
    """Whether a claim is being provisioned or is bound does not matter to pods with claims of their own."""
    state = cluster(MADE)
    profile = framework_on(state)
    sums, shared, asked = SharedColumns(profile), {}, asked_filters(profile, monkeypatch)

    def judged(i):
        name = f"data-web-{i}"
        state.put_object(struct(volumes.claim(name, class_name="made")))
        pod = with_volume(a_pod(f"web-{i}").uid(f"web-{i}"), {"name": "data"})
        pod["spec"]["volumes"][0]["persistentVolumeClaim"] = {"claimName": name}
        info = state.pod_info(struct(pod))
        asked.clear()
        outcome = shared.setdefault(profile.signature(info), Evaluation(profile, sums)).filter(info)
        names, cycle = list(asked), CycleState()
        assert profile.plugins["VolumeBinding"].reserve(cycle, info, f"n{i % 4}") is None
        assert len(state.assumed) == 1
        bound = volumes.volume(f"pv-{i}", class_name="made", phase="Bound", spec=volumes.held(name))
        state.put_object(struct(bound))
        state.put_object(struct(volumes.claim(name, class_name="made", volume=f"pv-{i}")))
        assert len(state.assumed) == 0
        return outcome.reused, "VolumeBinding" in names

    assert [judged(i) for i in range(4)] == [(False, True), (True, False), (True, False), (True, False)]
    assert len(shared) == 1


class Chained(FilterPlugin, TemplateSigned):
    """Refuses all nodes if the quota named by the first quota is closed."""

    name = "Chained"
    reads = Reads.NODES

    def _quota(self, name):
        return self.handle.cluster.objects.get(QUOTA, f"default/{name}")

    def reads_objects(self, pod):
        first = self._quota("first")
        names = ["first", *([first.content["next"]] if first else [])]
        return [ObjectDependency.named(QUOTA, f"default/{name}") for name in names]

    def filter(self, state, pod, nodes):
        last = self._quota(self._quota("first").content["next"])
        if last is None or not last.content.get("closed"):
            return None
        return Rejections.where(np.ones(len(nodes), np.bool_), CLOSED)


@pytest.mark.parametrize("reuse", [True, False])
def test_an_object_is_watched_once_another_one_names_it(reuse):
    def quota(name, **content):
        return QUOTA(metadata=t.ObjectMeta(name=name, namespace="default"), content=content)

    config = configuration({"plugins": {"multiPoint": {"enabled": [{"name": "Chained"}]}}})
    cluster = stowplan.Cluster([a_node("n").obj()], config=config, plugins=[Chained], reuse=reuse)
    put = cluster.state.put_object
    put(quota("first", next="s1"))
    put(quota("s1"))
    put(quota("s2"))
    placed = [bool(cluster.schedule([a_pod("p0").obj()])[0].node_name)]
    put(quota("first", next="s2"))
    placed.append(bool(cluster.schedule([a_pod("p1").obj()])[0].node_name))
    put(quota("s2", closed=True))
    placed.append(bool(cluster.schedule([a_pod("p2").obj()])[0].node_name))
    assert placed == [True, True, False]
