"""Load a scenario from YAML or JSON, validated before anything is run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any

from stowplan.ask.offline import ClusterError
from stowplan.ask.rebalance.goals import GOALS, goal_named
from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.config.features import GateError
from stowplan.kube.kubernetes_versions import VersionError
from stowplan.kube.structs import PlainStruct
from stowplan_lab.simulation.definition.documents import AMOUNTS, Document, FieldPath, Problem, read_document
from stowplan_lab.simulation.definition.scenario_fields import (
    EVENTS,
    RUN_ANEW,
    RUN_REST,
    ZONE,
    ClusterSpec,
    FailuresSpec,
    RebalanceSpec,
    Scenario,
    SchedulerSpec,
    WorkloadSpec,
)
from stowplan_lab.simulation.scenario_errors import ScenarioError

_WITH_PODS = ("manifest", "file", "trace")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Located(PlainStruct, frozen=True):
    """A scenario, and the base of its relative paths."""

    scenario: Scenario
    folder: Path
    #: The source that it was decoded from; None if it was created in Python.
    value: Mapping[str, Any] | None = None


def load_scenario(
    source: str | os.PathLike[str] | Mapping[str, Any] | Scenario | Located, *, folder: Path | None = None
) -> Located:
    """Load a file, or a mapping with the content of a file in a folder; raises ScenarioError."""
    if isinstance(source, Located):
        return source
    if isinstance(source, Scenario):
        return Located(_checked(source, Document(None, "scenario", None, Path(), AMOUNTS, ScenarioError)), Path())
    document = read_document(source, "scenario")
    scenario = document.read(Scenario, "an object with cluster and workloads; see stowplan simulate --help")
    return Located(_checked(scenario, document), document.folder if folder is None else folder, document.value)


def _checked(scenario: Scenario, document: Document) -> Scenario:
    problems = list(_contradictions(scenario))
    if problems:
        raise document.error(problems)
    return scenario


# -- cross-field validation --------------------------------------------------------------------------------------------


def _contradictions(scenario: Scenario) -> Iterator[Problem]:
    try:
        parse_timestamp(scenario.start)
    except ValueError:
        yield ("start",), f"want a time such as 2026-01-01T00:00:00Z, got {scenario.start!r}"
    cluster = scenario.cluster
    if not (cluster.files or cluster.groups or cluster.live or cluster.kubeconfig or cluster.context or cluster.trace):
        yield ("cluster",), "there is none: give groups, files, a trace, or live: true"
    tells_version = cluster.files or cluster.live or cluster.kubeconfig or cluster.context
    if scenario.scheduler.emulated_version is not None or not tells_version:
        # Otherwise the cluster decides which gates there are, and is not read yet.
        yield from _of_features(scenario.scheduler)
    if scenario.output.every is not None and not scenario.output.every:
        yield ("output", "every"), "must be longer than 0"
    yield from _of_groups(scenario)
    yield from _of_workloads(scenario)
    yield from _of_events(scenario)


def _of_features(scheduler: SchedulerSpec) -> Iterator[Problem]:
    try:
        _ = scheduler.features
    except VersionError as error:
        yield ("scheduler", "emulatedVersion"), str(error)
    except GateError as error:
        yield ("scheduler", "featureGates"), str(error)


def _of_groups(scenario: Scenario) -> Iterator[Problem]:
    seen = set()
    for index, group in enumerate(scenario.cluster.groups):
        path: FieldPath = ("cluster", "groups", index)
        if group.name in seen:
            yield (*path, "name"), f"there is another group {group.name!r}"
        seen.add(group.name)
        if group.count < 0:
            yield (*path, "count"), f"want 0 or more, got {group.count}"
        yield from _of_price(group.price, (*path, "price"))
        for number, taint in enumerate(group.taints):
            yield from _of_effect(taint.effect, (*path, "taints", number, "effect"))
        limits = group.autoscale
        if limits is not None and not 0 <= limits.min <= limits.max:
            yield (*path, "autoscale"), f"want 0 ≤ min ≤ max, got min {limits.min}, max {limits.max}"
        if limits is not None and not 0 <= limits.utilization <= 1:
            yield (*path, "autoscale", "utilization"), f"want a share from 0 to 1, got {limits.utilization}"


def _of_price(price: float, path: FieldPath) -> Iterator[Problem]:
    if not 0 <= price < inf:
        yield path, f"want a number of 0 or more, got {price}"


def _of_effect(effect: str, path: FieldPath) -> Iterator[Problem]:
    if effect not in _EFFECTS:
        yield path, f"want one of {', '.join(_EFFECTS)}, got {effect!r}"


def _of_workloads(scenario: Scenario) -> Iterator[Problem]:
    seen = set()
    for index, workload in enumerate(scenario.workloads):
        path: FieldPath = ("workloads", index)
        if not workload.name:
            yield (*path, "name"), "must not be empty"
        if workload.name in seen:
            yield (*path, "name"), f"there is another workload {workload.name!r}"
        seen.add(workload.name)
        given = [name for name in _WITH_PODS if getattr(workload, name) is not None]
        if len(given) != 1:
            yield path, f"want one of {', '.join(_WITH_PODS)}, got {' and '.join(given) or 'none'}"
        if workload.each < 1:
            yield (*path, "each"), f"want 1 or more, got {workload.each}"
        if not 0 < workload.speed < inf:
            yield (*path, "speed"), f"want a number above 0, got {workload.speed}"
        if workload.trace is not None and workload.pod_group is not None:
            yield (*path, "podGroup"), "pods of a trace have none"
        if workload.trace is not None and "format" not in workload.trace:
            yield (*path, "trace"), "format is missing"
        if workload.recreate not in ("", RUN_ANEW, RUN_REST):
            yield (*path, "recreate"), f"want {RUN_ANEW} or {RUN_REST}, got {workload.recreate!r}"
        elif workload.recreate and workload.trace is None:
            yield (*path, "recreate"), "goes with trace; a manifest has its controller"
        if workload.failures is not None:
            yield from _of_failures(workload, workload.failures, (*path, "failures"))
        yield from _of_times(workload, path, scenario)


def _of_failures(workload: WorkloadSpec, failures: FailuresSpec, path: FieldPath) -> Iterator[Problem]:
    if workload.trace is not None:
        yield path, "pods of a trace do not fail"
    if not 0 <= failures.probability <= 1:
        yield (*path, "probability"), f"want a number from 0 to 1, got {failures.probability}"
    if failures.times is not None and failures.times < 0:
        yield (*path, "times"), f"want 0 or more, got {failures.times}"
    if (failures.times is None) == (not failures.probability):
        yield path, "want one of probability and times"
    if failures.after is None and workload.lifetime is None:
        yield path, "after is missing: without a lifetime, there is no other time at which a run could fail"


def _of_times(when: Any, path: FieldPath, scenario: Scenario) -> Iterator[Problem]:
    rates = [name for name in ("every", "rate", "poisson") if getattr(when, name) is not None]
    if len(rates) > 1:
        yield path, f"want one of every, rate, poisson, got {' and '.join(rates)}"
    if rates and when.at.listed:
        yield (*path, "at"), f"want one time with {rates[0]}, got a list"
    elif not when.at:
        yield (*path, "at"), "want one time or more, got an empty list"
    if not rates and (when.count is not None or when.until is not None):
        yield path, "count and until go with every, rate or poisson; each is how many arrive at a time"
    if when.count is not None and when.count < 0:
        yield (*path, "count"), f"want 0 or more, got {when.count}"
    if rates and when.count is None and when.until is None and scenario.duration is None:
        yield path, f"{rates[0]} never ends: give count or until, or the scenario a duration"
    for name, length in (("hours", 24), ("weekdays", 7)):
        weights = getattr(when, name)
        if weights and (len(weights) != length or not all(0 <= one < inf for one in weights) or not any(weights)):
            yield (*path, name), f"want {length} numbers of 0 or more, and one above 0"
        if weights and when.rate is None and when.poisson is None:
            yield (*path, name), "goes with rate or poisson"
    if when.every is not None and not when.every.mean:
        yield (*path, "every"), "must be longer than 0"


def _zones(cluster: ClusterSpec) -> set[str] | None:
    """The possible zones of nodes; None if there are nodes from elsewhere, too."""
    if cluster.files or cluster.live or cluster.kubeconfig or cluster.context or cluster.trace:
        return None
    zones = {zone for group in cluster.groups for zone in group.zones}
    return zones | {group.labels[ZONE] for group in cluster.groups if ZONE in group.labels}


def _of_rebalance(spec: RebalanceSpec, path: FieldPath) -> Iterator[Problem]:
    if bool(spec.goal) == (spec.policy is not None):
        yield path, "want one of goal, policy"
    elif spec.policy is not None:
        if spec.weights:
            yield (*path, "weights"), "they are for a goal"
    else:
        try:
            if goal_named(spec.goal, spec.weights) is None:
                yield (*path, "goal"), f"want {GOALS}, got {spec.goal!r}"
        except ClusterError as error:
            yield path, str(error)
    for name in ("maxMoves", "atOnce", "atOncePerOwner"):
        number = {"maxMoves": spec.max_moves, "atOnce": spec.at_once, "atOncePerOwner": spec.at_once_per_owner}[name]
        if number is not None and number < 1:
            yield (*path, name), f"want 1 or more, got {number}"


def _of_events(scenario: Scenario) -> Iterator[Problem]:
    groups = {group.name for group in scenario.cluster.groups}
    workloads = {workload.name for workload in scenario.workloads}
    zones = _zones(scenario.cluster)
    for index, event in enumerate(scenario.events):
        path: FieldPath = ("events", index)
        given = [name for name in EVENTS if getattr(event, name) is not None]
        if len(given) != 1:
            yield path, f"want one of {', '.join(EVENTS)}, got {' and '.join(given) or 'none'}"
            continue
        yield from _of_times(event, path, scenario)
        about = getattr(event, given[0])
        for name, there in (("group", groups), ("workload", workloads), ("zone", zones)):
            named = getattr(about, name, None)
            if named and there is not None and named not in there:
                known = ", ".join(sorted(there)) or "none"
                yield (*path, given[0], name), f"there is no {name} {named!r}; there are {known}"
        for name in ("count", "replicas"):
            number = getattr(about, name, None)
            if number is not None and number < 0:
                yield (*path, given[0], name), f"want 0 or more, got {number}"
        if event.rebalance is not None:
            yield from _of_rebalance(event.rebalance, (*path, "rebalance"))
        if event.price is not None:
            yield from _of_price(event.price.price, (*path, "price", "price"))
        if event.rollout is not None and not scenario.models.controllers:
            yield (*path, "rollout"), "controllers do it, and models.controllers is false"
        if event.taint is not None:
            yield from _of_effect(event.taint.effect, (*path, "taint", "effect"))
        if event.drain is not None and event.drain.then not in ("uncordon", "remove"):
            yield (*path, "drain", "then"), f"want uncordon or remove, got {event.drain.then!r}"
        if event.upgrade is not None and event.upgrade.at_once < 1:
            yield (*path, "upgrade", "atOnce"), f"want 1 or more, got {event.upgrade.at_once}"
