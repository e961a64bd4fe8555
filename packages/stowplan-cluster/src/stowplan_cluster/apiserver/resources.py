"""The served resources: one `Resource` per (group, version, plural), and their catalogue.

Discovery, routing, tables, storage and validation are all driven by it. Resources with the same `storage` are versions
of the same objects; `conversion.py` converts between them. Custom resources are added and removed with their
definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, V1_37, KubernetesVersion

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)
#: Namespaces cannot be deleted as a collection.
NO_COLLECTIONS = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")

#: The group of what is measured, whose objects are computed when they are read.
METRICS_GROUP = "metrics.k8s.io"
#: The group of Deployments and Ingresses before they got groups of their own.
_FORMER_GROUP = "extensions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    #: Besides "status": binding, eviction, scale, log, exec, …
    subresources: tuple[str, ...] = ()
    #: Key of the objects' storage: `pods`, `deployments.apps`. Both kinds of Event share one.
    storage: str = ""
    #: Whether metadata.generation is increased when spec changes.
    generation: bool = False
    #: Whether an update creates a missing object.
    created_by_update: bool = False
    #: Whether an update requires resourceVersion; custom resources always do.
    versioned_updates: bool = False
    #: Paths that fieldSelector supports besides metadata.name and metadata.namespace.
    selectable_fields: tuple[str, ...] = ()
    #: For custom resources: paths of the scale subresource (spec replicas, status replicas, label selector).
    scale_paths: tuple[str, str, str] | None = None
    #: For custom resources: their CustomResourceColumnDefinitions.
    printer_columns: tuple[Mapping[str, str | int], ...] = ()
    custom: bool = False
    #: Without controllers or admission; most are not validated beyond metadata.
    stored_only: bool = False
    #: The first version of Kubernetes that serves it, and the first that no longer does; None: all do.
    since: KubernetesVersion | None = None
    until: KubernetesVersion | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "list_kind", self.list_kind or f"{self.kind}List")
        object.__setattr__(self, "storage", self.storage or self.qualified)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name in messages: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def path(self) -> str:
        """The URL path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    def served_in(self, kubernetes: KubernetesVersion) -> bool:
        return (self.since or kubernetes) <= kubernetes and (self.until is None or kubernetes < self.until)


