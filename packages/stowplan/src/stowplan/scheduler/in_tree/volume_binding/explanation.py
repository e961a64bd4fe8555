"""Explain claims: their state, the volumes tried, and volumes to create."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from stowplan.kube.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.kube.api.label_selectors import IN
from stowplan.kube.api.meta import ObjectMeta, reference_to
from stowplan.kube.api.node_selectors import NodeSelectorMatcher
from stowplan.kube.api.quantity import Format, format_quantity
from stowplan.kube.api.types import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
)
from stowplan.kube.claims.claim_terms import (
    BIND_COMPLETED,
    SELECTED_NODE,
    ClaimRequirements,
    class_name_of,
    is_fully_bound,
    size_in,
    wanted_by,
)
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.framework.explanations.explanation import Explanation
from stowplan.scheduler.framework.explanations.formatting import count, joined, requirement_text, sentence
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.explanations.remedy import Change, Remedy, Way
from stowplan.scheduler.framework.status import Reason, Status
from stowplan.scheduler.in_tree.volume_binding.claims import (
    BoundVolume,
    Claim,
    DelayedClaim,
    affinity_of,
    compiled,
    uses_of,
)
from stowplan.scheduler.in_tree.volume_binding.judging import (
    AFFINITY_MISMATCH,
    NO_CAPACITY,
    NO_VOLUME,
    VOLUME_GONE,
)
from stowplan.scheduler.in_tree.volume_binding.plugin import VolumeBinding
from stowplan.scheduler.in_tree.volume_binding.provisioning import (
    BY_STORAGE_CLASS,
    accessible_from,
    limit_of,
    topology_of,
)
from stowplan.scheduler.in_tree.volume_binding.volumes import NONE, Volume

#: Maximum number of affinity terms listed.
_SHOWN_TERMS = 2


class VolumeBindingExplanation(Explanation):
    def __init__(self, inspection: Inspection, plugin: VolumeBinding) -> None:
        super().__init__(inspection)
        self._plugin = plugin
        self._objects = inspection.cluster.objects
        claims = plugin.claims(inspection.pod)
        self._claims: list[Claim] = [] if isinstance(claims, Status) else claims
        self.waiting = [claim for claim in self._claims if isinstance(claim.state, DelayedClaim)]
        plugin.node_sets.refresh()
        self._judgement = plugin.judge.judge(compiled(self._claims))

    # -- details ------------------------------------------------------------------------------------------------------

    def detail(self, row: int, reason: Reason) -> str:
        if reason.code == AFFINITY_MISMATCH.code:
            return sentence(self._elsewhere(row))
        if reason.code == VOLUME_GONE.code:
            return sentence(self._gone())
        if reason.code == NO_VOLUME.code:
            return sentence(self._without_volume(i, row) for i in self.unmatched(row))
        if reason.code == NO_CAPACITY.code:
            return sentence(self._room(i, row) for i in self.unmatched(row))
        return ""

    def _gone(self) -> Iterator[str]:
        for claim in self._claims:
            if isinstance(claim.state, BoundVolume) and claim.state.missing:
                yield f"claim {_name(claim)} is bound to volume {claim.obj.spec.volume_name}, which does not exist"

    def _elsewhere(self, row: int) -> Iterator[str]:
        labels = self.inspection.node(row).metadata.labels
        for claim, affinity in self._bound():
            if affinity is not None and not affinity.matches(labels, ""):
                yield f"volume {claim.obj.spec.volume_name} of claim {_name(claim)} can be used from {where(affinity)}"

    def _bound(self) -> Iterator[tuple[Claim, NodeSelectorMatcher | None]]:
        for claim in self._claims:
            if isinstance(claim.state, BoundVolume) and not claim.state.missing:
                yield claim, claim.state.affinity

    def unmatched(self, row: int) -> list[int]:
        """Claims without a volume on a row, by index among the waiting ones."""
        matched, provisions = self._judgement.matched, self._judgement.provisions
        return [
            i
            for i in range(len(self.waiting))
            if not (i in matched and matched[i][row] != NONE) and not (i in provisions and provisions[i].rows[row])
        ]

    def _without_volume(self, i: int, row: int) -> str:
        claim = self.waiting[i]
        state = claim.state
        assert isinstance(state, DelayedClaim)
        if state.selected_node is not None and state.selected_node != self.inspection.names[row]:
            return f"for claim {_name(claim)} a volume is being made on node {state.selected_node}"
        wanted = state.wanted
        return f"claim {_name(claim)} wants {_wanted_text(wanted)}: {self._tried(wanted)}, and {self._made(wanted)}"

    def _made(self, wanted: ClaimRequirements) -> str:
        storage_class = self._objects.get(StorageClass, wanted.class_name)
        if storage_class is None or not self._plugin.provisioning.makes(storage_class):
            return "none is made for the class"
        if storage_class.allowed_topologies:
            return f"volumes are made on nodes with {where(topology_of(storage_class.allowed_topologies))} only"
        return "none is made here"

    def _tried(self, wanted: ClaimRequirements) -> str:
        """Free volumes of the class, and why each does not match."""
        found = Counter(_mismatch(wanted, volume) for volume in self._plugin.volumes.free(wanted.class_name))
        if not found:
            return "the class has no free volume" if wanted.class_name else "no volume without a class is free"
        ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return f"of {count(found.total(), 'free volume')} {', '.join(f'{n:,} {why}' for why, n in ranked)}"

    def _room(self, i: int, row: int) -> str:
        claim = self.waiting[i]
        assert isinstance(claim.state, DelayedClaim)
        wanted = claim.state.wanted
        limits = [
            limit
            for capacity in self._objects.indexed(CSIStorageCapacity, BY_STORAGE_CLASS, wanted.class_name)
            if (limit := limit_of(capacity)) is not None and self._speaks_for(capacity, row)
        ]
        most = f"there is room for {_size(max(limits) * 10**9)} at most" if limits else "no object reports capacity"
        return f"claim {_name(claim)} wants {_wanted_text(wanted)}, and {most}"

    def _speaks_for(self, capacity: CSIStorageCapacity, row: int) -> bool:
        topology = accessible_from(capacity)
        return topology is not None and topology.matches(self.inspection.node(row).metadata.labels, "")

    # -- facts --------------------------------------------------------------------------------------------------------

    def obstacles(self) -> Iterator[str]:
        if self._claims:
            yield from self._gone()
            yield from self._unreachable()
            return
        for use in uses_of(self.inspection.pod):
            claim = self._objects.get(PersistentVolumeClaim, f"{self.inspection.pod.namespace}/{use.name}")
            if claim is not None and not is_fully_bound(claim):
                yield from self._unbound(claim)

    def _unreachable(self) -> Iterator[str]:
        valid = self.inspection.valid
        for claim, affinity in self._bound():
            if affinity is not None and valid.any() and not (valid & self._plugin.node_sets.mask(affinity)).any():
                yield (
                    f"volume {claim.obj.spec.volume_name} of claim {_name(claim)} can be used from {where(affinity)}, "
                    "and no node is there"
                )

    def _unbound(self, claim: PersistentVolumeClaim) -> Iterator[str]:
        """Why a claim is not bound that has to be before the pod is scheduled."""
        name, class_name = claim.metadata.name, class_name_of(claim)
        storage_class = self._objects.get(StorageClass, class_name) if class_name else None
        if claim.spec.volume_name:
            volume = self._objects.get(PersistentVolume, claim.spec.volume_name)
            there = "which is not bound to it yet" if volume is not None else "which does not exist"
            yield f"claim {name} names volume {claim.spec.volume_name}, {there}"
        elif class_name and storage_class is None:
            yield f"claim {name} is not bound: there is no storage class {class_name}"
        elif storage_class is None or storage_class.volume_binding_mode == "Immediate":
            wanted = wanted_by(claim)
            makes = storage_class is not None and self._plugin.provisioning.makes(storage_class)
            by = f"provisioner {storage_class.provisioner} has made none" if storage_class and makes else "none is made"
            if not class_name and claim.spec.storage_class_name is None:
                by = f"{by}, as it names no class and none is the default"
            yield f"claim {name} waits to be bound to {_wanted_text(wanted)}: {self._tried(wanted)}, and {by}"

    # -- remedies ------------------------------------------------------------------------------------------------------

    def remedy(self, mask: Mask) -> Remedy:
        return _CreateVolumes(self, mask)

    def ways_for_pod(self) -> list[Way]:
        claims = [
            claim
            for use in uses_of(self.inspection.pod)
            if (claim := self._objects.get(PersistentVolumeClaim, f"{self.inspection.pod.namespace}/{use.name}"))
            and not is_fully_bound(claim)
            and not claim.spec.volume_name
        ]
        # The PV controller would bind them once there are volumes.
        changes = [
            _creation(claim, volume, (bound_volume, bound_claim))
            for claim in claims
            for volume in [self.new_volume(claim, None)]
            for bound_volume, bound_claim in [_bound_to_each_other(volume, claim)]
        ]
        return [tuple(changes)] if changes else []

    def new_volume(self, claim: PersistentVolumeClaim, row: int | None) -> PersistentVolume:
        """A suitable volume for a claim, optionally for a node."""
        spec, wanted = claim.spec, wanted_by(claim)
        requirement = None if row is None else self._place(wanted.class_name, row)
        return PersistentVolume(
            metadata=ObjectMeta(
                name=f"for-{claim.metadata.namespace}-{claim.metadata.name}",
                labels={} if spec.selector is None else dict(spec.selector.match_labels),
            ),
            spec=PersistentVolumeSpec(
                capacity={"storage": spec.resources.requests.get("storage", "1Gi")},
                access_modes=spec.access_modes,
                storage_class_name=wanted.class_name,
                volume_mode=spec.volume_mode,
                volume_attributes_class_name=spec.volume_attributes_class_name,
                node_affinity=None if requirement is None else _affinity(requirement),
            ),
            status=PersistentVolumeStatus(phase="Available"),
        )

    def _place(self, class_name: str, row: int) -> NodeSelectorRequirement | None:
        """The location of a new volume, by the label that the class's volumes use."""
        labels = self.inspection.node(row).metadata.labels
        keys: Counter[str] = Counter()
        for volume in self._objects.all(PersistentVolume):
            affinity = affinity_of(volume) if class_name_of(volume) == class_name else None
            for term in () if affinity is None else affinity.terms:
                keys.update({requirement.key for requirement in term.expressions if requirement.key in labels})
        if not keys:
            return None
        key = min(keys, key=lambda key: (-keys[key], key))
        return NodeSelectorRequirement(key=key, operator=IN, values=(labels[key],))


