"""The rollouts of a scenario, prepared and validated before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stowplan_lab.simulation.errors import Problems, ScenarioError
from stowplan_lab.simulation.workloads.strategies import ROLLED
from stowplan_lab.simulation.workloads.templates import patched_template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from stowplan.kube.api.types import PriorityClass
    from stowplan_lab.simulation.definition.schema import Scenario
    from stowplan_lab.simulation.workloads.owners import Template

#: Kinds with replicas.
_SCALED = ("Deployment", "ReplicaSet", "StatefulSet")


class Rollout(NamedTuple):
    #: The workload's controllers that exist at that time; each has `roll_out(template)`.
    controllers: Sequence[Any]
    #: None: restart the current template.
    template: Template | None


def rollouts_of(
    scenario: Scenario,
    templates: Mapping[str, Template],
    controllers: Mapping[str, Sequence[Any]],
    folder: Path,
    classes: Sequence[PriorityClass],
) -> dict[int, Rollout]:
    """Rollouts by the number of their event; raises ScenarioError, also for workloads that cannot be scaled."""
    specs = {spec.name: spec for spec in scenario.workloads}
    found, problems = {}, Problems()
    for index, event in enumerate(scenario.events):
        with problems.collected():
            if event.scale is not None:
                _check(templates.get(event.scale.workload), event.scale.workload, _SCALED, f"events[{index}].scale")
            if event.rollout is not None:
                name, patch, where = event.rollout.workload, event.rollout.patch, f"events[{index}].rollout"
                _check(templates.get(name), name, ROLLED, where)
                template = None if patch is None else patched_template(specs[name], patch, folder, classes, where)
                found[index] = Rollout(controllers[name], template)
    problems.raise_any()
    return found


def _check(template: Template | None, name: str, kinds: Sequence[str], where: str) -> None:
    kind = "trace" if template is None else template.kind
    if kind not in kinds:
        raise ScenarioError(f"{where}: workload {name!r} is a {kind}; want one of {', '.join(kinds)}")
