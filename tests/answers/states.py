"""What can be compared of two clusters: of each workload, how many pods are on which node, and how many wait.

Names of pods differ, and which of several equal nodes one takes is chance.
"""

from collections import Counter
from dataclasses import dataclass, field

from stowplan.ask.loading.workloads import workload_of
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.pod import FINISHED


@dataclass
class Pods:
    """Of one workload."""

    nodes: Counter = field(default_factory=Counter)
    waiting: int = 0

    @property
    def counts(self):
        return self.nodes.total(), self.waiting


class State(dict):
    """Workload -> its pods."""

    def __init__(self, pods=(), ordered=frozenset()):
        super().__init__(pods)
        #: StatefulSets that make no further pod while one waits: how many wait cannot be compared, whether some do can.
        self.ordered = ordered

    def __missing__(self, name):
        return self.setdefault(name, Pods())

    def __reduce__(self):
        return State, (dict(self), self.ordered)

    @classmethod
    def of_api(cls, living):
        """Running pods; what has been bound does not run yet."""
        found = cls(ordered=ordered(living))
        for pod in map(decode_object, living.all("pods")):
            if pod.status.phase not in FINISHED:
                found.add(pod, pod.spec.node_name if pod.status.phase == "Running" else "")
        return found

    @classmethod
    def of_cluster(cls, cluster, ordered):
        found = cls(ordered=ordered)
        for info in cluster.state.placed_pods():
            found.add(info.pod, info.node_name)
        for info in cluster.state.pending.values():
            found.add(info.pod, "")
        return found

    def add(self, pod, node):
        of_workload = self[workload_of(pod) or ("Pod", pod.metadata.name)]
        if node:
            of_workload.nodes[node] += 1
        else:
            of_workload.waiting += 1

    @property
    def counts(self):
        counts = {name: pods.counts for name, pods in self.items() if pods.counts != (0, 0)}
        return {
            name: (running, min(waiting, 1)) if name in self.ordered else (running, waiting)
            for name, (running, waiting) in counts.items()
        }

    @property
    def nodes(self):
        return {name: +pods.nodes for name, pods in self.items() if pods.nodes.total()}

    @property
    def waiting(self):
        return {name: pods.waiting for name, pods in self.items() if pods.waiting}


def ordered(living):
    found = living.all("statefulsets.apps")
    return frozenset(
        ("StatefulSet", one["metadata"]["name"])
        for one in found
        if one["spec"].get("podManagementPolicy") != "Parallel"
    )


def different(said, did):
    """What two mappings differ in."""
    return {
        "/".join(name): (said.get(name), did.get(name))
        for name in sorted({*said, *did})
        if said.get(name) != did.get(name)
    }
