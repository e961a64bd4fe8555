"""Pod predicates for controllers: active, ready, available, and deletion order.

Upstream: pkg/api/v1/pod/util.go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.deletion_order import deletion_rank
from stowplan.kube.api.meta import ApiStruct, Int32, ObjectMeta, seconds_of
from stowplan.kube.api.pod import (
    FINISHED,
    PodCondition,
    PodExtendedResourceClaimStatus,
    PodResourceClaimStatus,
    PodSpec,
)

PODS = "pods"

PENDING = "Pending"
RUNNING = "Running"
SUCCEEDED = "Succeeded"
FAILED = "Failed"


class Terminated(ApiStruct, frozen=True, kw_only=True):
    exit_code: Int32 = 0
    finished_at: str | None = None


class Running(ApiStruct, frozen=True, kw_only=True):
    started_at: str | None = None


class ContainerState(ApiStruct, frozen=True, kw_only=True):
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    restart_count: Int32 = 0
    state: ContainerState = ContainerState()


class PodStatus(ApiStruct, frozen=True, kw_only=True):
    phase: str = ""
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    #: Claims generated from templates; `name` is the entry in spec.resourceClaims.
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(ApiStruct, frozen=True, kw_only=True):
    """A pod as its controllers see it: its spec, and what its kubelet reports."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels

    @property
    def phase(self) -> str:
        return self.status.phase

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def finished(self) -> bool:
        return self.status.phase in FINISHED

    @property
    def active(self) -> bool:
        """Whether the pod counts as a replica."""
        return not self.finished and not self.terminating

    @property
    def ready_condition(self) -> PodCondition | None:
        return next((condition for condition in self.status.conditions if condition.type == "Ready"), None)

    @property
    def ready(self) -> bool:
        condition = self.ready_condition
        return condition is not None and condition.status == "True"

    @property
    def running_since(self) -> float | None:
        """When the last of its containers started; None unless all run."""
        states = [one.state.running for one in self.status.container_statuses]
        if self.phase != RUNNING or not states or None in states:
            return None
        return max(seconds_of(one.started_at) for one in states if one is not None)

    @property
    def restarts(self) -> int:
        """Of all containers."""
        return sum(one.restart_count for one in (*self.status.init_container_statuses, *self.status.container_statuses))

    @property
    def created(self) -> float:
        return seconds_of(self.metadata.creation_timestamp)

    def available_at(self, min_ready_seconds: int) -> float | None:
        """When the pod became, or will become, available; None if it is not ready."""
        condition = self.ready_condition
        if condition is None or condition.status != "True":
            return None
        return seconds_of(condition.last_transition_time) + min_ready_seconds if min_ready_seconds else 0.0

    def available(self, min_ready_seconds: int, now: float) -> bool:
        at = self.available_at(min_ready_seconds)
        return at is not None and at <= now


class Encoded(Protocol):
    """An object as JSON."""

    @property
    def data(self) -> bytes: ...


def decode_pod(stored: Encoded) -> Pod:
    return decode_json(stored.data, Pod)


def finished_at(pod: Pod) -> float:
    """When the pod's containers ended, or else when it stopped being ready, was deleted, or was created.

    Upstream: pkg/controller/job/backoff_utils.go.
    """
    sidecars = _sidecars(pod)
    statuses = [one for one in pod.status.init_container_statuses if one.name in sidecars]
    ends = [
        one.state.terminated.finished_at for one in (*pod.status.container_statuses, *statuses) if one.state.terminated
    ]
    if ends and all(ends) and len(ends) == len(pod.status.container_statuses) + len(statuses):
        return max(map(seconds_of, ends))
    ready, metadata = pod.ready_condition, pod.metadata
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return seconds_of(ready.last_transition_time)
    if metadata.deletion_timestamp is not None:
        return seconds_of(metadata.deletion_timestamp) - (metadata.deletion_grace_period_seconds or 0)
    return pod.created


def next_availability(pods: Iterable[Pod], min_ready_seconds: int, now: float) -> float | None:
    """Seconds until the next ready pod becomes available; None if there is none."""
    if not min_ready_seconds:
        return None
    times = (pod.available_at(min_ready_seconds) for pod in pods)
    return min((at - now for at in times if at is not None and at > now), default=None)


def by_deletion_order(pods: Sequence[Pod], related: Iterable[Pod] = ()) -> list[Pod]:
    """Sort pods, those to delete first. `related` are the pods that count as siblings."""
    crowd = Counter(pod.spec.node_name for pod in related if pod.active)
    return sorted(pods, key=lambda pod: (_deletion_rank(pod, crowd[pod.spec.node_name]), pod.name))


def _deletion_rank(pod: Pod, siblings: int) -> tuple[object, ...]:
    ready = pod.ready_condition if pod.ready else None
    return deletion_rank(
        pod.metadata,
        node_name=pod.spec.node_name,
        phase=pod.phase,
        ready_since=None if ready is None else seconds_of(ready.last_transition_time),
        siblings=siblings,
        restarts=_restarts(pod),
    )


def _restarts(pod: Pod) -> tuple[int, int]:
    """Maximum restart counts of containers and of sidecars."""
    sidecars = _sidecars(pod)
    return (
        max((status.restart_count for status in pod.status.container_statuses), default=0),
        max(
            (status.restart_count for status in pod.status.init_container_statuses if status.name in sidecars),
            default=0,
        ),
    )


def _sidecars(pod: Pod) -> set[str]:
    return {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
