"""PreBind: write reserved bindings and wait until the claims are bound.

Whoever binds claims and makes volumes is somebody else: the binder in the controller manager, and the drivers'
provisioners. So there is nothing to do but to look at each change of the objects in question, and to give up once that
takes too long or can come to nothing. It runs as steps: who waits keeps no other pod waiting.

Upstream: BindPodVolumes, bindAPIUpdate and checkBindings of volumebinding/binder.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.api.types import PersistentVolume, PersistentVolumeClaim
from stowplan.framework.requests import Done, Patch, Wait
from stowplan.framework.status import Status, error
from stowplan.in_tree.common.annotations import BOUND_BY_CONTROLLER, SELECTED_NODE
from stowplan.in_tree.volume_binding.claims import is_fully_bound, usable_where

if TYPE_CHECKING:
    from collections.abc import Generator

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState
    from stowplan.framework.requests import Key, Outcome, Request, Steps
    from stowplan.in_tree.volume_binding.judging import Judge
    from stowplan.in_tree.volume_binding.node_sets import NodeSets
    from stowplan.in_tree.volume_binding.reserving import Reserved

TIMED_OUT = "context deadline exceeded"


class BindingError(Exception):
    """The claims will not be bound as they were reserved."""


class Writer:
    """One pod's claims on their way."""

    def __init__(
        self, cluster: ClusterState, *, judge: Judge, node_sets: NodeSets, pod: PodInfo, node_name: str
    ) -> None:
        self._cluster = cluster
        self._judge = judge
        self._node_sets = node_sets
        self._pod = pod
        self._node_name = node_name

    def steps(self, reserved: Reserved, timeout: float) -> Steps:
        failed = yield from self._write(reserved)
        if failed is not None:
            return failed
        left = timeout
        while True:
            try:
                if self._all_bound(reserved):
                    return None
            except BindingError as e:
                return error(f"binding volumes: {e}")
            if left <= 0:
                return error(f"binding volumes: {TIMED_OUT}")
            outcome = yield Wait(keys=self._keys(reserved), seconds=left)
            assert isinstance(outcome, Done)
            left -= outcome.value

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write(self, reserved: Reserved) -> Generator[Request | Wait, Outcome, Status | None]:
        """The first failure ends it: what is not written by then is given back."""
        for i, binding in enumerate(reserved.bindings):
            outcome = yield _binding_of(binding.volume)
            if not isinstance(outcome, Done):
                return self._failed(reserved, outcome.error, bindings=i, provisions=0)
            binding.volume = _answered(outcome, binding.volume)
        for i, claim in enumerate(reserved.provisions):
            outcome = yield _selection_of(claim)
            if not isinstance(outcome, Done):
                return self._failed(reserved, outcome.error, bindings=len(reserved.bindings), provisions=i)
            reserved.provisions[i] = _answered(outcome, claim)
        return None

    def _failed(self, reserved: Reserved, problem: Exception, *, bindings: int, provisions: int) -> Status:
        for binding in reserved.bindings[bindings:]:
            self._cluster.assumed.forget(binding.volume)
        for claim in reserved.provisions[provisions:]:
            self._cluster.assumed.forget(claim)
        return error(problem)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _keys(self, reserved: Reserved) -> frozenset[Key]:
        """The objects whose changes may mean something."""
        keys: set[Key] = {("Node", f"/{self._node_name}"), ("Pod", f"{self._pod.namespace}/{self._pod.name}")}
        for binding in reserved.bindings:
            keys.add(("PersistentVolume", f"/{binding.volume.metadata.name}"))
            keys.add(("PersistentVolumeClaim", _key(binding.claim)))
        for claim in reserved.provisions:
            keys.add(("PersistentVolumeClaim", _key(claim)))
            watched = self._cluster.objects.get(PersistentVolumeClaim, _key(claim))
            if watched is not None and watched.spec.volume_name:
                keys.add(("PersistentVolume", f"/{watched.spec.volume_name}"))
        return frozenset(keys)

    def _all_bound(self, reserved: Reserved) -> bool:
        """Whether nothing is left to be waited for; raises BindingError if it will not come."""
        if self._node_name not in self._cluster.table.row_of:
            raise BindingError(f'failed to get node "{self._node_name}": node "{self._node_name}" not found')
        if self._cluster.newest(self._pod.uid) is None:
            name = self._pod.pod.metadata.name
            raise BindingError(f'pod does not exist any more: pod "{name}" not found')
        return all(self._is_bound(binding.volume, binding.claim) for binding in reserved.bindings) and all(
            self._is_provisioned(claim) for claim in reserved.provisions
        )

    def _is_bound(self, written: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        name = written.metadata.name
        volume = self._cluster.objects.get(PersistentVolume, name)
        if volume is None:
            raise BindingError(f'failed to check binding: persistentvolumes "{name}" not found')
        watched = self._cluster.objects.get(PersistentVolumeClaim, _key(claim))
        if watched is None:
            raise BindingError(f'failed to check binding: persistentvolumeclaims "{_key(claim)}" not found')
        if _is_older(volume, written):
            return False
        self._check_affinity(volume)
        reference = volume.spec.claim_ref
        # Claims from files may have no UID.
        if reference is None or (watched.metadata.uid and not reference.uid):
            raise BindingError(f'ClaimRef got reset for pv "{name}"')
        return is_fully_bound(watched)

    def _is_provisioned(self, written: PersistentVolumeClaim) -> bool:
        key, name = _key(written), written.metadata.name
        claim = self._cluster.objects.get(PersistentVolumeClaim, key)
        if claim is None:
            raise BindingError(f'failed to check provisioning pvc: persistentvolumeclaims "{key}" not found')
        if _is_older(claim, written):
            return False
        if not claim.metadata.annotations:
            raise BindingError(f'selectedNode annotation reset for PVC "{name}"')
        if claim.metadata.annotations.get(SELECTED_NODE, "") != self._node_name:
            # The provisioner takes the annotation away from a claim that it cannot serve there.
            raise BindingError(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume = self._cluster.objects.get(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                # The claim may be seen before its volume.
                return False
            self._check_affinity(volume)
        return is_fully_bound(claim)

    def _check_affinity(self, volume: PersistentVolume) -> None:
        where, matcher = usable_where(volume), None
        row = self._cluster.table.row_of[self._node_name]
        self._node_sets.refresh()
        if where.plugin and bool(self._judge.migrated(where.plugin)[row]):
            if where.problem:
                raise BindingError(f"failed to translate pv to csi: {where.problem}")
            matcher = where.migrated
        else:
            matcher = where.affinity
        node = self._cluster.table.nodes[row]
        assert node is not None
        if matcher is not None and not matcher.matches(node.metadata.labels, ""):
            raise BindingError(
                f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{self._node_name}": '
                "no matching NodeSelectorTerms"
            )


def _binding_of(volume: PersistentVolume) -> Patch:
    """The request that binds a volume to a claim.

    A patch, as what is known here of a volume is not all of it.
    """
    annotations = {BOUND_BY_CONTROLLER: volume.metadata.annotations.get(BOUND_BY_CONTROLLER)}
    body = {
        "metadata": _metadata(volume, {key: value for key, value in annotations.items() if value is not None}),
        "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)},
    }
    return Patch(kind=PersistentVolume, namespace="", name=volume.metadata.name, body=body, type_="merge")


def _selection_of(claim: PersistentVolumeClaim) -> Patch:
    """The request that has a volume made for a claim."""
    body = {"metadata": _metadata(claim, {SELECTED_NODE: claim.metadata.annotations[SELECTED_NODE]})}
    namespace = claim.metadata.namespace
    return Patch(kind=PersistentVolumeClaim, namespace=namespace, name=claim.metadata.name, body=body, type_="merge")


def _metadata(obj: PersistentVolume | PersistentVolumeClaim, annotations: dict[str, str]) -> dict[str, Any]:
    """With the version that was decided on: the API server refuses to change another one."""
    found: dict[str, Any] = {"annotations": annotations} if annotations else {}
    if obj.metadata.resource_version:
        found["resourceVersion"] = obj.metadata.resource_version
    if obj.metadata.uid:
        found["uid"] = obj.metadata.uid
    return found


def _answered(outcome: Done, sent: Any) -> Any:
    """The object as it was written."""
    return outcome.value if isinstance(outcome.value, type(sent)) else sent


def _is_older(watched: PersistentVolume | PersistentVolumeClaim, written: Any) -> bool:
    """Whether the watch has not come up to what was written."""
    seen, wanted = watched.metadata.resource_version, written.metadata.resource_version
    if not wanted.isdecimal():
        return False
    # An object from a file has no version until it is written.
    return not seen.isdecimal() or int(seen) < int(wanted)


def _key(claim: PersistentVolumeClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
