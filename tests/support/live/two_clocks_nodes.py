"""Nodes that fail, return, are tainted, drained and removed: a simulation and the embedded cluster, in step.

    agree_on_nodes(workloads, [(100, Fail("node-1", 300)), (130, Drain("node-2", 60))], budgets=[...])

The embedded cluster has its kubelet and controllers, and binds pods as the simulation's scheduler does. Compared are
nodes, pods and budgets, whenever something has happened.
"""

from __future__ import annotations

from collections import Counter
from math import floor
from typing import Any, NamedTuple

from stowplan.kube.api.api_errors import TooManyRequests
from stowplan.kube.api.meta import parse_timestamp, timestamp
from stowplan.kube.api.pod import FINISHED
from stowplan.kube.api.types import Node, Pod, PodDisruptionBudget
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.eviction import BUDGETS, evict
from stowplan_cluster.controllers.cleanup.pod_gc import PodGCController
from stowplan_cluster.controllers.controller_manager import workload_controllers
from stowplan_cluster.controllers.disruption import DisruptionController
from stowplan_cluster.controllers.kubelet.kubelet import Kubelet
from stowplan_cluster.controllers.nodes.node_lifecycle import NodeLifecycleController, TaintEvictionController
from stowplan_cluster.reconcile.kubelet import Containers
from support.live.controller_cluster import START, target_of, workload
from support.live.stepped import SteppedCluster, SteppedSimulation
from support.scenarios.manifests import group, scenario

NODES = 3
#: Times of a scenario are whole seconds; those of containers are not, so that no two things are due at once.
#: What is due within this time counts as one moment: floats are rounded differently, and conflicting writes repeated.
MOMENT = 0.1
#: Seconds after an event's end, and those that pods without tolerations stay on a node that failed.
QUIET, EVICTED = 250, 360


#: The run time of pods of Jobs.
FOREVER = "100000s"


class Fail(NamedTuple):
    node: str
    seconds: int

    def event(self):
        return {"fail": {"nodes": [self.node], "for": self.seconds}}

    def apply(self, embedded):
        until = embedded.until[self.node] = max(embedded.until.get(self.node, 0.0), embedded.passed + self.seconds)
        embedded.annotate(self.node, "off")
        embedded.at(until, lambda: embedded.passed < embedded.until[self.node] or embedded.annotate(self.node, ""))


class Taint(NamedTuple):
    node: str
    seconds: int
    key: str = "k"

    def event(self):
        about = {"key": self.key, "effect": "NoExecute", "for": self.seconds}
        return {"taint": {"nodes": [self.node], **about}}

    def apply(self, embedded):
        embedded.taint(self.node, self.key, add=True)
        embedded.at(embedded.passed + self.seconds, lambda: embedded.taint(self.node, self.key, add=False))


class Drain(NamedTuple):
    node: str
    seconds: int

    def event(self):
        return {"drain": {"nodes": [self.node], "for": self.seconds}}

    def apply(self, embedded):
        embedded.cordon(self.node, True)
        self._evict(embedded)

    def _evict(self, embedded):
        if embedded.get("Node", self.node) is None:
            return
        pods = [pod for pod in embedded.all("Pod") if pod["spec"].get("nodeName") == self.node]
        # Names are made up here, so the oldest goes first, as it usually does in a simulation.
        pods.sort(key=lambda pod: pod["metadata"]["creationTimestamp"])
        left = [pod for pod in pods if owner_of(pod) != "DaemonSet d"]
        for pod in left:
            embedded.evict(pod)
        if left:
            there = {pod["metadata"]["uid"] for pod in embedded.pods()}
            all_leave = not any(pod["metadata"]["uid"] in there for pod in left)
            embedded.at(embedded.passed + (1 if all_leave else 5), lambda: self._evict(embedded))
        else:
            embedded.at(embedded.passed + self.seconds, lambda: embedded.cordon(self.node, False))


class Remove(NamedTuple):
    """Remove the last node."""

    def event(self):
        return {"resize": {"group": "node", "count": NODES - 1}}

    def apply(self, embedded):
        if embedded.get("Node", f"node-{NODES}") is not None:
            embedded.delete("Node", f"node-{NODES}")


