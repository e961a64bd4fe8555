"""The search space: which parameters may be tuned, from a small YAML file or by default.

    profiles:
    - name: default-scheduler
      weights: {NodeResourcesFit: [0, 10], PodTopologySpread: [0, 10]}
      strategy: [LeastAllocated, MostAllocated, RequestedToCapacityRatio]
      resources: {cpu: [1, 10], memory: [1, 10]}
    - name: batch                       # a class of workloads gets a profile of its own
      workloads: [nightly, reports]
      strategy: [MostAllocated]
    rebalance:                          # of the scenario's event `rebalance`
      everyMinutes: [10, 240]
      maxMoves: [1, 50]
      arguments: {LowNodeUtilization: {thresholds.cpu: [10, 40], targetThresholds.cpu: [50, 90]}}
    objective: {waits.mean: 1, cost: 0.5}

Values are whole numbers from ranges that include both ends, or one of a list. A point of the space is a mapping of
names to values; `chosen` walks the space and asks for each, so that parameters exist only where they matter: the shape
of a RequestedToCapacityRatio only where that is the strategy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from stowplan.kube.config.config_errors import did_you_mean
from stowplan.kube.config.declaration import Declarations
from stowplan_lab.simulation.definition.documents import Document, FieldPath, Problem, read_document
from stowplan_lab.simulation.definition.scenario_fields import Scenario, Spec

LEAST, MOST, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
STRATEGIES = (LEAST, MOST, RATIO)
#: kube-scheduler's limits.
_MOST_WEIGHT, _MOST_RESOURCE_WEIGHT, _MOST_SCORE = 100, 100, 10

Range = tuple[int, int]
Value = int | str
#: A point of the space: parameter -> value.
Values = dict[str, Value]


class ProfileSpace(Spec, frozen=True, kw_only=True):
    """The parameters of one profile."""

    name: str = "default-scheduler"
    #: Workloads of the scenario that are assigned to this profile.
    workloads: tuple[str, ...] = ()
    #: Score plugin -> range of its weight; 0 disables its scoring.
    weights: dict[str, Range] = msgspec.field(default_factory=dict)
    #: Scoring strategies for NodeResourcesFit.
    strategy: tuple[str, ...] = ()
    #: Resource -> range of its weight in that strategy.
    resources: dict[str, Range] = msgspec.field(default_factory=dict)
    #: Utilization percentages of a RequestedToCapacityRatio shape, whose scores are tuned from 0 to 10.
    shape: tuple[int, ...] = (0, 50, 100)
    percentage_of_nodes_to_score: Range | None = None


class RebalanceSpace(Spec, frozen=True, kw_only=True):
    """The parameters of the scenario's event `rebalance`."""

    every_minutes: Range | None = None
    max_moves: Range | None = None
    #: Strategy of its policy -> argument, with dots where it is nested -> range.
    arguments: dict[str, dict[str, Range]] = msgspec.field(default_factory=dict)


class SpaceSpec(Spec, frozen=True, kw_only=True):
    profiles: tuple[ProfileSpace, ...] = ()
    rebalance: RebalanceSpace | None = None
    #: Measure -> weight in the objective, unless set on the command line.
    objective: dict[str, float] | None = None


def default_space(profile: str) -> SpaceSpec:
    """Bin packing versus spreading, and the weight of either."""
    weights = {"NodeResourcesFit": (0, 10), "NodeResourcesBalancedAllocation": (0, 10), "PodTopologySpread": (0, 10)}
    resources = {"cpu": (1, 10), "memory": (1, 10)}
    return SpaceSpec(profiles=(ProfileSpace(name=profile, weights=weights, strategy=STRATEGIES, resources=resources),))


def load_space(
    source: str | os.PathLike[str] | Mapping[str, Any], scenario: Scenario, plugins: Declarations
) -> SpaceSpec:
    """Load from a file, or a mapping with the content of one; raises ScenarioError."""
    from stowplan_lab.tuning.policies import policy_problems

    document: Document = read_document(source, "search space")
    space = document.read(SpaceSpec, "an object with profiles; see stowplan tune --help")
    problems = list(_problems(space, scenario, plugins))
    if space.rebalance is not None:
        problems += policy_problems(space.rebalance, scenario)
    if problems:
        raise document.error(problems)
    return space


