"""The gates of volumes that are on by default since 1.37, set for the reference's kube-scheduler 1.36, and `explain` of
the same clusters.

Random clusters share an API server: each has nodes of its own, which its pods select, and claims of its own. The
reference logs the scores of all nodes, the node that it chose, or why there is none. Nothing binds volumes here, so a
pod is deleted once it is decided, and what it left behind (a selected node, a reserved volume) is part of what the next
pod of its cluster meets. Requires a kube-scheduler in KUBEBUILDER_ASSETS.
"""

import json
import re
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from stowplan import Cluster
from support.api import manifests, storage_objects
from support.examples import times
from support.processes.api_client import Client
from support.processes.beside_reference import HAS_REFERENCE, NO_REFERENCE, PROGRAMS, wait_for
from support.processes.scheduler_process import ADMIN, kube_scheduler
from support.processes.servers import assets, real_server

pytestmark = pytest.mark.skipif(not HAS_REFERENCE, reason=NO_REFERENCE)

GATES = ("StorageCapacityScoring", "VolumeLimitScaling")
#: Pods per cluster, which are decided one after the other.
PODS = 4
STORAGE, CORE = "/apis/storage.k8s.io/v1", "/api/v1"
COLLECTIONS = {
    "Node": f"{CORE}/nodes",
    "PersistentVolume": f"{CORE}/persistentvolumes",
    "PersistentVolumeClaim": f"{CORE}/namespaces/default/persistentvolumeclaims",
    "Pod": f"{CORE}/namespaces/default/pods",
    "StorageClass": f"{STORAGE}/storageclasses",
    "CSIDriver": f"{STORAGE}/csidrivers",
    "CSINode": f"{STORAGE}/csinodes",
    "CSIStorageCapacity": f"{STORAGE}/namespaces/default/csistoragecapacities",
}
OTHER_CLUSTERS = "node(s) didn't match Pod's node affinity/selector"