class _CreateVolumes(Remedy):
    """Nodes that only lack a volume gain from a new one; nodes that lack storage capacity do not."""

    def __init__(self, explanation: VolumeBindingExplanation, mask: Mask) -> None:
        super().__init__(explanation.inspection, mask)
        self._explanation = explanation
        lacking = self._refused_for(NO_VOLUME) & mask
        for reason in (AFFINITY_MISMATCH, NO_CAPACITY, VOLUME_GONE):
            lacking &= ~self._refused_for(reason)
        rows = np.flatnonzero(lacking)
        if len(rows):
            self.add_class(rows)

    def _refused_for(self, reason: Reason) -> Mask:
        return self.inspection.refused_for("VolumeBinding", reason)

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        row = int(rows[0])
        waiting = self._explanation.waiting
        claims = [waiting[i].obj for i in self._explanation.unmatched(row)]
        if any(SELECTED_NODE in claim.metadata.annotations for claim in claims):
            return []
        volumes = [self._explanation.new_volume(claim, row) for claim in claims]
        return [tuple(_creation(c, v, (v,)) for c, v in zip(claims, volumes, strict=True))]


def _creation(claim: PersistentVolumeClaim, volume: PersistentVolume, objects: Iterable[object]) -> Change:
    wanted = wanted_by(claim)
    size = size_in(volume.spec.capacity) or 0
    parts = [f"of class {wanted.class_name}"] if wanted.class_name else []
    parts += [f"with {joined(sorted(wanted.access_modes))}"] if wanted.access_modes else []
    parts += ["as a block device"] if wanted.volume_mode == "Block" else []
    affinity = affinity_of(volume)
    parts += [f"usable from {where(affinity)}"] if affinity is not None else []
    text = f"create a volume of {_size(size)} {', '.join(parts)} for claim {claim.metadata.name}"
    data = {
        "claim": f"{claim.metadata.namespace}/{claim.metadata.name}",
        "storage": volume.spec.capacity["storage"],
        "storageClassName": wanted.class_name,
        "accessModes": sorted(wanted.access_modes),
    }
    if affinity is not None:
        data["nodes"] = where(affinity)
    return Change("volumes", text, data, objects=tuple(objects))


