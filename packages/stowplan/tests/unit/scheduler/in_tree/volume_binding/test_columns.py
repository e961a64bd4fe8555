"""VolumeBinding's columns compared with its rule for one node, on random clusters that change in between."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api import types as t
from stowplan.kube.api.quantity import parse_quantity
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.in_tree.common.args import UtilizationShapePoint
from stowplan.scheduler.in_tree.volume_binding.declaration import VolumeBindingArgs
from stowplan.scheduler.in_tree.volume_binding.plugin import VolumeBinding
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.claims import COMPLETED, HOST, SELECTED, ZONE, a_class, a_driver, capacity, claim, held, volume
from support.plugins.storage import csi_node

AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
CSI_ZONE = "topology.ebs.csi.aws.com/zone"
NODES = ["n0", "n1", "n2", "n3"]
CLAIMS = ["c0", "c1", "c2"]
VOLUMES = [f"v{i}" for i in range(5)]


# -- the rule ----------------------------------------------------------------------------------------------------------


@dataclass
class Answer:
    """The result for one node."""

    reasons: set = field(default_factory=set)
    static: list = field(default_factory=list)
    dynamic: list = field(default_factory=list)


def size(obj, where):
    amount = where.get("storage")
    return None if amount is None else parse_quantity(amount)


def admits(volume_, node, migrated):
    """Whether a volume can be used from a node."""
    affinity = volume_.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    for term in affinity.required.node_selector_terms:
        keys = {e.key: (CSI_ZONE if migrated and e.key == ZONE else e.key) for e in term.match_expressions}
        if term.match_expressions and all(
            node.metadata.labels.get(keys[e.key]) in e.values for e in term.match_expressions
        ):
            return True
    return False


def is_held(volume_, claim_):
    reference = volume_.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim_.metadata.namespace, claim_.metadata.name)
        and reference.uid in ("", claim_.metadata.uid)
    )


def found_volume(claim_, node, volumes, chosen):
    best, wanted = None, size(claim_, claim_.spec.resources.requests) or 0
    for one in sorted(volumes, key=lambda v: v.metadata.name):
        if one.metadata.name in chosen or (one.spec.claim_ref is not None and not is_held(one, claim_)):
            continue
        if one.spec.storage_class_name != claim_.spec.storage_class_name:
            continue
        if (size(one, one.spec.capacity) or 0) < wanted or one.metadata.deletion_timestamp is not None:
            continue
        if (one.spec.volume_mode or "Filesystem") != (claim_.spec.volume_mode or "Filesystem"):
            continue
        if is_held(one, claim_):
            return one if admits(one, node, migrated=False) else None
        if one.status.phase != "Available" or not admits(one, node, migrated=False):
            continue
        selector = claim_.spec.selector
        if selector is not None and not selector.match_labels.items() <= one.metadata.labels.items():
            continue
        if not set(claim_.spec.access_modes) <= set(one.spec.access_modes):
            continue
        if best is None or size(one, one.spec.capacity) < size(best, best.spec.capacity):
            best = one
    return best


def expected_answer(objects, claims, node):
    """The result for a pod's claims on one node."""
    answer, bound, waiting = Answer(), [], []
    for one in claims:
        (bound if one.spec.volume_name and COMPLETED in one.metadata.annotations else waiting).append(one)
    csi = objects.get(t.CSINode, node.metadata.name)
    migrated = csi is not None and bool(csi.metadata.annotations)
    for one in bound:
        of_claim = objects.get(t.PersistentVolume, one.spec.volume_name)
        if of_claim is None:
            answer.reasons.add(GONE)
            break
        if not admits(of_claim, node, migrated and of_claim.spec.aws_elastic_block_store is not None):
            answer.reasons.add(AFFINITY)
            break
    selected = [one for one in waiting if SELECTED in one.metadata.annotations]
    if any(one.metadata.annotations[SELECTED] != node.metadata.name for one in selected):
        answer.reasons.add(NO_VOLUME)
        return answer
    unmatched, chosen = [], set()
    rest = [one for one in waiting if SELECTED not in one.metadata.annotations]
    for one in sorted(rest, key=lambda c: size(c, c.spec.resources.requests) or 0):
        match = found_volume(one, node, objects.all(t.PersistentVolume), chosen)
        if match is None:
            unmatched.append(one)
        else:
            chosen.add(match.metadata.name)
            answer.static.append((one.metadata.name, match.metadata.name))
    for one in [*selected, *unmatched]:
        reason = unmakeable(objects, one, node)
        if reason:
            answer.reasons.add(reason)
            break
        answer.dynamic.append(one.metadata.name)
    return answer


