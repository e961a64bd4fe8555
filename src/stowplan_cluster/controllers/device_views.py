"""Views of pods and resource claims for the device controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stowplan.api.meta import ApiStruct, ObjectMeta
from stowplan.api.pod import FINISHED

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.store import Stored

RESOURCE_CLAIMS = "resourceclaims.resource.k8s.io"
CLAIM_TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"

#: What the JSON of a pod has that has to do with claims for devices; others need not be decoded.
_MARKS = (b'"resourceClaims":', b'"extendedResourceClaimStatus":')


class DeviceClaimKey(NamedTuple):
    """A claim for devices, whichever has this name."""

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


class ClaimingSpec(ApiStruct, frozen=True, kw_only=True):
    node_name: str = ""
    resource_claims: tuple[PodClaim, ...] = ()


class ClaimingStatus(ApiStruct, frozen=True, kw_only=True):
    phase: str = ""
    #: Entries of the spec that have a claim (of a template), by `name`.
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
        """Whether it uses its claims no longer: it has ended, or will never begin."""
        return self.status.phase in FINISHED or (self.deleting and not self.spec.node_name)

    @property
    def generated(self) -> dict[str, str]:
        """Entry of the spec -> the claim that was made for it."""
        statuses = self.status.resource_claim_statuses
        return {one.name: one.resource_claim_name for one in statuses if one.resource_claim_name}

    @property
    def claims(self) -> dict[DeviceClaimKey, None]:
        """All claims it names, in order."""
        names = [one.resource_claim_name for one in self.spec.resource_claims]
        names += self.generated.values()
        if self.status.extended_resource_claim_status is not None:
            names.append(self.status.extended_resource_claim_status.resource_claim_name)
        return dict.fromkeys(DeviceClaimKey(self.metadata.namespace, name) for name in names if name)


def may_claim(pod: Stored) -> bool:
    return any(mark in pod.data for mark in _MARKS)
