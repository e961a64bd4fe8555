"""The cluster as our commands read it, and what they say about it: the same functions, without printing."""

import contextlib
import io
from dataclasses import dataclass
from random import Random

from answers.states import State, ordered
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.loading.event_query import EventQuery
from stowplan.ask.loading.live_cluster import read_from
from stowplan.ask.loading.workloads import workload_of
from stowplan.ask.offline import Cluster
from stowplan.ask.what_if import what_if
from stowplan.ask.what_if.budgets import AllowedDisruptions
from stowplan.ask.what_if.hypothetical_changes import Change, Scale
from stowplan.ask.what_if.hypothetical_pods import pods_of
from stowplan.ask.what_if.settling import Settling
from stowplan.kube.api.types import PersistentVolumeClaim


class Asked:
    """A question's cluster. With `random`, chance chooses among equal nodes and the order of equal pods."""

    def __init__(self, living, random=None):
        cluster = Cluster((), random=random)
        kinds = cluster.kinds_read(report=_unexpected)
        reading = read_from(
            living.api,
            kinds,
            events=EventQuery(namespace=None, of_workloads=True),
            workloads=living.workloads,
            quotas=True,
        )
        read = living.loop.run_until_complete(reading)
        with contextlib.redirect_stderr(io.StringIO()):
            self.about = ClusterSource.of_read(cluster, read)
        self.cluster = cluster
        self.random = random
        self._ordered = ordered(living)

    def now(self):
        return State.of_cluster(self.cluster, self._ordered)

    def shuffle(self):
        """Pods that started at the same time are equal to preemption: which comes first on its node is chance."""
        placed = [info.pod for info in self.cluster.state.placed_pods()]
        self.random.shuffle(placed)
        for pod in placed:
            self.cluster.remove(pod)
            self.cluster.add(pod)

    def after(self, *changes):
        """The record, and the states before and after."""
        states = []
        if self.random is not None:
            changes = (*changes, Shuffled(self.random))
        record = what_if(
            self.cluster, *changes, look=lambda other: states.append(State.of_cluster(other, self._ordered))
        )
        return record, *states


class Chances:
    """The same question with other choices among equals."""

    def __init__(self, living):
        self._living = living
        self._asked = None

    def asked(self, number):
        for seed in range(number):
            if self._asked is None:
                self._asked = Asked(self._living, Random(0))
            self._asked.random.seed(seed)
            self._asked.shuffle()
            yield self._asked


@dataclass(frozen=True)
class Shuffled(Change):
    """Pending pods are tried in another order, some workloads before the others: when which controller makes its pods
    is chance, and a Job takes its time."""

    random: Random

    @property
    def text(self):
        return "in another order"

    def apply(self, cluster):
        claims = [one for one in cluster.state.objects.all(PersistentVolumeClaim) if not one.spec.volume_name]
        pods = [info.pod for info in cluster.state.pending.values()]
        self.random.shuffle(claims)
        for claim in claims:
            # Which of several gets a volume is chance, too.
            cluster.remove(claim)
            cluster.add(claim)
        self.random.shuffle(pods)
        for pod in pods:
            cluster.remove(pod)
        for pod in pods:
            cluster.add(pod)
        for first in dict.fromkeys(map(workload_of, pods)):
            if self.random.random() < 0.4:
                mine = [pod.metadata for pod in pods if workload_of(pod) == first]
                # Some of them only: others may come in between while rooms get free one by one.
                mine = mine[: self.random.randint(1, len(mine))]
                Settling(cluster, AllowedDisruptions(cluster)).settle_pending(
                    [f"{one.namespace}/{one.name}" for one in mine]
                )


@dataclass(frozen=True)
class AnyOfThem(Change):
    """To scale a workload down: which of several equal pods go is the controller's choice."""

    scale: Scale
    random: Random

    @classmethod
    def of(cls, change, random):
        """The change, or, of a smaller workload, that."""
        return cls(change, random) if isinstance(change, Scale) and change.kind != "StatefulSet" else change

    @property
    def text(self):
        return self.scale.text

    def apply(self, cluster):
        placed = list(pods_of(cluster.state, self.scale.kind, self.scale.namespace, self.scale.name))
        placed = [info for info in placed if info.node_name]
        for info in self.random.sample(placed, max(0, len(placed) - self.scale.replicas)):
            cluster.evict(info.key)
        self.scale.apply(cluster)


def _unexpected(text):
    raise AssertionError(text)
