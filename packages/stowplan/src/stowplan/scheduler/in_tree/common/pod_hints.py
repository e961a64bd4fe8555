"""Conditions on pods in queueing hints."""

from __future__ import annotations

from stowplan.kube.api.types import Pod
from stowplan.scheduler.cluster.pod_info import PodInfo, uid_of


def same_pod(pod: PodInfo, other: Pod) -> bool:
    """Whether the object is a version of the pod: by UID, or by name if UIDs are missing, as in files."""
    return pod.uid == uid_of(other)


def is_placed_or_nominated(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
