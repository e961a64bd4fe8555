"""StatefulSets that create one pod after the other (OrderedReady): none is created while an earlier one waits.

What a question adds or recreates is such a pod; those that exist already are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.ask.what_if.pods import ordinal_of
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import StatefulSet
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Collection

    from stowplan.ask.offline import Cluster
    from stowplan.kube.api.types import Pod
    from stowplan.scheduler.cluster.pod_info import PodInfo


class FirstWaiting:
    """The first waiting pod of each set; valid while pending pods do not change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._first: dict[tuple[str, str], int] = {}
        for info in cluster.state.pending.values():
            if name := set_of(info.pod):
                key, ordinal = (info.namespace, name), ordinal_of(info.pod)
                self._first[key] = min(ordinal, self._first.get(key, ordinal))

    def before(self, info: PodInfo) -> str:
        """The pod that must run before this one is created; "" if there is none, or the pod's set is not known."""
        # Most questions have none, and many pods.
        name = set_of(info.pod) if self._first else ""
        first = self._first.get((info.namespace, name)) if name else None
        if first is None or first >= ordinal_of(info.pod):
            return ""
        found = self._cluster.state.objects.get(StatefulSet, f"{info.namespace}/{name}")
        return f"{name}-{first}" if found is not None and found.spec.pod_management_policy == "OrderedReady" else ""


def not_created(first: str) -> str:
    return f"not created before {first} runs (OrderedReady)"


def set_of(pod: Pod) -> str:
    """The StatefulSet of a pod; "" if it has none."""
    owner = controller_of(pod.metadata)
    return owner.name if owner is not None and owner.kind == "StatefulSet" else ""


class NotCreatedYet(PlainStruct):
    """Pending pods that are not created, kept out of the cluster until it is their turn."""

    cluster: Cluster
    #: Pod -> the one that it waits for.
    pods: dict[str, tuple[Pod, str]]

    @classmethod
    def among(cls, cluster: Cluster, made: Collection[str]) -> NotCreatedYet:
        """`made`: the pods that a change added."""
        first = FirstWaiting(cluster)
        waiting = [(key, first.before(cluster.pod(key))) for key in made if key in cluster.state.pending]
        found = {key: (cluster.pod(key).pod, earlier) for key, earlier in waiting if earlier}
        for pod, _ in found.values():
            cluster.remove(pod)
        return cls(cluster, found)

    def go_on(self) -> bool:
        """Create those whose turn it is; whether there are any."""
        before = len(self.pods)
        self._put_back()
        self.pods = NotCreatedYet.among(self.cluster, list(self.pods)).pods
        return len(self.pods) < before

    def give_up(self) -> dict[str, str]:
        """Pod -> why it is not created."""
        self._put_back()
        return {key: not_created(first) for key, (_, first) in self.pods.items()}

    def _put_back(self) -> None:
        for pod, _ in self.pods.values():
            self.cluster.add(pod)
