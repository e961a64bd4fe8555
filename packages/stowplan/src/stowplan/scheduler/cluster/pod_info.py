"""A pod compiled for scheduling; equal pods share one shape.

Almost all pods of a cluster are created from templates, so what plugins read of a pod (requests, ports, affinity terms,
tolerations, labels, namespace, owner) is the same for thousands of them. A `PodShape` has those facts in compiled form.
Shapes are interned by the encoded fields that they are computed from, so pods that are equal for every in-tree plugin
can be compared with `is`. A `PodInfo` is one pod: its object, its shape and its node.

Upstream: pkg/scheduler/framework/types.go (PodInfo, QueuedPodInfo).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from operator import attrgetter, is_
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.label_selectors import NOTHING, Selector, SelectorError, compile_label_selector
from stowplan.kube.api.meta import controller_of, parse_timestamp
from stowplan.kube.api.node_selectors import RequiredNodeAffinity
from stowplan.kube.api.pod import DEFAULT_SCHEDULER_NAME, PodSpec, host_ports, normalized_image_name
from stowplan.kube.api.pod_requests import non_zero_requests, pod_requests, to_vector
from stowplan.kube.api.types import (
    LabelSelector,
    OwnerReference,
    Pod,
    PodAffinityTerm,
    PodStatus,
    Volume,
    WeightedPodAffinityTerm,
)
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.memos import Memos
from stowplan.scheduler.cluster.volumes import VolumeUse, makes_claims, uses_of

#: Stands in for the reference's "now" as the start time of pods that have not started: later than any real time.
NOT_STARTED = (1 << 63) - 1

#: Requests assumed for scoring if a container has none (upstream's util.GetNonzeroRequests).
DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
_NO_LABELS: dict[str, str] = {}
T = TypeVar("T")
_SCORING_DEFAULTS = {"cpu": DEFAULT_MILLI_CPU * 10**6, "memory": DEFAULT_MEMORY * 10**9}


class AffinityTerm(PlainStruct, frozen=True):
    """One pod (anti-)affinity term, parsed.

    Without namespaces and namespace selector, it applies to the owner's namespace.
    """

    namespaces: frozenset[str]
    selector: Selector
    topology_key: str
    namespace_selector: Selector
    weight: int = 0

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        in_namespace = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return in_namespace and self.selector.matches(labels)


class Disk(NamedTuple):
    """An inline volume that VolumeRestrictions compares."""

    kind: str
    names: frozenset[str]
    rest: tuple[str, ...]
    read_only: bool

    def conflicts(self, other: Disk) -> bool:
        if self.kind != other.kind or self.rest != other.rest or not self.names & other.names:
            return False
        # Parity: EBS volumes conflict even if both mounts are read-only.
        return self.kind == "awsElasticBlockStore" or not (self.read_only and other.read_only)


@mypyc_attr(native_class=False)
class PodTemplate(Memos):
    """The common part of pods that differ at most in labels, owner and names of claims; compared by identity.

    The pods of a StatefulSet each have their own shape, but share a template: facts that do not depend on labels, owner
    and claims are computed once. Plugins can memoize on templates as on shapes.
    """

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self.key = key
        #: Known facts of its shapes, by attribute name.
        self.facts: dict[str, Any] = {}


class _TemplateFact(Generic[T]):
    """A fact of a shape that depends on its template alone: computed once per template.

    As with a cached property, the value is an ordinary attribute afterwards.
    """

    def __init__(self, work_out: Callable[[PodShape], T]) -> None:
        self._work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type[PodShape], name: str) -> None:
        self._name = name

    def __get__(self, shape: PodShape, owner: type[PodShape]) -> T:
        facts = shape.template.facts
        if self._name not in facts:
            facts[self._name] = self._work_out(shape)
        value: T = facts[self._name]
        shape.__dict__[self._name] = value
        return value


@mypyc_attr(native_class=False)
class PodShape(Memos):
    """Everything that plugins read of a pod, shared by all pods for which it is equal. Plugins can memoize on it."""

    def __init__(
        self, pod: Pod, key: bytes, id: int, template: PodTemplate, emulated_version: KubernetesVersion
    ) -> None:
        super().__init__()
        self.__dict__.update(template.facts)
        self.key = key
        self.template = template
        #: Slot in the shape columns of `PodTable`; reused after the last pod of the shape is gone.
        self.id = id
        self.pod = pod
        self.namespace = pod.metadata.namespace or "default"
        self.scheduler_name = scheduler_name_of(pod)
        self.labels = pod.metadata.labels
        self.priority = pod.spec.priority or 0
        #: Decides about requests during a resize.
        self.emulated_version = emulated_version
        #: Whether resources allocated by claims count, too (DRANodeAllocatableResources).
        self.counts_claims = False
        #: Number of placed pods of this shape.
        self.refs = 0

    # -- requests: resource name -> integer (cpu in millicores), one variant per reader --------------------------------

    @_TemplateFact
    def requests(self) -> dict[str, int]:
        """What Filter compares: including pod-level resources, ignoring the status."""
        return to_vector(pod_requests(self.pod, dra_node_allocatable=self.counts_claims))

    @_TemplateFact
    def used(self) -> dict[str, int]:
        """What a placed pod uses, including the status of a resize."""
        return to_vector(self._used)

    @_TemplateFact
    def used_by_any_name(self) -> dict[str, int]:
        """The same, including resources that are not counted per node."""
        return to_vector(self._used, counted_only=False)

    @_TemplateFact
    def _used(self) -> dict[str, int]:
        return pod_requests(
            self.pod,
            resize_rules=self.emulated_version,
            pod_level_resize=True,
            dra_node_allocatable=self.counts_claims,
        )

    @_TemplateFact
    def non_zero_used(self) -> tuple[int, int]:
        return non_zero_requests(self.pod, resize_rules=self.emulated_version, dra_node_allocatable=self.counts_claims)

    @_TemplateFact
    def scoring_requests(self) -> dict[str, int]:
        # Parity: NodeResourcesFit ignores pod-level requests of the incoming pod when it scores.
        return to_vector(pod_requests(self.pod, skip_pod_level=True, defaults=_SCORING_DEFAULTS))

    # -- affinity -----------------------------------------------------------------------------------------------------

    @_TemplateFact
    def _affinity(self) -> tuple[tuple[AffinityTerm, ...], ...]:
        return tuple(terms for terms, _ in self._parsed_affinity)

    @_TemplateFact
    def _parsed_affinity(self) -> tuple[tuple[tuple[AffinityTerm, ...], str | None], ...]:
        affinity = self.pod.spec.affinity
        near = affinity.pod_affinity if affinity is not None else None
        far = affinity.pod_anti_affinity if affinity is not None else None
        return (
            self._required(near.required_during_scheduling_ignored_during_execution if near else ()),
            self._required(far.required_during_scheduling_ignored_during_execution if far else ()),
            self._preferred(near.preferred_during_scheduling_ignored_during_execution if near else ()),
            self._preferred(far.preferred_during_scheduling_ignored_during_execution if far else ()),
        )

    def _required(self, terms: tuple[PodAffinityTerm, ...]) -> tuple[tuple[AffinityTerm, ...], str | None]:
        try:
            return tuple(_affinity_term(term, self.namespace, 0) for term in terms), None
        except SelectorError as e:
            return (), str(e)

    def _preferred(self, terms: tuple[WeightedPodAffinityTerm, ...]) -> tuple[tuple[AffinityTerm, ...], str | None]:
        try:
            return tuple(_affinity_term(t.pod_affinity_term, self.namespace, t.weight) for t in terms), None
        except SelectorError as e:
            return (), str(e)

    @property
    def required_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._affinity[0]

    @property
    def required_anti_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._affinity[1]

    @property
    def preferred_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._affinity[2]

    @property
    def preferred_anti_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._affinity[3]

    @_TemplateFact
    def affinity_error(self) -> str | None:
        """The reference's error for terms that do not parse, or None."""
        lists = (
            "requiredAffinityTerms",
            "requiredAntiAffinityTerms",
            "preferredAffinityTerms",
            "preferredAntiAffinityTerms",
        )
        errors = [f"{name}: {error}" for name, (_, error) in zip(lists, self._parsed_affinity, strict=True) if error]
        if not errors:
            return None
        return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"

    @property
    def required_terms_error(self) -> str | None:
        """The error of required terms (affinity or anti-affinity) that do not parse, or None."""
        return self._parsed_affinity[0][1] or self._parsed_affinity[1][1]

    @_TemplateFact
    def has_pod_affinity(self) -> bool:
        affinity = self.pod.spec.affinity
        return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)

    @_TemplateFact
    def selects_namespaces(self) -> bool:
        """Whether some affinity term selects namespaces by label, other than with an empty selector."""
        selectors = [term.namespace_selector for terms in self._affinity for term in terms]
        return any(not (selector.nothing or selector.matches(_NO_LABELS)) for selector in selectors)

    # -- the rest -----------------------------------------------------------------------------------------------------

    @_TemplateFact
    def required_node_affinity(self) -> RequiredNodeAffinity:
        return RequiredNodeAffinity.from_pod(self.pod)

    @_TemplateFact
    def host_ports(self) -> tuple[tuple[str, str, int], ...]:
        return host_ports(self.pod)

    @_TemplateFact
    def image_names(self) -> tuple[str, ...]:
        """Normalized images of init containers, containers and image volumes, with duplicates."""
        spec = self.pod.spec
        images = [c.image for c in spec.init_containers] + [c.image for c in spec.containers]
        images += [v.image.reference for v in spec.volumes if v.image is not None]
        return tuple(normalized_image_name(image) for image in images)

    @cached_property
    def claim_names(self) -> tuple[str, ...]:
        return _claim_names(self.pod)

    @_TemplateFact
    def has_claims(self) -> bool:
        """Whether any volume of the pods is a claim, including generic ephemeral volumes."""
        return bool(self.claim_names) or any(volume.ephemeral is not None for volume in self.pod.spec.volumes)

    @_TemplateFact
    def disks(self) -> tuple[Disk, ...]:
        return tuple(disk for volume in self.pod.spec.volumes for disk in _disks(volume))

    @cached_property
    def volume_uses(self) -> tuple[VolumeUse, ...] | None:
        """The attachable volumes of the pods; None if they differ between the pods (see `volumes.volume_uses`)."""
        return None if makes_claims(self.pod) else uses_of(self.pod, self.namespace)

    @cached_property
    def controller(self) -> OwnerReference | None:
        return controller_of(self.pod.metadata)


