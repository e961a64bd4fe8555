"""NodeVolumeLimits: volumes that count on a node and for a pod, compared with a plain rule."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.status import SKIP, Code, Status
from stowplan.scheduler.in_tree.common.csi_migration import TranslationError
from stowplan.scheduler.in_tree.node_volume_limits.plugin import NodeVolumeLimits
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.storage import CLAIMING, EPHEMERAL, INLINE, INLINE_CSI, of, pvc, storage

TOO_MANY = "node(s) exceed max volume count"
EBS = "ebs.csi.aws.com"


def limits(name="n", **counts):
    """A CSINode whose drivers have these limits; None means no limit."""
    drivers = [
        {"name": driver, "nodeID": name} | ({} if count is None else {"allocatable": {"count": count}})
        for driver, count in counts.items()
    ]
    return storage("CSINode", name, spec={"drivers": drivers})


def volume(name, driver="d", handle=None, **source):
    spec = source or {"csi": {"driver": driver, "volumeHandle": handle or name}}
    return of("PersistentVolume", name, spec=spec)


def bound(claim, driver="d", handle=None, **source):
    """A claim and its volume."""
    return pvc(claim, volumeName=f"pv-{claim}"), volume(f"pv-{claim}", driver, handle, **source)


def attached(name, volume, node="n", attacher="d"):
    spec = {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return storage("VolumeAttachment", name, spec=spec)


def waiting_class(name="s", provisioner="d"):
    return storage("StorageClass", name, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer")


def using(name, *claims):
    pod = a_pod(name).uid(name)
    for claim in claims:
        pod.claims_volume(claim)
    return pod


def ebs(name, handle="vol-1"):
    return a_pod(name).uid(name).volume("d", awsElasticBlockStore={"volumeID": handle})


@pytest.mark.parametrize(
    "pod",
    [
        a_pod().volume("v", emptyDir={}),
        a_pod().volume("v", configMap={"name": "c"}).volume("w", secret={"secretName": "s"}),
        INLINE_CSI,
        a_pod(),
    ],
)
def test_pods_without_such_volumes_skip(bench, pod):
    assert bench(NodeVolumeLimits, a_node()).pre_filter(pod) is SKIP


@pytest.mark.parametrize("pod", [CLAIMING, EPHEMERAL, INLINE, a_pod().volume("f", azureFile={"shareName": "s"})])
def test_pods_with_such_volumes_do_not_skip(bench, pod):
    assert bench(NodeVolumeLimits, a_node()).pre_filter(pod) is None


A, B, C = bound("a"), bound("b"), bound("c")
PENDING = (pvc("p", storageClassName="s"), waiting_class())


@pytest.mark.parametrize(
    ("objects", "pod", "refused"),
    [
        pytest.param([*A, *B, *C, using("x", "a", "b").on("n"), limits(d=4)], using("new", "c"), False, id="room"),
        pytest.param([*A, *B, *C, using("x", "a", "b").on("n"), limits(d=2)], using("new", "c"), True, id="full"),
        pytest.param(
            [*A, *B, *C, attached("1", "pv-a"), attached("2", "pv-b"), limits(d=2)],
            using("new", "c"),
            True,
            id="attached to no pod",
        ),
        pytest.param(
            [*A, attached("1", "pv-a"), limits(d=1)], using("new", "a"), True, id="attached already, counted twice"
        ),
        pytest.param(
            [*A, *B, using("x", "a").on("n"), attached("1", "pv-a"), limits(d=2)],
            using("new", "b"),
            False,
            id="attached for a pod, counted once",
        ),
        pytest.param(
            [*A, *B, *PENDING, using("x", "a", "p").on("n"), limits(d=2)], using("new", "b"), True, id="a pending claim"
        ),
        pytest.param([*PENDING, limits(d=0)], using("new", "p"), True, id="the pod's pending claim"),
        pytest.param(
            [
                pvc("p", storageClassName="s"),
                waiting_class(provisioner="kubernetes.io/azure-file"),
                limits(**{"file.csi.azure.com": 0}),
            ],
            using("new", "p"),
            False,
            id="an in-tree class that never counts",
        ),
        pytest.param([*A, limits(d=-3)], using("new", "a"), True, id="a negative limit"),
        pytest.param([*A, limits("m", d=0)], using("new", "a"), False, id="no CSINode"),
        pytest.param(
            [ebs("x", "vol-1").on("n"), *bound("a", EBS, "vol-1"), limits(**{EBS: 1})],
            using("new", "a"),
            False,
            id="the same disk in another guise",
        ),
        pytest.param(
            [*bound("a", gcePersistentDisk={"pdName": "d"}), limits(**{"pd.csi.storage.gke.io": 0})],
            using("new", "a"),
            True,
            id="a gce disk",
        ),
        pytest.param([*bound("a", hostPath={"path": "/"}), limits(d=0)], using("new", "a"), False, id="no driver's"),
        pytest.param([*bound("a", local={"path": "/"}), limits(d=0)], using("new", "a"), False, id="local"),
    ],
)
def test_filter(bench, objects, pod, refused):
    world = bench(NodeVolumeLimits, a_node("n"), a_node("other"), *objects)
    assert world.refusals(pod) == ({"n": TOO_MANY} if refused else {})


def asked(world, pod):
    """The plugin's status at Filter."""
    cycle, info = CycleState(), world.pod(pod)
    assert world.plugin.pre_filter(cycle, info, world.nodes()) is None
    return world.plugin.filter(cycle, info, world.nodes())


