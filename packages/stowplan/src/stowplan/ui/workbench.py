"""The workbench: changes requested by the page, tried on the cluster and undone.

The request comes from a browser: it is validated against the types below, and errors name the field. The answer is that
of `stowplan what-if`, with the plan after the changes as a delta to the one before, and the commands and manifests that
would make the changes. Nothing is written anywhere.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta
from msgspec.structs import asdict

from stowplan.ask.loading.object_files import objects_of_files
from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.offline.scheduling import Stop, never
from stowplan.ask.rebalance.goals import GOALS, RoomFor, goal_named
from stowplan.ask.rebalance.moves import Limits
from stowplan.ask.rebalance.plan_records import RebalanceRecord
from stowplan.ask.rebalance.plan_text import commands_of
from stowplan.ask.rebalance.rebalance import Rebalance
from stowplan.ask.what_if.answer_records import WhatIfRecord
from stowplan.ask.what_if.before_and_after import what_if
from stowplan.ask.what_if.hypothetical_changes import (
    AddNodes,
    Change,
    Drain,
    Label,
    Put,
    Reconfigure,
    Remove,
    Scale,
    Taint,
)
from stowplan.ask.what_if.hypothetical_nodes import MOST_NODES
from stowplan.ask.what_if.hypothetical_pods import MOST_REPLICAS
from stowplan.kube.api.api_errors import BadRequest, MethodNotAllowed
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.yaml_text import HostileYamlError, first_value, to_yaml
from stowplan.kube.config import ConfigError, Configuration
from stowplan.kube.config.plugins import set_score_weight
from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.requests.messages import JSON, Request, Response
from stowplan.scheduler.inspection.records import encoded
from stowplan.ui.plan import Plan, difference, plan_of
from stowplan.ui.plan_messages import DeltaMessage, delta

_ROOM_FOR = "room-for"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class _RequestPart(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    pass


class _AddNodes(_RequestPart, kw_only=True):
    count: int
    like: str


class _Label(_RequestPart, kw_only=True):
    node: str
    key: str
    #: None removes the label.
    value: str | None


class _Taint(_RequestPart, kw_only=True):
    node: str
    key: str
    value: str = ""
    effect: str = "NoSchedule"
    remove: bool = False


class _Scale(_RequestPart, kw_only=True):
    kind: str
    namespace: str
    name: str
    replicas: int


class WhatIfChange(_RequestPart, kw_only=True):
    add_nodes: tuple[_AddNodes, ...] = ()
    remove: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    label: tuple[_Label, ...] = ()
    taint: tuple[_Taint, ...] = ()
    scale: tuple[_Scale, ...] = ()
    rebalance: Annotated[
        str, Meta(description="A goal: mend, spread, pack, free-nodes=N, or room-for: the pods of `manifests`.")
    ] = ""
    weights: Annotated[dict[str, dict[str, int]], Meta(description="Profile to plugin to weight.")] = {}
    config: Annotated[str, Meta(description="A KubeSchedulerConfiguration as YAML.")] = ""
    manifests: Annotated[str, Meta(description="Objects to apply, as YAML.")] = ""


class _Question(_RequestPart, kw_only=True):
    change: WhatIfChange


class WorkbenchRecord(WhatIfRecord, frozen=True, kw_only=True):
    """The answer of `stowplan what-if`, with what the page shows of it."""

    #: From the current plan to the one before, and the one after the changes, once all pods have looked for a node.
    settled: DeltaMessage
    plan: DeltaMessage
    #: Commands, manifests and a configuration that would make the changes.
    commands: tuple[str, ...]
    manifests: str
    config: str
    rebalance: RebalanceRecord | None = None


class Workbench(PlainStruct):
    """Answers about one cluster: `cluster` returns its current state."""

    cluster: Callable[[], Cluster]

    def pages(self, prefix: str) -> dict[str, Callable[[Request], Response]]:
        return {f"{prefix}what-if": self._page}

    def _page(self, request: Request) -> Response:
        if request.method != "POST":
            raise MethodNotAllowed(f"{request.path} takes a POST with what changes")
        try:
            question = msgspec.json.decode(request.body, type=_Question)
        except msgspec.MsgspecError as error:
            raise BadRequest(f"what-if: {error}") from None
        return Response(encoded(self.answer(question.change)), content_type=JSON)

    def answer(self, wanted: WhatIfChange) -> WorkbenchRecord:
        try:
            cluster = self.cluster()
            changes = list(changes_of(wanted, cluster))
            if not changes:
                raise BadRequest("what-if: nothing changes")
            seen: list[Plan] = []
            record = what_if(cluster, *changes, look=lambda it: seen.append(plan_of(it.state)))
        except (ClusterError, ConfigError, LoadError) as error:
            raise BadRequest(f"what-if: {error}") from None
        before, after = seen
        shown = plan_of(cluster.state)
        return WorkbenchRecord(
            **asdict(record),
            settled=delta(difference(shown, before), version=1),
            plan=delta(difference(shown, after), version=1),
            commands=tuple(command for change in changes for command in _commands(change)),
            rebalance=next((one.plan for one in changes if isinstance(one, Rebalance)), None),
            manifests=wanted.manifests,
            config=_config_text(changes),
        )


def changes_of(wanted: WhatIfChange, cluster: Cluster, stop: Stop = never) -> Iterator[Change]:
    """`stop`: once it returns True, no more pods are moved for a goal. Raises BadRequest, LoadError."""
    for one in wanted.add_nodes:
        yield AddNodes(_within(one.count, MOST_NODES, "addNodes: count"), one.like)
    yield from map(Remove, wanted.remove)
    yield from map(Drain, wanted.drain)
    for label in wanted.label:
        yield Label(label.node, _given(label.key, "label: key"), label.value)
    for taint in wanted.taint:
        if taint.effect not in _EFFECTS:
            raise BadRequest(f"what-if: taint: effect: want one of {', '.join(_EFFECTS)}, got {taint.effect!r}")
        key = _given(taint.key, "taint: key")
        yield Taint(taint.node, key, effect="") if taint.remove else Taint(taint.node, key, taint.value, taint.effect)
    for scale in wanted.scale:
        replicas = _within(scale.replicas, MOST_REPLICAS, "scale: replicas", least=0)
        yield Scale(scale.kind, scale.namespace, scale.name, replicas)
    put = _put(wanted.manifests, cluster)
    makes_room = wanted.rebalance == _ROOM_FOR
    if put is not None and not makes_room:
        yield put
    if wanted.config.strip():
        yield Reconfigure(_mapping(wanted.config), "the configuration that was given")
    elif wanted.weights:
        yield Reconfigure(_weighted(cluster.config, wanted.weights), "other weights")
    if makes_room and put is None:
        raise BadRequest(f"what-if: rebalance: {_ROOM_FOR}: give the manifests of the pods")
    if wanted.rebalance:
        goal = RoomFor(put) if makes_room and put is not None else goal_named(wanted.rebalance)
        if goal is None:
            raise BadRequest(f"what-if: rebalance: want {GOALS}|{_ROOM_FOR}, got {wanted.rebalance!r}")
        # As the command's.
        yield Rebalance(goal, Limits(at_once=10, at_once_per_owner=1, stop=stop))


def _put(manifests: str, cluster: Cluster) -> Put | None:
    if not manifests.strip():
        return None
    found = objects_of_files(["-"], io.BytesIO(manifests.encode()), beside=cluster.state.everything())
    return Put(tuple(found.objects), "the manifests", found.workloads)


def _within(number: int, most: int, what: str, least: int = 1) -> int:
    if not least <= number <= most:
        raise BadRequest(f"what-if: {what}: want {least} to {most:,}, got {number}")
    return number


def _given(text: str, what: str) -> str:
    if not text:
        raise BadRequest(f"what-if: {what}: must not be empty")
    return text


def _mapping(text: str) -> dict[str, Any]:
    try:
        value = first_value(text)
    except (yaml.YAMLError, HostileYamlError) as error:
        raise BadRequest(f"what-if: config: {error}") from None
    if not isinstance(value, dict):
        raise BadRequest("what-if: config: want a KubeSchedulerConfiguration")
    return value


def _weighted(configuration: Configuration, weights: dict[str, dict[str, int]]) -> dict[str, Any]:
    """The configuration with other weights of its score plugins."""
    changed = configuration.to_dict()
    profiles = {profile["schedulerName"]: profile for profile in changed["profiles"]}
    scored = {one.scheduler_name: {ref.name for ref in one.points["score"]} for one in configuration.profiles}
    for name, wanted in weights.items():
        if name not in profiles:
            raise BadRequest(f"what-if: weights: there is no profile {name!r}")
        for plugin, weight in wanted.items():
            if plugin not in scored[name]:
                raise BadRequest(f"what-if: weights: profile {name!r} does not score with {plugin!r}")
            set_score_weight(profiles[name]["plugins"], plugin, _within(weight, 100, f"weights: {plugin}", least=0))
    return changed


def _commands(change: Change) -> Iterator[str]:
    """Commands that would make the change in a real cluster."""
    match change:
        case Remove(node):
            yield _command("kubectl", "delete", "node", node)
        case Drain(node):
            yield _command("kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
        case Label(node, key, value):
            what = f"{key}-" if value is None else f"{key}={value}"
            yield _command("kubectl", "label", "node", node, what, *([] if value is None else ["--overwrite"]))
        case Taint(node, key, value, effect):
            what = f"{key}={value}:{effect}" if effect else f"{key}-"
            yield _command("kubectl", "taint", "node", node, what, *(["--overwrite"] if effect else []))
        case Scale(kind, namespace, name, replicas):
            yield _command("kubectl", "scale", "-n", namespace, f"{kind.lower()}/{name}", f"--replicas={replicas}")
        case AddNodes():
            yield f"# {change.text}: by what makes nodes in your cluster"
        case Put():
            yield "kubectl apply -f manifests.yaml"
        case Reconfigure():
            yield "# kube-scheduler --config scheduler.yaml"
        case Rebalance(plan=RebalanceRecord() as plan):
            yield from commands_of(plan)
            if isinstance(change.goal, RoomFor):
                yield from _commands(change.goal.change)


def _command(*words: str) -> str:
    return shlex.join(words)


def _config_text(changes: list[Change]) -> str:
    for change in changes:
        if isinstance(change, Reconfigure):
            return to_yaml(change.config)
    return ""