def _affinity_term(term: PodAffinityTerm, namespace: str, weight: int) -> AffinityTerm:
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((namespace,))
    return AffinityTerm(
        namespaces=namespaces,
        selector=compile_label_selector(term.label_selector),
        topology_key=term.topology_key,
        namespace_selector=_namespace_selector(term.namespace_selector),
        weight=weight,
    )


def _namespace_selector(selector: LabelSelector | None) -> Selector:
    return NOTHING if selector is None else compile_label_selector(selector)


def _disks(volume: Volume) -> list[Disk]:
    found = []
    if (gce := volume.gce_persistent_disk) is not None:
        found.append(Disk("gcePersistentDisk", frozenset((gce.pd_name,)), (), gce.read_only))
    if (ebs := volume.aws_elastic_block_store) is not None:
        found.append(Disk("awsElasticBlockStore", frozenset((ebs.volume_id,)), (), ebs.read_only))
    if (iscsi := volume.iscsi) is not None:
        found.append(Disk("iscsi", frozenset((iscsi.iqn,)), (), iscsi.read_only))
    if (rbd := volume.rbd) is not None:
        found.append(Disk("rbd", frozenset(rbd.monitors), (rbd.pool, rbd.image), rbd.read_only))
    return found


def _claim_names(pod: Pod) -> tuple[str, ...]:
    """The claims in persistentVolumeClaim volumes (not generic ephemeral ones), in order."""
    volumes = pod.spec.volumes
    return tuple(v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None)