def test_a_missing_claim_refuses_every_node(bench):
    world = bench(NodeVolumeLimits, a_node("n"), a_node("m"))
    missing = 'looking up PVC default/c: persistentvolumeclaim "c" not found'
    assert world.refusals(CLAIMING) == {"n": missing, "m": missing}
    found = asked(world, CLAIMING)
    assert {entry.code for entry in found.entries} == {Code.UnschedulableAndUnresolvable}
    assert world.refusals(EPHEMERAL) == dict.fromkeys(
        ("n", "m"), 'looking up PVC default/pod-e: persistentvolumeclaim "pod-e" not found'
    )


def made_for(pod, uid):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": True}
    claim = pvc(f"{pod}-e", volumeName=f"pv-{pod}-e")
    claim["metadata"]["ownerReferences"] = [owner]
    return claim


def with_scratch(name):
    return a_pod(name).uid(name).volume("e", ephemeral={"volumeClaimTemplate": {}})


def test_claims_of_ephemeral_volumes_count(bench):
    claims = [made_for("x", "x"), made_for("new", "new"), volume("pv-x-e"), volume("pv-new-e")]
    world = bench(NodeVolumeLimits, a_node("n"), limits(d=1), *claims)
    assert world.refusals(with_scratch("new")) == {}
    world.put(with_scratch("x").on("n"))
    assert world.refusals(with_scratch("new")) == {"n": TOO_MANY}


def error_of(answer):
    assert isinstance(answer, Status), answer
    assert answer.code is Code.Error
    return answer.message


def test_a_claim_of_another_pods_ephemeral_volume_is_an_error(bench):
    world = bench(NodeVolumeLimits, a_node("n"), made_for("new", "somebody else"))
    text = "PVC default/new-e was not created for pod default/new (pod is not owner)"
    assert error_of(asked(world, with_scratch("new"))) == text


def test_a_running_pod_with_unresolvable_volumes_is_an_error(bench):
    objects = [*A, limits(d=9), made_for("x", "another"), with_scratch("x").on("n")]
    world = bench(NodeVolumeLimits, a_node("n"), a_node("m"), *objects)
    text = "PVC default/x-e was not created for pod default/x (pod is not owner)"
    assert error_of(asked(world, using("new", "a"))) == text
    info = world.pod(using("new", "a"))
    others = world.nodes()
    others.candidates = np.array([name != "n" for name in others.names()])
    assert world.plugin.filter(CycleState(), info, others) is None, "the node was examined"
    world.put(limits())
    assert asked(world, using("new", "a")) is None, "no limit applies"


@pytest.mark.parametrize(
    "source",
    [
        {"awsElasticBlockStore": {"volumeID": "aws://zone/disk-1"}},
        {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}},
    ],
)
def test_an_untranslatable_disk_is_an_error_on_migrated_nodes(bench, source):
    world = bench(NodeVolumeLimits, a_node("n"))
    pod = a_pod().volume("v", **source)
    assert asked(world, pod) is None
    world.put(limits(x=1))
    assert error_of(asked(world, pod)).startswith("converting volume(v) from inline to csi: ")


