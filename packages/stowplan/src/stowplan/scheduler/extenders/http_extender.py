"""A configured extender: the pods it is interested in, its requests as plain values, and their results.

`calls.call_of` makes the body of a request, with the objects whole.

Upstream: pkg/scheduler/extender.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.types import Node, Pod
from stowplan.kube.api.urls import without_password
from stowplan.kube.config.configuration import Configuration
from stowplan.kube.config.configuration import Extender as Settings
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.extenders.answers import BindAnswer, FilterAnswer
from stowplan.scheduler.framework.eviction_plan import Candidate
from stowplan.scheduler.framework.extender import Extender, Filtered, Victims


class NodesQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes to filter or to score."""

    pod: Pod
    #: None for a node-cache-capable extender, which only gets names.
    nodes: tuple[Node, ...] | None = None
    names: tuple[str, ...] | None = None


class VictimsAsked(msgspec.Struct, frozen=True, kw_only=True):
    pods: tuple[Pod, ...]
    pdb_violations: int = 0


class PreemptQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Candidate nodes for preemption, and their victims."""

    pod: Pod
    victims: dict[str, VictimsAsked]
    #: Whether the extender only gets the victims' UIDs.
    meta: bool


class BindQuestion(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    node: str


Question = NodesQuestion | PreemptQuestion | BindQuestion


class ExtenderError(Exception):
    """An extender reported an error, or returned an impossible result."""


class HttpExtender(Extender):
    def __init__(self, extender: Settings, name: str) -> None:
        self.name = name
        self.ignorable = extender.ignorable
        self.filters = bool(extender.filter_verb)
        self.prioritizes = bool(extender.prioritize_verb)
        self.preempts = bool(extender.preempt_verb)
        self.binds = bool(extender.bind_verb)
        self.weight = extender.weight
        self._url = without_password(extender.url_prefix)
        self._knows_nodes = extender.node_cache_capable
        self._managed = frozenset(resource.name for resource in extender.managed_resources)

    def is_interested(self, pod: PodInfo) -> bool:
        return not self._managed or any(self._managed.intersection(names) for names in _resources(pod.pod))

    # -- filter and prioritize ----------------------------------------------------------------------------------------

    def filter_question(self, pod: PodInfo, nodes: Sequence[Node]) -> NodesQuestion:
        if self._knows_nodes:
            return NodesQuestion(pod=pod.pod, names=tuple(node.metadata.name for node in nodes))
        return NodesQuestion(pod=pod.pod, nodes=tuple(nodes))

    prioritize_question = filter_question

    def read_filtered(self, answer: FilterAnswer, asked: Sequence[str]) -> Filtered:
        if answer["error"]:
            raise ExtenderError(answer["error"])
        kept = answer["nodes"] or []
        if self._knows_nodes and answer["names"] is not None:
            kept, known = answer["names"], frozenset(asked)
            if not known.issuperset(kept):
                name = next(name for name in kept if name not in known)
                raise ExtenderError(
                    f'extender "{self._url}" claims a filtered node "{name}" which is not found in the input node list'
                )
        return Filtered(kept, answer["failed"], answer["unresolvable"])

    def read_scores(self, answer: Mapping[str, int]) -> Mapping[str, int]:
        return answer

    # -- preempt ------------------------------------------------------------------------------------------------------

    def preempt_question(self, pod: PodInfo, candidates: Sequence[Candidate]) -> PreemptQuestion:
        victims = {
            candidate.node_name: VictimsAsked(
                pods=tuple(_placed(victim) for victim in candidate.victims), pdb_violations=candidate.pdb_violations
            )
            for candidate in candidates
        }
        return PreemptQuestion(pod=pod.pod, victims=victims, meta=self._knows_nodes)

    def read_candidates(self, answer: Mapping[str, tuple[Sequence[str], int]]) -> Mapping[str, Victims]:
        return {node: Victims(tuple(uids), violations) for node, (uids, violations) in answer.items()}

    # -- bind ---------------------------------------------------------------------------------------------------------

    def bind_question(self, pod: PodInfo, node_name: str) -> BindQuestion:
        metadata = pod.pod.metadata
        return BindQuestion(namespace=pod.namespace, name=metadata.name, uid=metadata.uid, node=node_name)

    def read_bound(self, answer: BindAnswer) -> None:
        if answer["error"]:
            raise ExtenderError(answer["error"])


def _placed(info: PodInfo) -> Pod:
    """A pod with its node; the object of an assumed pod does not have it yet."""
    pod = info.pod
    return pod if pod.spec.node_name else replace(pod, spec=replace(pod.spec, node_name=info.node_name))


def _resources(pod: Pod) -> list[Mapping[str, object]]:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return [names for c in containers for names in (c.resources.requests, c.resources.limits)]


def configured_extenders(configuration: Configuration) -> tuple[HttpExtender, ...]:
    """The extenders of a configuration, in call order."""
    names = names_of(configuration)
    return tuple(HttpExtender(extender, names[i]) for i, extender in enumerate(configuration.extenders_in_call_order))


def names_of(configuration: Configuration) -> list[str]:
    """The name of each extender, in call order: its URL without password, numbered if several extenders share it."""
    names: list[str] = []
    for extender in configuration.extenders_in_call_order:
        url, number = without_password(extender.url_prefix), 1
        while (name := url if number == 1 else f"{url} ({number})") in names:
            number += 1
        names.append(name)
    return names
