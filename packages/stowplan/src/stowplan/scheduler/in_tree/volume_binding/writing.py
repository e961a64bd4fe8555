"""Reserve: assume a pod's volumes. PreBind: write reserved bindings and wait until the claims are bound.

Claims are bound and volumes provisioned by other components: the PV controller, and the drivers' provisioners. So this
checks each change of the objects involved, and gives up on a timeout or a permanent failure. It runs as steps, so
waiting blocks no other pod.

Upstream: AssumePodVolumes, RevertAssumedPodVolumes, BindPodVolumes, bindAPIUpdate and checkBindings of
volumebinding/binder.go.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import msgspec
from msgspec import field
from msgspec.structs import replace

from stowplan.kube.api.api_errors import Conflict
from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim
from stowplan.kube.claims.claim_terms import BOUND_BY_CONTROLLER, SELECTED_NODE, bound_to, is_fully_bound
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.assumed_objects import AssumedObjects
from stowplan.scheduler.cluster.in_flight import is_older
from stowplan.scheduler.cluster.objects import key_of
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.requests import Done, Key, Outcome, Patch, Request, Steps, Wait
from stowplan.scheduler.framework.status import Status, error
from stowplan.scheduler.in_tree.volume_binding.claims import usable_where
from stowplan.scheduler.in_tree.volume_binding.judging import Judge
from stowplan.scheduler.in_tree.volume_binding.node_sets import NodeSets

TIMED_OUT = "context deadline exceeded"
#: Timeout in seconds for the watch to deliver a version that the API server has.
_NEWS = 10.0

V = TypeVar("V", PersistentVolume, PersistentVolumeClaim)
T = TypeVar("T")
Writing = Generator["Request | Wait", "Outcome", T]


class BindingError(Exception):
    """The claims cannot be bound as reserved."""


class Writer:
    """Writes and waits for one pod's claims."""

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

    def _write(self, reserved: Reserved) -> Writing[Status | None]:
        """Write until the first failure; what was not written is then released."""
        for i, binding in enumerate(reserved.bindings):
            written = yield from self._written(binding.volume, _binding_of(binding.volume), _is_same_binding)
            if isinstance(written, Exception):
                return self._failed(reserved, written, bindings=i, provisions=0)
            binding.volume = written
        for i, claim in enumerate(reserved.provisions):
            selected = yield from self._written(claim, _selection_of(claim), _is_same_selection)
            if isinstance(selected, Exception):
                return self._failed(reserved, selected, bindings=len(reserved.bindings), provisions=i)
            reserved.provisions[i] = selected
        return None

    def _written(self, obj: V, request: Patch, says_the_same: Callable[[V, V], bool]) -> Writing[V | Exception]:
        """Write an object; return the result, or why it was not written.

        Another pod with the same claim may have written the same already. The reference fails then, and retries the
        pod.
        """
        outcome = yield request
        if isinstance(outcome, Done):
            return _answered(outcome, obj)
        if not isinstance(outcome.error, Conflict):
            return outcome.error
        key, known = key_of(obj.metadata), self._cluster.objects
        newest = known.get(type(obj), key)
        if newest is not None and newest.metadata.resource_version == obj.metadata.resource_version:
            # The watch is about to deliver a newer version.
            name = f"{obj.metadata.namespace}/{obj.metadata.name}"
            yield Wait(keys=frozenset({(type(obj).__name__, name)}), seconds=_NEWS)
            newest = known.get(type(obj), key)
        return newest if newest is not None and says_the_same(newest, obj) else outcome.error

    def _failed(self, reserved: Reserved, problem: Exception, *, bindings: int, provisions: int) -> Status:
        for binding in reserved.bindings[bindings:]:
            self._cluster.assumed.forget(binding.volume)
        for claim in reserved.provisions[provisions:]:
            self._cluster.assumed.forget(claim)
        return error(problem)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _keys(self, reserved: Reserved) -> frozenset[Key]:
        """The objects to watch while the binding is pending."""
        keys: set[Key] = {("Node", f"/{self._node_name}"), ("Pod", f"{self._pod.namespace}/{self._pod.name}")}
        for binding in reserved.bindings:
            keys.add(("PersistentVolume", f"/{binding.volume.metadata.name}"))
            keys.add(("PersistentVolumeClaim", key_of(binding.claim.metadata)))
        for claim in reserved.provisions:
            keys.add(("PersistentVolumeClaim", key_of(claim.metadata)))
            watched = self._cluster.objects.get(PersistentVolumeClaim, key_of(claim.metadata))
            if watched is not None and watched.spec.volume_name:
                keys.add(("PersistentVolume", f"/{watched.spec.volume_name}"))
        return frozenset(keys)

    def _all_bound(self, reserved: Reserved) -> bool:
        """Whether all claims are bound; raises BindingError if they cannot be."""
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
        watched = self._cluster.objects.get(PersistentVolumeClaim, key_of(claim.metadata))
        if watched is None:
            raise BindingError(f'failed to check binding: persistentvolumeclaims "{key_of(claim.metadata)}" not found')
        if is_older(volume, written):
            return False
        self._check_affinity(volume)
        reference = volume.spec.claim_ref
        # Claims from files may have no UID.
        if reference is None or (watched.metadata.uid and not reference.uid):
            raise BindingError(f'ClaimRef got reset for pv "{name}"')
        return is_fully_bound(watched)

    def _is_provisioned(self, written: PersistentVolumeClaim) -> bool:
        key, name = key_of(written.metadata), written.metadata.name
        claim = self._cluster.objects.get(PersistentVolumeClaim, key)
        if claim is None:
            raise BindingError(f'failed to check provisioning pvc: persistentvolumeclaims "{key}" not found')
        if is_older(claim, written):
            return False
        if not claim.metadata.annotations:
            raise BindingError(f'selectedNode annotation reset for PVC "{name}"')
        if claim.metadata.annotations.get(SELECTED_NODE, "") != self._node_name:
            # The provisioner removes the annotation if it cannot provision for that node.
            raise BindingError(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume = self._cluster.objects.get(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                # The claim may be delivered before its volume.
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

    A patch, because not all fields of the volume are known here.
    """
    annotations = {BOUND_BY_CONTROLLER: volume.metadata.annotations.get(BOUND_BY_CONTROLLER)}
    body = {
        "metadata": _metadata(volume, {key: value for key, value in annotations.items() if value is not None}),
        "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)},
    }
    return Patch(kind=PersistentVolume, namespace="", name=volume.metadata.name, body=body, type_="merge")


def _selection_of(claim: PersistentVolumeClaim) -> Patch:
    """The request that selects a node for a claim."""
    body = {"metadata": _metadata(claim, {SELECTED_NODE: claim.metadata.annotations[SELECTED_NODE]})}
    namespace = claim.metadata.namespace
    return Patch(kind=PersistentVolumeClaim, namespace=namespace, name=claim.metadata.name, body=body, type_="merge")


def _is_same_binding(volume: PersistentVolume, wanted: PersistentVolume) -> bool:
    mine, wants = volume.spec.claim_ref, wanted.spec.claim_ref
    return (
        mine is not None
        and wants is not None
        and (mine.namespace, mine.name, mine.uid)
        == (
            wants.namespace,
            wants.name,
            wants.uid,
        )
    )


def _is_same_selection(claim: PersistentVolumeClaim, wanted: PersistentVolumeClaim) -> bool:
    return claim.metadata.annotations.get(SELECTED_NODE) == wanted.metadata.annotations[SELECTED_NODE]


def _metadata(obj: PersistentVolume | PersistentVolumeClaim, annotations: dict[str, str]) -> dict[str, Any]:
    """With the resourceVersion that the decision is based on: a conflict otherwise."""
    found: dict[str, Any] = {"annotations": annotations} if annotations else {}
    if obj.metadata.resource_version:
        found["resourceVersion"] = obj.metadata.resource_version
    if obj.metadata.uid:
        found["uid"] = obj.metadata.uid
    return found


def _answered(outcome: Done, sent: V) -> V:
    """The object as it was written."""
    return outcome.value if isinstance(outcome.value, type(sent)) else sent


class Binding(PlainStruct):
    """A volume for a claim."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


class Reserved(PlainStruct):
    """What a pod reserved on its node; objects are replaced by the API server's responses once they are written."""

    all_bound: bool = False
    bindings: list[Binding] = field(default_factory=list)
    #: Claims for which volumes are to be provisioned.
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)


def assume(reserved: Reserved, volume: PersistentVolume, claim: PersistentVolumeClaim, assumed: AssumedObjects) -> None:
    """Assume that the volume is bound to the claim; raises AssumeError."""
    bound = bound_to(volume, claim)
    if bound is not volume:
        assumed.assume(bound)
    reserved.bindings.append(Binding(bound, claim))


def assume_provision(reserved: Reserved, claim: PersistentVolumeClaim, node_name: str, assumed: AssumedObjects) -> None:
    """Assume that a volume is provisioned for the claim on the node; raises AssumeError."""
    annotations = {**claim.metadata.annotations, SELECTED_NODE: node_name}
    copy = replace(claim, metadata=replace(claim.metadata, annotations=annotations))
    assumed.assume(copy)
    reserved.provisions.append(copy)


def give_back(reserved: Reserved, assumed: AssumedObjects) -> None:
    """Drop the assumed copies, except for objects that were written: the watch will deliver those."""
    for binding in reserved.bindings:
        assumed.forget(binding.volume)
    for claim in reserved.provisions:
        assumed.forget(claim)
