"""Create and delete pods for a workload, and record the events.

Upstream: pkg/controller/controller_utils.go (RealPodControl).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.api_errors import ApiError
from stowplan_cluster.controllers.events import NORMAL, WARNING
from stowplan_cluster.controllers.pods import PODS, Pod

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.controllers.client import ControllerClient
    from stowplan_cluster.controllers.workload_views import Workload


def subject_of(owner: Workload) -> JsonObject:
    """The fields of a workload that an event needs."""
    metadata = owner.metadata
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        },
    }


class PodControl:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    def create(self, owner: Workload, pod: JsonObject) -> None:
        try:
            created = self._client.create(PODS, pod)
        except ApiError as error:
            self._client.events.record(subject_of(owner), WARNING, "FailedCreate", f"Error creating: {error}")
            raise
        self._client.events.record(subject_of(owner), NORMAL, "SuccessfulCreate", f"Created pod: {created.name}")

    def delete(self, owner: Workload, pod: Pod) -> None:
        try:
            found = self._client.delete(PODS, pod.metadata.namespace, pod.name, uid=pod.uid)
        except ApiError as error:
            self._client.events.record(subject_of(owner), WARNING, "FailedDelete", f"Error deleting: {error}")
            raise
        if found:
            self._client.events.record(subject_of(owner), NORMAL, "SuccessfulDelete", f"Deleted pod: {pod.name}")