class RandomCluster:
    """Nodes, drivers, classes, volumes and claims, all of whose names start with the cluster's; and its pods."""

    def __init__(self, gate, number):
        self.gate, self.name = gate, f"{gate[:1].lower()}{number}"
        self._random = Random(f"{gate} {number}")
        self.objects = []
        nodes = [self._node(i) for i in range(self._random.randint(2, 5))]
        drivers = [f"{self.name}-{letter}.example.com" for letter in "ab"[: self._random.randint(1, 2)]]
        for driver in drivers:
            self._driver(driver)
        self._delayed = [self._class(f"{self.name}-class-{i}", self._random.choice(drivers)) for i in range(2)]
        self._classes = [*self._delayed * 5, self._class(f"{self.name}-now", drivers[0], mode="Immediate")]
        for node in nodes:
            self._drivers_of(node, drivers)
        if gate == "StorageCapacityScoring":
            self._capacities(nodes)
            self._local_volumes(nodes)
        else:
            self._used_volumes(nodes, drivers)
        self.pods = [self._pod(i, drivers) for i in range(PODS)]

    def _size(self, most=40):
        return f"{self._random.randint(1, most)}Gi"

    def _node(self, number):
        node = manifests.node(f"{self.name}-n{number}")
        zone = f"{self.name}-{self._random.choice('xy')}"
        node["metadata"]["labels"] |= {"cluster": self.name, "topology.kubernetes.io/zone": zone}
        node["status"]["allocatable"]["cpu"] = str(self._random.choice((2, 4, 8)))
        self.objects.append(node)
        return node

    def _driver(self, name):
        spec = {"attachRequired": True, "storageCapacity": self._random.random() < 0.8}
        if self.gate == "VolumeLimitScaling":
            spec = {"attachRequired": True, "preventPodSchedulingIfMissing": self._random.random() < 0.7}
        if self._random.random() < 0.9:
            self._add("CSIDriver", name, spec=spec)

    def _class(self, name, driver, *, mode="WaitForFirstConsumer"):
        self.objects.append(storage_objects.storage_class(name, provisioner=driver, mode=mode))
        return name

    def _drivers_of(self, node, drivers):
        if self._random.random() < 0.15:
            return
        name = node["metadata"]["name"]
        present = [driver for driver in drivers if self._random.random() < 0.75]
        counts = [self._random.choice(({}, {"allocatable": {"count": self._random.randint(0, 3)}})) for _ in present]
        entries = [{"name": d, "nodeID": name, **count} for d, count in zip(present, counts, strict=True)]
        self._add("CSINode", name, spec={"drivers": entries})

    def _capacities(self, nodes):
        """At most one for a class and a node: the reference takes any of several."""
        for class_ in self._delayed:
            key = self._random.choice(("kubernetes.io/hostname", "topology.kubernetes.io/zone"))
            for domain in sorted({node["metadata"]["labels"][key] for node in nodes}):
                if self._random.random() < 0.2:
                    continue
                most = {"maximumVolumeSize": self._size()} if self._random.random() < 0.2 else {}
                self._add(
                    "CSIStorageCapacity",
                    f"{class_}-{domain}",
                    storageClassName=class_,
                    nodeTopology={"matchLabels": {key: domain}},
                    capacity=self._random.choice((self._size(), self._size(400), "0")),
                    **most,
                )

    def _local_volumes(self, nodes):
        for number in range(self._random.randint(0, 5)):
            node = self._random.choice(nodes)["metadata"]["name"]
            expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
            class_ = self._random.choice(self._delayed)
            name = f"{self.name}-local-{number}"
            volume = storage_objects.volume(name, self._size(60), class_=class_, nodeAffinity=affinity)
            volume["spec"] = {**volume["spec"], "hostPath": None, "local": {"path": f"/{name}"}}
            self.objects.append(volume)

    def _used_volumes(self, nodes, drivers):
        for number in range(self._random.randint(0, 4)):
            claim = self._bound_claim(f"{self.name}-used-{number}", self._random.choice(drivers))
            node = self._random.choice(nodes)["metadata"]["name"]
            self.objects.append(self._pod_of(f"{self.name}-user-{number}", [claim], nodeName=node))

    def _bound_claim(self, name, driver):
        class_ = self._random.choice(self._classes)
        reserved = storage_objects.reserved_for(name)
        csi = {"driver": driver, "volumeHandle": name}
        volume = storage_objects.volume(f"{name}-volume", class_=class_, csi=csi, **reserved)
        volume["spec"] = {**volume["spec"], "hostPath": None}
        done = {"pv.kubernetes.io/bind-completed": "yes"}
        claim = storage_objects.claim(name, class_=class_, annotations=done, volumeName=f"{name}-volume")
        self.objects += [volume, claim]
        return name

    def _pod(self, number, drivers):
        claims = []
        for i in range(self._random.randint(1, 3)):
            name = f"{self.name}-claim-{number}-{i}"
            if self.gate == "VolumeLimitScaling" and self._random.random() < 0.6:
                self._bound_claim(name, self._random.choice(drivers))
            else:
                class_ = self._random.choice(self._classes)
                self.objects.append(storage_objects.claim(name, self._size(), class_=class_))
            claims.append(name)
        return self._pod_of(f"{self.name}-pod-{number}", claims, nodeSelector={"cluster": self.name})

    def _pod_of(self, name, claims, **spec):
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        return manifests.pod(name, volumes=volumes, terminationGracePeriodSeconds=0, **spec)

    def _add(self, kind, name, **fields):
        namespace = {"namespace": "default"} if kind == "CSIStorageCapacity" else {}
        version = {"apiVersion": "storage.k8s.io/v1", "kind": kind}
        self.objects.append({**version, "metadata": {"name": name, **namespace}, **fields})


class Reference:
    """The reference's kube-scheduler, asked by creating pods and reading its log."""

    def __init__(self, server, scheduler):
        self._client, self._scheduler = Client(server.kubeconfig), scheduler
        self._read, self._rest = 0, b""
        #: By pod: node -> plugin -> score, if several nodes were left; and the chosen node, or the reasons.
        self._scores = defaultdict(lambda: defaultdict(dict))
        self._outcomes = {}

    def create(self, objects):
        with ThreadPoolExecutor(8) as threads:
            for kind in dict.fromkeys(("PersistentVolumeClaim", *COLLECTIONS)):
                list(threads.map(self._create, [obj for obj in objects if obj["kind"] == kind]))

    def _create(self, obj):
        """Creates it as a controller of volumes leaves it."""
        path = COLLECTIONS[obj["kind"]]
        if obj["kind"] != "PersistentVolume":
            self._client(path, obj)
            return
        claim = obj["spec"].get("claimRef")
        if claim is not None:
            claim["uid"] = self._client(f"{COLLECTIONS['PersistentVolumeClaim']}/{claim['name']}")["metadata"]["uid"]
        made = self._client(path, obj)
        made["status"] = {"phase": "Bound" if claim else "Available"}
        self._client(f"{path}/{obj['metadata']['name']}/status", made, method="PUT")

    def objects_by_cluster(self):
        found = defaultdict(list)
        for kind, path in COLLECTIONS.items():
            answer = self._client(path)
            for obj in answer["items"]:
                by_name = obj["metadata"]["name"].split("-")[0]
                found[by_name].append({"apiVersion": answer["apiVersion"], "kind": kind, **obj})
        return found

    def decide(self, pods):
        """What became of each pod; they are deleted again."""
        self.create(pods)
        names = {pod["metadata"]["name"] for pod in pods}
        wait_for(lambda: self._read_on().keys() >= names, "the decisions about all pods", 300)
        for name in names:
            self._client.delete(f"{COLLECTIONS['Pod']}/{name}?gracePeriodSeconds=0")
        nothing_assumed = 'scheduler_cache_size{type="assumed_pods"} 0\n'
        wait_for(lambda: nothing_assumed in self._scheduler.ask("/metrics", who=ADMIN)[2], nothing_assumed, 300)
        return {name: (self._scores[name], self._outcomes[name]) for name in names}

    def _read_on(self):
        """The outcomes, once the log is read to its end."""
        with self._scheduler.log.open("rb") as log:
            log.seek(self._read)
            *lines, self._rest = (self._rest + log.read()).split(b"\n")
            self._read = log.tell()
        for line in lines:
            if line.startswith(b"{") and b'"pod":{' in line:
                self._take(json.loads(line))
        return self._outcomes

    def _take(self, said):
        pod = said["pod"]["name"]
        match said["msg"]:
            case "Plugin scored node for pod":
                self._scores[pod][said["node"]][said["plugin"]] = said["score"]
            case "AssumePodVolumes":
                self._outcomes.setdefault(pod, said["node"]["name"])
            case "Unable to schedule pod; no fit; waiting":
                self._outcomes.setdefault(pod, said["err"])