def _has_source(volume: Volume) -> bool:
    """Whether a volume has a source that some plugin reads; directories of the node, config maps and tokens are not."""
    if volume.persistent_volume_claim is not None:
        return True
    unread = ("name", "empty_dir", "host_path")
    return any(getattr(volume, f) is not None for f in volume.__struct_fields__ if f not in unread)


_encoder = msgspec.msgpack.Encoder(decimal_format="number")


def _encode(facts: tuple[Any, ...]) -> bytes:
    try:
        return _encoder.encode(facts)
    except OverflowError:
        # A quantity is a number beyond 64 bits.
        return repr(facts).encode()


#: Fields of a pod's spec that are part of a template unchanged.
_of_spec = attrgetter(
    "containers",
    "init_containers",
    "scheduler_name",
    "priority",
    "preemption_policy",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "overhead",
    "resources",
    "scheduling_gates",
    "host_network",
    "host_users",
)


def template_key(pod: Pod) -> bytes:
    """Encoded fields that are equal for pods that differ at most in labels, owner and names of claims."""
    return _encode(_of_template(pod))


def _of_template(pod: Pod) -> tuple[Any, ...]:
    """The fields that pods of a template share.

    The pods of a StatefulSet have different claims; plugins that read those sign what they find, and so they do for
    ResourceClaims and their templates. Volumes without a relevant source are left out, because the volume of the
    service account token has a random name.
    """
    spec, status = pod.spec, pod.status
    return (
        pod.metadata.namespace,
        *_of_spec(spec),
        [_template_volume(v) for v in spec.volumes if _has_source(v)] if spec.volumes else (),
        [entry.name for entry in spec.resource_claims] if spec.resource_claims else (),
        _resize(status) if _may_be_resized(status) else None,
    )


def _may_be_resized(status: PodStatus) -> bool:
    return bool(status.container_statuses or status.init_container_statuses or status.resources)


def _may_take_more(status: PodStatus) -> bool:
    """Whether the pod may use other resources than its spec says, according to its status."""
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.resources
        or status.node_allocatable_resource_claim_statuses
    )