class Catalogue:
    """All served resources. `version` changes with every change, so that derived documents can be cached."""

    def __init__(self, resources: Iterable[Resource], *, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> None:
        #: The version that the server tells.
        self.kubernetes = kubernetes
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._storages: dict[str, Resource] = {}
        self.version = 0
        for resource in resources:
            self.add(resource)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def add(self, resource: Resource) -> None:
        self._resources[resource.group, resource.version, resource.plural] = resource
        self._changed()

    def remove(self, resource: Resource) -> None:
        self._resources.pop((resource.group, resource.version, resource.plural), None)
        self._changed()

    def _changed(self) -> None:
        self._storages = {resource.storage: resource for resource in reversed(self._resources.values())}
        self.version += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        return next((known for known in self if known.kind == kind and known.api_version == api_version), None)

    def unserved(self, api_version: str, kind: str) -> str:
        """The problem with a misspelled built-in kind or an old version; "" if it is served, or unknown and custom."""
        group = api_version.rpartition("/")[0]
        own = [one for one in self if not one.custom]
        if self.of_kind(api_version, kind) is not None or group not in (_FORMER_GROUP, *(one.group for one in own)):
            return ""
        known = {one.kind: one.api_version for one in own if one.kind == kind or one.group == group}
        near = [kind] if kind in known else get_close_matches(kind, known, n=1)
        hint = f" (did you mean {near[0]} of {known[near[0]]}?)" if near else ""
        return f"kind {kind!r} of apiVersion {api_version!r} is not served here{hint}"

    def of_storage(self, storage: str) -> Resource | None:
        """The storage version: the first that was added."""
        return self._storages.get(storage)


_APPS: dict[str, object] = {"group": "apps", "categories": ("all",), "generation": True}
_EVENT_FIELDS = ("reason", "type")


def _resource(plural: str, kind: str, *short_names: str, **rest: object) -> Resource:
    return Resource(plural=plural, kind=kind, short_names=short_names, **rest)  # type: ignore[arg-type]


def _cluster(plural: str, kind: str, *short_names: str, **rest: object) -> Resource:
    return _resource(plural, kind, *short_names, namespaced=False, **rest)


_CORE = (
    _resource("bindings", "Binding", verbs=CREATE_ONLY),
    _resource("configmaps", "ConfigMap", "cm"),
    _resource(
        "events",
        "Event",
        "ev",
        storage="events",
        created_by_update=True,
        selectable_fields=(
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "source",
            "reportingComponent",
            *_EVENT_FIELDS,
        ),
    ),
    _cluster(
        "namespaces",
        "Namespace",
        "ns",
        verbs=NO_COLLECTIONS,
        subresources=("finalize", "status"),
        selectable_fields=("status.phase",),
    ),
    _cluster("nodes", "Node", "no", subresources=("status",), selectable_fields=("spec.unschedulable",)),
    _resource("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources=("status",)),
    _cluster("persistentvolumes", "PersistentVolume", "pv", subresources=("status",)),
    _resource(
        "pods",
        "Pod",
        "po",
        categories=("all",),
        generation=True,
        subresources=(
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "proxy",
            "resize",
            "status",
        ),
        selectable_fields=(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
    ),
    _resource(
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        categories=("all",),
        generation=True,
        subresources=("scale", "status"),
        selectable_fields=("status.replicas",),
    ),
    _resource("secrets", "Secret", selectable_fields=("type",)),
    _resource("serviceaccounts", "ServiceAccount", "sa"),
    _resource(
        "services",
        "Service",
        "svc",
        categories=("all",),
        subresources=("status",),
        created_by_update=True,
        selectable_fields=("spec.clusterIP", "spec.type"),
    ),
)
_WORKLOADS = (
    _resource("controllerrevisions", "ControllerRevision", group="apps"),
    _resource("daemonsets", "DaemonSet", "ds", subresources=("status",), **_APPS),
    _resource("deployments", "Deployment", "deploy", subresources=("scale", "status"), **_APPS),
    _resource(
        "replicasets",
        "ReplicaSet",
        "rs",
        subresources=("scale", "status"),
        selectable_fields=("status.replicas",),
        **_APPS,
    ),
    _resource("statefulsets", "StatefulSet", "sts", subresources=("scale", "status"), **_APPS),
    _resource(
        "jobs",
        "Job",
        group="batch",
        categories=("all",),
        generation=True,
        subresources=("status",),
        selectable_fields=("status.successful",),
    ),
    _resource(
        "cronjobs",
        "CronJob",
        "cj",
        group="batch",
        categories=("all",),
        generation=True,
        subresources=("status",),
    ),
)
_STORAGE = (
    _cluster("csidrivers", "CSIDriver", versioned_updates=True, group="storage.k8s.io"),
    _cluster("csinodes", "CSINode", versioned_updates=True, group="storage.k8s.io"),
    _resource("csistoragecapacities", "CSIStorageCapacity", versioned_updates=True, group="storage.k8s.io"),
    _cluster("storageclasses", "StorageClass", "sc", group="storage.k8s.io"),
    _cluster(
        "volumeattachments",
        "VolumeAttachment",
        group="storage.k8s.io",
        versioned_updates=True,
        subresources=("status",),
    ),
)
_SINCE_1_37: dict[str, object] = {"group": "scheduling.k8s.io", "version": "v1beta1", "since": V1_37}
_ALPHA_1_37: dict[str, object] = {"group": "scheduling.k8s.io", "version": "v1alpha3", "since": V1_37}
_UNTIL_1_37: dict[str, object] = {"group": "scheduling.k8s.io", "version": "v1alpha2", "until": V1_37}
_SCHEDULING = (
    _resource("resourcequotas", "ResourceQuota", "quota", subresources=("status",)),
    _resource("limitranges", "LimitRange", "limits"),
    _cluster("runtimeclasses", "RuntimeClass", group="node.k8s.io"),
    _resource(
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "pdb",
        group="policy",
        generation=True,
        versioned_updates=True,
        subresources=("status",),
    ),
    _cluster("priorityclasses", "PriorityClass", "pc", group="scheduling.k8s.io", generation=True),
    *(
        resource
        for served in (_SINCE_1_37, _UNTIL_1_37)
        for resource in (
            _resource("workloads", "Workload", **served),
            _resource("podgroups", "PodGroup", subresources=("status",), **served),
        )
    ),
    _resource("compositepodgroups", "CompositePodGroup", subresources=("status",), **_ALPHA_1_37),
    _resource("leases", "Lease", group="coordination.k8s.io", created_by_update=True, versioned_updates=True),
    _resource(
        "leasecandidates",
        "LeaseCandidate",
        group="coordination.k8s.io",
        version="v1beta1",
        created_by_update=True,
        versioned_updates=True,
        selectable_fields=("spec.leaseName",),
    ),
)
_TAINT_RULES: dict[str, object] = {"group": "resource.k8s.io", "generation": True, "subresources": ("status",)}
_DEVICES = (
    _cluster("deviceclasses", "DeviceClass", group="resource.k8s.io", generation=True),
    _resource("resourceclaims", "ResourceClaim", group="resource.k8s.io", subresources=("status",)),
    _resource("resourceclaimtemplates", "ResourceClaimTemplate", group="resource.k8s.io"),
    _cluster(
        "resourceslices",
        "ResourceSlice",
        group="resource.k8s.io",
        generation=True,
        selectable_fields=("spec.nodeName", "spec.driver"),
    ),
    # The storage version comes first.
    _cluster("devicetaintrules", "DeviceTaintRule", version="v1beta2", **_TAINT_RULES),
    _cluster("devicetaintrules", "DeviceTaintRule", version="v1", since=V1_37, **_TAINT_RULES),
    _cluster("devicetaintrules", "DeviceTaintRule", version="v1alpha3", **_TAINT_RULES),
)
_RBAC: dict[str, object] = {"group": "rbac.authorization.k8s.io", "created_by_update": True}
_ACCESS = (
    _cluster("clusterrolebindings", "ClusterRoleBinding", **_RBAC),
    _cluster("clusterroles", "ClusterRole", **_RBAC),
    _resource("rolebindings", "RoleBinding", **_RBAC),
    _resource("roles", "Role", **_RBAC),
    _cluster("selfsubjectreviews", "SelfSubjectReview", group="authentication.k8s.io", verbs=CREATE_ONLY),
    _cluster("tokenreviews", "TokenReview", group="authentication.k8s.io", verbs=CREATE_ONLY),
    _resource("localsubjectaccessreviews", "LocalSubjectAccessReview", group="authorization.k8s.io", verbs=CREATE_ONLY),
    _cluster("selfsubjectaccessreviews", "SelfSubjectAccessReview", group="authorization.k8s.io", verbs=CREATE_ONLY),
    _cluster("selfsubjectrulesreviews", "SelfSubjectRulesReview", group="authorization.k8s.io", verbs=CREATE_ONLY),
    _cluster("subjectaccessreviews", "SubjectAccessReview", group="authorization.k8s.io", verbs=CREATE_ONLY),
)
_EXTENSIONS = (
    _cluster(
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd",
        "crds",
        group="apiextensions.k8s.io",
        categories=("api-extensions",),
        generation=True,
        versioned_updates=True,
        subresources=("status",),
    ),
)
#: events.k8s.io first: it is the storage version (`Catalogue.of_storage`).
_EVENTS = (
    _resource(
        "events",
        "Event",
        "ev",
        group="events.k8s.io",
        storage="events",
        created_by_update=True,
        selectable_fields=(
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "deprecatedSource.component",
            "reportingController",
            *_EVENT_FIELDS,
        ),
    ),
)

_API_EXTENSIONS: dict[str, object] = {"categories": ("api-extensions",), "generation": True}
_ADMISSION: dict[str, object] = {"group": "admissionregistration.k8s.io", **_API_EXTENSIONS}
_FLOW_CONTROL: dict[str, object] = {
    "group": "flowcontrol.apiserver.k8s.io",
    "generation": True,
    "subresources": ("status",),
}
_SCALED: dict[str, object] = {"group": "autoscaling", "categories": ("all",), "subresources": ("status",)}
#: The storage version comes first.
_AUTOSCALERS = (
    _resource("horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", version="v2", **_SCALED),
    _resource("horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", **_SCALED),
)
_MEASURED: dict[str, object] = {"group": METRICS_GROUP, "version": "v1beta1", "verbs": ("get", "list")}
_METRICS = (
    _cluster("nodes", "NodeMetrics", **_MEASURED),
    _resource("pods", "PodMetrics", **_MEASURED),
)
_NETWORKING: dict[str, object] = {"group": "networking.k8s.io", "generation": True}
#: Kinds that no controller here acts on: stored only, so that manifests with them load.
_STORED_ONLY = tuple(
    replace(resource, stored_only=True)
    for resource in (
        _resource("endpoints", "Endpoints", "ep", created_by_update=True),
        _resource("podtemplates", "PodTemplate", generation=True),
        _resource("networkpolicies", "NetworkPolicy", "netpol", **_NETWORKING),
        _resource("ingresses", "Ingress", "ing", subresources=("status",), **_NETWORKING),
        _cluster("ingressclasses", "IngressClass", **_NETWORKING),
        _cluster("ipaddresses", "IPAddress", "ip", group="networking.k8s.io"),
        _cluster("servicecidrs", "ServiceCIDR", group="networking.k8s.io", subresources=("status",)),
        _resource("endpointslices", "EndpointSlice", group="discovery.k8s.io", generation=True),
        _cluster("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", **_ADMISSION),
        _cluster("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", **_ADMISSION),
        _cluster("validatingadmissionpolicies", "ValidatingAdmissionPolicy", subresources=("status",), **_ADMISSION),
        _cluster("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", **_ADMISSION),
        _cluster("mutatingadmissionpolicies", "MutatingAdmissionPolicy", **_ADMISSION),
        _cluster("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", **_ADMISSION),
        _cluster(
            "apiservices",
            "APIService",
            group="apiregistration.k8s.io",
            categories=("api-extensions",),
            subresources=("status",),
        ),
        _cluster("flowschemas", "FlowSchema", **_FLOW_CONTROL),
        _cluster("prioritylevelconfigurations", "PriorityLevelConfiguration", **_FLOW_CONTROL),
        _cluster(
            "certificatesigningrequests",
            "CertificateSigningRequest",
            "csr",
            group="certificates.k8s.io",
            subresources=("status",),
            selectable_fields=("spec.signerName",),
        ),
        _cluster("volumeattributesclasses", "VolumeAttributesClass", "vac", group="storage.k8s.io"),
    )
)

#: Of all versions of Kubernetes.
BUILT_IN: tuple[Resource, ...] = (
    *_EVENTS,
    *_CORE,
    *_WORKLOADS,
    *_STORAGE,
    *_SCHEDULING,
    *_DEVICES,
    *_ACCESS,
    *_EXTENSIONS,
    *_AUTOSCALERS,
    *_METRICS,
    *_STORED_ONLY,
)


def served_in(kubernetes: KubernetesVersion) -> Catalogue:
    """What a cluster of this version serves."""
    return Catalogue((one for one in BUILT_IN if one.served_in(kubernetes)), kubernetes=kubernetes)
