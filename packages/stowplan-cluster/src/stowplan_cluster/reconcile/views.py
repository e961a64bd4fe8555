"""Partial views of objects: each decodes only the fields its controller reads.

Workloads are typed, except for the pod template.

Upstream: k8s.io/api/apps/v1, batch/v1, core/v1.
"""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.label_selectors import Selector, compile_label_selector, selector_from_map
from stowplan.kube.api.meta import MAX_INT32, ApiStruct, LabelSelector, ObjectMeta
from stowplan.kube.api.volumes import PersistentVolumeClaimTemplate
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.reconcile.pods import Encoded


class AnyObject(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()


class ReplicasSpec(ApiStruct, frozen=True, kw_only=True):
    replicas: int = 1


class Scaled(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicasSpec = ReplicasSpec()


# Workloads as their controllers read them: typed, except for the pod template.
#
# Upstream: k8s.io/api/apps/v1, batch/v1, core/v1.

IntOrPercent = int | str
JsonObject = dict[str, Any]


class Key(NamedTuple):
    """A workload by name and uid."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Workload(ApiStruct, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: dict[str, Any] = {}

    @property
    def key(self) -> Key:
        return Key(self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def selector(self) -> Selector:
        """The pod selector."""
        return compile_label_selector(self.spec.label_selector)


class WorkloadSpec(ApiStruct, frozen=True, kw_only=True):
    min_ready_seconds: int = 0
    label_selector: LabelSelector | None = msgspec.field(name="selector", default=None)
    template: JsonObject = {}


class ReplicaSetSpec(WorkloadSpec, frozen=True, kw_only=True):
    replicas: int = 1


class ReplicaSet(Workload, frozen=True, kw_only=True):
    spec: ReplicaSetSpec = ReplicaSetSpec()


class ReplicationControllerSpec(ApiStruct, frozen=True, kw_only=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    labels: dict[str, str] = msgspec.field(name="selector", default={})
    template: JsonObject = {}


class ReplicationController(Workload, frozen=True, kw_only=True):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()

    @property
    def selector(self) -> Selector:
        return selector_from_map(self.spec.labels)


class RollingUpdate(ApiStruct, frozen=True, kw_only=True):
    max_surge: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    partition: int = 0


class UpdateStrategy(ApiStruct, frozen=True, kw_only=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class DeploymentSpec(WorkloadSpec, frozen=True, kw_only=True):
    replicas: int = 1
    strategy: UpdateStrategy = UpdateStrategy()
    paused: bool = False
    #: MAX_INT32 means no limit, here and below.
    progress_deadline_seconds: int = MAX_INT32
    revision_history_limit: int = MAX_INT32


class Deployment(Workload, frozen=True, kw_only=True):
    spec: DeploymentSpec = DeploymentSpec()


class Ordinals(ApiStruct, frozen=True, kw_only=True):
    start: int = 0


class ClaimRetentionPolicy(ApiStruct, frozen=True, kw_only=True):
    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class StatefulSetSpec(WorkloadSpec, frozen=True, kw_only=True):
    replicas: int = 1
    service_name: str = ""
    ordinals: Ordinals = Ordinals()
    pod_management_policy: str = "OrderedReady"
    update_strategy: UpdateStrategy = UpdateStrategy()
    volume_claim_templates: tuple[PersistentVolumeClaimTemplate, ...] = ()
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy = ClaimRetentionPolicy()
    revision_history_limit: int = 10


class StatefulSet(Workload, frozen=True, kw_only=True):
    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetSpec(WorkloadSpec, frozen=True, kw_only=True):
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: int = 10


class DaemonSet(Workload, frozen=True, kw_only=True):
    spec: DaemonSetSpec = DaemonSetSpec()


class JobSpec(ApiStruct, frozen=True, kw_only=True):
    parallelism: int = 1
    #: None: complete when one pod has succeeded and none is running any more.
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    pod_replacement_policy: str = "TerminatingOrFailed"
    managed_by: str = "kubernetes.io/job-controller"
    label_selector: LabelSelector | None = msgspec.field(name="selector", default=None)
    template: JsonObject = {}

    @property
    def restart_policy(self) -> str:
        policy: str = (self.template.get("spec") or {}).get("restartPolicy", "")
        return policy


class Job(Workload, frozen=True, kw_only=True):
    spec: JobSpec = JobSpec()


class CronJobSpec(ApiStruct, frozen=True, kw_only=True):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    #: None: no limit.
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None
    job_template: JsonObject = {}


class CronJob(Workload, frozen=True, kw_only=True):
    spec: CronJobSpec = CronJobSpec()


W = TypeVar("W", bound=Workload)


class WorkloadKind(PlainStruct, Generic[W], frozen=True):
    storage: str
    api_version: str
    kind: str
    struct: type[W]

    def decode(self, stored: Encoded) -> W:
        return decode_json(stored.data, self.struct)


DEPLOYMENTS = WorkloadKind("deployments.apps", "apps/v1", "Deployment", Deployment)
REPLICA_SETS = WorkloadKind("replicasets.apps", "apps/v1", "ReplicaSet", ReplicaSet)
REPLICATION_CONTROLLERS = WorkloadKind("replicationcontrollers", "v1", "ReplicationController", ReplicationController)
STATEFUL_SETS = WorkloadKind("statefulsets.apps", "apps/v1", "StatefulSet", StatefulSet)
DAEMON_SETS = WorkloadKind("daemonsets.apps", "apps/v1", "DaemonSet", DaemonSet)
JOBS = WorkloadKind("jobs.batch", "batch/v1", "Job", Job)
CRON_JOBS = WorkloadKind("cronjobs.batch", "batch/v1", "CronJob", CronJob)

#: By kind.
WORKLOAD_KINDS: Mapping[str, WorkloadKind[Any]] = {
    one.kind: one
    for one in (DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS)
}
