"""Reject PodGroups whose template does not exist.

Upstream: plugin/pkg/admission/podgroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.field_errors import go_quote
from stowplan_cluster.apiserver.admission.cluster import Plugin, refusal
from stowplan_cluster.apiserver.objects import metadata_of

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource

_POD_GROUPS, _WORKLOADS = "podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io"


class PodGroupWorkloadExists(Plugin):
    name = "PodGroupWorkloadExists"
    handles = frozenset({_POD_GROUPS})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        reference = ((obj["spec"].get("podGroupTemplateRef")) or {}).get("workload")
        if reference is None:
            return
        name, template = reference.get("workloadName", ""), reference.get("podGroupTemplateName", "")
        if not name:
            return  # Left to validation, whose message is better.
        stored = self._lookup(_WORKLOADS, metadata_of(obj).get("namespace", ""), name)
        if stored is None:
            raise refusal(resource, obj, f"PodGroup rejected: Workload {go_quote(name)} not found")
        workload = stored.to_dict()
        if workload["metadata"].get("deletionTimestamp"):
            raise refusal(resource, obj, f"PodGroup rejected: Workload {go_quote(name)} is being deleted")
        templates = (workload.get("spec") or {}).get("podGroupTemplates") or ()
        if all(known.get("name") != template for known in templates):
            why = f"PodGroup rejected: PodGroupTemplate {go_quote(template)} not found in Workload {go_quote(name)}"
            raise refusal(resource, obj, why)