def test_a_claim_without_a_name_is_an_error(bench):
    assert error_of(asked(bench(NodeVolumeLimits, a_node()), using("p", ""))) == "PersistentVolumeClaim had no name"


@pytest.mark.parametrize(
    ("csi_driver", "nodes", "refused"),
    [
        pytest.param(None, [], set(), id="unknown driver"),
        pytest.param(False, [], set(), id="the driver does not mind"),
        pytest.param(True, [], {"n", "m"}, id="no CSINode"),
        pytest.param(True, [limits("n", d=None), limits("m", e=1)], {"m"}, id="listed on one node"),
    ],
)
def test_prevent_pod_scheduling_if_missing(bench, csi_driver, nodes, refused):
    drivers = (
        [] if csi_driver is None else [storage("CSIDriver", "d", spec={"preventPodSchedulingIfMissing": csi_driver})]
    )
    text = "d CSI driver is not installed on the node"
    objects = [a_node("n"), a_node("m"), *A, *nodes, *drivers]
    world = bench(NodeVolumeLimits, *objects, version=V1_37)
    assert world.refusals(using("new", "a")) == dict.fromkeys(sorted(refused, reverse=True), text)
    assert bench(NodeVolumeLimits, *objects, version=V1_36).refusals(using("new", "a")) == {}


@pytest.mark.parametrize(
    ("count", "full"),
    [
        pytest.param(None, False, id="no count"),
        pytest.param(-1, True, id="negative"),
        pytest.param(0, True, id="none at all"),
        pytest.param((1 << 31) - 1, False, id="the largest"),
    ],
)
def test_invalid_limits_of_a_csi_node(bench, count, full):
    world = bench(NodeVolumeLimits, a_node("n"), *A, limits(d=count))
    assert world.refusals(using("new", "a")) == ({"n": TOO_MANY} if full else {})
    world.put(limits(d=1))
    assert world.refusals(using("new", "a")) == {}


def test_pods_with_equal_volumes_share_an_evaluation(bench):
    world = bench(NodeVolumeLimits, a_node("n"), *A, *B, *C, *PENDING, limits(d=2))
    signed = {claim: world.plugin.sign_pod(world.pod(using("q", claim))) for claim in ("a", "b", "p", "gone")}
    assert signed["a"] == signed["b"] == signed["p"] != signed["gone"]
    world.put(using("x", "a").on("n"))
    assert world.plugin.sign_pod(world.pod(using("q", "a"))) != world.plugin.sign_pod(world.pod(using("q", "b")))
    assert world.plugin.sign_pod(world.pod(a_pod())) == {}


def test_unrelated_changes_keep_the_verdict(bench):
    world = bench(NodeVolumeLimits, a_node("n"), *A, limits(d=2))
    cycle, info = CycleState(), world.pod(using("new", "a"))
    world.plugin.pre_filter(cycle, info, world.nodes())
    for unrelated in (pvc("elsewhere"), volume("loose"), waiting_class("loose"), a_pod("q").uid("q").on("n")):
        world.put(unrelated)
        assert world.plugin.filter_holds(cycle, info)
    world.put(limits(d=1))
    assert not world.plugin.filter_holds(cycle, info)


# -- compared with a plain rule ----------------------------------------------------------------------------------------

NODES, DRIVERS, CLAIMS = ("n0", "n1", "n2"), ("d", "e", EBS), ("a", "b", "c", "f")


