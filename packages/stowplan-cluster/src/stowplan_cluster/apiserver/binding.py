"""Apply a Binding to a pod: node name, the node's topology labels, the PodScheduled condition.

Upstream: pkg/registry/core/pod/storage/storage.go (BindingREST), plugin/pkg/admission/podtopologylabels.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.kube.api.api_errors import NOT_SUPPORTED, REQUIRED, BadRequest, FieldError, conflict, invalid
from stowplan.kube.api.meta import timestamp
from stowplan_cluster.apiserver.metadata import check_namespace
from stowplan_cluster.apiserver.objects import JsonObject, metadata_of, set_condition
from stowplan_cluster.apiserver.schema import conform, struct_named

#: Labels that a pod takes over from its node.
TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


def check_binding(namespace: str, name: str, binding: JsonObject) -> None:
    conform(struct_named("io.k8s.api.core.v1.Binding"), binding)
    check_namespace(metadata_of(binding), namespace)
    target = binding.get("target") or {}
    if metadata_of(binding).get("name") != name:
        raise BadRequest("name in URL does not match name in Binding object")
    errors = []
    kind = target.get("kind") or "Node"
    if kind != "Node":
        message = f'Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        errors.append(FieldError(NOT_SUPPORTED, "target.kind", message))
    if not target.get("name"):
        errors.append(FieldError(REQUIRED, "target.name", "Required value"))
    if errors:
        raise invalid("Binding", "", name, errors)


def bind_pod(pod: JsonObject, binding: JsonObject, node_labels: Mapping[str, str], *, now: float) -> None:
    """Apply the binding to the pod; raise Conflict."""
    metadata, spec = metadata_of(pod), pod["spec"]
    name = metadata["name"]
    _check_preconditions(metadata, metadata_of(binding))
    if metadata.get("deletionTimestamp"):
        raise conflict("pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict("pods/binding", "", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict("pods/binding", "", name, f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = binding["target"]["name"]
    _merge(metadata, "annotations", metadata_of(binding).get("annotations") or {})
    topology = {key: node_labels[key] for key in TOPOLOGY_LABELS if key in node_labels}
    _merge(metadata, "labels", (metadata_of(binding).get("labels") or {}) | topology)
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    set_condition(status, {"type": "PodScheduled", "status": "True"}, now=timestamp(now), probed=True)


def _check_preconditions(metadata: JsonObject, wanted: JsonObject) -> None:
    for field, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != metadata.get(field):
            why = (
                f"Precondition failed: {title} in precondition: {wanted[field]}, "
                f"{title} in object meta: {metadata.get(field)}"
            )
            raise conflict("pods", "", metadata["name"], why)


def _merge(metadata: JsonObject, field: str, extra: Mapping[str, str]) -> None:
    if extra:
        metadata[field] = {**(metadata.get(field) or {}), **extra}
