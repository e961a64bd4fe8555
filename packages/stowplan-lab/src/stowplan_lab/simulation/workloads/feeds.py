"""The arrivals of one workload, each created when it is due, so that only the next one is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stowplan.drivers.virtual_time.driver import Call
from stowplan.kube.api.meta import OwnerReference
from stowplan.kube.api.pod import PodSpec
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.framework.requests import Create, Request
from stowplan_lab.simulation.definition.scenario_fields import (
    RUN_ANEW,
    RUN_REST,
    WorkloadSpec,
    expected_count,
    times_of,
)
from stowplan_lab.simulation.results.ledger import Origin
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.start import trace_of
from stowplan_lab.simulation.workloads.cron_jobs import CronJobController
from stowplan_lab.simulation.workloads.deployments import DeploymentController
from stowplan_lab.simulation.workloads.existing import ExistingOwners
from stowplan_lab.simulation.workloads.jobs import JobController
from stowplan_lab.simulation.workloads.owners import Replicated, Template, WorkloadController, named_pod
from stowplan_lab.simulation.workloads.pod_groups import of_group
from stowplan_lab.simulation.workloads.runs import Runs
from stowplan_lab.simulation.workloads.stateful import StatefulSetController
from stowplan_lab.traces.trace import TraceError

#: Specs of a trace that are cached for equal pods.
_KEPT_SPECS = 8192

Controller = Replicated | JobController | CronJobController


def feed_of(
    context: SimulationContext,
    spec: WorkloadSpec,
    folder: Path,
    duration: float | None,
    template: Template | None = None,
    controllers: dict[Any, None] | None = None,
) -> Iterator[tuple[float, Request | Call]]:
    """The arrivals, in order; `controllers` has those that have started; Jobs leave it when they are finished."""
    if template is None or controllers is None:
        return _of_trace(context, spec, folder, duration)
    if template.kind == "Pod":
        return _pods(context, spec, template, duration)
    return _controllers(context, spec, template, duration, controllers)


def _pods(
    context: SimulationContext, spec: WorkloadSpec, template: Template, duration: float | None
) -> Iterator[tuple[float, Request]]:
    times, runs = context.chance(f"times of {spec.name}"), Runs(context, template, spec.name)
    alone = template.pod.metadata.name
    expect, start, number = context.ledger.expect, context.start, 0
    for arrival, at in enumerate(times_of(spec, times, duration, context.start), 1):
        group, grouped = of_group(template, f"{alone}-{arrival}", spec.each)
        if group is not None:
            yield start + at, Create(obj=group)
        for _ in range(spec.each):
            number += 1
            pod = named_pod(grouped.pod, spec.name, f"{alone}-{number}")
            expect(pod.metadata.uid, runs.origin())
            yield start + at, Create(obj=pod)


def _controllers(
    context: SimulationContext,
    spec: WorkloadSpec,
    template: Template,
    duration: float | None,
    controllers: dict[Any, None],
) -> Iterator[tuple[float, Request | Call]]:
    times, number = context.chance(f"times of {spec.name}"), 0
    several = spec.each > 1 or spec.at.listed or expected_count(spec, duration) != 1
    for at in times_of(spec, times, duration, context.start):
        for _ in range(spec.each):
            number += 1
            name = f"{spec.name}-{number}" if several else spec.name
            group, grouped = of_group(template, name, spec.each)
            if group is not None:
                yield context.start + at, Create(obj=group)
            yield context.start + at, Call(partial(_begin, _controller(context, grouped, name), controllers))


def _controller(context: SimulationContext, template: Template, name: str) -> Controller:
    if template.kind == "CronJob":
        return CronJobController(context, template, name)
    if template.kind == "Job":
        return JobController(context, template, name)
    chance = context.chance(f"lifetimes of {name}")
    if template.kind == "StatefulSet":
        return StatefulSetController(context, template, name, chance)
    if template.kind == "Deployment" and template.update is not None:
        return DeploymentController(context, template, name, chance)
    return WorkloadController(context, template, name, chance)


def _begin(controller: Controller, controllers: dict[Any, None]) -> None:
    controllers[controller] = None
    if isinstance(controller, JobController):
        controller.on_finish = partial(controllers.pop, controller)
    controller.begin()


def _of_trace(
    context: SimulationContext, spec: WorkloadSpec, folder: Path, duration: float | None
) -> Iterator[tuple[float, Request]]:
    shift = spec.at[0]
    start, expect, last = context.start, context.ledger.expect, 0.0
    # A Job's pods have this policy; the others end by themselves, too.
    specs = _Specs(scheduler_name=spec.scheduler_name, restart_policy="Never" if spec.recreate == RUN_ANEW else "")
    owners = ExistingOwners(context, runs_rest=spec.recreate == RUN_REST) if spec.recreate else None
    try:
        trace = trace_of(spec.trace or {}, folder)
        for arrival in trace.arrivals():
            at = round(shift + arrival.at / spec.speed, 6)
            if at < last:
                raise TraceError(f"{arrival.pod.metadata.name} comes at {arrival.at}, before the pod ahead of it")
            last = at
            if duration is not None and at > duration:
                break
            pod, lifetime = arrival.pod, arrival.lifetime
            metadata = pod.metadata
            uid = f"{spec.name}/{metadata.namespace}/{metadata.name}"
            metadata = replace(metadata, namespace=metadata.namespace or "default", uid=uid)
            if owners is not None:
                kind = "Job" if spec.recreate == RUN_ANEW else "ReplicaSet"
                owner = OwnerReference(kind=kind, name=metadata.name, uid=f"{uid}, owner", controller=True)
                metadata = replace(metadata, owner_references=(owner,))
            pod = replace(pod, metadata=metadata, spec=specs.of(pod.spec))
            lifetime = None if lifetime is None else lifetime / spec.speed
            expect(uid, Origin(workload=spec.name, lifetime=lifetime, owner=owners))
            yield start + at, Create(obj=pod)
        if trace.skipped:
            context.note(f"workload {spec.name}: {count(trace.skipped, 'row')} of the trace left out (badRows: skip)")
    except TraceError as error:
        raise ScenarioError(f"workloads: {spec.name}: {error}") from None


class _Specs:
    """Specs with another scheduler name and restart policy, if given; pods that share theirs still do afterwards."""

    def __init__(self, **changes: str) -> None:
        self._changes = {name: value for name, value in changes.items() if value}
        #: id of a spec -> the spec, which is kept so that the id stays valid, and its result.
        self._known: dict[int, tuple[PodSpec, PodSpec]] = {}

    def of(self, spec: PodSpec) -> PodSpec:
        if not self._changes:
            return spec
        known = self._known.get(id(spec))
        if known is None:
            if len(self._known) >= _KEPT_SPECS:
                self._known.clear()
            known = self._known[id(spec)] = spec, replace(spec, **self._changes)
        return known[1]


def size_of(spec: WorkloadSpec, folder: Path, duration: float | None) -> int | None:
    """The approximate number of pods that arrive; None if unknown."""
    if spec.trace is not None:
        return trace_of(spec.trace, folder).count
    times = expected_count(spec, duration)
    return None if times is None else times * spec.each
