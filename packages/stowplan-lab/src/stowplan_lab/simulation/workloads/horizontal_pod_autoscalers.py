"""HorizontalPodAutoscalers in virtual time: they scale workloads by what the scenario says that their pods use.

What is decided is what the embedded cluster's controller decides, every fifteen seconds from the start on. An
autoscaler is about one workload, which arrives once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from stowplan.kube.api.decode import convert
from stowplan.kube.api.pod import Pod, PodSpec
from stowplan.kube.api.port import Change
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.manifest_checks import stored_form
from stowplan_cluster.reconcile.horizontal_pod_autoscalers import (
    PERIOD_SECONDS,
    Decision,
    HorizontalPodAutoscaler,
    Scale,
    decide,
    without_scale,
)
from stowplan_cluster.reconcile.pods import PENDING, RUNNING
from stowplan_cluster.reconcile.replica_counts import Measured, Requests, ScaledPod
from stowplan_cluster.reconcile.scaling_rates import Memory
from stowplan_cluster.reconcile.usage import (
    Consumer,
    ContainerAmounts,
    Load,
    UsageError,
    amounts_of,
    is_measured,
    load_of,
    measured,
    requests_of,
    running_containers,
)
from stowplan_lab.simulation.definition.scenario_fields import Scenario, WorkloadSpec, expected_count
from stowplan_lab.simulation.results.ledger import Entry
from stowplan_lab.simulation.scenario_errors import Problems, ScenarioError
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.workloads.owners import Replicated, Template

_KIND = "HorizontalPodAutoscaler"
#: Kinds of workloads that can be scaled.
SCALED = ("Deployment", "ReplicaSet", "StatefulSet")


class Planned(NamedTuple):
    """An autoscaler, and what the pods of its workload use."""

    autoscaler: HorizontalPodAutoscaler
    load: Load

    @property
    def workload(self) -> str:
        return self.autoscaler.spec.target.name


def autoscalers_of(scenario: Scenario, templates: Mapping[str, Template], start: float) -> list[Planned]:
    """Raises ScenarioError."""
    found: list[Planned] = []
    problems = Problems()
    workloads = {spec.name: spec for spec in scenario.workloads}
    for index, manifest in enumerate(scenario.autoscalers):
        with problems.collected():
            one = _planned(manifest, workloads, templates, scenario, start, f"autoscalers[{index}]")
            if one.workload in (other.workload for other in found):
                raise ScenarioError(f"autoscalers[{index}]: workload {one.workload!r} has another one")
            found.append(one)
    problems.raise_any()
    return found


def _planned(
    manifest: Mapping[str, Any],
    workloads: Mapping[str, WorkloadSpec],
    templates: Mapping[str, Template],
    scenario: Scenario,
    start: float,
    where: str,
) -> Planned:
    autoscaler = _autoscaler(manifest, where)
    if not scenario.models.controllers:
        raise ScenarioError(f"{where}: a controller scales, and models.controllers is false")
    if scenario.duration is None:
        raise ScenarioError(f"{where}: it never ends: give the scenario a duration")
    target = autoscaler.spec.target
    template = templates.get(target.name)
    if template is None:
        known = ", ".join(sorted(templates)) or "none"
        raise ScenarioError(
            f"{where}.spec.scaleTargetRef.name: there is no workload {target.name!r}; there are {known}"
        )
    if template.kind not in SCALED or template.kind != target.kind:
        raise ScenarioError(
            f"{where}.spec.scaleTargetRef.kind: workload {target.name!r} is a {template.kind}, not a {target.kind}; "
            f"want one of {', '.join(SCALED)}"
        )
    spec = workloads[target.name]
    if spec.each != 1 or expected_count(spec, scenario.duration) != 1:
        raise ScenarioError(f"{where}: workload {target.name!r} arrives several times, an autoscaler is about one")
    return Planned(autoscaler, _load(spec, template, start, f"workloads: {spec.name}"))


def _autoscaler(manifest: Mapping[str, Any], where: str) -> HorizontalPodAutoscaler:
    if manifest.get("kind", _KIND) != _KIND:
        raise ScenarioError(f"{where}: want a {_KIND}, got a {manifest.get('kind')!r}")
    name = ((manifest.get("spec") or {}).get("scaleTargetRef") or {}).get("name")
    given = {"apiVersion": "autoscaling/v2", "kind": _KIND, "metadata": {"name": name}, **manifest}
    stored, problems = stored_form(given)
    if problems:
        raise ScenarioError(*(f"{where}: {problem}" for problem in problems))
    return convert(stored, HorizontalPodAutoscaler)


def _load(spec: WorkloadSpec, template: Template | None, start: float, where: str) -> Load:
    """From the workload's `usage`, or from annotations as on the embedded cluster; a trace has no template."""
    try:
        found = {} if template is None else dict(load_of(template.annotations, start + spec.at[0]))
    except UsageError as error:
        raise ScenarioError(f"{where}: {error}") from None
    if spec.usage is not None:
        given = (("cpu", spec.usage.cpu), ("memory", spec.usage.memory))
        found |= {resource: (usage.curve, start) for resource, usage in given if usage is not None}
    return found


def loads_of(scenario: Scenario, templates: Mapping[str, Template], start: float) -> dict[str, Load]:
    """The use of each workload that says it; raises ScenarioError."""
    return {
        spec.name: _load(spec, templates.get(spec.name), start, f"workloads: {spec.name}")
        for spec in scenario.workloads
    }


