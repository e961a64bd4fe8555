"""Model the Deployment controller: rollouts of its template, with a ReplicaSet per revision.

RollingUpdate has at most `maxSurge` pods in addition to replicas, and at least replicas minus `maxUnavailable` of them
available: new pods are created as the former allows, old ones deleted as the latter does, unavailable ones first.
Recreate deletes all old pods, and creates new ones when they are gone. An earlier template becomes its revision again,
so a rollback keeps the pods that were not replaced yet.

Not modelled: a Deployment that is scaled during a rollout makes up the difference with new pods only.

Upstream: pkg/controller/deployment (rolling.go, recreate.go).
"""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace

from stowplan.kube.api.api_errors import ApiError
from stowplan.scheduler.framework.requests import Create
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.workloads.owners import UPDATED, Template, WorkloadController, named_pod
from stowplan_lab.simulation.workloads.revisions import HASH, RECREATE, Revisions, UpdateStrategy

#: Seconds between checks whether old pods are gone.
_AGAIN = 1.0


class DeploymentController(WorkloadController):
    """A Deployment that is rolled out at some time."""

    def __init__(self, context: SimulationContext, template: Template, name: str, chance: Random) -> None:
        super().__init__(context, template, name, chance)
        self._revisions = Revisions(template, HASH)
        #: UIDs of old pods that Recreate waits for.
        self._leaving: list[str] = []
        self._on_start = self._begun

    def begin(self) -> None:
        self._add_replica_set()
        self._reconcile()

    def roll_out(self, template: Template | None) -> None:
        self._template = self._revisions.next_of(template, self._context.now)
        if self._revisions.turn_to(self._template):
            self._add_replica_set()
        self._reconcile()

    def _add_replica_set(self) -> None:
        """Create the ReplicaSet of the current revision, which default spreading reads."""
        if self._template.companion is None:
            return
        made: Any = self._template.companion(self._set_name)
        selector = made.spec.selector
        labels = {**selector.match_labels, HASH: str(self._revisions.current)}
        made = replace(made, spec=replace(made.spec, selector=replace(selector, match_labels=labels)))
        try:
            self._context.time.write(Create(obj=made))
        except ApiError as error:
            self._context.note(f"workload {self._template.workload}: {error}")

    @property
    def _set_name(self) -> str:
        return f"{self._name}-{self._revisions.current}"

    def _make(self) -> None:
        self._made += 1
        owner = replace(self._owner, name=self._set_name, uid=self._set_name)
        pod = self._revisions.pod(self._revisions.current)
        self._arrive(named_pod(pod, self._template.workload, f"{self._name}-{self._made}", owner=owner))

    def _replace(self) -> None:
        # A lost pod may also allow the next step of the rollout.
        self._context.later(self._context.models.controller_delay, self._reconcile)

    # -- rollouts ------------------------------------------------------------------------------------------------------

    def _revision_of(self, name: str) -> int:
        return self._revisions.of(self._context.ledger.of(self._active[name]))

    def _reconcile(self) -> None:
        strategy = self._template.update
        old = [name for name in self._active if self._revision_of(name) != self._revisions.current]
        if strategy is None or not (old or self._leaving):
            super()._reconcile()
        elif strategy.type_ == RECREATE:
            self._recreate(old)
        else:
            new = [name for name in self._active if name not in set(old)]
            self._scale_up(strategy, len(old), new)
            if self._scale_down(strategy, old):
                # There is room for new ones now.
                self._context.later(self._context.models.controller_delay, self._reconcile)

    def _recreate(self, old: list[str]) -> None:
        for name in old:
            self._leaving.append(self._active[name])
            self._remove(name, UPDATED)
        self._leaving = [uid for uid in self._leaving if self._context.ledger.of(uid) is not None]
        if self._leaving:
            self._context.later(_AGAIN, self._reconcile)
        else:
            super()._reconcile()

    def _scale_up(self, strategy: UpdateStrategy, old: int, new: list[str]) -> None:
        surge, _ = strategy.limits(self.replicas)
        for name in new[self.replicas :]:
            self._remove(name)
        for _ in range(min(self.replicas - len(new), self.replicas + surge - old - len(new))):
            self._make()

    def _scale_down(self, strategy: UpdateStrategy, old: list[str]) -> bool:
        """Delete as many old pods as may be unavailable; return whether there were any."""
        _, unavailable = strategy.limits(self.replicas)
        least = self.replicas - unavailable
        available = {name for name in self._active if self._is_available(name)}
        # New pods that are not available yet must not be compensated by deleting old ones.
        coming = len(self._active) - len(old) - len(available.difference(old))
        useless = [name for name in old if name not in available]
        # The oldest revision first, and of each its youngest pods.
        useful = sorted((name for name in reversed(old) if name in available), key=self._revision_of)
        removed = useless[: max(0, len(self._active) - least - coming)] + useful[: max(0, len(available) - least)]
        for name in removed:
            self._remove(name, UPDATED)
        return bool(removed)