def reasons(message, others=0):
    """The number of nodes by reason, without nodes of other clusters."""
    # What PostFilter plugins add follows after a full stop.
    text = message.partition(": ")[2].partition(". ")[0].removesuffix(".")
    counts = Counter()
    for part in text.split(", "):
        number = re.match(r"(\d+) (.*)", part)
        # Of several missing drivers the reference names any.
        reason = re.sub(r"^\S+ (?=CSI driver is not installed)", "", number[2] if number else part)
        counts[reason] += int(number[1]) if number else 1
    counts[OTHER_CLUSTERS] -= others
    return +counts


def differences(cluster, pod, answer, others):
    """Between the reference's answer and ours, as text; empty if there are none."""
    scores, outcome = answer
    verdict = cluster.explain(pod).to_dict()
    name = pod["metadata"]["name"]
    if verdict.get("error") or not verdict.get("feasible"):
        ours = reasons(verdict.get("message", ""), 0)
        theirs = reasons(outcome, others)
        return "" if ours == theirs and ours else f"{name}: {verdict.get('error', '')} {ours}, and theirs {theirs}"
    feasible, totals = set(verdict["feasible"]), verdict["totals"]
    if feasible != (set(scores) or {outcome}):
        return f"{name}: {sorted(feasible)}, and theirs {sorted(scores) or outcome}"
    ours, theirs = ({n: +Counter(s) for n, s in found.items()} for found in (verdict["scores"], scores))
    if scores and ours != theirs:
        return f"{name}: {ours}, and theirs {theirs}"
    best = {node for node in feasible if totals[node] == max(totals.values())}
    return "" if outcome in best else f"{name}: {best}, and theirs {outcome}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    flags = (
        "--feature-gates=VolumeLimitScaling=true",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    )
    with real_server(tmp_path_factory.mktemp("server"), assets(), *flags) as server:
        yield server


@pytest.mark.parametrize("gate", GATES)
def test_decisions_are_the_same(server, tmp_path, gate):
    clusters = [RandomCluster(gate, number) for number in range(times(20))]
    flags = ("-v=10", "--leader-elect=false", f"--feature-gates={gate}=true")
    with kube_scheduler(tmp_path, server.kubeconfig, *flags, program=PROGRAMS["theirs"]) as scheduler:
        reference = Reference(server, scheduler)
        reference.create([obj for cluster in clusters for obj in cluster.objects])
        found, decided, placed = [], 0, 0
        for number in range(PODS):
            before = reference.objects_by_cluster()
            nodes = {name: sum(obj["kind"] == "Node" for obj in objects) for name, objects in before.items()}
            answers = reference.decide([cluster.pods[number] for cluster in clusters])
            for cluster in clusters:
                pod, objects = cluster.pods[number], before[cluster.name]
                others = sum(nodes.values()) - nodes[cluster.name]
                for how in ({"emulated_version": "1.36", "feature_gates": {gate: True}}, {"emulated_version": "1.37"}):
                    asked = Cluster([*objects, pod], **how)
                    found.append(differences(asked, pod, answers[pod["metadata"]["name"]], others))
                decided += 1
                placed += bool(answers[pod["metadata"]["name"]][1] in {obj["metadata"]["name"] for obj in objects})
    assert list(filter(None, found)) == []
    # Neither outcome is rare.
    assert decided * 0.2 < placed < decided * 0.9