class _Size(PlainStruct, frozen=True):
    """What pods of one spec request."""

    #: Kept, so that its id stays valid.
    spec: PodSpec
    containers: tuple[ContainerAmounts, ...]
    requests: Requests


class _Scaled(PlainStruct):
    planned: Planned
    autoscaler: HorizontalPodAutoscaler
    memory: Memory
    #: UID -> the pods of its workload that exist.
    entries: dict[str, Entry]


class HorizontalPodAutoscalers:
    """A `simulate.cluster.Watcher`; must come after the ledger."""

    def __init__(
        self, context: SimulationContext, planned: Sequence[Planned], controllers: Mapping[str, Collection[Replicated]]
    ) -> None:
        """`controllers`: of each workload, once it has arrived."""
        self._context = context
        self._controllers = controllers
        self._scaled = {one.workload: _Scaled(one, one.autoscaler, Memory(), {}) for one in planned}
        self._sizes: dict[int, _Size] = {}
        if planned:
            context.time.watch(self)
            context.later(PERIOD_SECONDS, self._look)

    def changed(self, change: Change[Any]) -> None:
        old: Any = change.old
        new: Any = change.new
        if type(new if old is None else old) is not Pod:
            return
        if new is None:
            for scaled in self._scaled.values():
                scaled.entries.pop(old.metadata.uid, None)
        elif old is None:
            entry = self._context.ledger.of(new.metadata.uid)
            scaled_ = None if entry is None else self._scaled.get(entry.origin.workload)
            if entry is not None and scaled_ is not None:
                scaled_.entries[new.metadata.uid] = entry

    @property
    def replicas(self) -> dict[str, int]:
        """The replicas of each workload that has arrived."""
        found = ((name, self._controller(name)) for name in self._scaled)
        return {name: controller.replicas for name, controller in found if controller is not None}

    def _controller(self, workload: str) -> Replicated | None:
        return next(iter(self._controllers[workload]), None)

    def statuses(self) -> dict[str, Mapping[str, Any]]:
        """The status of each autoscaler, by its workload."""
        return {name: scaled.autoscaler.status for name, scaled in self._scaled.items()}

    def notes(self) -> Iterator[str]:
        """What does not work at the end."""
        for name, scaled in self._scaled.items():
            for condition in scaled.autoscaler.status.get("conditions") or ():
                if condition["type"] != "ScalingLimited" and condition["status"] == "False":
                    yield f"autoscaler of {name}: {condition['reason']}: {condition['message']}"

    def _look(self) -> None:
        for name, scaled in self._scaled.items():
            controller = self._controller(name)
            if controller is not None:
                self._follow(scaled, controller)
            else:
                target = scaled.autoscaler.spec.target
                missing = without_scale(scaled.autoscaler, f'{target.kind} "{name}" not found', self._context.now)
                self._put(scaled, missing)
        self._context.later(PERIOD_SECONDS, self._look)

    def _follow(self, scaled: _Scaled, controller: Replicated) -> None:
        now = self._context.now
        decision = decide(scaled.autoscaler, self._scale(scaled, controller), scaled.memory, now)
        self._put(scaled, decision)
        if decision.replicas is not None:
            scaled.memory.rescaled(scaled.autoscaler.spec.behavior, decision.before, decision.replicas, now)
            controller.scale(decision.replicas)

    @staticmethod
    def _put(scaled: _Scaled, decision: Decision) -> None:
        scaled.autoscaler = replace(scaled.autoscaler, status=decision.status)

    def _scale(self, scaled: _Scaled, controller: Replicated) -> Scale:
        now, entries = self._context.now, scaled.entries.values()
        serving = sum(one.starts <= now and not one.why for one in entries)
        usage: dict[tuple[int, bool], Measured] = {}
        found: dict[str, Measured] = {}
        for one in entries:
            size, is_ready = self._size(one.pod.spec), not one.why
            name = one.pod.metadata.name
            consumer = Consumer(name, size.containers, float(int(one.starts)) if one.starts <= now else now, is_ready)
            if is_measured(consumer, now):
                key = id(size), is_ready
                if key not in usage:
                    usage[key] = measured(consumer, scaled.planned.load, serving, now)
                found[name] = usage[key]
        pods = [self._pod(one, now) for one in entries]
        return Scale(controller.replicas, f"workload={scaled.planned.workload}", pods, found)

    def _pod(self, entry: Entry, now: float) -> ScaledPod:
        """As its kubelet reports it: times are whole seconds."""
        is_ready = entry.starts <= now
        # A failed node has stopped its pods, and would start them again.
        is_pending = not is_ready and entry.starts != float("inf")
        placed = entry.placed
        return ScaledPod(
            name=entry.pod.metadata.name,
            phase=PENDING if placed is None or is_pending else RUNNING,
            requests=self._size(entry.pod.spec).requests,
            deleting=bool(entry.why),
            ready=is_ready,
            ready_since=float(int(entry.starts)) if is_ready else 0.0,
            started=None if placed is None else float(int(placed)),
        )

    def _size(self, spec: PodSpec) -> _Size:
        found = self._sizes.get(id(spec))
        if found is None:
            containers = amounts_of(running_containers(spec.containers, spec.init_containers))
            found = self._sizes[id(spec)] = _Size(spec, containers, requests_of(containers, spec.resources))
        return found