class Embedded(SteppedCluster):
    def __init__(self, workloads, budgets, startup, termination):
        containers = Containers(start_after=startup, stop_after=termination)
        super().__init__(
            lambda registry: [
                *workload_controllers(registry),
                Kubelet(registry, containers),
                NodeLifecycleController(registry),
                TaintEvictionController(registry),
                PodGCController(registry),
                DisruptionController(registry),
            ]
        )
        #: Node -> when its last outage ends.
        self.until = {}
        for number in range(1, NODES + 1):
            self.add_node(f"node-{number}")
        for budget in budgets:
            self.create(budget)
        for name, manifest in workloads.items():
            self.create({**workload(manifest["kind"], name), "spec": manifest["spec"]})

    def annotate(self, node, value):
        if self.get("Node", node) is not None:
            about = {"annotations": {"stowplan.io/kubelet": value}}
            self.change("Node", node, lambda obj: obj["metadata"].update(about))

    def taint(self, node, key, *, add):
        def change(obj):
            kept = [one for one in obj["spec"].get("taints") or () if one["key"] != key]
            obj["spec"]["taints"] = [*kept, *([{"key": key, "effect": "NoExecute"}] if add else [])]

        if self.get("Node", node) is not None:
            self.change("Node", node, change)

    def cordon(self, node, unschedulable):
        if self.get("Node", node) is not None:
            self.change("Node", node, lambda obj: obj["spec"].update(unschedulable=unschedulable))

    def evict(self, pod):
        name = pod["metadata"]["name"]
        if "deletionTimestamp" not in pod["metadata"]:
            try:
                evict(self.registry, "default", name, {"metadata": {"name": name}}, DeleteOptions())
            except TooManyRequests:
                return
            # Each eviction is judged by what the former ones left.
            self.settle()

    def bind_as(self, simulated):
        """Bind pods to the nodes of equal pods of the simulation; returns whether there were any."""
        done = False
        new = [pod for pod in self.read("Pod") if not pod["spec"].get("nodeName")]
        wanted = simulated.bound - self.bound if new else Counter()
        for pod in new:
            if "deletionTimestamp" not in pod["metadata"]:
                about, target = origin(pod), target_of(pod)
                equal = (one for one, number in wanted.items() if number > 0 and one[:-1] == about)
                found = next((one for one in equal if target in ("", one[-1])), None)
                if found is not None:
                    wanted[found] -= 1
                    self.bind(pod["metadata"]["name"], found[-1])
                    done = True
        self.settle()
        return done

    @property
    def bound(self):
        pods = (pod for pod in self.read("Pod") if pod["spec"].get("nodeName"))
        return Counter((*origin(pod), pod["spec"]["nodeName"]) for pod in pods)

    def nodes(self):
        def ready(node):
            return next(one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready")

        return {
            node["metadata"]["name"]: (
                ready(node),
                node["spec"].get("unschedulable", False),
                frozenset((one["key"], one["effect"]) for one in node["spec"].get("taints") or ()),
            )
            for node in self.read("Node")
        }

    def seen(self):
        def ready(pod):
            conditions = pod["status"].get("conditions") or ()
            return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

        return Counter(
            SeenPod(
                origin(pod),
                node=pod["spec"].get("nodeName", ""),
                phase=pod["status"]["phase"],
                ready=ready(pod),
                terminating="deletionTimestamp" in pod["metadata"],
            )
            for pod in self.read("Pod")
            if pod["status"]["phase"] not in FINISHED
        )

    def budgets(self):
        fields = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
        found = (stored.to_dict() for stored in self.store.list(BUDGETS))
        return {one["metadata"]["name"]: tuple(one["status"][field] for field in fields) for one in found}


class Simulated(SteppedSimulation):
    def __init__(self, workloads, budgets, events, startup, termination, folder, *, duration):
        given = scenario(
            *(in_scenario(name, manifest) for name, manifest in workloads.items()),
            groups=[group("node", count=NODES, cpu=100, labels={})],
            events=[{"at": at, **event.event()} for at, event in events],
            models={"startup": startup, "termination": termination, "controllerDelay": 0},
            duration=duration,
            start=timestamp(START),
        )
        super().__init__(given, budgets, folder)

    def _entries(self):
        for pod in self._context.store.list(Pod):
            yield pod, self._context.ledger.of(pod.metadata.uid)

    @property
    def bound(self):
        return Counter((*self._origin(pod, entry), entry.node) for pod, entry in self._entries() if entry.node)

    def _origin(self, pod, entry):
        owner = pod.metadata.owner_references[0]
        name = pod.metadata.name if owner.kind == "StatefulSet" else ""
        kind = owner.kind if owner.kind == "ReplicaSet" else f"{owner.kind} {owner.name}"
        return kind, name, floor(entry.arrived - self._context.start + 1e-5)

    def nodes(self):
        return {
            node.metadata.name: (
                next(one.status for one in node.status.conditions if one.type == "Ready"),
                node.spec.unschedulable,
                frozenset((one.key, one.effect) for one in node.spec.taints),
            )
            for node in self._context.store.list(Node)
        }

    def seen(self):
        def one(pod, entry):
            reported = self._context.reported(pod.metadata.name, pod.metadata.uid)
            return SeenPod(
                self._origin(pod, entry),
                node=entry.node,
                phase=reported.phase,
                ready=reported.ready,
                terminating=pod.metadata.deletion_timestamp is not None,
            )

        return Counter(one(pod, entry) for pod, entry in self._entries())

    def budgets(self):
        found = ((one.metadata.name, one.status) for one in self._context.store.list(PodDisruptionBudget))
        return {
            name: (one.expected_pods, one.current_healthy, one.desired_healthy, one.disruptions_allowed)
            for name, one in found
        }


def in_scenario(name, manifest):
    """Pods of Jobs run for longer than anything here."""
    return {"name": name, "manifest": manifest, **({"lifetime": FOREVER} if manifest["kind"] == "Job" else {})}


class SeenPod(NamedTuple):
    #: Owner, name (only of StatefulSets' pods), and creation in whole seconds from the start.
    origin: tuple[str, str, int]
    node: str
    phase: str
    ready: bool
    terminating: bool


def owner_of(pod):
    owner = pod["metadata"]["ownerReferences"][0]
    return owner["kind"] if owner["kind"] == "ReplicaSet" else f"{owner['kind']} {owner['name']}"


def origin(pod):
    metadata = pod["metadata"]
    owner = owner_of(pod)
    created = floor(parse_timestamp(metadata["creationTimestamp"]) - START)
    return owner, metadata["name"] if owner.startswith("StatefulSet") else "", created


def agree_on_nodes(workloads, events, folder, *, budgets=(), startup=6.3, termination=2.6):
    end = QUIET + max((at + max(getattr(event, "seconds", 0), EVICTED) for at, event in events), default=0)
    simulated = Simulated(workloads, budgets, events, startup, termination, folder, duration=end + 100)
    embedded = Embedded(workloads, budgets, startup, termination)
    for at, event in events:
        embedded.at(at, lambda event=event: event.apply(embedded))
    at, before = 0.0, None
    while at < end:
        at = min(simulated.next, embedded.next, end)
        until = at + MOMENT
        while min(simulated.next, embedded.next) <= until:
            step(simulated, embedded, min(max(at, simulated.next), max(at, embedded.next)))
        step(simulated, embedded, until)
        found: dict[str, Any] = {"nodes": embedded.nodes(), "pods": embedded.seen(), "budgets": embedded.budgets()}
        wanted = {"nodes": simulated.nodes(), "pods": simulated.seen(), "budgets": simulated.budgets()}
        if (found, wanted) != before:
            assert found == wanted, f"{at} seconds from the start"
            before = found, wanted


def step(simulated, embedded, until):
    simulated.go_on(until)
    embedded.go_on(until)
    while embedded.bind_as(simulated):
        pass