def unmakeable(objects, claim_, node):
    of_claim = objects.get(t.StorageClass, claim_.spec.storage_class_name)
    if of_claim.provisioner in ("", "kubernetes.io/no-provisioner"):
        return NO_VOLUME
    topologies = of_claim.allowed_topologies
    if topologies and not any(
        term.match_label_expressions
        and all(node.metadata.labels.get(e.key) in e.values for e in term.match_label_expressions)
        for term in topologies
    ):
        return NO_VOLUME
    driver, wanted = objects.get(t.CSIDriver, of_claim.provisioner), size(claim_, claim_.spec.resources.requests)
    if wanted is None or driver is None or not driver.spec.storage_capacity:
        return ""
    for one in objects.all(t.CSIStorageCapacity):
        limit = one.capacity if one.maximum_volume_size is None else one.maximum_volume_size
        if one.storage_class_name == of_claim.metadata.name and limit is not None and one.node_topology is not None:
            there = one.node_topology.match_labels.items() <= node.metadata.labels.items()
            if there and parse_quantity(limit) >= wanted:
                return ""
    return NO_ROOM


# -- random clusters ---------------------------------------------------------------------------------------------------

sizes = st.sampled_from([None, "1Gi", "2Gi", "5Gi", "10Gi"])
classes = st.sampled_from(["s", "local"])
modes = st.sampled_from([["ReadWriteOnce"], ["ReadWriteMany"], ["ReadWriteOnce", "ReadWriteMany"]])
places = st.sampled_from([None, {ZONE: ["a"]}, {ZONE: ["b", "c"]}, {HOST: ["n0"]}, {HOST: ["n1"], ZONE: ["a"]}])
labels = st.sampled_from([{}, {"x": "y"}])
volume_modes = st.sampled_from([{}, {}, {}, {"volumeMode": "Block"}])


@st.composite
def nodes(draw, name):
    zones = {ZONE: draw(st.sampled_from("abc")), CSI_ZONE: draw(st.sampled_from("abc"))}
    return a_node(name).labels({HOST: name, **zones}).obj()


@st.composite
def volumes(draw, name):
    spec = dict(draw(volume_modes))
    spec |= draw(st.sampled_from([{}, {}, {}, held("c0"), held("c1", ""), held("c9")]))
    spec |= draw(st.sampled_from([{}, {"awsElasticBlockStore": {"volumeID": "vol-1"}}]))
    return volume(
        name,
        class_name=draw(classes),
        size=draw(sizes) or "0",
        modes=draw(modes),
        on=draw(places),
        phase=draw(st.sampled_from(["Available", "Available", "Available", "Bound"])),
        metadata={"labels": draw(labels)},
        spec=spec,
    )


@st.composite
def claims(draw, name):
    spec = dict(draw(volume_modes))
    if draw(st.booleans()) and draw(st.booleans()):
        spec["selector"] = {"matchLabels": {"x": "y"}}
    bound = draw(st.sampled_from(["", "", "", *VOLUMES[:2]]))
    annotations = draw(st.sampled_from([{}, {}, {}, {SELECTED: "n0"}]))
    return claim(
        name,
        class_name=draw(classes),
        size=draw(sizes),
        modes=draw(modes)[:1],
        volume=bound,
        annotations=annotations,
        spec=spec,
    )


