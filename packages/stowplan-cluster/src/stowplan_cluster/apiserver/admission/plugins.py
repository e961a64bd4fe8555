"""The admission plugins, their view of the cluster, and how they reject a request.

Upstream: k8s.io/apiserver/pkg/admission.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from stowplan.kube.api.api_errors import Forbidden, StatusCause, forbidden, not_found
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.limit_ranges import add_defaults, problems_of_claim, problems_of_pod
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.quotas import CountedPod
from stowplan.kube.api.runtime_classes import apply_class, name_of_class
from stowplan.kube.api.storage import StorageClass, default_class
from stowplan.kube.api.taints import NOT_READY, UNREACHABLE
from stowplan.kube.claims.claim_terms import STORAGE_CLASS
from stowplan_cluster.apiserver.objects import JsonObject, metadata_of
from stowplan_cluster.apiserver.resources import Resource

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.quota_usage import QuotaUsage
    from stowplan_cluster.apiserver.store import Stored

    #: (storage, namespace, name)
    Lookup = Callable[[str, str, str], Stored | None]
    #: (storage)
    List = Callable[[str], Sequence[Stored]]


class Plugin:
    """An admission plugin; it overrides the operations that it handles."""

    name: ClassVar[str]
    #: Storages of the kinds that it handles; None: all.
    handles: ClassVar[frozenset[str] | None]

    def __init__(self, lookup: Lookup, list_: List, quotas: QuotaUsage) -> None:
        self._lookup = lookup
        self._list = list_
        self._quotas = quotas

    def create(self, resource: Resource, obj: JsonObject) -> None:
        """Change or refuse an object that is being created."""

    def update(self, resource: Resource, obj: JsonObject, old: JsonObject) -> None:
        """Change or refuse an update."""

    def delete(self, resource: Resource, live: Stored) -> None:
        """Refuse a deletion."""


def refusal(resource: Resource, obj: JsonObject, why: str) -> Forbidden:
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return forbidden(resource.plural, resource.group, name, why)


# NamespaceLifecycle: reject objects in missing or terminating namespaces.
#
# Upstream: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


class NamespaceLifecycle(Plugin):
    name = "NamespaceLifecycle"
    handles = None

    def create(self, resource: Resource, obj: JsonObject) -> None:
        if not resource.namespaced or resource.plural == "localsubjectaccessreviews":
            return
        namespace = obj["metadata"].get("namespace", "")
        stored = self._lookup("namespaces", "", namespace)
        if stored is None:
            raise not_found("namespaces", "", namespace)
        if stored.field("status.phase") == "Terminating":
            raise _terminating(resource, obj, namespace)

    def update(self, resource: Resource, obj: JsonObject, old: JsonObject) -> None:
        if resource.namespaced:
            namespace = obj["metadata"].get("namespace", "")
            if self._lookup("namespaces", "", namespace) is None:
                raise not_found("namespaces", "", namespace)

    def delete(self, resource: Resource, live: Stored) -> None:
        if resource.storage == "namespaces" and live.name in IMMORTAL:
            raise forbidden("namespaces", "", live.name, "this namespace may not be deleted")


def _terminating(resource: Resource, obj: JsonObject, namespace: str) -> Forbidden:
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = refusal(resource, obj, why)
    cause = StatusCause(
        reason="NamespaceTerminating",
        message=f"namespace {namespace} is being terminated",
        field="metadata.namespace",
    )
    details = error.status.details
    if details is not None:
        error.status = msgspec.structs.replace(
            error.status, details=msgspec.structs.replace(details, causes=(*details.causes, cause))
        )
    return error


# TaintNodesByCondition: taint new nodes as not ready.
#
# Upstream: plugin/pkg/admission/nodetaint.


class TaintNodesByCondition(Plugin):
    name = "TaintNodesByCondition"
    handles = frozenset({"nodes"})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        taints = spec.get("taints") or []
        if any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
            return
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]


# Reject PodGroups whose template does not exist.
#
# Upstream: plugin/pkg/admission/podgroup.

_POD_GROUPS, _WORKLOADS = "podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io"
_COMPOSITE_POD_GROUPS = "compositepodgroups.scheduling.k8s.io"


class PodGroupWorkloadExists(Plugin):
    name = "PodGroupWorkloadExists"
    handles = frozenset({_POD_GROUPS})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        # Only in v1alpha2: 1.37 does not check the reference of v1beta1.
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


# ResourceQuota: refuse pods that exceed a quota of their namespace.
#
# Upstream: k8s.io/apiserver/pkg/admission/plugin/resourcequota.


class ResourceQuota(Plugin):
    name = "ResourceQuota"
    handles = frozenset({"pods"})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        pod = CountedPod(obj)
        for quota in self._quotas.within(metadata_of(obj).get("namespace", "")):
            if why := quota.refusal(pod):
                raise refusal(resource, obj, why)


# LimitRanger: give pods the defaults of their namespace, and refuse pods and claims beyond its limits.
#
# Upstream: plugin/pkg/admission/limitranger.


class LimitRanger(Plugin):
    name = "LimitRanger"
    handles = frozenset({"pods", "persistentvolumeclaims"})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        namespace = metadata_of(obj).get("namespace", "")
        ranges = [stored.to_dict() for stored in self._list("limitranges") if stored.namespace == namespace]
        if not ranges:
            return
        if resource.storage == "pods":
            add_defaults(ranges, obj)
            why = problems_of_pod(ranges, obj)
        else:
            why = problems_of_claim(ranges, obj)
        if why:
            raise refusal(resource, obj, why)


# RuntimeClass: the overhead of a pod's runtime, and the nodes that have it.
#
# Upstream: plugin/pkg/admission/runtimeclass.


class RuntimeClass(Plugin):
    name = "RuntimeClass"
    handles = frozenset({"pods"})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        name = name_of_class(obj)
        stored = self._lookup("runtimeclasses.node.k8s.io", "", name) if name else None
        if why := apply_class(None if stored is None else stored.to_dict(), obj):
            raise refusal(resource, obj, why)


# Default storage classes, resize checks, and protection finalizers of claims and volumes.
#
# Upstream: plugin/pkg/admission/storage.

_CLAIMS, _VOLUMES = "persistentvolumeclaims", "persistentvolumes"
_CLASSES = "storageclasses.storage.k8s.io"
CLAIM_FINALIZER, VOLUME_FINALIZER = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
_FINALIZERS = {_CLAIMS: CLAIM_FINALIZER, _VOLUMES: VOLUME_FINALIZER}


def _annotations(obj: JsonObject) -> dict[str, str]:
    annotations: dict[str, str] = (obj.get("metadata") or {}).get("annotations") or {}
    return annotations


class DefaultStorageClass(Plugin):
    name = "DefaultStorageClass"
    handles = frozenset({_CLAIMS})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        spec = obj["spec"]
        if STORAGE_CLASS in _annotations(obj) or spec.get("storageClassName") is not None:
            return
        chosen = default_class(decode_json(stored.data, StorageClass) for stored in self._list(_CLASSES))
        if chosen is not None:
            spec["storageClassName"] = chosen


class StorageObjectInUseProtection(Plugin):
    name = "StorageObjectInUseProtection"
    handles = frozenset(_FINALIZERS)

    def create(self, resource: Resource, obj: JsonObject) -> None:
        finalizer, metadata = _FINALIZERS[resource.storage], metadata_of(obj)
        known = metadata.get("finalizers") or []
        if finalizer not in known:
            metadata["finalizers"] = [*known, finalizer]


class PersistentVolumeClaimResize(Plugin):
    name = "PersistentVolumeClaimResize"
    handles = frozenset({_CLAIMS})

    def update(self, resource: Resource, obj: JsonObject, old: JsonObject) -> None:
        if _size(obj) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise refusal(resource, obj, "Only bound persistent volume claims can be expanded")
        name = _class_name(obj)
        stored = self._lookup(_CLASSES, "", name) if name and name == _class_name(old) else None
        if stored is None or not stored.to_dict().get("allowVolumeExpansion"):
            why = (
                "only dynamically provisioned pvc can be resized and "
                "the storageclass that provisions the pvc must support resize"
            )
            raise refusal(resource, obj, why)


def _size(claim: JsonObject) -> int:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return parse_quantity(requests.get("storage", 0))


def _class_name(claim: JsonObject) -> str:
    return _annotations(claim).get(STORAGE_CLASS) or (claim.get("spec") or {}).get("storageClassName") or ""


# DefaultTolerationSeconds: tolerate not-ready and unreachable nodes for five minutes.
#
# Upstream: plugin/pkg/admission/defaulttolerationseconds.

_KEYS = (NOT_READY, UNREACHABLE)
_SECONDS = 300


class DefaultTolerationSeconds(Plugin):
    name = "DefaultTolerationSeconds"
    handles = frozenset({"pods"})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        _tolerate(obj)

    def update(self, resource: Resource, obj: JsonObject, old: JsonObject) -> None:
        if obj.get("spec") != old.get("spec"):
            # Only for creates and updates of the pod: a status write must not change the spec.
            _tolerate(obj)


def _tolerate(pod: JsonObject) -> None:
    spec = pod["spec"]
    given = spec.get("tolerations") or []
    tolerated = {entry.get("key") or "" for entry in given if entry.get("effect") in (None, "", "NoExecute")}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
        for key in _KEYS
        if key not in tolerated and "" not in tolerated
    ]
    if added:
        spec["tolerations"] = [*given, *added]


# Priority: set a pod's priority from its PriorityClass.
#
# Upstream: plugin/pkg/admission/priority.

_PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
_MARK = b'"globalDefault":true'
_NO_CLASS: JsonObject = {"metadata": {"name": ""}, "value": 0, "preemptionPolicy": "PreemptLowerPriority"}


class Priority(Plugin):
    name = "Priority"
    handles = frozenset({"pods", _PRIORITY_CLASSES, _POD_GROUPS, _COMPOSITE_POD_GROUPS})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        if resource.storage == _PRIORITY_CLASSES:
            self._check_default(resource, obj, new=True)
        elif resource.storage in (_POD_GROUPS, _COMPOSITE_POD_GROUPS):
            self._admit_group(resource, obj)
        else:
            self._admit_pod(resource, obj)

    def update(self, resource: Resource, obj: JsonObject, old: JsonObject) -> None:
        if resource.storage == _PRIORITY_CLASSES:
            self._check_default(resource, obj, new=False)
        elif resource.storage == "pods":
            spec, old_spec = obj["spec"], old.get("spec") or {}
            for name in ("priority", "preemptionPolicy"):
                if spec.get(name) is None and old_spec.get(name) is not None:
                    spec[name] = old_spec[name]

    def _admit_pod(self, resource: Resource, pod: JsonObject) -> None:
        spec = pod["spec"]
        found = self._class_of(resource, pod)
        priority, policy = found.get("value", 0), found.get("preemptionPolicy")
        given, given_policy = spec.get("priority"), spec.get("preemptionPolicy")
        computed = "priority admission controller computed {} from the given PriorityClass name"
        if given is not None and given != priority:
            why = f"the integer value of priority ({given}) must not be provided in pod spec; "
            raise refusal(resource, pod, why + computed.format(priority))
        if policy is not None and given_policy is not None and given_policy != policy:
            why = f"the string value of PreemptionPolicy ({given_policy}) must not be provided in pod spec; "
            raise refusal(resource, pod, why + computed.format(policy))
        _name_class(spec, found)
        spec["priority"] = priority
        if policy is not None:
            spec["preemptionPolicy"] = policy

    def _admit_group(self, resource: Resource, group: JsonObject) -> None:
        spec = group["spec"]
        found = self._class_of(resource, group)
        priority, given = found.get("value", 0), spec.get("priority")
        if given is not None and given != priority:
            why = (
                f"priority set in the pod group ({given}) must match the priority computed ({priority}) "
                "based on the priority class set in the spec"
            )
            raise refusal(resource, group, why)
        _name_class(spec, found)
        spec["priority"] = priority

    def _class_of(self, resource: Resource, obj: JsonObject) -> JsonObject:
        name = obj["spec"].get("priorityClassName")
        if not name:
            return self._default_class() or _NO_CLASS
        stored = self._lookup(_PRIORITY_CLASSES, "", name)
        if stored is None:
            raise refusal(resource, obj, f"no PriorityClass with name {name} was found")
        return stored.to_dict()

    def _default_class(self) -> JsonObject | None:
        """The class marked as global default; if a race left several, the lowest."""
        # Runs for every pod: decode only classes that can be the default.
        classes = (stored.to_dict() for stored in self._list(_PRIORITY_CLASSES) if _MARK in stored.data)
        marked = [found for found in classes if found.get("globalDefault")]
        return min(marked, key=lambda found: found.get("value", 0), default=None)

    def _check_default(self, resource: Resource, priority_class: JsonObject, *, new: bool) -> None:
        default = self._default_class() if priority_class.get("globalDefault") else None
        if default is None:
            return
        name = default["metadata"]["name"]
        if new or name != priority_class["metadata"].get("name"):
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise refusal(resource, priority_class, why)


def _name_class(spec: JsonObject, found: JsonObject) -> None:
    if name := found["metadata"]["name"]:
        spec["priorityClassName"] = name
