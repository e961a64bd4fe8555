"""The inputs of a search: scenario, baseline, search space and objective, validated before anything runs.

A point of the space becomes a KubeSchedulerConfiguration. The base is an effective configuration with all defaults
written out, so the result is complete and loads wherever the base does.
"""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.kube.config import ConfigError, FeatureGates, load_config
from stowplan.kube.config.declaration import Declarations
from stowplan.kube.config.plugins import set_score_weight
from stowplan.kube.config.schema import API_VERSION
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.runtime.registry import load_plugin
from stowplan_lab.simulation.definition.amounts import Distribution
from stowplan_lab.simulation.definition.scenario_loading import Located, load_scenario
from stowplan_lab.simulation.simulate import Simulation
from stowplan_lab.tuning.objective import DEFAULT, Objective, TuningError, blend, read_objective
from stowplan_lab.tuning.policies import rebalanced, with_its_policies
from stowplan_lab.tuning.search_runs import Part
from stowplan_lab.tuning.space import RATIO, ProfileSpace, SpaceSpec, Value, Values, default_space, load_space

Document = dict[str, Any]
_FIT, _FIT_ARGS = "NodeResourcesFit", "NodeResourcesFitArgs"


def candidate(base: Document, space: SpaceSpec, values: Values) -> Document:
    """The base with the values in its profiles; a missing profile starts as a copy of the first."""
    document = copy.deepcopy(base)
    profiles = document["profiles"]
    for part in space.profiles:
        profile = next((one for one in profiles if one["schedulerName"] == part.name), None)
        if profile is None:
            profile = {**copy.deepcopy(base["profiles"][0]), "schedulerName": part.name}
            profiles.append(profile)
        _apply(profile, part, values)
    return document


def _apply(profile: Document, space: ProfileSpace, values: Values) -> None:
    head = space.name
    for plugin in space.weights:
        set_score_weight(profile["plugins"], plugin, int(values[f"{head}/weight/{plugin}"]))
    _set_strategy(profile, space, values)
    percentage = values.get(f"{head}/percentageOfNodesToScore")
    if percentage is not None:
        profile["percentageOfNodesToScore"] = percentage


def _set_strategy(profile: Document, space: ProfileSpace, values: Values) -> None:
    kind: Value | None = values.get(f"{space.name}/strategy")
    resources = [{"name": name, "weight": values[f"{space.name}/resource/{name}"]} for name in space.resources]
    if kind is None and not resources:
        return
    strategy = _fit_arguments(profile).setdefault("scoringStrategy", {})
    if resources:
        strategy["resources"] = resources
    if kind is None:
        return
    strategy["type"] = kind
    strategy.pop("requestedToCapacityRatio", None)
    if kind == RATIO:
        shape = [{"utilization": at, "score": values[f"{space.name}/shape/{at}"]} for at in space.shape]
        strategy["requestedToCapacityRatio"] = {"shape": shape}


def _fit_arguments(profile: Document) -> Document:
    entries = profile.setdefault("pluginConfig", [])
    found = next((one for one in entries if one["name"] == _FIT), None)
    if found is None:
        found = {"name": _FIT, "args": {"apiVersion": API_VERSION, "kind": _FIT_ARGS}}
        entries.append(found)
    arguments: Document = found["args"]
    return arguments


ONLY_TRACES = (
    "All pods come from traces, the same with every seed: the intervals say what chance in the scheduler and in faults "
    "does, and nothing of other days."
)


class Setup(PlainStruct, frozen=True, kw_only=True):
    name: str
    seed: int
    #: The baseline with all its defaults.
    base: dict[str, Any]
    space: SpaceSpec
    objective: Objective
    #: The complete scenario: unchanged for the baseline, and with workloads assigned to the profiles of the space.
    as_it_is: Part
    with_profiles: Part
    notes: tuple[str, ...]
    declarations: Declarations
    features: FeatureGates

    def candidate(self, values: Values) -> dict[str, Any]:
        """The configuration of a point of the space; raises TuningError if it is invalid."""
        document = candidate(self.base, self.space, values)
        try:
            load_config(document, plugins=self.declarations, features=self.features)
        except ConfigError as error:
            raise TuningError(f"the search space leads to a configuration that is not valid: {error}") from error
        return document

    def part(self, values: Values) -> Part:
        """The scenario of a point of the space."""
        return replace(self.with_profiles, scenario=rebalanced(self.with_profiles.scenario, self.space, values))

    @property
    def made_from(self) -> dict[str, Any]:
        """Everything that a search depends on, so that only the same search resumes from a storage."""
        scenario = msgspec.json.encode(self.as_it_is.scenario, enc_hook=_plain, order="deterministic")
        return {
            "scenario": hashlib.sha256(scenario).hexdigest(),
            "configuration": hashlib.sha256(msgspec.json.encode(self.base, order="deterministic")).hexdigest(),
            "search space": msgspec.json.encode(replace(self.space, objective=None), order="deterministic").decode(),
            "objective": self.objective.text,
            "plugins": list(self.as_it_is.plugins),
            "seed": self.seed,
        }


def set_up(
    scenario: Any, *, config: Any, space: Any, objective: str | None, plugins: Sequence[str], seed: int | None
) -> Setup:
    """Raises ScenarioError, ConfigError, PluginLoadError, TuningError."""
    found = with_its_policies(load_scenario(scenario))
    simulation = Simulation(found, config=config, seed=seed, plugins=[load_plugin(path) for path in plugins])
    base = simulation.config.to_dict()
    first = base["profiles"][0]["schedulerName"]
    declarations = simulation.declarations
    wanted = default_space(first) if space is None else load_space(space, found.scenario, declarations)
    towards = read_objective(objective) if objective is not None else blend(wanted.objective or {DEFAULT: 1.0})
    return Setup(
        name=str(scenario) if isinstance(scenario, (str, os.PathLike)) else found.scenario.name,
        seed=simulation.seed,
        base=base,
        space=wanted,
        objective=towards,
        as_it_is=Part(scenario=found.scenario, folder=str(found.folder), plugins=tuple(plugins)),
        with_profiles=_asking(found, wanted, tuple(plugins)),
        notes=tuple(_notes(found, wanted)),
        declarations=declarations,
        features=simulation.features,
    )


def _asking(found: Located, space: SpaceSpec, plugins: tuple[str, ...]) -> Part:
    """The scenario with workloads assigned to their profiles."""
    profiles = {name: profile.name for profile in space.profiles for name in profile.workloads}
    workloads = tuple(
        replace(one, scheduler_name=profiles[one.name]) if one.name in profiles else one
        for one in found.scenario.workloads
    )
    return Part(scenario=replace(found.scenario, workloads=workloads), folder=str(found.folder), plugins=plugins)


def _notes(found: Located, space: SpaceSpec) -> Iterator[str]:
    for profile in space.profiles:
        if profile.workloads:
            yield (
                f"The result counts on pods of {', '.join(profile.workloads)} asking for their profile: "
                f"set spec.schedulerName to {profile.name} in their manifests."
            )
    workloads = found.scenario.workloads
    if workloads and all(one.trace is not None for one in workloads):
        yield ONLY_TRACES


def _plain(value: object) -> Any:
    """JSON values for amounts of a scenario."""
    return value.source if isinstance(value, Distribution) else str(value)