def claims_key(pod: Pod) -> bytes:
    """The additional part of the key if resources allocated by claims count."""
    return _encode((pod.status.node_allocatable_resource_claim_statuses,))


def is_copy(pod: Pod, other: Pod) -> bool:
    """Whether the pod shares everything that its shape depends on with the other, like a copy that was only bound.

    False negatives are possible: equal pods from different sources need not share their fields.
    """
    mine, others = pod.metadata, other.metadata
    return (
        mine.labels is others.labels
        and mine.owner_references is others.owner_references
        and mine.namespace == others.namespace
        and (pod.spec is other.spec or _is_copied_spec(pod.spec, other.spec))
        and not _may_take_more(pod.status)
        and (pod.status is other.status or not _may_take_more(other.status))
    )


def _is_copied_spec(spec: PodSpec, other: PodSpec) -> bool:
    # Usually only the node differs; fields that are the same object compare by identity, which is fast.
    if spec == replace(other, node_name=spec.node_name):
        return True
    if spec.volumes is not other.volumes or spec.resource_claims is not other.resource_claims:
        return False
    return all(map(is_, _of_spec(spec), _of_spec(other)))


def _template_volume(volume: Volume) -> Volume | tuple[Any, ...]:
    """A volume without the name of its claim."""
    claim = volume.persistent_volume_claim
    return volume if claim is None else (volume.name, claim.read_only)


def _resize(status: PodStatus) -> tuple[Any, ...]:
    """The status fields that describe a resize in progress."""
    return (
        [(c.name, c.resources, c.allocated_resources) for c in status.container_statuses],
        [(c.name, c.resources, c.allocated_resources) for c in status.init_container_statuses],
        status.resources,
        status.allocated_resources,
        next((c.reason for c in status.conditions if c.type == "PodResizePending"), None),
    )


def shape_key(pod: Pod) -> bytes:
    """Encoded fields that are equal for pods that no in-tree plugin can tell apart."""
    owner = controller_of(pod.metadata)
    controller = (owner.api_version, owner.kind, owner.name) if owner is not None else None
    claims = _claim_names(pod) if pod.spec.volumes else ()
    return _encode((*_of_template(pod), pod.metadata.labels, controller, claims, pod.spec.resource_claims))


def group_key(pod: Pod) -> str:
    """`namespace/name` of the pod's group; "" if it has none."""
    group = pod.spec.scheduling_group
    return "" if group is None else f"{pod.metadata.namespace or 'default'}/{group.pod_group_name or ''}"


def uid_of(pod: Pod) -> str:
    """A pod's identity in the cluster; objects from files may lack a UID and are identified by name."""
    return pod.metadata.uid or f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"


class PodInfo:
    """One pod: its object, its shape, and its node."""

    __slots__ = ("key", "node_name", "pod", "priority", "row", "shape", "slot", "start_time", "terminating", "uid")

    def __init__(self, pod: Pod, shape: PodShape) -> None:
        self.pod = pod
        self.shape = shape
        self.key = f"{shape.namespace}/{pod.metadata.name}"
        #: As `uid_of`.
        self.uid = pod.metadata.uid or self.key
        self.priority = shape.priority
        started = pod.status.start_time
        self.start_time = _nanoseconds(started) if started else NOT_STARTED
        self.terminating = pod.metadata.deletion_timestamp is not None
        #: The pod's node, bound or assumed; "" while it is pending. Set by `ClusterState`.
        self.node_name = ""
        #: Row of that node; -1 if the node is unknown.
        self.row = -1
        #: Slot in `PodTable`; -1 while the pod is not placed.
        self.slot = -1

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        return self.shape.labels

    @property
    def annotations(self) -> dict[str, str]:
        return self.pod.metadata.annotations

    @property
    def namespace(self) -> str:
        return self.shape.namespace

    @property
    def volume_uses(self) -> tuple[VolumeUse, ...]:
        """The pod's attachable volumes, in order."""
        found = self.shape.volume_uses
        return uses_of(self.pod, self.namespace) if found is None else found

    def __repr__(self) -> str:
        return f"PodInfo({self.key!r}, node={self.node_name!r})"


def resize_is_deferred(pod: Pod) -> bool:
    """Whether the kubelet waits for room to resize the pod. The first such condition counts, whatever its status."""
    reasons = (c.reason for c in pod.status.conditions if c.type == "PodResizePending")
    return next(reasons, "") == "Deferred"


def scheduler_name_of(pod: Pod) -> str:
    """The pod's scheduler; objects from files may lack the default."""
    return pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME


def _nanoseconds(timestamp: str) -> int:
    try:
        seconds = parse_timestamp(timestamp)
    except ValueError:
        return NOT_STARTED
    return int(seconds * 1_000_000) * 1000
