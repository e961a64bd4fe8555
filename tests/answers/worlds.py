"""Random small clusters as manifests: nodes, and workloads of every kind with everything that may keep a pod waiting.

The same seed gives the same world. `may_refuse` says which plugins may keep a pod of a world off a node: what the
generator did not put there is no reason to wait.
"""

from copy import deepcopy
from dataclasses import dataclass
from random import Random

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GPU = "example.com/gpu"
APPS = ("a", "b", "c", "d", "e", "f")
#: Longer than any question.
_FOREVER = {"stowplan.io/run-for": "10000000s"}


@dataclass
class World:
    seed: int
    objects: list

    def of(self, *kinds):
        return [obj for obj in self.objects if obj["kind"] in kinds]

    @property
    def workloads(self):
        return self.of("Deployment", "StatefulSet", "DaemonSet", "Job", "Pod")


def a_world(seed):
    return World(seed, _World(Random(seed)).objects())


class _World:
    def __init__(self, random):
        self.random = random
        self.zones = "abc"[: random.choice([1, 2, 2, 3])]
        self.claims = random.random() < 0.5
        self.priorities = random.random() < 0.25
        self.others = []

    def chance(self, share):
        return self.random.random() < share

    def objects(self):
        nodes = [self.node(number) for number in range(self.random.randint(2, 5))]
        if self.claims:
            self.others += self.classes()
        if self.priorities:
            self.others += [_priority("high", 1000), _priority("higher", 2000), _priority("meek", 1000, "Never")]
        workloads = [self.workload(app) for app in APPS[: self.random.randint(2, 6)]]
        self.others += [self.budget(obj) for obj in workloads if obj["kind"] != "Pod" and self.chance(0.25)]
        # Last, as `stowplan up` creates them: what exists stays.
        return [*nodes, *self.others, *workloads, *self.quotas()]

    def quotas(self):
        if not self.chance(0.2):
            return []
        choices = {
            "pods": ["3", "6", "9", "30"],
            "count/pods": ["5", "30"],
            "requests.cpu": ["2", "5500m", "9", "90"],
            "cpu": ["4", "90"],
            "requests.memory": ["3Gi", "90Gi"],
            f"requests.{GPU}": ["0", "1"],
        }
        hard = {name: self.random.choice(choices[name]) for name in self.random.sample(list(choices), 2)}
        scopes = {} if f"requests.{GPU}" in hard or self.chance(0.7) else {"scopes": ["NotTerminating"]}
        hard = {name: amount for name, amount in hard.items() if not scopes or name != "count/pods"} or {"pods": "4"}
        return [_object("v1", "ResourceQuota", "most", namespace="default", spec={"hard": hard, **scopes})]

    # -- nodes ------------------------------------------------------------------------------------------------------

    def node(self, number):
        random, name = self.random, f"n{number}"
        labels = {HOST: name}
        if len(self.zones) > 1 or self.chance(0.5):
            labels[ZONE] = self.zones[number % len(self.zones)]
        if self.chance(0.4):
            labels["disk"] = random.choice(["ssd", "hdd"])
        amounts = {"cpu": random.choice("2488"), "memory": random.choice(["4Gi", "8Gi", "16Gi"])}
        amounts["pods"] = random.choice(["3", "6", "10", "20"])
        if self.chance(0.25):
            amounts[GPU] = random.choice("12")
        spec = {}
        if self.chance(0.12):
            spec["taints"] = [{"key": "dedicated", "value": "x", "effect": random.choice(["NoSchedule", "NoExecute"])}]
        if self.chance(0.08):
            spec["unschedulable"] = True
        status = {"capacity": amounts, "allocatable": amounts}
        return _object("v1", "Node", name, labels=labels, spec=spec, status=status)

    # -- volumes ----------------------------------------------------------------------------------------------------

    def classes(self):
        made = [
            _class("fast", "csi.example.com", "WaitForFirstConsumer"),
            _class("now", "csi.example.com", "Immediate"),
            _class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
            _class("static", "kubernetes.io/no-provisioner", "Immediate"),
        ]
        zone = {"key": ZONE, "values": [self.random.choice(self.zones)]}
        if len(self.zones) > 1:
            # In which of several zones a provisioner creates an Immediate volume is its own choice.
            made[1]["allowedTopologies"] = [{"matchLabelExpressions": [zone]}]
        if self.chance(0.3):
            made[0]["allowedTopologies"] = [{"matchLabelExpressions": [zone]}]
        if self.chance(0.6):
            default = {"storageclass.kubernetes.io/is-default-class": "true"}
            self.random.choice(made)["metadata"]["annotations"] = default
        volumes = [self.volume(number) for number in range(self.random.randint(0, 5))]
        return [*made, *volumes]

    def volume(self, number):
        spec = {
            "capacity": {"storage": self.random.choice(["1Gi", "1Gi", "5Gi"])},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.random.choice(["local", "local", "static", ""]),
            "csi": {"driver": "csi.example.com", "volumeHandle": f"pv{number}"},
            "persistentVolumeReclaimPolicy": "Retain",
        }
        if self.chance(0.8):
            where = {"key": ZONE, "operator": "In", "values": [self.random.choice(self.zones)]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}}
        return _object("v1", "PersistentVolume", f"pv{number}", spec=spec)

    def claim_spec(self):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        chosen = self.random.choice(["fast", "fast", "now", "now", "local", "static", "", None, "missing"])
        return spec if chosen is None else {**spec, "storageClassName": chosen}

    # -- workloads --------------------------------------------------------------------------------------------------

    def workload(self, app):
        random = self.random
        kind = random.choice(["Deployment"] * 5 + ["StatefulSet"] * 3 + ["DaemonSet", "Job", "Job", "Pod"])
        template = self.template(app, kind)
        if kind == "Pod":
            return _object("v1", "Pod", app, labels={"app": app}, namespace="default", spec=template["spec"])
        spec = {"template": template}
        if kind != "Job":
            spec["selector"] = {"matchLabels": {"app": app}}
        if kind == "Deployment":
            spec["replicas"] = random.randint(1, 5)
            spec["strategy"] = {"type": "Recreate"}
        elif kind == "StatefulSet":
            spec |= {"replicas": random.randint(1, 3), "serviceName": app}
            spec["podManagementPolicy"] = random.choice(["Parallel", "Parallel", "OrderedReady"])
            if self.claims and self.chance(0.8):
                claim = {"metadata": {"name": "data"}, "spec": self.claim_spec()}
                spec["volumeClaimTemplates"] = [claim]
        elif kind == "Job":
            spec |= {"parallelism": random.randint(1, 4), "backoffLimit": 1000}
            template["spec"]["restartPolicy"] = "Never"
        version = "batch/v1" if kind == "Job" else "apps/v1"
        return _object(version, kind, app, labels={"app": app}, namespace="default", spec=spec)

    def template(self, app, kind):
        random = self.random
        requests = {"cpu": random.choice(["100m", "500m", "1", "1", "2", "3"])}
        if self.chance(0.5):
            requests["memory"] = random.choice(["500Mi", "1Gi", "3Gi"])
        if self.chance(0.1):
            requests[GPU] = "1"
        limits = {GPU: "1"} if GPU in requests else {}
        container = {"name": "main", "image": "app:1", "resources": {"requests": requests, "limits": limits}}
        if self.chance(0.15):
            port = random.choice([80, 80, 81])
            container["ports"] = [{"containerPort": port, "hostPort": port}]
        spec = {"containers": [container], "terminationGracePeriodSeconds": random.choice([0, 30])}
        mine = {"matchLabels": {"app": app}}
        other = {"matchLabels": {"app": random.choice(APPS)}}
        if self.chance(0.15):
            spec["nodeSelector"] = {"disk": random.choice(["ssd", "ssd", "hdd", "sdd"])}
        if self.chance(0.2):
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": random.choice([1, 1, 2]),
                    "topologyKey": random.choice([ZONE, HOST]),
                    "whenUnsatisfiable": random.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
                    "labelSelector": mine,
                }
            ]
        affinity = {}
        if kind == "DaemonSet":
            # What-if takes it that a new node has the running pods of the DaemonSets of its model.
            pass
        elif self.chance(0.12):
            term = {
                "topologyKey": random.choice([HOST, HOST, ZONE]),
                "labelSelector": random.choice([mine, mine, other]),
            }
            affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        elif self.chance(0.1):
            term = {"topologyKey": random.choice([HOST, ZONE]), "labelSelector": random.choice([mine, other])}
            affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        if self.chance(0.08):
            zones = {"key": ZONE, "operator": random.choice(["In", "NotIn"]), "values": [random.choice(self.zones)]}
            terms = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
            affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        if affinity:
            spec["affinity"] = affinity
        if self.chance(0.25):
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if self.priorities and self.chance(0.4):
            spec["priorityClassName"] = random.choice(["high", "higher", "meek"])
        if self.chance(0.06) and kind != "DaemonSet":
            spec["schedulingGates"] = [{"name": "example.com/wait"}]
        if self.chance(0.04):
            spec["schedulerName"] = "other"
        if self.claims and kind in ("Deployment", "Pod", "Job") and self.chance(0.4):
            spec["volumes"] = [self.volume_of(app)]
        annotations = _FOREVER if kind == "Job" else {}
        return {"metadata": {"labels": {"app": app}, "annotations": annotations}, "spec": spec}

    def volume_of(self, app):
        if self.chance(0.4):
            return {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": self.claim_spec()}}}
        if self.chance(0.9):
            claim = _object("v1", "PersistentVolumeClaim", app, namespace="default", spec=self.claim_spec())
            self.others.append(claim)
        return {"name": "data", "persistentVolumeClaim": {"claimName": app}}

    def budget(self, obj):
        allowed = self.random.choice(
            [{"maxUnavailable": 1}, {"minAvailable": 1}, {"minAvailable": 2}, {"maxUnavailable": 0}]
        )
        spec = {"selector": {"matchLabels": {"app": obj["metadata"]["name"]}}, **allowed}
        return _object("policy/v1", "PodDisruptionBudget", obj["metadata"]["name"], namespace="default", spec=spec)


def _object(version, kind, name, *, namespace="", labels=None, **fields):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | ({"labels": labels} if labels else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _class(name, provisioner, mode):
    return _object("storage.k8s.io/v1", "StorageClass", name, provisioner=provisioner, volumeBindingMode=mode)


def _priority(name, value, policy="PreemptLowerPriority"):
    return _object("scheduling.k8s.io/v1", "PriorityClass", name, value=value, preemptionPolicy=policy)


def may_refuse(pod, pods, nodes):
    """The plugins that may keep a pod waiting, for what was put into the cluster; typed objects."""
    spec, affinity = pod.spec, pod.spec.affinity
    found = {"NodeResourcesFit"}
    if any(node.spec.unschedulable for node in nodes):
        found.add("NodeUnschedulable")
    if any(node.spec.taints for node in nodes):
        found.add("TaintToleration")
    if spec.node_selector or (affinity is not None and affinity.node_affinity is not None):
        found.add("NodeAffinity")
    if any(port.host_port for container in spec.containers for port in container.ports):
        found.add("NodePorts")
    if any(one.when_unsatisfiable == "DoNotSchedule" for one in spec.topology_spread_constraints):
        found.add("PodTopologySpread")
    if (affinity is not None and affinity.pod_affinity is not None) or any(map(_keeps_others_away, pods)):
        found.add("InterPodAffinity")
    if any(one.persistent_volume_claim is not None or one.ephemeral is not None for one in spec.volumes):
        found |= {"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"}
    if spec.scheduling_gates:
        found.add("SchedulingGates")
    return found


def _keeps_others_away(pod):
    return pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity is not None


def more_objects(random):
    """New workloads or volumes, to apply to any world."""
    made = _World(random)
    made.claims = False
    made.priorities = False
    if random.random() < 0.3:
        number = random.randint(10, 99)
        return [made.volume(number)]
    while (obj := made.workload("new"))["kind"] == "Pod" or "annotations" not in obj["spec"]["template"]["metadata"]:
        pass
    return [obj]


def changed(world, random):
    """A workload of the world with another template."""
    found = [obj for obj in world.of("Deployment") if obj["spec"]["replicas"]]
    if not found:
        return more_objects(random)
    obj = deepcopy(random.choice(found))
    container = obj["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"]["cpu"] = random.choice(["200m", "700m", "1500m", "6"])
    obj["spec"]["replicas"] = max(0, obj["spec"]["replicas"] + random.randint(-1, 2))
    return [obj]