@st.composite
def capacities(draw, name):
    limits = {}
    if (amount := draw(sizes)) is not None:
        limits["capacity"] = amount
        if draw(st.booleans()):
            limits["maximumVolumeSize"] = draw(sizes) or "3Gi"
    return capacity(name, labels=draw(st.sampled_from([None, {}, {ZONE: "a"}, {HOST: "n1"}])), **limits)


@st.composite
def storage_classes(draw):
    provisioner = draw(st.sampled_from(["p", "p", "kubernetes.io/no-provisioner"]))
    zones = draw(st.sampled_from([None, None, ["a"], ["b", "c"]]))
    return a_class("s", provisioner=provisioner, zones=zones)


changes = st.one_of(
    st.sampled_from(NODES).flatmap(nodes),
    st.sampled_from(VOLUMES).flatmap(volumes),
    st.sampled_from(VOLUMES).flatmap(volumes),
    st.sampled_from(CLAIMS).flatmap(claims),
    st.sampled_from(["k0", "k1"]).flatmap(capacities),
    storage_classes(),
    st.booleans().map(lambda tracks: a_driver("p", tracks=tracks)),
    st.sampled_from(NODES).map(lambda name: csi_node(name, MIGRATED)),
    st.sampled_from(VOLUMES),
)


@st.composite
def clusters(draw):
    found = [draw(nodes(name)) for name in NODES]
    found += [draw(volumes(name)) for name in VOLUMES]
    found += [draw(claims(name)) for name in CLAIMS]
    found += [draw(storage_classes()), a_class("local", provisioner="kubernetes.io/no-provisioner")]
    return found


def apply(world, change):
    if isinstance(change, str):
        gone = world.state.objects.get(t.PersistentVolume, change)
        if gone is not None:
            world.state.remove_object(gone)
    else:
        world.put(change)


def using(names):
    pod = a_pod("p")
    for name in names:
        pod.claims_volume(name)
    return pod


def check(world, names):
    pod = using(names)
    objects = world.state.objects
    found = world.refusals(pod)
    wanted = [objects.get(t.PersistentVolumeClaim, f"default/{name}") for name in names]
    for name in NODES:
        node = world.state.table.nodes[world.state.table.row_of[name]]
        answer = expected_answer(objects, wanted, node)
        assert set(filter(None, found.get(name, "").split(", "))) == answer.reasons, name
        if not answer.reasons:
            check_reserve(world, pod, name, answer)


def check_reserve(world, pod, name, answer):
    """Reserve takes what the rule finds for the node, and Unreserve releases all of it."""
    cycle, info = CycleState(), world.pod(pod)
    total = world.state.objects.total_version
    with world.state.transaction():
        assert world.plugin.reserve(cycle, info, name) is None
        reserved = cycle.read("VolumeBinding/reserved")
        static = [(b.claim.metadata.name, b.volume.metadata.name) for b in reserved.bindings]
        assert sorted(static) == sorted(answer.static)
        assert sorted(c.metadata.name for c in reserved.provisions) == sorted(answer.dynamic)
        world.plugin.unreserve(cycle, info, name)
        assert len(world.state.assumed) == 0
    assert world.state.objects.total_version == total


@given(st.data())
@examples(150)
def test_every_node_agrees_with_the_rule(bench, data):
    world = bench(VolumeBinding, *data.draw(clusters()))
    for _ in range(data.draw(st.integers(1, 4))):
        for change in data.draw(st.lists(changes, max_size=3)):
            apply(world, change)
        names = data.draw(st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=3, unique=True))
        check(world, names)


