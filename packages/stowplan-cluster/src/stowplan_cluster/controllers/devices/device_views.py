"""Pods and pod groups as users of resource claims, for the device controllers."""

from __future__ import annotations

from stowplan.kube.api.types import PodGroup
from stowplan.kube.claims.claim_terms import ClaimKey
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.reconcile.pods import Pod, decode_pod
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


def is_done(pod: Pod) -> bool:
    """Whether it no longer uses its claims: it has ended, or will never start."""
    return pod.finished or (pod.terminating and not pod.spec.node_name)


def group_of(pod: Pod) -> str:
    """The name of its pod group; "" if it has none."""
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name or ""


def generated_claims(user: Pod | PodGroup) -> dict[str, str]:
    """Entry of the spec -> the claim that was made for it."""
    statuses = user.status.resource_claim_statuses
    return {one.name: one.resource_claim_name for one in statuses if one.resource_claim_name}


def claims_of(user: Pod | PodGroup) -> dict[ClaimKey, None]:
    """All claims it names, in order."""
    names = [*(one.resource_claim_name for one in user.spec.resource_claims), *generated_claims(user).values()]
    if isinstance(user, Pod) and user.status.extended_resource_claim_status is not None:
        names.append(user.status.extended_resource_claim_status.resource_claim_name)
    return dict.fromkeys(ClaimKey(user.metadata.namespace, name) for name in names if name)


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
            group = stored.namespace, group_of(decode_pod(stored))
            self._groups[key] = group
            self._pods.setdefault(group, {})[key] = None

    def of(self, namespace: str, group: str) -> tuple[Key, ...]:
        return tuple(self._pods.get((namespace, group), ()))


def may_claim(pod: Stored) -> bool:
    return any(mark in pod.data for mark in _MARKS)