def _bound_to_each_other(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> tuple[PersistentVolume, PersistentVolumeClaim]:
    annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
    return (
        replace(volume, spec=replace(volume.spec, claim_ref=reference_to(claim))),
        replace(
            claim,
            metadata=replace(claim.metadata, annotations=annotations),
            spec=replace(claim.spec, volume_name=volume.metadata.name),
        ),
    )


def _mismatch(wanted: ClaimRequirements, volume: Volume) -> str:
    if volume.size < (wanted.size or 0):
        return "too small"
    if volume.volume_mode != wanted.volume_mode:
        return f"of mode {volume.volume_mode}"
    if volume.attributes_class != wanted.attributes_class:
        return "of another attributes class"
    if not wanted.access_modes <= volume.access_modes:
        return f"without {joined(sorted(wanted.access_modes - volume.access_modes))}"
    if wanted.selector is not None and not wanted.selector.matches(volume.labels):
        return "that the claim's selector leaves out"
    return "not usable from this node" if volume.affinity is not None else "for another claim of the pod"


def _affinity(requirement: NodeSelectorRequirement) -> VolumeNodeAffinity:
    term = NodeSelectorTerm(match_expressions=(requirement,))
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))


def where(affinity: NodeSelectorMatcher) -> str:
    terms = [",".join(map(requirement_text, term.expressions)) for term in affinity.terms if not term.errors]
    if not terms:
        return "no node"
    shown = " or ".join(terms[:_SHOWN_TERMS])
    return shown if len(terms) <= _SHOWN_TERMS else f"{shown}, …"


def _wanted_text(wanted: ClaimRequirements) -> str:
    size = "" if wanted.size is None else f" of {_size(wanted.size)}"
    of_class = f" of class {wanted.class_name}" if wanted.class_name else ""
    return f"a volume{size}{of_class}"


def _size(nano: int) -> str:
    return format_quantity(nano, Format.BINARY_SI)


def _name(claim: Claim) -> str:
    return claim.obj.metadata.name
