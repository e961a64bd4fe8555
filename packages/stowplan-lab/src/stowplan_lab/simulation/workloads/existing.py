"""Owners of the pods in the initial cluster.

Deployments, ReplicaSets, StatefulSets and DaemonSets in the cluster's files are driven by the controllers of the
scenario's workloads, which adopt their pods; an update that is in progress is taken as complete. Other owners, such as
Jobs, and those whose object is not known, recreate a lost pod as what-if questions do: like itself, on any node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stowplan.ask.loading.workloads import WorkloadName, workload_of
from stowplan.ask.what_if.hypothetical_pods import recreated
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.pod import FINISHED
from stowplan.kube.api.types import Pod, PriorityClass
from stowplan_lab.simulation.definition.scenario_fields import WorkloadSpec
from stowplan_lab.simulation.results.ledger import Entry, Origin
from stowplan_lab.simulation.scenario_errors import Problems
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.workloads.daemons import DaemonSetController
from stowplan_lab.simulation.workloads.owners import HASH, REVISION, Template, WorkloadController, named_pod
from stowplan_lab.simulation.workloads.stateful import StatefulSetController
from stowplan_lab.simulation.workloads.templates import template_of

_KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")

_Controller = WorkloadController | StatefulSetController | DaemonSetController


class ExistingWorkloads:
    def __init__(
        self,
        context: SimulationContext,
        manifests: Mapping[WorkloadName, Mapping[str, Any]],
        pods: Iterable[Pod],
        folder: Path,
        classes: Sequence[PriorityClass],
    ) -> None:
        """`manifests`: of workloads, by kind, namespace and name; raises ScenarioError."""
        self._context = context
        self._others = ExistingOwners(context)
        self._controllers: dict[WorkloadName, _Controller] = {}
        if not context.models.controllers:
            return
        problems = Problems()
        for name, pod in _newest_pods(manifests, pods).items():
            with problems.collected():
                self._controllers[name] = self._controller(manifests[name], pod, folder, classes)
        problems.raise_any()

    def _controller(
        self, manifest: Mapping[str, Any], pod: Pod, folder: Path, classes: Sequence[PriorityClass]
    ) -> _Controller:
        owner = controller_of(pod.metadata)
        assert owner is not None
        spec = WorkloadSpec(name=owner.name, manifest=dict(manifest))
        about = f"cluster: {manifest['kind']} {pod.metadata.namespace}/{manifest['metadata']['name']}"
        template = _like(pod, template_of(spec, folder, classes, where=about)[0])
        if template.kind == "DaemonSet":
            return DaemonSetController(self._context, template, owner)
        made = StatefulSetController if template.kind == "StatefulSet" else WorkloadController
        return made(self._context, template, owner.name, self._context.chance(""), owner)

    def arrive(self, pod: Pod) -> None:
        """A pod of the initial cluster."""
        owner = controller_of(pod.metadata)
        origin = Origin(workload="" if owner is None else owner.name)
        name = _workload(pod, self._controllers)
        if name is not None and pod.status.phase not in FINISHED:
            origin = self._controllers[name].adopt(pod)
        elif eviction_outcome(pod) is EvictionOutcome.RECREATED:
            origin.owner = self._others
        self._context.arrive(pod, origin)

    def begin(self) -> None:
        """All pods and nodes are there."""
        for controller in self._controllers.values():
            controller.begin()


def _workload(pod: Pod, known: Collection[WorkloadName]) -> WorkloadName | None:
    """The pod's workload, if it is known: a Deployment rather than its ReplicaSet."""
    owner, through = controller_of(pod.metadata), workload_of(pod)
    if owner is None or through is None:
        return None
    names = ((kind, pod.metadata.namespace, name) for kind, name in (through, (owner.kind, owner.name)))
    return next((name for name in names if name[0] in _KINDS and name in known), None)


def _newest_pods(known: Collection[WorkloadName], pods: Iterable[Pod]) -> dict[WorkloadName, Pod]:
    found: dict[WorkloadName, Pod] = {}
    for pod in pods:
        name = _workload(pod, known)
        if name is not None and (name not in found or _created(pod) > _created(found[name])):
            found[name] = pod
    return found


def _created(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""


def _like(pod: Pod, template: Template) -> Template:
    """The template with the labels that the pod has from its controller; objects that refer to the pods exist."""
    made = {label: value for label, value in pod.metadata.labels.items() if label in (HASH, REVISION)}
    metadata = template.pod.metadata
    metadata = replace(metadata, labels={**metadata.labels, **made})
    return replace(template, pod=replace(template.pod, metadata=metadata), companion=None)


class ExistingOwners:
    """Owners of which nothing is known but that they recreate their pods."""

    def __init__(self, context: SimulationContext, *, runs_rest: bool = False) -> None:
        """`runs_rest`: a recreated pod runs for the rest of its run time, instead of anew."""
        self._context = context
        self._runs_rest = runs_rest
        self._made = 0

    def lost(self, entry: Entry) -> None:
        if not self._context.models.controllers:
            return
        lifetime = entry.origin.lifetime
        if self._runs_rest and lifetime is not None and entry.starts <= self._context.now:
            lifetime -= min(lifetime, self._context.now - entry.starts)
        self._context.later(self._context.models.controller_delay, partial(self._make, entry, lifetime))

    def finished(self, entry: Entry) -> None:
        """It is not recreated then."""

    def _make(self, entry: Entry, lifetime: float | None) -> None:
        self._made += 1
        owner = controller_of(entry.pod.metadata)
        assert owner is not None, "only pods that have one are given to this"
        name, workload = f"{owner.name}-replacement-{self._made}", entry.origin.workload
        origin = Origin(workload=workload, lifetime=lifetime, owner=self)
        self._context.arrive(named_pod(recreated(entry.pod), workload, name), origin)
