"""Parameters of a scenario's rebalancing: how often, how many moves, and the arguments of its policy's strategies.

The scenario has one event `rebalance`; a point of the space changes it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from stowplan.ask.rebalance import read_policy
from stowplan.kube.api.manifest_files import LoadError
from stowplan_lab.simulation.definition.amounts import Distribution
from stowplan_lab.simulation.definition.documents import FieldPath, Problem, read_document
from stowplan_lab.simulation.definition.scenario_fields import EventSpec, RebalanceSpec, Scenario
from stowplan_lab.simulation.definition.scenario_loading import Located
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.tuning.space import RebalanceSpace, SpaceSpec, Values, of_range

_MOST = 1_000_000


def with_its_policies(found: Located) -> Located:
    """The scenario without files of policies, whose content takes their place; raises ScenarioError."""
    return replace(found, scenario=replace(found.scenario, events=tuple(_inlined(found))))


def _inlined(found: Located) -> Iterator[EventSpec]:
    for event in found.scenario.events:
        spec = event.rebalance
        if spec is not None and isinstance(spec.policy, str):
            path = found.folder / spec.policy
            try:
                read_policy(path)
            except LoadError as error:
                raise ScenarioError(*error.errors) from None
            event = replace(event, rebalance=replace(spec, policy=read_document(path, "policy").value))
        yield event


def policy_problems(space: RebalanceSpace, scenario: Scenario) -> Iterator[Problem]:
    path: FieldPath = ("rebalance",)
    events = [event.rebalance for event in scenario.events if event.rebalance is not None]
    if len(events) != 1:
        yield path, f"want a scenario with one event rebalance, got {len(events)}"
        return
    for name, limits in (("everyMinutes", space.every_minutes), ("maxMoves", space.max_moves)):
        if limits is not None:
            yield from of_range(limits, 1, _MOST, (*path, name))
    for strategy, arguments in space.arguments.items():
        where = (*path, "arguments", strategy)
        if not _enabling(events[0].policy, strategy):
            yield where, "the policy of the event rebalance does not enable it"
        for name, limits in arguments.items():
            yield from of_range(limits, 0, _MOST, (*where, name))
    if not (space.every_minutes or space.max_moves or space.arguments):
        yield path, "nothing is to be tuned: give everyMinutes, maxMoves or arguments"


def _enabling(policy: object, strategy: str) -> list[dict[str, Any]]:
    """The profiles of a policy that enable a strategy."""
    profiles = (policy.get("profiles") or ()) if isinstance(policy, dict) else ()
    return [
        one
        for one in profiles
        if any(strategy in ((point or {}).get("enabled") or ()) for point in (one.get("plugins") or {}).values())
    ]


def _arguments_in(profile: dict[str, Any], strategy: str) -> dict[str, Any]:
    """Of a strategy, to be changed."""
    entries: list[dict[str, Any]] = profile.setdefault("pluginConfig", [])
    entry = next((one for one in entries if one["name"] == strategy), None)
    if entry is None:
        entry = {"name": strategy}
        entries.append(entry)
    arguments: dict[str, Any] = entry.setdefault("args", {})
    return arguments


def rebalanced(scenario: Scenario, space: SpaceSpec, values: Values) -> Scenario:
    """The scenario at a point of the space."""
    if space.rebalance is None:
        return scenario
    events = (
        event if event.rebalance is None else _at(event, event.rebalance, space.rebalance, values)
        for event in scenario.events
    )
    return replace(scenario, events=tuple(events))


def _at(event: EventSpec, spec: RebalanceSpec, space: RebalanceSpace, values: Values) -> EventSpec:
    policy = copy.deepcopy(spec.policy)
    for strategy, ranges in space.arguments.items():
        for profile in _enabling(policy, strategy):
            for name in ranges:
                _set(_arguments_in(profile, strategy), name.split("."), values[f"rebalance/{strategy}/{name}"])
    most = values.get("rebalance/maxMoves", spec.max_moves)
    minutes = values.get("rebalance/everyMinutes")
    changed = replace(spec, policy=policy, max_moves=None if most is None else int(most))
    every = event.every if minutes is None else Distribution.read(f"{minutes}m")
    return replace(event, rebalance=changed, every=every)


def _set(arguments: dict[str, Any], path: list[str], value: object) -> None:
    for name in path[:-1]:
        arguments = arguments.setdefault(name, {})
    arguments[path[-1]] = value


def policy_of(scenario: Scenario) -> dict[str, Any] | None:
    """Of its first event that has one."""
    given = (event.rebalance.policy for event in scenario.events if event.rebalance is not None)
    return next((policy for policy in given if isinstance(policy, dict)), None)