@given(st.data())
@examples(40)
def test_hypothetical_changes_leave_nothing_behind(bench, data):
    world = bench(VolumeBinding, *data.draw(clusters()))
    for _ in range(3):
        with world.state.transaction():
            for change in data.draw(st.lists(changes, min_size=1, max_size=4)):
                apply(world, change)
            check(world, CLAIMS[:2])
        check(world, CLAIMS[:2])


@given(st.data())
@examples(60)
def test_signatures_distinguish_pods_with_different_verdicts(bench, data):
    world = bench(VolumeBinding, *data.draw(clusters()))
    by_signature = {}
    for name in CLAIMS:
        pod = using([name])
        info = world.pod(pod)
        signature = world.plugin.sign_pod(info)
        assert not isinstance(signature, Status)
        answer = world.refusals(pod), frozenset(world.plugin.reads_objects(info))
        assert by_signature.setdefault(tuple(signature.items()), answer) == answer


# -- scores ------------------------------------------------------------------------------------------------------------

RISING = VolumeBindingArgs(shape=(UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10)))
FALLING = VolumeBindingArgs(shape=(UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0)))


def scored(bench, args, objects, pod):
    world = bench(VolumeBinding, *[a_node(n).labels({HOST: n}) for n in ("n0", "n1")], *objects, args=args)
    cycle, info, view = CycleState(), world.pod(pod), world.nodes()
    assert world.plugin.pre_filter(cycle, info, view) is None
    assert world.plugin.filter(cycle, info, view) is None or True
    assert world.plugin.pre_score(cycle, info, view) is None
    return world.plugin.score(cycle, info, view).tolist()


def test_without_the_gate_nothing_is_scored(bench):
    world = bench(VolumeBinding, a_node())
    assert world.plugin.pre_score(CycleState(), world.pod(using(["c"])), world.nodes()).code is Code.Skip


@pytest.mark.parametrize(
    ("args", "claims_", "objects", "expected"),
    [
        pytest.param(
            RISING,
            [claim("c", size="50Gi")],
            [volume("v", size="200Gi", on={HOST: ["n0"]}), volume("w", size="100Gi", on={HOST: ["n1"]})],
            [25, 50],
            id="volumes",
        ),
        pytest.param(
            RISING,
            [claim("c", size="50Gi"), claim("d", size="50Gi", class_name="t")],
            [volume("v", size="200Gi"), volume("w", size="100Gi", class_name="t"), a_class("t")],
            [38, 38],
            id="two classes",
        ),
        pytest.param(
            RISING,
            [claim("c", size="10Gi")],
            [
                a_driver(),
                capacity("k", labels={HOST: "n0"}, capacity="100Gi"),
                capacity("l", labels={HOST: "n1"}, capacity="10Gi"),
            ],
            [10, 100],
            id="free capacity",
        ),
        pytest.param(
            RISING,
            [claim("c", size="50Gi"), claim("d", size="50Gi")],
            [a_driver(), capacity("k", labels={}, capacity="100Gi")],
            [100, 100],
            id="two of one class",
        ),
        pytest.param(
            FALLING,
            [claim("c", size="10Gi")],
            [
                a_driver(),
                capacity("k", labels={HOST: "n0"}, capacity="100Gi"),
                capacity("l", labels={HOST: "n1"}, capacity="20Gi"),
            ],
            [90, 50],
            id="default shape",
        ),
        pytest.param(
            RISING,
            [claim("c", size="10Gi"), claim("d", size="20Gi")],
            [a_driver(), capacity("k", labels={}, capacity="100Gi"), volume("v", size="40Gi", on={HOST: ["n0"]})],
            [25, 30],
            id="a node with a volume is scored by that alone",
        ),
        pytest.param(RISING, [claim("c", size="10Gi")], [], [0, 0], id="unknown capacity"),
    ],
)
def test_scores(bench, args, claims_, objects, expected):
    pod = using([one["metadata"]["name"] for one in claims_])
    assert scored(bench, args, [a_class(), *claims_, *objects], pod) == expected
