"""Groups of nodes that a cluster autoscaler scales: a simulation and the embedded cluster, in step.

    agree_on_groups({"small": {"cpu": 4, "max": 3}}, {"web": replica_set(2, cpu=1)}, [(100, "web", 9)])

Workloads are ReplicaSets, which are scaled at these times. The embedded cluster binds pods as the simulation's
scheduler does, and its autoscaler asks a scheduler with its own objects. Compared are the nodes and which pods they
have, whenever something has happened; nodes are known by their numbers, which begin with 0 there and with 1 here.
"""

from __future__ import annotations

from collections import Counter
from math import floor, inf
from typing import NamedTuple

from stowplan.ask.offline import Cluster
from stowplan.ask.what_if.node_trials import NodeTrials
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.meta import parse_timestamp, timestamp
from stowplan.kube.api.types import Node, Pod
from stowplan_cluster.controllers.cleanup.pod_gc import PodGCController
from stowplan_cluster.controllers.controller_manager import workload_controllers
from stowplan_cluster.controllers.disruption import DisruptionController
from stowplan_cluster.controllers.kubelet.kubelet import Kubelet
from stowplan_cluster.controllers.nodes.cluster_autoscaler import ClusterAutoscaler
from stowplan_cluster.controllers.nodes.node_groups import groups_of
from stowplan_cluster.controllers.nodes.node_lifecycle import NodeLifecycleController
from stowplan_cluster.reconcile.kubelet import Containers
from support.live.controller_cluster import START, workload
from support.live.stepped import SteppedCluster, SteppedSimulation
from support.scenarios.manifests import container, scenario

#: What is due within this time counts as one moment.
MOMENT = 0.1
QUIET = 900
#: In seconds whose sums are never multiples of ten, when the autoscalers look.
BOOT, IDLE = 34, 65


class Group(NamedTuple):
    cpu: int
    most: int
    least: int = 0
    price: float = 0.0

    def in_scenario(self, name):
        limits = {"min": self.least, "max": self.most, "boot": BOOT, "idle": IDLE}
        capacity = {"cpu": self.cpu, "memory": "64Gi"}
        more = {"count": self.least, "autoscale": limits, "price": self.price}
        return {"name": name, "capacity": capacity, **more}

    def template(self, name):
        about = {"min-nodes": self.least, "max-nodes": self.most, "boot-after": f"{BOOT}s", "idle-for": f"{IDLE}s"}
        annotations = {f"stowplan.io/{key}": str(value) for key, value in {**about, "price": self.price}.items()}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"{name}-{{n}}", "annotations": annotations},
            "status": {"capacity": {"cpu": str(self.cpu), "memory": "64Gi", "pods": "110"}},
        }


def replica_set(name, replicas, cpu):
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container(str(cpu))]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"kind": "ReplicaSet", "spec": spec}


class _Trials:
    """Of a scheduler with the objects that the embedded cluster has now."""

    def __init__(self, cluster):
        self._cluster = cluster

    def __getattr__(self, name):
        nodes = [decode_json(stored.data, Node) for stored in self._cluster.store.list("nodes")]
        pods = [decode_json(stored.data, Pod) for stored in self._cluster.store.list("pods")]
        return getattr(NodeTrials(Cluster([*nodes, *pods]).engine), name)