class Plain:
    """The objects of a cluster, and the rule evaluated per node."""

    def __init__(self):
        self.objects = defaultdict(dict)

    def put(self, obj):
        self.objects[obj["kind"]][obj["metadata"]["name"]] = obj

    def remove(self, obj):
        self.objects[obj["kind"]].pop(obj["metadata"]["name"], None)

    def get(self, kind, name):
        return self.objects[kind].get(name)

    def volumes(self, pod, *, migrated):
        """(driver, name) of the pod's volumes; None if a claim is missing."""
        found = []
        for v in pod["spec"].get("volumes", ()):
            if "awsElasticBlockStore" in v:
                found += [(EBS, v["awsElasticBlockStore"]["volumeID"])] if migrated else []
                continue
            claim = self.get("PersistentVolumeClaim", v["persistentVolumeClaim"]["claimName"])
            found.append(claim and self.volume(claim, migrated))
        return found

    def volume(self, claim, migrated):
        pv = self.get("PersistentVolume", claim["spec"].get("volumeName", ""))
        if pv is None:
            of_class = self.get("StorageClass", claim["spec"].get("storageClassName", ""))
            if of_class is None:
                return ()
            if of_class["provisioner"] == "kubernetes.io/aws-ebs":
                return (EBS, claim["metadata"]["name"], "pending") if migrated else ()
            return of_class["provisioner"], claim["metadata"]["name"], "pending"
        if "csi" in pv["spec"]:
            return pv["spec"]["csi"]["driver"], pv["spec"]["csi"]["volumeHandle"]
        return (EBS, pv["spec"]["awsElasticBlockStore"]["volumeID"]) if migrated else ()

    def refuses(self, node, pod):
        csi = self.get("CSINode", node)
        wanted = self.volumes(pod, migrated=csi is not None)
        if None in wanted:
            return "missing"
        limit = (
            {d["name"]: d["allocatable"]["count"] for d in csi["spec"]["drivers"] if "allocatable" in d} if csi else {}
        )
        mounted = set()
        for other in self.objects["Pod"].values():
            if other["spec"].get("nodeName") == node:
                mounted |= {v for v in self.volumes(other, migrated=True) if v}
        here = [a["spec"] for a in self.objects["VolumeAttachment"].values() if a["spec"]["nodeName"] == node]
        pvs = [(a["attacher"], self.get("PersistentVolume", a["source"]["persistentVolumeName"])) for a in here]
        used = mounted | {(of, pv["spec"]["csi"]["volumeHandle"]) for of, pv in pvs if pv and "csi" in pv["spec"]}
        new = {v for v in wanted if v} - mounted
        return any(
            sum(u[0] == driver for u in used) + sum(v[0] == driver for v in new) > limit.get(driver, 10**6)
            for driver in {v[0] for v in new}
        )


