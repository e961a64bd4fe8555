"""The engine's interface to extenders.

An extender does no I/O here. For each verb that it supports it builds a question, a plain JSON-able value. The engine
emits the question as an `Ask`, its driver delivers it, and the extender later parses the answer, again a plain value.
Answers refer to nodes and pods by the names that they had when the question was built; the engine checks what has
changed since.

    filter      which of the nodes that passed all Filter plugins remain
    prioritize  scores for those nodes, added to those of the Score plugins
    preempt     which preemption candidates remain, and their victims
    bind        write the binding, in place of the Bind plugins

Parsing raises for an invalid answer. What follows if a question fails, is answered in an invalid way, or times out (the
driver's limit; the engine has none):

                its nodes or pods, if ignorable   otherwise
    filter      stay as they were                 the attempt fails with the error, without PostFilter: SchedulerError
    (of a pod's nominated node alone)             all nodes are searched, and the extenders called again
    prioritize  get no points                     likewise
    preempt     stay candidates                   the pod stays rejected by the filters, with the error in its message
    bind        the next binder binds             the binding fails with the error; the pod backs off

Upstream: staging/src/k8s.io/kube-scheduler/framework (Extender), pkg/scheduler/extender.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import field

from stowplan.kube.api.types import Node
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.eviction_plan import Candidate
from stowplan.scheduler.framework.requests import Done, Outcome

#: Reported as the rejecting plugin of a pod for which extenders left no node.
EXTENDER = "Extender"

#: The highest score of an extender; not enforced.
MAX_EXTENDER_SCORE = 10


class ClusterChangedError(Exception):
    """The cluster changed while waiting, so the answer no longer applies: the attempt must restart.

    PostFilter plugins that wait may raise it, too.
    """

    def __str__(self) -> str:
        return "other pods took what was left while an answer was waited for"


class Filtered(PlainStruct, frozen=True):
    """An extender's filter result."""

    #: Names of the nodes that remain.
    kept: Collection[str]
    #: Node -> reason; preemption may help.
    failed: Mapping[str, str] = field(default_factory=dict)
    #: Node -> reason; preemption cannot help.
    unresolvable: Mapping[str, str] = field(default_factory=dict)


class Victims(PlainStruct, frozen=True):
    """A node's victims by UID, most important first."""

    uids: tuple[str, ...]
    pdb_violations: int = 0


class Extender(ABC):
    """An extender. Methods for verbs that it does not support are not called."""

    #: Address of its `Ask`s; unique among extenders.
    name: str
    #: Whether attempts continue without it if it fails.
    ignorable: bool = False
    filters: bool = False
    prioritizes: bool = False
    preempts: bool = False
    binds: bool = False
    #: Multiplier of its scores.
    weight: int = 1

    def is_interested(self, pod: PodInfo) -> bool:
        return True

    @abstractmethod
    def filter_question(self, pod: PodInfo, nodes: Sequence[Node]) -> Any: ...

    @abstractmethod
    def read_filtered(self, answer: Any, asked: Sequence[str]) -> Filtered:
        """Parse a filter answer. `asked`: the names of the nodes in the question."""

    @abstractmethod
    def prioritize_question(self, pod: PodInfo, nodes: Sequence[Node]) -> Any: ...

    @abstractmethod
    def read_scores(self, answer: Any) -> Mapping[str, int]:
        """Node -> score, 0…10; nodes that are missing score 0."""

    @abstractmethod
    def preempt_question(self, pod: PodInfo, candidates: Sequence[Candidate]) -> Any: ...

    @abstractmethod
    def read_candidates(self, answer: Any) -> Mapping[str, Victims]:
        """Node -> victims; nodes that are missing are no longer candidates."""

    def bind_question(self, pod: PodInfo, node_name: str) -> Any:
        """Required of extenders that bind."""
        raise NotImplementedError(f"{self.name} does not bind")

    def read_bound(self, answer: Any) -> None:
        """Raise if the pod was not bound."""
        raise NotImplementedError(f"{self.name} does not bind")


def answer_of(outcome: Outcome) -> Any:
    """The answer; raises if the question failed."""
    if isinstance(outcome, Done):
        return outcome.value
    raise outcome.error
