"""Views of pods and resource claims for the device controllers."""

from __future__ import annotations

from typing import NamedTuple

from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan.kube.api.pod import FINISHED
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.reconcile.views import Key

RESOURCE_CLAIMS = "resourceclaims.resource.k8s.io"
CLAIM_TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"
TAINT_RULES = "devicetaintrules.resource.k8s.io"
POD_GROUPS = "podgroups.scheduling.k8s.io"
#: The API group of PodGroups in references.
GROUPS_API = "scheduling.k8s.io"

#: A pod without any of these in its JSON has no resource claims and need not be decoded.
_MARKS = (b'"resourceClaims":', b'"extendedResourceClaimStatus":')
_GROUP_MARK = b'"podGroupName":'


class DeviceClaimKey(NamedTuple):
    """A ResourceClaim by name, regardless of uid."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodClaim(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ExtendedClaim(ApiStruct, frozen=True, kw_only=True):
    resource_claim_name: str = ""


class SchedulingGroup(ApiStruct, frozen=True, kw_only=True):
    pod_group_name: str = ""


class ClaimingSpec(ApiStruct, frozen=True, kw_only=True):
    node_name: str = ""
    resource_claims: tuple[PodClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None


class ClaimingStatus(ApiStruct, frozen=True, kw_only=True):
    phase: str = ""
    #: Claims generated from templates; `name` is the entry in spec.resourceClaims.
    resource_claim_statuses: tuple[PodClaim, ...] = ()
    extended_resource_claim_status: ExtendedClaim | None = None


class ClaimingPod(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimingSpec = ClaimingSpec()
    status: ClaimingStatus = ClaimingStatus()

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def done(self) -> bool:
        """Whether it no longer uses its claims: it has ended, or will never start."""
        return self.status.phase in FINISHED or (self.deleting and not self.spec.node_name)

    @property
    def group(self) -> str:
        """The name of its pod group; "" if it has none."""
        return self.spec.scheduling_group.pod_group_name if self.spec.scheduling_group is not None else ""

    @property
    def generated(self) -> dict[str, str]:
        """Entry of the spec -> the claim that was made for it."""
        return _generated(self.status.resource_claim_statuses)

    @property
    def claims(self) -> dict[DeviceClaimKey, None]:
        """All claims it names, in order."""
        names = [one.resource_claim_name for one in self.spec.resource_claims]
        names += self.generated.values()
        if self.status.extended_resource_claim_status is not None:
            names.append(self.status.extended_resource_claim_status.resource_claim_name)
        return dict.fromkeys(DeviceClaimKey(self.metadata.namespace, name) for name in names if name)


class GroupSpec(ApiStruct, frozen=True, kw_only=True):
    resource_claims: tuple[PodClaim, ...] = ()


class GroupStatus(ApiStruct, frozen=True, kw_only=True):
    resource_claim_statuses: tuple[PodClaim, ...] = ()


class ClaimingGroup(ApiStruct, frozen=True, kw_only=True):
    """A PodGroup with claims that its pods share."""

    metadata: ObjectMeta = ObjectMeta()
    spec: GroupSpec = GroupSpec()
    status: GroupStatus = GroupStatus()

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def generated(self) -> dict[str, str]:
        """Entry of the spec -> the claim that was made for it."""
        return _generated(self.status.resource_claim_statuses)

    @property
    def claims(self) -> dict[DeviceClaimKey, None]:
        """All claims it names, in order."""
        names = [*(one.resource_claim_name for one in self.spec.resource_claims), *self.generated.values()]
        return dict.fromkeys(DeviceClaimKey(self.metadata.namespace, name) for name in names if name)


def _generated(statuses: tuple[PodClaim, ...]) -> dict[str, str]:
    return {one.name: one.resource_claim_name for one in statuses if one.resource_claim_name}


class GroupMembers:
    """The pods with claims of each PodGroup."""

    def __init__(self) -> None:
        #: (namespace, group) -> pods, and the reverse.
        self._pods: dict[tuple[str, str], dict[Key, None]] = {}
        self._groups: dict[Key, tuple[str, str]] = {}

    def follow(self, event: Event) -> None:
        """Apply a change of a pod."""
        stored = event.stored
        key = Key(stored.namespace, stored.name, stored.uid)
        if event.type == "DELETED":
            if (group := self._groups.pop(key, None)) is not None:
                del self._pods[group][key]
                if not self._pods[group]:
                    del self._pods[group]
        elif key not in self._groups and may_claim(stored) and _GROUP_MARK in stored.data:
            # A pod never changes its group.
            group = stored.namespace, decode_json(stored.data, ClaimingPod).group
            self._groups[key] = group
            self._pods.setdefault(group, {})[key] = None

    def of(self, namespace: str, group: str) -> tuple[Key, ...]:
        return tuple(self._pods.get((namespace, group), ()))


def may_claim(pod: Stored) -> bool:
    return any(mark in pod.data for mark in _MARKS)
