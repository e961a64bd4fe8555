"""Random small clusters with everything that may affect a move: volumes, devices, preemption, profiles, gates, budgets,
images, pod groups, extenders; in any combination.

`a_cluster` draws one with a `random.Random`, so that a property test can use Hypothesis'.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from stowplan import Cluster
from stowplan.testing import a_node, a_pod
from support.plugins.devices import a_claim, a_class, a_device, a_slice, allocation, exactly

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {"schedulerName": "default-scheduler"},
        {
            "schedulerName": "packing",
            "plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
                }
            ],
        },
    ],
}
GROUP_GATES = {"GenericWorkload": True, "GangScheduling": True}
EXTENDER = {
    "urlPrefix": "http://extender.example",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "weight": 2,
    "nodeCacheCapable": True,
}
GPU = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
SHARED_GPU = [{"name": "gpu", "resourceClaimName": "shared-gpu"}]

SHAPES = {
    "plain": lambda pod, random: pod,
    "web": lambda pod, random: pod.labels(app="web"),
    "spread": lambda pod, random: pod.labels(app="web").spreads(ZONE, WEB),
    "apart": lambda pod, random: pod.labels(app="web").avoids_pods(HOST, WEB),
    "with": lambda pod, random: pod.requires_pods(ZONE, WEB),
    "port": lambda pod, random: pod.host_port(80),
    "gated": lambda pod, random: pod.gated("wait"),
    "important": lambda pod, random: pod.priority(random.choice([5, 10])),
    "important and meek": lambda pod, random: pod.priority(10).never_preempts(),
    "packing": lambda pod, random: pod.scheduler("packing"),
    "other scheduler": lambda pod, random: pod.scheduler("other"),
    "image": lambda pod, random: pod.image("img:1"),
    "ssd": lambda pod, random: pod.node_selector(disk="ssd"),
    "tolerant": lambda pod, random: pod.tolerates("k"),
    "volume": lambda pod, random: pod.claims_volume(f"claim-of-{pod.obj()['metadata']['name']}"),
    "one writer": lambda pod, random: pod.claims_volume("shared"),
    "device": lambda pod, random: pod.spec(resourceClaims=GPU),
    "shared device": lambda pod, random: pod.spec(resourceClaims=SHARED_GPU),
    "gang": lambda pod, random: pod.spec(schedulingGroup={"podGroupName": "train"}),
    "important gang": lambda pod, random: pod.priority(5).spec(schedulingGroup={"podGroupName": "train"}),
    "ephemeral": lambda pod, random: pod.volume("scratch", ephemeral={"volumeClaimTemplate": {"spec": _claim_spec()}}),
}


@dataclass
class Drawn:
    nodes: list
    pods: list
    others: list
    #: The arguments of `Cluster` besides objects.
    config: dict = field(default_factory=lambda: CONFIG)
    gates: dict = field(default_factory=dict)
    #: Node -> names of free devices.
    devices: dict = field(default_factory=lambda: defaultdict(list))

    @property
    def objects(self):
        return [*self.nodes, *self.pods, *self.others]

    def cluster(self, objects=None):
        given = self.objects if objects is None else objects
        return Cluster(given, self.config, feature_gates=self.gates, emulated_version="1.36", call_extender=extended)


def extended(url, body):
    """An extender that keeps some pods off a node, and prefers another."""
    if url.endswith("/prioritize"):
        return [{"Host": name, "Score": 10 if name.startswith("n0") else 0} for name in body["NodeNames"]]
    web = body["Pod"]["metadata"].get("labels", {}).get("app") == "web"
    refused = ["n1"] if web else []
    kept = [name for name in body["NodeNames"] if name not in refused]
    return {"NodeNames": kept, "FailedNodes": dict.fromkeys(refused, "not mine")}


def a_cluster(random):
    drawn = Drawn([], [], _classes(random))
    if random.random() < 0.3:
        drawn.config = CONFIG | {"extenders": [EXTENDER]}
    if random.random() < 0.4:
        drawn.gates = GROUP_GATES
    drawn.others += [a_class(), _group(random)]
    for i in range(random.randint(2, 5)):
        drawn.nodes.append(_a_node(f"n{i}", "abc"[i % 3], random))
        if number := random.choice([0, 0, 1, 2]):
            drawn.devices[f"n{i}"] = [f"g{j}" for j in range(number)]
            drawn.others.append(a_slice(f"n{i}", *map(a_device, drawn.devices[f"n{i}"]), nodeName=f"n{i}"))
    for i in range(random.randint(0, 10)):
        pod, kind = a_shaped_pod(f"p{i}", random)
        if kind != "gated" and random.random() < 0.7:
            node = random.choice(drawn.nodes)
            name = node["metadata"]["name"]
            free = "resourceClaims" not in pod["spec"] or drawn.devices[name]
            if free and not _is_misplaced(pod, node):
                pod["spec"]["nodeName"] = name
                # As of any pod that runs: which of equal ones is preempted depends on it.
                pod["status"] = {"startTime": f"2026-01-01T00:00:{i:02}Z"}
        elif random.random() < 0.1:
            pod["status"] = {"nominatedNodeName": random.choice(drawn.nodes)["metadata"]["name"]}
        drawn.pods.append(pod)
        drawn.others += claims_of(pod, drawn, random)
    if random.random() < 0.3:
        drawn.others.append(_budget(random.randint(0, 2)))
    return drawn


def _is_misplaced(pod, node):
    """Whether the controller of a DaemonSet would remove the pod from the node, change or no change."""
    owners = [owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())]
    labels = node["metadata"]["labels"].items()
    return "DaemonSet" in owners and not pod["spec"].get("nodeSelector", {}).items() <= labels


def a_shaped_pod(name, random):
    kind = random.choice(list(SHAPES))
    made = SHAPES[kind](a_pod(name).requests(cpu=random.choice(["100m", "500m", "1", "2"])), random).obj()
    made["metadata"]["uid"] = name
    if random.random() < 0.8:
        owner = random.choice(["ReplicaSet"] * 8 + ["DaemonSet"])
        # Pods of one DaemonSet are wanted on the same nodes.
        owner_name = "web-abc" if owner == "ReplicaSet" else f"agent-{kind.replace(' ', '-')}"
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": owner_name, "uid": "u", "controller": True}
        made["metadata"]["ownerReferences"] = [reference]
    return made, kind


def claims_of(pod, drawn, random):
    """Claims and volumes for a pod; those of a pod on a node are bound to volumes of its zone."""
    if "resourceClaims" in pod["spec"]:
        yield from _device_claims(pod, drawn)
    zones = {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in drawn.nodes}
    zone = zones.get(pod["spec"].get("nodeName", ""))
    known = {obj["metadata"]["name"] for obj in drawn.others}
    for volume in pod["spec"].get("volumes", ()):
        name = volume.get("persistentVolumeClaim", {}).get("claimName") or f"{pod['metadata']['name']}-scratch"
        if name in known:
            continue
        owner = pod["metadata"] if "ephemeral" in volume else None
        if zone is not None or name == "shared":
            yield _volume(f"pv-{name}", zone or random.choice("abc"), name)
            yield _claim(name, owner, bound=True)
        else:
            if random.random() < 0.5:
                yield _volume(f"pv-{name}", random.choice("abc"), phase=random.choice(["", "Available"]))
            yield _claim(name, owner, bound=False, storage_class=random.choice(["local", "csi"]))


def _device_claims(pod, drawn):
    """A pod on a node takes one of its devices, or the shared one."""
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
    shared = pod["spec"]["resourceClaims"] == SHARED_GPU
    if shared:
        known = [obj for obj in drawn.others if obj["metadata"]["name"] == "shared-gpu"]
        if known:
            # Whoever comes second waits for a decision.
            pod["spec"].pop("nodeName", None)
            pod.pop("status", None)
            return
    else:
        pod.setdefault("status", {})["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    status, owner = {}, {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
    if node:
        status = allocation(drawn.devices[node].pop(), pool=node)
        status["allocation"]["nodeSelector"] = {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        }
        status["reservedFor"] = [{"resource": "pods", "name": name, "uid": name}]
    owners = {} if shared else {"ownerReferences": [owner]}
    yield a_claim("shared-gpu" if shared else f"{name}-gpu", exactly(), status=status, **owners)


def _group(random):
    gang = {"gang": {"minCount": random.randint(1, 3)}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "uid": "train"},
        "spec": {"schedulingPolicy": gang if random.random() < 0.8 else {"basic": {}}},
    }


def _a_node(name, zone, random):
    made = a_node(name).labels(**{HOST: name}).zone(zone)
    made = made.allocatable(cpu=random.choice(["1", "2", "4"]), memory="8Gi", pods=random.choice(["3", "10"]))
    made = made.labels(disk="ssd") if random.random() < 0.3 else made
    made = made.tainted("k") if random.random() < 0.15 else made
    made = made.unschedulable() if random.random() < 0.1 else made
    return (made.image("img:1", size=500_000_000) if random.random() < 0.3 else made).obj()


def _classes(random):
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "volumeBindingMode": "WaitForFirstConsumer"}
    local = {**kind, "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
    csi: dict[str, Any] = {**kind, "metadata": {"name": "csi"}, "provisioner": "csi.example.com"}
    if random.random() < 0.5:
        csi["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]
    return [local, csi]


def _claim_spec(storage_class="csi", mode="ReadWriteOnce"):
    size = {"requests": {"storage": "1Gi"}}
    return {"accessModes": [mode], "storageClassName": storage_class, "resources": size}


def _claim(name, owner, *, bound, storage_class="local"):
    metadata = {"name": name, "namespace": "default", "uid": name}
    spec = _claim_spec(storage_class, "ReadWriteOncePod" if name == "shared" else "ReadWriteOnce")
    if owner is not None:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner["name"], "uid": owner["uid"], "controller": True}
        metadata["ownerReferences"] = [reference]
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    if bound:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        spec["volumeName"] = f"pv-{name}"
        made["status"] = {"phase": "Bound"}
    return made


def _volume(name, zone, claim=None, phase="Bound"):
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
        "storageClassName": "local",
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    if claim:
        spec["claimRef"] = {"namespace": "default", "name": claim, "uid": claim}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"phase": phase} if phase else {},
    }


def _budget(allowed):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": WEB},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
    }
