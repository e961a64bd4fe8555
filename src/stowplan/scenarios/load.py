"""A scenario from a file: YAML or JSON, checked before anything is run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from stowplan.api.timestamps import parse_timestamp
from stowplan.api.yaml_text import HostileYamlError, StrictLoader, composed, with_string_keys
from stowplan.scenarios.decode import converted, path_text
from stowplan.scenarios.errors import ScenarioError
from stowplan.scenarios.schema import EVENTS, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stowplan.scenarios.decode import Path as FieldPath
    from stowplan.scenarios.decode import Problem

_WITH_PODS = ("manifest", "file", "trace")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True)
class Located:
    """A scenario, and where its relative paths start from."""

    scenario: Scenario
    folder: Path


def load_scenario(source: str | os.PathLike[str] | Mapping[str, Any] | Scenario) -> Located:
    """Of a file, or of a mapping with what a file would have; raise ScenarioError."""
    if isinstance(source, Scenario):
        return Located(_checked(source, "scenario", None), Path())
    if not isinstance(source, (str, os.PathLike)):
        return Located(_scenario(dict(source), "scenario", None), Path())
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    value, root = _read(text, str(path))
    return Located(_scenario(value, str(path), root), path.parent)


def _read(text: str, name: str) -> tuple[Any, yaml.Node]:
    try:
        documents = [(with_string_keys(loader.construct_document(node)), node) for loader, node in _documents(text)]
    except HostileYamlError as error:
        raise ScenarioError(f"{name}: {error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ScenarioError(f"{name}: line {line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ScenarioError(f"{name}: {error}") from None
    if len(documents) != 1:
        raise ScenarioError(f"{name}: want one YAML document, got {len(documents)}")
    return documents[0]


def _documents(text: str) -> Iterator[tuple[Any, yaml.Node]]:
    return composed(text, StrictLoader)


def _scenario(value: object, name: str, root: yaml.Node | None) -> Scenario:
    if not isinstance(value, dict):
        raise ScenarioError(f"{name}: want an object with cluster and workloads; see stowplan simulate --help")
    scenario, problems = converted(value, Scenario)
    if scenario is None:
        raise ScenarioError(*_told(problems, name, root))
    return _checked(scenario, name, root)


def _checked(scenario: Scenario, name: str, root: yaml.Node | None) -> Scenario:
    problems = list(_contradictions(scenario))
    if problems:
        raise ScenarioError(*_told(problems, name, root))
    return scenario


def _told(problems: list[Problem], name: str, root: yaml.Node | None) -> Iterator[str]:
    for path, message in problems:
        line = f"line {_line(root, path)}: " if root is not None else ""
        where = path_text(path)
        yield f"{name}: {line}{where}: {message}" if where else f"{name}: {line}{message}"


def _line(node: yaml.Node, path: FieldPath) -> int:
    """Of the field, or of the innermost one that is there."""
    line = node.start_mark.line + 1
    for step in path:
        if isinstance(step, int) and isinstance(node, yaml.SequenceNode) and step < len(node.value):
            node = node.value[step]
        elif isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == step), None)
            if found is None:
                return line
            line, node = found[0].start_mark.line + 1, found[1]
            continue
        else:
            return line
        line = node.start_mark.line + 1
    return line


# -- what the types cannot say ----------------------------------------------------------------------------------------


def _contradictions(scenario: Scenario) -> Iterator[Problem]:
    try:
        parse_timestamp(scenario.start)
    except ValueError:
        yield ("start",), f"want a time such as 2026-01-01T00:00:00Z, got {scenario.start!r}"
    cluster = scenario.cluster
    if not (cluster.files or cluster.groups or cluster.live or cluster.kubeconfig or cluster.context or cluster.trace):
        yield ("cluster",), "there is none: give groups, files, a trace, or live: true"
    yield from _of_groups(scenario)
    yield from _of_workloads(scenario)
    yield from _of_events(scenario)


def _of_groups(scenario: Scenario) -> Iterator[Problem]:
    seen = set()
    for index, group in enumerate(scenario.cluster.groups):
        path: FieldPath = ("cluster", "groups", index)
        if group.name in seen:
            yield (*path, "name"), f"there is another group {group.name!r}"
        seen.add(group.name)
        if group.count < 0:
            yield (*path, "count"), f"want 0 or more, got {group.count}"
        if group.price < 0:
            yield (*path, "price"), f"want 0 or more, got {group.price}"
        for number, taint in enumerate(group.taints):
            yield from _of_effect(taint.effect, (*path, "taints", number, "effect"))
        limits = group.autoscale
        if limits is not None and not 0 <= limits.min <= limits.max:
            yield (*path, "autoscale"), f"want 0 ≤ min ≤ max, got min {limits.min}, max {limits.max}"


def _of_effect(effect: str, path: FieldPath) -> Iterator[Problem]:
    if effect not in _EFFECTS:
        yield path, f"want one of {', '.join(_EFFECTS)}, got {effect!r}"


def _of_workloads(scenario: Scenario) -> Iterator[Problem]:
    seen = set()
    for index, workload in enumerate(scenario.workloads):
        path: FieldPath = ("workloads", index)
        if workload.name in seen:
            yield (*path, "name"), f"there is another workload {workload.name!r}"
        seen.add(workload.name)
        given = [name for name in _WITH_PODS if getattr(workload, name) is not None]
        if len(given) != 1:
            yield path, f"want one of {', '.join(_WITH_PODS)}, got {' and '.join(given) or 'none'}"
        if workload.each < 1:
            yield (*path, "each"), f"want 1 or more, got {workload.each}"
        if not workload.speed > 0:
            yield (*path, "speed"), f"want a number above 0, got {workload.speed}"
        if workload.trace is not None and "format" not in workload.trace:
            yield (*path, "trace"), "format is missing"
        yield from _of_times(workload, path, scenario)


def _of_times(when: Any, path: FieldPath, scenario: Scenario) -> Iterator[Problem]:
    rates = [name for name in ("every", "rate", "poisson") if getattr(when, name) is not None]
    if len(rates) > 1:
        yield path, f"want one of every, rate, poisson, got {' and '.join(rates)}"
    if rates and when.at.listed:
        yield (*path, "at"), f"want one time with {rates[0]}, got a list"
    if not rates and (when.count is not None or when.until is not None):
        yield path, "count and until go with every, rate or poisson; each is how many arrive at a time"
    if when.count is not None and when.count < 0:
        yield (*path, "count"), f"want 0 or more, got {when.count}"
    if rates and when.count is None and when.until is None and scenario.duration is None:
        yield path, f"{rates[0]} never ends: give count or until, or the scenario a duration"
    if when.every is not None and not when.every.mean:
        yield (*path, "every"), "must be longer than 0"


def _of_events(scenario: Scenario) -> Iterator[Problem]:
    groups = {group.name for group in scenario.cluster.groups}
    workloads = {workload.name for workload in scenario.workloads}
    for index, event in enumerate(scenario.events):
        path: FieldPath = ("events", index)
        given = [name for name in EVENTS if getattr(event, name) is not None]
        if len(given) != 1:
            yield path, f"want one of {', '.join(EVENTS)}, got {' and '.join(given) or 'none'}"
            continue
        yield from _of_times(event, path, scenario)
        about = getattr(event, given[0])
        group = getattr(about, "group", "")
        if group and group not in groups:
            yield (
                (*path, given[0], "group"),
                f"there is no group {group!r}; there are {', '.join(sorted(groups)) or 'none'}",
            )
        if event.scale is not None and event.scale.workload not in workloads:
            yield (*path, "scale", "workload"), f"there is no workload {event.scale.workload!r}"
        if event.taint is not None:
            yield from _of_effect(event.taint.effect, (*path, "taint", "effect"))
        if event.drain is not None and event.drain.then not in ("uncordon", "remove"):
            yield (*path, "drain", "then"), f"want uncordon or remove, got {event.drain.then!r}"
        if event.upgrade is not None and event.upgrade.at_once < 1:
            yield (*path, "upgrade", "atOnce"), f"want 1 or more, got {event.upgrade.at_once}"
