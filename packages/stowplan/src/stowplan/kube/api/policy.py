"""PodDisruptionBudget, PriorityClass, and the objects that the scheduler writes."""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from stowplan.kube.api.meta import ApiStruct, Int32, Int64, LabelSelector, ObjectMeta, ObjectReference


class PodDisruptionBudgetSpec(ApiStruct, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    #: None: IfHealthyBudget.
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True, kw_only=True):
    disruptions_allowed: Int32 = 0
    #: Pod name -> the time at which its eviction was accepted.
    disrupted_pods: dict[str, str] = {}
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    observed_generation: Int64 = 0


class PodDisruptionBudget(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


#: The built-in classes, and their values.
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClass(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
    metadata: ObjectMeta = ObjectMeta()
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


class LeaseSpec(ApiStruct, frozen=True, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class LeaseCandidateSpec(ApiStruct, frozen=True, kw_only=True):
    lease_name: str = ""
    ping_time: str | None = None
    renew_time: str | None = None
    binary_version: str = ""
    emulation_version: str = ""
    strategy: str = ""


class LeaseCandidate(ApiStruct, frozen=True, kw_only=True):
    """A candidate for a Lease whose holder is selected by the API server (coordinated leader election)."""

    api_version: str = "coordination.k8s.io/v1beta1"
    kind: str = "LeaseCandidate"
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseCandidateSpec = LeaseCandidateSpec()


class EventSeries(ApiStruct, frozen=True, kw_only=True):
    count: Int32 = 0
    last_observed_time: str | None = None


class Event(ApiStruct, frozen=True, kw_only=True):
    """An event of `events.k8s.io/v1`, which kube-scheduler writes."""

    api_version: str = "events.k8s.io/v1"
    kind: str = "Event"
    metadata: ObjectMeta = ObjectMeta()
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    #: Only these are set in Events that kubelets and most controllers write, which use the older API.
    deprecated_last_timestamp: str | None = None
    deprecated_count: Int32 = 0


class EventSource(ApiStruct, frozen=True, kw_only=True):
    component: str = ""
    host: str = ""


class CoreEvent(ApiStruct, frozen=True, kw_only=True):
    """An event of `v1`, for clusters and readers without the newer API."""

    api_version: str = "v1"
    kind: str = "Event"
    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: Int32 = 0
    type: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""
