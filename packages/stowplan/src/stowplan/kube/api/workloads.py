"""Controllers that own pods; default spreading reads their selectors.

A Service or ReplicationController selects by a plain label map, where None differs from empty.
"""

from stowplan.kube.api.meta import ApiStruct, Int32, LabelSelector, ObjectMeta
from stowplan.kube.api.volumes import PersistentVolumeClaimTemplate


class ServiceSpec(ApiStruct, frozen=True, kw_only=True):
    selector: dict[str, str] | None = None


class Service(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Service"
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(ApiStruct, frozen=True, kw_only=True):
    replicas: Int32 | None = None
    selector: dict[str, str] | None = None


class ReplicationController(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "ReplicationController"
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ReplicaSetSpec(ApiStruct, frozen=True, kw_only=True):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None


class ReplicaSet(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetSpec(ApiStruct, frozen=True, kw_only=True):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    pod_management_policy: str = "OrderedReady"
    volume_claim_templates: tuple[PersistentVolumeClaimTemplate, ...] = ()


class StatefulSet(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "apps/v1"
    kind: str = "StatefulSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
