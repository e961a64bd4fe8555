"""A Deployment in virtual time: a ReplicaSet per revision, sized as the Deployment controller decides.

An earlier template becomes its revision again, so a rollback keeps the pods that were not replaced yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from stowplan.drivers.virtual_time.driver import Call
from stowplan.kube.api.meta import ObjectMeta, timestamp
from stowplan_cluster.reconcile.deployments import RECREATE, Step, next_step, oldest_first, replicas_annotations
from stowplan_cluster.reconcile.views import Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec
from stowplan_lab.simulation.results.ledger import Entry
from stowplan_lab.simulation.workloads.owners import (
    HASH,
    SCALED_DOWN,
    UPDATED,
    Revisions,
    Template,
    WorkloadController,
    named_pod,
)


class DeploymentController(WorkloadController):
    """A Deployment that is rolled out at some time."""

    def _set_up(self) -> None:
        super()._set_up()
        self._revisions = Revisions(self._template, HASH)
        #: By revision.
        self._sets: dict[int, ReplicaSet] = {}
        #: UID -> revision of pods that were deleted, and may still run.
        self._leaving: dict[str, int] = {}
        self._on_change = self._changed

    def begin(self) -> None:
        self._reconcile()

    def roll_out(self, template: Template | None) -> None:
        """Switch to another template; None: restart the current one."""
        min_ready = self._template.min_ready
        self._template = self._revisions.roll_out(template, self._context.now)
        if self._template.min_ready != min_ready:
            later = self._context.available_later(self._active.values(), self._template.min_ready)
            for when in {when for _, when in later}:
                self._context.time.at(when, Call(self._reconcile))
        self._reconcile()

    def lost(self, entry: Entry) -> None:
        self._leaving[entry.pod.metadata.uid] = self._revisions.of(entry)
        super().lost(entry)

    def _changed(self, entry: Entry) -> None:
        """One of its pods has started, and will become available, or is gone."""
        delay = self._context.models.controller_delay
        if entry.starts <= self._context.now and not entry.why:
            self._context.later(delay + self._template.min_ready, self._reconcile)
        elif entry.pod.metadata.uid in self._leaving and self._context.ledger.of(entry.pod.metadata.uid) is None:
            del self._leaving[entry.pod.metadata.uid]
            if self._template.update is not None and self._template.update.type == RECREATE:
                self._context.later(delay, self._reconcile)

    def _remove(self, name: str, why: str = SCALED_DOWN) -> None:
        if self._context.ledger.of(self._active[name]) is not None:
            self._leaving[self._active[name]] = self._revision_of(name)
        super()._remove(name, why)

    def _replace(self) -> None:
        # A lost pod may also allow the next step of the rollout.
        self._context.later(self._context.models.controller_delay, self._reconcile)

    def _revision_of(self, name: str) -> int:
        return self._revisions.of(self._context.ledger.of(self._active[name]))

    def _reconcile(self) -> None:
        """Do one step, and look again if there was one."""
        assert self._template.update is not None
        deployment = Deployment(spec=DeploymentSpec(replicas=self.replicas, strategy=self._template.update))
        names: dict[int, list[str]] = defaultdict(list)
        for name in self._active:
            names[self._revision_of(name)].append(name)
        step = self._next_step(deployment, names)
        created = step.create is not None
        if step.create is not None:
            self._create_set(step.create, replicas_annotations(deployment))
            step = self._next_step(deployment, names)
        for revision, one in self._sets.items():
            if one.metadata.name in step.sizes:
                metadata = replace(one.metadata, annotations=replicas_annotations(deployment))
                spec = ReplicaSetSpec(replicas=step.sizes[one.metadata.name])
                self._sets[revision] = replace(one, metadata=metadata, spec=spec)
            is_old = revision != self._revisions.current and not step.scaling
            why = UPDATED if is_old else SCALED_DOWN
            self._keep(self._sets[revision].spec.replicas, names[revision], partial(self._make_of, revision), why)
        if created or step.sizes:
            self._context.later(self._context.models.controller_delay, self._reconcile)

    def _next_step(self, deployment: Deployment, names: Mapping[int, Sequence[str]]) -> Step:
        sets = self._sets
        if sum(one.spec.replicas > 0 for one in sets.values()) > 1:
            sets = {revision: self._counted(one, names.get(revision, ())) for revision, one in sets.items()}
        new = sets.get(self._revisions.current)
        old = oldest_first(one for one in sets.values() if one is not new)
        return next_step(deployment, new, old, lambda: self._old_pods_run(names))

    def _counted(self, one: ReplicaSet, names: Sequence[str]) -> ReplicaSet:
        return replace(one, status={"availableReplicas": sum(map(self._is_available, names))})

    def _old_pods_run(self, names: Mapping[int, Sequence[str]]) -> bool:
        revisions = (*self._leaving.values(), *(revision for revision, mine in names.items() if mine))
        return any(revision != self._revisions.current for revision in revisions)

    def _make_of(self, revision: int) -> None:
        self._made += 1
        set_name = self._sets[revision].metadata.name
        owner = replace(self._owner, name=set_name, uid=set_name)
        pod = self._revisions.pod(revision)
        self._arrive(named_pod(pod, self._template.workload, f"{self._name}-{self._made}", owner=owner))

    def _create_set(self, size: int, annotations: dict[str, str]) -> None:
        """Create the ReplicaSet of the current revision, which default spreading reads."""
        revision = self._revisions.current
        name, created = f"{self._name}-{revision}", timestamp(self._context.now)
        metadata = ObjectMeta(name=name, uid=name, creation_timestamp=created, annotations=annotations)
        self._sets[revision] = ReplicaSet(metadata=metadata, spec=ReplicaSetSpec(replicas=size))
        if self._template.companion is None:
            return
        made: Any = self._template.companion(name)
        selector = made.spec.selector
        labels = {**selector.match_labels, HASH: str(revision)}
        self._template.put(
            self._context, replace(made, spec=replace(made.spec, selector=replace(selector, match_labels=labels)))
        )
