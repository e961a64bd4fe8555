"""Partial views of objects: each decodes only the fields its controller reads."""

from typing import Any

from stowplan.kube.api.affinity import Toleration
from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan_cluster.controllers.pods import ClaimSource, Condition


class AnyObject(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()


class TolerationsSpec(ApiStruct, frozen=True, kw_only=True):
    tolerations: tuple[Toleration, ...] = ()


class ToleratingPod(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: TolerationsSpec = TolerationsSpec()


class ConditionsStatus(ApiStruct, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class PodWithConditions(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    status: ConditionsStatus = ConditionsStatus()

    @property
    def ready(self) -> bool:
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)


class ReplicasSpec(ApiStruct, frozen=True, kw_only=True):
    replicas: int = 1


class Scaled(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicasSpec = ReplicasSpec()


class MountedVolume(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class VolumesSpec(ApiStruct, frozen=True, kw_only=True):
    volumes: tuple[MountedVolume, ...] = ()


class PodWithVolumes(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumesSpec = VolumesSpec()

    @property
    def claims(self) -> set[str]:
        """Names of the claims that the pod uses, including those of ephemeral volumes."""
        return {
            volume.persistent_volume_claim.claim_name
            if volume.persistent_volume_claim is not None
            else f"{self.metadata.name}-{volume.name}"
            for volume in self.spec.volumes
            if volume.persistent_volume_claim is not None or volume.ephemeral is not None
        }