class Embedded(SteppedCluster):
    def __init__(self, groups, workloads, budgets, startup, termination):
        containers = Containers(start_after=startup, stop_after=termination)
        scaled = groups_of([group.template(name) for name, group in groups.items()])

        def controllers(registry):
            autoscaler = ClusterAutoscaler(registry, scaled)
            autoscaler.trials = _Trials(self)
            others = [NodeLifecycleController(registry), PodGCController(registry), DisruptionController(registry)]
            return [*workload_controllers(registry), Kubelet(registry, containers), *others, autoscaler]

        super().__init__(controllers)
        for group in scaled:
            self.server.create_all(group.node(number) for number in range(group.limits.least))
        for one in budgets:
            self.create(one)
        for name, manifest in workloads.items():
            self.create({**workload(manifest["kind"], name), "spec": manifest["spec"]})

    def schedule_as(self, simulated):
        """Bind pods as the simulation did, and reject the others; returns whether any were bound."""
        done = False
        new = [pod for pod in self.read("Pod") if not pod["spec"].get("nodeName")]
        wanted = simulated.bound() - self.bound() if new else Counter()
        for pod in new:
            if "deletionTimestamp" in pod["metadata"]:
                continue
            found = next((one for one, number in wanted.items() if number > 0 and one[:-1] == origin(pod)), None)
            if found is not None:
                wanted[found] -= 1
                self.bind(pod["metadata"]["name"], found[-1])
                done = True
            elif not pod["status"].get("conditions"):
                self.change("Pod", pod["metadata"]["name"], reject, subresource="status")
        self.settle()
        return done

    def bound(self):
        pods = (pod for pod in self.read("Pod") if pod["spec"].get("nodeName"))
        return Counter((*origin(pod), pod["spec"]["nodeName"]) for pod in pods)

    def nodes(self):
        return {node["metadata"]["name"] for node in self.read("Node")}


def reject(pod):
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]


class Simulated(SteppedSimulation):
    def __init__(self, groups, workloads, events, budgets, startup, termination, folder):
        given = scenario(
            *({"name": name, "manifest": manifest} for name, manifest in workloads.items()),
            groups=[group.in_scenario(name) for name, group in groups.items()],
            events=[{"at": at, "scale": {"workload": name, "replicas": replicas}} for at, name, replicas in events],
            models={"startup": startup, "termination": termination, "controllerDelay": 0},
            duration=(events[-1][0] if events else 0) + QUIET,
            start=timestamp(START),
        )
        super().__init__(given, budgets, folder)

    def bound(self):
        entries = [self._context.ledger.of(pod.metadata.uid) for pod in self._context.store.list(Pod)]
        created = ((entry, floor(entry.arrived - START + 1e-5)) for entry in entries if entry.node)
        return Counter((entry.origin.workload, at, renamed(entry.node)) for entry, at in created)

    def nodes(self):
        return {renamed(node.metadata.name) for node in self._context.store.list(Node)}


def renamed(node):
    """As the embedded cluster calls it."""
    group, _, number = node.rpartition("-")
    return f"{group}-{int(number) - 1:04}"


def origin(pod):
    metadata = pod["metadata"]
    return metadata["ownerReferences"][0]["name"], floor(parse_timestamp(metadata["creationTimestamp"]) - START)


class Found(NamedTuple):
    """Numbers of nodes, and whether a drain was given up."""

    most: int
    left: int
    failed: bool = False


def agree_on_groups(groups, workloads, events, folder, *, budgets=(), startup=6.3, termination=2.6):
    simulated = Simulated(groups, workloads, events, budgets, startup, termination, folder)
    embedded = Embedded(groups, workloads, budgets, startup, termination)
    left, at, most = list(events), 0.0, 0
    end = (events[-1][0] if events else 0) + QUIET - 100
    while at < end:
        change = left[0][0] if left else inf
        at = min(simulated.next, embedded.next, change, end)
        if at <= change <= at + MOMENT:
            at = change
            embedded.go_on(at)
            _, name, replicas = left.pop(0)
            embedded.scale("ReplicaSet", name, replicas)
        step(simulated, embedded, at + MOMENT)
        assert (embedded.nodes(), embedded.bound()) == (simulated.nodes(), simulated.bound()), f"{at} s from the start"
        most = max(most, len(embedded.nodes()))
    reasons = {event["reason"] for event in embedded.all("Event")}
    return Found(most, len(embedded.nodes()), failed="ScaleDownFailed" in reasons)


def step(simulated, embedded, until):
    simulated.go_on(until)
    embedded.go_on(until)
    while embedded.schedule_as(simulated):
        pass
