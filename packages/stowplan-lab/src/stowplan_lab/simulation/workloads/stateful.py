"""Model the StatefulSet controller: pods with stable names, each with persistent claims of its own.

Pods are named name-0, name-1 and so on; a lost one is recreated under its name once the old one is gone, with the same
claims. Scaling down removes the highest ordinals and keeps their claims.

With `podManagementPolicy: OrderedReady`, the default, there is one step at a time: a pod is created when all those
before it have been running for `minReadySeconds`; one is deleted when all others are running and the one after it is
gone. With Parallel there are no such waits. A pod counts as running from its start until it is deleted or its node
fails.

A rollout replaces pods from the highest ordinal down to `partition`, each when the one before it is available again
(`maxUnavailable`: several at a time). Those below the partition keep the previous template, even if they are recreated.
As on a cluster, an ordered set whose new pods do not start is stuck, and a rollback does not fix it.

Upstream: pkg/controller/statefulset.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from msgspec.structs import replace

from stowplan.kube.api.pod import PodSpec
from stowplan.kube.api.types import PersistentVolumeClaim, Pod
from stowplan.kube.api.volumes import PersistentVolumeClaimVolumeSource, Volume
from stowplan.kube.api.whole_numbers import share
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.workloads.owners import UPDATED, Template, WorkloadController, named_pod
from stowplan_lab.simulation.workloads.revisions import ON_DELETE, REVISION, Revisions

_POD_NAME, _INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
#: Seconds between checks whether an old pod is gone.
_AGAIN = 1.0


class StatefulSetController(WorkloadController):
    def __init__(self, context: SimulationContext, template: Template, name: str, chance: Random) -> None:
        super().__init__(context, template, name, chance)
        #: Name -> number of its pods so far.
        self._times: Counter[str] = Counter()
        #: Name -> its spec, with its claims.
        self._specs: dict[str, PodSpec] = {}
        self._will_look = False
        self._revisions = Revisions(template, REVISION)
        #: The revision of pods below the partition.
        self._before = 0
        #: UID of the pod that was deleted last.
        self._removed = ""
        if template.ordered or template.update is not None:
            self._on_start = self._begun

    def roll_out(self, template: Template | None) -> None:
        if all(self._revision_of(name) == self._revisions.current for name in self._active):
            self._before = self._revisions.current
        revisions = self._revisions
        self._template = revisions.turn_to(template) if template else revisions.restart(self._context.now)
        self._specs.clear()
        self._reconcile()

    def _reconcile(self) -> None:
        ordered = self._template.ordered
        for index in range(self.replicas):
            name = f"{self._name}-{index}"
            if name not in self._active:
                if not self._may_make(name):
                    continue
                self._make_named(name, index)
            if ordered and not self._is_available(name):
                return
        surplus = sorted((name for name in self._active if _index(name) >= self.replicas), key=_index)
        if not ordered:
            for name in reversed(surplus):
                self._remove(name)
        elif surplus:
            self._remove_last(surplus)
        if not surplus:
            self._advance()

    def _may_make(self, name: str) -> bool:
        return self._context.models.controllers or not self._times[name]

    def _remove_last(self, surplus: list[str]) -> None:
        """Delete the last surplus pod; the next one follows once it is gone."""
        last, failing = surplus[-1], next((name for name in surplus if not self._is_available(name)), None)
        if self._context.ledger.of(self._removed) is not None:
            self._look_again()
        elif self._is_available(last) or last == failing:
            self._removed = self._active[last]
            self._remove(last)
            self._look_again()

    def _replace(self) -> None:
        # Other pods may have waited for this one to go.
        self._context.later(self._context.models.controller_delay, self._reconcile)

    # -- rollouts -----------------------------------------------------------------------------------------------------

    def _revision_of(self, name: str) -> int:
        return self._revisions.of(self._context.ledger.of(self._active[name]))

    def _revision_at(self, index: int) -> int:
        """The revision that a pod with this ordinal should have."""
        update = self._template.update
        return (
            self._before if update is not None and index < update.rolling_update.partition else self._revisions.current
        )

    def _advance(self) -> None:
        """Replace outdated pods, starting with the highest ordinal."""
        update = self._template.update
        if update is None or update.type == ON_DELETE:
            return
        rolling = update.rolling_update
        names = [f"{self._name}-{index}" for index in range(self.replicas)]
        most = share(rolling.max_unavailable, self.replicas, round_up=False)
        # Parity: a percentage that rounds to zero counts as one.
        allowed = max(1, most) - sum(not self._is_available(name) for name in names)
        for index in reversed(range(rolling.partition, self.replicas)):
            name = names[index]
            if allowed > 0 and name in self._active and self._revision_of(name) != self._revision_at(index):
                allowed -= 1
                self._remove(name, UPDATED)
                self._look_again()

    # -- pods and claims ----------------------------------------------------------------------------------------------

    def _make_named(self, name: str, index: int) -> None:
        template, metadata = self._template, self._template.pod.metadata
        if self._context.store.find(Pod, metadata.namespace, name) is not None:
            self._look_again()
            return
        made_of = self._revisions.pod(self._revision_at(index))
        pod = named_pod(made_of, template.workload, name, owner=self._owner, again=self._times[name])
        self._times[name] += 1
        labels = {**pod.metadata.labels, _POD_NAME: name, _INDEX: str(index)}
        spec = self._spec_of(name, made_of.spec)
        self._arrive(replace(pod, metadata=replace(pod.metadata, labels=labels), spec=spec))

    def _look_again(self) -> None:
        if not self._will_look:
            self._will_look = True
            self._context.later(_AGAIN, self._looked)

    def _looked(self) -> None:
        self._will_look = False
        self._reconcile()

    def _spec_of(self, name: str, spec: PodSpec) -> PodSpec:
        if self._template.claims is None:
            return spec
        if name not in self._specs:
            # Claims are named after their template and the pod.
            claims = {claim.metadata.name.removesuffix(f"-{name}"): claim for claim in self._template.claims(name)}
            for claim in claims.values():
                metadata = claim.metadata
                if self._context.store.find(PersistentVolumeClaim, metadata.namespace, metadata.name) is None:
                    self._put(claim)
            kept = [volume for volume in spec.volumes if volume.name not in claims]
            own = [
                Volume(
                    name=one, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim.metadata.name)
                )
                for one, claim in claims.items()
            ]
            self._specs[name] = replace(spec, volumes=(*kept, *own))
        return self._specs[name]


def _index(name: str) -> int:
    return int(name.rpartition("-")[2])