def things(index, variant):
    """The object with this number, in one of its variants."""
    name, kind = CLAIMS[index % 4], index // 4 % 8
    driver = DRIVERS[variant % 3]
    if kind == 0:
        return pvc(
            name, **({"volumeName": f"pv{variant % 4}"} if variant % 3 else {"storageClassName": f"s{variant % 2}"})
        )
    if kind == 1:
        source = {"awsElasticBlockStore": {"volumeID": f"h{variant % 2}"}} if variant % 4 == 3 else {}
        return volume(f"pv{index % 4}", driver, f"h{variant % 5}", **source)
    if kind == 2:
        return waiting_class(f"s{index % 2}", "kubernetes.io/aws-ebs" if variant % 3 == 0 else driver)
    if kind == 3:
        return limits(
            NODES[index % 3], **{d: (variant + i) % 4 or None for i, d in enumerate(DRIVERS[: 1 + variant % 3])}
        )
    if kind == 4:
        return attached(f"a{index % 4}", f"pv{variant % 4}", NODES[variant % 3], driver)
    pod = f"p{index % 9}"
    made = (
        ebs(pod, f"h{variant % 2}")
        if variant % 5 == 0
        else using(pod, *{CLAIMS[variant % 4], CLAIMS[variant // 4 % 4]})
    )
    return made.on(NODES[variant % 3]).obj()


KINDS_OF_STEPS = ("put", "put", "put", "remove", "node", "begin", "end")
steps = st.lists(
    st.tuples(st.sampled_from(KINDS_OF_STEPS), st.integers(0, 31), st.integers(0, 59)),
    min_size=8,
    max_size=40,
)
PROBES = (using("new", "a"), using("new", "a", "b", "c"), ebs("new", "h1"), using("new", "f", "f"))


class Both:
    """The plugin's cluster and a plain one, changed in the same way."""

    def __init__(self, bench):
        self.world, self.plain, self.open = bench(NodeVolumeLimits), Plain(), []
        for name in NODES:
            self.world.put(a_node(name))

    def step(self, what, index, variant):
        state, obj = self.world.state, things(index, variant)
        if what == "put":
            self._put(obj)
        elif what == "remove":
            self._remove(obj)
        elif what == "node":
            name = NODES[index % 3]
            self.world.state.remove_node(name)
            if variant % 2:
                self.world.put(a_node(name))
        elif what == "begin" and len(self.open) < 2:
            before = {kind: dict(of_kind) for kind, of_kind in self.plain.objects.items()}
            transaction = state.transaction()
            transaction.__enter__()
            self.open.append((transaction, before))
        elif what == "end" and self.open:
            transaction, before = self.open.pop()
            transaction.rollback()
            self.plain.objects = defaultdict(dict, before)

    def _put(self, obj):
        self.plain.put(obj)
        self.world.put(obj)

    def _remove(self, obj):
        old = self.plain.get(obj["kind"], obj["metadata"]["name"])
        if old is None:
            return
        self.plain.remove(obj)
        if obj["kind"] == "Pod":
            self.world.state.remove_pod(obj["metadata"]["uid"])
        else:
            self.world.state.remove_object(self.world.struct(old))

    def check(self):
        for probe in PROBES:
            found = self.world.refusals(probe)
            for name in self.world.state.table.row_of:
                refused = self.plain.refuses(name, probe.obj())
                text = found.get(name, "")
                assert ("missing" if text.startswith("looking up") else bool(text)) == refused, (name, probe.obj())


@examples(120)
@given(steps)
def test_the_columns_follow_every_change(bench, walk):
    both = Both(bench)
    for what, index, variant in walk:
        both.step(what, index, variant)
        if variant % 2:
            both.check()
    while both.open:
        both.step("end", 0, 0)
        both.check()
    assert both.world.state.sizes()["nodes"] >= len(both.world.state.table.row_of)
    afresh = NodeVolumeLimits(None, both.world.handle)
    afresh._columns.refresh()
    both.world.plugin._columns.refresh()
    assert without_empty_entries(both.world.plugin._columns) == without_empty_entries(afresh._columns), (
        "differs from newly built columns"
    )


@examples(120)
@given(steps)
def test_reused_verdicts_are_current(bench, walk):
    """Verdicts that `filter_holds` lets a cycle reuse equal those of a new evaluation."""
    both, kept = Both(bench), {}
    plugin, state = both.world.plugin, both.world.state
    for what, index, variant in walk:
        both.step(what, index, variant)
        for place, probe in enumerate(PROBES):
            info = both.world.pod(probe)
            stamp = plugin.sign_pod(info), state.table.generation
            now = both.world.refusals(probe)
            cycle, known, then = kept.get(place, (None, None, None))
            if known == stamp and plugin.filter_holds(cycle, info):
                assert then == now, (what, index, variant)
            else:
                cycle = CycleState()
                assert plugin.pre_filter(cycle, info, both.world.nodes()) is None
                kept[place] = cycle, stamp, both.world.refusals_in(cycle, info, both.world.nodes())


def without_empty_entries(columns):
    """The content of the columns, without empty entries."""
    rows = {row: (r.uses, dict(r.mounted), dict(r.counts)) for row, r in columns._rows.items() if r.uses or r.counts}
    counts = {driver: column.tolist() for driver, column in columns._counts.items() if column.any()}
    return (
        rows,
        counts,
        {driver: column.tolist() for driver, column in columns._limits.items() if (column < 10**6).any()},
        dict(columns._rows_of),
        dict(columns._behind),
        dict(columns._uses_of),
        dict(columns._attachments),
    )


@examples(80)
@given(steps, st.lists(st.tuples(st.booleans(), st.integers(0, 8), st.integers(0, 59)), min_size=1, max_size=6))
def test_hypothetical_pods(bench, walk, shifts):
    """Hypothetical changes give the same verdicts as real ones."""
    there, moved = Both(bench), Both(bench)
    for what, index, variant in walk:
        if what in ("put", "remove"):
            there.step(what, index, variant)
            moved.step(what, index, variant)
    state, plugin = there.world.state, there.world.plugin
    everywhere = np.flatnonzero(state.table.valid).astype(np.intp)
    for probe in PROBES[:3]:
        cycle, info = CycleState(), there.world.pod(probe)
        plugin.pre_filter(cycle, info, there.world.nodes())
        cycle = cycle.clone()
        with moved.world.state.transaction():
            for comes, index, variant in shifts:
                shifted = shift_of(moved.world, comes, index, variant)
                if shifted is not None:
                    row = state.table.row_of[shifted.pod.spec.node_name]
                    shift = PodShift.of_pods(np.array([row], np.intp), [shifted], 1 if comes else -1)
                    assert plugin.shift_pods(cycle, info, shift) is None
                nodes = HypotheticalNodes(state, everywhere)
                assert there.world.refusals_in(cycle, info, nodes) == moved.world.refusals(probe)


def shift_of(world, comes, index, variant):
    """A pod that was added or removed; None if there is none to remove."""
    made = things(20 + index, variant)
    if comes:
        made["metadata"] = {"name": f"q{index}", "uid": f"q{index}-{variant}", "namespace": "default"}
        if world.state.placed(made["metadata"]["uid"]) is not None:
            return None
        world.put(made)
        return world.state.placed(made["metadata"]["uid"])
    pods = world.state.row_pods[world.state.table.row_of[NODES[variant % 3]]]
    if not pods:
        return None
    gone = world.pod(pods[variant % len(pods)].pod)
    world.state.remove_pod(gone.uid)
    return gone


# -- hints -------------------------------------------------------------------------------------------------------------


def attachment(attacher):
    return storage("VolumeAttachment", "a", spec={"attacher": attacher, "nodeName": "n", "source": {}})


@pytest.mark.parametrize(
    "source",
    [
        {"awsElasticBlockStore": {"volumeID": "aws://zone/disk-1"}},
        {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}},
    ],
)
def test_untranslatable_volumes_are_an_error(bench, source):
    with pytest.raises(TranslationError, match=r"^converting volume\(v\) from inline to csi: "):
        bench(NodeVolumeLimits).hint(a_pod().volume("v", **source), attachment("x"), None)


EBS_DISK = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
WAITING = a_pod("waiting").claims_volume("csi-ebs.csi.aws.com-2")
#: Upstream's TestCSILimitsQHint, TestCSILimitsAddedPVCQHint and TestCSILimitsAfterCSINodeUpdatedQHint: the waiting pod,
#: the object before and after, whether the pod is tried again.
UPSTREAMS_HINTS = {
    "a deleted pod has a PVC": (WAITING, a_pod("gone").claims_volume("placeholder").on("n"), None, True),
    "a deleted pod has a migratable volume": (WAITING, a_pod("gone").volume("v", **EBS_DISK).on("n"), None, True),
    "a deleted pod has no volume": (WAITING, a_pod("gone").on("n"), None, False),
    "a deleted pod was not scheduled": (WAITING, a_pod("gone").claims_volume("c"), None, None),
    "an added PVC of another namespace": (a_pod(namespace="ns1"), None, pvc("pvc1", namespace="ns2"), False),
    "the pod's PVC": (a_pod(namespace="ns1").claims_volume("pvc1"), None, pvc("pvc1", namespace="ns1"), True),
    "the PVC of an ephemeral volume": (
        a_pod("pod1", namespace="ns1").volume("ephemeral", ephemeral={}),
        None,
        pvc("pod1-ephemeral", namespace="ns1"),
        True,
    ),
    "another PVC": (a_pod(namespace="ns1").claims_volume("pvc1"), None, pvc("pvc2", namespace="ns1"), False),
    "a PVC for a pod without any": (a_pod(namespace="ns1"), None, pvc("pvc2", namespace="ns1"), False),
    "limit raised": (WAITING, limits(d=1), limits(d=2), True),
    "limit decreased": (WAITING, limits(d=2), limits(d=1), False),
    "limit unchanged": (WAITING, limits(d=1), limits(d=1), False),
}


@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
@pytest.mark.parametrize(("pod", "old", "new", "queued"), UPSTREAMS_HINTS.values(), ids=UPSTREAMS_HINTS)
def test_upstreams_hints(bench, pod, old, new, queued, version):
    found = bench(NodeVolumeLimits, version=version).hint(pod, old, new)
    if queued is None:
        # Not an event of an assigned pod since 1.37.
        assert found in (None, "Skip")
    else:
        assert found == ("Queue" if queued else "Skip")