def _problems(space: SpaceSpec, scenario: Scenario, plugins: Declarations) -> Iterator[Problem]:
    if not space.profiles and space.rebalance is None:
        yield ("profiles",), "must not be empty"
    names: set[str] = set()
    assigned: dict[str, str] = {}
    workloads = [workload.name for workload in scenario.workloads]
    for index, profile in enumerate(space.profiles):
        path: FieldPath = ("profiles", index)
        if profile.name in names:
            yield (*path, "name"), f"there is another profile {profile.name!r}"
        names.add(profile.name)
        for number, name in enumerate(profile.workloads):
            where = (*path, "workloads", number)
            if name not in workloads:
                yield where, f"there is no workload {name!r}; {_meant(name, workloads)}"
            elif name in assigned:
                yield where, f"workload {name!r} is also assigned to profile {assigned[name]!r}"
            assigned[name] = profile.name
        yield from _of_profile(profile, path, plugins)


def _of_profile(profile: ProfileSpace, path: FieldPath, plugins: Declarations) -> Iterator[Problem]:
    scoring = [name for name, one in plugins.items() if "score" in one.points]
    for name, limits in profile.weights.items():
        if name not in scoring:
            yield (*path, "weights", name), f"no plugin of this name scores nodes; {_meant(name, scoring)}"
        yield from of_range(limits, 0, _MOST_WEIGHT, (*path, "weights", name))
    for number, name in enumerate(profile.strategy):
        if name not in STRATEGIES:
            yield (*path, "strategy", number), f"there is no strategy {name!r}; {_meant(name, STRATEGIES)}"
    for name, limits in profile.resources.items():
        yield from of_range(limits, 1, _MOST_RESOURCE_WEIGHT, (*path, "resources", name))
    if list(profile.shape) != sorted(set(profile.shape)) or not all(0 <= one <= 100 for one in profile.shape):
        yield (*path, "shape"), "want percentages from 0 to 100 that grow"
    if profile.percentage_of_nodes_to_score is not None:
        where = (*path, "percentageOfNodesToScore")
        yield from of_range(profile.percentage_of_nodes_to_score, 0, 100, where)
    if not (profile.weights or profile.strategy or profile.resources or profile.percentage_of_nodes_to_score):
        yield path, "nothing is to be tuned: give weights, strategy, resources or percentageOfNodesToScore"


def of_range(limits: Range, least: int, most: int, path: FieldPath) -> Iterator[Problem]:
    low, high = limits
    if not least <= low <= high <= most:
        yield path, f"want [low, high] within {least} to {most}, got [{low}, {high}]"


def _meant(name: str, known: Sequence[str]) -> str:
    return next(did_you_mean(name, known), f"there are {', '.join(known) or 'none'}")


# -- points ------------------------------------------------------------------------------------------------------------


class ValueChooser(Protocol):
    """Chooses the values of the next trial."""

    def whole(self, name: str, low: int, high: int, /) -> int: ...

    def one_of(self, name: str, choices: Sequence[str], /) -> str: ...


def chosen(space: SpaceSpec, chooser: ValueChooser) -> Values:
    """A point of the space, chosen in a fixed order."""
    found: Values = {}
    for profile in space.profiles:
        head = profile.name
        for plugin, limits in profile.weights.items():
            found[f"{head}/weight/{plugin}"] = chooser.whole(f"{head}/weight/{plugin}", *limits)
        strategy = profile.strategy[0] if len(profile.strategy) == 1 else ""
        if len(profile.strategy) > 1:
            strategy = chooser.one_of(f"{head}/strategy", profile.strategy)
        if strategy:
            found[f"{head}/strategy"] = strategy
        for resource, limits in profile.resources.items():
            found[f"{head}/resource/{resource}"] = chooser.whole(f"{head}/resource/{resource}", *limits)
        for at in profile.shape if strategy == RATIO else ():
            found[f"{head}/shape/{at}"] = chooser.whole(f"{head}/shape/{at}", 0, _MOST_SCORE)
        if profile.percentage_of_nodes_to_score is not None:
            name = f"{head}/percentageOfNodesToScore"
            found[name] = chooser.whole(name, *profile.percentage_of_nodes_to_score)
    ranges = {} if space.rebalance is None else _ranges(space.rebalance)
    return found | {name: chooser.whole(name, *limits) for name, limits in ranges.items()}


def _ranges(space: RebalanceSpace) -> dict[str, Range]:
    given = {"everyMinutes": space.every_minutes, "maxMoves": space.max_moves}
    given |= {f"{one}/{name}": limits for one, names in space.arguments.items() for name, limits in names.items()}
    return {f"rebalance/{name}": limits for name, limits in given.items() if limits is not None}


def space_schema() -> dict[str, Any]:
    (schema,), parts = msgspec.json.schema_components([SpaceSpec], ref_template="#/$defs/{name}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": parts}
