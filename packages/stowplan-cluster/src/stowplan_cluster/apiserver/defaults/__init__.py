"""API defaults, applied in place; idempotent.

They run on every create and update, before admission and validation.

Upstream: pkg/apis/*/v1/defaults.go and the generated zz_generated.defaults.go beside them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from stowplan.kube.api.limit_ranges import default_limit_range
from stowplan_cluster.apiserver.conversion import GROUPS_V1ALPHA2
from stowplan_cluster.apiserver.defaults import pods, workloads
from stowplan_cluster.apiserver.defaults.pods import round_amounts
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.rbac import GROUP as RBAC
from stowplan_cluster.apiserver.resources import Resource

__all__ = ["apply_defaults"]

_AFFINITY_SECONDS = 10800


def default_service(service: JsonObject) -> None:
    spec = service.setdefault("spec", {})
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    _default_affinity(spec)
    if not spec.get("type"):
        spec["type"] = "ClusterIP"
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    kind = spec["type"]
    external = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if external and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec["internalTrafficPolicy"] = "Cluster"
    balancer = service.setdefault("status", {}).setdefault("loadBalancer", {})
    if kind != "LoadBalancer":
        return
    if spec.get("allocateLoadBalancerNodePorts") is None:
        spec["allocateLoadBalancerNodePorts"] = True
    for ingress in balancer.get("ingress") or ():
        if ingress.get("ip") and ingress.get("ipMode") is None:
            ingress["ipMode"] = "VIP"


def _default_affinity(spec: JsonObject) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if config.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}


def default_resource_claim(claim: JsonObject) -> None:
    _default_claim_spec(claim.get("spec") or {})
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        _default_tolerations(result)


def default_claim_template(template: JsonObject) -> None:
    _default_claim_spec((template.get("spec") or {}).get("spec") or {})


def _default_claim_spec(spec: JsonObject) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        if (exactly := request.get("exactly")) is not None:
            _default_request(exactly)
        for alternative in request.get("firstAvailable") or ():
            _default_request(alternative)


def _default_request(request: JsonObject) -> None:
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1
    _default_tolerations(request)


def _default_tolerations(holder: JsonObject) -> None:
    for toleration in holder.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def default_slice(resource_slice: JsonObject) -> None:
    for device in (resource_slice.get("spec") or {}).get("devices") or ():
        for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
            if mapping.get("allocationMultiplier") is None:
                mapping["allocationMultiplier"] = "1"


_NAME_LABEL = "kubernetes.io/metadata.name"


def _default_namespace(namespace: JsonObject) -> None:
    metadata = namespace.setdefault("metadata", {})
    if name := metadata.get("name"):
        metadata.setdefault("labels", {})[_NAME_LABEL] = name
    namespace.setdefault("spec", {})
    status = namespace.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Active"


def _default_node(node: JsonObject) -> None:
    spec, status = node.setdefault("spec", {}), node.setdefault("status", {})
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not ranges or ranges[0] != first):
        spec["podCIDRs"] = [first]
    elif ranges and ranges[0]:
        spec["podCIDR"] = ranges[0]
    round_amounts(status.get("capacity"))
    if status.get("allocatable") is None and status.get("capacity") is not None:
        status["allocatable"] = dict(status["capacity"])
    round_amounts(status.get("allocatable"))


def _default_secret(secret: JsonObject) -> None:
    if not secret.get("type"):
        secret["type"] = "Opaque"
    if texts := secret.pop("stringData", None):
        encoded = {key: base64.b64encode(text.encode("utf-8", "replace")).decode() for key, text in texts.items()}
        secret["data"] = (secret.get("data") or {}) | encoded


def _default_storage_class(storage_class: JsonObject) -> None:
    if storage_class.get("reclaimPolicy") is None:
        storage_class["reclaimPolicy"] = "Delete"
    if storage_class.get("volumeBindingMode") is None:
        storage_class["volumeBindingMode"] = "Immediate"


_CSI_DRIVER = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


def _default_csi_driver(driver: JsonObject) -> None:
    spec = driver.setdefault("spec", {})
    for name, value in _CSI_DRIVER.items():
        if spec.get(name) is None:
            spec[name] = value
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def _default_priority_class(priority_class: JsonObject) -> None:
    if priority_class.get("preemptionPolicy") is None:
        priority_class["preemptionPolicy"] = "PreemptLowerPriority"


def _default_pod_group(group: JsonObject) -> None:
    spec = group.setdefault("spec", {})
    if spec.get("disruptionMode") is None:
        spec["disruptionMode"] = "Pod" if group.get("apiVersion") == GROUPS_V1ALPHA2 else {"single": {}}


def _default_binding(binding: JsonObject) -> None:
    role = binding.setdefault("roleRef", {})
    if not role.get("apiGroup"):
        role["apiGroup"] = RBAC
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = RBAC


def _default_definition(definition: JsonObject) -> None:
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    if kind and not names.get("singular"):
        names["singular"] = kind.lower()
    if kind and not names.get("listKind"):
        names["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    status = definition.setdefault("status", {})
    if not status.get("storedVersions"):
        stored = [version.get("name", "") for version in spec.get("versions") or () if version.get("storage")]
        status["storedVersions"] = stored[:1]


_DEFAULTS: dict[str, Callable[[JsonObject], None]] = {
    "limitranges": default_limit_range,
    "namespaces": _default_namespace,
    "nodes": _default_node,
    "persistentvolumeclaims": pods.default_claim,
    "persistentvolumes": pods.default_persistent_volume,
    "pods": pods.default_pod,
    "replicationcontrollers": workloads.default_controller,
    "secrets": _default_secret,
    "services": default_service,
    "daemonsets.apps": workloads.default_daemon_set,
    "deployments.apps": workloads.default_deployment,
    "replicasets.apps": workloads.default_replica_set,
    "statefulsets.apps": workloads.default_stateful_set,
    "jobs.batch": workloads.default_job,
    "cronjobs.batch": workloads.default_cron_job,
    "horizontalpodautoscalers.autoscaling": workloads.default_autoscaler,
    "csidrivers.storage.k8s.io": _default_csi_driver,
    "storageclasses.storage.k8s.io": _default_storage_class,
    "priorityclasses.scheduling.k8s.io": _default_priority_class,
    "podgroups.scheduling.k8s.io": _default_pod_group,
    "compositepodgroups.scheduling.k8s.io": _default_pod_group,
    "resourceclaims.resource.k8s.io": default_resource_claim,
    "resourceclaimtemplates.resource.k8s.io": default_claim_template,
    "resourceslices.resource.k8s.io": default_slice,
    f"clusterrolebindings.{RBAC}": _default_binding,
    f"rolebindings.{RBAC}": _default_binding,
    "customresourcedefinitions.apiextensions.k8s.io": _default_definition,
}


def apply_defaults(resource: Resource, obj: JsonObject) -> None:
    default = _DEFAULTS.get(resource.storage)
    if default is not None:
        default(obj)
