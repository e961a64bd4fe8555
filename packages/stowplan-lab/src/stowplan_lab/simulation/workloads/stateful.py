"""A StatefulSet in virtual time: which pods it creates and deletes is decided by `reconcile.stateful_sets`.

A lost pod is recreated under its name once the old one is gone, with the same claims, which are kept when the set is
scaled down. A pod is ready from its start until its node fails. As on a cluster, an ordered set whose new pods do not
start is stuck, and a rollback does not fix it.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from msgspec.structs import replace

from stowplan.drivers.virtual_time.driver import Call
from stowplan.kube.api.pod import PodSpec
from stowplan.kube.api.types import PersistentVolumeClaim, Pod
from stowplan.kube.claims.stateful_claims import claims_for, identity, with_claims
from stowplan_cluster.reconcile.stateful_sets import Seen, has_current_revision, is_complete, next_moves, ordinals
from stowplan_cluster.reconcile.views import StatefulSet, StatefulSetSpec, UpdateStrategy
from stowplan_lab.simulation.results.ledger import Entry, Origin
from stowplan_lab.simulation.workloads.owners import (
    REVISION,
    SCALED_DOWN,
    UPDATED,
    Replicated,
    Revisions,
    Template,
    named_pod,
)


class StatefulSetController(Replicated):
    def _set_up(self) -> None:
        self._revisions = Revisions(self._template, REVISION)
        #: The revision of pods below the partition.
        self._current = self._revisions.current
        #: Ordinal -> UID of the existing pod.
        self._pods: dict[int, str] = {}
        #: Ordinals whose pods are to be looked at: all others have an available one of the newest revision.
        self._exceptions: set[int] = set()
        #: Ordinal -> number of its pods so far.
        self._times: Counter[int] = Counter()
        #: Name -> its spec, with its claims.
        self._specs: dict[str, PodSpec] = {}
        #: Times of the next reconciles.
        self._due: set[float] = set()
        self._turn_to(self._template)

    def scale(self, replicas: int) -> None:
        self.replicas = replicas
        self._turn_to(self._template)
        self._reconcile()

    def roll_out(self, template: Template | None) -> None:
        self._turn_to(self._revisions.roll_out(template, self._context.now))
        self._specs.clear()
        for _, when in self._context.available_later(self._pods.values(), self._template.min_ready):
            self._look_at(when)
        self._reconcile()

    def _turn_to(self, template: Template) -> None:
        self._template = template
        assert isinstance(template.spec, StatefulSetSpec)
        strategy = template.update or UpdateStrategy()
        self._set = StatefulSet(spec=replace(template.spec, replicas=self.replicas, update_strategy=strategy))
        self._exceptions.update(ordinals(self._set), self._pods)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def lost(self, entry: Entry) -> None:
        """It is about to be deleted."""
        self._exceptions.add(_ordinal(entry.pod))
        self._look_later()

    def finished(self, entry: Entry) -> None:
        """It is gone as well."""

    def _changed(self, entry: Entry) -> None:
        """The pod has started or stopped, or is gone."""
        ordinal, context, uid = _ordinal(entry.pod), self._context, entry.pod.metadata.uid
        if self._pods.get(ordinal) != uid:
            # It would have started now.
            return
        if context.ledger.of(uid) is None:
            del self._pods[ordinal]
            if not context.models.controllers:
                # Nothing is replaced, and nothing waits for it.
                self._exceptions.discard(ordinal)
                return
        self._exceptions.add(ordinal)
        self._look_later()
        if self._template.min_ready and entry.starts <= context.now:
            self._look_later(self._template.min_ready)

    def _look_later(self, seconds: float = 0.0) -> None:
        self._look_at(self._context.now + self._context.models.controller_delay + seconds)

    def _look_at(self, at: float) -> None:
        if at not in self._due:
            self._due.add(at)
            self._context.time.at(at, Call(partial(self._look, at)))

    def _look(self, at: float) -> None:
        self._due.discard(at)
        self._reconcile()

    def _reconcile(self) -> None:
        kept = ordinals(self._set)
        seen = {ordinal: self._seen(ordinal) for ordinal in self._exceptions}
        for ordinal, pod in list(seen.items()):
            if (pod is None) if ordinal not in kept else (pod is not None and pod.available and not pod.outdated):
                del seen[ordinal]
        self._exceptions = set(seen)
        if is_complete(self._set, seen):
            self._current = self._revisions.current
        moves = next_moves(self._set, seen)
        for ordinal in moves.create:
            self._create(ordinal)
        for ordinal in moves.delete:
            self._delete(ordinal, SCALED_DOWN)
        for ordinal in moves.update:
            self._delete(ordinal, UPDATED)

    def _seen(self, ordinal: int) -> Seen | None:
        uid = self._pods.get(ordinal)
        if uid is None:
            return None
        entry, now = self._context.ledger.of(uid), self._context.now
        if entry is None:
            # The API server has rejected it.
            return Seen()
        return Seen(
            outdated=self._revisions.of(entry) != self._revisions.current,
            ready=entry.starts <= now,
            available=self._context.is_available(uid, self._template.min_ready),
            terminating=bool(entry.why),
        )

    def _delete(self, ordinal: int, why: str) -> None:
        entry = self._context.ledger.of(self._pods[ordinal])
        if entry is not None:
            self._context.delete(entry, why)
        else:
            self._context.refused.drop((self._pods.pop(ordinal),))

    def _create(self, ordinal: int) -> None:
        template, name = self._template, f"{self._name}-{ordinal}"
        at_current = has_current_revision(self._set, ordinal)
        made_of = self._revisions.pod(self._current if at_current else self._revisions.current)
        pod = named_pod(made_of, template.workload, name, owner=self._owner, again=self._times[ordinal])
        self._times[ordinal] += 1
        labels = {**pod.metadata.labels, **identity(name, ordinal)}
        pod = replace(pod, metadata=replace(pod.metadata, labels=labels), spec=self._spec_of(name, made_of.spec))
        self._context.arrive(pod, self.adopt(pod))

    def adopt(self, pod: Pod) -> Origin:
        """A pod that is to arrive is one of its own."""
        ordinal = _ordinal(pod)
        self._pods[ordinal] = pod.metadata.uid
        self._exceptions.add(ordinal)
        return self._template.origin(self, self._chance, self._changed)

    # -- claims -------------------------------------------------------------------------------------------------------

    def _spec_of(self, name: str, spec: PodSpec) -> PodSpec:
        templates = self._set.spec.volume_claim_templates
        if not templates:
            return spec
        if name not in self._specs:
            for claim in claims_for(templates, name, self._template.pod.metadata.namespace):
                metadata = claim.metadata
                if self._context.store.find(PersistentVolumeClaim, metadata.namespace, metadata.name) is None:
                    self._template.put(self._context, claim)
            self._specs[name] = with_claims(spec, templates, name)
        return self._specs[name]


def _ordinal(pod: Pod) -> int:
    return int(pod.metadata.name.rpartition("-")[2])
